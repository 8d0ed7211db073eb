"""Arithmetic in f16 and bf16 and packed pairs of them (PTX ISA 9.7.4). A pair does each half alone.

Values are their bits. ``.ftz`` exists for f16 only; for products and multiply-adds it is decided while rounding, so it
is part of their arithmetic (:mod:`isa.arith.float16`).
"""

from __future__ import annotations

import itertools

from isa.arith import bfloat16, float16
from isa.instructions.tables import Table, function_of
from isa.spec import flag, instruction, optional

_F16 = ("f16", "f16x2")
_BF16 = ("bf16", "bf16x2")


def _halves(stem, types=_F16 + _BF16) -> Table:
    """``stem_<type>`` for the types of f16 and bf16, which live in two modules."""
    return {t: function_of(float16 if t in _F16 else bfloat16, f"{stem}_{t}") for t in types}


ADD, SUB, MUL, FMA = (_halves(op) for op in ("add", "sub", "mul", "fma"))
MUL_FTZ, FMA_FTZ = (_halves(op, _F16) for op in ("mul_ftz", "fma_ftz"))
FTZ, SAT = (_halves(name, _F16) for name in ("ftz", "sat"))
CANON, RELU, ABS, NEG = (_halves(name) for name in ("canon", "relu", "abs", "neg"))


# ------------------------------------------------------------------------------------------------ sums and products


def _sum(op, section):
    """The form of an operation on f16, with ``.ftz`` and ``.sat``."""
    return instruction(
        f"{op}{{rnd}}{{ftz}}{{sat}}.{{t}} d, a, b",
        timing="half",
        section=section,
        sm=53,
        ptx="4.2",
        rnd=optional("rn"),
        ftz=flag("ftz"),
        sat=flag("sat"),
        t=_F16,
    )


def _bf16_sum(op, section):
    """The form of an operation on bf16."""
    template = f"{op}{{rnd}}.{{t}} d, a, b"
    return instruction(template, timing="half", section=section, sm=90, ptx="7.8", rnd=optional("rn"), t=_BF16)


@_sum("add", "9.7.4.1")
def add_f16(a, b, *, ftz, sat, t):
    """Add, to nearest even. ``.ftz`` takes subnormals as zero, ``.sat`` clamps the result to [0, 1]."""
    r = FTZ[t](ADD[t](FTZ[t](a), FTZ[t](b))) if ftz else ADD[t](a, b)
    return SAT[t](r) if sat else r


@_bf16_sum("add", "9.7.4.1")
def add_bf16(a, b, *, t):
    """Add, to nearest even."""
    return ADD[t](a, b)


@_sum("sub", "9.7.4.2")
def sub_f16(a, b, *, ftz, sat, t):
    """Subtract ``b`` from ``a``, to nearest even. ``.ftz`` takes subnormals as zero, ``.sat`` clamps the result to [0,
    1]."""
    r = FTZ[t](SUB[t](FTZ[t](a), FTZ[t](b))) if ftz else SUB[t](a, b)
    return SAT[t](r) if sat else r


@_bf16_sum("sub", "9.7.4.2")
def sub_bf16(a, b, *, t):
    """Subtract ``b`` from ``a``, to nearest even."""
    return SUB[t](a, b)


@_sum("mul", "9.7.4.3")
def mul_f16(a, b, *, ftz, sat, t):
    """Multiply, to nearest even. ``.ftz`` takes subnormals as zero, ``.sat`` clamps the result to [0, 1]."""
    r = MUL_FTZ[t](a, b) if ftz else MUL[t](a, b)
    return SAT[t](r) if sat else r


@_bf16_sum("mul", "9.7.4.3")
def mul_bf16(a, b, *, t):
    """Multiply, to nearest even."""
    return MUL[t](a, b)


@instruction(
    "fma.rn{ftz}{sat}.{t} d, a, b, c",
    timing="half",
    section="9.7.4.4",
    sm=53,
    ptx="4.2",
    ftz=flag("ftz"),
    sat=flag("sat"),
    t=_F16,
)
def fma_f16(a, b, c, *, ftz, sat, t):
    """``a * b + c`` with one rounding, to nearest even. ``.ftz`` takes subnormals as zero, ``.sat`` clamps the result
    to [0, 1]."""
    r = FMA_FTZ[t](a, b, c) if ftz else FMA[t](a, b, c)
    return SAT[t](r) if sat else r


@instruction("fma.rn{ftz}.relu.{t} d, a, b, c", timing="half", section="9.7.4.4", sm=80, ptx="7.0", ftz=flag("ftz"), t=_F16)
def fma_relu_f16(a, b, c, *, ftz, t):
    """``a * b + c`` with one rounding, negative results becoming 0. ``.ftz`` takes subnormals as zero."""
    return RELU[t](FMA_FTZ[t](a, b, c) if ftz else FMA[t](a, b, c))


@instruction("fma.rn{relu}.{t} d, a, b, c", timing="half", section="9.7.4.4", sm=80, ptx="7.0", relu=flag("relu"), t=_BF16)
def fma_bf16(a, b, c, *, relu, t):
    """``a * b + c`` with one rounding, to nearest even. ``.relu`` turns negative results into 0."""
    r = FMA[t](a, b, c)
    return RELU[t](r) if relu else r


# ------------------------------------------------------------------------------------------------- signs and extremes


@instruction("neg{ftz}.{t} d, a", timing="half", section="9.7.4.5", sm=53, ptx="6.0", ftz=flag("ftz"), t=_F16)
def neg_f16(a, *, ftz, t):
    """Negate; NaN becomes 0x7fff. ``.ftz`` flushes subnormals to zero."""
    return CANON[t](NEG[t](FTZ[t](a) if ftz else a))


@instruction("neg.{t} d, a", timing="half", section="9.7.4.5", sm=80, ptx="7.0", t=_BF16)
def neg_bf16(a, *, t):
    """Negate; NaN becomes 0x7fff."""
    return CANON[t](NEG[t](a))


@instruction("abs{ftz}.{t} d, a", timing="half", section="9.7.4.6", sm=53, ptx="6.5", ftz=flag("ftz"), t=_F16)
def abs_f16(a, *, ftz, t):
    """Absolute value; NaN becomes 0x7fff. ``.ftz`` flushes subnormals to zero."""
    return CANON[t](ABS[t](FTZ[t](a) if ftz else a))


@instruction("abs.{t} d, a", timing="half", section="9.7.4.6", sm=80, ptx="7.0", t=_BF16)
def abs_bf16(a, *, t):
    """Absolute value; NaN becomes 0x7fff."""
    return CANON[t](ABS[t](a))


def _extremes(op) -> Table:
    return {
        (nan, xorsign, t): function
        for nan, xorsign in itertools.product((False, True), repeat=2)
        for t, function in _halves(f"{op}{'_nan' if nan else ''}{'_xorsign' if xorsign else ''}").items()
    }


MIN, MAX = _extremes("min"), _extremes("max")


def _flushes_f16(params):
    return ".ftz is for .f16 and .f16x2 (PTX ISA 9.7.4)" if params["ftz"] and params["t"] in _BF16 else None


def _extreme(template, section, sm, ptx):
    return instruction(
        template,
        timing="half",
        section=section,
        sm=sm,
        ptx=ptx,
        ftz=flag("ftz"),
        nan=flag("NaN"),
        t=_F16 + _BF16,
        valid=_flushes_f16,
    )


@_extreme("min{ftz}{nan}.{t} d, a, b", "9.7.4.7", 80, "7.0")
def min_half(a, b, *, ftz, nan, t):
    """The lesser, -0 being less than +0. A NaN yields to the other operand, with ``.NaN`` it wins. ``.ftz`` takes
    subnormals as zero."""
    return MIN[nan, False, t](FTZ[t](a), FTZ[t](b)) if ftz else MIN[nan, False, t](a, b)


@_extreme("min{ftz}{nan}.xorsign.abs.{t} d, a, b", "9.7.4.7", 86, "7.2")
def min_xorsign_half(a, b, *, ftz, nan, t):
    """The lesser magnitude, negative if exactly one operand is. ``.ftz`` takes subnormals as zero."""
    return MIN[nan, True, t](FTZ[t](a), FTZ[t](b)) if ftz else MIN[nan, True, t](a, b)


@_extreme("max{ftz}{nan}.{t} d, a, b", "9.7.4.8", 80, "7.0")
def max_half(a, b, *, ftz, nan, t):
    """The greater, +0 being greater than -0. A NaN yields to the other operand, with ``.NaN`` it wins. ``.ftz`` takes
    subnormals as zero."""
    return MAX[nan, False, t](FTZ[t](a), FTZ[t](b)) if ftz else MAX[nan, False, t](a, b)


@_extreme("max{ftz}{nan}.xorsign.abs.{t} d, a, b", "9.7.4.8", 86, "7.2")
def max_xorsign_half(a, b, *, ftz, nan, t):
    """The greater magnitude, negative if exactly one operand is. ``.ftz`` takes subnormals as zero."""
    return MAX[nan, True, t](FTZ[t](a), FTZ[t](b)) if ftz else MAX[nan, True, t](a, b)
