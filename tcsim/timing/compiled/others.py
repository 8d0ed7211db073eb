"""What only some programs have: clusters, mbarrier objects, bulk copies and indexed constants. The loop calls it through its
address, so that it is compiled, or fetched from disk, only for those."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from isa.compiled import compiled, compiled_for_address
from tcsim.timing.arrays import address_of_row, row, row32
from tcsim.timing.compiled.clusters import after_exit, arrive_at_cluster, wait_for_cluster
from tcsim.timing.compiled.issuing import advance, deliver, read_operands, take
from tcsim.timing.compiled.signals import async_store, await_phase, bulk_copy, send_signals
from tcsim.timing.compiled.state import (
    AT,
    E_BUSY,
    E_CONSTANTS,
    E_RESULT,
    E_UNIT,
    ENTRIES,
    O_SUBS,
    OPTIONS,
    PAYLOAD,
    W_PC,
    W_SUB,
    WARPS,
    WORDS,
)
from tcsim.timing.constant_cache import fixed_constants, indexed_constants
from tcsim.timing.issue import Unit
from tcsim.timing.scoreboard import REASON, SHIFT

__all__ = ["address_for"]

CLUSTER_ARRIVE, CLUSTER_WAIT = Unit.CLUSTER_ARRIVE, Unit.CLUSTER_WAIT
SIGNAL, AWAIT, BULK, ASYNC_STORE, CONSTANT = Unit.SIGNAL, Unit.AWAIT, Unit.BULK, Unit.ASYNC_STORE, Unit.CONSTANT
_SHORT = REASON["short_scoreboard"]


def address_for(units: set[int], size: int) -> int:
    """The address of :func:`_other` if a program with these units, in clusters of ``size`` CTAs, needs it; else 0."""
    return int(_compiled().address) if size > 1 or max(units) > Unit.CLOCK else 0


@functools.cache
def _compiled() -> Any:
    return compiled_for_address("int64(int64, int64, int64, int64, int64)", _other)


@compiled
def _indexed_constants(c, w, sub, pipe, e, now, base):
    """Load from a constant bank, one address after another."""
    sm, at = sub // row(c, OPTIONS, 0)[O_SUBS], np.int64(-1)
    later = longer = np.int64(0)
    if e[E_CONSTANTS] >= 0:
        later = fixed_constants(c, sm, e[E_CONSTANTS], now)
    else:
        at = np.int64(row32(c, PAYLOAD, w)[row(c, AT, 0)[w]])
    if at >= 0:
        later, longer = indexed_constants(c, sm, address_of_row(c, WORDS, w), at, now)
    take(c, sub, pipe, now, now, e[E_BUSY] + longer)
    deliver(c, w, e, ((now + later) << SHIFT) + e[E_RESULT])
    read_operands(c, w, e, now, _SHORT)
    advance(c, w, base)


def _other(c, w, pipe, now, base):
    """Execute what a warp has issued in cycle ``now``, and let it go on from ``base`` or wait; ``base`` 0: lanes have ended."""
    warp = row(c, WARPS, w)
    e, sub = row(c, ENTRIES, warp[W_PC]), warp[W_SUB]
    unit = e[E_UNIT]
    if base == 0:
        after_exit(c, w, now)
    elif unit == SIGNAL:
        send_signals(c, w, sub, pipe, e, now, base)
    elif unit == AWAIT:
        await_phase(c, w, sub, pipe, e, now, base)
    elif unit == BULK:
        bulk_copy(c, w, sub, pipe, e, now, base)
    elif unit == ASYNC_STORE:
        async_store(c, w, sub, pipe, e, now, base)
    elif unit == CONSTANT:
        _indexed_constants(c, w, sub, pipe, e, now, base)
    else:
        take(c, sub, pipe, now, now, e[E_BUSY])
        read_operands(c, w, e, now, _SHORT)
        if unit == CLUSTER_ARRIVE:
            arrive_at_cluster(c, w, now, base)
        else:
            wait_for_cluster(c, w, base)
    return 0
