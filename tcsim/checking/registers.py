"""Registers that some path reads before it writes them, and where the value could matter.

Found by liveness on the lowered kernel: a register that is alive at its start, and those that moves copy it to. Many such paths
are never taken, and compilers read undefined registers on purpose where the result is thrown away. So a hook watches at run
time, and only what is seen from outside counts: stored values, addresses, branches.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from isa.lower.cfg import build_blocks
from isa.lower.ir import Const, Instr, Kernel, MemoryArg, VReg, registers_of

__all__ = ["Tracked", "find_unset"]


@dataclass
class Tracked:
    """Names of the registers to watch; by instruction, the numbers of those it writes, of those it shows to the outside where
    its guard holds, of its guard if that decides what is seen, and (to, from) of a move."""

    names: list[str] = field(default_factory=list)
    written: dict[int, list[int]] = field(default_factory=dict)
    read: dict[int, list[int]] = field(default_factory=dict)
    guards: dict[int, int] = field(default_factory=dict)
    moved: dict[int, tuple[int, int]] = field(default_factory=dict)


def find_unset(kernel: Kernel) -> Tracked:
    """The registers of a kernel, its calls expanded, that may be read before they are written."""
    alive = _alive_at_start(kernel)
    tracked = Tracked()
    if not alive:
        return tracked
    watched = _with_copies(kernel, alive)
    number = {register.index: at for at, register in enumerate(watched)}
    tracked.names = [register.name for register in watched]
    for pc, instr in enumerate(kernel.instructions):
        move = plain_move(instr)
        if move is not None and isinstance(move[1], VReg) and move[1].index in number:
            tracked.moved[pc] = number[move[0].index], number[move[1].index]
            continue
        guard = _deciding(instr)
        if guard is not None and guard.index in number:
            tracked.guards[pc] = number[guard.index]
        for register in instr.destinations():
            if register.index in number:
                tracked.written.setdefault(pc, []).append(number[register.index])
        for register in _shown(instr):
            if register.index in number:
                tracked.read.setdefault(pc, []).append(number[register.index])
    return tracked


def plain_move(instr: Instr) -> tuple[VReg, VReg | Const] | None:
    """(to, from) of a move of one register or constant."""
    if not instr.opcode.startswith("mov."):
        return None
    into, source = instr.args.get("d"), instr.args.get("a")
    return (into, source) if isinstance(into, VReg) and isinstance(source, VReg | Const) else None


def _with_copies(kernel: Kernel, registers: list[VReg]) -> list[VReg]:
    """These registers, and those that moves copy them to."""
    moves = [m for m in map(plain_move, kernel.instructions) if m is not None and isinstance(m[1], VReg)]
    found = {register.index: register for register in registers}
    before = 0
    while len(found) != before:
        before = len(found)
        found |= {into.index: into for into, source in moves if isinstance(source, VReg) and source.index in found}
    return list(found.values())


def _alive_at_start(kernel: Kernel) -> list[VReg]:
    instructions = kernel.instructions
    if kernel.function_table or not instructions:  # registers of functions are alive by convention
        return []
    blocks = build_blocks(instructions)
    before = [_use_and_kill(instructions[block.start : block.end]) for block in blocks]
    alive: list[set[int]] = [set(used) for used, _ in before]
    changed = True
    while changed:
        changed = False
        for at in range(len(blocks) - 1, -1, -1):
            out = set().union(*(alive[s] for s in blocks[at].successors)) if blocks[at].successors else set()
            new = alive[at] | (out - before[at][1])
            if new != alive[at]:
                alive[at], changed = new, True
    by_index = {r.index: r for i in instructions for r in i.sources()}
    return [by_index[index] for index in sorted(alive[0]) if index in by_index]


def _use_and_kill(instructions: list[Instr]) -> tuple[set[int], set[int]]:
    used: set[int] = set()
    killed: set[int] = set()
    for instr in instructions:
        used |= {r.index for r in instr.sources()} - killed
        if instr.guard is None:
            killed |= {r.index for r in instr.destinations()}
    return used, killed


def _shown(instr: Instr) -> list[VReg]:
    """Registers of an instruction whose values the outside sees: addresses, and what is stored."""
    entry = instr.form.instruction
    out: list[VReg] = []
    for operand in instr.form.operands:
        arg = instr.args.get(operand.name)
        if operand.is_address and isinstance(arg, MemoryArg) and isinstance(arg.base, VReg):
            out.append(arg.base)
        elif entry.memory in ("store", "atomic", "matrix_store", "tile_store") and not operand.is_destination:
            out += registers_of(arg)
    return out


def _deciding(instr: Instr) -> VReg | None:
    """The guard of a branch, or of what writes memory."""
    entry = instr.form.instruction
    seen = entry.control or entry.memory in ("store", "atomic")
    return instr.guard.register if instr.guard is not None and seen else None
