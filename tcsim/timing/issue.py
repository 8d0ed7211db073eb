"""What issues: the instructions of a program as the schedulers see them, one :class:`Entry` each.

Which they are says :mod:`tcsim.timing.lowering`, in which order they come :mod:`tcsim.timing.schedule`, what they cost
the chip's tables (:mod:`tcsim.timing.operations`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from isa.machine import SHARED
from isa.program import EXTRA, GUARD, KIND, Kind, MemoryAccess, Program
from tcsim.arch.timing_spec import Chip, Timing
from tcsim.timing.lowering import Lowering
from tcsim.timing.operations import Cost, Costs
from tcsim.timing.schedule import Expected, Names, Segment, name_results, schedule, segments
from tcsim.timing.scoreboard import CONSTANT_BANK, REASON, REASONS, SHIFT, Places
from tcsim.timing.units import TICKS, cycles_of_ns
from tcsim.timing.warp import ALL_COPIES

__all__ = [
    "NO_WAIT",
    "Entry",
    "IssueTable",
    "Unit",
    "fewest_wavefronts",
    "float_lane_ticks",
    "picker",
    "store_stage",
    "unit_of",
]

NO_WAIT = -1
"""``keep_groups`` of an instruction that waits for no copies."""

# Loads that must see the L2's value.
_UNCACHED = frozenset(("cg", "cv", "volatile", "relaxed", "acquire", "mmio"))


class Unit:
    """Who executes an instruction after it issued."""

    PIPE = 0  # its pipe alone: fixed latency
    PORT = 1  # the shared data port of the SM, without memory (shuffles)
    LOAD = 2
    STORE = 3
    ATOMIC = 4
    COPY = 5  # cp.async
    COMMIT = 6
    BARRIER = 7
    ARRIVE = 8  # at a barrier, without waiting
    EXIT = 9
    CLOCK = 10  # reads the time of its issue
    CLUSTER_ARRIVE = 11  # at the barrier of the cluster
    CLUSTER_WAIT = 12
    SIGNAL = 13  # an mbarrier object
    AWAIT = 14  # the end of a phase of one
    BULK = 15  # a copy by the TMA
    ASYNC_STORE = 16  # a store or reduction that signals one
    CONSTANT = 17  # an indexed load from a constant bank


_UNITS = {"clock": Unit.CLOCK, "cluster_arrive": Unit.CLUSTER_ARRIVE, "cluster_wait": Unit.CLUSTER_WAIT}


@dataclass(slots=True)
class Entry:
    """One instruction, with everything that can be known before it runs.

    ``row``: where its stall counters start. ``free``: no issue slot; its result is ready when its operands are. ``reads``:
    scoreboard entries it waits for, which ``operands`` picks. ``writes``: entries of its results; ``counts``: they count what
    is outstanding, as those of machine code do, and so keep the latest time. ``order``: entry of the queue in which results
    come in order, or 0. ``source``: entry that is clear ``source_latency`` cycles after the operands are on their way, or 0.
    ``guard``: entry of its guard predicate, or 0. ``slots``: issue slots, ``extra_slots`` of them after the first. ``result``:
    latency and stall reason of its result, to add to its issue cycle (all as in the scoreboard); ``after``: the same for the
    next issue of its warp. ``jump``, ``jump_back``: cycles until then if that is not the instruction behind it, but later or
    earlier ones (0: never mind). ``pipe``: number of its pipe, ``other`` that of a second one that it may take, or the same;
    ``busy``: cycles that is taken; ``port``, ``stage``: cycles of the SM's data port and of the address stage (0: as the access
    takes). ``unit``: who executes it. ``leaves_sm``: it may need the L2, or the executor. ``block``: of the instruction cache.
    ``constants``: the block of the constant banks that an operand is in (-1: it has none that a cache may miss).

    Of memory accesses: ``lane_ticks``: of an atomic, between lanes on one sector. ``cached``: the L1 may serve it.
    ``fewest_wavefronts``: without bank conflicts. ``parts``: of its payload; a tile has one per register, each an instruction
    unless it is in shared memory, where LDSM takes several.

    ``even``, ``odd``: registers that it reads from the two banks of the register file. ``dispatch``: cycles more in which it
    is dispatched. ``timed``: it must not execute
    before it issues.

    ``special``: it waits for more than operands: with ``fence`` for the warp's stores, with ``keep_groups`` for all but
    that many groups of copies (or ALL_COPIES; NO_WAIT otherwise).
    """

    pc: int
    row: int
    reads: tuple[int, ...] = ()
    free: bool = False
    writes: tuple[int, ...] = ()
    counts: bool = False
    order: int = 0
    source: int = 0
    source_latency: int = 0
    guard: int = 0
    slots: int = 0
    extra_slots: int = 0
    result: int = 0
    after: int = 0
    jump: int = 0
    jump_back: int = 0
    pipe: int = 0
    other: int = 0
    busy: int = 0
    port: int = 0
    stage: int = 0
    lane_ticks: int = 0
    unit: int = Unit.PIPE
    leaves_sm: bool = False
    block: int = 0
    constants: int = -1
    cached: bool = False
    fewest_wavefronts: int = 1
    parts: int = 1
    timed: bool = False
    even: int = 0
    odd: int = 0
    dispatch: int = 0
    special: bool = False
    fence: bool = False
    keep_groups: int = NO_WAIT
    operands: itemgetter[Any] = field(init=False)

    def __post_init__(self) -> None:
        self.operands = picker(self.reads)


_FLOATS = ("F16", "BF16", "F32", "F64")


def float_lane_ticks(chip: Chip, hz: int, opcode: str) -> int:
    """Ticks between the sums in a sector that lanes of an atomic ask for: 0 for integers, of which the L2 does one a clock."""
    floats = any(word.startswith(_FLOATS) for word in opcode.upper().split("."))
    return round(chip.l2.atomic_float_ns * hz / 1e9 * TICKS) if floats else 0


class IssueTable:
    """All entries of a program for a GPU.

    ``entries``, ``classes`` (timing classes): by instruction. ``pipes``: names, in the order of ``Entry.pipe``.
    ``starts``: the segment that starts at each instruction, if there is one that issues in another order.
    ``scoreboard``: entries of a warp's scoreboard. ``blocks``: of the instruction cache. Raises DeviceError for an
    instruction whose timing class the chip's tables lack.
    """

    def __init__(self, program: Program, timing: Timing) -> None:
        self.program, self.chip, self._hz = program, timing.chip, timing.clocks.sm_hz
        self.costs = Costs(self.chip)
        self.pipes = tuple(self.chip.pipes)
        self._load_latency = self.chip.l1.latency + cycles_of_ns(self.chip.l2.hit_ns, timing.clocks.sm_hz)
        self.lowering = Lowering(program)
        self.classes = [self.lowering.timing_class(pc) for pc in range(len(program))]
        self.starts: list[Segment | None] = [None] * len(program)
        places = Places(program)
        self._names: dict[int, Names] = {}
        for pc in range(len(program)):
            self._names |= name_results(program, range(pc, pc + 1))
        self._reorder()
        places.add_temporaries(-min((name for names in self._names.values() for name in names.writes), default=0))
        self.places, self.scoreboard = places, len(places)
        self.entries = [self._entry(pc) for pc in range(len(program))]
        self._place_in_cache()

    def _reorder(self) -> None:
        expected = [self._expected(pc) for pc in range(len(self.program))]
        for run in segments(self.program):
            names = name_results(self.program, run)
            self._names.update(names)
            self.starts[run.start] = schedule(self.program, run, names, expected)

    def _expected(self, pc: int) -> Expected:
        """What a compiler expects: loads from global memory to hit the L2."""
        if self.lowering.is_free(pc):
            return Expected(0, -1, 0, 0)
        cost, access = self.cost(pc), self.program.memory[pc]
        latency = cost.latency
        if access is not None and self._unit(pc, cost) != Unit.PIPE:
            latency += self.chip.shared_memory.latency if access.space == SHARED else self._load_latency
        return Expected(cost.slots, self.pipes.index(cost.pipe), max(1, cost.busy), latency)

    def cost(self, pc: int) -> Cost:
        """What an instruction that is not free costs."""
        return self.costs.of(self.classes[pc])

    # --------------------------------------------------------------------------------------------------- entries

    def _entry(self, pc: int) -> Entry:
        program, names = self.program, self._names[pc]
        free = self.lowering.is_free(pc)
        constant = free and self.lowering.reads_constants(pc)
        reads = (CONSTANT_BANK,) if constant else self.places.of(names.reads)
        entry = Entry(pc, pc * REASONS, reads, free, self.places.of(names.writes))
        if free:
            return entry
        cost, access = self.cost(pc), program.memory[pc]
        entry.guard = self._guard(pc)
        if access is not None:
            entry.cached = _UNCACHED.isdisjoint(program.opcodes[pc].split("."))
            entry.fewest_wavefronts = fewest_wavefronts(access)
            entry.parts = access.tile.registers if access.tile is not None else 1
        outside = access is not None and access.space != SHARED
        entry.slots = max(cost.slots, entry.parts) if outside else cost.slots
        entry.extra_slots = entry.slots - 1
        entry.result = (cost.latency << SHIFT) + REASON[cost.scoreboard]
        entry.after = (entry.extra_slots + cost.next_issue << SHIFT) + REASON[cost.pause]
        entry.pipe = entry.other = self.pipes.index(cost.pipe)
        entry.busy, entry.port, entry.stage = max(1, cost.busy), cost.port, cost.stage or self.chip.lsu.address_interval
        entry.unit = self._unit(pc, cost)
        if entry.unit == Unit.STORE and access is not None:
            entry.stage = store_stage(self.chip, access)
        entry.lane_ticks = float_lane_ticks(self.chip, self._hz, program.opcodes[pc])
        accesses_l2 = outside and entry.unit in (Unit.LOAD, Unit.STORE, Unit.ATOMIC)
        entry.leaves_sm = accesses_l2 or entry.unit in (Unit.COPY, Unit.CLOCK)
        self._waits(entry)
        return entry

    def _waits(self, entry: Entry) -> None:
        """What an instruction waits for besides its operands."""
        program, pc = self.program, entry.pc
        if program.timing[pc] == "async_wait":
            all_of_them = program.opcodes[pc].endswith("wait_all")
            entry.keep_groups = ALL_COPIES if all_of_them else int(program.code[pc, EXTRA])
        entry.fence = program.timing[pc] == "membar" and "cta" not in program.opcodes[pc].split(".")
        entry.special = entry.fence or entry.keep_groups != NO_WAIT

    def _guard(self, pc: int) -> int:
        """Scoreboard entry of the guard predicate: under the name that the instruction reads it by."""
        guard = int(self.program.code[pc, GUARD])
        if guard < 0:
            return 0
        place = 4 * (guard >> 1)
        position = self.program.reads[pc].index(place)
        return self.places.of((self._names[pc].reads[position],))[0]

    def _unit(self, pc: int, cost: Cost) -> int:
        if self.program.timing[pc] == "async_commit":
            return Unit.COMMIT
        if self.program.timing[pc] in _UNITS:
            return _UNITS[self.program.timing[pc]]
        if self.program.timing[pc] in ("load.const", "load.param"):
            return Unit.PIPE
        return unit_of(self.program, pc, cost.port)

    def _place_in_cache(self) -> None:
        """Give each instruction its block of the instruction cache, counted in machine instructions."""
        position = 0
        for entry in self.entries:
            entry.block = position // self.chip.instruction_cache.block
            position += entry.slots
        self.blocks = position // self.chip.instruction_cache.block + 1


def unit_of(program: Program, pc: int, port: int) -> int:
    """Who executes an instruction, by its kind and access. ``port``: cycles of the data port, of one without an access."""
    kind, access = program.code[pc, KIND], program.memory[pc]
    if kind == Kind.EXIT:
        return Unit.EXIT
    if kind in (Kind.BARRIER_SYNC, Kind.BARRIER_REDUCE):
        return Unit.BARRIER
    if kind == Kind.BARRIER_ARRIVE:
        return Unit.ARRIVE
    if access is None:
        return Unit.PORT if port else Unit.PIPE
    if access.kind == "copy":
        return Unit.COPY
    if access.kind == "atomic":
        return Unit.ATOMIC
    if access.kind.startswith("async_"):
        return Unit.ASYNC_STORE
    return Unit.STORE if "store" in access.kind else Unit.LOAD


def store_stage(chip: Chip, access: MemoryAccess) -> int:
    """Cycles that a store of registers holds the address stage."""
    lsu, registers = chip.lsu, max(1, access.size // 4)
    if access.kind.startswith("matrix"):
        return lsu.wavefront_interval * fewest_wavefronts(access)
    return max(lsu.address_interval, lsu.store_interval + lsu.wavefront_interval * registers)


def fewest_wavefronts(access: MemoryAccess) -> int:
    """Wavefronts of a shared-memory access without bank conflicts: 128 bytes each."""
    if access.kind.startswith("matrix"):
        return max(1, access.rows // 8)
    return max(1, access.size // 4)


def picker(places: tuple[int, ...]) -> itemgetter[Any]:
    """A function that takes entries out of a scoreboard, always as a tuple."""
    distinct = tuple(dict.fromkeys(places)) or (0,)
    return itemgetter(*distinct) if len(distinct) > 1 else itemgetter(distinct[0], distinct[0])
