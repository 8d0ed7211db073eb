"""Host memory for the time of a launch: copied to the simulated device before it, and back where it changed.

What is copied is the whole buffer that a tensor is a view of, as a GPU would hold it: strides, offsets and several views of one
buffer work as they do there, and an access outside the buffer is a fault.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcsim.errors import LaunchError
from tcsim.memory import Allocation, DeviceMemory
from tcsim.triton.tensors import require_host

__all__ = ["Buffer", "Staging", "find_buffer"]

VECTOR = 16
"""Triton compiles 16-byte accesses for pointers that are multiples of 16; a device address keeps the host's remainder."""

KEPT = 1 << 30
"""Bytes of idle device buffers above which none is kept for later launches."""


@dataclass
class Buffer:
    """Host memory [start, end) that a tensor called ``name`` is a view of. ``owner`` keeps it alive."""

    start: int
    end: int
    writeable: bool
    name: str
    owner: Any

    @property
    def bytes(self) -> NDArray[np.uint8]:
        """The memory itself."""
        return np.ctypeslib.as_array((ctypes.c_uint8 * (self.end - self.start)).from_address(self.start))

    def join(self, other: Buffer) -> None:
        """Grow to hold a buffer that overlaps this one."""
        self.start, self.end = min(self.start, other.start), max(self.end, other.end)
        self.writeable &= other.writeable
        self.owner = (self.owner, other.owner)


def find_buffer(tensor: Any, name: str) -> tuple[int, Buffer]:
    """Host address of a tensor's first element, and the buffer it lies in. Raises LaunchError if it is not on the host."""
    if isinstance(tensor, np.ndarray):
        return tensor.ctypes.data, _numpy_buffer(tensor, name)
    require_host(tensor, name)
    address = int(tensor.data_ptr())
    if hasattr(tensor, "untyped_storage"):
        storage = tensor.untyped_storage()
        start, size = int(storage.data_ptr()), int(storage.nbytes())
    elif hasattr(tensor, "numel"):
        start, size = address, int(tensor.numel()) * int(tensor.element_size())
    elif hasattr(tensor, "nbytes"):
        start, size = address, int(tensor.nbytes)
    else:
        raise LaunchError(
            f"argument {name} ({type(tensor).__name__}) has an address but no size. Give it nbytes, or numel() and "
            "element_size()"
        )
    return address, Buffer(start, start + size, True, name, tensor)


def _numpy_buffer(array: NDArray[Any], name: str) -> Buffer:
    low, high = np.lib.array_utils.byte_bounds(array)
    root = array
    while isinstance(root.base, np.ndarray):
        root = root.base
        bounds = np.lib.array_utils.byte_bounds(root)
        low, high = min(low, bounds[0]), max(high, bounds[1])
    return Buffer(low, high, root.flags.writeable, name, array)


class Staging:
    """Places host buffers in a device's memory, launch by launch.

    Device buffers are kept and given out again, lowest address first among those of the right size: the same launch finds the
    same addresses every time, and with them the same cycles.
    """

    def __init__(self, memory: DeviceMemory) -> None:
        self._memory = memory
        self._idle: list[Allocation] = []
        self._placed: list[tuple[Buffer, Allocation]] = []
        self._scratch: list[Allocation] = []

    def load(self, buffers: list[Buffer]) -> None:
        """Copy host buffers to the device, those that overlap as one."""
        for buffer in _joined([buffer for buffer in buffers if buffer.start < buffer.end]):
            allocation = self._take(buffer.end - buffer.start + buffer.start % VECTOR)
            allocation.data[buffer.start % VECTOR :] = buffer.bytes
            self._placed.append((buffer, allocation))

    def address(self, host: int) -> int:
        """Device address of a host address inside a loaded buffer (0 for one in none: the tensor is empty)."""
        for buffer, allocation in self._placed:
            if buffer.start <= host < buffer.end:
                return allocation.start + buffer.start % VECTOR + host - buffer.start
        return 0

    def holder(self, allocation: Allocation | None) -> str:
        """Name of the argument that a device buffer holds, or ""."""
        return next((buffer.name for buffer, placed in self._placed if placed is allocation), "")

    def scratch(self, nbytes: int) -> int:
        """Device address of zeroed memory for this launch (0 for none)."""
        if not nbytes:
            return 0
        allocation = self._take(nbytes)
        allocation.data[:] = 0
        self._scratch.append(allocation)
        return allocation.start

    def store(self) -> None:
        """Copy back what the launch changed. Raises LaunchError if that is memory that must not change."""
        for buffer, allocation in self._placed:
            host, device = buffer.bytes, allocation.data[buffer.start % VECTOR :]
            if np.array_equal(host, device):
                continue
            if not buffer.writeable:
                raise LaunchError(f"the kernel wrote to argument {buffer.name}, a read-only array. Try {buffer.name}.copy()")
            host[:] = device

    def release(self) -> None:
        """End the launch: device buffers become idle."""
        self._idle += [allocation for _, allocation in self._placed] + self._scratch
        self._placed.clear()
        self._scratch.clear()
        self._idle.sort(key=lambda allocation: allocation.start)
        if sum(allocation.nbytes for allocation in self._idle) > KEPT:
            for allocation in self._idle:
                self._memory.free(allocation)
            self._idle.clear()

    def _take(self, nbytes: int) -> Allocation:
        for index, allocation in enumerate(self._idle):
            if allocation.nbytes == nbytes:
                return self._idle.pop(index)
        return self._memory.allocate(nbytes)


def _joined(buffers: list[Buffer]) -> list[Buffer]:
    joined: list[Buffer] = []
    for buffer in buffers:
        overlapping = [other for other in joined if other.start < buffer.end and buffer.start < other.end]
        if not overlapping:
            joined.append(buffer)
            continue
        first = overlapping[0]
        first.join(buffer)
        for other in overlapping[1:]:
            first.join(other)
            joined.remove(other)
    return joined
