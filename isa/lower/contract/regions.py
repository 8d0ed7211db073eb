"""Regions: blocks of straight-line machine code as ptxas sees them, and how they dominate each other.

Blocks that one edge joins are one region; some instructions cut a block (:func:`isa.lower.contract.opcodes.op_of`). A guarded
instruction that is no plain arithmetic is a branch around itself: a region of its own beside the one that follows it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from isa.lower.cfg import Block
from isa.lower.contract.loops import find_loops
from isa.lower.contract.opcodes import op_of
from isa.lower.contract.ssa import Values
from isa.lower.ir import Instr

__all__ = ["Regions", "find_regions"]


@dataclass(slots=True)
class Regions:
    """``of[i]``: the region of instruction i, -1 if it is never reached; ``behind[i]``: the one after it.

    By region: ``parent`` (the one that immediately dominates it, -1 for the first), ``depth`` in that tree, ``successors``,
    ``in_loop``. ``after_call``: regions that begin behind a division, root or the like, part of which is a call. ``first`` and
    ``last``: the regions that each block begins and ends in.
    """

    of: list[int]
    behind: list[int]
    parent: list[int] = field(default_factory=list)
    depth: list[int] = field(default_factory=list)
    successors: list[list[int]] = field(default_factory=list)
    in_loop: list[bool] = field(default_factory=list)
    after_call: set[int] = field(default_factory=set)
    first: dict[int, int] = field(default_factory=dict)
    last: dict[int, int] = field(default_factory=dict)

    def new(self, parent: int, in_loop: bool) -> int:
        """Add a region below ``parent``."""
        self.parent.append(parent)
        self.depth.append(self.depth[parent] + 1 if parent >= 0 else 0)
        self.successors.append([])
        self.in_loop.append(in_loop)
        return len(self.parent) - 1


def find_regions(instructions: list[Instr], blocks: list[Block], values: Values, live: bytearray) -> Regions:
    """The regions of a kernel whose dead code and decided branches are known."""
    regions = Regions([-1] * len(instructions), [-1] * len(instructions))
    looping = {number for loop in find_loops(blocks, values) for number in loop.blocks}
    for number in values.order:
        before = values.predecessors[number]
        if len(before) == 1 and len(blocks[before[0]].successors) == 1 and before[0] in regions.last:
            current = regions.last[before[0]]
        else:
            above = values.dominators[number]
            current = regions.new(regions.last[above] if above >= 0 else -1, number in looping)
        regions.first[number] = current
        for index in range(blocks[number].start, blocks[number].end):
            splits = op_of(instructions[index].form).splits if live[index] else ""
            if splits and values.guards[index] is not None:
                alone, after = regions.new(current, number in looping), regions.new(current, number in looping)
                regions.successors[current] += [alone, after]
                regions.successors[alone].append(after)
                regions.of[index] = alone
                regions.behind[index] = current = after
                continue
            regions.of[index] = regions.behind[index] = current
            if splits == "always":
                after = regions.new(current, number in looping)
                regions.successors[current].append(after)
                if op_of(instructions[index].form).base in ("div", "rem", "rcp", "sqrt", "rsqrt"):
                    regions.after_call.add(after)
                current = after
        regions.last[number] = current
    for number in values.order:
        for successor in blocks[number].successors:
            if regions.first[successor] != regions.last[number] or successor == number:
                regions.successors[regions.last[number]].append(regions.first[successor])
    return regions
