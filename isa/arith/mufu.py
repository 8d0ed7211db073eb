"""The special-function unit: MUFU.RCP, RSQ, SQRT, EX2, LG2, SIN, COS and TANH on float32, bit for bit.

All units share one datapath. The top bits of the significand pick a segment with three integer coefficients; the next
17 bits are ``y`` (16 for RCP). The result is ``A + B * y + C * square(y)`` plus a rounding constant, truncated. The
squarer is truncated too (:func:`square`). Coefficients were solved from recordings of an H200 (``mufu_tables.toml``,
made by ``gpu_ref/mufu/solve.py``); the structure was first described by M. Kościelnicki for the G80 (envytools,
``nvhw/sfu.c``).

Subnormal operands act as zero of their sign and subnormal results become zero: the units have no others.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np

from isa.arith.lane import lane
from isa.arith.primitives import bits_f32, f32_bits, leading_zeros_u64, select

__all__ = [
    "mufu_cos",
    "mufu_ex2",
    "mufu_lg2",
    "mufu_rcp",
    "mufu_rcp64h",
    "mufu_rsq",
    "mufu_rsq64h",
    "mufu_sin",
    "mufu_sqrt",
    "mufu_tanh",
    "square",
]


def _coefficients(unit: str) -> np.ndarray:
    """int64[3, segments]: the rows A, B and C of a unit."""
    return np.ascontiguousarray(np.array(_TABLES[unit]["coefficients"], dtype=np.int64).T)


_TABLES = tomllib.loads((Path(__file__).parent / "mufu_tables.toml").read_text())
_RCP, _RSQ, _SQRT = _coefficients("rcp"), _coefficients("rsq"), _coefficients("sqrt")
_EX2, _LG2, _SIN, _TANH = _coefficients("ex2"), _coefficients("lg2"), _coefficients("sin"), _coefficients("tanh")

_NAN = np.uint32(0x7FFFFFFF)
_INFINITY = np.uint32(0x7F800000)
_SIGN = np.uint32(0x80000000)
_FRACTION = np.uint32(0x7FFFFF)
_ONE = np.int64(1 << 23)  # the leading bit of a significand
_LEAST_NORMAL = np.int64(1 << 23)  # bits of the least normal float32


@lane
def square(y):
    """``y * y`` scaled by 2^-19 as the unit's squarer has it; ``y`` (17 bits) and result uint32.

    The squarer adds ``y >> (18 - i)`` for every set bit i of y, then halves. With the high byte h and the low 9 bits l
    of y, those rows make ``h * h`` and twice ``l >> (9 - j)`` for every set bit j of h, which is cheaper.
    """
    high, low = y >> np.uint32(9), y & np.uint32(0x1FF)
    rows = _row(high, low, 1) + _row(high, low, 2) + _row(high, low, 3) + _row(high, low, 4)
    rows += _row(high, low, 5) + _row(high, low, 6) + _row(high, low, 7)
    return np.uint32(rows + (np.uint32(high * high) >> np.uint32(1)))


@lane
def _row(high, low, j):
    return select(((high >> np.uint32(j)) & np.uint32(1)) != np.uint32(0), low >> np.uint32(9 - j), np.uint32(0))


@lane
def _exponent(u):
    return np.int64((u >> np.uint32(23)) & np.uint32(0xFF))


@lane
def _normalised(p, point):
    """Bits of the non-negative int64 ``p * 2**-point`` as float32, truncated to 24 significant bits; 0 for 0."""
    top = np.int64(63) - np.int64(leading_zeros_u64(np.uint64(p)))
    down, up = max(top - np.int64(23), np.int64(0)), max(np.int64(23) - top, np.int64(0))
    significand = ((p >> down) << (up & np.int64(63))) - _ONE
    bits = np.uint32(((top - point + np.int64(127)) << np.int64(23)) + significand)
    return select(p != np.int64(0), bits, np.uint32(0))


@lane
def _pick(u, zero, negative, infinity, bits):
    """``bits``, or the result for a special operand: ``zero`` (subnormals too), ``negative`` (all the way to -inf),
    ``infinity``; NaN for NaN.
    """
    magnitude = u & ~_SIGN
    r = select(magnitude == _INFINITY, infinity, bits)
    r = select((u & _SIGN) != np.uint32(0), negative, r)
    r = select(magnitude > _INFINITY, _NAN, r)
    return bits_f32(select(magnitude < np.uint32(0x00800000), zero, r))


# ----------------------------------------------------------------------------------------------- reciprocal and roots


@lane
def _rcp_significand(f):
    """2^24 over the significand whose 23 fraction bits are ``f``: 2^23 to 2^24, both included (int64)."""
    y = f & np.uint32(0xFFFF)
    i = f >> np.uint32(16)
    p = (_RCP[0, i] << np.int64(13)) + _RCP[1, i] * np.int64(y) + _RCP[2, i] * np.int64(square(np.uint32(y << np.uint32(1))))
    return (p + np.int64(0x47E7)) >> np.int64(15)


@lane
def _rsq_significand(f):
    """2^24 over the square root of 2^``parity`` times a significand: ``f`` is the parity bit above 23 fraction bits."""
    y = f & np.uint32(0x1FFFF)
    i = f >> np.uint32(17)
    p = (_RSQ[0, i] << np.int64(14)) + _RSQ[1, i] * np.int64(y) + _RSQ[2, i] * np.int64(square(y))
    return select(f != np.uint32(0), (p + np.int64(0x7FFF)) >> np.int64(16), np.int64(1 << 24))


@lane
def mufu_rcp(x):
    """1/x."""
    u = f32_bits(x)
    sign = u & _SIGN
    bits = ((np.int64(253) - _exponent(u)) << np.int64(23)) + _rcp_significand(u & _FRACTION) - _ONE
    result = sign | select(bits >= _LEAST_NORMAL, np.uint32(bits), np.uint32(0))
    return _pick(u & ~_SIGN, sign | _INFINITY, result, sign, result)


@lane
def mufu_rsq(x):
    """1/sqrt(x)."""
    u = f32_bits(x)
    half = (_exponent(u) - np.int64(127)) >> np.int64(1)
    significand = _rsq_significand((u & np.uint32(0xFFFFFF)) ^ np.uint32(0x800000))
    bits = np.uint32(((np.int64(126) - half) << np.int64(23)) + significand - _ONE)
    return _pick(u, (u & _SIGN) | _INFINITY, _NAN, np.uint32(0), bits)


@lane
def mufu_sqrt(x):
    """sqrt(x)."""
    u = f32_bits(x)
    y = u & np.uint32(0x1FFFF)
    i = ((u >> np.uint32(17)) & np.uint32(0x7F)) ^ np.uint32(0x40)  # even exponents first
    p = (_SQRT[0, i] << np.int64(15)) + _SQRT[1, i] * np.int64(y) + _SQRT[2, i] * np.int64(square(y))
    significand = (p + np.int64(0x7FFF)) >> np.int64(17)
    half = (_exponent(u) - np.int64(127)) >> np.int64(1)
    bits = np.uint32(((half + np.int64(127)) << np.int64(23)) + significand - _ONE)
    return _pick(u, u & _SIGN, _NAN, _INFINITY, bits)


# --------------------------------------------------------------------------------- reciprocals of float64's high word
# The same tables on the 20 fraction bits of the high word; the result's low word is zero.

_NAN64 = np.uint32(0x7FFFFFFF)
_INFINITY64 = np.uint32(0x7FF00000)


@lane
def _exponent64(u):
    return np.int64((u >> np.uint32(20)) & np.uint32(0x7FF))


@lane
def mufu_rcp64h(u):
    """High word (uint32) of 1/x, from the high word of x; subnormal operands and results act as zero."""
    sign, magnitude = u & _SIGN, u & ~_SIGN
    significand = _rcp_significand(np.uint32(u << np.uint32(3)) & _FRACTION) >> np.int64(3)
    bits = ((np.int64(2045) - _exponent64(u)) << np.int64(20)) + significand - np.int64(1 << 20)
    result = select(bits >= np.int64(1 << 20), np.uint32(bits), np.uint32(0))
    result = select(magnitude < np.uint32(1 << 20), _INFINITY64, result)
    result = select(magnitude == _INFINITY64, np.uint32(0), result)
    return np.uint32(select(magnitude > _INFINITY64, _NAN64, sign | result))


@lane
def mufu_rsq64h(u):
    """High word (uint32) of 1/sqrt(x), from the high word of x; subnormal operands act as zero."""
    sign, magnitude = u & _SIGN, u & ~_SIGN
    half = (_exponent64(u) - np.int64(1023)) >> np.int64(1)
    f = np.uint32(u << np.uint32(3)) & np.uint32(0xFFFFFF)
    significand = _rsq_significand(f ^ np.uint32(0x800000)) >> np.int64(3)
    result = np.uint32(((np.int64(1022) - half) << np.int64(20)) + significand - np.int64(1 << 20))
    result = select(magnitude == _INFINITY64, np.uint32(0), result)
    result = select((sign != np.uint32(0)) | (magnitude > _INFINITY64), _NAN64, result)
    return np.uint32(select(magnitude < np.uint32(1 << 20), sign | _INFINITY64, result))


# --------------------------------------------------------------------------------------------- exponential, logarithm


@lane
def mufu_ex2(x):
    """2**x; ``x`` is first cut to 23 fraction bits."""
    u = f32_bits(x)
    e = _exponent(u)
    significand = np.int64((u & _FRACTION) | np.uint32(0x800000))
    up = min(max(e - np.int64(127), np.int64(0)), np.int64(7))
    down = min(max(np.int64(127) - e, np.int64(0)), np.int64(25))
    magnitude = (significand << up) >> down
    # A negative operand is complemented, not negated, unless it is an integer.
    negative = select((magnitude & np.int64(0x7FFFFF)) != np.int64(0), ~magnitude, -magnitude)
    fixed = select((u & _SIGN) != np.uint32(0), negative, magnitude)
    f = np.uint32(fixed & np.int64(0x7FFFFF))
    y = f & np.uint32(0x1FFFF)
    i = f >> np.uint32(17)
    p = (_EX2[0, i] << np.int64(13)) + _EX2[1, i] * np.int64(y) + _EX2[2, i] * np.int64(square(y))
    bits = (((fixed >> np.int64(23)) + np.int64(127)) << np.int64(23)) + ((p + np.int64(0x77E2)) >> np.int64(15)) - _ONE
    large = select((u & _SIGN) == np.uint32(0), _INFINITY, np.uint32(0))
    inside = select(bits >= _LEAST_NORMAL, np.uint32(min(bits, np.int64(_INFINITY))), np.uint32(0))
    result = select(e >= np.int64(134), large, inside)
    return _pick(u & ~_SIGN, np.uint32(0x3F800000), result, large, result)


@lane
def mufu_lg2(x):
    """log2(x)."""
    u = f32_bits(x)
    y = u & np.uint32(0x1FFFF)
    i = (u >> np.uint32(17)) & np.uint32(0x3F)
    p = (_LG2[0, i] << np.int64(12)) + _LG2[1, i] * np.int64(y) + _LG2[2, i] * np.int64(square(y))
    r = ((p + np.int64(0x3345)) >> np.int64(2)) + ((_exponent(u) - np.int64(127)) << np.int64(36))
    r = select(u == np.uint32(0x3F800000), np.int64(0), r)
    magnitude = r ^ (r >> np.int64(63))  # a negative sum is complemented
    bits = _normalised(magnitude, np.int64(36)) | select(r < np.int64(0), _SIGN, np.uint32(0))
    return _pick(u, _SIGN | _INFINITY, _NAN, _INFINITY, bits)


# ---------------------------------------------------------------------------------------------------- sine and cosine


@lane
def _quadrants(u):
    """The magnitude of a float32, in revolutions, as quarter turns with 23 fraction bits, modulo 4 (25 bits)."""
    e = _exponent(u)
    significand = np.int64((u & _FRACTION) | np.uint32(0x800000))
    up = min(max(e - np.int64(125), np.int64(0)), np.int64(25))
    down = min(max(np.int64(125) - e, np.int64(0)), np.int64(25))
    return np.uint32(((significand << up) >> down) & np.int64(0x1FFFFFF))


@lane
def _wave(turn, sign):
    """sin of ``turn`` quarter turns (25 bits, 23 of them fraction), with ``sign`` flipped in."""
    backwards = (turn & np.uint32(0x800000)) != np.uint32(0)
    f = select(backwards, ~turn, turn) & _FRACTION
    y = f & np.uint32(0x1FFFF)
    i = f >> np.uint32(17)
    p = (_SIN[0, i] << np.int64(11)) + _SIN[1, i] * np.int64(y) + _SIN[2, i] * np.int64(square(y))
    return _normalised(p, np.int64(37)) | (sign ^ ((turn << np.uint32(7)) & _SIGN))


@lane
def mufu_sin(x):
    """sin(2 pi x): the operand is in revolutions."""
    u = f32_bits(x)
    bits = _wave(_quadrants(u), u & _SIGN)
    return bits_f32(select((u & ~_SIGN) >= _INFINITY, _NAN, bits))


@lane
def mufu_cos(x):
    """cos(2 pi x): the operand is in revolutions."""
    u = f32_bits(x)
    bits = _wave(np.uint32(_quadrants(u) + np.uint32(0x800000)) & np.uint32(0x1FFFFFF), np.uint32(0))
    return bits_f32(select((u & ~_SIGN) >= _INFINITY, _NAN, bits))


# ------------------------------------------------------------------------------------------------- hyperbolic tangent

# Binades 2^-8 to 2^2 of the operand: index bits taken from the fraction, and the first segment.
_TANH_INDEX_BITS = np.array([0, 0, 0, 1, 1, 2, 2, 2, 3, 4, 3], dtype=np.uint32)
_TANH_FIRST = np.array([0, 1, 2, 3, 5, 7, 11, 15, 19, 27, 43], dtype=np.uint32)


@lane
def mufu_tanh(x):
    """tanh(x); below 2^-8 the operand itself, subnormals included."""
    u = f32_bits(x)
    sign, magnitude = u & _SIGN, u & ~_SIGN
    e = _exponent(u)
    binade = min(max(e - np.int64(119), np.int64(0)), np.int64(10))
    index_bits = _TANH_INDEX_BITS[binade]
    f = magnitude & _FRACTION
    i = _TANH_FIRST[binade] + (f >> (np.uint32(23) - index_bits))
    y = np.uint32((f << index_bits) & _FRACTION) >> np.uint32(6)
    p = _TANH[0, i] + _TANH[1, i] * np.int64(y) + _TANH[2, i] * np.int64(square(y))
    bits = _normalised(p, np.int64(46))
    bits = select(magnitude >= np.uint32(0x41000000), np.uint32(0x3F800000), bits)
    bits = select(e < np.int64(119), magnitude, bits)
    return bits_f32(select(magnitude > _INFINITY, _NAN, sign | bits))
