"""CTA barriers (PTX ISA 9.7.13.1), counted per thread as hardware does since sm_70.

A barrier without a thread count opens when every thread of the CTA that has not exited has arrived; one with a count opens when
that many threads have (a warp whose live lanes have all arrived counts as 32, since hardware counts whole warps).
"""

from __future__ import annotations

import numpy as np

from isa.compiled import compiled
from isa.kernels.planes import as_i32, as_u32
from isa.program import EXTRA, KIND, OPERANDS, Kind
from tcsim.execute.state import GroupState

__all__ = ["arrive", "open_after_exit", "popcount", "wait"]

READY, BARRIER = GroupState.READY, GroupState.BARRIER
REDUCE = Kind.BARRIER_REDUCE
AND, OR = 2, 4  # bits of EXTRA, see isa.lower.emit


@compiled
def popcount(lanes):
    """How many lanes a mask has."""
    total = 0
    while lanes:
        lanes &= lanes - np.uint32(1)
        total += 1
    return total


@compiled
def _complete(s, number):
    """Whether a barrier has everyone it waits for."""
    total = 0
    everyone = True
    for w in range(len(s.live)):
        here = s.arrived[number, w]
        if s.live[w] & ~here:
            everyone = False
            total += popcount(np.uint32(here))
        elif here != 0:
            total += 32
    if s.needed[number] == 0:
        return everyone
    return total >= s.needed[number]


@compiled
def arrive(s, program, w, lanes, number, needed, ballot):
    """Lanes of a warp arrive at a barrier, with their predicates for a reducing one.

    ``needed`` is the thread count, 0 for all. If the barrier opens, every group waiting at it goes on. Returns False if some of
    the lanes had arrived before and were not yet let through (a misuse that hardware leaves undefined).
    """
    if s.arrived[number, w] & lanes:
        return False
    s.arrived[number, w] |= lanes
    s.ballot[number, w] = (s.ballot[number, w] & ~lanes) | (ballot & lanes)
    if needed != 0:
        s.needed[number] = needed
    if _complete(s, number):
        _open(s, program, number)
    return True


@compiled
def _open(s, program, number):
    count = np.int64(0)
    arrived = np.int64(0)
    for w in range(len(s.live)):
        count += popcount(np.uint32(s.ballot[number, w] & s.arrived[number, w]))
        arrived += popcount(s.arrived[number, w])
    for w in range(len(s.live)):
        if s.arrived[number, w] == 0:
            continue
        s.arrived[number, w] = 0
        for g in range(32):
            if s.mask[w, g] != 0 and s.state[w, g] == BARRIER and s.awaits[w, g] == np.uint32(number):
                row = program.code[s.pc[w, g]]
                if row[KIND] == REDUCE:
                    _deliver(s, program.pool, w, g, row, count, arrived)
                s.state[w, g] = READY
                s.pc[w, g] += 1
    s.needed[number] = 0


@compiled
def _deliver(s, pool, w, g, row, count, arrived):
    """Write the result of a reducing barrier into the destination of a waiting group."""
    mask = s.mask[w, g]
    at = s.blocks[w].ctypes.data + as_i32(pool + row[OPERANDS])[0]
    if row[EXTRA] & (AND | OR):
        true = count == arrived if row[EXTRA] & AND else count > 0
        word = as_u32(at)
        word[0] = (word[0] | mask) if true else (word[0] & ~mask)
    else:
        plane = as_u32(at)
        for lane in range(32):
            if (mask >> np.uint32(lane)) & np.uint32(1):
                plane[lane] = np.uint32(count)


@compiled
def open_after_exit(s, program):
    """After threads exited: open the barriers that waited only for them."""
    for number in range(s.arrived.shape[0]):
        waiting = False
        for w in range(len(s.live)):
            if s.arrived[number, w] != 0:
                waiting = True
                break
        if waiting and _complete(s, number):
            _open(s, program, number)


@compiled
def wait(s, w, g, number):
    """Group ``g`` waits at a barrier (before it arrives there, so that an opening barrier finds it)."""
    s.state[w, g] = BARRIER
    s.awaits[w, g] = np.uint32(number)
