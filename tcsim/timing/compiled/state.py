"""The state of a chip as arrays, and the columns they have."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from isa.compiled import inlined
from tcsim.arch.timing_spec import Chip as ChipSpec
from tcsim.timing.arrays import ArrayTable, row
from tcsim.timing.hierarchy import FIRST_FREE, Hierarchy
from tcsim.timing.issue import Entry
from tcsim.timing.placement import Placement
from tcsim.timing.scoreboard import REASON, REASONS
from tcsim.timing.stream import Buffers
from tcsim.timing.units import NEVER
from tcsim.timing.warp import MOST_GROUPS

__all__ = ["ChipState", "Table", "new_chip_state"]

BARRIERS = 16

# Columns of ENTRIES, by instruction: as of Entry. Reads and writes are runs of PLACES. A row is four lines of a host's cache:
# what is asked for together stands in one. EVEN: and DISPATCH times the cycles more of its dispatch.
(
    E_FREE, E_READS, E_READ_COUNT, E_WRITES, E_WRITE_COUNT, E_GUARD, E_BLOCK, E_SPECIAL,
    E_UNIT, E_AFTER, E_BUSY, E_SLOTS, E_PIPE, E_OTHER, E_EVEN, E_ODD,
    E_RESULT, E_ORDER, E_SOURCE, E_SOURCE_LATENCY, E_COUNTS, E_JUMP, E_BACK, E_KEEP,
    E_PORT, E_STAGE, E_LANE, E_CACHED, E_FEWEST, E_PARTS, E_TIMED, E_CONSTANTS,
) = range(32)  # fmt: skip
ENTRY, DISPATCH = 32, 256

# Columns of WARPS, by row: as of Warp, in lines as above. STATE: see below. PIPE, OTHER: of the current instruction.
# CLUSTER_LANES: that have arrived at the cluster's barrier, in CLUSTER_PHASE; CLUSTER_WAITS: whether it waits there. AWAITED:
# place in shared memory of the mbarrier object that it waits for, and 1, for the phase of PARITY; the wait went out in cycle
# START.
(
    W_STATE, W_READY, W_ISSUED, W_PIPE, W_OTHER, W_REFUSED, W_PC, W_LAST,
    W_SUB, W_REASON, W_BEHIND, W_BLOCK, W_CTA, W_NUMBER, W_LEFT, W_DONE,
    W_AGE, W_FIRST, W_BASE, W_COPIES, W_LANDED, W_GROUPS, W_LIVE, W_CLUSTER_LANES,
    W_CLUSTER_PHASE, W_CLUSTER_WAITS, W_AWAITED, W_PARITY, W_START,
) = range(29)  # fmt: skip
WARP = 32

ORDERS = ("least_recent", "oldest", "youngest", "oldest_cta")
"""Whom the scheduler takes, as O_ORDER numbers it."""
LEAST_RECENT, OLDEST, YOUNGEST, OLDEST_CTA = range(4)

ABSENT, PENDING, READY, WAITING = range(4)
"""What a warp does: nothing, becoming ready later, competing for issue, waiting for something that others do."""

# Columns of SUBS, by sub-partition of the chip: as of SubPartition. COUNT: rows in SUB_ROWS. PENDING_AT: when the next
# warp becomes ready, READY_COUNT: how many compete, both as the last choice found them.
S_NEXT, S_WARPS, S_LAST, S_EARLIEST, S_COUNT, S_PENDING_AT, S_READY_COUNT, S_FETCH, S_EVEN, S_ODD = range(10)
SUB = 10

# Columns of PIPES, by sub-partition and pipe: as of Pipe and Queue.
P_FREE, P_RESERVED, P_USER, P_OLDEST, P_NEXT = range(5)

# Columns of SMS.
M_AGE, M_RESIDENT, M_SINCE, M_FINISHED, M_ACTIVE, M_CONSTANTS, M_AGENDA = range(7)
SM = 7

# Columns of CLUSTERS, by site: as of ClusterBarrier; CTAs that have started, of this cluster and those before it.
K_PHASE, K_OPENED, K_STARTED = range(3)

# Columns of AGENDAS: kinds START and END of a CTA, and its place.
A_TIME, A_KIND, A_CTA, A_PLACE = range(4)
START, END = 0, 1

# Columns of CTAS, by place. ARRIVED: a bit for each barrier at which threads have arrived since it last opened. QUICK: whether
# it was executed to its end when it started (tcsim.timing.compiled.starting).
C_NUMBER, C_ALIVE, C_END, C_SM, C_ARRIVED, C_QUICK = range(6)

# OPTIONS, one row. BOARD: entries of a scoreboard. CTA: cycles from its dispatch to its start. SIZE: CTAs of a cluster.
# OTHERS: address of what executes units that few programs have (tcsim.timing.compiled.others). BEGIN: of what starts and
# executes a CTA, 0 where Python does; RETIRE: of the work distributor's words; REPORT: after how many CTAs to report progress,
# or 0.
(
    O_GREEDY, O_ORDER, O_GUARD, O_CONSTANT, O_PER_SM, O_WARPS, O_SUBS, O_THREADS, O_PIPES, O_ITEMS, O_BOARD, O_JUMPS, O_CTA,
    O_EXIT, O_SIZE, O_CLUSTER_RELEASE, O_COLLECTING, O_OTHERS, O_APART, O_BEGIN, O_RETIRE, O_REPORT,
) = range(22)  # fmt: skip
OPTION_COUNT = 22

# SIGNALS, one row: what the loop tells when it returns. DRY: warps in DRY that need instructions. TOUCHED: something has
# happened on an SM whose turn it was not. SPARE: the table of a slot for the next CTA; STATUS: how far that came; QUICK: CTAs
# that were executed to their end when they started, and have not ended.
G_DRY, G_SM, G_NOW, G_PLACE, G_ROW, G_CTAS, G_WARPS, G_WARP_CYCLES, G_TOUCHED, G_SPARE, G_STATUS, G_QUICK = range(12)
SIGNAL_COUNT = 12


class Table(Protocol):
    """What an engine needs to know of a program: :class:`~tcsim.timing.issue.IssueTable` and
    :class:`~tcsim.timing.machine_table.MachineTable` have it."""

    entries: list[Entry]
    pipes: tuple[str, ...]
    scoreboard: int
    blocks: int
    chip: ChipSpec


# Numbers of arrays in the table, behind those of the memories. Of the program: ENTRIES [instruction, ENTRY], PLACES, STALLS
# [instruction * REASONS]. PIPE_KINDS [pipe, 2]: code of its stall reason, depth of its queue. BOARDS: scoreboards by row.
# GROUPS [row, group]: landing times, a ring. SUB_ROWS [sub-partition]: rows of its warps, oldest first. PIPES, QUEUES by
# sub-partition * pipes + pipe. AGENDAS by SM * items + item. ARRIVED [place * BARRIERS + barrier,
# warp]: lanes; NEEDED [place, barrier]; WAITERS [place * BARRIERS + barrier]: how many wait, and their rows. DRY: rows. NEXT:
# the next cycle in which something may happen on each SM. SITE_OF [place]; SITES [site, rank]: places; PEERS: their
# SMs.
(
    ENTRIES, PLACES, STALLS, PIPE_KINDS, OPTIONS, SIGNALS, WARPS, BOARDS, GROUPS, SUBS, SUB_ROWS, PIPES, QUEUES, SMS, AGENDAS,
    CTAS, ARRIVED, NEEDED, WAITERS, DRY, PCS, EXECUTING, PAYLOAD, WORDS, SETTLED, AT, NEXT, SITE_OF, SITES,
    CLUSTERS, PEERS, USED,
) = range(FIRST_FREE, FIRST_FREE + 32)  # fmt: skip


class ChipState:
    """``address``: what compiled functions take. The others are arrays that Python reads or writes."""

    def __init__(self, table: ArrayTable) -> None:
        self.table, self.address = table, table.address
        self.warps, self.sms, self.agendas = table[WARPS], table[SMS], table[AGENDAS]
        self.signals, self.stalls, self.dry, self.next = table[SIGNALS][0], table[STALLS][0], table[DRY][0], table[NEXT][0]
        self.options, self.ctas = table[OPTIONS][0], table[CTAS]


@inlined
def pipe_of(c, sub, pipe):
    """A pipe of a sub-partition of the chip."""
    return row(c, PIPES, sub * row(c, OPTIONS, 0)[O_PIPES] + pipe)


@inlined
def item_of(c, sm, index):
    """An item of an SM's agenda."""
    return row(c, AGENDAS, sm * row(c, OPTIONS, 0)[O_ITEMS] + index)


def _in_lines(rows: int, columns: int) -> NDArray[np.int64]:
    """Zeros [row, column] that start with a line of a host's cache (64 bytes)."""
    raw = np.zeros(rows * columns + 8, np.int64)
    skip = -(raw.ctypes.data // 8) % 8
    return raw[skip : skip + rows * columns].reshape(rows, columns)


def pack_entries(entries: list[Entry]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Entries as rows, and the scoreboard entries that they name."""
    rows = _in_lines(len(entries), ENTRY)
    places: list[int] = []
    for packed, entry in zip(rows, entries, strict=True):
        reads = tuple(dict.fromkeys(entry.reads))
        packed[:] = (
            entry.free, len(places), len(reads), len(places) + len(reads), len(entry.writes), entry.guard, entry.block,
            entry.special, entry.unit, entry.after, entry.busy, entry.slots, entry.pipe, entry.other,
            entry.even + DISPATCH * entry.dispatch, entry.odd,
            entry.result, entry.order, entry.source, entry.source_latency, entry.counts, entry.jump, entry.jump_back,
            entry.keep_groups, entry.port, entry.stage, entry.lane_ticks, entry.cached, entry.fewest_wavefronts, entry.parts,
            entry.timed, entry.constants,
        )  # fmt: skip
        places += [*reads, *entry.writes]
    return rows, np.array(places or [0], np.int32)


def new_chip_state(
    program: Table, memories: Hierarchy, buffers: Buffers, placement: Placement, *, threads: int, constant: int, others: int
) -> ChipState:
    """An empty chip. ``threads``: of a CTA; ``constant``: cycles of a miss of the constant cache; ``others``: the address of
    what executes units that few programs have."""
    chip = program.chip
    entry, places = pack_entries(program.entries)
    warps, subs = -(-threads // 32), chip.scheduler.sub_partitions
    sms, per_sm = placement.used, placement.per_sm
    rows, kinds = sms * per_sm * warps, [chip.pipes[name] for name in program.pipes]
    table = memories.table
    items = 2 * per_sm + 2
    options = np.zeros((1, OPTION_COUNT), np.int64)
    options[0] = (
        chip.scheduler.greedy, ORDERS.index(chip.scheduler.order), chip.scheduler.guard_delay, constant, per_sm,
        warps, subs, threads, len(kinds), items, program.scoreboard, chip.scheduler.jump_interval, chip.launch.cta,
        chip.launch.exit, placement.size, chip.clusters.barrier_release if chip.clusters else 0,
        chip.scheduler.operand_cycles, others, chip.scheduler.jump_apart, 0, 0, 0,
    )  # fmt: skip
    depth = max(1, *(spec.queue for spec in kinds))
    places_in_all = sms * per_sm
    for number, shape in (
        (STALLS, (1, len(entry) * REASONS)),
        (SIGNALS, (1, SIGNAL_COUNT)),
        (BOARDS, (rows, program.scoreboard)),
        (GROUPS, (rows, MOST_GROUPS)),
        (SUBS, (sms * subs, SUB)),
        (SUB_ROWS, (sms * subs, per_sm * warps)),
        (PIPES, (sms * subs * len(kinds), 5)),
        (QUEUES, (sms * subs * len(kinds), depth)),
        (SMS, (sms, SM)),
        (AGENDAS, (sms * items, 4)),
        (CTAS, (places_in_all, 6)),
        (ARRIVED, (places_in_all * BARRIERS, warps)),
        (NEEDED, (places_in_all, BARRIERS)),
        (WAITERS, (places_in_all * BARRIERS, warps + 1)),
        (DRY, (1, rows)),
        (CLUSTERS, (len(placement.sites), 3)),
    ):
        table.put(number, np.zeros(shape, np.int64))
    table.put(ENTRIES, entry)
    table.put(WARPS, _in_lines(rows, WARP))
    table.put(PLACES, places.astype(np.int64).reshape(1, -1))
    table.put(PIPE_KINDS, np.array([(REASON[spec.throttle], spec.queue) for spec in kinds], np.int64))
    table.put(OPTIONS, options)
    table.put(NEXT, np.full((1, sms), NEVER, np.int64))
    table.put(SITE_OF, np.array([placement.site_of], np.int64))
    table.put(SITES, np.array(placement.sites, np.int64))
    table.put(PEERS, table[SITES] // per_sm)
    for number, array in (
        (PCS, buffers.pcs),
        (EXECUTING, buffers.executing),
        (PAYLOAD, buffers.payload),
        (WORDS, buffers.words),
        (USED, buffers.used),
        (SETTLED, buffers.settled),
        (AT, buffers.at),
    ):
        table.put(number, array)
    table[SUBS][:, S_NEXT] = NEVER
    table[SUBS][:, S_LAST] = -1
    table[PIPES][:, P_USER] = -1
    return ChipState(table)
