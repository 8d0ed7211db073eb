"""The GPU of this machine, reached through CuPy, and what is to be written down about it.

CuPy is imported when it is first needed, so that :mod:`gpu_ref` can be imported anywhere.
"""

from __future__ import annotations

import importlib
import platform
import shutil
import subprocess
from typing import Any

from isa.errors import TcsimError

__all__ = ["ATTRIBUTES", "GpuUnavailable", "attributes", "describe_gpu", "device_name", "require_cupy"]


class GpuUnavailable(TcsimError):
    """Something that running on a real GPU needs is missing: CuPy, a driver, or a device."""


_DEVICES = {
    "NVIDIA H200": "h200",
    "NVIDIA H100": "h100",
    "NVIDIA A100": "a100",
    "NVIDIA L40S": "l40s",
    "Tesla T4": "t4",
}
"""How product names begin, and the device whose model stands for them."""


def require_cupy() -> Any:
    """The ``cupy`` module, with a usable device behind it. Raises :class:`GpuUnavailable`, which says what is missing."""
    try:
        cupy = importlib.import_module("cupy")
    except ImportError as error:
        raise GpuUnavailable(
            f"running on a GPU needs CuPy, which cannot be imported here ({error})\n"
            "  install it with: pip install cupy-cuda13x   (cupy-cuda12x for a driver of CUDA 12)\n"
            "  without a GPU, `tcsim run` simulates the same kernel"
        ) from None
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except RuntimeError as error:  # CUDARuntimeError is one
        raise GpuUnavailable(
            f"CuPy is installed but finds no CUDA driver ({error})\n  is there a GPU on this machine?"
        ) from None
    if count == 0:
        raise GpuUnavailable("CuPy is installed but this machine has no CUDA device")
    return cupy


def device_name(cupy: Any) -> str:
    """The simulated device that corresponds to the current GPU: its name in ``tcsim/arch``, or its ``sm_XY``."""
    properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.runtime.getDevice())
    product = properties["name"].decode()
    for begin, name in _DEVICES.items():
        if product.startswith(begin):
            return name
    return f"sm_{properties['major']}{properties['minor']}"


def describe_gpu(cupy: Any) -> dict[str, Any]:
    """Provenance: product, compute capability, clock limit, driver, and versions of CUDA, CuPy, NumPy and Python."""
    runtime = cupy.cuda.runtime
    properties = runtime.getDeviceProperties(runtime.getDevice())
    numpy = importlib.import_module("numpy")
    return {
        "gpu": properties["name"].decode(),
        "compute_capability": f"{properties['major']}.{properties['minor']}",
        "multiprocessors": properties["multiProcessorCount"],
        "driver": _driver_version(),
        "cuda_driver": _dotted(runtime.driverGetVersion()),
        "cuda_runtime": _dotted(runtime.runtimeGetVersion()),
        "cupy": cupy.__version__,
        "numpy": numpy.__version__,
        "python": platform.python_version(),
    }


ATTRIBUTES = {
    "max_threads_per_cta": 1,
    "shared_per_cta": 8,
    "max_sm_khz": 13,
    "sms": 16,
    "memory_khz": 36,
    "memory_bus_bits": 37,
    "l2_bytes": 38,
    "max_threads_per_sm": 39,
    "shared_per_sm": 81,
    "registers_per_sm": 82,
    "shared_per_cta_opt_in": 97,
    "max_ctas_per_sm": 106,
    "shared_reserved_per_cta": 111,
}
"""What the driver says of a device, by ``cudaDeviceAttr`` (CUDA Runtime API, driver_types.h)."""


def attributes(cupy: Any) -> dict[str, int]:
    """:data:`ATTRIBUTES` of the current GPU, and ``memory_bytes``."""
    runtime = cupy.cuda.runtime
    device = runtime.getDevice()
    found = {name: int(runtime.deviceGetAttribute(number, device)) for name, number in ATTRIBUTES.items()}
    return {**found, "memory_bytes": int(runtime.memGetInfo()[1])}


def _dotted(version: int) -> str:
    """CUDA's integer version: 13000 is 13.0."""
    return f"{version // 1000}.{version % 1000 // 10}"


def _driver_version() -> str:
    """The kernel driver's version, such as 580.159.04, from nvidia-smi; "unknown" without it."""
    if shutil.which("nvidia-smi") is None:
        return "unknown"
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = answer.stdout.split()
    return lines[0] if answer.returncode == 0 and lines else "unknown"
