"""The L1 data cache of an SM: tags for lines of 128 bytes, valid bits for their four sectors.

Stores write through. They allocate their line, as the hit rates of an H200 show, but only a load makes a sector valid; a sector
that is valid takes the store and stays valid. Local memory differs: a store makes its sectors valid, since no other SM can
change them, and a thread reads what it has stored itself. Replacement is least recently used over the whole cache (hardware has
few, wide sets). A load that hits a sector still on its way waits for it.

Sectors come as a payload lists them (:mod:`tcsim.execute.accesses`); neighbours of one line are one request.
"""

from __future__ import annotations

from isa.compiled import compiled
from tcsim.execute.state import LOCAL_DEVICE_BASE
from tcsim.timing.arrays import row
from tcsim.timing.hierarchy import (
    COSTS,
    L1,
    L1_LATENCY,
    L1_THERE,
    L1_VALID,
    LINE_BYTES,
    TAG_T,
    WAVEFRONT_LATENCY,
    count4,
)
from tcsim.timing.l2 import l2_read
from tcsim.timing.l2_atomics import l2_atomic
from tcsim.timing.lru import find, put, touch
from tcsim.timing.units import TICKS
from tcsim.timing.write_buffer import write_line

FIRST_LOCAL_LINE, LOCAL_LINES = LOCAL_DEVICE_BASE // LINE_BYTES, 1 << 33

__all__ = ["l1_atomic", "l1_bypass", "l1_load", "l1_store", "lines_in", "tag_cycles"]


@compiled
def lines_in(words, first, end):
    """Lines of the sectors ``words[first:end]``, neighbours put together."""
    lines = 0
    line = -1
    for index in range(first, end):
        if words[index] >> 2 != line:
            line = words[index] >> 2
            lines += 1
    return lines


@compiled
def tag_cycles(m, lines):
    """Cycles that looking up so many lines takes."""
    return (lines * row(m, COSTS, 0)[TAG_T] + TICKS - 1) // TICKS


@compiled
def _next_line(words, index, end):
    """The line of the sector at ``index``, the mask of those that follow in it, and where the next line starts."""
    line = words[index] >> 2
    mask = 0
    while index < end and words[index] >> 2 == line:
        mask |= 1 << (words[index] & 3)
        index += 1
    return line, mask, index


@compiled
def l1_load(m, sm, words, first, end, wavefronts, now, start, cached):
    """Load the sectors ``words[first:end]`` for an instruction that issued in cycle ``now`` and reached the tags in ``start``.

    Returns the cycle in which all data is there, and how many sectors hit.
    """
    ready = start + row(m, COSTS, 0)[L1_LATENCY] + row(m, COSTS, 0)[WAVEFRONT_LATENCY] * (wavefronts - 1)
    hits = 0
    index = first
    while index < end:
        line, mask, index = _next_line(words, index, end)
        missing = mask
        slot = -1
        if cached:
            slot = find(m, L1, sm, line)
            if slot >= 0:
                valid = row(m, L1_VALID, sm)[slot]
                missing = mask & ~valid
                if missing != mask:
                    hits += count4(mask & valid)
                    if row(m, L1_THERE, sm)[slot] > ready:
                        ready = row(m, L1_THERE, sm)[slot]
                touch(m, L1, sm, slot)
        if missing:
            there = l2_read(m, sm, line, missing, now, start) + row(m, COSTS, 0)[L1_LATENCY]
            if there > ready:
                ready = there
            if cached:
                if slot < 0:
                    slot = put(m, L1, sm, line)
                    row(m, L1_VALID, sm)[slot] = 0
                    row(m, L1_THERE, sm)[slot] = 0
                row(m, L1_VALID, sm)[slot] |= missing
                if there > row(m, L1_THERE, sm)[slot]:
                    row(m, L1_THERE, sm)[slot] = there
    return ready, hits


@compiled
def l1_bypass(m, sm, words, first, end, now, start):
    """Ask the L2 for what copies past the L1 bring: requests ``words[first:end]``, each line << 4 | sectors. Returns the cycle
    in which all data is there."""
    ready = start
    for index in range(first, end):
        ready = max(ready, l2_read(m, sm, words[index] >> 4, words[index] & 15, now, start))
    return ready + row(m, COSTS, 0)[L1_LATENCY]


@compiled
def l1_store(m, sm, sub, words, first, end, partial, now, start):
    """Store to sectors; ``partial``: how many of their bytes, if not all (else 0). Returns the cycle in which their data has
    left the SM, that in which the last is acknowledged, and how many sectors found their line."""
    left = acknowledged = start
    hits = 0
    index = first
    while index < end:
        line, mask, index = _next_line(words, index, end)
        stored = partial * count4(mask) // (end - first) if partial else 32 * count4(mask)
        gone, done = write_line(m, sm, sub, line, mask, stored, now, start)
        left, acknowledged = max(left, gone), max(acknowledged, done)
        slot = find(m, L1, sm, line)
        if slot >= 0:
            hits += count4(mask)
            touch(m, L1, sm, slot)
        else:
            slot = put(m, L1, sm, line)
            row(m, L1_VALID, sm)[slot] = 0
            row(m, L1_THERE, sm)[slot] = 0
        if FIRST_LOCAL_LINE <= line < FIRST_LOCAL_LINE + LOCAL_LINES:
            row(m, L1_VALID, sm)[slot] |= mask
    return left, acknowledged, hits


@compiled
def l1_atomic(m, sm, words, first, end, lane_ticks, now, start):
    """Atomics on sectors, done at the L2; behind ``end`` stands for each sector the most lanes on one of its words. Returns the
    cycle in which all results are back. The L1 forgets the sectors."""
    ready = start + row(m, COSTS, 0)[L1_LATENCY]
    index = first
    while index < end:
        before = index
        line, mask, index = _next_line(words, index, end)
        counts = 0
        for sector in range(before, index):
            counts += words[sector + end - first] << 16 * (words[sector] & 3)
        slot = find(m, L1, sm, line)
        if slot >= 0:
            row(m, L1_VALID, sm)[slot] &= ~mask
        ready = max(ready, l2_atomic(m, sm, line, mask, counts, lane_ticks, now, start) + row(m, COSTS, 0)[L1_LATENCY])
    return ready
