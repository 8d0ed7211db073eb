"""Groups of converged threads: separating at a branch, meeting again, ending.

This is the hardware's convergence-barrier scheme (BSSY/BSYNC of the machine code), kept per warp: a branch whose two sides
meet at instruction *r* ties them to a barrier with the lanes to expect; a group that reaches *r* parks until all of them
have. Waiting there is a matter of efficiency, not of meaning: when nothing else can run, parked groups go on alone
(:func:`release`), so threads of one warp may wait for each other as independent thread scheduling allows.
"""

from __future__ import annotations

import numpy as np

from isa.compiled import compiled
from isa.program import EXTRA, KIND, Kind, Meeting
from tcsim.execute.barriers import popcount
from tcsim.execute.state import AT_DEPTH, AT_OUTER, AT_PC, GroupState

__all__ = [
    "AGAIN",
    "FOLLOWS",
    "PLACE",
    "RUNS",
    "TOGETHER",
    "USED",
    "end_lanes",
    "follow",
    "free_group",
    "park",
    "put_off",
    "release",
    "separate",
]

READY, PARKED = GroupState.READY, GroupState.PARKED
RUNS, FOLLOWS, USED = range(3)
CONVERGE = Kind.CONVERGE
COLLECTIVE, EXCLUSIVE, AT_BARRIER = Meeting.COLLECTIVE, Meeting.EXCLUSIVE, Meeting.AT_BARRIER
LOOK_BACK = 64  # instructions from a WARPSYNC to the BSYNC after what it is for, and more: ptxas leaves less than ten
CONVERGING = GroupState.CONVERGING
TOGETHER = np.uint32(1 << 30)
"""What a group of machine code awaits that takes those along who wait at the same BSYNC: this bit, how many lanes they are from
bit 24 on, and the instruction's number."""
PLACE = np.uint32((1 << 24) - 1)
AGAIN = np.uint32(1 << 31)
"""What a group of machine code that is ready awaits when it issues an instruction again: this bit and the instruction's number.
Nsight Compute counts that in ``smsp__inst_executed`` but not by instruction."""


@compiled
def lowest_lane(mask):
    """The lowest lane of a mask that is not 0."""
    lane = np.int64(0)
    while not (mask >> np.uint32(lane)) & np.uint32(1):
        lane += 1
    return lane


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
def _is_apart(code, pc):
    """Whether sets of lanes each do by themselves what stands at an instruction: it, or one behind the BSYNC before it, is a
    WARPSYNC that sets them apart."""
    for back in range(0, min(np.int64(pc), LOOK_BACK) + 1):
        row = code[pc - back]
        if row[KIND] == CONVERGE and (row[EXTRA] == COLLECTIVE or row[EXTRA] == EXCLUSIVE):
            return True
        if row[KIND] == CONVERGE and row[EXTRA] == AT_BARRIER and back > 0:
            return False
    return False


@compiled
def follow(s, w, code):
    """The group of machine code that goes on when the one that ran cannot; -1 if none is ready. It is the one that was put off
    last, if it is remembered. Behind that the hardware knows no groups, only where each thread is: the instruction goes on at
    which the fewest ready threads stand (of equally many, where the lowest thread is), with all of them, unless they are to be
    apart there; from a BSYNC or WARPSYNC with those that wait there already, in whatever call. (By the active masks and the
    counts by instruction of an H200 in 288 launches of kernels with loops, jumps and recursion.)"""
    later = np.int64(s.turns[w, FOLLOWS])
    s.turns[w, FOLLOWS] = -1
    if later >= 0 and s.mask[w, later] != 0 and s.state[w, later] == READY:
        return later
    g, fewest, lowest = np.int64(-1), np.int64(0), np.int64(0)
    for h in range(32):
        if s.mask[w, h] == 0 or s.state[w, h] != READY:
            continue
        there = np.uint32(0)
        for other in range(32):
            if s.state[w, other] == READY and s.pc[w, other] == s.pc[w, h]:
                there |= s.mask[w, other]
        number, first = popcount(there), lowest_lane(s.mask[w, h])
        if g < 0 or number < fewest or (number == fewest and first < lowest):
            g, fewest, lowest = np.int64(h), number, first
    if g < 0:
        return g
    row = code[s.pc[w, g]]
    if _is_apart(code, s.pc[w, g]):
        return g
    along = np.uint32(0)
    for other in range(32):
        if other == g or s.mask[w, other] == 0 or s.pc[w, other] != s.pc[w, g]:
            continue
        waits = s.state[w, other] == CONVERGING and row[KIND] == CONVERGE
        if waits:
            along |= s.mask[w, other]
        if waits or s.state[w, other] == READY:
            s.mask[w, g] |= s.mask[w, other]
            s.mask[w, other] = 0
    if along != 0 and s.awaits[w, g] != AGAIN | np.uint32(s.pc[w, g]):
        s.awaits[w, g] = TOGETHER | np.uint32(popcount(along) << 24) | np.uint32(s.pc[w, g])
    return g


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
