"""Control flow that only machine code has: explicit convergence (BSYNC, WARPSYNC, BREAK), jumps to addresses, and branches on
whether a warp is together.

A group that comes to a place of convergence waits there until all live lanes of its member mask have, then they go on as one
group. One thing lets them go earlier from a BSYNC: that lanes they wait for yield (NANOSLEEP, or the YIELD that ptxas puts into
loops that wait). So a thread can hold a lock that others of its warp spin for, as on an H200, and as NVIDIA's patent on
convergence barriers (US 2016/0019066) says. Groups that yield at the same place go on together: by an H200's count of
instructions, lanes that compete with compare-and-swap do so in one instruction.

The interpreter calls :func:`control` through its address, as it calls an instruction; it is compiled only where machine code
runs. It reaches the groups of the running CTA through a table of addresses that :func:`group_table` makes.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.compiled import compiled, compiled_for_address
from isa.kernels.planes import PLANE_BYTES, as_i32, as_i64, as_u32, load_i64
from isa.machine import GROUPS
from isa.program import COLUMNS, EXTRA, FUNCTION_ADDRESSES, FUNCTION_SPACING, KIND, MEMBERS, OPERANDS, TARGET, Kind
from tcsim.execute.barriers import popcount
from tcsim.execute.groups import FOLLOWS
from tcsim.execute.state import CtaArrays, GroupState

__all__ = ["YIELDED", "control_address", "group_table"]

READY, CONVERGING = GroupState.READY, GroupState.CONVERGING
CONVERGE, BREAK, JUMP, SLEEP = Kind.CONVERGE, Kind.BREAK, Kind.JUMP, Kind.SLEEP
BRANCH_BOTH, BRANCH_DIVERGED = Kind.BRANCH_BOTH, Kind.BRANCH_DIVERGED
YIELDED = -2
"""Where a group meets others that has yielded, and may leave the turn to another: of machine code, groups meet at no place that
is known beforehand."""
BAD_ADDRESS = 105
"""Fault: a jump to an address outside the program."""

ROW = 8 * COLUMNS
T_MASK, T_PC, T_STATE, T_MEET, T_AWAITS, T_LIVE, T_TURNS, T_CODE, T_LENGTH, T_POOL = range(10)


def group_table(arrays: CtaArrays, code: NDArray[np.int64], pool: int) -> NDArray[np.int64]:
    """Host addresses of a CTA's groups and of its program, int64 [10]; keep the arrays alive while it is used."""
    parts = (arrays.mask, arrays.pc, arrays.state, arrays.meet, arrays.awaits, arrays.live, arrays.turns, code)
    return np.array([*(part.ctypes.data for part in parts), len(code), pool], np.int64)


@compiled
def _alike(plane, lanes):
    """Those of ``lanes`` that hold the same value in a plane as the lowest of them."""
    first = 0
    while not (lanes >> np.uint32(first)) & np.uint32(1):
        first += 1
    same = np.uint32(0)
    for lane in range(32):
        if (lanes >> np.uint32(lane)) & np.uint32(1) and plane[lane] == plane[first]:
            same |= np.uint32(1) << np.uint32(lane)
    return same, plane[first]


@compiled
def _start(table, w, lanes, pc, state, members):
    """A group of its own for ``lanes`` of a group that keeps some: so there is one free. Returns its number."""
    mask = as_u32(table[T_MASK] + 128 * w)
    g = 0
    while mask[g] != np.uint32(0):
        g += 1
    _put(table, w, g, lanes, pc, state, members)
    return g


@compiled
def _put_off(table, w, lanes, pc):
    """A group of its own for lanes that follow those that run now (:func:`tcsim.execute.groups.put_off`)."""
    as_i32(table[T_TURNS] + 12 * w)[FOLLOWS] = np.int32(_start(table, w, lanes, pc, READY, np.uint32(0)))


@compiled
def _put(table, w, g, lanes, pc, state, members):
    """Make group ``g`` one of ``lanes`` at an instruction."""
    as_u32(table[T_MASK] + 128 * w)[g] = lanes
    as_i32(table[T_PC] + 128 * w)[g] = np.int32(pc)
    as_i32(table[T_STATE] + 128 * w)[g] = np.int32(state)
    as_i32(table[T_MEET] + 128 * w)[g] = np.int32(-1)
    as_u32(table[T_AWAITS] + 128 * w)[g] = members


@compiled
def _meet_waiting(table, w, live, now):
    """Let the waiting groups go on whose members are now all at the same place, each set of them as one group: as group
    ``now``, which runs, if that is one of them."""
    mask, pc = as_u32(table[T_MASK] + 128 * w), as_i32(table[T_PC] + 128 * w)
    state, awaits = as_i32(table[T_STATE] + 128 * w), as_u32(table[T_AWAITS] + 128 * w)
    for g in range(32):
        if mask[g] == np.uint32(0) or state[g] != CONVERGING:
            continue
        here = np.uint32(0)
        for h in range(32):
            if mask[h] != np.uint32(0) and state[h] == CONVERGING and pc[h] == pc[g] and awaits[h] == awaits[g]:
                here |= mask[h]
        if awaits[g] & live & ~here:
            continue
        place = pc[g] + 1
        for h in range(32):
            if h != now and mask[h] & here:
                mask[h] = np.uint32(0)
        kept = now if now >= 0 and mask[now] & here else g
        _put(table, w, kept, here, place, READY, np.uint32(0))


@compiled
def _issues_again(table, row, base, w, g, executing, here):
    """Whether a WARPSYNC is to be issued a second time, for the same lanes: once where their masks differ, as on an H200 (by
    ``smsp__inst_executed`` and ``smsp__thread_inst_executed``). What a group that runs awaits is free to remember that in."""
    same, _ = _alike(as_u32(base + row[MEMBERS]), executing)
    awaits = as_u32(table[T_AWAITS] + 128 * w)
    if same == executing or awaits[g] == np.uint32(here + 1):
        awaits[g] = np.uint32(0)
        return False
    awaits[g] = np.uint32(here + 1)
    return True


@compiled
def _converge(table, row, base, w, g, executing, live):
    """The ``executing`` lanes of group ``g`` come to a place of convergence. Those that are complete go on, others wait.

    Lanes with different members go on together all the same, unless the instruction (EXTRA 1) is to be followed by something
    that each set of members does by itself.
    """
    mask, pc = as_u32(table[T_MASK] + 128 * w), as_i32(table[T_PC] + 128 * w)
    here = np.int64(pc[g])
    if row[EXTRA] == 2 and _issues_again(table, row, base, w, g, executing, here):
        return
    apart = row[EXTRA] == 1
    todo = executing
    while todo:
        same, members = todo, live
        if row[MEMBERS] >= 0:
            same, members = _alike(as_u32(base + row[MEMBERS]), todo)
        todo &= ~same
        complete = (members & live & ~same) == np.uint32(0)
        if complete and (not apart or same == mask[g]):
            continue
        place, state = (here + 1, READY) if complete else (here, CONVERGING)
        if same == mask[g]:
            _put(table, w, g, same, place, state, members)
            _meet_waiting(table, w, live, g)
            return
        mask[g] &= ~same
        _start(table, w, same, place, state, members)
    pc[g] = np.int32(here + 1)
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
        if row[MEMBERS] < 0 or row[EXTRA] > 0:  # a WARPSYNC
            continue
        state[g] = np.int32(READY)
        pc[g] += np.int32(1)
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
    plane = as_u32(base + row[MEMBERS])
    for lane in range(32):
        plane[lane] &= ~lanes
    mask, pc = as_u32(table[T_MASK] + 128 * w), as_i32(table[T_PC] + 128 * w)
    state, awaits = as_i32(table[T_STATE] + 128 * w), as_u32(table[T_AWAITS] + 128 * w)
    for g in range(32):
        if mask[g] == np.uint32(0) or state[g] != CONVERGING:
            continue
        if as_i64(table[T_CODE] + ROW * np.int64(pc[g]))[MEMBERS] == row[MEMBERS]:
            awaits[g] &= ~lanes
    _meet_waiting(table, w, live, -1)


@compiled
def _jump(table, row, base, w, g, lanes):
    """Those of ``lanes`` that go to the same code address as the lowest go there, unless they are more than the others: then
    those that go with the lowest of the others do. The rest stays for a turn of its own, as on hardware: an indirect branch
    with k targets issues k times, by ``smsp__inst_executed`` of an H200, which took the targets in this order in each of 2,048
    warps. Lanes that do not execute it go on. Returns a fault code or 0.
    """
    mask, pc = as_u32(table[T_MASK] + 128 * w), as_i32(table[T_PC] + 128 * w)
    operands = as_i32(table[T_POOL] + row[OPERANDS])
    place = base + np.int64(operands[0])
    same, address = _alike(as_u32(place), lanes)
    if popcount(same) > popcount(lanes & ~same) and lanes != same:
        same, address = _alike(as_u32(place), lanes & ~same)
    target = np.int64(np.int32(address)) // 16 + np.int64(operands[1])
    bad = address & np.uint32(15) != np.uint32(0)
    if operands[2] >= 0:  # of a call, which may be by the address that memory holds: a number in a table
        same, upper = _alike(as_u32(place + PLANE_BYTES), same)
        if upper == np.uint32(FUNCTION_ADDRESSES >> 32):
            functions = as_i32(table[T_POOL] + np.int64(operands[2]))
            number = (np.int64(address) - (FUNCTION_ADDRESSES & 0xFFFF_FFFF)) // FUNCTION_SPACING
            bad = number < 0 or number >= functions[0] or functions[1 + number] < 0
            target = np.int64(-1) if bad else np.int64(functions[1 + number])
    if bad or target < 0 or target >= table[T_LENGTH]:
        return BAD_ADDRESS
    here = np.int64(pc[g])
    skipping, staying = mask[g] & ~lanes, lanes & ~same
    mask[g] = same
    pc[g] = np.int32(target)
    if skipping:
        _put_off(table, w, skipping, here + 1)
    if staying:
        _put_off(table, w, staying, here)
    return 0


@compiled
def _together(row, base, lanes, live):
    """Whether the live lanes of the member mask, that of the lowest of ``lanes``, are all among ``lanes``."""
    members = live
    if row[MEMBERS] >= 0:
        _, value = _alike(as_u32(base + row[MEMBERS]), lanes)
        members = value & live
    return (members & ~lanes) == np.uint32(0)


def control(base, lanes, place, ctx):
    """Execute the instruction at which a group stands, for ``lanes`` (its guard applied). Returns a fault code or 0.

    ``base``: the warp's register block. ``place``: 32 * warp + group. With no lanes, only look whether groups that wait can go
    on, after others have exited.
    """
    table = as_i64(load_i64(ctx + 8 * GROUPS))
    w, g = place >> 5, place & 31
    live = as_u32(table[T_LIVE])[w]
    if lanes == np.uint32(0):
        _meet_waiting(table, w, live, -1)
        return np.int32(0)
    pc = as_i32(table[T_PC] + 128 * w)
    row = as_i64(table[T_CODE] + ROW * np.int64(pc[g]))
    kind = row[KIND]
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
                _put_off(table, w, falling, pc[g] + 1)
            else:
                _put_off(table, w, lanes, row[TARGET])
    else:
        taken = _together(row, base, lanes, live) != (kind == BRANCH_DIVERGED)
    pc[g] = np.int32(row[TARGET]) if taken else np.int32(pc[g] + 1)
    return np.int32(0)


@cache
def control_address() -> int:
    """The address of :func:`control`, compiled or fetched from disk on first use."""
    compiled_control: Any = compiled_for_address("int32(int64, uint32, int64, int64)", control)
    return int(compiled_control.address)
