"""Atomics and reductions of global memory, which the L2 executes at the home of their line.

An SM sends an operand for each lane on the busiest word of a sector, one a cycle: lanes on one word are not added up before.
The home slice looks up a request for each lane on the busiest word of a line; a far SM's pass through its near half first,
where they take as much. The slice's arithmetic unit then takes a clock for each operand, whatever the operation and its
width, and a little more for each request. Sums of floats take longer, so those to a sector wait for each other, while others
pass them. So many operands of an SM may be under way, and so many of them to one slice; with more it waits. (Measured on an
H200, docs/microbenchmarks.md.)
"""

from __future__ import annotations

from isa.compiled import compiled
from tcsim.timing.arrays import row
from tcsim.timing.dram import brought, dram_read
from tcsim.timing.hierarchy import (
    ATOMIC_AHEAD,
    ATOMIC_CHAINS,
    ATOMIC_LATENCY,
    ATOMIC_QUEUES,
    ATOMIC_REQUEST_T,
    ATOMIC_SECTORS,
    ATOMIC_T,
    ATOMIC_TURNS,
    ATOMIC_UNITS,
    CHAIN_SLOTS,
    CLOCK_T,
    COSTS,
    DRAM_NEAR,
    FABRIC_ATOMICS,
    FABRIC_REQUESTS,
    FILLS,
    L2,
    L2_FAR,
    L2_HIT,
    L2_REQUESTS,
    L2_STATE,
    L2_THERE,
    LAST_SERVED,
    PORTS,
    SLICE_AHEAD,
    TOTALS,
    UP,
    count4,
    serve,
)
from tcsim.timing.l2 import ask_slice, keep_sectors, own_sectors
from tcsim.timing.l2_places import home_partition, near_partition, slice_of
from tcsim.timing.lru import find
from tcsim.timing.translation import translation_wait
from tcsim.timing.units import TICKS

__all__ = ["l2_atomic"]

# Columns of ATOMIC_QUEUES: the oldest request under way and the one that comes next (of all of the SM), operands under way, and
# then two for each: when it is served (ticks), and its operands.
FIRST, NEXT, UNDER_WAY, HEAD = range(4)


@compiled
def _summed(m, line, counts, lane_ticks, begun, served):
    """When the sums of a request are done whose operands the slice's unit takes from tick ``begun`` to ``served``: those to a
    sector are ``lane_ticks`` apart."""
    for sector in range(4):
        lanes = counts >> 16 * sector & 0xFFFF
        if lanes:
            key = 4 * line + sector
            chain = row(m, ATOMIC_CHAINS, (key ^ key >> 11) & (CHAIN_SLOTS - 1))
            if chain[0] == key:
                begun = max(begun, chain[1])
            chain[0], chain[1] = key, begun + lanes * lane_ticks
            served = max(served, chain[1])
    return served


@compiled
def _room(m, sm, operands):
    """When there is room for the operands of a request of an SM behind those that are under way; makes it."""
    queue, ahead, room = row(m, ATOMIC_QUEUES, sm), row(m, COSTS, 0)[ATOMIC_AHEAD], 0
    while queue[FIRST] < queue[NEXT] and queue[UNDER_WAY] + operands > ahead:
        oldest = HEAD + 2 * (queue[FIRST] % ahead)
        room = max(room, queue[oldest])
        queue[UNDER_WAY] -= queue[oldest + 1]
        queue[FIRST] += 1
    return room


@compiled
def _turn(m, sm, number, operands):
    """When there is room for operands of an SM in front of a slice: they come in turns of half of what may wait there, and a
    turn waits for the last but one."""
    turn, place = row(m, ATOMIC_TURNS, sm), 3 * number
    if 2 * (turn[place] + operands) <= row(m, COSTS, 0)[SLICE_AHEAD]:
        turn[place] += operands
        return 0
    room = turn[place + 1]
    turn[place], turn[place + 1] = operands, turn[place + 2]
    return room


@compiled
def _queue(m, sm, operands, served):
    """Operands of an SM are under way until tick ``served``."""
    queue = row(m, ATOMIC_QUEUES, sm)
    place = HEAD + 2 * (queue[NEXT] % row(m, COSTS, 0)[ATOMIC_AHEAD])
    queue[place], queue[place + 1] = served, operands
    queue[UNDER_WAY] += operands
    queue[NEXT] += 1


@compiled
def l2_atomic(m, sm, line, mask, counts, lane_ticks, now, start):
    """Atomics on the sectors ``mask`` of a line. ``counts``: for each sector, 16 bits from the lowest, the most lanes on one of
    its words. ``lane_ticks``: from one lane to the next on a sector, where that is more than what the unit takes. Nsight
    Compute counts the most of the four as requests, and their sum as sectors (exact on an H200). Returns the cycle in which the
    results are back, without the L1's latency."""
    ticks, near, home = now * TICKS, near_partition(m, sm), home_partition(m, line)
    requests = sectors = 0
    for sector in range(4):
        lanes = counts >> 16 * sector & 0xFFFF
        requests = max(requests, lanes)
        sectors += lanes
    row(m, TOTALS, 0)[L2_REQUESTS] += requests
    row(m, TOTALS, 0)[ATOMIC_SECTORS] += sectors
    latency = row(m, COSTS, 0)[L2_HIT] + row(m, COSTS, 0)[ATOMIC_LATENCY] + translation_wait(m, sm, now)
    served = serve(row(m, PORTS, sm), UP, start * TICKS, sectors * TICKS)
    number = slice_of(m, home, line)
    served = row(m, PORTS, sm)[UP] = max(served, _room(m, sm, sectors), _turn(m, sm, number, sectors))
    if home != near:
        latency += row(m, COSTS, 0)[L2_FAR]
        row(m, TOTALS, 0)[FABRIC_ATOMICS] += sectors
        row(m, TOTALS, 0)[FABRIC_REQUESTS] += requests
        served = max(served, ask_slice(m, near, line, ticks, requests * row(m, COSTS, 0)[CLOCK_T]))
    served = max(served, ask_slice(m, home, line, ticks, requests * row(m, COSTS, 0)[CLOCK_T]))
    service = sectors * row(m, COSTS, 0)[ATOMIC_T] + requests * row(m, COSTS, 0)[ATOMIC_REQUEST_T]
    done = serve(row(m, ATOMIC_UNITS, 0), number, ticks, service)
    served = max(served, done)
    if lane_ticks:
        served = _summed(m, line, counts, lane_ticks, done - service, served)
    _queue(m, sm, sectors, served)
    row(m, ATOMIC_TURNS, sm)[3 * number + 2] = served
    row(m, TOTALS, 0)[LAST_SERVED] = max(row(m, TOTALS, 0)[LAST_SERVED], served)
    slot = find(m, L2, home, line)
    tag = row(m, L2_STATE, home)[slot] if slot >= 0 else 0
    there = row(m, L2_THERE, home)[slot] if slot >= 0 else 0
    absent = mask & ~tag & 15
    if absent:
        fetched = brought(m, absent)
        row(m, TOTALS, 0)[FILLS] += count4(fetched)
        served = max(served, dram_read(m, line, fetched, ticks))
        latency += row(m, COSTS, 0)[DRAM_NEAR]
        keep_sectors(m, home, line, fetched, 0, latency + served // TICKS, ticks)
    own_sectors(m, home, home, line, mask, now)
    return max(there, latency + -(-served // TICKS))
