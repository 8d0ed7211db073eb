"""Floating-point arithmetic in f32 and f64 (PTX ISA 9.7.3); the approximate instructions are in
:mod:`isa.instructions.mufu`.

Without a rounding modifier ``add``, ``sub`` and ``mul`` round to nearest even like ``.rn``; the modifier stays visible
as ``rnd == ""`` because only then may a multiplication and an addition be contracted.
"""

from __future__ import annotations

import numpy as np

from isa.arith import compare, float32, float64
from isa.arith.compare import is_finite, is_infinite, max_f64, min_f64, xorsign_f32
from isa.arith.float32 import abs_f32, canon_f32, copysign_f32, ftz_f32, neg_f32, sat_f32
from isa.arith.float64 import abs_f64, copysign_f64, neg_f64
from isa.instructions.tables import ROUNDINGS, by_rounding
from isa.spec import flag, instruction, optional

_OPTIONAL = optional(*ROUNDINGS)

ADD_F32, MUL_F32, FMA_F32 = (by_rounding(float32, f"{op}_f32") for op in ("add", "mul", "fma"))
MUL_FTZ, FMA_FTZ, DIV_FTZ = (by_rounding(float32, f"{op}_ftz_f32") for op in ("mul", "fma", "div"))
DIV_F32, SQRT_F32 = (by_rounding(float32, f"{op}_f32") for op in ("div", "sqrt"))
ADD_F64, MUL_F64, FMA_F64 = (by_rounding(float64, f"{op}_f64") for op in ("add", "mul", "fma"))
DIV_F64, SQRT_F64 = (by_rounding(float64, f"{op}_f64") for op in ("div", "sqrt"))


# --------------------------------------------------------------------------------------------- classes and signs

TESTS = {
    ("finite", "f32"): is_finite,
    ("finite", "f64"): is_finite,
    ("infinite", "f32"): is_infinite,
    ("infinite", "f64"): is_infinite,
    ("normal", "f32"): compare.is_normal_f32,
    ("normal", "f64"): compare.is_normal_f64,
    ("subnormal", "f32"): compare.is_subnormal_f32,
    ("subnormal", "f64"): compare.is_subnormal_f64,
}


@instruction(
    "testp.{kind}.{t} p, a",
    timing=lambda p: f"testp.{p['t']}",
    section="9.7.3.1",
    ptx="2.0",
    kind=("finite", "infinite", "number", "notanumber", "normal", "subnormal"),
    t=("f32", "f64"),
)
def testp(a, *, kind, t):
    """Whether a value is of a class: finite, infinite, a number, NaN, normal (zero counts as normal) or subnormal."""
    if kind == "number":
        return a == a
    if kind == "notanumber":
        return a != a
    return TESTS[kind, t](a)


@instruction("copysign.f32 d, a, b", timing="alu", section="9.7.3.2", ptx="2.0")
def copysign_single(a, b):
    """The magnitude of ``b`` with the sign of ``a``, bit for bit."""
    return copysign_f32(a, b)


@instruction("copysign.f64 d, a, b", timing="alu", section="9.7.3.2", ptx="2.0")
def copysign_double(a, b):
    """The magnitude of ``b`` with the sign of ``a``, bit for bit."""
    return copysign_f64(a, b)


@instruction("abs{ftz}.f32 d, a", timing="fma", section="9.7.3.9", ftz=flag("ftz"))
def abs_single(a, *, ftz):
    """Absolute value; NaN becomes 0x7fffffff. ``.ftz`` flushes subnormals to zero."""
    return canon_f32(ftz_f32(abs_f32(a)) if ftz else abs_f32(a))


@instruction("abs.f64 d, a", timing="fp64", section="9.7.3.9")
def abs_double(a):
    """Absolute value; a NaN becomes quiet and keeps its sign."""
    return abs_f64(a)


@instruction("neg{ftz}.f32 d, a", timing="fma", section="9.7.3.10", ftz=flag("ftz"))
def neg_single(a, *, ftz):
    """Negate; NaN becomes 0x7fffffff. ``.ftz`` flushes subnormals to zero."""
    return canon_f32(ftz_f32(neg_f32(a)) if ftz else neg_f32(a))


@instruction("neg.f64 d, a", timing="fp64", section="9.7.3.10")
def neg_double(a):
    """Negate; a NaN becomes quiet and keeps its sign."""
    return neg_f64(a)


# ------------------------------------------------------------------------------------------- sums and products


@instruction(
    "add{rnd}{ftz}{sat}.f32 d, a, b",
    timing="fma",
    section="9.7.3.3",
    rnd=_OPTIONAL,
    ftz=flag("ftz"),
    sat=flag("sat"),
)
def add_single(a, b, *, rnd, ftz, sat):
    """Add with one rounding, to nearest even unless written otherwise. ``.ftz`` takes subnormal operands and results as
    zero, ``.sat`` clamps the result to [0, 1]."""
    if ftz:
        a, b = ftz_f32(a), ftz_f32(b)
    r = ADD_F32[rnd](a, b)
    if ftz:
        r = ftz_f32(r)
    return sat_f32(r) if sat else r


@instruction("add{rnd}.f64 d, a, b", timing="fp64", section="9.7.3.3", rnd=_OPTIONAL)
def add_double(a, b, *, rnd):
    """Add with one rounding, to nearest even unless written otherwise."""
    return ADD_F64[rnd](a, b)


@instruction(
    "sub{rnd}{ftz}{sat}.f32 d, a, b",
    timing="fma",
    section="9.7.3.4",
    rnd=_OPTIONAL,
    ftz=flag("ftz"),
    sat=flag("sat"),
)
def sub_single(a, b, *, rnd, ftz, sat):
    """Subtract ``b`` from ``a`` with one rounding, to nearest even unless written otherwise. ``.ftz`` takes subnormal
    operands and results as zero, ``.sat`` clamps the result to [0, 1]."""
    if ftz:
        a, b = ftz_f32(a), ftz_f32(b)
    r = ADD_F32[rnd](a, neg_f32(b))
    if ftz:
        r = ftz_f32(r)
    return sat_f32(r) if sat else r


@instruction("sub{rnd}.f64 d, a, b", timing="fp64", section="9.7.3.4", rnd=_OPTIONAL)
def sub_double(a, b, *, rnd):
    """Subtract ``b`` from ``a`` with one rounding, to nearest even unless written otherwise."""
    return ADD_F64[rnd](a, neg_f64(b))


@instruction(
    "mul{rnd}{ftz}{sat}.f32 d, a, b",
    timing="fma",
    section="9.7.3.5",
    rnd=_OPTIONAL,
    ftz=flag("ftz"),
    sat=flag("sat"),
)
def mul_single(a, b, *, rnd, ftz, sat):
    """Multiply with one rounding, to nearest even unless written otherwise. ``.ftz`` takes subnormal operands and
    results as zero, ``.sat`` clamps the result to [0, 1]."""
    r = MUL_FTZ[rnd](a, b) if ftz else MUL_F32[rnd](a, b)
    return sat_f32(r) if sat else r


@instruction("mul{rnd}.f64 d, a, b", timing="fp64", section="9.7.3.5", rnd=_OPTIONAL)
def mul_double(a, b, *, rnd):
    """Multiply with one rounding, to nearest even unless written otherwise."""
    return MUL_F64[rnd](a, b)


@instruction(
    "fma.{rnd}{ftz}{sat}.f32 d, a, b, c",
    timing="fma",
    section="9.7.3.6",
    sm=20,
    ptx="2.0",
    rnd=ROUNDINGS,
    ftz=flag("ftz"),
    sat=flag("sat"),
)
@instruction(
    "mad.{rnd}{ftz}{sat}.f32 d, a, b, c",
    timing="fma",
    section="9.7.3.7",
    sm=20,
    rnd=ROUNDINGS,
    ftz=flag("ftz"),
    sat=flag("sat"),
)
def fma_single(a, b, c, *, rnd, ftz, sat):
    """``a * b + c`` with one rounding. ``.ftz`` takes subnormal operands and results as zero, ``.sat`` clamps the
    result to [0, 1]."""
    r = FMA_FTZ[rnd](a, b, c) if ftz else FMA_F32[rnd](a, b, c)
    return sat_f32(r) if sat else r


@instruction("fma.{rnd}.f64 d, a, b, c", timing="fp64", section="9.7.3.6", rnd=ROUNDINGS)
@instruction("mad.{rnd}.f64 d, a, b, c", timing="fp64", section="9.7.3.7", rnd=ROUNDINGS)
def fma_double(a, b, c, *, rnd):
    """``a * b + c`` with one rounding."""
    return FMA_F64[rnd](a, b, c)


# ------------------------------------------------------------------------- quotients, reciprocals and square roots


def _expansion(name, t):
    """Timing class of an instruction that is a routine: its name, ``.rn`` apart from the directed roundings."""
    return lambda p: f"{name}.{'rn' if p['rnd'] == 'rn' else 'rz'}.{t}"


@instruction(
    "div.{rnd}{ftz}.f32 d, a, b",
    timing=_expansion("div", "f32"),
    section="9.7.3.8",
    ptx="2.0",
    rnd=ROUNDINGS,
    ftz=flag("ftz"),
)
def div_single(a, b, *, rnd, ftz):
    """Divide with one correct rounding. ``.ftz`` takes subnormal operands and results as zero."""
    return DIV_FTZ[rnd](a, b) if ftz else DIV_F32[rnd](a, b)


@instruction("div.{rnd}.f64 d, a, b", timing=_expansion("div", "f64"), section="9.7.3.8", rnd=ROUNDINGS)
def div_double(a, b, *, rnd):
    """Divide with one correct rounding."""
    return DIV_F64[rnd](a, b)


@instruction(
    "rcp.{rnd}{ftz}.f32 d, a",
    timing=_expansion("rcp", "f32"),
    section="9.7.3.13",
    ptx="2.0",
    rnd=ROUNDINGS,
    ftz=flag("ftz"),
)
def rcp_single(a, *, rnd, ftz):
    """``1 / a`` with one correct rounding. ``.ftz`` takes subnormal operands and results as zero."""
    return DIV_FTZ[rnd](np.float32(1.0), a) if ftz else DIV_F32[rnd](np.float32(1.0), a)


@instruction("rcp.{rnd}{ftz}.f64 d, a", timing=_expansion("rcp", "f64"), section="9.7.3.13", rnd=ROUNDINGS, ftz=flag("ftz"))
def rcp_double(a, *, rnd):
    """``1 / a`` with one correct rounding. ptxas takes ``.ftz`` here but it changes nothing."""
    return DIV_F64[rnd](1.0, a)


@instruction(
    "sqrt.{rnd}{ftz}.f32 d, a",
    timing=_expansion("sqrt", "f32"),
    section="9.7.3.15",
    ptx="2.0",
    rnd=ROUNDINGS,
    ftz=flag("ftz"),
)
def sqrt_single(a, *, rnd, ftz):
    """Square root with one correct rounding; NaN for negative numbers, but -0 for -0. ``.ftz`` takes subnormals as
    zero."""
    return SQRT_F32[rnd](ftz_f32(a)) if ftz else SQRT_F32[rnd](a)


@instruction("sqrt.{rnd}.f64 d, a", timing=_expansion("sqrt", "f64"), section="9.7.3.15", rnd=ROUNDINGS)
def sqrt_double(a, *, rnd):
    """Square root with one correct rounding; NaN for negative numbers, but -0 for -0."""
    return SQRT_F64[rnd](a)


# --------------------------------------------------------------------------------------------- minima and maxima

MIN_F32 = {False: compare.min_f32, True: compare.min_nan_f32}
MAX_F32 = {False: compare.max_f32, True: compare.max_nan_f32}


@instruction("min{ftz}.f32 d, a, b", timing="alu", section="9.7.3.11", ftz=flag("ftz"))
def min_single(a, b, *, ftz):
    """The lesser, -0 being less than +0; a NaN yields to the other operand. ``.ftz`` takes subnormals as zero."""
    return MIN_F32[False](ftz_f32(a), ftz_f32(b)) if ftz else MIN_F32[False](a, b)


@instruction("min{ftz}.NaN.f32 d, a, b", timing="alu", section="9.7.3.11", sm=80, ptx="7.0", ftz=flag("ftz"))
def min_nan_single(a, b, *, ftz):
    """The lesser; NaN if either operand is. ``.ftz`` takes subnormals as zero."""
    return MIN_F32[True](ftz_f32(a), ftz_f32(b)) if ftz else MIN_F32[True](a, b)


@instruction(
    "min{ftz}{nan}.xorsign.abs.f32 d, a, b",
    timing="alu",
    section="9.7.3.11",
    sm=86,
    ptx="7.2",
    ftz=flag("ftz"),
    nan=flag("NaN"),
)
def min_xorsign_single(a, b, *, ftz, nan):
    """The lesser magnitude, negative if exactly one operand is. ``.ftz`` takes subnormals as zero."""
    if ftz:
        a, b = ftz_f32(a), ftz_f32(b)
    return xorsign_f32(a, b, MIN_F32[nan](abs_f32(a), abs_f32(b)))


@instruction("min.f64 d, a, b", timing="min.f64", section="9.7.3.11")
def min_double(a, b):
    """The lesser, -0 being less than +0; a NaN yields to the other operand."""
    return min_f64(a, b)


@instruction("max{ftz}.f32 d, a, b", timing="alu", section="9.7.3.12", ftz=flag("ftz"))
def max_single(a, b, *, ftz):
    """The greater, +0 being greater than -0; a NaN yields to the other operand. ``.ftz`` takes subnormals as zero."""
    return MAX_F32[False](ftz_f32(a), ftz_f32(b)) if ftz else MAX_F32[False](a, b)


@instruction("max{ftz}.NaN.f32 d, a, b", timing="alu", section="9.7.3.12", sm=80, ptx="7.0", ftz=flag("ftz"))
def max_nan_single(a, b, *, ftz):
    """The greater; NaN if either operand is. ``.ftz`` takes subnormals as zero."""
    return MAX_F32[True](ftz_f32(a), ftz_f32(b)) if ftz else MAX_F32[True](a, b)


@instruction(
    "max{ftz}{nan}.xorsign.abs.f32 d, a, b",
    timing="alu",
    section="9.7.3.12",
    sm=86,
    ptx="7.2",
    ftz=flag("ftz"),
    nan=flag("NaN"),
)
def max_xorsign_single(a, b, *, ftz, nan):
    """The greater magnitude, negative if exactly one operand is. ``.ftz`` takes subnormals as zero."""
    if ftz:
        a, b = ftz_f32(a), ftz_f32(b)
    return xorsign_f32(a, b, MAX_F32[nan](abs_f32(a), abs_f32(b)))


@instruction("max.f64 d, a, b", timing="min.f64", section="9.7.3.12")
def max_double(a, b):
    """The greater, +0 being greater than -0; a NaN yields to the other operand."""
    return max_f64(a, b)
