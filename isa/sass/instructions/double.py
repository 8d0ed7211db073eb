"""Double precision."""

from __future__ import annotations

import numpy as np

from isa.arith import float64
from isa.arith.primitives import f64_bits
from isa.sass.instructions.floating import BOOLEAN, CMP, COMPARE, RND, by_machine_rounding
from isa.sass.instructions.integer import COMBINE
from isa.sass.registry import machine

ADD, MUL, FMA = (by_machine_rounding(float64, f"{op}_f64") for op in ("add", "mul", "fma"))


@machine("DADD{rnd} d:f64, a:f64, b:f64", pipe="fp64", rnd=RND)
def dadd(a, b, *, rnd):
    """Add with one rounding."""
    return ADD[rnd](a, b)


@machine("DMUL{rnd} d:f64, a:f64, b:f64", pipe="fp64", rnd=RND)
def dmul(a, b, *, rnd):
    """Multiply with one rounding."""
    return MUL[rnd](a, b)


@machine("DFMA{rnd} d:f64, a:f64, b:f64, c:f64", pipe="fp64", rnd=RND)
def dfma(a, b, c, *, rnd):
    """``a * b + c`` with one rounding."""
    return FMA[rnd](a, b, c)


@machine("DSETP.{cmp}.{op} p, q, a:f64, b:f64, e:pred", pipe="fp64", cmp=CMP, op=BOOLEAN)
def dsetp(a, b, e, *, cmp, op):
    """Compare and combine the outcome with ``e``; ``q`` gets its opposite combined with ``e``."""
    outcome = COMPARE[cmp](a, b)
    return COMBINE[op](outcome, e), COMBINE[op](not outcome, e)


@machine("DSETP.{op}.AND p, q, a:f64, b:f64, e:pred", pipe="fp64", op=("MIN", "MAX"))
def dsetp_extreme(a, b, *, op):
    """Whether the minimum (maximum) is ``a``; and in ``q``, whether it is a NaN, both operands being so."""
    neither = (a == a) & (b == b)
    negative = (f64_bits(a) >> np.uint64(63)) != np.uint64(0)
    if op == "MIN":
        first = (a < b) | ((a == b) & negative)
    else:
        first = (a > b) | ((a == b) & (not negative))
    return first if neither else b != b and a == a, (a != a) & (b != b)
