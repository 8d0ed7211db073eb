"""mbarrier objects and bulk copies, as :class:`~tcsim.timing.sm.Sm` deals with them."""

from __future__ import annotations

import numpy as np

from isa.compiled import compiled
from tcsim.execute.signals import Signal
from tcsim.timing.arrays import address_of_row, row, row32
from tcsim.timing.compiled.clusters import go_on
from tcsim.timing.compiled.issuing import advance, deliver, read_operands, take
from tcsim.timing.compiled.state import (
    AT,
    C_SM,
    CTAS,
    E_BUSY,
    E_FEWEST,
    E_PORT,
    E_RESULT,
    E_STAGE,
    ENTRIES,
    O_SIZE,
    O_SUBS,
    O_WARPS,
    OPTIONS,
    PAYLOAD,
    PEERS,
    SITE_OF,
    SITES,
    W_AWAITED,
    W_BASE,
    W_COPIES,
    W_CTA,
    W_LANDED,
    W_PARITY,
    W_PC,
    W_START,
    WARPS,
    WORDS,
)  # fmt: skip
from tcsim.timing.hierarchy import COSTS, MBARRIER_WAKE, REMOTE
from tcsim.timing.lsu import enter, store_part
from tcsim.timing.mbarriers import OFFSET, phase_end, signal
from tcsim.timing.scoreboard import REASON, SHIFT
from tcsim.timing.tma import tma_copy

__all__ = ["async_store", "await_phase", "bulk_copy", "send_signals"]

COPIES, COMPLETE, LOAD, MOVE = Signal.COPIES, Signal.COMPLETE, Signal.LOAD, Signal.MOVE
_SHORT, _LONG = REASON["short_scoreboard"], REASON["long_scoreboard"]
RANK_BITS = 24


@compiled
def _place(c, w, rank):
    """The place of the CTA of a rank in a warp's cluster."""
    place = row(c, WARPS, w)[W_CTA]
    if row(c, OPTIONS, 0)[O_SIZE] == 1:
        return place
    return row(c, SITES, row(c, SITE_OF, 0)[place])[rank]


@compiled
def _answer(c, w, done):
    """The answer of a wait, to be there when the phase has ended in cycle ``done`` and been noticed."""
    e = row(c, ENTRIES, row(c, WARPS, w)[W_PC])
    there = max(row(c, WARPS, w)[W_START] + (e[E_RESULT] >> SHIFT), done + row(c, COSTS, 0)[MBARRIER_WAKE])
    deliver(c, w, e, (there << SHIFT) + _LONG)


@compiled
def _wake(c, place, address, now):
    """A phase of an object has ended: let those go on who wait for it, by their numbers."""
    first = place * row(c, OPTIONS, 0)[O_WARPS]
    for w in range(first, first + row(c, OPTIONS, 0)[O_WARPS]):
        warp = row(c, WARPS, w)
        if warp[W_AWAITED] == 1 + (address & OFFSET):
            done = phase_end(c, place, address, warp[W_PARITY])
            if done >= 0:
                warp[W_AWAITED] = 0
                _answer(c, w, done)
                go_on(c, w, max(warp[W_BASE] >> SHIFT, now + 1), _LONG)


@compiled
def send_signals(c, w, sub, pipe, e, now, base):
    """Signal mbarrier objects, be they in another CTA's shared memory, and go on."""
    sm, s = sub // row(c, OPTIONS, 0)[O_SUBS], sub % row(c, OPTIONS, 0)[O_SUBS]
    start = enter(c, sm, s, now, e[E_PORT], e[E_STAGE])
    take(c, sub, pipe, now, start, 1)
    deliver(c, w, e, (start << SHIFT) + e[E_RESULT])
    read_operands(c, w, e, start, _SHORT)
    at = np.int64(row32(c, PAYLOAD, w)[row(c, AT, 0)[w]])
    advance(c, w, base)
    if at >= 0:
        _send(c, w, at, start, now)


@compiled
def _send(c, w, at, start, now):
    """Do what the payload at ``at`` says, in effect from cycle ``start`` on."""
    words, warp = row(c, WORDS, w), row(c, WARPS, w)
    what = words[at]
    for index in range(words[at + 1]):
        address, value = words[at + 2 + 2 * index], words[at + 3 + 2 * index]
        place, time = _place(c, w, address >> RANK_BITS), start
        if place != warp[W_CTA]:
            time += row(c, COSTS, 0)[REMOTE]
        if what == COPIES:
            time = max(time, warp[W_COPIES], warp[W_LANDED])
        if signal(c, place, what, address, value, time):
            _wake(c, place, address, now)


@compiled
def async_store(c, w, sub, pipe, e, now, base):
    """Store to shared memory of a CTA of the cluster, and signal an object there when that has happened."""
    sm, s = sub // row(c, OPTIONS, 0)[O_SUBS], sub % row(c, OPTIONS, 0)[O_SUBS]
    at = np.int64(row32(c, PAYLOAD, w)[row(c, AT, 0)[w]])
    start = done = now
    if at >= 0:
        pc, words = row(c, WARPS, w)[W_PC], address_of_row(c, WORDS, w)
        start, _, done, _, at = store_part(c, sm, s, pc, e[E_FEWEST], e[E_STAGE], words, at, now)
    take(c, sub, pipe, now, start, 1)
    read_operands(c, w, e, start, _SHORT)
    advance(c, w, base)
    if at >= 0:
        _send(c, w, at, done, now)


@compiled
def await_phase(c, w, sub, pipe, e, now, base):
    """Wait for the end of a phase: the warp goes on when it is known when that is."""
    sm, s = sub // row(c, OPTIONS, 0)[O_SUBS], sub % row(c, OPTIONS, 0)[O_SUBS]
    start = enter(c, sm, s, now, e[E_PORT], e[E_STAGE])
    take(c, sub, pipe, now, start, 1)
    read_operands(c, w, e, start, _SHORT)
    at = np.int64(row32(c, PAYLOAD, w)[row(c, AT, 0)[w]])
    words, warp = row(c, WORDS, w), row(c, WARPS, w)
    warp[W_START] = start
    if at < 0 or words[at + 3] < 0:
        deliver(c, w, e, (start << SHIFT) + e[E_RESULT])
        advance(c, w, base)
        return
    done = phase_end(c, warp[W_CTA], words[at + 2], words[at + 3])
    if done >= 0:
        _answer(c, w, done)
        advance(c, w, base)
        return
    warp[W_AWAITED], warp[W_PARITY], warp[W_BASE] = 1 + (words[at + 2] & OFFSET), words[at + 3], base


@compiled
def bulk_copy(c, w, sub, pipe, e, now, base):
    """Hand a copy to the TMA, and go on. The objects it will tell are told now, with effect from when it lands."""
    take(c, sub, pipe, now, now, e[E_BUSY])
    read_operands(c, w, e, now, _SHORT)
    at = np.int64(row32(c, PAYLOAD, w)[row(c, AT, 0)[w]])
    advance(c, w, base)
    if at < 0:
        return
    words, warp = row(c, WORDS, w), row(c, WARPS, w)
    peers = np.int64(0)
    if row(c, OPTIONS, 0)[O_SIZE] > 1:
        peers = address_of_row(c, PEERS, row(c, SITE_OF, 0)[warp[W_CTA]])
    landed = tma_copy(c, row(c, CTAS, warp[W_CTA])[C_SM], address_of_row(c, WORDS, w), at, peers, now)
    if words[at] != LOAD and words[at] != MOVE:
        warp[W_COPIES] = max(warp[W_COPIES], landed)
        return
    for rank in range(16):
        if words[at + 1] >> rank & 1:
            place = _place(c, w, rank)
            if signal(c, place, COMPLETE, words[at + 3], words[at + 4], landed):
                _wake(c, place, words[at + 3], now)
