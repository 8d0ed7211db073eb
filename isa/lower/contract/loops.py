"""Loops that ptxas may unroll before it contracts, and what contraction would then see.

ptxas unrolls counted loops: fully if the trip count is a constant and the body small, else by four with a remainder. A product
that crosses from one iteration to the next, or out of the loop, is then an ordinary product in all copies but the last, so that
one PTX ``add`` is fused in some iterations and not in others. Nothing static can say which; :class:`Unrolled` describes the
fused half of it, and the sums whose fate depends on it are reported instead of decided silently.

What stops it (ptxas 13.0): ``.pragma "nounroll"``, an instruction that always ends a block (``membar``, ``div.rn``), several
exits unless the trip count is constant, a step or an exit test that is no addition of a constant.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from isa.lower.cfg import Block
from isa.lower.contract.opcodes import op_of
from isa.lower.contract.ssa import Values
from isa.lower.contract.values import CONST, DEF, MERGE, PHI, Value, resolve
from isa.lower.ir import Instr, Kernel
from isa.ptx import ast

if TYPE_CHECKING:
    from isa.lower.contract.products import Sum
    from isa.lower.contract.regions import Regions

__all__ = ["Loop", "Unrolled", "find_loops", "find_unrolled", "invariant_sums", "mark_nounroll"]

_INTEGERS = frozenset({"u16", "s16", "b16", "u32", "s32", "b32", "u64", "s64", "b64"})


@dataclass(slots=True)
class Loop:
    """A natural loop: ``blocks`` with its header, and the blocks that branch back to the header."""

    header: int
    blocks: set[int]
    latches: list[int]


def find_loops(blocks: list[Block], values: Values) -> list[Loop]:
    """The natural loops of a kernel, one per header."""
    rank = {number: position for position, number in enumerate(values.order)}
    latches: dict[int, list[int]] = {}
    for number in values.order:
        for successor in blocks[number].successors:
            if rank[successor] <= rank[number]:
                latches.setdefault(successor, []).append(number)
    found = []
    for header, sources in latches.items():
        body, stack = {header}, list(sources)
        while stack:
            block = stack.pop()
            if block not in body:
                body.add(block)
                stack.extend(values.predecessors[block])
        found.append(Loop(header, body, sources))
    return found


@dataclass(slots=True)
class Unrolled:
    """Loops that may be unrolled, as they look to contraction afterwards.

    ``block_of``: the block of an instruction. ``by_header``: the loop of each header. ``loops_of[b]``: those that block b is
    in. ``whole``: headers of loops with a constant trip count. ``first_copy``: it is the first copy of a loop that disappears
    altogether that is looked at, instead of one in the middle; ``last_copy``: the last one, after which nothing goes around;
    ``last_whole``: the last one of a loop that disappears altogether, with what the one before hands on.
    """

    block_of: list[int]
    first_copy: bool = False
    last_copy: bool = False
    last_whole: bool = False
    by_header: dict[int, Loop] = field(default_factory=dict)
    loops_of: dict[int, list[Loop]] = field(default_factory=dict)
    whole: set[int] = field(default_factory=set)
    predecessors: dict[int, list[int]] = field(default_factory=dict)

    def carried(self, value: Value) -> Value | None:
        """What a join at the head of such a loop holds in the copy that is looked at; None for other values."""
        loop = self.by_header.get(value.instr) if value.kind == PHI else None
        if loop is None or self.last_copy or (self.first_copy and loop.header not in self.whole):
            return None
        inside = [number in loop.blocks for number in self.predecessors[loop.header]]
        if inside.count(not self.first_copy) != 1:
            return None
        place = inside.index(not self.first_copy)
        return resolve(value.parts[place]) if place < len(value.parts) else None

    def is_idle(self, phi: Value, block: int) -> bool:
        """Whether ``block`` does not use what a join at the head of a loop holds: it is outside, or all that it makes of that
        would go around once more."""
        loop = self.by_header.get(phi.instr)
        return loop is None or block not in loop.blocks or (self.last_whole and loop.header in self.whole)

    def dissolves(self, phi: Value, place: int) -> bool:
        """Whether operand ``place`` of a join is no join any more between two copies: what comes around such a loop, and what
        enters it if it disappears altogether."""
        loop = self.by_header.get(phi.instr) if phi.kind == PHI else None
        before = self.predecessors.get(phi.instr, [])
        return loop is not None and place < len(before) and (before[place] in loop.blocks or loop.header in self.whole)

    def leaves(self, source: int, block: int) -> bool:
        """Whether a value made by instruction ``source`` inside such a loop is used in ``block`` outside of it."""
        return not self.last_copy and any(block not in loop.blocks for loop in self.loops_of.get(self.block_of[source], ()))

    def joins(self, source: int, user: int, regions: Regions) -> bool:
        """Whether unrolling puts two instructions into one region: the end of a body and the beginning of the next, or, if
        the loop disappears altogether, what stands before it and inside."""
        for loop in self.loops_of.get(self.block_of[user], []):
            if regions.of[user] != regions.first[loop.header]:
                continue
            before = [loop.latches[0]]
            if loop.header in self.whole:
                before += [block for block in self.predecessors[loop.header] if block not in loop.blocks]
            if any(regions.of[source] == regions.last[block] for block in before):
                return True
        return False


def mark_nounroll(kernel: Kernel, module: ast.Module, name: str) -> None:
    """Give every instruction that a ``.pragma "nounroll"`` stands before that pragma; all of them if the kernel or the module
    has it."""
    function = next(f for f in module.functions if f.name == name and f.body is not None)
    lines: list[int] = []
    blocks = [function.body] if function.body is not None else []
    while blocks:
        for statement in blocks.pop().statements:
            if isinstance(statement, ast.Block):
                blocks.append(statement)
            elif isinstance(statement, ast.Directive) and _is_nounroll(statement):
                lines.append(statement.line)
    everywhere = any(_is_nounroll(directive) for directive in (*function.directives, *module.directives))
    starts = [instr.line for instr in kernel.instructions]
    for line in lines:
        at = bisect_left(starts, line)
        if at < len(starts):
            kernel.instructions[at].pragma = "nounroll"
    if everywhere:
        for instr in kernel.instructions:
            instr.pragma = "nounroll"


def _is_nounroll(directive: ast.Directive) -> bool:
    return directive.name == "pragma" and "nounroll" in directive.arguments


def invariant_sums(sums: list[Sum], blocks: list[Block], values: Values) -> list[int]:
    """Instructions of sums in a loop that do not depend on it: ptxas may compute them, or their products, before the loop, and
    regions are then others. (Compilers leave none, people do.)"""
    loops = find_loops(blocks, values)
    if not loops or not sums:
        return []
    starts = [block.start for block in blocks]

    def block_of(value: Value) -> int:
        if value.kind == PHI:
            return value.instr
        return bisect_right(starts, value.instr) - 1 if value.kind in (DEF, MERGE) else -1

    found = []
    for total in sums:
        if all(operand.product is None or operand.product.anywhere for operand in total.operands):
            continue
        here = bisect_right(starts, total.instr) - 1
        places = [block_of(operand.value) for operand in total.operands]
        if any(here in loop.blocks and not any(place in loop.blocks for place in places) for loop in loops):
            found.append(total.instr)
    return found


def find_unrolled(instructions: list[Instr], blocks: list[Block], values: Values, live: bytearray) -> Unrolled | None:
    """The loops of a kernel that ptxas may unroll, None if there are none."""
    found = Unrolled([-1] * len(instructions), predecessors=values.predecessors)
    for loop in find_loops(blocks, values):
        counted = _trip_count(loop, instructions, blocks, values, live)
        if counted is None:
            continue
        found.by_header[loop.header] = loop
        if counted:
            found.whole.add(loop.header)
        for block in loop.blocks:
            found.loops_of.setdefault(block, []).append(loop)
    if not found.by_header:
        return None
    for number in values.order:
        for index in range(blocks[number].start, blocks[number].end):
            found.block_of[index] = number
    return found


def _trip_count(loop: Loop, instructions: list[Instr], blocks: list[Block], values: Values, live: bytearray) -> bool | None:
    """None if ptxas leaves a loop alone, else whether its trip count is a constant."""
    if len(loop.latches) != 1:
        return None
    exits = [number for number in loop.blocks if any(s not in loop.blocks for s in blocks[number].successors)]
    for number in loop.blocks:
        for index in range(blocks[number].start, blocks[number].end):
            instr = instructions[index]
            if instr.pragma is not None and "nounroll" in instr.pragma:
                return None
            if live[index] and op_of(instr.form).splits == "always":
                return None
            if op_of(instr.form).control in ("exit", "branch_indexed"):
                return None
    counts = [kind for kind in (_exit_test(n, loop, instructions, blocks, values) for n in exits) if kind is not None]
    if not counts or (len(exits) > 1 and not any(counts)):
        return None
    return any(counts)


def _exit_test(number: int, loop: Loop, instructions: list[Instr], blocks: list[Block], values: Values) -> bool | None:
    """None unless a block leaves its loop by a comparison of a counter, else whether that is with a constant."""
    guard = values.guards[blocks[number].end - 1]
    if guard is None or resolve(guard).kind != DEF:
        return None
    test = resolve(guard).instr
    op = op_of(instructions[test].form)
    if op.base != "setp" or op.type not in _INTEGERS:
        return None
    sources = [resolve(value) for value in values.sources[test] or ()]
    for value, bound in zip(sources, reversed(sources), strict=True):
        phi = _counter(value, loop, instructions, values)
        if phi is not None:
            place = next(i for i, p in enumerate(values.predecessors[loop.header]) if p not in loop.blocks)
            return bound.kind == CONST and resolve(phi.parts[place]).kind == CONST
    return None


def _counter(value: Value, loop: Loop, instructions: list[Instr], values: Values) -> Value | None:
    """The join of a counter that steps by a constant, if a value is that counter before or after its step."""
    stepped = value
    if value.kind == PHI and value.instr == loop.header:
        place = values.predecessors[loop.header].index(loop.latches[0])
        stepped = resolve(value.parts[place])
    if stepped.kind != DEF or op_of(instructions[stepped.instr].form).base not in ("add", "sub"):
        return None
    operands = [resolve(source) for source in values.sources[stepped.instr] or ()]
    phi = next((v for v in operands if v.kind == PHI and v.instr == loop.header), None)
    if phi is None or not any(v.kind == CONST for v in operands):
        return None
    return phi
