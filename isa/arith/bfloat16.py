"""bf16 arithmetic (PTX ISA 9.7.4) on 16-bit patterns, bit for bit as an H200 does it: one rounding, any NaN is 0x7FFF.

bf16 has the exponents of float32, so a product can be rounded twice if it is subnormal there. Products and
multiply-adds are therefore formed in float64 and brought down by rounding to odd (:mod:`isa.arith.rounding`).
"""

from __future__ import annotations

import numpy as np

from isa.arith.compare import max_f32, max_nan_f32, min_f32, min_nan_f32, xorsign_f32
from isa.arith.float32 import abs_f32
from isa.arith.lane import lane
from isa.arith.packed import pairwise
from isa.arith.primitives import bits_f32, f32_bits
from isa.arith.rounding import add_odd_f64, f64_to_f32_odd

__all__ = [
    "abs_bf16",
    "abs_bf16x2",
    "add_bf16",
    "add_bf16x2",
    "bf16_to_f32",
    "canon_bf16",
    "canon_bf16x2",
    "f32_to_bf16_rn",
    "fma_bf16",
    "fma_bf16x2",
    "max_bf16",
    "max_bf16x2",
    "max_nan_bf16",
    "max_nan_bf16x2",
    "max_nan_xorsign_bf16",
    "max_nan_xorsign_bf16x2",
    "max_xorsign_bf16",
    "max_xorsign_bf16x2",
    "min_bf16",
    "min_bf16x2",
    "min_nan_bf16",
    "min_nan_bf16x2",
    "min_nan_xorsign_bf16",
    "min_nan_xorsign_bf16x2",
    "min_xorsign_bf16",
    "min_xorsign_bf16x2",
    "mul_bf16",
    "mul_bf16x2",
    "neg_bf16",
    "neg_bf16x2",
    "relu_bf16",
    "relu_bf16x2",
    "sub_bf16",
    "sub_bf16x2",
]

_SIGN = np.uint16(0x8000)
_MAGNITUDE = np.uint16(0x7FFF)
_INFINITY = np.uint16(0x7F80)
_NAN = np.uint16(0x7FFF)
_ZERO = np.uint16(0)


@lane
def bf16_to_f32(u):
    """The value as float32: a shift, so NaN keeps its payload."""
    return bits_f32(np.uint32(u) << np.uint32(16))


@lane
def f32_to_bf16_rn(x):
    """float32 rounded to nearest even; overflow to infinity, NaN 0x7FFF."""
    u = f32_bits(x)
    rounded = np.uint16((u + np.uint32(0x7FFF) + ((u >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16))
    return rounded if x == x else _NAN


# --------------------------------------------------------------------------------------- operand and result modifiers


@lane
def canon_bf16(u):
    """``u``, or 0x7FFF for any NaN."""
    return _NAN if np.uint16(u & _MAGNITUDE) > _INFINITY else u


@lane
def relu_bf16(u):
    """``.relu``: negatives and -0 give +0, NaN 0x7FFF."""
    return _NAN if np.uint16(u & _MAGNITUDE) > _INFINITY else (u if u < _SIGN else _ZERO)


@lane
def abs_bf16(u):
    """Absolute value; NaN becomes 0x7FFF."""
    magnitude = np.uint16(u & _MAGNITUDE)
    return _NAN if magnitude > _INFINITY else magnitude


@lane
def neg_bf16(u):
    """Negation; NaN becomes 0x7FFF."""
    return _NAN if np.uint16(u & _MAGNITUDE) > _INFINITY else np.uint16(u ^ _SIGN)


# --------------------------------------------------------------------------------------------------------- arithmetic


@lane
def add_bf16(a, b):
    """``a + b`` to nearest even."""
    return f32_to_bf16_rn(bf16_to_f32(a) + bf16_to_f32(b))


@lane
def sub_bf16(a, b):
    """``a - b`` to nearest even."""
    return f32_to_bf16_rn(bf16_to_f32(a) - bf16_to_f32(b))


@lane
def mul_bf16(a, b):
    """``a * b`` to nearest even."""
    return f32_to_bf16_rn(f64_to_f32_odd(np.float64(bf16_to_f32(a)) * np.float64(bf16_to_f32(b))))


@lane
def fma_bf16(a, b, c):
    """``a * b + c`` with one rounding, to nearest even."""
    product = np.float64(bf16_to_f32(a)) * np.float64(bf16_to_f32(b))
    return f32_to_bf16_rn(f64_to_f32_odd(add_odd_f64(product, np.float64(bf16_to_f32(c)))))


# -------------------------------------------------------------------------------------------------------- min and max


@lane
def min_bf16(a, b):
    """The lesser, -0 below +0; a NaN yields to the other operand, two give 0x7FFF."""
    return f32_to_bf16_rn(min_f32(bf16_to_f32(a), bf16_to_f32(b)))


@lane
def max_bf16(a, b):
    """The greater, +0 above -0; a NaN yields to the other operand, two give 0x7FFF."""
    return f32_to_bf16_rn(max_f32(bf16_to_f32(a), bf16_to_f32(b)))


@lane
def min_nan_bf16(a, b):
    """``min.NaN``: any NaN gives 0x7FFF."""
    return f32_to_bf16_rn(min_nan_f32(bf16_to_f32(a), bf16_to_f32(b)))


@lane
def max_nan_bf16(a, b):
    """``max.NaN``: any NaN gives 0x7FFF."""
    return f32_to_bf16_rn(max_nan_f32(bf16_to_f32(a), bf16_to_f32(b)))


@lane
def min_xorsign_bf16(a, b):
    """``min.xorsign.abs``: the lesser magnitude, with the exclusive-or of the signs."""
    x, y = bf16_to_f32(a), bf16_to_f32(b)
    return f32_to_bf16_rn(xorsign_f32(x, y, min_f32(abs_f32(x), abs_f32(y))))


@lane
def max_xorsign_bf16(a, b):
    """``max.xorsign.abs``: the greater magnitude, with the exclusive-or of the signs."""
    x, y = bf16_to_f32(a), bf16_to_f32(b)
    return f32_to_bf16_rn(xorsign_f32(x, y, max_f32(abs_f32(x), abs_f32(y))))


@lane
def min_nan_xorsign_bf16(a, b):
    """``min.NaN.xorsign.abs``: as ``min.xorsign.abs``, but any NaN gives 0x7FFF."""
    x, y = bf16_to_f32(a), bf16_to_f32(b)
    return f32_to_bf16_rn(xorsign_f32(x, y, min_nan_f32(abs_f32(x), abs_f32(y))))


@lane
def max_nan_xorsign_bf16(a, b):
    """``max.NaN.xorsign.abs``: as ``max.xorsign.abs``, but any NaN gives 0x7FFF."""
    x, y = bf16_to_f32(a), bf16_to_f32(b)
    return f32_to_bf16_rn(xorsign_f32(x, y, max_nan_f32(abs_f32(x), abs_f32(y))))


# -------------------------------------------------------------------------------------------------------------- pairs

canon_bf16x2 = pairwise(canon_bf16, 1)
relu_bf16x2 = pairwise(relu_bf16, 1)
abs_bf16x2 = pairwise(abs_bf16, 1)
neg_bf16x2 = pairwise(neg_bf16, 1)
add_bf16x2 = pairwise(add_bf16, 2)
sub_bf16x2 = pairwise(sub_bf16, 2)
mul_bf16x2 = pairwise(mul_bf16, 2)
fma_bf16x2 = pairwise(fma_bf16, 3)
min_bf16x2 = pairwise(min_bf16, 2)
max_bf16x2 = pairwise(max_bf16, 2)
min_nan_bf16x2 = pairwise(min_nan_bf16, 2)
max_nan_bf16x2 = pairwise(max_nan_bf16, 2)
min_xorsign_bf16x2 = pairwise(min_xorsign_bf16, 2)
max_xorsign_bf16x2 = pairwise(max_xorsign_bf16, 2)
min_nan_xorsign_bf16x2 = pairwise(min_nan_xorsign_bf16, 2)
max_nan_xorsign_bf16x2 = pairwise(max_nan_xorsign_bf16, 2)
