"""Single precision: sums, products, comparisons, the special-function unit."""

from __future__ import annotations

from typing import Any

import numpy as np

from isa.arith import compare, float32
from isa.arith.approx import ex2_approx_f16, ex2_approx_ftz_bf16, tanh_approx_bf16, tanh_approx_f16
from isa.arith.compare import xorsign_f32
from isa.arith.float32 import abs_f32, canon_f32, copysign_f32, ftz_f32, sat_f32
from isa.arith.lane import lane
from isa.arith.mufu import (
    mufu_cos,
    mufu_ex2,
    mufu_lg2,
    mufu_rcp,
    mufu_rcp64h,
    mufu_rsq,
    mufu_rsq64h,
    mufu_sin,
    mufu_sqrt,
    mufu_tanh,
)
from isa.arith.primitives import f32_bits
from isa.arith.rounding import f64_to_f32_rn
from isa.sass.instructions.integer import COMBINE
from isa.sass.registry import machine
from isa.spec import Slot, flag, optional

RND = optional("RM", "RP", "RZ")
_MODES: dict[str, Any] = {"": "rn", "RM": "rm", "RP": "rp", "RZ": "rz"}


def by_machine_rounding(module, stem):
    """``stem_<mode>`` of a module by the rounding as listings spell it; to nearest without one."""
    return {mode: getattr(module, f"{stem}_{name}") for mode, name in _MODES.items()}


ADD, MUL, FMA = (by_machine_rounding(float32, f"{op}_f32") for op in ("add", "mul", "fma"))
MUL_FTZ, FMA_FTZ = (by_machine_rounding(float32, f"{op}_ftz_f32") for op in ("mul", "fma"))
_FLAGS: dict[str, Any] = {"ftz": flag("FTZ"), "sat": flag("SAT"), "rnd": RND}


@machine("FADD{ftz}{rnd}{sat} d:f32, a:f32, b:f32", pipe="fma", **_FLAGS)
def fadd(a, b, *, ftz, sat, rnd):
    """Add with one rounding."""
    if ftz:
        a, b = ftz_f32(a), ftz_f32(b)
    r = ADD[rnd](a, b)
    if ftz:
        r = ftz_f32(r)
    return sat_f32(r) if sat else r


@machine("FMUL{ftz}{rnd}{sat} d:f32, a:f32, b:f32", pipe="fma", **_FLAGS)
def fmul(a, b, *, ftz, sat, rnd):
    """Multiply with one rounding."""
    r = MUL_FTZ[rnd](a, b) if ftz else MUL[rnd](a, b)
    return sat_f32(r) if sat else r


LEAST_NORMAL = 2.0**-126
SCALE = {"M2": 2.0, "M4": 4.0, "M8": 8.0, "D2": 0.5, "D4": 0.25, "D8": 0.125}


@machine("FMUL{ftz}.{scale}{sat} d:f32, a:f32, b:f32", pipe="fma", scale=tuple(SCALE), ftz=flag("FTZ"), sat=flag("SAT"))
def fmul_scaled(a, b, *, scale, ftz, sat):
    """``a * b`` times (``M``) or over (``D``) 2, 4 or 8, rounded once. What is flushed is decided before rounding."""
    if ftz:
        a, b = ftz_f32(a), ftz_f32(b)
    exact = np.float64(a) * np.float64(b) * SCALE[scale]
    r = canon_f32(f64_to_f32_rn(exact))
    if ftz and abs(exact) < LEAST_NORMAL:
        r = copysign_f32(r, np.float32(0.0))
    return sat_f32(r) if sat else r


@machine("FFMA{ftz}{rnd}{sat} d:f32, a:f32, b:f32, c:f32", pipe="fma", **_FLAGS)
def ffma(a, b, c, *, ftz, sat, rnd):
    """``a * b + c`` with one rounding."""
    r = FMA_FTZ[rnd](a, b, c) if ftz else FMA[rnd](a, b, c)
    return sat_f32(r) if sat else r


# ------------------------------------------------------------------------------------------ comparisons, selection

_NAMES = ("LT", "EQ", "LE", "GT", "NE", "GE", "NUM", "NAN", "LTU", "EQU", "LEU", "GTU", "NEU", "GEU")
CMP = Slot(_NAMES)
COMPARE = {name: getattr(compare, name.lower()) for name in _NAMES}
BOOLEAN = Slot(("AND", "OR", "XOR"))


@machine("FSETP.{cmp}{ftz}.{op} p, q, a:f32, b:f32, e:pred", pipe="alu", cmp=CMP, op=BOOLEAN, ftz=flag("FTZ"))
def fsetp(a, b, e, *, cmp, op, ftz):
    """Compare and combine the outcome with ``e``; ``q`` gets its opposite combined with ``e``."""
    if ftz:
        a, b = ftz_f32(a), ftz_f32(b)
    outcome = COMPARE[cmp](a, b)
    return COMBINE[op](outcome, e), COMBINE[op](not outcome, e)


@machine(
    "FSET{bf}.{cmp}{ftz}.{op} d:u32, a:f32, b:f32, e:pred", pipe="alu", cmp=CMP, op=BOOLEAN, ftz=flag("FTZ"), bf=flag("BF")
)
def fset(a, b, e, *, cmp, op, ftz, bf):
    """Compare, combine, and write all ones, or with ``.BF`` 1.0, where it holds."""
    if ftz:
        a, b = ftz_f32(a), ftz_f32(b)
    outcome = COMBINE[op](COMPARE[cmp](a, b), e)
    return np.uint32(0x3F800000 if bf else 0xFFFFFFFF) if outcome else np.uint32(0)


@machine("FSEL{ftz} d:f32, a:f32, b:f32, e:pred", pipe="alu", ftz=flag("FTZ"))
def fsel(a, b, e, *, ftz):
    """``a`` where ``e`` holds, else ``b``."""
    r = a if e else b
    return ftz_f32(r) if ftz else r


MIN = {False: compare.min_f32, True: compare.min_nan_f32}
MAX = {False: compare.max_f32, True: compare.max_nan_f32}


@machine(
    "FMNMX{ftz}{nan}{xorsign} d:f32, a:f32, b:f32, e:pred",
    pipe="alu",
    ftz=flag("FTZ"),
    nan=flag("NAN"),
    xorsign=flag("XORSIGN"),
)
def fmnmx(a, b, e, *, ftz, nan, xorsign):
    """The lesser where ``e`` holds, else the greater; a NaN yields to the other operand, with ``.NAN`` it wins."""
    if ftz:
        a, b = ftz_f32(a), ftz_f32(b)
    if xorsign:
        x, y = abs_f32(a), abs_f32(b)
        return xorsign_f32(a, b, MIN[nan](x, y) if e else MAX[nan](x, y))
    return MIN[nan](a, b) if e else MAX[nan](a, b)


# ---------------------------------------------------------------------------------------------------- special functions

UNIT = {
    "RCP": mufu_rcp,
    "RSQ": mufu_rsq,
    "SQRT": mufu_sqrt,
    "EX2": mufu_ex2,
    "LG2": mufu_lg2,
    "SIN": mufu_sin,
    "COS": mufu_cos,
    "TANH": mufu_tanh,
}


@machine("MUFU.{fn} d:f32, a:f32", pipe="xu", fn=tuple(UNIT))
def mufu(a, *, fn):
    """The special-function unit."""
    return UNIT[fn](a)


@machine("MUFU.{fn}.F16 d:f16, a:f16", pipe="xu", fn=("EX2", "TANH"))
def mufu_half(a, *, fn):
    """The special-function unit, on a half."""
    return ex2_approx_f16(a) if fn == "EX2" else tanh_approx_f16(a)


@machine("MUFU.{fn}.BF16 d:bf16, a:bf16", pipe="xu", fn=("EX2", "TANH"))
def mufu_bfloat(a, *, fn):
    """The special-function unit, on a bfloat16."""
    return ex2_approx_ftz_bf16(a) if fn == "EX2" else tanh_approx_bf16(a)


UPPER = {"RCP64H": mufu_rcp64h, "RSQ64H": mufu_rsq64h}


@machine("MUFU.{fn} d:u32, a:f32", pipe="xu", fn=tuple(UPPER))
def mufu_upper(a, *, fn):
    """A coarse reciprocal or inverse root of a float64, from its upper word to its upper word."""
    return UPPER[fn](f32_bits(a))


@lane
def exponent_of(x):
    """The biased exponent."""
    return np.int64((f32_bits(x) >> np.uint32(23)) & np.uint32(0xFF))


@machine("FCHK p, a:f32, b:f32", pipe="xu")
def fchk(a, b):
    """Whether ``a / b`` needs more than a Newton step on the approximate reciprocal: an operand is zero, subnormal, infinite or
    NaN, or the quotient or a residual may leave the normal range."""
    ea, eb = exponent_of(a), exponent_of(b)
    difference = ea - eb
    return (eb < 2) | (eb > 252) | (ea == 255) | (difference > 125) | (difference < -124) | (ea < 25)
