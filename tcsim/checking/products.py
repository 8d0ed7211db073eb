"""Registers of ``wgmma`` that other instructions touch at the wrong time (PTX ISA 9.7.15.7.1 and 9.7.15.7.3).

Until a wait covers its group, a product may still write its accumulators and read A. And what ordinary instructions have put
into either is there for a product only behind ``wgmma.fence``. Both are looked for on the lowered kernel, along every path;
where a path goes wrong, hooks watch whether it is taken. Moves are let through, and what they copy is followed: compilers put
them anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from isa.lower.cfg import build_blocks
from isa.lower.ir import Const, Instr, Kernel, VReg, registers_of
from tcsim.checking.registers import plain_move

__all__ = ["ProductRegisters", "find_product_registers"]

_OLDEST = 8
"""Groups further back than this are taken for ended."""


@dataclass
class ProductRegisters:
    """``names`` of the registers to watch. By instruction, their numbers: ``multiplied``, a product is on its way to them (or
    from them); ``moved``, (to, from); ``set``, an ordinary instruction writes them; ``touched``: it must not, if a product is
    on its way; ``used``: a product takes them, which must not have been set since the last of the ``fences``."""

    names: list[str] = field(default_factory=list)
    multiplied: dict[int, list[int]] = field(default_factory=dict)
    moved: dict[int, tuple[int, int]] = field(default_factory=dict)
    set: dict[int, list[int]] = field(default_factory=dict)
    touched: dict[int, list[int]] = field(default_factory=dict)
    used: dict[int, list[int]] = field(default_factory=dict)
    fences: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class _State:
    """``ages``: of registers under way, by index: how many groups were committed since, 0 before their own was. ``fresh``:
    registers set since the last fence."""

    ages: Mapping[int, int]
    fresh: frozenset[int]

    def joined(self, other: _State) -> _State:
        ages = dict(self.ages)
        for index, age in other.ages.items():
            ages[index] = min(age, ages.get(index, age))
        return _State(ages, self.fresh | other.fresh)


def find_product_registers(kernel: Kernel) -> ProductRegisters:
    """What to watch of a kernel, its calls expanded; nothing if all its paths are right."""
    found = ProductRegisters()
    if kernel.function_table or not any(_is_product(instr) for instr in kernel.instructions):
        return found
    touched: dict[int, set[int]] = {}
    used: dict[int, set[int]] = {}
    of_products = {r.index for instr in kernel.instructions if _is_product(instr) for r in _operands(instr)}
    for pc, instr, state in _states(kernel, frozenset(_with_origins(kernel, of_products))):
        if _is_product(instr):
            wrong = state.fresh & {r.index for r in _operands(instr)}
            used.setdefault(pc, set()).update(wrong)
        elif _move(instr) is None and not _is_order(instr):
            registers = {r.index for r in (*instr.sources(), *instr.destinations())}
            touched.setdefault(pc, set()).update(registers & set(state.ages))
    watched = sorted(_with_origins(kernel, {i for some in (*touched.values(), *used.values()) for i in some}))
    number = {index: at for at, index in enumerate(watched)}
    if not number:
        return found
    names = {r.index: r.name for instr in kernel.instructions for r in (*instr.sources(), *instr.destinations())}
    found.names = [names[index] for index in watched]
    found.touched = {pc: sorted(number[i] for i in some) for pc, some in touched.items() if some}
    found.used = {pc: sorted(number[i] for i in some) for pc, some in used.items() if some}
    for pc, instr in enumerate(kernel.instructions):
        if _is_product(instr):
            numbers = [number[r.index] for r in _operands(instr) if r.index in number]
            if numbers:
                found.multiplied[pc] = list(dict.fromkeys(numbers))
            continue
        if instr.opcode.startswith("wgmma.fence"):
            found.fences.append(pc)
        move = _move(instr)
        if move is not None and move[0].index in number and isinstance(move[1], VReg) and move[1].index in number:
            found.moved[pc] = number[move[0].index], number[move[1].index]
            continue
        written = [number[r.index] for r in instr.destinations() if r.index in number]
        if written and move is None:
            found.set[pc] = written
    return found


def _is_product(instr: Instr) -> bool:
    return instr.opcode.startswith("wgmma.mma_async")


def _is_order(instr: Instr) -> bool:
    return instr.opcode.startswith("wgmma.")


def _operands(instr: Instr) -> list[VReg]:
    """Accumulators, and A where it is in registers."""
    a = instr.args.get("a")
    return [*registers_of(instr.args.get("d")), *(registers_of(a) if isinstance(a, tuple) else [])]


def _move(instr: Instr) -> tuple[VReg, VReg | Const] | None:
    """(to, from) of a plain move that every lane makes."""
    return plain_move(instr) if instr.guard is None else None


def _with_origins(kernel: Kernel, indices: set[int]) -> set[int]:
    """These registers and those that moves copy them from."""
    pairs = [(m[0].index, m[1].index) for m in map(_move, kernel.instructions) if m is not None and isinstance(m[1], VReg)]
    before = -1
    while len(indices) != before:
        before = len(indices)
        indices = indices | {source for into, source in pairs if into in indices}
    return indices


def _states(kernel: Kernel, followed: frozenset[int]) -> Iterator[tuple[int, Instr, _State]]:
    """Every instruction with what holds before it, on some path, of the registers that are followed."""
    instructions = kernel.instructions
    blocks = build_blocks(instructions)
    starts: list[_State | None] = [None] * len(blocks)
    starts[0] = _State({}, frozenset())
    todo = [0]
    while todo:
        at = todo.pop()
        state = starts[at]
        assert state is not None
        for instr in instructions[blocks[at].start : blocks[at].end]:
            state = _after(instr, state, followed)
        for following in blocks[at].successors:
            known = starts[following]
            new = state if known is None else known.joined(state)
            if new != known:
                starts[following] = new
                todo.append(following)
    for block, start in zip(blocks, starts, strict=True):
        state = start
        for pc in range(block.start, block.end):
            if state is None:
                break
            yield pc, instructions[pc], state
            state = _after(instructions[pc], state, followed)


def _after(instr: Instr, state: _State, followed: frozenset[int]) -> _State:
    if _is_product(instr):
        indices = {r.index for r in _operands(instr)}
        return _State({**state.ages, **dict.fromkeys(indices, 0)}, state.fresh - indices)
    if instr.opcode.startswith("wgmma.fence"):
        return _State(state.ages, frozenset())
    if instr.opcode.startswith("wgmma.commit_group"):
        return _State({i: age + 1 for i, age in state.ages.items() if age < _OLDEST}, state.fresh)
    if instr.opcode.startswith("wgmma.wait_group"):
        groups = instr.args.get("n")
        most = groups.bits if isinstance(groups, Const) else 0
        return _State({i: age for i, age in state.ages.items() if age <= most}, state.fresh)
    written = followed.intersection(r.index for r in instr.destinations()) | state.ages.keys() & {
        r.index for r in instr.destinations()
    }
    move = _move(instr)
    if not written and (move is None or not isinstance(move[1], VReg) or move[1].index not in state.ages):
        return state
    if move is None:
        return _State({i: age for i, age in state.ages.items() if i not in written}, state.fresh | written)
    ages = {i: age for i, age in state.ages.items() if i not in written}
    fresh = state.fresh - written
    if isinstance(move[1], VReg):
        if move[1].index in state.ages:
            ages[move[0].index] = state.ages[move[1].index]
        if move[1].index in state.fresh:
            fresh |= written
    return _State(ages, fresh)
