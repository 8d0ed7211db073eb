"""What a loop that never ends waits for: the memory it reads again and again, and what stands there. For messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from isa import machine
from isa.program import KIND, OPERANDS, TARGET, Kind, Program
from tcsim.errors import TcsimError

if TYPE_CHECKING:
    from tcsim.execute.cta import CtaSlot

__all__ = ["polled"]

_LONGEST_LOOP = 64
"""Instructions: in a longer loop, what is read first need not be what is waited for."""


def polled(slot: CtaSlot, w: int, pc: int, mask: int) -> str:
    """What the threads ``mask`` of a warp read in the loop around ``pc``, as the end of a sentence; empty if there is none."""
    program = slot.loaded.program
    loop = _loop(program, pc)
    if program.image is not None or loop is None:
        return ""
    for index in range(*loop):
        access = program.memory[index]
        if access is None or access.kind not in ("load", "atomic") or access.space == machine.PARAM:
            continue
        address = _address(slot, w, index, mask)
        where = f"{program.opcodes[index]}  {program.where(index)}"
        value = _value(slot, access.space, address, access.size)
        return f", in a loop that reads {access.size} bytes at {address:#x}{value} ({where})"
    return ""


def _loop(program: Program, pc: int) -> tuple[int, int] | None:
    """The smallest loop around an instruction: (its first instruction, one past its last)."""
    code = program.code
    found = None
    for last in range(pc, min(len(code), pc + _LONGEST_LOOP)):
        first = int(code[last, TARGET])
        if code[last, KIND] == Kind.BRANCH and 0 <= first <= pc and (found is None or last + 1 - first < found[1] - found[0]):
            found = (first, last + 1)
    return found if found is not None and found[1] - found[0] <= _LONGEST_LOOP else None


def _address(slot: CtaSlot, w: int, index: int, mask: int) -> int:
    """The address that the lowest of some lanes gives to a memory instruction, as its registers are now."""
    program = slot.loaded.program
    access = program.memory[index]
    assert access is not None
    lane = (mask & -mask).bit_length() - 1
    at = int(program.code[index, OPERANDS]) // 4 + access.operand
    plane, offset = int(program.pool[at]) // 4, int(program.pool[at + 1])
    words = slot.arrays.blocks[w]
    value = int(words[plane + lane])
    if access.planes == 2:
        value |= int(words[plane + 32 + lane]) << 32
    return (value + offset) & 0xFFFF_FFFF_FFFF_FFFF


def _value(slot: CtaSlot, space: int, address: int, size: int) -> str:
    """What stands at an address, where it is global or shared memory."""
    if space == machine.GENERIC and address >> machine.WINDOW_BITS == machine.SHARED_WINDOW >> machine.WINDOW_BITS:
        space, address = machine.SHARED, address - machine.SHARED_WINDOW
    if space == machine.SHARED:
        data = slot.shared[address : address + size].tobytes()
        return f" of shared memory, now {int.from_bytes(data, 'little'):#x}" if len(data) == size else ""
    try:
        return f", now {int.from_bytes(slot.memory.read(address, size), 'little'):#x}"
    except TcsimError:
        return ""
