"""Exchange between the lanes of a warp: shuffle, vote, match, reduce (PTX ISA 9.7.9.6, 9.7.13.7 to 9.7.13.12).

Each executes once for all members of its mask; the executor brings them together (:mod:`tcsim.execute.collectives`), so
``mask`` here is the set of members that are alive.
"""

from __future__ import annotations

import numpy as np

from isa.arith.compare import max_f32, max_nan_f32, min_f32, min_nan_f32
from isa.arith.lane import lane
from isa.arith.primitives import bits_f32, f32_bits
from isa.spec import flag, instruction

_ONE = np.uint32(1)


@lane
def has(mask, number):
    """Whether a lane is in a mask."""
    return (mask >> np.uint32(number)) & _ONE


@lane
def _up(number, step, last, segments):
    source = number - step
    return source, source >= last


@lane
def _down(number, step, last, segments):
    source = number + step
    return source, source <= last


@lane
def _butterfly(number, step, last, segments):
    source = number ^ step
    return source, source <= last


@lane
def _index(number, step, last, segments):
    source = (number & segments) | (step & ~segments)
    return source, source <= last


SHUFFLES = {"up": _up, "down": _down, "bfly": _butterfly, "idx": _index}
"""(source lane, whether it is in range) for a lane, by mode: of the lane number, ``b``, the last lane allowed, the segments."""


@lane
def shuffle(mode, d, p, a, b, c, mask):
    """A shuffle of the lanes in ``mask``; ``mode`` is one of :data:`SHUFFLES`, ``p`` a word of predicates."""
    for number in range(32):
        if has(mask, number):
            segments = np.int64((c[number] >> np.uint32(8)) & np.uint32(31))
            clamp = np.int64(c[number] & np.uint32(31))
            step = np.int64(b[number] & np.uint32(31))
            source, inside = mode(np.int64(number), step, (number & segments) | (clamp & ~segments), segments)
            if not inside:
                source = np.int64(number)
            d[number] = a[source] if has(mask, source) else np.uint32(0)
            if inside:
                p[0] |= _ONE << np.uint32(number)


@instruction(
    "shfl.sync.{mode}.b32 d|p, a, b:b32, c:b32, membermask:b32",
    body="warp",
    timing="shfl",
    section="9.7.9.6",
    sm=30,
    ptx="6.0",
    collective="membermask",
    mode=("up", "down", "bfly", "idx"),
)
def shfl(d, p, a, b, c, mask, *, mode):
    """Read another lane's register: ``b`` says which, ``c`` the clamp (bits 0-4) and the segments (bits 8-12).

    ``p`` tells whether the source lane was in range; where it was not, a lane gets its own value. Reading a lane that does not
    take part, which PTX leaves undefined, gives 0 and true (read from an H200, driver 580.159.04).
    """
    shuffle(SHUFFLES[mode], d, p, a, b, c, mask)
    return 0


@instruction(
    "vote.sync.{mode}.pred p, a:pred, membermask:b32",
    body="warp",
    timing="vote",
    section="9.7.13.8",
    sm=30,
    ptx="6.0",
    collective="membermask",
    mode=("all", "any", "uni"),
)
def vote(p, a, mask, *, mode):
    """Whether a predicate holds in all members, in any, or in all or none."""
    true = a & mask
    if mode == "all":
        result = true == mask
    elif mode == "any":
        result = true != np.uint32(0)
    else:
        result = (true == mask) | (true == np.uint32(0))
    if result:
        p[0] = mask
    return 0


@instruction(
    "vote.sync.ballot.b32 d, a:pred, membermask:b32",
    body="warp",
    timing="vote",
    section="9.7.13.8",
    sm=30,
    ptx="6.0",
    collective="membermask",
)
def ballot(d, a, mask):
    """The members whose predicate holds, a bit each."""
    for number in range(32):
        d[number] = a & mask
    return 0


@instruction(
    "match.any.sync.{t} d:b32, a, membermask:b32",
    body="warp",
    timing="match",
    section="9.7.13.9",
    sm=70,
    ptx="6.0",
    collective="membermask",
    t=("b32", "b64"),
)
def match_any(d, a, mask, *, t):
    """The members that have the same value as this lane."""
    for number in range(32):
        if has(mask, number):
            equal = np.uint32(0)
            for other in range(32):
                if has(mask, other) and a[other] == a[number]:
                    equal |= _ONE << np.uint32(other)
            d[number] = equal
    return 0


@instruction(
    "match.all.sync.{t} d:b32|p, a, membermask:b32",
    body="warp",
    timing="match",
    section="9.7.13.9",
    sm=70,
    ptx="6.0",
    collective="membermask",
    t=("b32", "b64"),
)
def match_all(d, p, a, mask, *, t):
    """The member mask (and true) if all members have the same value, else 0 (and false)."""
    first = np.int64(-1)
    same = True
    for number in range(32):
        if has(mask, number):
            if first < 0:
                first = np.int64(number)
            elif a[number] != a[first]:
                same = False
    for number in range(32):
        d[number] = mask if same else np.uint32(0)
    if same:
        p[0] = mask
    return 0


@instruction(
    "redux.sync.{op}.{t} d, a, membermask:b32",
    body="warp",
    timing="redux",
    section="9.7.13.11",
    sm=80,
    ptx="7.0",
    collective="membermask",
    op=("add", "min", "max", "and", "or", "xor"),
    t=("u32", "s32", "b32"),
    valid=lambda p: "redux: and, or, xor take .b32; add, min, max take .u32 or .s32"
    if (p["op"] in ("and", "or", "xor")) != (p["t"] == "b32")
    else None,
)
def redux(d, a, mask, *, op, t):
    """Combine the members' values by an integer operation; every member gets the result."""
    started = False
    total = np.uint32(0)
    for number in range(32):
        if has(mask, number):
            value = a[number]
            if not started:
                total = value
                started = True
            elif op == "add":
                total = np.uint32(total + value)
            elif op == "and":
                total &= value
            elif op == "or":
                total |= value
            elif op == "xor":
                total ^= value
            elif op == "min":
                if t == "s32":
                    total = value if np.int32(value) < np.int32(total) else total
                else:
                    total = min(total, value)
            else:
                if t == "s32":
                    total = value if np.int32(value) > np.int32(total) else total
                else:
                    total = max(total, value)
    for number in range(32):
        d[number] = total
    return 0


@instruction(
    "redux.sync.{op}{abs}{nan}.f32 d:f32, a:f32, membermask:b32",
    body="warp",
    timing="redux",
    section="9.7.13.11",
    sm=100,
    ptx="8.6",
    targets=("sm_100a", "sm_100f", "sm_103a", "sm_103f"),
    collective="membermask",
    op=("min", "max"),
    abs=flag("abs"),
    nan=flag("NaN"),
)
def redux_f32(d, a, mask, *, op, abs, nan):
    """The least or greatest of the members' values, or of their magnitudes; every member gets the result.

    NaNs yield to numbers, with ``.NaN`` they prevail; a NaN result is 0x7FFFFFFF.
    """
    started = False
    total = np.float32(0)
    for number in range(32):
        if has(mask, number):
            value = bits_f32(a[number] & np.uint32(0x7FFFFFFF)) if abs else bits_f32(a[number])
            if not started:
                total = value
                started = True
            total = _LEAST[nan](total, value) if op == "min" else _GREATEST[nan](total, value)
    for number in range(32):
        d[number] = f32_bits(total)
    return 0


_LEAST = {False: min_f32, True: min_nan_f32}
_GREATEST = {False: max_f32, True: max_nan_f32}


@instruction("activemask.b32 d", body="warp", timing="vote", section="9.7.13.10", sm=30, ptx="6.2")
def activemask(d, mask):
    """The lanes that execute this instruction together."""
    for number in range(32):
        d[number] = mask
    return 0


@instruction(
    "elect.sync d:b32|p, membermask:b32",
    body="warp",
    timing="vote",
    section="9.7.13.12",
    sm=90,
    ptx="8.0",
    collective="membermask",
)
def elect(d, p, mask):
    """Choose one member (the lowest): its number in ``d``, and ``p`` true in that lane only."""
    leader = np.uint32(0)
    while leader < np.uint32(31) and not has(mask, leader):
        leader += _ONE
    for number in range(32):
        d[number] = leader
    p[0] = _ONE << leader
    return 0
