"""Floating-point instructions that sm_100 was the first to have: operands of two widths (PTX ISA 9.7.5), pairs of f32 and
minima of three (9.7.3).

A half widens exactly, so each is one f32 operation with one rounding. No hardware that has them was recorded; that NaN results
are 0x7fffffff and that ``.ftz`` is decided as on sm_90 is an analogy. ptxas 13.0 makes one multiply-add of a product and a
sum of pairs that round alike, whether the rounding is written or not and whatever ``--fmad`` says; so does contraction here,
but for ``fmad=False``.
"""

from __future__ import annotations

from isa.arith.bfloat16 import bf16_to_f32
from isa.arith.float32 import abs_f32, ftz_f32, neg_f32, sat_f32
from isa.arith.pair_f32 import high_f32, low_f32, pack_f32
from isa.arith.primitives import f16_bits_to_f32
from isa.instructions.floating import ADD_F32, FMA_F32, FMA_FTZ, MAX_F32, MIN_F32, MUL_F32, MUL_FTZ
from isa.instructions.tables import ROUNDINGS
from isa.spec import flag, instruction, optional

_OPTIONAL = optional(*ROUNDINGS)
WIDE = {"f16": f16_bits_to_f32, "bf16": bf16_to_f32}

# ------------------------------------------------------------------------------------------------------- mixed precision


def _mixed(template, section, rnd):
    """A form with one or two operands in a half format, the others in f32."""
    return instruction(template, timing="fma", section=section, sm=100, ptx="8.6", rnd=rnd, sat=flag("sat"), t=tuple(WIDE))


@_mixed("add{rnd}{sat}.f32.{t} d:f32, a:t, b:f32", "9.7.5.1", _OPTIONAL)
def add_mixed(a, b, *, rnd, sat, t):
    """Widen ``a`` and add ``b`` with one rounding, to nearest even unless written otherwise. ``.sat`` clamps the result to [0,
    1]."""
    r = ADD_F32[rnd](WIDE[t](a), b)
    return sat_f32(r) if sat else r


@_mixed("sub{rnd}{sat}.f32.{t} d:f32, a:t, b:f32", "9.7.5.2", _OPTIONAL)
def sub_mixed(a, b, *, rnd, sat, t):
    """Widen ``a`` and subtract ``b`` with one rounding, to nearest even unless written otherwise. ``.sat`` clamps the result to
    [0, 1]."""
    r = ADD_F32[rnd](WIDE[t](a), neg_f32(b))
    return sat_f32(r) if sat else r


@_mixed("fma.{rnd}{sat}.f32.{t} d:f32, a:t, b:t, c:f32", "9.7.5.3", ROUNDINGS)
def fma_mixed(a, b, c, *, rnd, sat, t):
    """``a * b + c`` with one rounding, ``a`` and ``b`` being halves. ``.sat`` clamps the result to [0, 1]."""
    r = FMA_F32[rnd](WIDE[t](a), WIDE[t](b), c)
    return sat_f32(r) if sat else r


# -------------------------------------------------------------------------------------------------------- pairs of f32


def _pair(template, section, rnd):
    return instruction(template, timing="fma", section=section, sm=100, ptx="8.6", rnd=rnd, ftz=flag("ftz"))


@_pair("add{rnd}{ftz}.f32x2 d, a, b", "9.7.3.3", _OPTIONAL)
def add_pair(a, b, *, rnd, ftz):
    """Add both elements, each with one rounding, to nearest even unless written otherwise. ``.ftz`` takes subnormal operands
    and results as zero."""
    a0, a1, b0, b1 = low_f32(a), high_f32(a), low_f32(b), high_f32(b)
    if ftz:
        return pack_f32(ftz_f32(ADD_F32[rnd](ftz_f32(a0), ftz_f32(b0))), ftz_f32(ADD_F32[rnd](ftz_f32(a1), ftz_f32(b1))))
    return pack_f32(ADD_F32[rnd](a0, b0), ADD_F32[rnd](a1, b1))


@_pair("sub{rnd}{ftz}.f32x2 d, a, b", "9.7.3.4", _OPTIONAL)
def sub_pair(a, b, *, rnd, ftz):
    """Subtract both elements of ``b``, each with one rounding, to nearest even unless written otherwise. ``.ftz`` takes
    subnormal operands and results as zero."""
    a0, a1, b0, b1 = low_f32(a), high_f32(a), neg_f32(low_f32(b)), neg_f32(high_f32(b))
    if ftz:
        return pack_f32(ftz_f32(ADD_F32[rnd](ftz_f32(a0), ftz_f32(b0))), ftz_f32(ADD_F32[rnd](ftz_f32(a1), ftz_f32(b1))))
    return pack_f32(ADD_F32[rnd](a0, b0), ADD_F32[rnd](a1, b1))


@_pair("mul{rnd}{ftz}.f32x2 d, a, b", "9.7.3.5", _OPTIONAL)
def mul_pair(a, b, *, rnd, ftz):
    """Multiply both elements, each with one rounding, to nearest even unless written otherwise. ``.ftz`` takes subnormal
    operands and results as zero."""
    a0, a1, b0, b1 = low_f32(a), high_f32(a), low_f32(b), high_f32(b)
    if ftz:
        return pack_f32(MUL_FTZ[rnd](a0, b0), MUL_FTZ[rnd](a1, b1))
    return pack_f32(MUL_F32[rnd](a0, b0), MUL_F32[rnd](a1, b1))


@_pair("fma.{rnd}{ftz}.f32x2 d, a, b, c", "9.7.3.6", ROUNDINGS)
def fma_pair(a, b, c, *, rnd, ftz):
    """``a * b + c`` of both elements, each with one rounding. ``.ftz`` takes subnormal operands and results as zero."""
    a0, a1, b0, b1, c0, c1 = low_f32(a), high_f32(a), low_f32(b), high_f32(b), low_f32(c), high_f32(c)
    if ftz:
        return pack_f32(FMA_FTZ[rnd](a0, b0, c0), FMA_FTZ[rnd](a1, b1, c1))
    return pack_f32(FMA_F32[rnd](a0, b0, c0), FMA_F32[rnd](a1, b1, c1))


# --------------------------------------------------------------------------------------------------- minima of three


def _three(template, section):
    return instruction(template, timing="alu", section=section, sm=100, ptx="8.8", ftz=flag("ftz"), nan=flag("NaN"),
                       sizes=flag("abs"))  # fmt: skip


@_three("min{ftz}{nan}{sizes}.f32 d, a, b, c", "9.7.3.11")
def min_three(a, b, c, *, ftz, nan, sizes):
    """The least of three, -0 being less than +0; a NaN yields to the others, with ``.NaN`` it wins. ``.abs`` takes magnitudes,
    ``.ftz`` subnormals as zero."""
    if ftz:
        a, b, c = ftz_f32(a), ftz_f32(b), ftz_f32(c)
    if sizes:
        a, b, c = abs_f32(a), abs_f32(b), abs_f32(c)
    return MIN_F32[nan](MIN_F32[nan](a, b), c)


@_three("max{ftz}{nan}{sizes}.f32 d, a, b, c", "9.7.3.12")
def max_three(a, b, c, *, ftz, nan, sizes):
    """The greatest of three, +0 being greater than -0; a NaN yields to the others, with ``.NaN`` it wins. ``.abs`` takes
    magnitudes, ``.ftz`` subnormals as zero."""
    if ftz:
        a, b, c = ftz_f32(a), ftz_f32(b), ftz_f32(c)
    if sizes:
        a, b, c = abs_f32(a), abs_f32(b), abs_f32(c)
    return MAX_F32[nan](MAX_F32[nan](a, b), c)
