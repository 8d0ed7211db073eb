"""Reading registers: a sub-partition's register file has two banks, even and odd numbers, each of which gives a register a
cycle.

An instruction that needs more than its share keeps others from being dispatched, once the reads that have not been done are
more than what operand collection takes anyway. A value marked for reuse stays in a cache of one register for each bank and
operand position until another is read there (Huerta et al., MICRO'25, section 5.3; intervals of FFMA on an H200 agree). ``mma``
reads its three fragments, 10 registers of m16n8k16: warps that mix it with ALU work take as long on an H200 as both one after
the other.
"""

from __future__ import annotations

from isa.kernels.planes import PLANE_BYTES
from isa.program import OPERANDS, Program

__all__ = ["port_reads"]

_PIPES = frozenset(("alu", "fma"))
_FRAGMENTS = ("HMMA", "IMMA", "BMMA")


def port_reads(program: Program) -> list[tuple[int, int]]:
    """Registers that each instruction of machine code reads from the two banks. Others than those of the ALU, the FMA pipe and
    ``mma`` collect their operands elsewhere, and take none here."""
    kept: dict[tuple[int, int], int] = {}
    return [_reads(program, pc, kept) for pc in range(len(program))]


def _reads(program: Program, pc: int, kept: dict[tuple[int, int], int]) -> tuple[int, int]:
    control = program.control[pc]
    if control is not None and program.opcodes[pc].startswith(_FRAGMENTS):
        registers = [place // PLANE_BYTES for place in program.reads[pc] if place // PLANE_BYTES in _registers(program)]
        odd = sum(register % 2 for register in registers)
        return len(registers) - odd, odd
    if control is None or program.timing[pc] not in _PIPES:
        return 0, 0
    reads, read = [0, 0], set[int]()
    for slot, register in enumerate(_sources(program, pc)):
        if register is None:
            continue
        bank = register % 2
        if kept.get((bank, slot)) != register and register not in read:
            reads[bank] += 1
            kept.pop((bank, slot), None)
        read.add(register)
        if control.reuse >> slot & 1:
            kept[bank, slot] = register
    return reads[0], reads[1]


def _registers(program: Program) -> range:
    """The planes of R0 and those after it."""
    return range(1, program.registers_per_thread + 1)


def _sources(program: Program, pc: int) -> list[int | None]:
    """The register in each operand position, None for what is none: predicates have no position, the first is the result."""
    first = int(program.code[pc, OPERANDS]) // 4
    end = int(program.code[pc + 1, OPERANDS]) // 4 if pc + 1 < len(program.code) else first
    planes = [place for place in program.pool[first:end].tolist() if place % PLANE_BYTES == 0][1:]
    read = {place // PLANE_BYTES for place in program.reads[pc]}
    registers = _registers(program)
    numbers = (place // PLANE_BYTES for place in planes)
    return [number if number in read and number in registers else None for number in numbers]
