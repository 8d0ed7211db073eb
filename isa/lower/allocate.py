"""Give virtual registers places in the warp's register block.

PTX has unlimited registers (kernels declare thousands); a register block holds only those alive at once, so that a warp's state
fits the CPU's caches and thousands of warps fit in memory. Liveness is that of single threads: writes touch the lanes that
execute and no others, so what holds for one thread's path holds for the warp.

Linear scan over live intervals (Poletto and Sarkar, 1999), registers of one, two or four adjacent planes, predicates as words.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from isa.lower.cfg import Block
from isa.lower.ir import Instr, Kernel, VReg

__all__ = ["Allocation", "allocate", "live_intervals"]


@dataclass(slots=True)
class Allocation:
    """``plane`` of each register index (its first), ``word`` of each predicate; how many of each there are, and the most
    32-bit registers alive at once (an estimate of what a compiler would need)."""

    plane: dict[int, int]
    word: dict[int, int]
    planes: int
    words: int
    pressure: int


def live_intervals(instructions: list[Instr], blocks: list[Block], count: int) -> list[tuple[int, int]]:
    """For each register: (first, last) instruction index over which it holds a value; (-1, -1) if unused.

    Block-level liveness by bit sets (Python integers), then one interval per register that covers every live block.
    """
    uses = [0] * len(blocks)
    defs = [0] * len(blocks)
    for number, block in enumerate(blocks):
        use = define = 0
        for index in range(block.start, block.end):
            instr = instructions[index]
            for register in instr.sources():
                bit = 1 << register.index
                if not define & bit:
                    use |= bit
            for register in instr.destinations():
                bit = 1 << register.index
                if instr.guard is not None and not define & bit:
                    use |= bit  # lanes that do not execute keep the old value
                define |= bit
        uses[number], defs[number] = use, define
    live_in, live_out = _solve(blocks, uses, defs)
    first = [-1] * count
    last = [-1] * count

    def touch(register: int, index: int) -> None:
        if first[register] < 0 or index < first[register]:
            first[register] = index
        if index > last[register]:
            last[register] = index

    for number, block in enumerate(blocks):
        for live in _bits(live_in[number]):
            touch(live, block.start)
        for live in _bits(live_out[number]):
            touch(live, block.end)
        for index in range(block.start, block.end):
            instr = instructions[index]
            for vreg in (*instr.sources(), *instr.destinations()):
                touch(vreg.index, index)
    return list(zip(first, last, strict=True))


def _solve(blocks: list[Block], uses: list[int], defs: list[int]) -> tuple[list[int], list[int]]:
    live_in = list(uses)
    live_out = [0] * len(blocks)
    work = list(range(len(blocks)))
    queued = set(work)
    while work:
        number = work.pop()
        queued.discard(number)
        out = 0
        for successor in blocks[number].successors:
            out |= live_in[successor]
        live_out[number] = out
        new = uses[number] | (out & ~defs[number])
        if new != live_in[number]:
            live_in[number] = new
            for predecessor in blocks[number].predecessors:
                if predecessor not in queued:
                    queued.add(predecessor)
                    work.append(predecessor)
    return live_in, live_out


def _bits(value: int) -> list[int]:
    out = []
    while value:
        low = value & -value
        out.append(low.bit_length() - 1)
        value ^= low
    return out


def allocate(kernel: Kernel, blocks: list[Block]) -> Allocation:
    """Assign planes and predicate words. Registers that nothing uses get none."""
    intervals = live_intervals(kernel.instructions, blocks, len(kernel.registers))
    ordered = sorted((first, last, index) for index, (first, last) in enumerate(intervals) if first >= 0)
    pool = _Pool()
    words = _Pool()
    active: list[tuple[int, int, VReg]] = []
    plane: dict[int, int] = {}
    word: dict[int, int] = {}
    alive = most = 0
    for first, last, index in ordered:
        register = kernel.registers[index]
        while active and active[0][0] < first:
            _, _, gone = heapq.heappop(active)
            if gone.is_predicate:
                words.give(word[gone.index], 1)
            else:
                pool.give(plane[gone.index], gone.type.planes)
                alive -= gone.type.planes
        if register.is_predicate:
            word[index] = words.take(1)
        else:
            plane[index] = pool.take(register.type.planes)
            alive += register.type.planes
            most = max(most, alive)
        heapq.heappush(active, (last, index, register))
    return Allocation(plane, word, pool.size, words.size, most)


class _Pool:
    """Free places in runs of 1, 2 or 4, the lowest first."""

    def __init__(self) -> None:
        self.size = 0
        self.free: dict[int, list[int]] = {1: [], 2: [], 4: []}

    def take(self, count: int) -> int:
        for width in (1, 2, 4):
            if width >= count and self.free[width]:
                start = heapq.heappop(self.free[width])
                rest = start + count
                while rest < start + width:  # give back what is left of a wider run
                    step = 2 if start + width - rest >= 2 else 1
                    heapq.heappush(self.free[step], rest)
                    rest += step
                return start
        start = self.size
        self.size += count
        return start

    def give(self, start: int, count: int) -> None:
        heapq.heappush(self.free[count], start)

