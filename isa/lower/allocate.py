"""Give virtual registers places in the warp's register block.

PTX has unlimited registers (kernels declare thousands); a register block holds only those alive at once, so that a warp's state
fits the CPU's caches and thousands of warps fit in memory. Liveness is that of single threads: writes touch the lanes that
execute and no others, so what holds for one thread's path holds for the warp.

Linear scan over live intervals (Poletto and Sarkar, 1999), registers of one, two or four adjacent planes, predicates as words.

A function has a frame of its own, behind those of everything that calls it: what is alive around a call is never in its way.
Parameters, return values and the registers of the calling convention have places that nothing else shares.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from dataclasses import dataclass

from isa.lower.cfg import Block
from isa.lower.ir import Instr, Kernel, VReg

__all__ = ["Allocation", "allocate", "live_across", "live_intervals", "pressure"]


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
    live_in, live_out = _live(instructions, blocks)
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



def live_across(instructions: list[Instr], blocks: list[Block], indices: list[int]) -> dict[int, int]:
    """For each of some instructions: what is alive behind it and was not written by it, as a bit set of register numbers."""
    wanted = set(indices)
    found: dict[int, int] = {}
    live_out = _live(instructions, blocks)[1]
    for number, block in enumerate(blocks):
        if wanted.isdisjoint(range(block.start, block.end)):
            continue
        live = live_out[number]
        for index in range(block.end - 1, block.start - 1, -1):
            instr = instructions[index]
            if instr.guard is None:
                for register in instr.destinations():
                    live &= ~(1 << register.index)
            if index in wanted:
                found[index] = live
            for register in instr.sources():
                live |= 1 << register.index
    return found


def pressure(instructions: list[Instr], blocks: list[Block], registers: list[VReg]) -> list[int]:
    """How many 32-bit registers hold a value before each instruction or get one by it; predicates are not counted."""
    planes: dict[int, int] = {}  # planes of a register: bit set of those that have so many
    for register in registers:
        if not register.is_predicate:
            width = max(1, register.type.planes)
            planes[width] = planes.get(width, 0) | 1 << register.index
    out = [0] * len(instructions)
    live_out = _live(instructions, blocks)[1]
    for number, block in enumerate(blocks):
        live = live_out[number]
        for index in range(block.end - 1, block.start - 1, -1):
            instr = instructions[index]
            written = sum(1 << r for r in {register.index for register in instr.destinations()})
            behind = live | written
            if instr.guard is None:
                live &= ~written
            for register in instr.sources():
                live |= 1 << register.index
            out[index] = sum(width * ((live | behind) & which).bit_count() for width, which in planes.items())
    return out


def _live(instructions: list[Instr], blocks: list[Block]) -> tuple[list[int], list[int]]:
    """The registers alive where each block begins and where it ends, as bit sets."""
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
    return _solve(blocks, uses, defs)


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
    if kernel.functions:
        return _allocate_frames(kernel, ordered)
    scan = _Scan(kernel)
    scan.run(ordered)
    return Allocation(scan.plane, scan.word, scan.pool.size, scan.words.size, scan.most)


class _Scan:
    """Linear scan over the registers of one function. ``most``: the most planes alive at once."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.pool, self.words = _Pool(), _Pool()
        self.plane: dict[int, int] = {}
        self.word: dict[int, int] = {}
        self.alive = self.most = 0

    def place(self, register: VReg) -> None:
        """Give a register a place."""
        if register.is_predicate:
            self.word[register.index] = self.words.take(1)
        else:
            self.plane[register.index] = self.pool.take(register.type.planes)
            self.alive += register.type.planes
            self.most = max(self.most, self.alive)

    def run(self, ordered: list[tuple[int, int, int]]) -> None:
        """Place registers given as (first instruction, last instruction, number), in order."""
        active: list[tuple[int, int, VReg]] = []
        for first, last, index in ordered:
            register = self.kernel.registers[index]
            while active and active[0][0] < first:
                _, _, gone = heapq.heappop(active)
                if gone.is_predicate:
                    self.words.give(self.word[gone.index], 1)
                else:
                    self.pool.give(self.plane[gone.index], gone.type.planes)
                    self.alive -= gone.type.planes
            self.place(register)
            heapq.heappush(active, (last, index, register))


def _allocate_frames(kernel: Kernel, ordered: list[tuple[int, int, int]]) -> Allocation:
    """The same for a kernel with functions."""
    total = Allocation({}, {}, 0, 0, 0)
    common = _Scan(kernel)
    for register in kernel.shared_registers.values():
        common.place(register)
    apart = {register.index for register in kernel.shared_registers.values()}
    for routine in kernel.functions.values():
        apart.update(register.index for register in (*routine.formals, *routine.results))
    starts = [(i, instr.label or "") for i, instr in enumerate(kernel.instructions) if _begins(instr)]
    starts = sorted([*starts[1:], (kernel.instructions[0].target or 0, kernel.name)])
    own: dict[str, list[tuple[int, int, int]]] = {name: [] for _, name in starts}
    for first, last, index in ordered:
        if index in apart:
            continue
        # A register that may be read before it is written is alive from instruction 0 on; it belongs where it ends.
        begin, name = starts[bisect_right(starts, (last, "\U0010ffff")) - 1]
        own[name].append((max(first, begin), last, index))
    scans: dict[str, _Scan] = {}
    for name, intervals in own.items():
        scan = scans[name] = _Scan(kernel)
        routine = kernel.functions.get(name)  # type: ignore[assignment]
        for register in (*routine.formals, *routine.results) if routine is not None else ():
            scan.place(register)
        scan.run(sorted(intervals))
    _keep(total, common, 0, 0)
    for name, (plane, word) in _bases(kernel, scans, common).items():
        _keep(total, scans[name], plane, word)
    return total


def _begins(instr: Instr) -> bool:
    return instr.form.instruction.control in ("roots", "enter")


def _keep(total: Allocation, scan: _Scan, plane: int, word: int) -> None:
    """Add the places of one function, whose frame begins at a plane and a word."""
    total.plane.update({index: plane + at for index, at in scan.plane.items()})
    total.word.update({index: word + at for index, at in scan.word.items()})
    total.planes = max(total.planes, plane + scan.pool.size)
    total.words = max(total.words, word + scan.words.size)
    total.pressure = max(total.pressure, plane + scan.most)


def _bases(kernel: Kernel, scans: dict[str, _Scan], common: _Scan) -> dict[str, tuple[int, int]]:
    """Where the frame of the kernel and of each function begins: behind those of all that may call it.

    Functions that may call each other come one after another; a call among them saves what is alive (:mod:`isa.lower.link`).
    """
    base: dict[str, tuple[int, int]] = {kernel.name: (common.pool.size, common.words.size)}
    end = {kernel.name: (common.pool.size + scans[kernel.name].pool.size, common.words.size + scans[kernel.name].words.size)}
    reach = {name: routine.reach for name, routine in kernel.functions.items()}
    # What reaches more functions comes first: a caller before what it calls, if that does not call it back.
    for name in sorted(reach, key=lambda n: (-len(reach[n]), sorted(reach[n]), n)):
        before = [end[kernel.name]]
        before += [end[other] for other in base if other != kernel.name and name in reach[other]]
        base[name] = max(plane for plane, _ in before), max(word for _, word in before)
        scan = scans[name]
        end[name] = base[name][0] + scan.pool.size, base[name][1] + scan.words.size
    return base


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

