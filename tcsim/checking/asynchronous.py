"""Has an asynchronous access ended, and who knows? Compiled.

A copy or product runs on after the instruction that starts it. It has ended for those who waited for it, in the way that its
group says (:mod:`tcsim.checking.layout`), and for everybody who comes behind one of them.
"""

from __future__ import annotations

import numpy as np

from isa.compiled import compiled
from isa.kernels.planes import as_i64, as_u32
from tcsim.checking.clocks import ordered
from tcsim.checking.layout import (
    BULK_READS,
    BULK_WRITES,
    COPIES,
    COPY,
    GROUP_BITS,
    MB_PHASE,
    MB_WORDS,
    MBARRIER,
    MBARRIERS,
    NOT_COMMITTED,
    PHASE_BITS,
    PRODUCT,
    PRODUCTS,
    RING,
    T_BULK_DONE,
    T_BULK_READ,
    T_BULK_WAITED,
    T_CTA,
    T_DONE,
    T_FLOOR,
    T_MBARRIER_WAITED,
    T_MBARRIERS,
    T_OPEN,
    T_PRODUCT_DONE,
    T_PRODUCT_WAITED,
    T_WAITED,
    T_WARPS,
    TRANSACTION,
)

__all__ = ["ended", "surely_ended"]


@compiled
def _copy(owner, number, thread):
    """(what was not waited for, or 0; stamp of the wait, or 0 if that is long ago) of cp.async."""
    done = as_i64(owner[T_DONE])[thread]
    if number > done:
        return np.int64(NOT_COMMITTED if number >= as_i64(owner[T_OPEN])[thread] else COPIES), np.int64(0)
    if done - number >= RING:
        return np.int64(0), np.int64(0)
    return np.int64(0), np.int64(as_u32(owner[T_WAITED])[RING * thread + number % RING])


@compiled
def _bulk(owner, number, thread, reading):
    """The same of bulk copies from shared memory: of their reads, or of their writes."""
    done = as_i64(owner[T_BULK_READ if reading else T_BULK_DONE])[thread]
    if number > done:
        return np.int64(BULK_READS if reading else BULK_WRITES), np.int64(0)
    if done - number >= RING:
        return np.int64(0), np.int64(0)
    return np.int64(0), np.int64(as_u32(owner[T_BULK_WAITED])[RING * (2 * thread + (0 if reading else 1)) + number % RING])


@compiled
def _behind(t, owner, stamp, v, lanes, w, lane):
    """Whether a thread comes behind one of those lanes of warp ``v`` of the owner that were let through a wait."""
    if t[T_CTA] == owner[T_CTA] and (v == w or stamp <= t[T_FLOOR]):
        return True
    for other in range(32):
        one = np.uint32(1) << np.uint32(other)
        if lanes & one and ordered(t, stamp, owner[T_CTA] * owner[T_WARPS] + v, one, w, lane):
            return True
    return False


@compiled
def _told(t, owner, number, w, lane):
    """Whether a thread knows that the phase of an mbarrier has ended."""
    slot, phase = number >> PHASE_BITS, number & ((1 << PHASE_BITS) - 1)
    if slot >= MBARRIERS or as_i64(owner[T_MBARRIERS])[MB_WORDS * slot + MB_PHASE] - phase >= RING:
        return True
    warps = owner[T_WARPS]
    waited = as_u32(owner[T_MBARRIER_WAITED] + 8 * warps * (RING * slot + phase % RING))
    if t[T_CTA] == owner[T_CTA] and waited[2 * w] != 0:
        return True
    for v in range(warps):
        if waited[2 * v] != 0 and _behind(t, owner, np.int64(waited[2 * v]), v, waited[2 * v + 1], w, lane):
            return True
    return False


@compiled
def _multiplied(t, owner, number, v, w, lane):
    """Whether a thread knows that the product of a warp's group has ended: it is one of all four warps of the warpgroup, so the
    wait of any will do. (The lanes of a warp meet there, so lane 0 stands for all.)"""
    first = v & ~np.int64(3)
    for u in range(first, min(first + 4, owner[T_WARPS])):
        done = as_i64(owner[T_PRODUCT_DONE])[u]
        if number > done:
            continue
        stamp = np.int64(as_u32(owner[T_PRODUCT_WAITED])[RING * u + number % RING])
        if done - number >= RING or _behind(t, owner, stamp, u, np.uint32(1), w, lane):
            return True
    return False


@compiled
def ended(t, owner, group, stamp, agent, by, w, lane, reading):
    """(what was not waited for, or 0; the stamp of the wait that must be ordered before lane ``lane`` of warp ``w``, or 0 if
    that is so) of the access of a group by lane ``by`` of an agent, issued at ``stamp``. owner: the table of the CTA in whose
    shared memory it is. reading: whether it reads there."""
    kind, number = group >> GROUP_BITS, group & ((1 << GROUP_BITS) - 1)
    if kind == TRANSACTION:
        return np.int64(0 if _told(t, owner, number, w, lane) else MBARRIER), np.int64(0)
    v = agent - owner[T_CTA] * owner[T_WARPS]
    if v < 0 or v >= owner[T_WARPS]:  # another CTA's, in device memory
        return np.int64(0), stamp
    if kind == PRODUCT:
        return np.int64(0 if _multiplied(t, owner, number, v, w, lane) else PRODUCTS), np.int64(0)
    if kind == COPY:
        return _copy(owner, number, 32 * v + by)
    return _bulk(owner, number, 32 * v + by, reading)


@compiled
def surely_ended(t, group, agent, by, w):
    """Whether a copy into the CTA's own shared memory has ended for warp ``w``, as far as that shows at once: the warp itself
    has waited, or a barrier of the CTA is behind the wait."""
    kind, number = group >> GROUP_BITS, group & ((1 << GROUP_BITS) - 1)
    if kind == TRANSACTION:
        slot, phase = number >> PHASE_BITS, number & ((1 << PHASE_BITS) - 1)
        if slot >= MBARRIERS or as_i64(t[T_MBARRIERS])[MB_WORDS * slot + MB_PHASE] - phase >= RING:
            return True
        return as_u32(t[T_MBARRIER_WAITED] + 8 * t[T_WARPS] * (RING * slot + phase % RING))[2 * w] != 0
    v = agent - t[T_CTA] * t[T_WARPS]
    if kind != COPY or v < 0 or v >= t[T_WARPS]:
        return False
    missing, stamp = _copy(t, number, 32 * v + by)
    return missing == 0 and stamp <= t[T_FLOOR]
