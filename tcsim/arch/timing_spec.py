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
    "Clusters",
    "ConstantCache",
    "Dram",
    "InstructionCache",
    "L2Capacity",
    "LaunchCosts",
    "Lsu",
    "MachineOperation",
    "Operation",
    "Pipe",
    "Scheduler",
    "SharedMemory",
    "Timing",
    "Tma",
    "Translation",
]

Scoreboard = Literal["wait", "short_scoreboard", "long_scoreboard"]
Throttle = Literal["math_pipe_throttle", "mio_throttle", "lg_throttle", "dispatch_stall"]
Pause = Literal["wait", "branch_resolving", "sleeping"]


class Scheduler(Struct, frozen=True, forbid_unknown_fields=True):
    """The warp schedulers of an SM, one per sub-partition.

    ``greedy``: keep issuing the same warp while it can. ``order``: whom to take otherwise (``least_recent``: who has issued
    nothing for longest; ``oldest_cta``: that one of the CTA that came first). ``guard_delay``: cycles that
    a predicate needs, beyond its latency as an operand, before it can guard an instruction. ``jump_interval``: cycles from the
    target of one jump to that of another, of any warps. ``jump_apart``: cycles more of a jump back that leaves lanes of the
    warp behind, which wait where the loop ends. ``operand_cycles``: for so long an instruction's operands may be read
    before it keeps others from issuing.
    """

    sub_partitions: int
    greedy: bool
    order: Literal["least_recent", "youngest", "oldest", "oldest_cta"]
    guard_delay: int
    jump_interval: int
    jump_apart: int
    operand_cycles: int
    source: str


class InstructionCache(Struct, frozen=True, forbid_unknown_fields=True):
    """The instruction caches of an SM: ``blocks`` of ``block`` instructions, those used least recently making room for others.

    A block that is not there comes ``miss_ns`` after it is asked for, and the ``ahead`` blocks behind it are fetched as well,
    one every ``block_ns``. The first of a launch comes to an SM after ``first_miss_ns``. All SMs of a launch ask for that at
    about the same time: on average it takes ``shared_ns`` longer for each of them, and they get it one after another; blocks
    are at least ``shared_block_ns`` for each of them apart.
    ``constant_miss_ns``: first use of the kernel's parameters by an SM, once it has its first instructions (of PTX; machine
    code misses them by blocks, :class:`ConstantCache`). Each SM of the launch adds ``shared_constant_ns`` to a miss.
    """

    block: int
    blocks: int
    ahead: int
    miss_ns: float
    first_miss_ns: float
    block_ns: float
    shared_ns: float
    shared_block_ns: float
    constant_miss_ns: float
    shared_constant_ns: float
    source: str


class ConstantCache(Struct, frozen=True, forbid_unknown_fields=True):
    """The constant caches of an SM, of machine code: ``operand_bytes`` for constants that are operands, ``indexed_bytes`` for
    those that LDC loads. One that is not there takes ``operand_miss``, ``indexed_miss`` cycles more, and when its line of
    ``line_bytes`` is used for the first time ``line_ns`` besides; those of the bank of the parameters have been used. A load by
    an index takes ``way`` cycles for each different address after the first.
    """

    operand_bytes: int
    indexed_bytes: int
    line_bytes: int
    operand_miss: int
    indexed_miss: int
    line_ns: float
    way: int
    source: str


class LaunchCosts(Struct, frozen=True, forbid_unknown_fields=True):
    """``overhead_ns``: a launch outside all CTAs; ``busy_sm_ns`` more for each SM that runs some, and the more it reads from
    memory, up to ``drain_ns`` more, most of that after ``drain_bytes`` (:mod:`tcsim.timing.ending`). ``dispatch_interval``:
    cycles from one CTA's dispatch to the next, for the whole chip; an SM takes one every ``sm_interval`` cycles and one more
    for each warp, and at least ``warp_interval`` for each warp. ``retire_interval``: cycles from one CTA's end to the next,
    for the whole chip, before what it held is given to another. ``cta``: cycles from a CTA's dispatch until its warps fetch;
    ``exit``: from a warp's last exit until it is gone. ``dram_bytes``, ``l2_requests``, ``l2_sectors``, of which
    ``l2_read_sectors`` are read and ``fabric_sectors`` go from one half of the L2 to the other: what a launch moves besides
    its code and what its threads access. ``code_readers``: how often the whole code is read from the L2, whatever the number
    of CTAs.
    """

    overhead_ns: float
    busy_sm_ns: float
    drain_ns: float
    drain_bytes: float
    dispatch_interval: float
    sm_interval: int
    warp_interval: int
    retire_interval: float
    cta: int
    exit: int
    dram_bytes: int
    l2_requests: int
    l2_sectors: int
    l2_read_sectors: int
    fabric_sectors: int
    code_readers: int
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

    ``latency``: cycles from issue until a dependent instruction can issue; of a memory access only what it adds to that of its
    memory. ``interval``: cycles until its pipe takes another one (of a queued pipe: cycles of address generation are in
    ``Lsu``, and ``port`` says how long the SM's shared data port is busy). ``scoreboard``: the stall reason of who waits for
    its result. ``next_issue``: cycles until the same warp can issue again, stalled by ``pause``. ``active``: cycles that count
    as activity of its pipe, where that is not the interval (0: the interval). ``stage``: cycles in the address stage (0: as an
    access).

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
    stage: int = 0
    slots: int = 1
    made_of: str = ""
    times: int = 1


class MachineOperation(Struct, frozen=True, forbid_unknown_fields=True):
    """What a machine instruction costs beyond its control bits, which say how long its warp waits.

    ``opcodes``: what it holds for: an opcode with modifiers, ``HMMA.16816`` (in any order, among others; the entry with the
    most of them wins), or ``@alu``, all others that the instruction set assigns to that pipe. ``pipe``: where it goes;
    ``other``: a second pipe that it may take as well. ``interval``: cycles until that pipe takes another one. ``latency``:
    cycles until the scoreboard that it sets is clear; of an access what it adds to that of its memory. ``scoreboard``: the
    stall reason of who waits for that. ``read_latency``: cycles until its operands are read. ``port``, ``stage``: cycles on the
    SM's shared data port, and in its sub-partition's address stage, of what goes there without an access. ``jump``: cycles
    until the next instruction if that is farther on than the one behind it, ``jump_back`` if it is before that. ``active``:
    cycles that count as activity of its pipe (0: the interval). ``dispatch``: cycles more in which it is dispatched: none other
    of the sub-partition is then, and its warp's stall count begins later.
    """

    opcodes: tuple[str, ...]
    pipe: str
    source: str
    other: str = ""
    interval: int = 1
    latency: int = 0
    scoreboard: Scoreboard = "wait"
    read_latency: int = 0
    port: int = 0
    stage: int = 0
    jump: int = 0
    jump_back: int = 0
    active: int = 0
    dispatch: int = 0


class Lsu(Struct, frozen=True, forbid_unknown_fields=True):
    """The load/store unit. The address stage of a sub-partition holds an access for ``wavefront_interval`` cycles a
    wavefront and at least ``address_interval``, a store for ``store_interval`` cycles and ``wavefront_interval`` for each
    register. Stores wait in the SM until the L2 takes them; when the last is ``store_ahead`` cycles away from that, the data
    port waits. The ``write_lines`` lines that came last take up further stores while they wait, and for ``write_hold`` cycles
    after the last one.
    """

    address_interval: int
    wavefront_interval: int
    store_interval: int
    store_ahead: int
    write_lines: int
    write_hold: int
    source: str


class SharedMemory(Struct, frozen=True, forbid_unknown_fields=True):
    """``latency``: cycles of an access of one wavefront. ``wavefront_latency``: cycles that each further one adds to
    it; the port serves one a cycle. ``atomic_latency``: cycles that an atomic adds. ``barrier_release``: cycles from
    the last arrival at a CTA barrier until its warps can issue; the SM takes an arrival every ``barrier_interval`` cycles, and
    none for ``barrier_open`` when a barrier opens.
    """

    latency: int
    wavefront_latency: int
    atomic_latency: int
    barrier_release: int
    barrier_interval: int
    barrier_open: int
    source: str


class L1(Struct, frozen=True, forbid_unknown_fields=True):
    """The L1 data cache of an SM. ``bytes``: what it and shared memory have together, of which ``carveouts`` (KiB) are
    the parts that shared memory can take. ``latency``: cycles of a hit. ``line_tags``: cycles of the tag stage for each
    line that an instruction touches. ``copy_latency``: cycles that cp.async adds to a load. ``spare_carveout``: the most (KiB)
    that the driver configures so that more CTAs fit than registers and warps allow (0: what it does is not known).
    """

    bytes: int
    carveouts: tuple[int, ...]
    latency: int
    line_tags: float
    copy_latency: int
    source: str
    spare_carveout: int = 0


class L2(Struct, frozen=True, forbid_unknown_fields=True):
    """The L2 cache.

    ``partitions``, each next to half of the SMs and of the memory; ``slices`` in all. ``sms_in_turn``: of a GPU whose GPCs are
    not known (``Limits.gpcs``) so many SMs in a row are taken for one, and to be next to the partitions in turn.
    ``hit_ns``: what a hit in the near partition takes beyond the L1. ``far_ns``: what going to the other partition adds.
    A slice is busy with a read for ``read_clocks`` of its clock, of ``clock_hz``, for each sector, with a write for
    ``write_clocks``, with the sectors that memory or the other partition brings for ``fill_clocks`` each; with any request for
    at least one, with a write for at least ``least_write_clocks``, or ``part_write_clocks`` if it leaves bytes of its sectors
    alone. ``port_bytes``: bytes a cycle from the L2 to an SM; an SM
    asks for one line a cycle, and sends a sector a cycle and one more for each line that it writes in part. An atomic's result
    comes ``atomic_latency_ns`` later than a load's. It takes ``atomic_clocks`` of a slice's arithmetic for each sector and each
    lane on the busiest word of it, and ``atomic_request_clocks`` for each lane on the busiest word of the line; sums of floats
    in a sector are ``atomic_float_ns`` apart. ``atomic_ahead``: how many lanes of atomics of an SM may be under way, by
    sectors; ``atomic_slice_ahead``: of them to one slice. ``ahead_ns``: how far the slices may be behind when a store leaves
    its SM. Reads of a line that is under way for another SM of the GPC are merged in front of the L2, up to
    ``merging_requests`` into one (1: none are). The SMs of a GPC get ``gpc_bytes`` a cycle together, three times
    that of what is merged, those of one of its ``cpcs`` send ``cpc_bytes`` (0: no limit).
    """

    partitions: int
    slices: int
    sms_in_turn: int
    hit_ns: float
    far_ns: float
    clock_hz: int
    read_clocks: float
    write_clocks: float
    least_write_clocks: float
    part_write_clocks: float
    fill_clocks: float
    port_bytes: int
    atomic_latency_ns: float
    atomic_clocks: float
    atomic_request_clocks: float
    atomic_float_ns: float
    atomic_ahead: int
    atomic_slice_ahead: int
    ahead_ns: float
    gpc_bytes: int
    cpcs: int
    cpc_bytes: int
    merging_requests: int
    source: str


class Clusters(Struct, frozen=True, forbid_unknown_fields=True):
    """Clusters of CTAs. ``dispatch_interval``: cycles from one cluster's dispatch to the next, for the whole chip, at least.
    ``barrier_release``: cycles from the last arrival at the cluster's barrier until those who wait can issue.
    ``remote_latency``: cycles that an access to shared memory takes longer if it is another CTA's. Between SMs a wavefront that
    is loaded takes ``remote_load`` cycles, one that is stored ``remote_store``, an atomic ``remote_atomic`` for each.
    """

    dispatch_interval: float
    barrier_release: int
    remote_latency: int
    remote_load: float
    remote_store: float
    remote_atomic: float
    source: str


class Tma(Struct, frozen=True, forbid_unknown_fields=True):
    """The tensor memory accelerator, and mbarrier objects. ``load_latency``: cycles that a bulk or tensor copy takes from its
    issue beyond what its lines take from the L2; it asks for a line every ``line_interval`` cycles. ``store_latency``: until
    its source has been read and its group is over, beyond that. ``barrier_wake``: cycles from the end of a phase until a warp
    that has been waiting for it has the answer.
    """

    load_latency: int
    line_interval: float
    store_latency: int
    barrier_wake: int
    source: str


class Translation(Struct, frozen=True, forbid_unknown_fields=True):
    """Address translation: an SM's first access to memory takes ``first_touch_ns`` more. (Pages show in no measurement.)"""

    first_touch_ns: float
    source: str


class Chip(Struct, frozen=True, forbid_unknown_fields=True):
    """What a die does in how many cycles. ``pipes`` by name. ``operations``: of PTX, ``machine``: of machine code.
    ``clusters``, ``tma``: where it has them."""

    name: str
    scheduler: Scheduler
    instruction_cache: InstructionCache
    constant_cache: ConstantCache
    launch: LaunchCosts
    lsu: Lsu
    shared_memory: SharedMemory
    l1: L1
    l2: L2
    translation: Translation
    pipes: dict[str, Pipe]
    operations: tuple[Operation, ...]
    machine: tuple[MachineOperation, ...]
    clusters: Clusters | None = None
    tma: Tma | None = None


class Clocks(Struct, frozen=True, forbid_unknown_fields=True):
    """``sm_hz``: the SM clock that a prediction assumes unless told otherwise. ``tensor_slowdown``: how much more the SMs of a
    GPC count than those of one whose tensor cores are busy for ``tensor_duty`` of the time or more (0: no more).
    """

    sm_hz: int
    tensor_slowdown: float
    tensor_duty: float
    source: str


class L2Capacity(Struct, frozen=True, forbid_unknown_fields=True):
    """L2 capacity of the board, over all partitions."""

    bytes: int
    source: str


class Dram(Struct, frozen=True, forbid_unknown_fields=True):
    """Device memory: ``bytes_per_second`` is what a stream reaches over all ``channels``, ``peak_bytes_per_second``
    what the data sheet says; ``latency_ns`` is what a miss adds to an L2 hit in the near partition, ``far_latency_ns`` in
    the far one; a fill brings ``fill_bytes``. Banks cannot be read while they are refreshed, for ``refresh_ns`` of every
    ``refresh_every_ns`` each (0: never).
    """

    channels: int
    bytes_per_second: float
    peak_bytes_per_second: float
    latency_ns: float
    far_latency_ns: float
    fill_bytes: int
    refresh_ns: float
    refresh_every_ns: float
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
