"""Launching: from Triton's arguments and metadata to a launch in tcsim."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from isa.lower.ir import Parameter
from tcsim.array import ndarray
from tcsim.device import Device
from tcsim.errors import KernelFault, LaunchError
from tcsim.triton.descriptors import Descriptor
from tcsim.triton.image import Image
from tcsim.triton.staging import Buffer, Staging, find_buffer
from tcsim.triton.tensors import DeviceTensor

__all__ = ["Launcher"]

_stagings: dict[str, Staging] = {}
"""By device name."""


class Launcher:
    """The launcher of one compiled kernel, as Triton calls it. Made of its source, for the signature, and of its metadata."""

    def __init__(self, src: Any, metadata: Any) -> None:
        self.signature = dict(src.signature)
        arg_names = src.fn.arg_names if hasattr(src, "fn") else ()
        self.names = [arg_names[key] if isinstance(key, int) and key < len(arg_names) else str(key) for key in self.signature]
        self.metadata = metadata
        self.ctas = int(getattr(metadata, "num_ctas", 1))

    def __call__(
        self,
        grid_x: int,
        grid_y: int,
        grid_z: int,
        stream: Any,
        image: Image,
        packed_metadata: Any,
        launch_metadata: Any,
        enter_hook: Any,
        exit_hook: Any,
        *values: Any,
    ) -> None:
        """Run to completion. ``values``: all arguments of the kernel in its order, constexprs too."""
        if enter_hook is not None:
            enter_hook(launch_metadata)
        grid = (int(grid_x), int(grid_y), int(grid_z))
        if 0 not in grid:
            self._launch(image, grid, values)
        if exit_hook is not None:
            exit_hook(launch_metadata)

    def _launch(self, image: Image, grid: tuple[int, int, int], values: tuple[Any, ...]) -> None:
        device = image.device
        staging = _stagings.setdefault(device.name, Staging(device.memory))
        with device:
            function = image.function(bool(self.metadata.enable_fp_fusion))
            function.max_dynamic_shared_size_bytes = self.metadata.shared
            try:
                programs = math.prod(grid)
                block = self._parameters(image, function.program.parameters, staging, programs * self.ctas, values)
                grid = (grid[0] * self.ctas, *grid[1:])  # a program takes a cluster
                cluster = (self.ctas, 1, 1) if self.ctas > 1 else None
                function(grid, 32 * self.metadata.num_warps, block, shared_mem=self.metadata.shared, cluster=cluster)
                staging.store()
            except KernelFault as fault:
                raise _with_argument(fault, device, staging) from None
            finally:
                staging.release()

    def _parameters(
        self, image: Image, parameters: Sequence[Parameter], staging: Staging, ctas: int, values: tuple[Any, ...]
    ) -> list[bytes]:
        """The bytes of each kernel parameter, after copying host arguments to the device. ``ctas``: of the launch."""
        arguments = list(self._flat(image, values))
        located = [_locate(value, name, image.device) for _, value, name in arguments]
        staging.load([buffer for _, buffer in located if buffer is not None])
        packed = []
        for (kind, given, name), (value, buffer), parameter in zip(arguments, located, parameters, strict=False):
            passed = value if buffer is None else staging.address(value)
            if isinstance(given, Descriptor):
                packed.append(given.encode(int(passed), name))
            else:
                packed.append(_scalar(kind, passed, parameter, name))
        # Triton appends pointers to scratch memory, of these sizes for each CTA.
        for size, parameter in zip(("global_scratch_size", "profile_scratch_size"), parameters[len(packed) :], strict=False):
            address = staging.scratch(ctas * getattr(self.metadata, size, 0))
            packed.append(_scalar("*", address, parameter, parameter.name))
        return packed

    def _flat(self, image: Image, values: tuple[Any, ...]) -> Iterator[tuple[str, Any, str]]:
        """Type, value and name of each argument that the compiled kernel takes: no constexprs, tuples flattened."""
        if len(values) != len(self.names):
            names = ", ".join(self.names)
            raise LaunchError(f"kernel {image.name} takes {len(self.names)} arguments ({names}); {len(values)} given")
        described = iter(getattr(self.metadata, "tensordesc_meta", None) or ())
        for kind, value, name in zip(self.signature.values(), values, self.names, strict=True):
            yield from _flatten(kind, value, name, described)


def _flatten(kind: Any, value: Any, name: str, described: Iterator[Any]) -> Iterator[tuple[str, Any, str]]:
    """``described``: what the compiler says of each descriptor for which it wants a tensor map (sm_90), in their order."""
    if isinstance(kind, tuple):
        for index, (inner, item) in enumerate(zip(kind, value, strict=True)):
            yield from _flatten(inner, item, f"{name}[{index}]", described)
    elif kind.startswith("tensordesc") and (meta := next(described, None)) is not None:
        yield "*", Descriptor(value, meta), name
        for item in (*value.shape, *value.strides):
            yield "i64", int(item), name
    elif kind.startswith("tensordesc"):
        yield "*", value.base, name
        extents = [*value.shape, *value.strides]
        # Padding and rounding flags stand between the two lists in those versions of Triton whose descriptors have them.
        flags = [value.padding == "nan"] if hasattr(value, "padding") else []
        flags += [value.round_f32_to_tf32] if hasattr(value, "round_f32_to_tf32") else []
        for item in (*extents, *flags, *extents):
            yield "i64", int(item), name
    elif kind != "constexpr":
        yield kind, value, name


def _locate(value: Any, name: str, device: Device) -> tuple[Any, Buffer | None]:
    """For a tensor its host address and buffer; anything else (a scalar, a device address) as it is, with None."""
    from triton.runtime.jit import TensorWrapper

    if isinstance(value, Descriptor):
        value = value.value.base
    while isinstance(value, TensorWrapper):
        value = value.base
    if isinstance(value, DeviceTensor):
        value = value.array
    if isinstance(value, ndarray):
        if value.device is not device:
            raise LaunchError(
                f"argument {name} is an array on {value.device.name!r}, the kernel runs on {device.name!r}. Make it after "
                f"tcsim.triton.activate({device.name!r})"
            )
        return value.data.ptr, None
    if isinstance(value, np.ndarray) or hasattr(value, "data_ptr"):
        return find_buffer(value, name)
    return value, None


_FLOATS: dict[str, type[np.floating[Any]]] = {
    "fp16": np.float16,
    "bf16": np.float32,
    "fp32": np.float32,
    "f32": np.float32,
    "fp64": np.float64,
}


def _scalar(kind: str, value: Any, parameter: Parameter, name: str) -> bytes:
    """The bytes of a number (or device address) as Triton's own launcher passes them."""
    if kind in _FLOATS:
        with np.errstate(over="ignore"):
            data = _FLOATS[kind](value).tobytes()
        return data[2:] if kind == "bf16" else data  # truncated, not rounded (triton/backends/nvidia/driver.c)
    number, bits = int(value or 0), 8 * parameter.size
    if not -(1 << (bits - 1)) <= number < 1 << bits:
        raise LaunchError(f"argument {name}: {value} does not fit the {bits} bits of its type {kind}")
    return (number & ((1 << bits) - 1)).to_bytes(parameter.size, "little")


def _with_argument(fault: KernelFault, device: Device, staging: Staging) -> KernelFault:
    """The fault, with the name of the argument whose buffer the address is in or just past."""
    name = staging.holder(device.memory.nearest(fault.address)) if fault.address is not None else ""
    if not name:
        return fault
    return KernelFault(
        f"{fault}\n  that buffer holds argument {name}",
        kind=fault.kind,
        pc=fault.pc,
        ptx_line=fault.ptx_line,
        cta=fault.cta,
        warp=fault.warp,
        lanes=fault.lanes,
        address=fault.address,
    )
