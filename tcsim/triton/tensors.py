"""What may be passed to a Triton kernel, made to look as Triton expects: something with ``data_ptr()`` and ``dtype``."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcsim.array import ndarray
from tcsim.errors import LaunchError

__all__ = ["DeviceTensor", "HostTensor", "astensor", "require_host", "taking_arrays", "unload_kernels"]

_DTYPES = frozenset(
    ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64")
) | {"bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"}
"""NumPy's and ml_dtypes' names of the element types that Triton has (triton._utils.canonicalize_dtype)."""


class HostTensor(np.ndarray[Any, Any]):
    """A view of a NumPy array with the methods of a tensor that Triton and its autotuner call."""

    is_cuda = False

    def data_ptr(self) -> int:
        """Host address of the first element; its device address will have the same remainder modulo 16."""
        return self.ctypes.data

    def element_size(self) -> int:
        return self.itemsize

    def numel(self) -> int:
        return self.size

    def stride(self, axis: int | None = None) -> int | tuple[int, ...]:
        """Elements (not bytes) from one index to the next, along an axis or along each."""
        return self.strides[axis] // self.itemsize if axis is not None else tuple(s // self.itemsize for s in self.strides)

    def zero_(self) -> HostTensor:
        self[...] = 0
        return self

    def clone(self) -> HostTensor:
        return self.copy()

    def copy_(self, source: NDArray[Any]) -> HostTensor:
        self[...] = source
        return self


class DeviceTensor:
    """A tcsim array as a tensor: ``array``, and its ``dtype`` and ``shape``."""

    is_cuda = False

    def __init__(self, array: ndarray) -> None:
        self.array, self.dtype, self.shape = array, array.dtype, array.shape

    def data_ptr(self) -> int:
        """Device address."""
        return self.array.data.ptr

    def element_size(self) -> int:
        return self.dtype.itemsize

    def numel(self) -> int:
        return self.array.size

    def stride(self, axis: int | None = None) -> int | tuple[int, ...]:
        """As :meth:`HostTensor.stride`; tcsim arrays are C-contiguous."""
        strides = tuple(int(np.prod(self.shape[i + 1 :], dtype=np.int64)) for i in range(len(self.shape)))
        return strides[axis] if axis is not None else strides

    def zero_(self) -> DeviceTensor:
        self.array.fill(0)
        return self

    def clone(self) -> DeviceTensor:
        return DeviceTensor(self.array.copy())

    def copy_(self, source: DeviceTensor) -> DeviceTensor:
        self.array.set(source.array.get())
        return self


def astensor(array: NDArray[Any] | ndarray) -> HostTensor | DeviceTensor:
    """A NumPy or tcsim array with a tensor's ``data_ptr()``, ``stride()``, … over the same memory.

    Launches take arrays as they are; this is for code around them that expects tensors, such as
    ``triton.tools.tensor_descriptor.TensorDescriptor`` and ``triton.reinterpret``.
    """
    if isinstance(array, ndarray):
        return DeviceTensor(array)
    return array if isinstance(array, HostTensor) else array.view(HostTensor)


def require_host(value: Any, name: str) -> None:
    """Raise LaunchError for a tensor in the memory of a real GPU, or one without data."""
    device = getattr(value, "device", None)
    kind = str(getattr(device, "type", device))
    if getattr(value, "is_cuda", False) or (kind != "cpu" and hasattr(type(value), "__cuda_array_interface__")):
        raise LaunchError(f"argument {name} is on a real GPU ({device}); tcsim works on host memory. Try {name}.cpu()")
    if device is not None and kind != "cpu":
        raise LaunchError(f"argument {name} is on {kind!r}; tcsim works on host memory. Try {name}.to('cpu')")


def taking_arrays(run: Callable[..., Any]) -> Callable[..., Any]:
    """``run`` of a Triton kernel or autotuner, taking NumPy and tcsim arrays and NumPy scalars too."""

    @functools.wraps(run)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        names = (*getattr(self, "arg_names", ()), *(f"#{i}" for i in range(len(args))))
        positional = (_adapted(value, name) for value, name in zip(args, names, strict=False))
        kernel = run(self, *positional, **{name: _adapted(value, name) for name, value in kwargs.items()})
        if getattr(kernel, "module", None) is not None:
            _loaded.add(kernel)
        return kernel

    return wrapper


_loaded: weakref.WeakSet[Any] = weakref.WeakSet()


def unload_kernels() -> None:
    """Mark every kernel as not loaded. A loaded one, when it dies, asks whatever driver is active then to unload it."""
    for kernel in _loaded:
        kernel.module = None
    _loaded.clear()


def _adapted(value: Any, name: str) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple):
        items = [_adapted(item, f"{name}[{i}]") for i, item in enumerate(value)]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, np.ndarray | ndarray):
        value = astensor(value)
    elif not hasattr(value, "data_ptr") and not hasattr(type(value), "__cuda_array_interface__"):
        return value
    if isinstance(value, DeviceTensor):
        return _typed(value, name)
    require_host(value, name)
    return _typed(value, name) if isinstance(value, HostTensor) else value


def _typed(tensor: HostTensor | DeviceTensor, name: str) -> HostTensor | DeviceTensor:
    if tensor.dtype.name not in _DTYPES:
        have = ", ".join(sorted(_DTYPES))
        raise LaunchError(f"argument {name} has elements of type {tensor.dtype}, which Triton lacks. It has: {have}")
    return tensor
