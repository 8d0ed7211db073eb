"""What instructions do once they have issued, as :class:`~tcsim.timing.sm.Sm` and
:class:`~tcsim.timing.memory_unit.MemoryUnit` do it."""

from __future__ import annotations

import numpy as np

from isa.compiled import call, compiled
from tcsim.execute.barriers import popcount
from tcsim.timing.arrays import address_of_row, row, row32
from tcsim.timing.compiled.issuing import account, advance, charge, commit_copies, deliver, read_operands, read_registers, take
from tcsim.timing.compiled.state import (
    A_CTA,
    A_KIND,
    A_PLACE,
    A_TIME,
    ABSENT,
    ARRIVED,
    AT,
    BARRIERS,
    C_ALIVE,
    C_ARRIVED,
    C_END,
    C_NUMBER,
    CTAS,
    E_AFTER,
    E_BUSY,
    E_CACHED,
    E_FEWEST,
    E_LANE,
    E_ORDER,
    E_PARTS,
    E_PORT,
    E_RESULT,
    E_SOURCE,
    E_STAGE,
    E_TIMED,
    E_UNIT,
    E_WRITE_COUNT,
    END,
    ENTRIES,
    EXECUTING,
    G_ROW,
    G_WARP_CYCLES,
    M_AGENDA,
    NEEDED,
    O_EXIT,
    O_OTHERS,
    O_SIZE,
    O_SUBS,
    O_WARPS,
    OPTIONS,
    P_FREE,
    P_NEXT,
    P_RESERVED,
    P_USER,
    PAYLOAD,
    PIPE_KINDS,
    S_COUNT,
    S_LAST,
    S_WARPS,
    SIGNALS,
    SMS,
    SUB_ROWS,
    SUBS,
    W_BASE,
    W_COPIES,
    W_CTA,
    W_DONE,
    W_FIRST,
    W_LANDED,
    W_LAST,
    W_LEFT,
    W_LIVE,
    W_NUMBER,
    W_PC,
    W_STATE,
    W_SUB,
    WAITERS,
    WARPS,
    WORDS,
    item_of,
    pipe_of,
)  # fmt: skip
from tcsim.timing.hierarchy import ARRIVALS, BARRIER_INTERVAL, BARRIER_OPEN, BARRIER_RELEASE, COSTS, L1_LATENCY, L2_HIT, PORTS
from tcsim.timing.issue import Unit
from tcsim.timing.lsu import atomic_part, copy_part, enter, load_part, store_part
from tcsim.timing.scoreboard import REASON, SHIFT

__all__ = ["issue", "schedule"]

_SHORT, _LONG, _WAIT = REASON["short_scoreboard"], REASON["long_scoreboard"], REASON["wait"]
_BARRIER, _DRAIN, _DISPATCH = REASON["barrier"], REASON["drain"], REASON["dispatch_stall"]
PIPE, PORT, LOAD, STORE, ATOMIC, COPY = Unit.PIPE, Unit.PORT, Unit.LOAD, Unit.STORE, Unit.ATOMIC, Unit.COPY
COMMIT, BARRIER, ARRIVE, EXIT, CLOCK = Unit.COMMIT, Unit.BARRIER, Unit.ARRIVE, Unit.EXIT, Unit.CLOCK


@compiled
def issue(c, w, now):
    """Issue the next instruction of a warp that was chosen for cycle ``now``. Returns True if the executor must be told the
    time before the warp can go on."""
    sub = row(c, WARPS, w)[W_SUB]
    pc = row(c, WARPS, w)[W_PC]
    e = row(c, ENTRIES, pc)
    held = read_registers(c, sub, e, now)
    pipe = account(c, sub, w, now, held)
    unit = e[E_UNIT]
    base = (now << SHIFT) + e[E_AFTER]
    if unit == PIPE:
        p = pipe_of(c, sub, pipe)
        start = now
        if row(c, PIPE_KINDS, pipe)[1]:
            start = max(now, p[P_NEXT])
            p[P_NEXT] = start + e[E_BUSY]
            take(c, sub, pipe, now, start, e[E_BUSY])
        else:
            p[P_FREE] = now + e[E_BUSY]
            p[P_RESERVED] += e[E_BUSY] - 1
        p[P_USER] = w
        if e[E_WRITE_COUNT] or e[E_ORDER]:
            deliver(c, w, e, (start << SHIFT) + e[E_RESULT])
        if e[E_SOURCE]:
            read_operands(c, w, e, start, _SHORT)
        if held:
            base = max(base, ((now + 1 + held) << SHIFT) + _DISPATCH)
        advance(c, w, base)
    elif unit <= COPY:
        _access(c, w, sub, pc, e, pipe, now)
        if e[E_TIMED]:
            row(c, WARPS, w)[W_BASE] = base
            row(c, SIGNALS, 0)[G_ROW] = w
            return True
        advance(c, w, base)
    elif unit == COMMIT:
        take(c, sub, pipe, now, now, 1)
        commit_copies(c, w)
        if e[E_WRITE_COUNT]:
            deliver(c, w, e, (row(c, WARPS, w)[W_LANDED] << SHIFT) + _LONG)
        read_operands(c, w, e, row(c, WARPS, w)[W_LANDED], _LONG)
        advance(c, w, base)
    elif unit > CLOCK:
        call(row(c, OPTIONS, 0)[O_OTHERS], (c, w, pipe, now, base))
    elif unit == EXIT:
        take(c, sub, pipe, now, now, e[E_BUSY])
        _exit(c, w, now, base)
    elif unit == CLOCK:
        take(c, sub, pipe, now, now, e[E_BUSY])
        deliver(c, w, e, (now << SHIFT) + e[E_RESULT])
        read_operands(c, w, e, now, _SHORT)
        row(c, WARPS, w)[W_BASE] = base
        row(c, SIGNALS, 0)[G_ROW] = w
        return True
    else:
        take(c, sub, pipe, now, now, e[E_BUSY])
        read_operands(c, w, e, now, _SHORT)
        _barrier(c, w, unit == BARRIER, now, base)
    return False


@compiled
def _access(c, w, sub, pc, e, pipe, now):
    """A memory instruction or an exchange between lanes."""
    sm, s = sub // row(c, OPTIONS, 0)[O_SUBS], sub % row(c, OPTIONS, 0)[O_SUBS]
    unit = e[E_UNIT]
    warp = row(c, WARPS, w)
    if unit == PORT:
        start = enter(c, sm, s, now, e[E_PORT], e[E_STAGE])
        take(c, sub, pipe, now, start, 1)
        deliver(c, w, e, (start << SHIFT) + e[E_RESULT])
        read_operands(c, w, e, start, _SHORT)
        return
    at = np.int64(row32(c, PAYLOAD, w)[row(c, AT, 0)[w]])
    if at < 0:  # no lane executes it
        take(c, sub, pipe, now, now, 1)
        return
    words = address_of_row(c, WORDS, w)
    fewest, cached = e[E_FEWEST], e[E_CACHED] != 0
    start = now
    shared = False
    value = np.int64(0)
    if unit == LOAD:
        for _ in range(e[E_PARTS]):
            start, done, shared, at = load_part(c, sm, s, pc, fewest, cached, words, at, now)
            take(c, sub, pipe, now, start, 1)
            value = max(value, (done << SHIFT) + (_SHORT if shared else _LONG))
            if not shared:
                warp[W_DONE] = max(warp[W_DONE], start + row(c, COSTS, 0)[L2_HIT] + row(c, COSTS, 0)[L1_LATENCY])
        deliver(c, w, e, value)
    elif unit == STORE:
        for _ in range(e[E_PARTS]):
            start, left, done, shared, at = store_part(c, sm, s, pc, fewest, e[E_STAGE], words, at, now)
            take(c, sub, pipe, now, start, 1)
            if not shared:
                warp[W_LEFT] = max(warp[W_LEFT], left)
                warp[W_DONE] = max(warp[W_DONE], done)
    elif unit == ATOMIC:
        start, left, done, shared, at = atomic_part(c, sm, s, pc, fewest, e[E_LANE], words, at, now)
        take(c, sub, pipe, now, start, 1)
        done += e[E_RESULT] >> SHIFT
        if not shared:
            warp[W_LEFT] = max(warp[W_LEFT], left)
            acknowledged = left + row(c, COSTS, 0)[L2_HIT] + row(c, COSTS, 0)[L1_LATENCY]
            warp[W_DONE] = max(warp[W_DONE], acknowledged)
        deliver(c, w, e, (done << SHIFT) + (_SHORT if shared else _LONG))
    else:
        start, landed, at = copy_part(c, sm, s, pc, fewest, cached, e[E_PORT], words, at, now)
        take(c, sub, pipe, now, start, 1)
        warp[W_COPIES] = max(warp[W_COPIES], landed)
    read_operands(c, w, e, start, _SHORT if shared else _LONG)


# ----------------------------------------------------------------------------------------------------- CTA barriers


@compiled
def _lanes(c, w):
    """Lanes that execute the current instruction."""
    return np.int64(row32(c, EXECUTING, w)[row(c, AT, 0)[w]]) & 0xFFFFFFFF


@compiled
def _complete(c, place, number):
    """Whether a barrier has everyone it waits for."""
    first = place * row(c, OPTIONS, 0)[O_WARPS]
    threads = 0
    everyone = True
    for index in range(row(c, OPTIONS, 0)[O_WARPS]):
        here = row(c, ARRIVED, place * BARRIERS + number)[index]
        if row(c, WARPS, first + index)[W_LIVE] & ~here:
            everyone = False
            threads += popcount(np.uint32(here))
        elif here:
            threads += 32
    if row(c, NEEDED, place)[number] == 0:
        return everyone
    return threads >= row(c, NEEDED, place)[number]


@compiled
def _open(c, place, number, released):
    """Let those go on who wait at a barrier, in the order in which they came."""
    count = row(c, WAITERS, place * BARRIERS + number)[0]
    waiters = row(c, WAITERS, place * BARRIERS + number)
    waiters[0] = 0
    for index in range(row(c, OPTIONS, 0)[O_WARPS]):
        row(c, ARRIVED, place * BARRIERS + number)[index] = 0
    row(c, NEEDED, place)[number] = 0
    row(c, CTAS, place)[C_ARRIVED] &= ~(1 << number)
    for index in range(count):
        w = waiters[1 + index]
        first = max(released, row(c, WARPS, w)[W_LAST] + 1)
        charge(c, w, _BARRIER, first - row(c, WARPS, w)[W_LAST] - 1)
        deliver(c, w, row(c, ENTRIES, row(c, WARPS, w)[W_PC]), (first << SHIFT) + _WAIT)
        advance(c, w, (first << SHIFT) + _WAIT)


@compiled
def _barrier(c, w, waits, now, base):
    """Arrive at a CTA barrier; whoever is let through goes on when the release has reached it."""
    at = row32(c, PAYLOAD, w)[row(c, AT, 0)[w]]
    if at < 0:
        advance(c, w, base)
        return
    sm = row(c, WARPS, w)[W_SUB] // row(c, OPTIONS, 0)[O_SUBS]
    place, index = row(c, WARPS, w)[W_CTA], row(c, WARPS, w)[W_NUMBER]
    number, needed = row(c, WORDS, w)[at], row(c, WORDS, w)[at + 1]
    counted = max(now, row(c, PORTS, sm)[ARRIVALS]) + row(c, COSTS, 0)[BARRIER_INTERVAL]
    row(c, PORTS, sm)[ARRIVALS] = counted
    row(c, ARRIVED, place * BARRIERS + number)[index] |= _lanes(c, w)
    row(c, CTAS, place)[C_ARRIVED] |= 1 << number
    if needed:
        row(c, NEEDED, place)[number] = needed
    stops = waits and (row(c, WARPS, w)[W_LIVE] & ~row(c, ARRIVED, place * BARRIERS + number)[index]) == 0
    if stops:
        row(c, WAITERS, place * BARRIERS + number)[0] += 1
        waiters = row(c, WAITERS, place * BARRIERS + number)
        waiters[waiters[0]] = w
    opens = _complete(c, place, number)
    if not stops:
        advance(c, w, base)
    if opens:
        if row(c, WAITERS, place * BARRIERS + number)[0]:
            row(c, PORTS, sm)[ARRIVALS] += row(c, COSTS, 0)[BARRIER_OPEN]
        _open(c, place, number, counted + row(c, COSTS, 0)[BARRIER_RELEASE])


# ------------------------------------------------------------------------------------------------------ warps that end


@compiled
def schedule(c, sm, time, kind, cta, place):
    """Put something on an SM's agenda: the start of a CTA, or the end of one."""
    item = item_of(c, sm, row(c, SMS, sm)[M_AGENDA])
    item[A_TIME], item[A_KIND], item[A_CTA], item[A_PLACE] = time, kind, cta, place
    row(c, SMS, sm)[M_AGENDA] += 1


@compiled
def _exit(c, w, now, base):
    """Lanes end; with its last lane the warp ends, when its stores have left."""
    warp = row(c, WARPS, w)
    place = warp[W_CTA]
    warp[W_LIVE] &= ~_lanes(c, w)
    # Which barriers open now is settled before anyone goes on.
    opening = 0
    arrived = row(c, CTAS, place)[C_ARRIVED]
    for number in range(BARRIERS if arrived else 0):
        if arrived >> number & 1 and _complete(c, place, number):
            opening |= 1 << number
    if warp[W_LIVE]:
        advance(c, w, base)
    else:
        end = max(warp[W_LAST] + row(c, OPTIONS, 0)[O_EXIT], warp[W_LEFT])
        charge(c, w, _DRAIN, end - warp[W_LAST] - 1)
        row(c, SIGNALS, 0)[G_WARP_CYCLES] += end - warp[W_FIRST]
        _leave(c, w)
        cta = row(c, CTAS, place)
        cta[C_END] = max(cta[C_END], end)
        cta[C_ALIVE] -= 1
        if cta[C_ALIVE] == 0:
            schedule(c, warp[W_SUB] // row(c, OPTIONS, 0)[O_SUBS], cta[C_END], END, cta[C_NUMBER], place)
    for number in range(BARRIERS if opening else 0):
        if opening >> number & 1:
            _open(c, place, number, now + row(c, COSTS, 0)[BARRIER_RELEASE])
    if row(c, OPTIONS, 0)[O_SIZE] > 1:
        call(row(c, OPTIONS, 0)[O_OTHERS], (c, w, 0, now, 0))


@compiled
def _leave(c, w):
    """A warp gives up its place in its sub-partition."""
    sub = row(c, WARPS, w)[W_SUB]
    row(c, WARPS, w)[W_STATE] = ABSENT
    s = row(c, SUBS, sub)
    s[S_WARPS] -= 1
    if s[S_LAST] == w:
        s[S_LAST] = -1
    to = 0
    for index in range(s[S_COUNT]):
        if row(c, SUB_ROWS, sub)[index] != w:
            row(c, SUB_ROWS, sub)[to] = row(c, SUB_ROWS, sub)[index]
            to += 1
    s[S_COUNT] = to
