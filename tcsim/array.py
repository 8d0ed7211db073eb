"""Arrays in device memory, shaped like CuPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from tcsim.device import Device, current_device
from tcsim.errors import TcsimError

__all__ = ["asarray", "asnumpy", "empty", "empty_like", "full", "ndarray", "ones", "zeros", "zeros_like"]

Shape = int | tuple[int, ...]


class _Pointer:
    """``array.data.ptr``, as in CuPy."""

    def __init__(self, address: int) -> None:
        self.ptr = address


class ndarray:
    """An array in the memory of a simulated device.

    Attributes: ``shape``, ``dtype``, ``nbytes``, ``size``, ``ndim``, ``device``, ``data.ptr`` (its device address). It holds no
    arithmetic: read it back with :func:`asnumpy` or :meth:`get`, write with :meth:`set`. C-contiguous.
    """

    def __init__(self, shape: Shape, dtype: DTypeLike, device: Device | None = None) -> None:
        self.shape: tuple[int, ...] = (shape,) if isinstance(shape, int | np.integer) else tuple(int(n) for n in shape)
        if any(extent < 0 for extent in self.shape):
            raise TcsimError(f"negative extent in shape {self.shape}")
        self.dtype = np.dtype(dtype)
        if self.dtype.hasobject:
            raise TcsimError(f"dtype {self.dtype} cannot live in device memory")
        self.device = device or current_device()
        self._allocation = self.device.memory.allocate(self.nbytes)
        self.data = _Pointer(self._allocation.start)

    def __del__(self) -> None:
        allocation = getattr(self, "_allocation", None)
        if allocation is not None:
            self.device.memory.free(allocation)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes in device memory."""
        return self.size * self.dtype.itemsize

    @property
    def _host(self) -> NDArray[Any]:
        return self._allocation.data.view(self.dtype).reshape(self.shape)

    def get(self) -> NDArray[Any]:
        """A NumPy copy."""
        return self._host.copy()

    def set(self, values: ArrayLike) -> None:
        """Overwrite with values of the same shape (cast to this dtype as NumPy assignment does)."""
        source = np.asarray(values)
        if source.shape != self.shape:
            raise TcsimError(f"cannot set an array of shape {self.shape} from shape {source.shape}")
        self._host[...] = source

    def fill(self, value: Any) -> None:
        """Set every element."""
        self._host[...] = value

    def copy(self) -> ndarray:
        """A copy on the same device."""
        out = ndarray(self.shape, self.dtype, self.device)
        out._host[...] = self._host
        return out

    def view(self, dtype: DTypeLike) -> NDArray[Any]:
        """A NumPy copy of the bytes, read as another type (for types NumPy lacks)."""
        return self.get().view(dtype)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an unsized array")
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        raise TypeError("the array lives in simulated device memory; use tcsim.asnumpy(x) or x.get()")

    def __repr__(self) -> str:
        return f"<tcsim.ndarray shape={self.shape} dtype={self.dtype} device={self.device.name!r} at {self.data.ptr:#x}>"


def asarray(a: ArrayLike | ndarray, dtype: DTypeLike | None = None, order: Any = None) -> ndarray:
    """Copy a NumPy array (or anything NumPy takes) to the current device, C-contiguous."""
    if isinstance(a, ndarray):
        if a.device is current_device() and (dtype is None or a.dtype == np.dtype(dtype)):
            return a
        a = a.get()
    source = np.asarray(a, dtype=dtype)
    out = ndarray(source.shape, source.dtype)
    out._host[...] = source
    return out


def asnumpy(a: ndarray | ArrayLike) -> NDArray[Any]:
    """Copy a device array to the host (a host array is returned as it is)."""
    return a.get() if isinstance(a, ndarray) else np.asarray(a)


def empty(shape: Shape, dtype: DTypeLike = float, order: str = "C") -> ndarray:
    """An array whose contents are not to be relied on (they are zero)."""
    return ndarray(shape, dtype)


def zeros(shape: Shape, dtype: DTypeLike = float, order: str = "C") -> ndarray:
    """An array of zeros."""
    return ndarray(shape, dtype)


def ones(shape: Shape, dtype: DTypeLike = float, order: str = "C") -> ndarray:
    """An array of ones."""
    return full(shape, 1, dtype)


def full(shape: Shape, fill_value: Any, dtype: DTypeLike | None = None, order: str = "C") -> ndarray:
    """An array filled with one value."""
    out = ndarray(shape, np.asarray(fill_value).dtype if dtype is None else dtype)
    out.fill(fill_value)
    return out


def empty_like(prototype: ndarray | ArrayLike, dtype: DTypeLike | None = None) -> ndarray:
    """:func:`empty` with the shape and type of another array."""
    return empty(np.shape(prototype) if not isinstance(prototype, ndarray) else prototype.shape, _like(prototype, dtype))


def zeros_like(prototype: ndarray | ArrayLike, dtype: DTypeLike | None = None) -> ndarray:
    """:func:`zeros` with the shape and type of another array."""
    return empty_like(prototype, dtype)


def _like(prototype: ndarray | ArrayLike, dtype: DTypeLike | None) -> DTypeLike:
    if dtype is not None:
        return dtype
    return prototype.dtype if isinstance(prototype, ndarray) else np.asarray(prototype).dtype
