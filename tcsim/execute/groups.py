"""Groups of converged threads: separating at a branch, meeting again, ending.

This is the hardware's convergence-barrier scheme (BSSY/BSYNC of the machine code), kept per warp: a branch whose two sides
meet at instruction *r* ties them to a barrier with the lanes to expect; a group that reaches *r* parks until all of them
have. Waiting there is a matter of efficiency, not of meaning: when nothing else can run, parked groups go on alone
(:func:`release`), so threads of one warp may wait for each other as independent thread scheduling allows.
"""

from __future__ import annotations

import numpy as np

from isa.compiled import compiled
from isa.program import EXTRA, KIND, Kind
from tcsim.execute.barriers import popcount
from tcsim.execute.state import AT_DEPTH, AT_OUTER, AT_PC, GroupState

__all__ = ["FOLLOWS", "RUNS", "USED", "end_lanes", "follow", "free_group", "park", "put_off", "release", "separate"]

READY, PARKED = GroupState.READY, GroupState.PARKED
RUNS, FOLLOWS, USED = range(3)
CONVERGE = Kind.CONVERGE


@compiled
def free_group(s, w):
    """An unused group of a warp. There is always one: a group has at least one lane."""
    for g in range(32):
        if s.mask[w, g] == 0:
            return g
    return -1


@compiled
def separate(s, w, g, taken, target, fall_through, meeting_point):
    """Split group ``g``: the ``taken`` lanes go to ``target``, the rest to ``fall_through``; both meet at ``meeting_point``.

    Group ``g`` keeps the falling-through lanes. A meeting point of -1 means that they meet only at the end of the kernel.
    """
    everyone = s.mask[w, g]
    meet = s.meet[w, g]
    depth = s.depth[w, g]
    if meeting_point >= 0 and (meet < 0 or s.meet_at[w, meet, AT_PC] != meeting_point or s.meet_at[w, meet, AT_DEPTH] != depth):
        outer = meet
        for index in range(32):  # at most 31 are ever in use: each splits a set of lanes of the one around it
            if s.meet_mask[w, index] == 0:
                meet = index
                break
        s.meet_mask[w, meet] = everyone
        s.meet_here[w, meet] = 0
        s.meet_at[w, meet, AT_PC] = meeting_point
        s.meet_at[w, meet, AT_OUTER] = outer
        s.meet_at[w, meet, AT_DEPTH] = depth
    other = free_group(s, w)
    s.mask[w, other] = taken
    s.pc[w, other] = target
    s.state[w, other] = READY
    s.meet[w, other] = meet
    s.depth[w, other] = depth
    s.mask[w, g] = everyone & ~taken
    s.pc[w, g] = fall_through
    s.meet[w, g] = meet
    return other


@compiled
def put_off(s, w, falling, taken):
    """Which of the two groups that a branch of machine code separates goes first: the smaller; of equal ones that which falls
    through. The other one follows it. (Seen on an H200 in each of 2,000 divergences of all sizes.)"""
    difference = popcount(s.mask[w, taken]) - popcount(s.mask[w, falling])
    first, later = (taken, falling) if difference < 0 else (falling, taken)
    s.turns[w, FOLLOWS] = later
    return first


@compiled
def follow(s, w, after, code):
    """The group of machine code that goes on when group ``after`` cannot; -1 if none is ready. It is the one that was put off
    last. Behind that the hardware remembers no groups, only where each thread is, so those that stand at the same BSYNC
    go on together (by how often an H200 executes BSYNC: 30,297 times in ``mandelbrot``, where 30,381 groups come to it)."""
    later = np.int64(s.turns[w, FOLLOWS])
    s.turns[w, FOLLOWS] = -1
    if later >= 0 and s.mask[w, later] != 0 and s.state[w, later] == READY:
        return later
    for step in range(1, 33):
        g = (after + step) & 31
        if s.mask[w, g] == 0 or s.state[w, g] != READY:
            continue
        row = code[s.pc[w, g]]
        meets = row[KIND] == CONVERGE and row[EXTRA] < 0  # at a BSYNC; what collectives do apart stays apart
        for other in range(32):
            if meets and other != g and s.mask[w, other] != 0 and s.state[w, other] == READY and s.pc[w, other] == s.pc[w, g]:
                s.mask[w, g] |= s.mask[w, other]
                s.mask[w, other] = 0
        return np.int64(g)
    return np.int64(-1)


@compiled
def park(s, w, g):
    """Group ``g`` has reached its meeting point. Returns the group that goes on from there, or -1 while lanes are missing."""
    meet = np.int64(s.meet[w, g])
    s.state[w, g] = PARKED
    s.meet_here[w, meet] |= s.mask[w, g]
    return _join(s, w, meet)


@compiled
def _join(s, w, meet):
    """Merge the groups parked at a convergence barrier if all its lanes are there."""
    if s.meet_mask[w, meet] == 0 or s.meet_here[w, meet] != s.meet_mask[w, meet]:
        return -1
    first = -1
    for g in range(32):
        if s.mask[w, g] != 0 and s.state[w, g] == PARKED and s.meet[w, g] == meet:
            if first < 0:
                first = g
            else:
                s.mask[w, first] |= s.mask[w, g]
                s.mask[w, g] = 0
    s.state[w, first] = READY
    s.pc[w, first] = s.meet_at[w, meet, AT_PC]
    s.meet[w, first] = s.meet_at[w, meet, AT_OUTER]
    s.meet_mask[w, meet] = 0
    return first


@compiled
def end_lanes(s, w, lanes):
    """Lanes that exit no longer count where others wait for them."""
    s.live[w] &= ~lanes
    for meet in range(32):
        if s.meet_mask[w, meet] & lanes:
            s.meet_mask[w, meet] &= ~lanes
            s.meet_here[w, meet] &= ~lanes
            _join(s, w, meet)


@compiled
def release(s, w):
    """Let the parked groups of a warp go on without the lanes they wait for. Returns whether there were any."""
    found = False
    for g in range(32):
        if s.mask[w, g] != 0 and s.state[w, g] == PARKED:
            meet = s.meet[w, g]
            s.meet_mask[w, meet] &= ~s.mask[w, g]
            s.meet_here[w, meet] &= ~s.mask[w, g]
            s.state[w, g] = READY
            s.meet[w, g] = s.meet_at[w, meet, AT_OUTER]
            found = True
    if found:
        for meet in range(32):
            _join(s, w, meet)
    return found
