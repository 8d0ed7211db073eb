"""tcsim: NVIDIA GPU kernels without a GPU, bit for bit, with cycles and a profile.

Shaped like CuPy: the same script runs on either. See README.md.
"""

from tcsim.array import asarray, asnumpy, empty, empty_like, full, ndarray, ones, zeros, zeros_like
from tcsim.device import Device, current_device
from tcsim.module import Function, RawKernel, RawModule
from tcsim.profiler import Profiler

__version__ = "0.1.0"
__all__ = [
    "Device",
    "Function",
    "Profiler",
    "RawKernel",
    "RawModule",
    "asarray",
    "asnumpy",
    "current_device",
    "empty",
    "empty_like",
    "full",
    "ndarray",
    "ones",
    "zeros",
    "zeros_like",
]
