"""What ptxas has thrown away before it contracts: dead code, decided branches, empty branch regions.

The result is an :class:`Analysis`: the kernel's values, what of it is live, and its regions.
"""

from __future__ import annotations

from dataclasses import dataclass

from isa.lower.cfg import Block, build_blocks
from isa.lower.contract.local_memory import find_slots
from isa.lower.contract.opcodes import op_of
from isa.lower.contract.regions import Regions, find_regions
from isa.lower.contract.ssa import Values
from isa.lower.contract.values import ABS, DEF, FLUSH, MERGE, NEG, PACK, PHI, PIECE, Value, resolve
from isa.lower.ir import Instr, Kernel

__all__ = ["Analysis", "analyse"]

_MOST_ROUNDS = 8  # dropping a branch can make a comparison dead, and that another branch


@dataclass(slots=True)
class Analysis:
    """``live[i]``: instruction i does something. ``joins``: PHI and MERGE values that something live reads."""

    blocks: list[Block]
    values: Values
    live: bytearray
    joins: list[Value]
    regions: Regions


def analyse(kernel: Kernel) -> Analysis:
    """Values, liveness and regions of a bound kernel."""
    instructions = kernel.instructions
    blocks = build_blocks(instructions)
    dropped: set[int] = set()
    slots: dict[int, list[tuple[int, int]]] = {}
    for _ in range(_MOST_ROUNDS):
        values = Values(instructions, blocks, len(kernel.registers), slots, dropped)
        live, joins = _mark(instructions, values)
        changed = _decide_branches(instructions, blocks, values)
        changed = changed or _drop_branches(instructions, blocks, values, live, joins, dropped)
        if kernel.local_size and not slots:
            slots = find_slots(instructions, values, live)
            changed = changed or bool(slots)
        if not changed:
            break
    return Analysis(blocks, values, live, joins, find_regions(instructions, blocks, values, live))


# --------------------------------------------------------------------------------------------------------- dead code


def _mark(instructions: list[Instr], values: Values) -> tuple[bytearray, list[Value]]:
    """Instructions and joins whose effect can be seen."""
    live = bytearray(len(instructions))
    joins: list[Value] = []
    stack: list[Value] = []

    def keep(index: int) -> None:
        live[index] = 1
        sources = values.sources[index]
        if sources:
            stack.extend(sources)
        guard = values.guards[index]
        if guard is not None:
            stack.append(guard)

    for number in values.order:
        block = values.blocks[number]
        for index in range(block.start, block.end):
            if values.skipped[index] or index in values.dropped:
                continue
            if index in values.slots and op_of(instructions[index].form).base == "st":
                continue
            if not op_of(instructions[index].form).pure:
                keep(index)
    while stack:
        value = resolve(stack.pop())
        kind = value.kind
        if kind in (DEF, NEG, FLUSH, ABS):
            if not live[value.instr]:
                keep(value.instr)
            if kind != DEF and not value.seen:
                value.seen = True
                stack.append(value.parts[0])
        elif kind in (PHI, MERGE, PACK, PIECE) and not value.seen:
            value.seen = True
            stack.extend(value.parts)
            if kind in (PHI, MERGE):
                joins.append(value)
            if kind == MERGE and not live[value.instr]:
                keep(value.instr)
    return live, joins


# ----------------------------------------------------------------------------------------------------- control flow


def _decide_branches(instructions: list[Instr], blocks: list[Block], values: Values) -> bool:
    """Cut the edges that a constant guard never takes. Whether there were any."""
    changed = False
    for number in values.order:
        block = blocks[number]
        last = block.end - 1
        if len(block.successors) < 2 or instructions[last].guard is None or last in values.dropped:
            continue
        if op_of(instructions[last].form).control != "branch":
            continue
        if values.skipped[last]:
            _keep_only(blocks, number, block.successors[1])
            changed = True
        elif values.guards[last] is None:
            _keep_only(blocks, number, block.successors[0])
            changed = True
    return changed


def _keep_only(blocks: list[Block], number: int, successor: int) -> None:
    for other in blocks[number].successors:
        if other != successor:
            blocks[other].predecessors.remove(number)
    blocks[number].successors = [successor]


def _drop_branches(
    instructions: list[Instr], blocks: list[Block], values: Values, live: bytearray, joins: list[Value], dropped: set[int]
) -> bool:
    """Drop conditional branches whose two ways do the same nothing. Whether there were any."""
    empty = [not any(live[i] for i in range(b.start, b.end) if op_of(instructions[i].form).control != "branch") for b in blocks]
    phis: dict[int, list[Value]] = {}
    for join in joins:
        if join.kind == PHI:
            phis.setdefault(join.instr, []).append(join)
    changed = False
    for number in values.order:
        block = blocks[number]
        last = block.end - 1
        if values.guards[last] is None or op_of(instructions[last].form).control != "branch":
            continue
        if len(block.successors) == 1 and instructions[last].target == blocks[block.successors[0]].start == block.end:
            dropped.add(last)
            changed = True
        if len(block.successors) != 2:
            continue
        ends = [_follow(blocks, empty, phis, number, successor) for successor in block.successors]
        (first, via_first), (second, via_second) = ends
        if first != second or first == number:
            continue
        places = values.predecessors[first]
        if all(
            resolve(phi.parts[places.index(via_first)]) is resolve(phi.parts[places.index(via_second)])
            for phi in phis.get(first, ())
        ):
            dropped.add(last)
            _keep_only(blocks, number, block.successors[0])
            changed = True
    return changed


def _follow(blocks: list[Block], empty: list[bool], phis: dict[int, list[Value]], source: int, block: int) -> tuple[int, int]:
    """Past empty blocks with one way out where no values meet: (where that leads, the block it comes from)."""
    passed = {source}
    while empty[block] and len(blocks[block].successors) == 1 and block not in passed and block not in phis:
        passed.add(block)
        source, block = block, blocks[block].successors[0]
    return block, source
