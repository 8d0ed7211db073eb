"""The load/store unit of an SM, and what it leads to: shared memory, the L1 and the L2.

An instruction issues into the queue of its sub-partition, has its addresses generated there, and goes through the data port
that all four share: a wavefront a cycle, whether it reads shared memory, the L1 or other lanes' registers (shuffles).

The rules are functions over the arrays of :mod:`tcsim.timing.hierarchy`, one for each kind of access; each takes one part of an
instruction's payload (only wmma tiles have several) in ``words``, the address of its warp's, and returns first the cycle in
which it leaves the queue and last where the next part starts.
"""

from __future__ import annotations

from isa.compiled import compiled, inlined
from isa.kernels.planes import as_i64
from tcsim.timing.arrays import row
from tcsim.timing.hierarchy import (
    ASKED,
    ASKING,
    CONFLICTS,
    COPY_LATENCY,
    COSTS,
    DATA,
    DEVICE_WAVEFRONTS,
    EVENTS,
    L1_HITS,
    PORT_CYCLES,
    PORTS,
    REMOTE,
    REMOTE_ATOMIC_T,
    REMOTE_LOAD_T,
    REMOTE_STORE_T,
    REQUESTS,
    SECTORS,
    SHARED_ATOMIC,
    SHARED_LATENCY,
    SHARED_REQUESTS,
    STAGE,
    STAGE_WAVEFRONT,
    STAGES,
    STORE_AHEAD,
    TOTALS,
    UP,
    WAVEFRONT_LATENCY,
    WAVEFRONTS,
    serve,
)
from tcsim.timing.l1 import l1_atomic, l1_bypass, l1_load, l1_store, lines_in, tag_cycles
from tcsim.timing.units import TICKS
from tcsim.timing.write_buffer import queue_store

__all__ = ["atomic_part", "copy_part", "enter", "load_part", "store_part"]


@inlined
def enter(m, sm, sub, now, port, stage):
    """Through the address stage for ``stage`` cycles and onto the data port for ``port``; returns the cycle in which it gets
    there."""
    start = row(m, PORTS, sm)[STAGES + sub]
    if start < now:
        start = now
    row(m, PORTS, sm)[STAGES + sub] = start + stage
    if start < row(m, PORTS, sm)[DATA]:
        start = row(m, PORTS, sm)[DATA]
    row(m, PORTS, sm)[DATA] = start + port
    row(m, TOTALS, 0)[PORT_CYCLES] += port
    return start


@inlined
def _stage(m, wavefronts):
    return max(row(m, COSTS, 0)[STAGE], row(m, COSTS, 0)[STAGE_WAVEFRONT] * wavefronts)


@compiled
def _count_shared(m, pc, wavefronts, fewest):
    row(m, EVENTS, pc)[SHARED_REQUESTS] += 1
    row(m, EVENTS, pc)[WAVEFRONTS] += wavefronts
    if wavefronts > fewest:
        row(m, EVENTS, pc)[CONFLICTS] += wavefronts - fewest


@compiled
def _shared(m, sm, sub, pc, wavefronts, fewest, stage, now):
    """An access to shared memory; returns the cycle in which it gets there, and that in which it is done."""
    start = enter(m, sm, sub, now, wavefronts, stage)
    _count_shared(m, pc, wavefronts, fewest)
    return start, start + row(m, COSTS, 0)[SHARED_LATENCY] + row(m, COSTS, 0)[WAVEFRONT_LATENCY] * (wavefronts - 1)


@compiled
def _remote(m, sm, sub, mark, wavefronts, service, stage, now):
    """An access to shared memory of another CTA, on the SM that the payload's ``mark`` names: ``service`` ticks for each
    wavefront. Returns the cycle in which it leaves the SM, and that in which it is done."""
    start = enter(m, sm, sub, now, wavefronts, stage)
    served = max(
        serve(row(m, PORTS, sm), ASKING, start * TICKS, wavefronts * service),
        serve(row(m, PORTS, -2 - mark), ASKED, start * TICKS, wavefronts * service),
    )
    return start, row(m, COSTS, 0)[SHARED_LATENCY] + row(m, COSTS, 0)[REMOTE] + -(-served // TICKS)


@compiled
def _count_device(m, pc, sectors, hits, wavefronts):
    row(m, EVENTS, pc)[REQUESTS] += 1
    row(m, EVENTS, pc)[SECTORS] += sectors
    row(m, EVENTS, pc)[L1_HITS] += hits
    row(m, EVENTS, pc)[DEVICE_WAVEFRONTS] += wavefronts


@inlined
def _wavefronts(words, first, end):
    """Wavefronts that an H200 counts for an access to sectors: as many as lie at the same place of their lines, where banks are
    the same (stores with strides of 2 to 33 words, and to random places: within 3 %)."""
    places = 0  # 16 bits for each of the four
    for index in range(first, end):
        places += 1 << ((words[index] & 3) << 4)
    low, high = max(places & 0xFFFF, places >> 16 & 0xFFFF), max(places >> 32 & 0xFFFF, places >> 48)
    return max(low, high)


@inlined
def _wait_for_room(m, sm, left):
    """What has been stored last leaves the SM in cycle ``left``: the data port waits until there is room behind it."""
    free = left - row(m, COSTS, 0)[STORE_AHEAD]
    if row(m, PORTS, sm)[DATA] < free:
        row(m, PORTS, sm)[DATA] = free


@compiled
def load_part(m, sm, sub, pc, fewest, cached, words, at, now):
    """A load of a register per lane, of a matrix, or of a register's part of a tile. Returns (start, cycle in which the data is
    there, whether it came from shared memory, next part)."""
    words = as_i64(words)
    count = words[at]
    if words[at + 1] < -1:
        start, done = _remote(m, sm, sub, words[at + 1], count, row(m, COSTS, 0)[REMOTE_LOAD_T], _stage(m, count), now)
        return start, done, False, at + 2
    if words[at + 1] < 0:
        start, done = _shared(m, sm, sub, pc, count, fewest, _stage(m, count), now)
        return start, done, True, at + 2
    first = at + 2
    port = max(words[at + 1], tag_cycles(m, lines_in(words, first, first + count)))
    start = enter(m, sm, sub, now, port, _stage(m, port))
    done, hits = l1_load(m, sm, words, first, first + count, words[at + 1], now, start, cached)
    _count_device(m, pc, count, hits, max(port, _wavefronts(words, first, first + count)))
    return start, done, False, first + count


@compiled
def store_part(m, sm, sub, pc, fewest, stage, words, at, now):
    """A store. Returns (start, cycle in which the data has left the SM, cycle in which it is acknowledged, whether it went to
    shared memory, next part)."""
    words = as_i64(words)
    count = words[at]
    if words[at + 1] < -1:
        start, done = _remote(m, sm, sub, words[at + 1], count, row(m, COSTS, 0)[REMOTE_STORE_T], max(stage, count), now)
        return start, start, done, False, at + 2
    if words[at + 1] < 0:
        start, _ = _shared(m, sm, sub, pc, count, fewest, max(stage, row(m, COSTS, 0)[STAGE_WAVEFRONT] * count), now)
        return start, start, start, True, at + 2
    first = at + 2
    # As fast as the way to the L2 takes whole sectors; of others some may wait there already.
    port = max(fewest, 2 * lines_in(words, first, first + count) if words[at + 1] else count)
    start = enter(m, sm, sub, now, port, max(stage, port))
    queue_store(m, sm, sub, now, start)
    left, done, hits = l1_store(m, sm, sub, words, first, first + count, words[at + 1], now, start)
    _wait_for_room(m, sm, left)
    _count_device(m, pc, count, hits, _wavefronts(words, first, first + count))
    return start, left, done, False, first + count


@compiled
def atomic_part(m, sm, sub, pc, fewest, lane_ticks, words, at, now):
    """An atomic: on shared memory in place, on global memory at the L2 (``lane_ticks``: :mod:`tcsim.timing.l2_atomics`), where
    it counts as a sector for each lane on the busiest word of a sector. Returns (start, cycle in which its data has left the
    SM, cycle in which its result is there, whether it was in shared memory, next part)."""
    words = as_i64(words)
    count = words[at]
    if words[at + 1] < -1:
        start, done = _remote(m, sm, sub, words[at + 1], count, row(m, COSTS, 0)[REMOTE_ATOMIC_T], _stage(m, count), now)
        return start, start, done + row(m, COSTS, 0)[SHARED_ATOMIC], False, at + 2
    if words[at + 1] < 0:
        start, done = _shared(m, sm, sub, pc, count, fewest, _stage(m, count), now)
        return start, start, done + row(m, COSTS, 0)[SHARED_ATOMIC], True, at + 2
    first = at + 2
    port = tag_cycles(m, lines_in(words, first, first + count))
    start = enter(m, sm, sub, now, port, _stage(m, port))
    done = l1_atomic(m, sm, words, first, first + count, lane_ticks, now, start)
    left = row(m, PORTS, sm)[UP] // TICKS
    _wait_for_room(m, sm, left)
    passes = 0
    for index in range(first + count, first + 2 * count):
        passes += words[index]
    _count_device(m, pc, passes, 0, max(1, passes // 4))
    return start, left, done, False, first + 2 * count


@compiled
def copy_part(m, sm, sub, pc, fewest, cached, port, words, at, now):
    """cp.async: a load whose data goes to shared memory when it comes. Returns (start, cycle in which it has landed, next
    part).

    Its data passes by a way of its own to the banks; the port sees the tags, and at least ``port`` cycles.
    """
    words = as_i64(words)
    _count_shared(m, pc, words[at], fewest)
    count, requests = words[at + 2], words[at + 3]
    first = at + 4
    end = first + count
    if requests == 0 or cached:
        port = max(port, tag_cycles(m, lines_in(words, first, end)))
        start = enter(m, sm, sub, now, port, row(m, COSTS, 0)[STAGE])
        done, hits = l1_load(m, sm, words, first, end, 1, now, start, cached)
    else:
        port = max(port, tag_cycles(m, requests))
        start = enter(m, sm, sub, now, port, row(m, COSTS, 0)[STAGE])
        count, hits = words[end], 0
        done = l1_bypass(m, sm, words, end + 1, end + 1 + requests, now, start)
    _count_device(m, pc, count, hits, 0)
    return start, done + row(m, COSTS, 0)[COPY_LATENCY], end + (1 + requests if requests else 0)
