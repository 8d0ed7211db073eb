"""Asynchronous barriers in shared memory (PTX ISA 9.7.13.15). What the object is: :mod:`isa.mbarrier`.

Lanes take their turns in ascending order. Copies that signal an mbarrier are carried out when they are issued, so by then their
bytes have come.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from isa.arith.lane import lane
from isa.arith.stack import stack_array
from isa.kernels.planes import load_i64, load_u64, store_u64
from isa.machine import BAD_MBARRIER, IMPATIENT, SHARED, SPACES, WAIT, YIELD, fault, locate
from isa.mbarrier import (
    BAD_COUNT,
    MOST_ARRIVALS,
    arrive,
    complete_tx,
    drop,
    expect_tx,
    initial,
    is_complete,
    parity,
    pending,
    state,
)
from isa.spec import instruction, optional

_ONE = np.uint32(1)
_CTA = ("shared", "shared::cta")
_ANY = (*_CTA, "shared::cluster")
_SCOPES = ("cta", "cluster")

_COMMON: dict[str, Any] = {"body": "warp", "timing": "mbarrier", "sm": 80, "ptx": "7.0"}


def _ordered(*orders):
    """Slots for a memory order and its scope: both or (where ``orders`` says so) neither."""
    return {"sem": optional(*orders), "scope": optional(*_SCOPES)}


def _order_and_scope(params):
    if bool(params["sem"]) != bool(params["scope"]):
        return "a memory order and a scope (.cta or .cluster) come together (PTX ISA 9.7.13.15)"
    return None


@lane
def _object(ctx, space, address, number):
    """Host address of the mbarrier object at an address, or 0 after recording a fault."""
    return locate(ctx, space, address, 8, number)


# --------------------------------------------------------------------------------------------------------- life of an object


@instruction("mbarrier.init{space}.b64 [a], count:b32", section="9.7.13.15.9", space=optional(*_CTA), **_COMMON)
def mbarrier_init(a, count, mask, ctx, *, space):
    """Make an mbarrier object that expects ``count`` arrivals (1 to 2^20 - 1) in each phase."""
    for number in range(32):
        if (mask >> np.uint32(number)) & _ONE:
            host = _object(ctx, SPACES[space], a[number], number)
            if host == 0:
                return 1
            if count[number] == 0 or count[number] > MOST_ARRIVALS:
                return fault(ctx, BAD_MBARRIER, number, SHARED, count[number], BAD_COUNT)
            store_u64(host, initial(count[number]))
    return 0


@instruction("mbarrier.inval{space}.b64 [a]", section="9.7.13.15.10", space=optional(*_CTA), **_COMMON)
def mbarrier_inval(a, mask, ctx, *, space):
    """End an object's life. (Hardware leaves its last value in memory.)"""
    for number in range(32):
        if (mask >> np.uint32(number)) & _ONE and _object(ctx, SPACES[space], a[number], number) == 0:
            return 1
    return 0


# ------------------------------------------------------------------------------------------------------------------- bytes


@instruction(
    "mbarrier.{which}{sem}{scope}{space}.b64 [a], count:b32",
    section="9.7.13.15.11",
    which=("expect_tx", "complete_tx"),
    space=optional(*_ANY),
    valid=_order_and_scope,
    **_ordered("relaxed"),
    **(_COMMON | {"sm": 90, "ptx": "8.0"}),
)
def mbarrier_tx(a, count, mask, ctx, *, which, space):
    """Expect ``count`` more bytes in the phase under way, or take note that they have come."""
    for number in range(32):
        if (mask >> np.uint32(number)) & _ONE:
            host = _object(ctx, SPACES[space], a[number], number)
            if host == 0:
                return 1
            if which == "expect_tx":
                status = expect_tx(ctx, host, count[number], number)
            else:
                status = complete_tx(ctx, host, count[number], number)
            if status != 0:
                return status
    return 0


# ---------------------------------------------------------------------------------------------------------------- arrivals

_ARRIVE: dict[str, Any] = {
    "section": "9.7.13.15.13",
    "which": ("arrive", "arrive_drop"),
    "valid": _order_and_scope,
    **_COMMON,
}


@lane
def _arrivals(d, a, count, mask, ctx, space, drops, expects):
    """Every lane's arrivals: ``count`` of them or, where it ``expects`` as many bytes more, one; ``d``: the state before.
    ``drops``: later phases expect as many fewer."""
    for number in range(32):
        if (mask >> np.uint32(number)) & _ONE:
            host = _object(ctx, space, a[number], number)
            if host == 0:
                return np.int32(1)
            d[number] = state(load_u64(host))
            arriving = np.uint32(count[number])
            if expects:
                status = expect_tx(ctx, host, arriving, number)
                if status != 0:
                    return status
                arriving = _ONE
            status = drop(ctx, host, arriving, number) if drops else arrive(ctx, host, arriving, number)
            if status != 0:
                return status
    return np.int32(0)


@instruction(
    "mbarrier.{which}{sem}{scope}{space}.b64 d:b64, [a]",
    space=optional(*_ANY),
    **_ordered("release", "relaxed"),
    **_ARRIVE,
)
def mbarrier_arrive(d, a, mask, ctx, *, which, space):
    """One arrival; ``d`` gets the state before it. (``arrive_drop``: and later phases expect one fewer.)"""
    ones = stack_array(32, np.uint32)
    for number in range(32):
        ones[number] = _ONE
    return _arrivals(d, a, ones, mask, ctx, SPACES[space], which == "arrive_drop", False)


@instruction(
    "mbarrier.{which}{sem}{scope}{space}.b64 d:b64, [a], count:b32",
    space=optional(*_ANY),
    **_ordered("release", "relaxed"),
    **_ARRIVE,
)
def mbarrier_arrive_count(d, a, count, mask, ctx, *, which, space):
    """``count`` arrivals; ``d`` gets the state before them."""
    return _arrivals(d, a, count, mask, ctx, SPACES[space], which == "arrive_drop", False)


@instruction(
    "mbarrier.{which}.expect_tx{sem}{scope}{space}.b64 d:b64, [a], count:b32",
    space=optional(*_ANY),
    **_ordered("release", "relaxed"),
    **(_ARRIVE | {"sm": 90, "ptx": "8.0"}),
)
def mbarrier_arrive_expect_tx(d, a, count, mask, ctx, *, which, space):
    """Expect ``count`` more bytes in the phase under way, then arrive once; ``d`` gets the state before."""
    return _arrivals(d, a, count, mask, ctx, SPACES[space], which == "arrive_drop", True)


@instruction(
    "mbarrier.{which}.noComplete{sem}{scope}{space}.b64 d:b64, [a], count:b32",
    space=optional(*_CTA),
    **_ordered("release"),
    **_ARRIVE,
)
def mbarrier_arrive_no_complete(d, a, count, mask, ctx, *, which, space):
    """``count`` arrivals of which the program knows that they do not end the phase (undefined if they do). ptxas has lanes of
    equal counts arrive together, the lowest lane's first, and the low word of ``d`` tells which of these share the object.
    """
    left = np.uint32(mask)
    while left != 0:
        first = 0
        while not (left >> np.uint32(first)) & _ONE:
            first += 1
        equal = np.uint32(0)
        for number in range(32):
            if (left >> np.uint32(number)) & _ONE and count[number] == count[first]:
                equal |= _ONE << np.uint32(number)
        status = _arrivals(d, a, count, equal, ctx, SPACES[space], which == "arrive_drop", False)
        if status != 0:
            return status
        for number in range(32):
            if (equal >> np.uint32(number)) & _ONE:
                for other in range(32):
                    if (equal >> np.uint32(other)) & _ONE and a[other] == a[number]:
                        d[number] |= np.uint64(1) << np.uint64(other)
        left &= ~equal
    return np.int32(0)


@instruction("cp.async.mbarrier.arrive{space}.b64 [a]", section="9.7.13.15.15", space=optional(*_CTA), **_COMMON)
def cp_async_mbarrier_arrive(a, mask, ctx, *, space):
    """Expect one more arrival, which happens when the thread's copies so far have arrived: at once, as they have."""
    for number in range(32):
        if (mask >> np.uint32(number)) & _ONE and _object(ctx, SPACES[space], a[number], number) == 0:
            return 1
    return 0


@instruction(
    "cp.async.mbarrier.arrive.noinc{space}.b64 [a]",
    section="9.7.13.15.15",
    space=optional(*_CTA),
    **_COMMON,
)
def cp_async_mbarrier_arrive_noinc(a, mask, ctx, *, space):
    """Arrive when the thread's copies so far have arrived: at once, as they have."""
    for number in range(32):
        if (mask >> np.uint32(number)) & _ONE:
            host = _object(ctx, SPACES[space], a[number], number)
            if host == 0:
                return 1
            status = arrive(ctx, host, 1, number)
            if status != 0:
                return status
    return 0


# ------------------------------------------------------------------------------------------------------------------- waits

_TEST: dict[str, Any] = {
    "section": "9.7.13.15.16",
    "space": optional(*_CTA),
    "valid": _order_and_scope,
    **_ordered("acquire", "relaxed"),
    **(_COMMON | {"timing": "mbarrier_wait", "waits": True}),
}
_TRY: dict[str, Any] = _TEST | {"sm": 90, "ptx": "7.8"}


@lane
def _completed(ctx, a, phases, mask, space):
    """The lanes whose phase has ended. Lane -1 stands for a fault: then the result is 2^32."""
    done = np.uint32(0)
    for number in range(32):
        if (mask >> np.uint32(number)) & _ONE:
            host = _object(ctx, space, a[number], number)
            if host == 0:
                return np.uint64(1 << 32)
            if is_complete(host, phases[number]):
                done |= _ONE << np.uint32(number)
    return np.uint64(done)


@lane
def _answer(p, done):
    """The result of a test that does not wait: false, and others get a turn before it is asked again."""
    if done >> np.uint64(32):
        return np.int32(1)
    p[0] = np.uint32(done)
    return np.int32(0) if done else np.int32(YIELD)


@lane
def _answer_or_wait(ctx, p, done):
    """The result of a test that waits. It times out only when waiting is of no use (hardware: after a while)."""
    if done == np.uint64(0) and load_i64(ctx + 8 * IMPATIENT) < 2:
        return np.int32(WAIT)
    return _answer(p, done)


@lane
def _parities(states, phases):
    for number in range(32):
        phases[number] = parity(states[number])


@instruction("mbarrier.test_wait.parity{sem}{scope}{space}.b64 p, [a], phase:b32", **_TEST)
def mbarrier_test_wait_parity(p, a, phase, mask, ctx, *, space):
    """Whether the phase with the parity ``phase`` has ended."""
    return _answer(p, _completed(ctx, a, phase, mask, SPACES[space]))


@instruction("mbarrier.test_wait{sem}{scope}{space}.b64 p, [a], c:b64", **_TEST)
def mbarrier_test_wait(p, a, c, mask, ctx, *, space):
    """Whether the phase of the state ``c``, which an arrival returned, has ended."""
    phases = stack_array(32, np.uint32)
    _parities(c, phases)
    return _answer(p, _completed(ctx, a, phases, mask, SPACES[space]))


@instruction("mbarrier.try_wait.parity{sem}{scope}{space}.b64 p, [a], phase:b32", **_TRY)
def mbarrier_try_wait_parity(p, a, phase, mask, ctx, *, space):
    """Wait until the phase with the parity ``phase`` has ended, or for a while; ``p``: whether it has."""
    return _answer_or_wait(ctx, p, _completed(ctx, a, phase, mask, SPACES[space]))


@instruction("mbarrier.try_wait.parity{sem}{scope}{space}.b64 p, [a], phase:b32, hint:b32", **_TRY)
def mbarrier_try_wait_parity_hint(p, a, phase, hint, mask, ctx, *, space):
    """The same; ``hint``: for how long, in nanoseconds."""
    return _answer_or_wait(ctx, p, _completed(ctx, a, phase, mask, SPACES[space]))


@instruction("mbarrier.try_wait{sem}{scope}{space}.b64 p, [a], c:b64", **_TRY)
def mbarrier_try_wait(p, a, c, mask, ctx, *, space):
    """Wait until the phase of the state ``c`` has ended, or for a while; ``p``: whether it has."""
    phases = stack_array(32, np.uint32)
    _parities(c, phases)
    return _answer_or_wait(ctx, p, _completed(ctx, a, phases, mask, SPACES[space]))


@instruction("mbarrier.try_wait{sem}{scope}{space}.b64 p, [a], c:b64, hint:b32", **_TRY)
def mbarrier_try_wait_hint(p, a, c, hint, mask, ctx, *, space):
    """The same; ``hint``: for how long, in nanoseconds."""
    phases = stack_array(32, np.uint32)
    _parities(c, phases)
    return _answer_or_wait(ctx, p, _completed(ctx, a, phases, mask, SPACES[space]))


@instruction("mbarrier.pending_count.b64 d:u32, c:b64", timing="alu", section="9.7.13.15.18", sm=80, ptx="7.0")
def mbarrier_pending_count(c):
    """The arrivals that a phase still waited for when it had the state ``c``."""
    return pending(c)
