"""The mbarrier object: 64 bits of shared memory that count arrivals and bytes (PTX ISA 9.7.13.15).

Where its parts stand was measured on an H200 (driver 580.159): from the states that ``mbarrier.arrive`` returns, and from what
``mbarrier.inval`` leaves in memory. ``pending_count`` as ptxas 13.0 computes it agrees.

====== =====================================================================
bits   part
====== =====================================================================
1-20   minus the expected arrival count of the next phase
21-41  minus the bytes still to come (tx-count), two's complement
43-62  minus the pending arrival count
63     parity of the phase under way
====== =====================================================================

A state is the upper word; the lower one, which no instruction looks at, is 0 here.
"""

from __future__ import annotations

import numpy as np

from isa.arith.lane import lane
from isa.kernels.planes import load_u64, store_u64
from isa.machine import BAD_MBARRIER, SHARED, fault

__all__ = [
    "MOST_ARRIVALS",
    "MOST_BYTES",
    "arrive",
    "complete_tx",
    "drop",
    "expect_tx",
    "initial",
    "is_complete",
    "parity",
    "pending",
    "state",
]

MOST_ARRIVALS, MOST_BYTES = (1 << 20) - 1, (1 << 20) - 1
"""The largest counts (PTX ISA 9.7.13.15.2); an H200 stops a kernel that passes them."""

# Which rule a kernel broke, in the fault's size word.
TOO_MANY_ARRIVALS, TOO_MANY_BYTES, BAD_COUNT = 0, 1, 2

_EXPECTED, _BYTES, _PENDING, _PHASE = 1, 21, 43, 63
_COUNT_MASK, _BYTES_MASK = np.uint64((1 << 20) - 1), np.uint64((1 << 21) - 1)


@lane
def initial(count):
    """A fresh object that expects ``count`` arrivals in every phase."""
    minus = (np.uint64(0) - np.uint64(count)) & _COUNT_MASK
    return (minus << np.uint64(_EXPECTED)) | (minus << np.uint64(_PENDING))


@lane
def state(word):
    """The state that an arrival returns, from the object before it."""
    return word & np.uint64(0xFFFF_FFFF_0000_0000)


@lane
def pending(word):
    """The arrivals that the phase of an object or state still waits for. (A count of 0 reads as 2^20, as on hardware.)"""
    return np.uint32(np.uint64(1 << 20) - ((word >> np.uint64(_PENDING)) & _COUNT_MASK))


@lane
def parity(word):
    """The parity of the phase under way, of an object or a state."""
    return np.uint32(word >> np.uint64(_PHASE))


@lane
def is_complete(host, phase):
    """Whether the phase with this parity, of the object at a host address, is no longer under way."""
    return parity(load_u64(host)) != (np.uint32(phase) & np.uint32(1))


@lane
def _with_bytes(word, more):
    """The object with ``more`` bytes to come (negative: that have come), or 0 if that is too many."""
    left = np.int64(word << np.uint64(64 - _PENDING + 1)) >> np.int64(64 - 21)  # bits 21 to 41, signed
    left -= np.int64(more)
    if left > MOST_BYTES or left < -MOST_BYTES:
        return np.uint64(0)
    kept = word & ~(_BYTES_MASK << np.uint64(_BYTES))
    return kept | ((np.uint64(left) & _BYTES_MASK) << np.uint64(_BYTES))


@lane
def _ended(word):
    """The object with its next phase begun, if nothing is awaited any more in this one."""
    awaited = (_COUNT_MASK << np.uint64(_PENDING)) | (_BYTES_MASK << np.uint64(_BYTES))
    if word & awaited:
        return word
    expected = (word >> np.uint64(_EXPECTED)) & _COUNT_MASK
    return (word ^ (np.uint64(1) << np.uint64(_PHASE))) | (expected << np.uint64(_PENDING))


@lane
def _bytes(ctx, host, more, number):
    word = _with_bytes(load_u64(host), more)
    if word == np.uint64(0):
        return fault(ctx, BAD_MBARRIER, number, SHARED, more, TOO_MANY_BYTES)
    store_u64(host, _ended(word) if more < 0 else word)
    return np.int32(0)


@lane
def expect_tx(ctx, host, count, number):
    """``count`` more bytes are to come in this phase. ``number``: the lane. Returns 0 or a fault code."""
    return _bytes(ctx, host, np.int64(count), number)


@lane
def complete_tx(ctx, host, count, number):
    """``count`` bytes have come, which may end the phase. ``number``: the lane. Returns 0 or a fault code."""
    return _bytes(ctx, host, -np.int64(count), number)


@lane
def _less(ctx, host, count, number, for_ever):
    word = load_u64(host)
    left = (np.uint64(0) - (word >> np.uint64(_PENDING))) & _COUNT_MASK
    if np.uint64(count) > left:
        return fault(ctx, BAD_MBARRIER, number, SHARED, left, TOO_MANY_ARRIVALS)
    if for_ever:
        minus = ((word >> np.uint64(_EXPECTED)) + np.uint64(count)) & _COUNT_MASK
        word = (word & ~(_COUNT_MASK << np.uint64(_EXPECTED))) | (minus << np.uint64(_EXPECTED))
    minus = ((word >> np.uint64(_PENDING)) + np.uint64(count)) & _COUNT_MASK
    word = (word & ~(_COUNT_MASK << np.uint64(_PENDING))) | (minus << np.uint64(_PENDING))
    store_u64(host, _ended(word))
    return np.int32(0)


@lane
def arrive(ctx, host, count, number):
    """``count`` arrivals, which may end the phase. ``number``: the lane. Returns 0 or a fault code."""
    return _less(ctx, host, count, number, False)


@lane
def drop(ctx, host, count, number):
    """The same, and all later phases expect as many fewer."""
    return _less(ctx, host, count, number, True)
