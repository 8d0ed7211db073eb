"""The tensor memory accelerator of an SM: bulk and tensor copies in time.

It takes one copy after another and asks for its lines one after another, of each row of a box those that it touches; a line
takes the way through the L2 that a load or store of a warp takes. A copy has landed when its last line has.
"""

from __future__ import annotations

from isa.compiled import compiled
from isa.kernels.planes import as_i64
from tcsim.execute.signals import Signal
from tcsim.timing.arrays import row
from tcsim.timing.hierarchy import (
    ASKED,
    ASKING,
    COSTS,
    DOWN,
    PORTS,
    REMOTE,
    REMOTE_STORE_T,
    SECTOR_T,
    TMA_FREE,
    TMA_LATENCY,
    TMA_LINE_T,
    TMA_STORE,
    count4,
    serve,
)
from tcsim.timing.l2 import l2_read, l2_write
from tcsim.timing.l2_atomics import l2_atomic
from tcsim.timing.units import TICKS

__all__ = ["tma_copy"]

LOAD, STORE, ADD, MOVE = Signal.LOAD, Signal.STORE, Signal.ADD, Signal.MOVE


@compiled
def tma_copy(m, sm, words, at, peers, now):
    """A copy that a warp issues in cycle ``now``; its payload is at ``at`` of ``words``. ``peers``: address of the SMs of the
    cluster's CTAs, by rank. Returns the cycle in which it has landed, or in which its source has been read if it is a store."""
    payload = as_i64(words + 8 * at)
    ticks = now * TICKS
    if ticks < row(m, PORTS, sm)[TMA_FREE]:
        ticks = row(m, PORTS, sm)[TMA_FREE]
    landed = ticks // TICKS
    if payload[0] == MOVE:
        return _move(m, sm, payload, peers, ticks)
    for i4 in range(payload[10]):
        for i3 in range(payload[9]):
            for i2 in range(payload[8]):
                for i1 in range(payload[7]):
                    address = payload[5] + i1 * payload[11] + i2 * payload[12] + i3 * payload[13] + i4 * payload[14]
                    there, ticks = _row(m, sm, payload, peers, address, ticks, now)
                    landed = max(landed, there)
    row(m, PORTS, sm)[TMA_FREE] = ticks
    return landed + row(m, COSTS, 0)[TMA_LATENCY if payload[0] == LOAD else TMA_STORE]


@compiled
def _row(m, sm, payload, peers, address, ticks, now):
    """The lines of a row of a box. Returns the cycle in which the last is there, and the tick from which the next can be asked
    for."""
    landed = ticks // TICKS
    end = address + payload[6]
    while address < end:
        line = address >> 7
        behind = min(end, (line + 1) << 7)
        mask = (2 << ((behind - 1 >> 5) & 3)) - (1 << ((address >> 5) & 3))
        partial = (address | behind) & 31 != 0
        there, ticks = _line(m, sm, payload, peers, line, mask, partial, ticks, now)
        landed = max(landed, there)
        address = behind
    return landed, ticks


@compiled
def _line(m, sm, payload, peers, line, mask, partial, ticks, now):
    start = ticks // TICKS
    if payload[0] == STORE:
        left, _ = l2_write(m, sm, line, mask, partial, 0, now, start)
        return left, ticks + count4(mask) * TICKS
    if payload[0] == ADD:
        counts = (mask & 1) | (mask >> 1 & 1) << 16 | (mask >> 2 & 1) << 32 | (mask >> 3 & 1) << 48
        l2_atomic(m, sm, line, mask, counts, 0, now, start)
        return start, ticks + count4(mask) * TICKS
    there = l2_read(m, sm, line, mask, now, start)
    for rank in range(16):
        if payload[1] >> rank & 1:
            peer = as_i64(peers)[rank] if peers else sm
            if peer != sm:  # multicast: the others get what one has asked for
                moved = serve(row(m, PORTS, peer), DOWN, start * TICKS, count4(mask) * row(m, COSTS, 0)[SECTOR_T])
                there = max(there, moved // TICKS)
    return there, ticks + row(m, COSTS, 0)[TMA_LINE_T]


@compiled
def _move(m, sm, payload, peers, ticks):
    """A block from shared memory to that of another CTA."""
    service = -(-payload[6] // 128) * row(m, COSTS, 0)[REMOTE_STORE_T]
    served = serve(row(m, PORTS, sm), ASKING, ticks, service)
    for rank in range(16):
        if payload[1] >> rank & 1 and peers:
            served = max(served, serve(row(m, PORTS, as_i64(peers)[rank]), ASKED, ticks, service))
    return -(-served // TICKS) + row(m, COSTS, 0)[REMOTE] + row(m, COSTS, 0)[TMA_STORE]
