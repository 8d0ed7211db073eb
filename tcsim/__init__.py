"""tcsim: NVIDIA GPU kernels without a GPU, bit for bit, with cycles and a profile.

Shaped like CuPy: the same script runs on either. See README.md.
"""

from tcsim.array import asarray, asnumpy, empty, empty_like, full, ndarray, ones, zeros, zeros_like
from tcsim.checking import Checker, CheckReport, HazardError, check
from tcsim.device import Device, current_device
from tcsim.errors import DeadlockError, DeviceError, KernelFault, LaunchError, TcsimError, UnsupportedError
from tcsim.lanes import banks, layout
from tcsim.module import Function, RawKernel, RawModule
from tcsim.numerics import Chain, Promote, SplitK, evaluate, explain, matmul
from tcsim.profiler import Profiler
from tcsim.tensor_map import TensorMapError, read_tensor_map, tensor_map_im2col, tensor_map_tiled

__version__ = "0.1.0"
__all__ = [
    "Chain",
    "CheckReport",
    "Checker",
    "DeadlockError",
    "Device",
    "DeviceError",
    "Function",
    "HazardError",
    "KernelFault",
    "LaunchError",
    "Profiler",
    "Promote",
    "RawKernel",
    "RawModule",
    "SplitK",
    "TcsimError",
    "TensorMapError",
    "UnsupportedError",
    "asarray",
    "asnumpy",
    "banks",
    "check",
    "current_device",
    "empty",
    "empty_like",
    "evaluate",
    "explain",
    "full",
    "layout",
    "matmul",
    "ndarray",
    "ones",
    "read_tensor_map",
    "tensor_map_im2col",
    "tensor_map_tiled",
    "zeros",
    "zeros_like",
]
