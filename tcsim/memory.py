"""Device memory: allocations with fixed, reproducible addresses, each backed by host memory.

Addresses are given out in order from a fixed base, so a run sees the same ones every time (they decide cache sets, and kernels
can store them). Between allocations there is always a gap: an access just past the end of a buffer finds no other one.
"""

from __future__ import annotations

import bisect

import numpy as np
from numpy.typing import NDArray

from tcsim.errors import DeviceError

__all__ = ["Allocation", "DeviceMemory"]

BASE = 0x7F00_0000_0000
ALIGNMENT = 512
"""As cudaMalloc gives (at least 256 bytes, CUDA programming guide; 512 in practice)."""


class Allocation:
    """One buffer: device address ``start``, ``nbytes``, and its bytes on the host."""

    def __init__(self, start: int, nbytes: int) -> None:
        self.start, self.nbytes = start, nbytes
        raw = np.zeros(nbytes + 64, np.uint8)
        skip = -raw.ctypes.data % 64
        self.data: NDArray[np.uint8] = raw[skip : skip + nbytes]

    @property
    def end(self) -> int:
        return self.start + self.nbytes


class DeviceMemory:
    """All allocations of a device, and the table of them that compiled kernels search."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.in_use = 0
        self._next = BASE
        self._starts: list[int] = []
        self._allocations: list[Allocation] = []
        self._table: NDArray[np.int64] | None = None

    def allocate(self, nbytes: int) -> Allocation:
        """A zeroed buffer. Raises DeviceError if the device's memory is exhausted."""
        if self.in_use + nbytes > self.capacity:
            raise DeviceError(
                f"out of device memory: {nbytes:,} bytes asked, {self.capacity - self.in_use:,} of {self.capacity:,} free"
            )
        allocation = Allocation(self._next, nbytes)
        self._next += -(-(nbytes + ALIGNMENT) // ALIGNMENT) * ALIGNMENT
        self._starts.append(allocation.start)
        self._allocations.append(allocation)
        self.in_use += nbytes
        self._table = None
        return allocation

    def free(self, allocation: Allocation) -> None:
        """Forget a buffer; its address is not given out again."""
        index = bisect.bisect_left(self._starts, allocation.start)
        if index < len(self._starts) and self._allocations[index] is allocation:
            del self._starts[index], self._allocations[index]
            self.in_use -= allocation.nbytes
            self._table = None

    @property
    def table(self) -> NDArray[np.int64]:
        """int64 [n, 3]: start, end and host address of every allocation, sorted by start."""
        if self._table is None:
            rows = [(a.start, a.end, a.data.ctypes.data) for a in self._allocations]
            self._table = np.array(rows or [(0, 0, 0)], np.int64)
        return self._table

    def nearest(self, address: int) -> Allocation | None:
        """The allocation that contains an address, or the last one before it; for messages."""
        index = bisect.bisect_right(self._starts, address) - 1
        return self._allocations[index] if index >= 0 else None

    def read(self, address: int, nbytes: int) -> bytes:
        """Bytes at a device address (must lie inside one allocation)."""
        allocation = self.nearest(address)
        if allocation is None or address + nbytes > allocation.end:
            raise DeviceError(f"no allocation holds {nbytes} bytes at {address:#x}")
        offset = address - allocation.start
        return allocation.data[offset : offset + nbytes].tobytes()

    def extent(self, address: int) -> int:
        """How many bytes of one allocation begin at a device address; 0 outside all."""
        allocation = self.nearest(address)
        return 0 if allocation is None else max(0, allocation.end - address)

    def contents(self) -> list[NDArray[np.uint8]]:
        """A copy of every byte in use, for :meth:`restore`."""
        return [allocation.data.copy() for allocation in self._allocations]

    def restore(self, contents: list[NDArray[np.uint8]]) -> None:
        """Put back what :meth:`contents` gave, since when nothing was allocated or freed."""
        for allocation, data in zip(self._allocations, contents, strict=True):
            allocation.data[...] = data

    def fingerprint(self) -> int:
        """A hash of every byte in use (to see whether a spinning kernel still changes anything)."""
        return hash(tuple(hash(a.data.tobytes()) for a in self._allocations))
