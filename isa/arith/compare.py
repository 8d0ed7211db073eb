"""Comparisons, classes and minima of floating values (PTX ISA 9.7.3.11, 9.7.3.12, 9.7.6, 9.7.3.4).

The comparisons take two values of one type: float32, float64, or integers of either sign. Halves are compared as
float32 (exact). Ordered ones are false where an operand is NaN, unordered ones (suffix ``u``) true. A minimum of three
is one of two, twice.
"""

from __future__ import annotations

import numpy as np

from isa.arith.lane import lane
from isa.arith.primitives import bits_f32, bits_f64, f32_bits, f64_bits

__all__ = [
    "eq",
    "equ",
    "ge",
    "geu",
    "gt",
    "gtu",
    "is_finite",
    "is_infinite",
    "is_normal_f32",
    "is_normal_f64",
    "is_subnormal_f32",
    "is_subnormal_f64",
    "le",
    "leu",
    "lt",
    "ltu",
    "max_f32",
    "max_f64",
    "max_nan_f32",
    "min_f32",
    "min_f64",
    "min_nan_f32",
    "nan",
    "ne",
    "neu",
    "num",
    "xorsign_f32",
]

_NAN = np.uint32(0x7FFFFFFF)
_SIGN = np.uint32(0x80000000)
_QUIET = np.uint64(1 << 51)


@lane
def eq(a, b):
    """Equal."""
    return a == b


@lane
def ne(a, b):
    """Less or greater (unlike ``!=``, false for NaN)."""
    return (a < b) | (a > b)


@lane
def lt(a, b):
    """Less."""
    return a < b


@lane
def le(a, b):
    """Less or equal."""
    return a <= b


@lane
def gt(a, b):
    """Greater."""
    return a > b


@lane
def ge(a, b):
    """Greater or equal."""
    return a >= b


@lane
def equ(a, b):
    """Equal or unordered."""
    return not ((a < b) | (a > b))


@lane
def neu(a, b):
    """Not equal, or unordered."""
    return a != b


@lane
def ltu(a, b):
    """Less or unordered."""
    return not (a >= b)


@lane
def leu(a, b):
    """Less, equal or unordered."""
    return not (a > b)


@lane
def gtu(a, b):
    """Greater or unordered."""
    return not (a <= b)


@lane
def geu(a, b):
    """Greater, equal or unordered."""
    return not (a < b)


@lane
def num(a, b):
    """Neither is NaN."""
    return (a == a) & (b == b)


@lane
def nan(a, b):
    """At least one is NaN."""
    return (a != a) | (b != b)


# -------------------------------------------------------------------------------------------------------------- testp


@lane
def is_finite(x):
    """``testp.finite``."""
    return abs(x) < np.inf


@lane
def is_infinite(x):
    """``testp.infinite``."""
    return abs(x) == np.inf


@lane
def is_subnormal_f32(x):
    """``testp.subnormal.f32``: zero is not subnormal."""
    return ((f32_bits(x) & np.uint32(0x7F800000)) == np.uint32(0)) & (x != np.float32(0.0))


@lane
def is_normal_f32(x):
    """``testp.normal.f32``: finite and not subnormal; zero counts as normal."""
    return is_finite(x) & (not is_subnormal_f32(x))


@lane
def is_subnormal_f64(x):
    """``testp.subnormal.f64``."""
    return ((f64_bits(x) & np.uint64(0x7FF0000000000000)) == np.uint64(0)) & (x != 0.0)


@lane
def is_normal_f64(x):
    """``testp.normal.f64``."""
    return is_finite(x) & (not is_subnormal_f64(x))


# -------------------------------------------------------------------------------------------------------- min and max


@lane
def min_f32(a, b):
    """The lesser, -0 below +0; a NaN yields to the other operand, two give 0x7FFFFFFF."""
    equal = bits_f32(f32_bits(a) | f32_bits(b))
    least = equal if a == b else (a if a < b else b)
    other = b if a != a else a
    ordered = least if (a == a) & (b == b) else other
    return ordered if ordered == ordered else bits_f32(_NAN)


@lane
def max_f32(a, b):
    """The greater, +0 above -0; a NaN yields to the other operand, two give 0x7FFFFFFF."""
    equal = bits_f32(f32_bits(a) & f32_bits(b))
    greatest = equal if a == b else (a if a > b else b)
    other = b if a != a else a
    ordered = greatest if (a == a) & (b == b) else other
    return ordered if ordered == ordered else bits_f32(_NAN)


@lane
def min_f64(a, b):
    """The lesser, -0 below +0; a NaN yields to the other operand; of two the second is given, quieted."""
    equal = bits_f64(f64_bits(a) | f64_bits(b))
    least = equal if a == b else (a if a < b else b)
    other = bits_f64(f64_bits(b) | _QUIET) if b != b else b
    return least if (a == a) & (b == b) else (other if a != a else a)


@lane
def max_f64(a, b):
    """The greater, +0 above -0; a NaN yields to the other operand; of two the second is given, quieted."""
    equal = bits_f64(f64_bits(a) & f64_bits(b))
    greatest = equal if a == b else (a if a > b else b)
    other = bits_f64(f64_bits(b) | _QUIET) if b != b else b
    return greatest if (a == a) & (b == b) else (other if a != a else a)


@lane
def min_nan_f32(a, b):
    """``min.NaN``: any NaN gives 0x7FFFFFFF."""
    return min_f32(a, b) if (a == a) & (b == b) else bits_f32(_NAN)


@lane
def max_nan_f32(a, b):
    """``max.NaN``: any NaN gives 0x7FFFFFFF."""
    return max_f32(a, b) if (a == a) & (b == b) else bits_f32(_NAN)


@lane
def xorsign_f32(a, b, r):
    """``.xorsign.abs``: ``r``, the minimum or maximum of the magnitudes, with the sign of ``a`` xor that of ``b``."""
    signed = bits_f32(f32_bits(r) ^ ((f32_bits(a) ^ f32_bits(b)) & _SIGN))
    return signed if r == r else r
