"""The convergence barrier registers of machine code: BSSY, BSYNC, BMOV, BREAK.

A warp has one of each for all its lanes. Word 0 of its plane holds the lanes that meet there; BSYNC waits for them. What runs
in between may need the register for itself: it saves and restores it by BMOV. So lanes of several calls can wait at the same
BSYNC for one register, and those that the register holds at the moment are let go.
"""

from __future__ import annotations

import numpy as np

from isa.compiled import compiled
from isa.kernels.planes import as_i32, as_i64, as_u32
from isa.program import EXTRA, MEMBERS, TARGET, Meeting
from tcsim.execute.group_table import ROW, T_AWAITS, T_CODE, T_MASK, T_PC, T_STATE, go_again, lowest, put, start
from tcsim.execute.groups import AGAIN, PLACE, TOGETHER
from tcsim.execute.state import GroupState

__all__ = ["at_barrier", "barrier_register", "force", "let_go"]

READY, CONVERGING = GroupState.READY, GroupState.CONVERGING
AT_BARRIER, SET, SAVE_AND_CLEAR, RESTORE = Meeting.AT_BARRIER, Meeting.SET, Meeting.SAVE_AND_CLEAR, Meeting.RESTORE
RESTORED = 1
"""The word of a barrier register's plane that says that BMOV has restored it."""


@compiled
def _blocked(table, w, barrier):
    """The lanes of a warp that wait at a BSYNC of a barrier register, given by its plane: by whatever call, for the hardware
    has one such register for the warp."""
    mask, pc = as_u32(table[T_MASK] + 128 * w), as_i32(table[T_PC] + 128 * w)
    state = as_i32(table[T_STATE] + 128 * w)
    lanes = np.uint32(0)
    for h in range(32):
        if mask[h] != np.uint32(0) and state[h] == CONVERGING:
            row = as_i64(table[T_CODE] + ROW * np.int64(pc[h]))
            if row[EXTRA] == AT_BARRIER and row[MEMBERS] == barrier:
                lanes |= mask[h]
    return lanes


@compiled
def _gather(table, w, g, lanes, here):
    """Take ``lanes`` that wait at instruction ``here`` into group ``g``; those of them that wait elsewhere go on from there."""
    mask, pc = as_u32(table[T_MASK] + 128 * w), as_i32(table[T_PC] + 128 * w)
    state = as_i32(table[T_STATE] + 128 * w)
    for h in range(32):
        found = mask[h] & lanes
        if h == g or found == np.uint32(0) or state[h] != CONVERGING:
            continue
        mask[h] &= ~found
        if pc[h] == here:
            mask[g] |= found
        else:
            start(table, w, found, pc[h] + 1, READY, np.uint32(0))


@compiled
def let_go(table, base, w, live, nobody_runs):
    """Others have left a barrier or exited: where all lanes that a barrier register still holds wait for it, they issue their
    BSYNC again, as one group. If nobody runs any more, so do those that wait for a register that holds nobody."""
    mask, pc = as_u32(table[T_MASK] + 128 * w), as_i32(table[T_PC] + 128 * w)
    state = as_i32(table[T_STATE] + 128 * w)
    for g in range(32):
        if mask[g] == np.uint32(0) or state[g] != CONVERGING:
            continue
        row = as_i64(table[T_CODE] + ROW * np.int64(pc[g]))
        if row[EXTRA] != AT_BARRIER:
            continue
        members = as_u32(base + row[MEMBERS])[0] & live
        if members & ~_blocked(table, w, row[MEMBERS]):
            continue
        if nobody_runs:
            members |= mask[g]
        if members & mask[g]:
            outside = mask[g] & ~members
            if outside:
                mask[g] &= members
                start(table, w, outside, pc[g], CONVERGING, outside)
            state[g] = np.int32(READY)
            _gather(table, w, g, members, pc[g])
            go_again(table, w, g, mask[g], pc[g])
            if nobody_runs:
                return


@compiled
def force(table, base, w):
    """No lane can go on, for registers hold lanes that wait for each other: let the first set go."""
    mask, pc = as_u32(table[T_MASK] + 128 * w), as_i32(table[T_PC] + 128 * w)
    state = as_i32(table[T_STATE] + 128 * w)
    for g in range(32):
        if mask[g] != np.uint32(0) and state[g] == READY:
            return
    for g in range(32):
        if mask[g] == np.uint32(0) or state[g] != CONVERGING:
            continue
        row = as_i64(table[T_CODE] + ROW * np.int64(pc[g]))
        if row[EXTRA] == AT_BARRIER:
            as_u32(base + row[MEMBERS])[0] = np.uint32(0)
            for h in range(32):
                if h != g and mask[h] != np.uint32(0) and state[h] == CONVERGING and pc[h] == pc[g]:
                    mask[g] |= mask[h]
                    mask[h] = np.uint32(0)
            go_again(table, w, g, mask[g], pc[g])
            return


@compiled
def at_barrier(table, row, base, w, g, executing, live):
    """BSYNC: the ``executing`` lanes of group ``g`` wait for the lanes that the barrier register holds; if they complete them,
    all go on together, whoever else executes it, too.

    A register that BMOV has restored lets them through at the second issue only (by ``smsp__inst_executed`` of an H200: one
    more for each call between BSSY and BSYNC that saves the register, with the threads of all lanes that meet).
    """
    mask, pc = as_u32(table[T_MASK] + 128 * w), as_i32(table[T_PC] + 128 * w)
    here = pc[g]
    barrier = as_u32(base + row[MEMBERS])
    members = barrier[0] & live
    if mask[g] != executing:
        skipping = mask[g] & ~executing
        mask[g] = executing
        start(table, w, skipping, here + 1, READY, np.uint32(0))
    if members & ~(executing | _blocked(table, w, row[MEMBERS])):
        put(table, w, g, executing, here, CONVERGING, members)
        return
    _gather(table, w, g, members & ~executing, here)
    awaited = as_u32(table[T_AWAITS] + 128 * w)[g]
    together = awaited & TOGETHER and not awaited & AGAIN and awaited & PLACE == np.uint32(here)
    restored = barrier[RESTORED] and not together
    barrier[RESTORED] = np.uint32(0)
    if restored:
        go_again(table, w, g, mask[g], here)
    else:
        barrier[0] = np.uint32(0)
        put(table, w, g, mask[g], here + 1, READY, np.uint32(0))


@compiled
def barrier_register(row, base, lanes):
    """BSSY, and BMOV of a barrier register: one for the whole warp, so the lowest executing lane's value is restored."""
    barrier, number = as_u32(base + row[MEMBERS]), lowest(lanes)
    if row[EXTRA] == SET:
        barrier[0], barrier[RESTORED] = lanes, np.uint32(0)
    elif row[EXTRA] == RESTORE:
        barrier[0] = as_u32(base + row[TARGET])[number]
        barrier[RESTORED] = np.uint32(barrier[0] != np.uint32(0))
    else:
        saved = as_u32(base + row[TARGET])
        for lane in range(32):
            if (lanes >> np.uint32(lane)) & np.uint32(1):
                saved[lane] = barrier[0]
        if row[EXTRA] == SAVE_AND_CLEAR:
            barrier[0], barrier[RESTORED] = np.uint32(0), np.uint32(0)
