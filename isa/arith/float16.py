"""f16 arithmetic (PTX ISA 9.7.4) on 16-bit patterns, bit for bit as an H200 does it: one rounding, any NaN is 0x7FFF.

A float32 holds the product of two halves exactly, and their sum well enough that rounding again to f16 cannot err; a
multiply-add is rounded to odd in float32 first (:mod:`isa.arith.rounding`).

``.ftz`` flushes what is still subnormal after rounding to 11 bits with unbounded exponent, so it is part of the
arithmetic: ``mul_ftz_f16`` and ``fma_ftz_f16`` (read from an H200, driver 580.159.04: 0x0A42 * 0x88B2 + 0x0400
flushes although it rounds to the least normal number; 0x0A76 * 0x8401 + 0x0400 does not).
"""

from __future__ import annotations

import numpy as np

from isa.arith.compare import max_f32, max_nan_f32, min_f32, min_nan_f32, xorsign_f32
from isa.arith.float32 import abs_f32
from isa.arith.lane import lane
from isa.arith.packed import pairwise
from isa.arith.primitives import bits_f32, f16_bits_to_f32, f32_bits, f32_to_f16_bits_rn
from isa.arith.rounding import odd_f32, sum_error

__all__ = [
    "abs_f16",
    "abs_f16x2",
    "add_f16",
    "add_f16x2",
    "canon_f16",
    "canon_f16x2",
    "fma_f16",
    "fma_f16x2",
    "fma_ftz_f16",
    "fma_ftz_f16x2",
    "ftz_f16",
    "ftz_f16x2",
    "max_f16",
    "max_f16x2",
    "max_nan_f16",
    "max_nan_f16x2",
    "max_nan_xorsign_f16",
    "max_nan_xorsign_f16x2",
    "max_xorsign_f16",
    "max_xorsign_f16x2",
    "min_f16",
    "min_f16x2",
    "min_nan_f16",
    "min_nan_f16x2",
    "min_nan_xorsign_f16",
    "min_nan_xorsign_f16x2",
    "min_xorsign_f16",
    "min_xorsign_f16x2",
    "mul_f16",
    "mul_f16x2",
    "mul_ftz_f16",
    "mul_ftz_f16x2",
    "neg_f16",
    "neg_f16x2",
    "relu_f16",
    "relu_f16x2",
    "sat_f16",
    "sat_f16x2",
    "sub_f16",
    "sub_f16x2",
]

_SIGN = np.uint16(0x8000)
_MAGNITUDE = np.uint16(0x7FFF)
_INFINITY = np.uint16(0x7C00)
_NAN = np.uint16(0x7FFF)
_ONE = np.uint16(0x3C00)
_ZERO = np.uint16(0)
_UP = np.float32(2.0**-14 * (1 - 2.0**-12))  # from here on 11 bits to nearest even reach the least normal number


# --------------------------------------------------------------------------------------- operand and result modifiers


@lane
def canon_f16(u):
    """``u``, or 0x7FFF for any NaN."""
    return _NAN if np.uint16(u & _MAGNITUDE) > _INFINITY else u


@lane
def ftz_f16(u):
    """``.ftz``: a subnormal becomes zero of the same sign."""
    return np.uint16(u & _SIGN) if (u & _INFINITY) == _ZERO else u


@lane
def sat_f16(u):
    """``.sat``: clamp to [0, 1]; NaN, -0 and everything negative give +0."""
    return _ZERO if u > _INFINITY else (u if u < _ONE else _ONE)


@lane
def relu_f16(u):
    """``.relu``: negatives and -0 give +0, NaN 0x7FFF."""
    return _NAN if np.uint16(u & _MAGNITUDE) > _INFINITY else (u if u < _SIGN else _ZERO)


@lane
def abs_f16(u):
    """Absolute value; NaN becomes 0x7FFF."""
    magnitude = np.uint16(u & _MAGNITUDE)
    return _NAN if magnitude > _INFINITY else magnitude


@lane
def neg_f16(u):
    """Negation; NaN becomes 0x7FFF."""
    return _NAN if np.uint16(u & _MAGNITUDE) > _INFINITY else np.uint16(u ^ _SIGN)


# --------------------------------------------------------------------------------------------------------- arithmetic


@lane
def _rounded(x):
    return canon_f16(f32_to_f16_bits_rn(x))


@lane
def _rounded_ftz(x):
    """Round ``x`` (to odd already, or exact), or flush it."""
    zero = bits_f32(f32_bits(x) & np.uint32(0x80000000))
    return _rounded(zero if abs(x) < _UP else x)


@lane
def _fma_odd(a, b, c):
    product = f16_bits_to_f32(a) * f16_bits_to_f32(b)
    addend = f16_bits_to_f32(c)
    s = product + addend
    return odd_f32(s, sum_error(product, addend, s))


@lane
def add_f16(a, b):
    """``a + b`` to nearest even."""
    return _rounded(f16_bits_to_f32(a) + f16_bits_to_f32(b))


@lane
def sub_f16(a, b):
    """``a - b`` to nearest even."""
    return _rounded(f16_bits_to_f32(a) - f16_bits_to_f32(b))


@lane
def mul_f16(a, b):
    """``a * b`` to nearest even."""
    return _rounded(f16_bits_to_f32(a) * f16_bits_to_f32(b))


@lane
def fma_f16(a, b, c):
    """``a * b + c`` with one rounding, to nearest even."""
    return _rounded(_fma_odd(a, b, c))


@lane
def mul_ftz_f16(a, b):
    """``mul.ftz``: operands and result flushed."""
    return _rounded_ftz(f16_bits_to_f32(ftz_f16(a)) * f16_bits_to_f32(ftz_f16(b)))


@lane
def fma_ftz_f16(a, b, c):
    """``fma.ftz``: operands and result flushed."""
    return _rounded_ftz(_fma_odd(ftz_f16(a), ftz_f16(b), ftz_f16(c)))


# -------------------------------------------------------------------------------------------------------- min and max


@lane
def min_f16(a, b):
    """The lesser, -0 below +0; a NaN yields to the other operand, two give 0x7FFF."""
    return _rounded(min_f32(f16_bits_to_f32(a), f16_bits_to_f32(b)))


@lane
def max_f16(a, b):
    """The greater, +0 above -0; a NaN yields to the other operand, two give 0x7FFF."""
    return _rounded(max_f32(f16_bits_to_f32(a), f16_bits_to_f32(b)))


@lane
def min_nan_f16(a, b):
    """``min.NaN``: any NaN gives 0x7FFF."""
    return _rounded(min_nan_f32(f16_bits_to_f32(a), f16_bits_to_f32(b)))


@lane
def max_nan_f16(a, b):
    """``max.NaN``: any NaN gives 0x7FFF."""
    return _rounded(max_nan_f32(f16_bits_to_f32(a), f16_bits_to_f32(b)))


@lane
def min_xorsign_f16(a, b):
    """``min.xorsign.abs``: the lesser magnitude, with the exclusive-or of the signs."""
    x, y = f16_bits_to_f32(a), f16_bits_to_f32(b)
    return _rounded(xorsign_f32(x, y, min_f32(abs_f32(x), abs_f32(y))))


@lane
def max_xorsign_f16(a, b):
    """``max.xorsign.abs``: the greater magnitude, with the exclusive-or of the signs."""
    x, y = f16_bits_to_f32(a), f16_bits_to_f32(b)
    return _rounded(xorsign_f32(x, y, max_f32(abs_f32(x), abs_f32(y))))


@lane
def min_nan_xorsign_f16(a, b):
    """``min.NaN.xorsign.abs``: as ``min.xorsign.abs``, but any NaN gives 0x7FFF."""
    x, y = f16_bits_to_f32(a), f16_bits_to_f32(b)
    return _rounded(xorsign_f32(x, y, min_nan_f32(abs_f32(x), abs_f32(y))))


@lane
def max_nan_xorsign_f16(a, b):
    """``max.NaN.xorsign.abs``: as ``max.xorsign.abs``, but any NaN gives 0x7FFF."""
    x, y = f16_bits_to_f32(a), f16_bits_to_f32(b)
    return _rounded(xorsign_f32(x, y, max_nan_f32(abs_f32(x), abs_f32(y))))


# -------------------------------------------------------------------------------------------------------------- pairs

canon_f16x2 = pairwise(canon_f16, 1)
ftz_f16x2 = pairwise(ftz_f16, 1)
sat_f16x2 = pairwise(sat_f16, 1)
relu_f16x2 = pairwise(relu_f16, 1)
abs_f16x2 = pairwise(abs_f16, 1)
neg_f16x2 = pairwise(neg_f16, 1)
add_f16x2 = pairwise(add_f16, 2)
sub_f16x2 = pairwise(sub_f16, 2)
mul_f16x2 = pairwise(mul_f16, 2)
mul_ftz_f16x2 = pairwise(mul_ftz_f16, 2)
fma_f16x2 = pairwise(fma_f16, 3)
fma_ftz_f16x2 = pairwise(fma_ftz_f16, 3)
min_f16x2 = pairwise(min_f16, 2)
max_f16x2 = pairwise(max_f16, 2)
min_nan_f16x2 = pairwise(min_nan_f16, 2)
max_nan_f16x2 = pairwise(max_nan_f16, 2)
min_xorsign_f16x2 = pairwise(min_xorsign_f16, 2)
max_xorsign_f16x2 = pairwise(max_xorsign_f16, 2)
min_nan_xorsign_f16x2 = pairwise(min_nan_xorsign_f16, 2)
max_nan_xorsign_f16x2 = pairwise(max_nan_xorsign_f16, 2)
