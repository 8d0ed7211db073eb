"""Recognise threads that spin: they come back to an instruction with all their registers as they were.

Nothing but memory can then end their loop, so the lanes of their warp that wait for them must go on, for it may be they who
write it: one of them may hold the lock that the others try to take (PTX ISA 3.1: every thread makes progress).
"""

from __future__ import annotations

import numpy as np

from isa.compiled import compiled
from tcsim.execute.state import GroupState

__all__ = ["forget", "spins"]

PARKED = GroupState.PARKED
SEEN_PC, SEEN_LANES, SEEN_WORDS, SEEN_FOR = range(4)
REMEMBERED = 64
"""Turns after which a state that has not come again is replaced by the present one: a loop that grows its pauses settles late.
The turns of a loop of ``k`` instructions end at ``k`` places at most, so longer loops may not be recognised."""


@compiled
def _digest(words):
    """A hash of registers (FNV-1a by words)."""
    value = np.uint64(0xCBF29CE484222325)
    for word in words:
        value = (value ^ np.uint64(word)) * np.uint64(0x100000001B3)
    return np.int64(value)


@compiled
def forget(s, w):
    """Start anew: the groups of a warp have met, or parted from what they waited for."""
    s.seen[w, SEEN_PC] = -1
    s.seen[w, SEEN_FOR] = 0


@compiled
def spins(s, w, g):
    """Whether others wait for group ``g`` of a warp, which ends a turn where it ended an earlier one."""
    waited_for = False
    for h in range(32):
        waited_for = waited_for or (s.mask[w, h] != 0 and s.state[w, h] == PARKED)
    if not waited_for:
        return False
    now = _digest(s.blocks[w])
    if s.seen[w, SEEN_PC] == s.pc[w, g] and s.seen[w, SEEN_LANES] == s.mask[w, g] and s.seen[w, SEEN_WORDS] == now:
        return True
    if s.seen[w, SEEN_PC] < 0 or s.seen[w, SEEN_FOR] >= REMEMBERED:
        s.seen[w, SEEN_PC] = s.pc[w, g]
        s.seen[w, SEEN_LANES] = s.mask[w, g]
        s.seen[w, SEEN_WORDS] = now
        s.seen[w, SEEN_FOR] = 0
    s.seen[w, SEEN_FOR] += 1
    return False
