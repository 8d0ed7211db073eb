"""The interpreter: one small loop that runs a decoded program and knows no instruction set.

Every instruction with a value is a call of its own compiled kernel through a function pointer; the loop itself only does
control flow. (One big ``if opcode == ...`` function would take minutes to compile.)

:func:`run_cta` runs a CTA until it ends, faults, cannot go on, or has used its budget. With a recorder it also writes down each
executed instruction for the timing model (:mod:`tcsim.execute.recorder`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa.compiled import call, compiled
from isa.kernels.planes import as_i32, as_i64, as_u32, call_kernel, load_i64, store_i64
from isa.machine import CLOCK, IMPATIENT, WAIT, WARP, YIELD
from isa.program import EXTRA, FUNCTION, GUARD, KIND, MEMBERS, OPERANDS, RECONVERGE, TARGET, Kind
from tcsim.execute.barriers import arrive, open_after_exit, wait
from tcsim.execute.collectives import collective, serve
from tcsim.execute.groups import PLACE, RUNS, USED, end_lanes, follow, park, put_off, release, separate
from tcsim.execute.recorder import LAST, RECORD, SHARES, count_parting
from tcsim.execute.spinning import forget, spins
from tcsim.execute.state import (
    AT_DEPTH,
    AT_PC,
    COUNT_ALIVE,
    COUNT_FAULT_PC,
    COUNT_FAULT_WARP,
    COUNT_FULL,
    COUNT_INSTRUCTIONS,
    COUNT_LANES,
    COUNT_WAITING,
    GroupState,
)
from tcsim.execute.transfer import BAD_TARGET, choose

__all__ = ["NativeProgram", "Outcome", "run_cta"]


class NativeProgram(NamedTuple):
    """A program as the interpreter takes it. ``pool`` is the host address of the operand pool. Behind the operands are the
    branch tables: EXTRA of an indexed branch or indirect call is the byte offset of [length, targets ...]. ``control``: the
    address of what does the control flow of machine code (:mod:`tcsim.execute.convergence`), 0 for PTX."""

    code: NDArray[np.int64]
    pool: int
    stages: NDArray[np.int32]
    stage_at: NDArray[np.int32]
    control: int


class Outcome:
    """How :func:`run_cta` ended. Fault codes of instructions are 1 to 99."""

    DONE = 0
    PAUSED = -1  # budget used or recorder full; call again
    DEADLOCK = -2
    HOST_CALL = -3  # the host has something to do for lanes COUNT_LANES; then call again
    WAITING = -4  # every warp waits, some of them for what another CTA or the machine may yet do
    BAD_BARRIER = 102  # barrier number outside 0..15, or a bad thread count
    BARRIER_TWICE = 103  # threads arrive again at a barrier before it has opened


READY = GroupState.READY
PARKED = GroupState.PARKED
KERNEL, COLLECTIVE, BRANCH, EXIT = Kind.KERNEL, Kind.COLLECTIVE, Kind.BRANCH, Kind.EXIT
BARRIER_SYNC, BARRIER_ARRIVE, BARRIER_REDUCE = Kind.BARRIER_SYNC, Kind.BARRIER_ARRIVE, Kind.BARRIER_REDUCE
WARP_SYNC, NOTHING, SLEEP = Kind.WARP_SYNC, Kind.NOTHING, Kind.SLEEP
BRANCH_INDEXED, RETURN, HOST_CALL = Kind.BRANCH_INDEXED, Kind.RETURN, Kind.HOST_CALL
BREAK, CONVERGE, WAITS = Kind.BREAK, Kind.CONVERGE, Kind.WAIT
JUMP, BRANCH_BOTH = Kind.JUMP, Kind.BRANCH_BOTH
NEGATED = 16  # bit of EXTRA of a reducing barrier
ASK_HOST = Outcome.HOST_CALL
BAD_BARRIER, BARRIER_TWICE = Outcome.BAD_BARRIER, Outcome.BARRIER_TWICE
DONE, PAUSED, DEADLOCK, WAITING = Outcome.DONE, Outcome.PAUSED, Outcome.DEADLOCK, Outcome.WAITING

# How long a group runs before another group of its warp gets a turn, and a warp before another warp: threads that spin on
# something the others must do cannot keep them from doing it.
GROUP_TURN = 1 << 10
MACHINE_TURN = 1 << 15  # of machine code, whose loops that wait say so (YIELD, NANOSLEEP); the hardware has no such limit
WARP_TURN = 1 << 13
SLEEP_TURN = 64
# After this many instructions without a word from the lanes it should meet, a group's parked partners go on without it; after
# WARP_TURN already, when the other warps have had a turn, if it does nothing but spin.
PATIENCE = 1 << 20
SLEEP_WEIGHT = 8


@compiled
def _next_group(s, w, after):
    """The next ready group of a warp after group ``after``, in turn; -1 if none is ready."""
    for step in range(1, 33):
        g = (after + step) & 31
        if s.mask[w, g] != 0 and s.state[w, g] == READY:
            return g
    return -1


@compiled
def _first_value(base, offset, lanes):
    """The value that the lowest of ``lanes`` has in a plane."""
    for lane in range(32):
        if (lanes >> np.uint32(lane)) & np.uint32(1):
            return as_u32(base + offset)[lane]
    return np.uint32(0)


@compiled
def _barrier(s, program, w, g, row, lanes, base):
    """Arrive at a CTA barrier with ``lanes`` of group ``g``; the whole group moves on or waits. Returns a fault code or 0."""
    operands = as_i32(program.pool + row[OPERANDS])
    reduce = row[KIND] == BARRIER_REDUCE
    at = 1 if reduce else 0
    number = _first_value(base, operands[at], lanes)
    needed = np.uint32(0)
    counted = (row[EXTRA] & 1) == 0
    if counted and operands[at] == operands[at + 1]:  # of machine code: one register holds both
        number, needed = number & np.uint32(0xF), number >> np.uint32(16)
        counted = needed != 0
    elif counted:
        needed = _first_value(base, operands[at + 1], lanes)
    if counted and (needed == 0 or needed % 32 != 0 or needed > 32 * len(s.live)):
        return BAD_BARRIER
    if number >= 16:
        return BAD_BARRIER
    ballot = np.uint32(0)
    if reduce:
        ballot = as_u32(base + operands[at + (1 if row[EXTRA] & 1 else 2)])[0]
        if row[EXTRA] & NEGATED:
            ballot = ~ballot
    pc = s.pc[w, g]
    if row[KIND] == BARRIER_ARRIVE:
        s.pc[w, g] = pc + 1
    else:
        if lanes != s.mask[w, g]:  # lanes whose guard is off do not wait
            g = separate(s, w, g, lanes, np.int64(pc), np.int64(pc) + 1, np.int64(-1))
        wait(s, w, g, number)
    if not arrive(s, program, w, lanes, np.int64(number), np.int64(needed), ballot):
        return BARRIER_TWICE
    return 0


@compiled
def _run_warp(s, program, ctx, w, budget, log):
    """Run a warp until none of its groups is ready or ``budget`` instructions are used. Returns (outcome, instructions)."""
    code = program.code
    base = s.blocks[w].ctypes.data
    store_i64(ctx + 8 * WARP, np.int64(w))
    used = 0
    last, recording = np.int64(31), np.int64(0)
    if log != 0:
        last, recording = as_i64(load_i64(log + 8 * LAST))[w], load_i64(log + 8 * RECORD)
    g, turn = np.int64(s.turns[w, RUNS]), np.int64(s.turns[w, USED])
    # Where instructions depend on time, a timed run shares its buffers more fairly: others wait for what is in them.
    ordered = program.control != 0 and (log == 0 or load_i64(log + 8 * SHARES) == 0)
    if not ordered or g < 0 or s.mask[w, g] == 0 or s.state[w, g] != READY:
        g, turn = _next_group(s, w, last), np.int64(0)
    whole = MACHINE_TURN if ordered and log == 0 else GROUP_TURN  # what is timed has room for so many instructions only
    waited = 0  # groups that were asked in vain since the warp last executed something
    while g >= 0 and used < budget:
        if ordered:
            s.turns[w, RUNS], s.turns[w, USED] = g, turn
        pc = np.int64(s.pc[w, g])
        meeting = np.int64(-1)
        meet = np.int64(s.meet[w, g])
        if meet >= 0 and s.meet_at[w, meet, AT_DEPTH] == s.depth[w, g]:
            meeting = np.int64(s.meet_at[w, meet, AT_PC])
        if pc == meeting:
            merged = park(s, w, g)
            s.alone[w] = 0
            forget(s, w)
            g = merged if merged >= 0 else _next_group(s, w, g)
            continue
        if turn >= whole:
            turn = 0
            s.alone[w] += GROUP_TURN
            if s.alone[w] >= PATIENCE or (s.alone[w] >= WARP_TURN and spins(s, w, g)):
                s.alone[w] = 0
                forget(s, w)
                release(s, w)
            g = _next_group(s, w, g)
            continue
        mask = s.mask[w, g]
        start = used
        limit = min(budget, used + whole - turn)
        status = 0
        # The fast path: straight-line code and branches that all lanes agree on.
        while used < limit:
            row = code[pc]
            active = mask
            guard = row[GUARD]
            if guard >= 0:
                word = as_u32(base)[guard >> 1]
                active &= ~word if guard & 1 else word
            kind = row[KIND]
            if kind == BRANCH:
                if active != 0 and active != mask:
                    break
            elif kind not in (KERNEL, NOTHING):
                break
            if recording != 0 and not call(recording, (log, w, pc, mask, np.uint32(active), base, ctx)):
                s.counters[COUNT_FULL] = 1
                s.pc[w, g] = pc
                return 0, used
            used += 1
            if kind == KERNEL:
                if active:
                    status = call_kernel(row[FUNCTION], base, active, program.pool + row[OPERANDS], ctx)
                    if status != 0:
                        break
                pc += 1
            elif kind == BRANCH:
                pc = row[TARGET] if active else pc + 1
            else:
                pc += 1
            if pc == meeting:
                break
        s.pc[w, g] = pc
        turn += used - start
        if status != 0:
            return _fault(s, w, pc, status), used
        if used >= limit or pc == meeting:
            continue
        # Everything that changes which lanes run together.
        row = code[pc]
        active = mask
        guard = row[GUARD]
        if guard >= 0:
            word = as_u32(base)[guard >> 1]
            active &= ~word if guard & 1 else word
        kind = row[KIND]
        if kind == WAITS and active != 0:
            status = call_kernel(row[FUNCTION], base, np.uint32(active), program.pool + row[OPERANDS], ctx)
            if status == WAIT:
                s.counters[COUNT_WAITING] = 1
                waited += 1
                after = _next_group(s, w, g)
                if after == g or waited > 32:
                    return 0, used
                g = after
                turn = 0
                continue
            if status != 0 and status != YIELD:
                return _fault(s, w, pc, status), used
        waited = 0
        again = np.int64(0)
        if kind >= CONVERGE and s.awaits[w, g] & PLACE == np.uint32(pc):
            again = np.int64(s.awaits[w, g] >> np.uint32(24))
        if recording != 0 and not call(recording, (log, w, pc | again << 24, mask, np.uint32(active), base, ctx)):
            s.counters[COUNT_FULL] = 1
            return 0, used
        used += 1
        turn += 1
        if kind == WAITS and active != 0:
            s.pc[w, g] = pc + 1
            if status == YIELD:
                turn = whole
                budget = min(budget, used)
        elif active == 0:
            s.pc[w, g] = pc + 1
        elif kind == BRANCH:
            taken = separate(s, w, g, np.uint32(active), row[TARGET], pc + 1, row[RECONVERGE])
            if program.control != 0:
                g = put_off(s, w, g, taken)
        elif kind >= CONVERGE:
            status = call_kernel(program.control, base, np.uint32(active), np.int64(32 * w + g), ctx)
            if status != 0:
                return _fault(s, w, pc, status), used
            if recording != 0 and kind in (JUMP, BRANCH_BOTH) and active == mask and s.mask[w, g] != mask:
                count_parting(log, pc)
            if kind == BREAK and row[MEMBERS] < 0:  # YIELD
                turn = whole
        elif kind >= BRANCH_INDEXED and kind != HOST_CALL:
            lanes, target = np.uint32(active), np.int64(row[TARGET])
            if target < 0:
                lanes, target = choose(program, row, lanes, base)
                if target < 0:
                    return _fault(s, w, pc, BAD_TARGET), used
            leaving = g
            if lanes != mask:
                leaving = separate(s, w, g, lanes, target, pc + 1 if lanes == active else pc, row[RECONVERGE])
            else:
                s.pc[w, g] = target
            if kind > BRANCH_INDEXED:
                s.depth[w, leaving] += -1 if kind == RETURN else 1
        elif kind in (COLLECTIVE, WARP_SYNC):
            s.counters[COUNT_FAULT_PC] = pc
            status = collective(s, program, ctx, w, g, np.uint32(active))
            if status != 0:
                return _fault(s, w, s.counters[COUNT_FAULT_PC], status), used
        elif kind == EXIT:
            s.mask[w, g] = mask & ~active
            s.pc[w, g] = pc + 1
            end_lanes(s, w, np.uint32(active))
            if s.live[w] == 0:
                s.counters[COUNT_ALIVE] -= 1
            else:  # the others may have waited for these lanes only
                status = serve(s, program, ctx, w)
                if status != 0:
                    return _fault(s, w, s.counters[COUNT_FAULT_PC], status), used
            open_after_exit(s, program)
            if program.control != 0:
                call_kernel(program.control, base, np.uint32(0), np.int64(32 * w), ctx)
        elif kind == HOST_CALL:
            s.pc[w, g] = pc + 1
            s.counters[COUNT_LANES] = active
            return _fault(s, w, pc, ASK_HOST), used
        elif kind == SLEEP:
            if program.control != 0:
                call_kernel(program.control, base, np.uint32(active), np.int64(32 * w + g), ctx)
            s.pc[w, g] = pc + 1
            turn = whole
            s.alone[w] += SLEEP_WEIGHT * GROUP_TURN
            budget = min(budget, used + SLEEP_TURN)  # and soon let another warp run
        else:
            status = _barrier(s, program, w, g, row, np.uint32(active), base)
            if status != 0:
                return _fault(s, w, pc, status), used
        if s.mask[w, g] == 0 or s.state[w, g] != READY:
            turn = 0
            if program.control == 0:
                g = _next_group(s, w, g)
                continue
            g = follow(s, w, code)
            if g < 0:  # those may go on that wait at a barrier register that holds nobody else any more
                call_kernel(program.control, base, np.uint32(0), np.int64(32 * w + 1), ctx)
                g = _next_group(s, w, np.int64(31))
    if ordered and g >= 0:
        s.turns[w, RUNS], s.turns[w, USED] = (g, turn) if turn < whole else (_next_group(s, w, g), 0)
    return 0, used


@compiled
def _fault(s, w, pc, status):
    s.counters[COUNT_FAULT_PC] = pc
    s.counters[COUNT_FAULT_WARP] = w
    return status


@compiled
def run_cta(s, program, ctx, budget, log):
    """Run a CTA for about ``budget`` instructions (``log``: of a recorder, or 0). Returns an :class:`Outcome` or a fault.

    Warps take turns in order; each runs until it waits. If no warp can go on and some wait for what may come from outside, the
    caller is asked. Else (or if it insists, by the word IMPATIENT) threads parked for the sake of efficiency are let go; if
    there are none, the CTA is deadlocked.
    """
    left = budget
    s.counters[COUNT_FULL] = 0
    while True:
        progress = False
        s.counters[COUNT_WAITING] = 0
        for w in range(len(s.live)):
            if s.live[w] == 0:
                continue
            status, used = _run_warp(s, program, ctx, w, min(left, WARP_TURN), log)
            s.counters[COUNT_INSTRUCTIONS] += used
            store_i64(ctx + 8 * CLOCK, s.counters[COUNT_INSTRUCTIONS])
            left -= used
            progress = progress or used > 0
            if status != 0:
                return status
            if s.counters[COUNT_ALIVE] == 0:
                return DONE
            if left <= 0:
                return PAUSED
        if not progress and not s.counters[COUNT_FULL]:
            if s.counters[COUNT_WAITING] and load_i64(ctx + 8 * IMPATIENT) == 0:
                return WAITING
            for w in range(len(s.live)):
                if release(s, w):
                    progress = True
            if not progress:
                return WAITING if s.counters[COUNT_WAITING] else DEADLOCK
        elif not progress:
            return PAUSED
