"""Functions that the machine provides to kernels: printing, assertions, the heap.

A kernel's call of one stops the executor, the host does it for all lanes at once, and the executor goes on. (CUDA programming
guide, "Formatted Output", "Assertion", "Dynamic Global Memory Allocation and Operations".)
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from isa import machine
from isa.instructions.control import HOST_FUNCTIONS
from isa.program import EXTRA, OPERANDS, Program
from tcsim.execute.formatting import format_text
from tcsim.memory import Allocation, DeviceMemory

if TYPE_CHECKING:
    from tcsim.execute.cta import CtaSlot

__all__ = ["HostCalls", "HostFault", "prepare_heap"]

_NAMES = tuple(HOST_FUNCTIONS)
_LONGEST_TEXT = 1 << 20
HEAP_BYTES = 8 << 20
"""Device heap: CUDA's default for cudaLimitMallocHeapSize."""


class HostFault(Exception):
    """What ends a kernel in a call of the host: ``kind`` and ``detail`` for the message, the ``lane``, an address or None."""

    def __init__(self, kind: str, detail: str, lane: int, address: int | None = None) -> None:
        super().__init__(detail)
        self.kind, self.detail, self.lane, self.address = kind, detail, lane, address


def _no_memory(address: int, lane: int) -> HostFault:
    detail = f"a string or argument list at {address:#x}, which belongs to no memory of this thread"
    return HostFault("OUT OF BOUNDS", detail, lane, address)


class _Heap:
    """First-fit blocks of one allocation; they stay between launches, as on a GPU."""

    def __init__(self, memory: DeviceMemory) -> None:
        self.allocation: Allocation = memory.allocate(HEAP_BYTES)
        self.free = [(self.allocation.start, HEAP_BYTES)]
        self.used: dict[int, int] = {}

    def take(self, size: int) -> int:
        """A block's address, or 0 if there is no room."""
        size = max(16, -(-size // 16) * 16)
        for index, (start, room) in enumerate(self.free):
            if room >= size:
                self.free[index : index + 1] = [(start + size, room - size)] if room > size else []
                self.used[start] = size
                return start
        return 0

    def give(self, start: int) -> bool:
        """Return a block. False if it is none."""
        size = self.used.pop(start, 0)
        if not size:
            return False
        blocks = sorted([*self.free, (start, size)])
        self.free = [blocks[0]]
        for at, room in blocks[1:]:
            last, length = self.free[-1]
            if last + length == at:
                self.free[-1] = (last, length + room)
            else:
                self.free.append((at, room))
        return True


_heaps: WeakKeyDictionary[DeviceMemory, _Heap] = WeakKeyDictionary()


def _heap(memory: DeviceMemory) -> _Heap:
    heap = _heaps.get(memory)
    if heap is None:
        heap = _heaps[memory] = _Heap(memory)
    return heap


def prepare_heap(program: Program, memory: DeviceMemory) -> None:
    """Make the device heap before a program that uses it runs."""
    if any(opcode in ("call.host.malloc", "call.host.free") for opcode in program.opcodes):
        _heap(memory)


class HostCalls:
    """Does what one CTA slot's threads ask of the host."""

    def __init__(self, slot: CtaSlot) -> None:
        self.slot = slot

    def serve(self, warp: int, pc: int, lanes: int) -> None:
        """Do the call at ``pc`` for a set of lanes. Raises HostFault."""
        program = self.slot.loaded.program
        name = _NAMES[int(program.code[pc, EXTRA])]
        returned, passed = HOST_FUNCTIONS[name]
        row = int(program.code[pc, OPERANDS]) // 4
        places = [int(program.pool[row + number]) for number in range(len(returned) + len(passed))]
        block = self.slot.arrays.blocks[warp]
        for lane in (lane for lane in range(32) if lanes >> lane & 1):
            values = [_read(block, at, width, lane) for at, width in zip(places[len(returned) :], passed, strict=True)]
            result = self._do(name, values, warp, lane)
            for at, width in zip(places, returned, strict=False):
                _write(block, at, width, lane, result)

    def _do(self, name: str, values: list[int], warp: int, lane: int) -> int:
        if name == "vprintf":
            return self._print(values[0], values[1], warp, lane)
        if name == "malloc":
            return _heap(self.slot.memory).take(values[0]) if values[0] else 0
        if name == "free":
            if values[0] and not _heap(self.slot.memory).give(values[0]):
                raise HostFault("BAD FREE", f"free({values[0]:#x}): not a block that malloc gave", lane, values[0])
            return 0
        message, file, line, function = (self._text(values[i], warp, lane) if i != 2 else values[2] for i in range(4))
        raise HostFault("ASSERTION FAILED", f"{file}:{line}: {function}: assertion `{message}` failed", lane)

    def _print(self, text: int, arguments: int, warp: int, lane: int) -> int:
        def read(offset: int, size: int) -> bytes:
            return self._bytes(arguments + offset, size, warp, lane)

        def string(address: int) -> str:
            return self._text(address, warp, lane) if address else "(null)"

        shown, count = format_text(self._text(text, warp, lane), read, string)
        sys.stdout.write(shown)
        return count

    # ------------------------------------------------------------------------------------------------------ memory

    def _text(self, address: int, warp: int, lane: int) -> str:
        """The zero-terminated string at a generic address."""
        out = bytearray()
        while len(out) < _LONGEST_TEXT:
            byte = self._bytes(address + len(out), 1, warp, lane)
            if byte == b"\0":
                break
            out += byte
        return out.decode("utf-8", "replace")

    def _bytes(self, address: int, size: int, warp: int, lane: int) -> bytes:
        """Bytes at a generic address as a lane sees it."""
        slot, program = self.slot, self.slot.loaded.program
        window, offset = address >> machine.WINDOW_BITS, address & ((1 << machine.WINDOW_BITS) - 1)
        if window == machine.LOCAL_WINDOW >> machine.WINDOW_BITS:
            held, at, limit = slot.local, (warp * 32 + lane) * program.local_size + offset, program.local_size
        elif window == (machine.SHARED_WINDOW >> machine.WINDOW_BITS) + int(slot.ctx[machine.RANK]):
            held, at, limit = slot.shared, offset, len(slot.shared)
        else:
            allocation = slot.memory.nearest(address)
            if allocation is None or address + size > allocation.end:
                raise _no_memory(address, lane)
            return allocation.data[address - allocation.start : address - allocation.start + size].tobytes()
        if offset + size > limit:
            raise _no_memory(address, lane)
        return held[at : at + size].tobytes()


def _read(block: np.ndarray[tuple[int], np.dtype[np.uint32]], at: int, width: int, lane: int) -> int:
    low = int(block[at // 4 + lane])
    return low | int(block[at // 4 + 32 + lane]) << 32 if width == 8 else low


def _write(block: np.ndarray[tuple[int], np.dtype[np.uint32]], at: int, width: int, lane: int, value: int) -> None:
    block[at // 4 + lane] = value & 0xFFFF_FFFF
    if width == 8:
        block[at // 4 + 32 + lane] = value >> 32
