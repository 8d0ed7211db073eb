"""The special-function unit in plain Python: exact rationals in and out, integers in between."""

from __future__ import annotations

import tomllib
from fractions import Fraction
from pathlib import Path

from tests.reference.formats import F32

TABLES = tomllib.loads((Path(__file__).parents[2] / "isa" / "arith" / "mufu_tables.toml").read_text())
NAN, ONE, INFINITY = 0x7FFFFFFF, 0x3F800000, 0x7F800000


def square(y: int) -> int:
    """Sum of the partial products of ``y * y`` at 2^-18, each truncated, then halved."""
    return sum(y >> (18 - i) for i in range(17) if y >> i & 1) >> 1


def polynomial(unit: str, segment: int, shift: int, y: int, squared: int) -> int:
    a, b, c = TABLES[unit]["coefficients"][segment]
    return (a << shift) + b * y + c * squared


def truncate(value: Fraction) -> int:
    """float32 bits of a value cut to 24 significant bits; what would be subnormal is zero of its sign."""
    if value == 0:
        return 0
    bits = F32.round(value, "rz")
    return bits & F32.sign if F32.magnitude(bits) < 1 << F32.mbits else bits


def parts(word: int) -> tuple[int, int, int]:
    """(sign bit in place, unbiased exponent, 23 fraction bits) of a normal number."""
    return word & F32.sign, (F32.magnitude(word) >> 23) - 127, word & 0x7FFFFF


def is_zero(word: int) -> bool:
    """Zero or subnormal: the unit does not tell them apart."""
    return F32.magnitude(word) < 1 << 23


def rcp(word: int) -> int:
    sign, e, f = parts(word)
    if F32.is_nan(word):
        return NAN
    if is_zero(word) or F32.is_infinite(word):
        return sign | (INFINITY if is_zero(word) else 0)
    y = f & 0xFFFF
    significand = (polynomial("rcp", f >> 16, 13, y, square(2 * y)) + 0x47E7) >> 15
    return sign | truncate(significand * Fraction(2) ** (-e - 24))


def _rooted(word: int, at_zero: int, at_infinity: int) -> int | None:
    """The special cases of both roots."""
    if is_zero(word):
        return word & F32.sign | at_zero
    if F32.is_nan(word) or F32.negative(word):
        return NAN
    return at_infinity if F32.is_infinite(word) else None


def rsq(word: int) -> int:
    special = _rooted(word, INFINITY, 0)
    if special is not None:
        return special
    _, e, f = parts(word)
    half, odd = divmod(e, 2)
    if f == 0 and not odd:
        return truncate(Fraction(2) ** -half)
    y = f & 0x1FFFF
    significand = (polynomial("rsq", odd * 64 + (f >> 17), 14, y, square(y)) + 0x7FFF) >> 16
    return truncate(significand * Fraction(2) ** (-half - 24))


def sqrt(word: int) -> int:
    special = _rooted(word, 0, INFINITY)
    if special is not None:
        return special
    _, e, f = parts(word)
    half, odd = divmod(e, 2)
    y = f & 0x1FFFF
    significand = (polynomial("sqrt", odd * 64 + (f >> 17), 15, y, square(y)) + 0x7FFF) >> 17
    return truncate(significand * Fraction(2) ** (half - 23))


def ex2(word: int) -> int:
    if F32.is_nan(word):
        return NAN
    if F32.is_infinite(word) or F32.magnitude(word) >= 0x43000000:  # 128
        return 0 if F32.negative(word) else INFINITY
    cut = 0 if is_zero(word) else int(abs(F32.value(word)) * 2**23)
    if F32.negative(word):
        cut = ~cut if cut % 2**23 else -cut
    whole, f = divmod(cut, 2**23)
    y = f & 0x1FFFF
    significand = (polynomial("ex2", f >> 17, 13, y, square(y)) + 0x77E2) >> 15
    value = significand * Fraction(2) ** (whole - 23)
    return INFINITY if value >= 2**128 else truncate(value)


def lg2(word: int) -> int:
    if is_zero(word):
        return INFINITY | F32.sign
    if F32.is_nan(word) or F32.negative(word):
        return NAN
    if F32.is_infinite(word) or word == ONE:
        return INFINITY if word != ONE else 0
    _, e, f = parts(word)
    y = f & 0x1FFFF
    total = ((polynomial("lg2", f >> 17, 12, y, square(y)) + 0x3345) >> 2) + (e << 36)
    return F32.sign | truncate(Fraction(~total, 2**36)) if total < 0 else truncate(Fraction(total, 2**36))


def sine(word: int, quarter: int) -> int:
    """sin (``quarter`` 0) or cos (1) of a number of revolutions."""
    if not F32.is_finite(word):
        return NAN
    turns = int(abs(F32.value(word)) * 2**25) + (quarter << 23)
    quadrant, f = turns >> 23 & 3, turns & 0x7FFFFF
    if quadrant & 1:
        f ^= 0x7FFFFF
    negative = (quadrant >= 2) != (F32.negative(word) and quarter == 0)
    y = f & 0x1FFFF
    value = Fraction(polynomial("sin", f >> 17, 11, y, square(y)), 2**37)
    return truncate(value) | (F32.sign if negative else 0)


TANH_SEGMENTS = (1, 1, 1, 2, 2, 4, 4, 4, 8, 16, 8)  # in the binades 2^-8 to 2^2


def tanh(word: int) -> int:
    if F32.is_nan(word):
        return NAN
    sign, e, f = parts(word)
    if e < -8:
        return word
    if e > 2:
        return sign | ONE
    count = TANH_SEGMENTS[e + 8]
    position = f * count  # segment above bit 23
    y = (position & 0x7FFFFF) >> 6
    segment = sum(TANH_SEGMENTS[: e + 8]) + (position >> 23)
    return sign | truncate(Fraction(polynomial("tanh", segment, 0, y, square(y)), 2**46))


UNITS = {
    "rcp": rcp,
    "rsq": rsq,
    "sqrt": sqrt,
    "ex2": ex2,
    "lg2": lg2,
    "sin": lambda word: sine(word, 0),
    "cos": lambda word: sine(word, 1),
    "tanh": tanh,
}
