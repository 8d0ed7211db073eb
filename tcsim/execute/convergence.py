"""Control flow that only machine code has: explicit convergence (BSYNC, WARPSYNC, BREAK), jumps to addresses, and branches on
whether a warp is together.

A group that comes to a place of convergence waits there until all live lanes of its member mask have, then they go on as one
group. One thing lets them go earlier from a BSYNC: that lanes they wait for yield (NANOSLEEP, or the YIELD that ptxas puts into
loops that wait). So a thread can hold a lock that others of its warp spin for, as on an H200, and as NVIDIA's patent on
convergence barriers (US 2016/0019066) says. Groups that yield at the same place go on together: by an H200's count of
instructions, lanes that compete with compare-and-swap do so in one instruction.

The interpreter calls :func:`control` through its address, as it calls an instruction; it is compiled only where machine code
runs. It reaches the groups of the running CTA through a table of addresses (:mod:`tcsim.execute.group_table`).
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from isa.compiled import compiled, compiled_for_address
from isa.kernels.planes import PLANE_BYTES, as_i32, as_i64, as_u32, load_i64
from isa.machine import GROUPS
from isa.program import EXTRA, FUNCTION_ADDRESSES, FUNCTION_SPACING, KIND, MEMBERS, OPERANDS, TARGET, Kind, Meeting
from tcsim.execute.barrier_registers import at_barrier, barrier_register, force, let_go
from tcsim.execute.barriers import popcount
from tcsim.execute.group_table import (
    ROW,
    T_AWAITS,
    T_CODE,
    T_LENGTH,
    T_LIVE,
    T_MASK,
    T_MEET,
    T_PC,
    T_POOL,
    T_STATE,
    T_TURNS,
    alike,
    go_again,
    group_table,
    put,
    put_off,
    start,
)
from tcsim.execute.groups import AGAIN, FOLLOWS
from tcsim.execute.state import GroupState

__all__ = ["YIELDED", "control_address", "group_table"]

READY, CONVERGING = GroupState.READY, GroupState.CONVERGING
COLLECTIVE, EXCLUSIVE, AT_BARRIER, SET = Meeting.COLLECTIVE, Meeting.EXCLUSIVE, Meeting.AT_BARRIER, Meeting.SET
CONVERGE, BREAK, JUMP, SLEEP = Kind.CONVERGE, Kind.BREAK, Kind.JUMP, Kind.SLEEP
BRANCH_BOTH, BRANCH_DIVERGED = Kind.BRANCH_BOTH, Kind.BRANCH_DIVERGED
YIELDED = -2
"""Where a group meets others that has yielded, and may leave the turn to another: of machine code, groups meet at no place that
is known beforehand."""
BAD_ADDRESS = 105
"""Fault: a jump to an address outside the program."""


@compiled
def _meet_waiting(table, w, live, now):
    """Let the groups go on that wait at a WARPSYNC and whose members are now all there, each set of them as one group: as group
    ``now``, which runs, if that is one of them. What was in several groups issues the WARPSYNC once more, together, as on an
    H200, but not the one before a collective."""
    mask, pc = as_u32(table[T_MASK] + 128 * w), as_i32(table[T_PC] + 128 * w)
    state, awaits = as_i32(table[T_STATE] + 128 * w), as_u32(table[T_AWAITS] + 128 * w)
    for g in range(32):
        if mask[g] == np.uint32(0) or state[g] != CONVERGING:
            continue
        extra = as_i64(table[T_CODE] + ROW * np.int64(pc[g]))[EXTRA]
        if extra == AT_BARRIER:
            continue
        here = np.uint32(0)
        for h in range(32):
            if mask[h] != np.uint32(0) and state[h] == CONVERGING and pc[h] == pc[g] and awaits[h] == awaits[g]:
                here |= mask[h]
        if awaits[g] & live & ~here:
            continue
        place, several = pc[g], here != mask[g]
        for h in range(32):
            if h != now and mask[h] & here:
                mask[h] = np.uint32(0)
        kept = now if now >= 0 and mask[now] & here else g
        if several and extra != COLLECTIVE and extra != EXCLUSIVE:
            go_again(table, w, kept, here, place)
        else:
            put(table, w, kept, here, place + 1, READY, np.uint32(0))


@compiled
def _first_of(plane, lanes):
    """Those of ``lanes`` that are served first by an instruction that does one after another what lanes name in a plane: those
    that name the same as the lowest lane, unless they are more than the others; then those that go with the lowest of these.
    (An H200 took the targets of an indexed branch in this order in each of 2,048 warps, and the masks of
    WARPSYNC.EXCLUSIVE.)"""
    same, value = alike(plane, lanes)
    if popcount(same) > popcount(lanes & ~same) and lanes != same:
        same, value = alike(plane, lanes & ~same)
    return same, value


@compiled
def _by_masks(table, row, base, w, g, live):
    """WARPSYNC.EXCLUSIVE by all lanes of group ``g``, if all that they wait for are among them: those that are first
    (:func:`_first_of`) go on, the rest issues it again after them, as on an H200 (by ``smsp__inst_executed`` and
    ``smsp__thread_inst_executed`` of labelled partitions of a warp: once for each mask, for the lanes that are left). Returns
    whether that is so."""
    lanes, awaits = as_u32(table[T_MASK] + 128 * w)[g], as_u32(table[T_AWAITS] + 128 * w)
    plane, here = as_u32(base + row[MEMBERS]), as_i32(table[T_PC] + 128 * w)[g]
    if awaits[g] != AGAIN | np.uint32(here):
        todo = lanes
        while todo:
            same, members = alike(plane, todo)
            if members & live & ~same:
                return False
            todo &= ~same
    same, _ = _first_of(plane, lanes)
    staying = lanes & ~same
    put(table, w, g, same, here + 1, READY, np.uint32(0))
    if staying:
        put_off(table, w, staying, here)
        awaits[as_i32(table[T_TURNS] + 12 * w)[FOLLOWS]] = AGAIN | np.uint32(here)
    return True


@compiled
def _converge(table, row, base, w, g, executing, live):
    """The ``executing`` lanes of group ``g`` come to a WARPSYNC. Those that are complete go on, others wait.

    Lanes with different members go on together all the same, unless the instruction is to be followed by something
    that each set of members does by itself.
    """
    mask, pc = as_u32(table[T_MASK] + 128 * w), as_i32(table[T_PC] + 128 * w)
    here = np.int64(pc[g])
    if row[EXTRA] == EXCLUSIVE and row[MEMBERS] >= 0 and executing == mask[g] and _by_masks(table, row, base, w, g, live):
        return
    apart = row[EXTRA] == COLLECTIVE or row[EXTRA] == EXCLUSIVE
    todo = executing
    while todo:
        same, members = todo, live
        if row[MEMBERS] >= 0:
            same, members = alike(as_u32(base + row[MEMBERS]), todo)
        todo &= ~same
        complete = not members & live & ~same
        if complete and (not apart or same == mask[g]):
            continue
        place, state = (here + 1, READY) if complete else (here, CONVERGING)
        kept = np.uint32(0) if complete else members
        if same == mask[g]:
            put(table, w, g, same, place, state, kept)
            _meet_waiting(table, w, live, g)
            return
        mask[g] &= ~same
        start(table, w, same, place, state, kept)
    put(table, w, g, mask[g], here + 1, READY, np.uint32(0))
    _meet_waiting(table, w, live, g)


@compiled
def _yield(table, base, w, lanes, live):
    """``lanes`` yield: those that wait for them at a BSYNC take no part in it any more and go on."""
    mask, pc = as_u32(table[T_MASK] + 128 * w), as_i32(table[T_PC] + 128 * w)
    state, awaits = as_i32(table[T_STATE] + 128 * w), as_u32(table[T_AWAITS] + 128 * w)
    for g in range(32):
        if mask[g] == np.uint32(0) or state[g] != CONVERGING or not awaits[g] & lanes:
            continue
        row = as_i64(table[T_CODE] + ROW * np.int64(pc[g]))
        if row[EXTRA] != AT_BARRIER:
            continue
        put(table, w, g, mask[g], pc[g] + 1, READY, np.uint32(0))
        _leave(table, row, base, w, mask[g], live)


@compiled
def _join_yielded(table, w, g):
    """Group ``g`` has yielded: it goes on together with those that have done so at the same place."""
    mask, pc = as_u32(table[T_MASK] + 128 * w), as_i32(table[T_PC] + 128 * w)
    state, meet = as_i32(table[T_STATE] + 128 * w), as_i32(table[T_MEET] + 128 * w)
    meet[g] = np.int32(YIELDED)
    for h in range(32):
        if h != g and mask[h] != np.uint32(0) and state[h] == READY and meet[h] == YIELDED and pc[h] == pc[g]:
            mask[g] |= mask[h]
            mask[h] = np.uint32(0)


@compiled
def _leave(table, row, base, w, lanes, live):
    """``lanes`` give up their part in a convergence barrier: nobody waits for them there."""
    as_u32(base + row[MEMBERS])[0] &= ~lanes
    let_go(table, base, w, live, False)


@compiled
def _jump(table, row, base, w, g, lanes):
    """Those of ``lanes`` that are first (:func:`_first_of`) go to the code address that they name. The rest stays for a turn of
    its own, as on hardware: an indirect branch with k targets issues k times, by ``smsp__inst_executed`` of an H200. Lanes that
    do not execute it go on. Returns a fault code or 0.
    """
    mask, pc = as_u32(table[T_MASK] + 128 * w), as_i32(table[T_PC] + 128 * w)
    operands = as_i32(table[T_POOL] + row[OPERANDS])
    place = base + np.int64(operands[0])
    same, address = _first_of(as_u32(place), lanes)
    target = np.int64(np.int32(address)) // 16 + np.int64(operands[1])
    bad = address & np.uint32(15) != np.uint32(0)
    if operands[2] >= 0:  # of a call, which may be by the address that memory holds: a number in a table
        same, upper = alike(as_u32(place + PLANE_BYTES), same)
        if upper == np.uint32(FUNCTION_ADDRESSES >> 32):
            functions = as_i32(table[T_POOL] + np.int64(operands[2]))
            number = (np.int64(address) - (FUNCTION_ADDRESSES & 0xFFFF_FFFF)) // FUNCTION_SPACING
            bad = number < 0 or number >= functions[0] or functions[1 + number] < 0
            target = np.int64(-1) if bad else np.int64(functions[1 + number])
    if bad or target < 0 or target >= table[T_LENGTH]:
        return BAD_ADDRESS
    here = np.int64(pc[g])
    skipping, staying = mask[g] & ~lanes, lanes & ~same
    put(table, w, g, same, target, READY, np.uint32(0))
    if skipping:
        put_off(table, w, skipping, here + 1)
    if staying:
        put_off(table, w, staying, here)
        as_u32(table[T_AWAITS] + 128 * w)[as_i32(table[T_TURNS] + 12 * w)[FOLLOWS]] = AGAIN | np.uint32(here)
    return 0


@compiled
def _together(row, base, lanes, live):
    """Whether the live lanes of the member mask, that of the lowest of ``lanes``, are all among ``lanes``."""
    members = live
    if row[MEMBERS] >= 0:
        _, value = alike(as_u32(base + row[MEMBERS]), lanes)
        members = value & live
    return (members & ~lanes) == np.uint32(0)


def control(base, lanes, place, ctx):
    """Execute the instruction at which a group stands, for ``lanes`` (its guard applied). Returns a fault code or 0.

    ``base``: the warp's register block. ``place``: 32 * warp + group. With no lanes, only look whether groups that wait can go
    on: for group 0 after others have exited, for group 1 because no group runs.
    """
    table = as_i64(load_i64(ctx + 8 * GROUPS))
    w, g = place >> 5, place & 31
    live = as_u32(table[T_LIVE])[w]
    if lanes == np.uint32(0):
        _meet_waiting(table, w, live, -1)
        let_go(table, base, w, live, g == 1)
        if g == 1:
            force(table, base, w)
        return np.int32(0)
    pc = as_i32(table[T_PC] + 128 * w)
    row = as_i64(table[T_CODE] + ROW * np.int64(pc[g]))
    kind = row[KIND]
    if kind == CONVERGE and row[EXTRA] >= SET:
        barrier_register(row, base, lanes)
        pc[g] += np.int32(1)
        return np.int32(0)
    if kind == CONVERGE and row[EXTRA] == AT_BARRIER:
        at_barrier(table, row, base, w, g, lanes, live)
        return np.int32(0)
    if kind == CONVERGE:
        _converge(table, row, base, w, g, lanes, live)
        return np.int32(0)
    if kind == SLEEP:  # all else of it the interpreter does
        _yield(table, base, w, lanes, live)
        return np.int32(0)
    if kind == BREAK and row[MEMBERS] < 0:
        pc[g] += np.int32(1)
        _yield(table, base, w, lanes, live)
        _join_yielded(table, w, g)
        return np.int32(0)
    if kind == JUMP:
        if row[EXTRA] >= 0:
            word = as_u32(base)[row[EXTRA] >> 1]
            lanes &= ~word if row[EXTRA] & 1 else word
        if lanes == np.uint32(0):
            pc[g] += np.int32(1)
            return np.int32(0)
        return np.int32(_jump(table, row, base, w, g, lanes))
    if kind in (BREAK, BRANCH_BOTH):
        if row[EXTRA] >= 0:
            word = as_u32(base)[row[EXTRA] >> 1]
            lanes &= ~word if row[EXTRA] & 1 else word
        if kind == BREAK:
            pc[g] += np.int32(1)
            _leave(table, row, base, w, lanes, live)
            return np.int32(0)
        mask = as_u32(table[T_MASK] + 128 * w)
        falling = mask[g] & ~lanes
        taken = falling == np.uint32(0)
        if lanes != np.uint32(0) and not taken:
            taken = popcount(lanes) < popcount(falling)
            mask[g] = lanes if taken else falling
            if taken:
                put_off(table, w, falling, pc[g] + 1)
            else:
                put_off(table, w, lanes, row[TARGET])
    else:
        taken = _together(row, base, lanes, live) != (kind == BRANCH_DIVERGED)
    pc[g] = np.int32(row[TARGET]) if taken else np.int32(pc[g] + 1)
    return np.int32(0)


@cache
def control_address() -> int:
    """The address of :func:`control`, compiled or fetched from disk on first use."""
    compiled_control: Any = compiled_for_address("int32(int64, uint32, int64, int64)", control)
    return int(compiled_control.address)
