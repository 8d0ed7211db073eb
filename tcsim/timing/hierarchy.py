"""The memories of a chip as arrays: what both engines share, so that both take the same time for every access.

The rules are compiled functions over these arrays, a module for each level: :mod:`tcsim.timing.lsu` (queues, data port,
shared memory), :mod:`tcsim.timing.l1`, :mod:`tcsim.timing.l2`, :mod:`tcsim.timing.dram`, :mod:`tcsim.timing.translation`.

Queues are next-free times. A request asks all servers on its way at once, and its data moves when the last of them has served
it; latencies come on top. Servers that SMs share are asked at the time of issue, which follows the chip's clock.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isa.compiled import inlined
from tcsim.arch import Arch, Timing
from tcsim.arch.timing_spec import L2 as L2Spec
from tcsim.timing.arrays import ArrayTable
from tcsim.timing.constant_cache import put_constant_caches
from tcsim.timing.lru import new_lru
from tcsim.timing.units import TICKS, cycles_of_ns, ticks_of_bytes

__all__ = ["Hierarchy", "Share", "locations", "new_hierarchy", "serve"]

LINE_BYTES = 128

# Constants of the rules, in cycles or (T) in ticks.
(
    L1_LATENCY, TAG_T, COPY_LATENCY, SHARED_LATENCY, WAVEFRONT_LATENCY, SHARED_ATOMIC, STAGE, STAGE_WAVEFRONT, STAGE_STORE,
    L2_HIT, L2_FAR, CLOCK_T, SECTOR_T, ATOMIC_T, PARTITIONS, SLICES_EACH, DRAM_NEAR, DRAM_FAR, FILL_SECTORS,
    FILL_T, WRITE_T, FIRST_TOUCH, BARRIER_INTERVAL, BARRIER_RELEASE, CHANNEL_COUNT, GROUP_REQUESTS, REFRESH_T,
    REFRESH_EVERY_T, CODE_BLOCKS, CODE_CAPACITY, CODE_AHEAD, CODE_MISS, CODE_NEXT, CODE_FIRST,
    REMOTE, REMOTE_LOAD_T, REMOTE_STORE_T, REMOTE_ATOMIC_T, TMA_LATENCY, TMA_STORE, TMA_LINE_T, MBARRIER_WAKE,
    READ_T, STORE_T, LEAST_STORE_T, BROUGHT_T, STORE_AHEAD, BARRIER_OPEN, WRITE_LINES, WRITE_HOLD, AHEAD_T, CODE_SHARED,
    ATOMIC_REQUEST_T, ATOMIC_AHEAD, SLICE_AHEAD, ATOMIC_LATENCY, IN_T, OUT_T, PART_STORE_T,
) = range(59)  # fmt: skip
COST_COUNT = 59

# Columns of PORTS, by SM: the shared data port and four address stages (cycles), requests and data from the L2, data to it
# (ticks), arrivals at CTA barriers (cycles), what it asks of other SMs' shared memory, and they of its (ticks), since when
# addresses are translated (cycles; 0: not yet asked for), when its TMA can ask for another line (ticks).
DATA, STAGES, REQUEST, DOWN, UP, ARRIVALS, ASKING, ASKED, TRANSLATED, TMA_FREE = 0, 1, 5, 6, 7, 8, 9, 10, 11, 12
PORT_COLUMNS = 13

# Columns of EVENTS, by instruction.
REQUESTS, SECTORS, L1_HITS, SHARED_REQUESTS, WAVEFRONTS, CONFLICTS, DEVICE_WAVEFRONTS = range(7)
EVENT_COLUMNS = 7

WRITE_WORDS, WRITE_COUNTS = 8, 13
"""Words of a line in a write buffer, and those behind its lines."""

# TOTALS.
(
    PORT_CYCLES, L2_REQUESTS, READ_SECTORS, READ_HITS, WRITE_SECTORS, ATOMIC_SECTORS, FABRIC_SECTORS, FABRIC_HITS, FILLS,
    DRAM_READ, DRAM_WRITTEN, SLICE_BUSY, FABRIC_WRITES, FABRIC_REQUESTS, LAST_SERVED, FABRIC_ATOMICS,
) = range(16)  # fmt: skip
TOTAL_COUNT = 16


# Numbers of arrays in the table. L1, L2: sets of caches. Lines, by cache and slot: valid sectors (and, times 16, dirty ones),
# and when the last of them is there. MERGES [GPC * MERGE_SLOTS + slot]: line, sectors, when they are there, and requests put
# together, of requests under way for a GPC. CODE [sm, block]: when a block of instructions is there, -1 if it is not;
# CODE_USED: stamp of its last use, then how many are there, and the last stamp. MBARRIER, MBARRIER_LATEST, MBARRIER_DONE
# [place, 8 bytes of shared memory]: mbarrier objects (tcsim.timing.mbarriers). SCRATCH: a row for what nobody reads. WRITES
# [sm]: its write buffer (tcsim.timing.write_buffer). LOCATIONS [sm]: the partition of the L2 next to it, its GPC,
# which SM of that it is, and the ways by which data comes to it and leaves it: WAYS_IN, WAYS_OUT [way] (ticks).
COSTS, PORTS, SLICES, CHANNELS, TOTALS, EVENTS, L1, L1_VALID, L1_THERE, L2, L2_STATE, L2_THERE, CODE, CODE_USED, MERGES = (
    0, 1, 2, 3, 4, 5, 6, 12, 13, 14, 20, 21, 22, 23, 24,
)  # fmt: skip
MBARRIER, MBARRIER_LATEST, MBARRIER_DONE, SCRATCH = 25, 26, 27, 28
# 29 to 32: constant caches (tcsim.timing.constant_cache).
WRITES = 33
LOCATIONS = 34
WAYS_IN, WAYS_OUT = 39, 40
# ATOMIC_UNITS [slice]: when its arithmetic unit is free (ticks). ATOMIC_CHAINS [slot]: a sector, and when the last sum in it is
# done (ticks). ATOMIC_QUEUES [sm]: the requests of atomics that are under way. ATOMIC_TURNS [sm]: for each slice, operands of
# this turn, when the last turn but one has been served, and when this one has (tcsim.timing.l2_atomics).
ATOMIC_UNITS, ATOMIC_CHAINS, ATOMIC_QUEUES, ATOMIC_TURNS = 35, 36, 37, 38
CHAIN_SLOTS = 4096
FIRST_FREE = 41
"""The numbers from here on are free for other users of the table."""
TABLE = 84


@dataclass(frozen=True)
class Share:
    """What of the chip's shared memories is there for the SMs that are simulated: ``requests`` of the rate of its L2,
    ``footprint`` of the L2's capacity and of the rate of reading memory; both 1 for a whole chip. What any of the chip's SMs
    would have fetched for the others, those simulated have to: so ``fills`` of the time that it takes the L2 is theirs."""

    requests: float = 1.0
    footprint: float = 1.0

    @property
    def fills(self) -> float:
        """Fills for each SM of the chip, over fills for each of theirs."""
        return self.requests / self.footprint


WHOLE = Share()


class Hierarchy:
    """The memories of a chip. ``table``: their arrays; ``address``: what rules take. ``totals``, ``events`` (int64
    [instruction, 7], columns above), ``ports``, ``costs``, ``slices``: some of them.
    """

    def __init__(self, table: ArrayTable) -> None:
        self.table, self.address = table, table.address
        self.totals, self.events, self.ports = table[TOTALS], table[EVENTS], table[PORTS]
        self.costs, self.slices = table[COSTS], table[SLICES]


NEAR, GPC, RANK, WAY_IN, WAY_OUT = range(5)
"""Columns of LOCATIONS."""


def locations(arch: Arch, spec: L2Spec) -> NDArray[np.int64]:
    """LOCATIONS of all SMs of a GPU. What comes to an SM does so by the way of its GPC, and leaves it by that of its CPC; the
    TPCs of a GPC, pairs of SMs, belong to its CPCs by turns."""
    found = np.zeros((arch.limits.sms, 5), np.int64)
    if not arch.limits.gpcs:
        found[:, GPC], found[:, RANK] = divmod(np.arange(arch.limits.sms), spec.sms_in_turn)
        found[:, NEAR] = found[:, GPC] % spec.partitions
    for number, (sms, half) in enumerate(zip(arch.limits.gpcs, arch.limits.halves, strict=True)):
        found[list(sms), NEAR], found[list(sms), GPC], found[list(sms), RANK] = half, number, np.arange(len(sms))
    found[:, WAY_IN] = found[:, GPC]
    found[:, WAY_OUT] = found[:, GPC] * spec.cpcs + found[:, RANK] // 2 % spec.cpcs
    return found


def _put_ways(table: ArrayTable, costs: NDArray[np.int64], spec: L2Spec, found: NDArray[np.int64], share: Share) -> None:
    """The ways between the SMs and the L2. A sample has its part of all of them as one."""
    for number, cost, column, size in ((WAYS_IN, IN_T, WAY_IN, spec.gpc_bytes), (WAYS_OUT, OUT_T, WAY_OUT, spec.cpc_bytes)):
        ways = 1 + int(found[:, column].max())
        costs[cost] = round(32 * TICKS / size) if size else 0
        if share.requests < 1:
            costs[cost] = round(costs[cost] / (ways * share.requests))
            found[:, column], ways = 0, 1
        table.put(number, np.zeros(ways, np.int64))


MERGE_SLOTS = 4096
"""Requests under way that are told apart in front of the L2, for each GPC: so many that they do not run out. (Accel-Sim's model
of GH100's request coalescer has 1,024; with as many here, tensor-core kernels merge a tenth less than an H200.)"""


def new_hierarchy(
    arch: Arch,
    timing: Timing,
    instructions: int,
    l1_bytes: int,
    sms: int,
    blocks: int = 1,
    *,
    busy: int = 1,
    places: int = 1,
    signalled: int = 0,
    constants: tuple[int, int] = (0, 0),
    share: Share = WHOLE,
) -> Hierarchy:
    """Cold memories for ``sms`` SMs, each with ``l1_bytes`` of L1 data cache, and counters for ``instructions``, which lie in
    so many ``blocks`` of the instruction cache. ``busy``: SMs
    that run CTAs; ``places``: of CTAs, each with mbarrier objects anywhere in ``signalled``
    bytes. ``constants``: bytes of the program's banks, and up to its last parameter. ``share``: what of the L2 and the memory
    they have."""
    chip, hz, dram = timing.chip, timing.clocks.sm_hz, timing.dram
    spec = chip.l2
    costs = np.zeros(COST_COUNT, np.int64)
    costs[L1_LATENCY], costs[COPY_LATENCY] = chip.l1.latency, chip.l1.copy_latency
    costs[TAG_T] = round(chip.l1.line_tags * TICKS)
    costs[SHARED_LATENCY], costs[WAVEFRONT_LATENCY] = chip.shared_memory.latency, chip.shared_memory.wavefront_latency
    costs[SHARED_ATOMIC] = chip.shared_memory.atomic_latency
    costs[STAGE], costs[STAGE_WAVEFRONT] = chip.lsu.address_interval, chip.lsu.wavefront_interval
    costs[STORE_AHEAD] = chip.lsu.store_ahead
    costs[STAGE_STORE] = chip.lsu.store_interval
    costs[WRITE_LINES], costs[WRITE_HOLD] = chip.lsu.write_lines, chip.lsu.write_hold
    costs[BARRIER_INTERVAL], costs[BARRIER_RELEASE] = chip.shared_memory.barrier_interval, chip.shared_memory.barrier_release
    costs[BARRIER_OPEN] = chip.shared_memory.barrier_open
    costs[L2_HIT], costs[L2_FAR] = cycles_of_ns(spec.hit_ns, hz), cycles_of_ns(spec.far_ns, hz)
    each = spec.slices // spec.partitions
    slices = max(1, round(each * share.requests))
    clock = TICKS * hz / spec.clock_hz * slices / (each * share.requests)
    costs[CLOCK_T], costs[READ_T], costs[STORE_T] = (
        round(clock),
        round(clock * spec.read_clocks),
        round(clock * spec.write_clocks),
    )
    costs[LEAST_STORE_T] = round(clock * spec.least_write_clocks)
    costs[BROUGHT_T] = round(clock * spec.fill_clocks * share.fills)
    costs[PART_STORE_T] = round(clock * spec.part_write_clocks)
    costs[AHEAD_T] = round(cycles_of_ns(spec.ahead_ns, hz) * TICKS)
    costs[SECTOR_T] = 32 * TICKS // spec.port_bytes
    costs[ATOMIC_T], costs[ATOMIC_REQUEST_T] = round(clock * spec.atomic_clocks), round(clock * spec.atomic_request_clocks)
    costs[ATOMIC_LATENCY] = cycles_of_ns(spec.atomic_latency_ns, hz)
    costs[ATOMIC_AHEAD], costs[SLICE_AHEAD] = spec.atomic_ahead, spec.atomic_slice_ahead
    costs[PARTITIONS], costs[SLICES_EACH] = spec.partitions, slices
    costs[DRAM_NEAR], costs[DRAM_FAR] = cycles_of_ns(dram.latency_ns, hz), cycles_of_ns(dram.far_latency_ns, hz)
    costs[FILL_SECTORS] = dram.fill_bytes // 32
    channels = max(1, round(dram.channels * share.footprint))
    rate = dram.bytes_per_second * share.footprint / channels
    costs[FILL_T] = ticks_of_bytes(dram.fill_bytes, rate, hz)
    costs[WRITE_T] = ticks_of_bytes(32, rate * share.fills, hz)
    costs[REFRESH_T] = round(cycles_of_ns(dram.refresh_ns, hz) * TICKS)
    costs[REFRESH_EVERY_T] = round(cycles_of_ns(dram.refresh_every_ns, hz) * TICKS)
    costs[FIRST_TOUCH] = cycles_of_ns(chip.translation.first_touch_ns, hz)
    code = chip.instruction_cache
    costs[CODE_BLOCKS], costs[CODE_CAPACITY], costs[CODE_AHEAD] = blocks, code.blocks, code.ahead
    costs[CODE_MISS], costs[CODE_FIRST] = cycles_of_ns(code.miss_ns, hz), cycles_of_ns(code.first_miss_ns, hz)
    costs[CODE_SHARED] = cycles_of_ns(2 * code.shared_ns * busy, hz)
    costs[CODE_NEXT] = cycles_of_ns(max(code.block_ns, code.shared_block_ns * busy), hz)
    if chip.clusters is not None:
        costs[REMOTE] = chip.clusters.remote_latency
        costs[REMOTE_LOAD_T] = round(chip.clusters.remote_load * TICKS)
        costs[REMOTE_STORE_T] = round(chip.clusters.remote_store * TICKS)
        costs[REMOTE_ATOMIC_T] = round(chip.clusters.remote_atomic * TICKS)
    if chip.tma is not None:
        costs[TMA_LATENCY], costs[TMA_STORE] = chip.tma.load_latency, chip.tma.store_latency
        costs[TMA_LINE_T] = round(chip.tma.line_interval * TICKS)
        costs[MBARRIER_WAKE] = chip.tma.barrier_wake
    l1_slots = max(1, l1_bytes // LINE_BYTES)
    l2_slots = max(1, round(timing.l2_capacity.bytes * share.footprint) // LINE_BYTES // spec.partitions)
    costs[CHANNEL_COUNT] = channels
    costs[GROUP_REQUESTS] = spec.merging_requests
    table = ArrayTable(TABLE)
    table.put(COSTS, costs)
    table.put(SCRATCH, np.zeros((1, 32), np.int64))
    for number in (MBARRIER, MBARRIER_LATEST, MBARRIER_DONE):
        table.put(number, np.zeros((places, signalled // 8 + 1), np.int64))
    table.put(PORTS, np.zeros((sms, PORT_COLUMNS), np.int64))
    writes = np.zeros((sms, chip.lsu.write_lines * WRITE_WORDS + WRITE_COUNTS), np.int64)
    writes[:, 0:-WRITE_COUNTS:WRITE_WORDS] = -1  # no line
    table.put(WRITES, writes)
    table.put(SLICES, np.zeros(slices * spec.partitions, np.int64))
    table.put(ATOMIC_UNITS, np.zeros(slices * spec.partitions, np.int64))
    table.put(ATOMIC_CHAINS, np.full((CHAIN_SLOTS, 2), -1, np.int64))
    table.put(ATOMIC_QUEUES, np.zeros((sms, 3 + 2 * spec.atomic_ahead), np.int64))
    table.put(ATOMIC_TURNS, np.zeros((sms, 3 * slices * spec.partitions), np.int64))
    table.put(CHANNELS, np.zeros(channels, np.int64))
    table.put(TOTALS, np.zeros(TOTAL_COUNT, np.int64))
    table.put(EVENTS, np.zeros((instructions, EVENT_COLUMNS), np.int64))
    new_lru(table, L1, sms, l1_slots)
    new_lru(table, L2, spec.partitions, l2_slots)
    for number, caches, slots in ((L1_VALID, sms, l1_slots), (L2_STATE, spec.partitions, l2_slots)):
        table.put(number, np.zeros((caches, slots), np.int64))
    found = locations(arch, spec)
    _put_ways(table, costs, spec, found, share)
    table.put(LOCATIONS, found[:sms])
    table.put(MERGES, np.full(((1 + int(found[:sms, GPC].max())) * MERGE_SLOTS, 4), -1, np.int64))
    put_constant_caches(table, chip.constant_cache, hz, sms, *constants, code.shared_constant_ns * busy)
    table.put(CODE, np.full((sms, blocks), -1, np.int64))
    table.put(CODE_USED, np.zeros((sms, blocks + 2), np.int64))
    table.put(L1_THERE, np.zeros((sms, l1_slots), np.int64))
    table.put(L2_THERE, np.zeros((spec.partitions, l2_slots), np.int64))
    return Hierarchy(table)


@inlined
def serve(servers, number, asked, service):
    """Ask server ``number`` of a row for ``service`` ticks at tick ``asked``; returns the tick at which they are over. Requests
    are served in the order in which they are made, and so should be made in the order of time."""
    done = servers[number]
    if done < asked:
        done = asked
    done += service
    servers[number] = done
    return done


@inlined
def count4(mask):
    """Sectors in a mask of a line's four."""
    return (mask & 1) + (mask >> 1 & 1) + (mask >> 2 & 1) + (mask >> 3 & 1)
