"""What a timed run writes down: per warp, each executed instruction, and where its memory accesses went.

Records are bounded: a warp whose buffer is full stops until the timing model has read it, so a grid of any size needs
the same memory. A record is (pc, active lanes, executing lanes, payload). The payload of a memory instruction is that
of :func:`tcsim.execute.accesses.describe`; that of a CTA barrier is [its number, the threads it waits for or 0 for
all]; that of an asynchronous instruction is one of :class:`tcsim.execute.signals.Signal`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa.compiled import call, compiled
from isa.kernels.planes import as_i32, as_u32, store_i64
from isa.machine import CLOCK, GLOBAL_TIMER
from isa.program import EXTRA, KIND, OPERANDS, Kind, Program
from tcsim.execute.accesses import MAX_WORDS, SPACE, access_table, describe, tile_table
from tcsim.execute.barriers import popcount
from tcsim.execute.signals import describer, signal_table
from tcsim.execute.state import COUNT_FULL

__all__ = ["Recorder", "barrier_table", "new_recorder", "record"]


class Recorder(NamedTuple):
    """Buffers [warp, record] and, for payloads, [warp, word]. ``used``: int64 [warp, 2], records and payload words
    written.

    ``payload`` of a record is the position of its first payload word, or -1. ``accesses`` and ``tiles`` describe the
    program's memory instructions, ``barriers`` its CTA barriers (:func:`barrier_table`), ``signals`` its asynchronous ones
    (:func:`~tcsim.execute.signals.signal_table`; ``describer``: what describes those); ``pool`` is its operand pool's address.
    ``timed``: instructions whose result depends on when they execute (``%clock``); a warp stops before one until
    ``permits[warp]`` is positive, and uses up one permit; it then reads ``now[warp]``: (cycle, ns). ``last``: the group of each
    warp that has had its turn. ``counts``: per instruction how often a warp executed it, with how many active and how many
    executing threads.
    """

    pcs: NDArray[np.int32]
    active: NDArray[np.uint32]
    executing: NDArray[np.uint32]
    payload: NDArray[np.int32]
    words: NDArray[np.int64]
    used: NDArray[np.int64]
    accesses: NDArray[np.int32]
    tiles: NDArray[np.int64]
    barriers: NDArray[np.int32]
    signals: NDArray[np.int32]
    describer: int
    pool: int
    timed: NDArray[np.bool_]
    permits: NDArray[np.int64]
    now: NDArray[np.int64]
    last: NDArray[np.int64]
    counts: NDArray[np.int64]


def new_recorder(program: Program, warps: int, records: int, pool: int, counts: NDArray[np.int64]) -> Recorder:
    """Buffers for ``records`` instructions per warp. ``counts``: int64 [instructions, 3] to count in."""
    shape, signals = (warps, records), signal_table(program)
    return Recorder(
        pcs=np.zeros(shape, np.int32),
        active=np.zeros(shape, np.uint32),
        executing=np.zeros(shape, np.uint32),
        payload=np.zeros(shape, np.int32),
        words=np.zeros((warps, 2 * MAX_WORDS + 8 * records), np.int64),
        used=np.zeros((warps, 2), np.int64),
        accesses=access_table(program),
        tiles=tile_table(program),
        barriers=barrier_table(program),
        signals=signals,
        describer=describer() if (signals[:, 0] >= 0).any() else 0,
        pool=pool,
        timed=(program.code[:, KIND] == Kind.KERNEL) & (program.code[:, EXTRA] == 1),
        permits=np.zeros(warps, np.int64),
        now=np.zeros((warps, 2), np.int64),
        last=np.full(warps, 31),
        counts=counts,
    )


def barrier_table(program: Program) -> NDArray[np.int32]:
    """The CTA barriers of a program, int32 [n, 3]: operand row (bytes), and the places in it of the barrier's number and of its
    thread count (-1: all threads). The first is -1 where there is no barrier.
    """
    table = np.full((len(program.code), 3), -1, np.int32)
    for pc, row in enumerate(program.code):
        if row[KIND] in (Kind.BARRIER_SYNC, Kind.BARRIER_ARRIVE, Kind.BARRIER_REDUCE):
            number = 1 if row[KIND] == Kind.BARRIER_REDUCE else 0  # a reduction's destination comes first
            table[pc] = row[OPERANDS], number, -1 if row[EXTRA] & 1 else number + 1
    return table


@compiled
def record(log, s, w, pc, active, executing, base, ctx):
    """Write down one instruction before it executes. Returns False if the warp must stop first (nothing is written)."""
    position = log.used[w, 0]
    room = log.used[w, 1]
    if position >= log.pcs.shape[1] or room + MAX_WORDS > log.words.shape[1]:
        s.counters[COUNT_FULL] = 1
        return False
    if log.timed[pc]:
        if log.permits[w] == 0:
            s.counters[COUNT_FULL] = 1
            return False
        log.permits[w] -= 1
        store_i64(ctx + 8 * CLOCK, log.now[w, 0])
        store_i64(ctx + 8 * GLOBAL_TIMER, log.now[w, 1])
    log.pcs[w, position] = pc
    log.active[w, position] = active
    log.executing[w, position] = executing
    log.payload[w, position] = -1
    log.used[w, 0] = position + 1
    log.counts[pc, 0] += 1
    log.counts[pc, 1] += popcount(np.uint32(active))
    log.counts[pc, 2] += popcount(np.uint32(executing))
    row = log.accesses[pc]
    if row[SPACE] >= 0 and executing:
        log.payload[w, position] = room
        log.used[w, 1] = describe(log.words[w], room, row, log.tiles, log.pool, base, executing, ctx)
        if log.signals[pc, 0] >= 0:  # an access that signals an mbarrier object, too
            log.used[w, 1] = _signal(log, w, pc, log.used[w, 1], base, executing, ctx)
    elif log.barriers[pc, 0] >= 0 and executing:
        log.payload[w, position] = room
        log.used[w, 1] = room + 2
        operands = as_i32(log.pool + log.barriers[pc, 0])
        for column in range(2):
            place = log.barriers[pc, 1 + column]
            log.words[w, room + column] = 0 if place < 0 else _first_value(base + operands[place], executing)
        if log.barriers[pc, 2] >= 0 and operands[log.barriers[pc, 1]] == operands[log.barriers[pc, 2]]:  # one register for both
            log.words[w, room] &= 0xF
            log.words[w, room + 1] >>= 16
    elif log.signals[pc, 0] >= 0 and executing:
        log.payload[w, position] = room
        log.used[w, 1] = _signal(log, w, pc, room, base, executing, ctx)
    return True


@compiled
def _signal(log, w, pc, start, base, executing, ctx):
    words, row = log.words[w].ctypes.data, log.signals[pc].ctypes.data
    return call(log.describer, (words, start, row, log.pool, base, executing, ctx))


@compiled
def _first_value(plane, lanes):
    """The value that the lowest of ``lanes`` has in a plane."""
    for lane in range(32):
        if (lanes >> np.uint32(lane)) & np.uint32(1):
            return np.int64(as_u32(plane)[lane])
    return np.int64(0)
