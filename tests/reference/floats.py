"""IEEE 754 operations on bit patterns, exactly; ``None`` stands for NaN, whose bits are the caller's affair."""

from __future__ import annotations

from fractions import Fraction

from tests.reference.formats import RM, RN, Format, root


def _signed_infinity(f: Format, negative: bool) -> int:
    return f.infinity | (f.sign if negative else 0)


def fma(f: Format, a: int, b: int, c: int, mode: str = RN) -> int | None:
    """``a * b + c``, rounded once."""
    if f.is_nan(a) or f.is_nan(b) or f.is_nan(c):
        return None
    negative = f.negative(a) != f.negative(b)
    if f.is_infinite(a) or f.is_infinite(b):
        if f.is_zero(a) or f.is_zero(b) or (f.is_infinite(c) and f.negative(c) != negative):
            return None
        return _signed_infinity(f, negative)
    if f.is_infinite(c):
        return c
    product, exact = f.value(a) * f.value(b), f.value(a) * f.value(b) + f.value(c)
    if product == 0 and f.is_zero(c) and negative == f.negative(c):
        return f.sign if negative else 0
    return f.round(exact, mode, negative_zero=mode == RM)


def add(f: Format, a: int, b: int, mode: str = RN) -> int | None:
    """``a + b``: the multiply-add by one."""
    return fma(f, a, f.bias << f.mbits, b, mode)


def mul(f: Format, a: int, b: int, mode: str = RN) -> int | None:
    """``a * b``."""
    if f.is_finite(a) and f.is_finite(b):
        return f.round(f.value(a) * f.value(b), mode, negative_zero=f.negative(a) != f.negative(b))
    return fma(f, a, b, 0, mode)


def div(f: Format, a: int, b: int, mode: str = RN) -> int | None:
    """``a / b``."""
    negative = f.negative(a) != f.negative(b)
    if f.is_nan(a) or f.is_nan(b) or (f.is_zero(a) and f.is_zero(b)) or (f.is_infinite(a) and f.is_infinite(b)):
        return None
    if f.is_infinite(a) or f.is_zero(b):
        return _signed_infinity(f, negative)
    if f.is_infinite(b) or f.is_zero(a):
        return f.sign if negative else 0
    return f.round(f.value(a) / f.value(b), mode)


def sqrt(f: Format, a: int, mode: str = RN) -> int | None:
    """Square root."""
    if f.is_zero(a):
        return a
    if f.is_nan(a) or f.negative(a):
        return None
    return a if f.is_infinite(a) else f.round(root(f.value(a)), mode)


def order(f: Format, bits: int) -> int:
    """A key that sorts non-NaN bits by value, with -0 below +0."""
    return -f.magnitude(bits) - 1 if f.negative(bits) else f.magnitude(bits)


def least(f: Format, a: int, b: int) -> int | None:
    """PTX ``min``: a NaN yields to the other operand."""
    if f.is_nan(a) or f.is_nan(b):
        other = b if f.is_nan(a) else a
        return None if f.is_nan(other) else other
    return min(a, b, key=lambda bits: order(f, bits))


def greatest(f: Format, a: int, b: int) -> int | None:
    """PTX ``max``."""
    if f.is_nan(a) or f.is_nan(b):
        return least(f, a, b)
    return max(a, b, key=lambda bits: order(f, bits))


def saturate(f: Format, bits: int | None) -> int:
    """PTX ``.sat``: clamp to [0, 1], NaN and negatives to +0."""
    one = f.bias << f.mbits
    return 0 if bits is None or f.negative(bits) else min(bits, one)


def is_tiny(f: Format, exact: Fraction, mode: str = RN) -> bool:
    """Whether ``exact`` is below the normal numbers once rounded to their precision with an unbounded exponent."""
    if exact == 0:
        return False
    wide = Format("wide", f.ebits + 4, f.mbits)
    return abs(wide.value(wide.round(exact, mode))) < f.value(1 << f.mbits)
