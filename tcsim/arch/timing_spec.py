"""The numbers of the timing model, as data. A *chip* (``chips/*.toml``) is what boards with the same die share; a board
adds its clocks, its L2 capacity and its DRAM.

Cycles are SM cycles. What belongs to another clock (L2, DRAM, address translation) is in nanoseconds or per second and
is converted with the SM clock of the prediction. Every table names the source of its numbers.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

__all__ = [
    "L1",
    "L2",
    "BoardTiming",
    "Chip",
    "Clocks",
    "Dram",
    "InstructionCache",
    "L2Capacity",
    "LaunchCosts",
    "Lsu",
    "Operation",
    "Pipe",
    "Scheduler",
    "SharedMemory",
    "Timing",
    "Translation",
]

Scoreboard = Literal["wait", "short_scoreboard", "long_scoreboard"]
Throttle = Literal["math_pipe_throttle", "mio_throttle", "lg_throttle", "dispatch_stall"]
Pause = Literal["wait", "branch_resolving", "sleeping"]


class Scheduler(Struct, frozen=True, forbid_unknown_fields=True):
    """The warp schedulers of an SM, one per sub-partition.

    ``greedy``: keep issuing the same warp while it can. ``order``: whom to take otherwise. ``guard_delay``: cycles that
    a predicate needs, beyond its latency as an operand, before it can guard an instruction.
    """

    sub_partitions: int
    greedy: bool
    order: Literal["youngest", "oldest"]
    guard_delay: int
    source: str


class InstructionCache(Struct, frozen=True, forbid_unknown_fields=True):
    """First use of code by an SM: ``block`` instructions arrive together, ``miss_ns`` after they are asked for; the
    block after one that is entered is fetched ahead. ``constant_miss_ns``: first use of the kernel's parameters by an
    SM.
    """

    block: int
    miss_ns: float
    constant_miss_ns: float
    source: str


class LaunchCosts(Struct, frozen=True, forbid_unknown_fields=True):
    """``overhead``: cycles of a launch outside all CTAs. ``dispatch_interval``: cycles from one CTA's dispatch to the
    next, for the whole chip. ``cta``: cycles from a CTA's dispatch until its warps can issue.
    """

    overhead: int
    dispatch_interval: float
    cta: int
    source: str


class Pipe(Struct, frozen=True, forbid_unknown_fields=True):
    """An execution pipe of a sub-partition. ``throttle``: the stall reason while it is busy. ``queue``: instructions
    that wait in front of it after they issued (0: it takes one only when it can start it). ``metric``: its name in
    Nsight Compute's ``sm__inst_executed_pipe_*`` ("" for none).
    """

    throttle: Throttle
    queue: int
    metric: str
    source: str


class Operation(Struct, frozen=True, forbid_unknown_fields=True):
    """What one machine instruction of some timing classes costs (:mod:`isa.instructions` names the classes).

    ``latency``: cycles from issue until a dependent instruction can issue; of a memory access only what it adds to that
    of its memory. ``interval``: cycles until its pipe takes another one (of a queued pipe: cycles of address generation
    are in ``Lsu``, and ``port`` says how long the SM's shared data port is busy). ``scoreboard``: the stall reason of
    who waits for its result. ``next_issue``: cycles until the same warp can issue again, stalled by ``pause``.
    ``active``: cycles that count as activity of its pipe, where that is not the interval (0: the interval).

    Where ptxas makes several machine instructions of one: ``slots`` issue slots, or ``times`` repetitions of the
    operation of the class ``made_of``, in a pipeline: the other fields then add to that.
    """

    classes: tuple[str, ...]
    source: str
    pipe: str = ""
    latency: int = 0
    interval: int = 1
    scoreboard: Scoreboard = "wait"
    port: int = 0
    next_issue: int = 1
    pause: Pause = "wait"
    active: int = 0
    slots: int = 1
    made_of: str = ""
    times: int = 1


class Lsu(Struct, frozen=True, forbid_unknown_fields=True):
    """The load/store unit: a sub-partition generates addresses every ``address_interval`` cycles."""

    address_interval: int
    source: str


class SharedMemory(Struct, frozen=True, forbid_unknown_fields=True):
    """``latency``: cycles of an access of one wavefront. ``wavefront_latency``: cycles that each further one adds to
    it; the port serves one a cycle. ``atomic_latency``: cycles that an atomic adds. ``barrier_release``: cycles from
    the last arrival at a CTA barrier until its warps can issue.
    """

    latency: int
    wavefront_latency: int
    atomic_latency: int
    barrier_release: int
    source: str


class L1(Struct, frozen=True, forbid_unknown_fields=True):
    """The L1 data cache of an SM. ``bytes``: what it and shared memory have together, of which ``carveouts`` (KiB) are
    the parts that shared memory can take. ``latency``: cycles of a hit. ``line_tags``: cycles of the tag stage for each
    line that an instruction touches. ``copy_latency``: cycles that cp.async adds to a load.
    """

    bytes: int
    carveouts: tuple[int, ...]
    latency: int
    line_tags: float
    copy_latency: int
    source: str


class L2(Struct, frozen=True, forbid_unknown_fields=True):
    """The L2 cache.

    ``partitions``, each next to half of the SMs (alternating in runs of ``sms_in_turn``) and of the memory; ``slices``
    in all. ``hit_ns``: what a hit in the near partition takes beyond the L1. ``far_ns``: what going to the other
    partition adds. ``requests_per_second``: requests (each of up to a line) that all slices serve together; at
    ``clock_hz`` a slice could take one a cycle, which Nsight Compute's percentages refer to. ``port_bytes``: bytes a
    cycle between an SM and the L2, each way. ``atomic_ns``: how long a slice is busy with an atomic to one sector.
    """

    partitions: int
    slices: int
    sms_in_turn: int
    hit_ns: float
    far_ns: float
    requests_per_second: float
    clock_hz: int
    port_bytes: int
    atomic_ns: float
    source: str


class Translation(Struct, frozen=True, forbid_unknown_fields=True):
    """Address translation: the first touch of a page of ``page_bytes`` in a launch takes ``first_touch_ns``."""

    page_bytes: int
    first_touch_ns: float
    source: str


class Chip(Struct, frozen=True, forbid_unknown_fields=True):
    """What a die does in how many cycles. ``pipes`` by name."""

    name: str
    scheduler: Scheduler
    instruction_cache: InstructionCache
    launch: LaunchCosts
    lsu: Lsu
    shared_memory: SharedMemory
    l1: L1
    l2: L2
    translation: Translation
    pipes: dict[str, Pipe]
    operations: tuple[Operation, ...]


class Clocks(Struct, frozen=True, forbid_unknown_fields=True):
    """``sm_hz``: the SM clock that a prediction assumes unless told otherwise."""

    sm_hz: int
    source: str


class L2Capacity(Struct, frozen=True, forbid_unknown_fields=True):
    """L2 capacity of the board, over all partitions."""

    bytes: int
    source: str


class Dram(Struct, frozen=True, forbid_unknown_fields=True):
    """Device memory: ``bytes_per_second`` is what a stream reaches over all ``channels``, ``peak_bytes_per_second``
    what the data sheet says; ``latency_ns`` is what a miss adds to an L2 hit; a fill brings ``fill_bytes``.
    """

    channels: int
    bytes_per_second: float
    peak_bytes_per_second: float
    latency_ns: float
    fill_bytes: int
    source: str


class BoardTiming(Struct, frozen=True, forbid_unknown_fields=True):
    """The ``[timing]`` table of a board: its ``chip`` by name, and what is its own."""

    chip: str
    clocks: Clocks
    l2: L2Capacity
    dram: Dram


class Timing(Struct, frozen=True):
    """Everything the timing model knows of a GPU."""

    chip: Chip
    clocks: Clocks
    l2_capacity: L2Capacity
    dram: Dram
