"""The loop over the chip: the SM with the earliest next cycle does what happens in it; CTAs start and end."""

from __future__ import annotations

import numpy as np

from isa.compiled import compiled, inlined
from tcsim.timing.arrays import row
from tcsim.timing.compiled.executing import issue
from tcsim.timing.compiled.issuing import advance, choose
from tcsim.timing.compiled.starting import begin, replace
from tcsim.timing.compiled.state import (
    A_CTA,
    A_KIND,
    A_PLACE,
    A_TIME,
    ARRIVED,
    BARRIERS,
    BOARDS,
    C_ALIVE,
    C_ARRIVED,
    C_END,
    C_NUMBER,
    C_QUICK,
    C_SM,
    CLUSTERS,
    CTAS,
    DRY,
    G_CTAS,
    G_DRY,
    G_NOW,
    G_PLACE,
    G_SM,
    G_TOUCHED,
    G_WARPS,
    K_OPENED,
    K_PHASE,
    K_STARTED,
    M_ACTIVE,
    M_AGE,
    M_AGENDA,
    M_CONSTANTS,
    M_FINISHED,
    M_RESIDENT,
    M_SINCE,
    NEEDED,
    NEXT,
    O_BEGIN,
    O_BOARD,
    O_CONSTANT,
    O_CTA,
    O_PIPES,
    O_SIZE,
    O_SUBS,
    O_THREADS,
    O_WARPS,
    OPTIONS,
    P_USER,
    S_COUNT,
    S_NEXT,
    S_WARPS,
    SIGNALS,
    SITE_OF,
    SITES,
    SMS,
    START,
    SUB_ROWS,
    SUBS,
    W_AGE,
    W_BASE,
    W_BEHIND,
    W_BLOCK,
    W_CLUSTER_LANES,
    W_CTA,
    W_FIRST,
    W_LAST,
    W_LIVE,
    W_NUMBER,
    W_STATE,
    W_SUB,
    WAITERS,
    WAITING,
    WARP,
    WARPS,
    item_of,
    pipe_of,
)  # fmt: skip
from tcsim.timing.scoreboard import CONSTANT_BANK, REASON, SHIFT
from tcsim.timing.units import NEVER

__all__ = ["ENDED", "FEED", "FINISHED", "REPORT", "STARTED", "STUCK", "TIME", "run_chip"]

FINISHED, FEED, STARTED, ENDED, TIME, STUCK, REPORT = range(7)
"""Why :func:`run_chip` returns: no CTA is left; warps need instructions; a CTA has started, or ended, on G_SM in cycle G_NOW,
in G_PLACE; the executor must be told the time for G_ROW; the barriers of G_SM will never open; progress is to be reported."""

_SM_BITS = 10
_SM_MASK = (1 << _SM_BITS) - 1
_LAST_CYCLE = 1 << 50
_NO_TURN = _LAST_CYCLE << _SM_BITS

_CONSTANT_MISS, _WAIT = REASON["imc_miss"], REASON["wait"]


@inlined
def _agenda_next(c, sm):
    """Position of the first item of an SM's agenda, -1 if it is empty: by time, starts before ends, by CTA."""
    best = -1
    for index in range(row(c, SMS, sm)[M_AGENDA]):
        item = item_of(c, sm, index)
        if best < 0:
            best = index
            continue
        first = item_of(c, sm, best)
        if item[A_TIME] != first[A_TIME]:
            if item[A_TIME] < first[A_TIME]:
                best = index
        elif item[A_KIND] * (1 << 40) + item[A_CTA] < first[A_KIND] * (1 << 40) + first[A_CTA]:
            best = index
    return best


@compiled
def _next_cycle(c, sm):
    """The next cycle in which something may happen on an SM."""
    soonest = NEVER
    for index in range(row(c, SMS, sm)[M_AGENDA]):
        soonest = min(soonest, item_of(c, sm, index)[A_TIME])
    subs = row(c, OPTIONS, 0)[O_SUBS]
    for sub in range(sm * subs, (sm + 1) * subs):
        soonest = min(soonest, row(c, SUBS, sub)[S_NEXT])
    return soonest


@compiled
def _start_cluster(c, place):
    """With the first CTA of a cluster all its warps count as live, wherever they are to start."""
    site, size, warps = row(c, SITE_OF, 0)[place], row(c, OPTIONS, 0)[O_SIZE], row(c, OPTIONS, 0)[O_WARPS]
    cluster = row(c, CLUSTERS, site)
    cluster[K_STARTED] += 1
    if (cluster[K_STARTED] - 1) % size:
        return
    cluster[K_PHASE] = cluster[K_OPENED] = 0
    for rank in range(size):
        for index in range(warps):
            warp = row(c, WARPS, row(c, SITES, site)[rank] * warps + index)
            warp[W_LIVE] = _lanes_at_start(c, index)
            warp[W_CLUSTER_LANES] = 0


@inlined
def _lanes_at_start(c, index):
    return (1 << min(32, row(c, OPTIONS, 0)[O_THREADS] - 32 * index)) - 1


@compiled
def _start(c, sm, number, place, now):
    """A CTA occupies a place: its warps stand before their first instructions."""
    options, signals, chip = row(c, OPTIONS, 0), row(c, SIGNALS, 0), row(c, SMS, sm)
    _start_cluster(c, place)
    if chip[M_CONSTANTS] == 0:
        chip[M_CONSTANTS] = ((now + options[O_CONSTANT]) << SHIFT) + _CONSTANT_MISS
    if chip[M_RESIDENT] == 0:
        chip[M_SINCE] = now - options[O_CTA]
    chip[M_RESIDENT] += 1
    warps, subs = options[O_WARPS], options[O_SUBS]
    signals[G_CTAS] += 1
    signals[G_WARPS] += warps
    cta = row(c, CTAS, place)
    for barrier in range(BARRIERS):
        if cta[C_ARRIVED] >> barrier & 1:  # threads of the last CTA have arrived, and others never have
            row(c, WAITERS, place * BARRIERS + barrier)[0] = 0
            row(c, NEEDED, place)[barrier] = 0
            for index in range(warps):
                row(c, ARRIVED, place * BARRIERS + barrier)[index] = 0
    cta[C_NUMBER], cta[C_ALIVE], cta[C_END], cta[C_SM], cta[C_ARRIVED] = number, warps, 0, sm, 0
    first = 0
    for s in range(1, subs):
        if row(c, SUBS, sm * subs + s)[S_WARPS] < row(c, SUBS, sm * subs + first)[S_WARPS]:
            first = s
    for index in range(warps):
        _start_warp(c, place, index, sm * subs + (first + index) % subs, sm, now)
    for index in range(warps):
        row(c, DRY, 0)[signals[G_DRY]] = place * warps + warps - 1 - index
        signals[G_DRY] += 1
    signals[G_PLACE] = place


@compiled
def _start_warp(c, place, index, sub, sm, now):
    """Warp ``index`` of the CTA in a place stands before its first instruction."""
    options, chip, scheduler = row(c, OPTIONS, 0), row(c, SMS, sm), row(c, SUBS, sub)
    w = place * options[O_WARPS] + index
    warp = row(c, WARPS, w)
    for column in range(WARP):
        warp[column] = 0
    warp[W_STATE], warp[W_CTA], warp[W_NUMBER], warp[W_SUB] = WAITING, place, index, sub
    warp[W_AGE] = chip[M_AGE]
    chip[M_AGE] += 1
    warp[W_FIRST], warp[W_LAST], warp[W_BASE] = now, now - 1, (now << SHIFT) + _WAIT
    warp[W_BLOCK], warp[W_BEHIND] = -1, -1
    warp[W_LIVE] = _lanes_at_start(c, index)
    board = row(c, BOARDS, w)
    for column in range(options[O_BOARD]):
        board[column] = 0
    board[CONSTANT_BANK] = chip[M_CONSTANTS]
    for pipe in range(options[O_PIPES]):  # rows are used again: the last user was another warp
        if pipe_of(c, sub, pipe)[P_USER] == w:
            pipe_of(c, sub, pipe)[P_USER] = -1
    row(c, SUB_ROWS, sub)[scheduler[S_COUNT]] = w
    scheduler[S_COUNT] += 1
    scheduler[S_WARPS] += 1


@compiled
def _end(c, sm, place, now):
    """A CTA gives up its place."""
    chip = row(c, SMS, sm)
    chip[M_RESIDENT] -= 1
    chip[M_FINISHED] = now
    if chip[M_RESIDENT] == 0:
        chip[M_ACTIVE] += now - chip[M_SINCE]
    row(c, SIGNALS, 0)[G_PLACE] = place


@compiled
def _turn(c, sm):
    """Do one thing on an SM: issue an instruction, or start or end a CTA. Returns -1 to go on, or why to return."""
    signals = row(c, SIGNALS, 0)
    at = _agenda_next(c, sm)
    now = item_of(c, sm, at)[A_TIME] if at >= 0 else NEVER
    chosen = -1
    subs = row(c, OPTIONS, 0)[O_SUBS]
    for sub in range(sm * subs, (sm + 1) * subs):
        if row(c, SUBS, sub)[S_NEXT] < now:
            now = row(c, SUBS, sub)[S_NEXT]
            chosen = sub
    signals[G_SM], signals[G_NOW] = sm, now
    if chosen >= 0:
        w = choose(c, chosen, now)
        if w < 0:
            return -1
        if issue(c, w, now):
            return TIME
        return FEED if signals[G_DRY] else -1
    if now == NEVER:
        return STUCK
    item, chip = item_of(c, sm, at), row(c, SMS, sm)
    kind, cta, place = item[A_KIND], item[A_CTA], item[A_PLACE]
    chip[M_AGENDA] -= 1
    last = item_of(c, sm, chip[M_AGENDA])
    item[A_TIME], item[A_KIND], item[A_CTA], item[A_PLACE] = last[A_TIME], last[A_KIND], last[A_CTA], last[A_PLACE]
    if kind == START:
        _start(c, sm, cta, place, now)
        if row(c, OPTIONS, 0)[O_BEGIN] and begin(c, sm, place, cta):
            return -1
        return STARTED
    _end(c, sm, place, now)
    if row(c, CTAS, place)[C_QUICK]:
        return REPORT if replace(c, sm, place, now) else -1
    return ENDED


@inlined
def _turn_of(cycle, sm):
    """A number that says when an SM's turn is: by cycle, then by SM."""
    return min(cycle, _LAST_CYCLE) << _SM_BITS | sm


@inlined
def _first_turn(next_cycle, sms, after):
    """The earliest turn later than ``after``, _NO_TURN or more if none comes. (For a plain minimum LLVM takes vectors.)"""
    first = np.int64(NEVER)
    for number in range(sms):
        turn = _turn_of(next_cycle[number], number)
        first = min(first, turn if turn > after else np.int64(NEVER))
    return first


@compiled
def run_chip(c, rows, bases, count, sms):
    """Run the ``sms`` SMs until Python has something to do; returns what. First the ``count`` warps ``rows`` go on from
    ``bases``."""
    next_cycle = row(c, NEXT, 0)
    for index in range(count):
        advance(c, rows[index], bases[index])
    for index in range(count):
        sm = row(c, CTAS, row(c, WARPS, rows[index])[W_CTA])[C_SM]
        next_cycle[sm] = _next_cycle(c, sm)
    if row(c, SIGNALS, 0)[G_DRY]:
        return FEED
    while True:
        turn = _first_turn(next_cycle, sms, np.int64(-1))
        if turn >= _NO_TURN:
            for number in range(sms):
                if row(c, SMS, number)[M_RESIDENT]:
                    row(c, SIGNALS, 0)[G_SM] = number
                    return STUCK
            return FINISHED
        sm, following = turn & _SM_MASK, min(_first_turn(next_cycle, sms, turn), _NO_TURN)
        while turn < following:
            why = _turn(c, sm)
            soonest = _next_cycle(c, sm)
            next_cycle[sm] = soonest
            if why >= 0:
                return why
            if row(c, SIGNALS, 0)[G_TOUCHED]:
                row(c, SIGNALS, 0)[G_TOUCHED] = 0
                break
            turn = _turn_of(soonest, sm)
