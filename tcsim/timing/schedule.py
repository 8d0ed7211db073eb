"""The order in which instructions issue: what a compiler's scheduler makes of the order of the text.

PTX says what depends on what, not when: ptxas moves loads up, away from their uses, and puts independent work between.
Here a list scheduler does that for every *segment*, a run of instructions of a basic block that nothing holds in place
(branches, barriers, fences, waits, clocks and ordered memory accesses do). It issues what is ready, on the longest path
first, and lets no more values be alive than the PTX order did plus what registers allow.

Registers are renamed as a compiler's are: every result in a segment has an entry of its own in the scoreboard, except
that the last one of a register has the register's, where the following code looks for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from isa.machine import GENERIC, GLOBAL, LOCAL, SHARED
from isa.program import GUARD, KIND, RECONVERGE, TARGET, Kind, MemoryAccess, Program

__all__ = ["Expected", "Names", "Segment", "arrange", "name_results", "schedule", "segments"]

_FIXED_CLASSES = ("clock", "membar", "async_commit", "async_wait", "sleep", "exit")
_FENCING = {"acquire", "release", "acq_rel", "sc", "mmio"}
_IN_ORDER = {"volatile", "relaxed"}  # keep their place among accesses to memory

COMFORTABLE_REGISTERS = 64
"""Registers per thread up to which hoisting costs nothing: 1024 threads an SM can have that many."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What the scheduler expects of an instruction. ``slots``: 0 if it is free. ``busy``: cycles its pipe is taken."""

    slots: int
    pipe: int
    busy: int
    latency: int


@dataclass(frozen=True, slots=True)
class Names:
    """Scoreboard entries that an instruction reads and writes, by name. A result that is not the last of its register
    in the segment has a *temporary* name, a negative number; else it is the place in the register block.
    """

    reads: tuple[int, ...]
    writes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of instructions, ``pcs`` in the order of the text, and ``order``: the same as they issue. ``pick`` puts a
    list of anything, one per instruction, into that order.
    """

    pcs: list[int]
    order: list[int]
    pick: itemgetter[Any]


def segments(program: Program) -> Iterator[range]:
    """The movable runs of instructions, in the order of the text."""
    targets = {int(pc) for column in (TARGET, RECONVERGE) for pc in program.code[:, column] if pc >= 0}
    targets |= {target for table in program.branch_tables for target in table}
    start = 0
    for pc in range(len(program) + 1):
        fixed = pc == len(program) or _is_fixed(program, pc)
        if fixed or pc in targets:
            if pc > start:
                yield range(start, pc)
            start = pc + 1 if fixed else pc


def _is_fixed(program: Program, pc: int) -> bool:
    if program.code[pc, KIND] not in (Kind.KERNEL, Kind.COLLECTIVE) or program.timing[pc] in _FIXED_CLASSES:
        return True
    return not _FENCING.isdisjoint(program.opcodes[pc].split("."))


def name_results(program: Program, run: range) -> dict[int, Names]:
    """Rename the results of a segment. A guarded instruction also reads what it may overwrite."""
    last = {place: pc for pc in run for place in program.writes[pc]}
    current: dict[int, int] = {}
    names: dict[int, Names] = {}
    temporary = 0
    for pc in run:
        reads = list(program.reads[pc])
        if program.code[pc, GUARD] >= 0:
            reads += program.writes[pc]
        read_names = tuple(current.get(place, place) for place in reads)
        written = []
        for place in program.writes[pc]:
            if last[place] == pc:
                current[place] = place
            else:
                temporary -= 1
                current[place] = temporary
            written.append(current[place])
        names[pc] = Names(read_names, tuple(written))
    return names


# ------------------------------------------------------------------------------------------------------ dependences


@dataclass(slots=True)
class _Node:
    pc: int
    expected: Expected
    before: int = 0  # instructions it depends on that have not issued
    after: list[tuple[int, int]] = field(default_factory=list)  # (position, least distance in cycles)
    priority: int = 0
    ready: int = 0


_ANY_SPACE = frozenset((GLOBAL, SHARED, LOCAL))


def _spaces(access: MemoryAccess) -> frozenset[int]:
    """State spaces that an access may touch, in which order matters."""
    if access.kind == "copy":
        return frozenset((GLOBAL, SHARED))
    return _ANY_SPACE if access.space == GENERIC else frozenset((access.space,))


def _writes_memory(access: MemoryAccess) -> bool:
    return access.kind in ("store", "atomic", "copy", "matrix_store", "tile_store")


def _is_constant(program: Program, pc: int) -> bool:
    return program.timing[pc] in ("load.param", "load.const") or ".nc" in program.opcodes[pc]


def _graph(program: Program, run: range, names: dict[int, Names], expected: Sequence[Expected]) -> list[_Node]:
    nodes = [_Node(pc, expected[pc]) for pc in run]
    defined: dict[int, int] = {}
    readers: dict[int, list[int]] = {}
    touched: list[tuple[int, frozenset[int], bool]] = []
    for position, node in enumerate(nodes):
        wanted: dict[int, int] = {}
        for name in names[node.pc].reads:
            if name in defined:
                producer = nodes[defined[name]]
                wanted[defined[name]] = max(wanted.get(defined[name], 0), producer.expected.latency)
            readers.setdefault(name, []).append(position)
        for name in names[node.pc].writes:
            # Whoever reads the register's value from before the segment must have done so.
            for reader in readers.get(name, ()):
                if reader != position:
                    wanted.setdefault(reader, 0)
            defined[name] = position
            readers[name] = []
        access = program.memory[node.pc]
        if access is not None and not _is_constant(program, node.pc):
            in_order = not _IN_ORDER.isdisjoint(program.opcodes[node.pc].split("."))
            spaces = _ANY_SPACE if in_order else _spaces(access)
            writes = in_order or _writes_memory(access)
            for earlier, others, wrote in touched:
                if (writes or wrote) and spaces & others:
                    wanted.setdefault(earlier, 0)
            touched.append((position, spaces, writes))
        for producer_at, distance in wanted.items():
            nodes[producer_at].after.append((position, distance))
        node.before = len(wanted)
    for node in reversed(nodes):
        node.priority = node.expected.slots + max(
            (nodes[at].priority + distance for at, distance in node.after), default=0
        )
    return nodes


# -------------------------------------------------------------------------------------------------------- scheduling


class _Pressure:
    """Values of the segment that are alive, in registers."""

    def __init__(self, run: range, names: dict[int, Names]) -> None:
        self.names = names
        self.uses: dict[int, int] = {}
        for pc in run:
            for name in set(names[pc].reads):
                self.uses[name] = self.uses.get(name, 0) + 1
        self.alive = 0
        self.mine: set[int] = set()

    def change(self, pc: int) -> int:
        """How many more values would be alive after an instruction."""
        ends = sum(1 for name in set(self.names[pc].reads) if name < 0 and name in self.mine and self.uses[name] == 1)
        return len(self.names[pc].writes) - ends

    def issue(self, pc: int) -> None:
        self.alive += self.change(pc)
        for name in set(self.names[pc].reads):
            self.uses[name] -= 1
        self.mine.update(self.names[pc].writes)


def schedule(program: Program, run: range, names: dict[int, Names], expected: Sequence[Expected]) -> Segment | None:
    """The order in which a segment issues; None if it stays as it is. ``expected`` is indexed by pc."""
    nodes = _graph(program, run, names, expected)
    room = max(8, COMFORTABLE_REGISTERS - program.registers_per_thread)
    most = _peak(run, names) + room
    pressure = _Pressure(run, names)
    available = [position for position, node in enumerate(nodes) if not node.before]
    pipes: dict[int, int] = {}
    order: list[int] = []
    now = 0
    while available:
        chosen = _choose(nodes, available, pipes, now, pressure, most)
        available.remove(chosen)
        node = nodes[chosen]
        start = max(now, node.ready)
        if node.expected.slots:
            start = max(start, pipes.get(node.expected.pipe, 0))
            pipes[node.expected.pipe] = start + node.expected.busy
            now = start + node.expected.slots
        pressure.issue(node.pc)
        order.append(chosen)
        for at, distance in node.after:
            later = nodes[at]
            later.ready = max(later.ready, start + distance)
            later.before -= 1
            if not later.before:
                available.append(at)
    if order == list(range(len(nodes))):
        return None
    return Segment(list(run), [nodes[at].pc for at in order], itemgetter(*order))


def _choose(
    nodes: list[_Node], available: list[int], pipes: dict[int, int], now: int, pressure: _Pressure, most: int
) -> int:
    """Of the available instructions, one that can issue now and is on the longest path; else the one that can issue
    first.
    """
    full = pressure.alive >= most
    best, best_key = available[0], None
    for at in available:
        node = nodes[at]
        if not node.expected.slots:
            return at
        start = max(now, node.ready, pipes.get(node.expected.pipe, 0))
        key = (full and pressure.change(node.pc) > 0, start, -node.priority, at)
        if best_key is None or key < best_key:
            best, best_key = at, key
    return best


def _peak(run: range, names: dict[int, Names]) -> int:
    pressure = _Pressure(run, names)
    most = 0
    for pc in run:
        pressure.issue(pc)
        most = max(most, pressure.alive)
    return most


# ------------------------------------------------------------------------------------------------- putting in order


def arrange(pcs: list[int], payload: list[int], starts: Sequence[Segment | None], cut: bool) -> int:
    """Put the segments in a piece of a warp's stream into their order, in place.

    ``starts``: the segment that starts at each instruction, if any. ``cut``: the piece ends where it does only because
    a buffer was full. Returns how many instructions at its start are in order; those behind it are the first part of a
    segment, to be tried again with what follows. A segment that was interrupted (by another group of the warp) stays as
    it is.
    """
    position, count = 0, len(pcs)
    while position < count:
        segment = starts[pcs[position]]
        if segment is None:
            position += 1
            continue
        end = position + len(segment.pcs)
        if end <= count:
            if pcs[position:end] == segment.pcs:
                pcs[position:end] = segment.order
                payload[position:end] = segment.pick(payload[position:end])
                position = end
                continue
        elif cut and pcs[position:] == segment.pcs[: count - position]:
            return position
        position += 1
    return count
