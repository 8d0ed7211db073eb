"""The driver that Triton talks to: what it asks of a GPU, answered for a simulated one."""

from __future__ import annotations

from typing import Any, ClassVar

from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase

from tcsim.arch import find_timing
from tcsim.device import Device
from tcsim.errors import TcsimError
from tcsim.triton.bench import do_bench
from tcsim.triton.image import Image
from tcsim.triton.launcher import Launcher

__all__ = ["SimulatorDriver"]

Loaded = tuple[Image, Image, int, int, int]


class _Utils:
    """Loading of kernels, and properties of the device."""

    def __init__(self, device: Device) -> None:
        self._device = device

    def load_binary(self, name: str, binary: bytes, shared: int, device: int) -> Loaded:
        """A kernel made ready: module and function handle, registers per thread (estimated), spills (0), threads per CTA."""
        image = Image(name, binary.decode(), self._device)
        limit = min(image.function().max_threads_per_block, self._device.arch.limits.max_threads_per_cta)
        return image, image, image.function().num_regs, 0, limit

    def unload_module(self, module: Image) -> None:
        """Nothing to do: an image is freed with its last reference."""

    def get_device_properties(self, device: int) -> dict[str, int]:
        """In Triton's words and units (clock in kHz), without the memory clock and bus width, which tcsim does not model."""
        arch = self._device.arch
        properties = {
            "max_shared_mem": arch.limits.shared_per_cta_opt_in,
            "max_num_regs": arch.limits.registers_per_sm,
            "multiprocessor_count": arch.limits.sms,
            "warpSize": 32,
        }
        if arch.timing is not None:
            properties["sm_clock_rate"] = find_timing(arch).clocks.sm_hz // 1000
        return properties


class SimulatorDriver(DriverBase):
    """A driver for one simulated device and compilation target. ``device``, ``sm``: those two."""

    _numbers: ClassVar[dict[tuple[str, int], int]] = {}

    def __init__(self, device: Device, sm: int) -> None:
        super().__init__()
        self.device, self.sm = device, sm
        self.utils = _Utils(device)
        self.launcher_cls = Launcher
        # Triton keeps compiled kernels by device number: each device and target has its own, far from any real GPU's.
        self._number = self._numbers.setdefault((device.name, sm), 1000 + len(self._numbers))

    @classmethod
    def is_active(cls) -> bool:
        """Never of its own accord: only :func:`tcsim.triton.activate` selects it."""
        return False

    def get_current_target(self) -> Any:
        return GPUTarget("cuda", self.sm, 32)

    def get_current_device(self) -> int:
        return self._number

    def set_current_device(self, device: int) -> None:
        if device != self._number:
            raise TcsimError(f"there is no device {device}: Triton runs on {self.device.name} in tcsim")

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_device_capability(self, device: int) -> tuple[int, int]:
        return divmod(self.device.arch.sm, 10)

    def get_active_torch_device(self) -> Any:
        """PyTorch's CPU: that is where tensors for simulated launches live."""
        import torch

        return torch.device("cpu")

    def get_device_interface(self) -> Any:
        raise TcsimError(
            "a simulated GPU has no events and streams. If this comes from a do_bench that was imported before "
            "tcsim.triton.activate(): import it afterwards, or use tcsim.triton.do_bench"
        )

    def get_benchmarker(self) -> Any:
        return do_bench

    def map_python_to_cpp_type(self, ty: str) -> Any:
        from triton.backends.nvidia.driver import ty_to_cpp

        return ty_to_cpp(ty)
