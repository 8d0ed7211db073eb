"""Tensor-core arithmetic of one output element, in plain Python on exact numbers.

Slow, and meant to be checked by reading: each function is a paragraph of the rules (:mod:`isa.tensor.rules`), in
unbounded integers. The compiled kernels are tested against it. Operands and results are bit patterns, as Python ints,
unless said otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from isa.tensor.formats import FLOAT_FORMATS, FloatFormat
from isa.tensor.rules import Rule

__all__ = ["Number", "convert", "decode", "dot", "fused_step", "ieee_add", "integer_dot", "round_to"]

_F64 = FloatFormat("f64", 64, 11, 52, 1023, infinity=0x7FF << 52, nan=(0x7FF << 52) + 1)
_FORMATS = {**FLOAT_FORMATS, "f64": _F64}
_NAN = {"f32": 0x7FFFFFFF, "f16": 0x7FFF}


class Number(Struct, frozen=True):
    """A decoded operand. ``kind`` is ``finite``, ``infinite`` or ``nan``. A finite one is worth ``significand *
    2^unit``, with the sign; ``exponent`` is what its encoding says, which for a zero or subnormal is more than its
    size."""

    kind: str
    negative: bool
    significand: int = 0
    unit: int = 0
    exponent: int = 0

    @property
    def is_zero(self) -> bool:
        return self.kind == "finite" and self.significand == 0


def decode(bits: int, ptx_type: str) -> Number:
    """What a bit pattern means as an operand."""
    f = _FORMATS[ptx_type]
    negative = bool(bits >> (f.bits - 1) & 1)
    magnitude = bits & f.magnitude_mask
    if magnitude >= f.nan:
        return Number("nan", negative)
    if magnitude == f.infinity:
        return Number("infinite", negative)
    magnitude >>= f.ignored_low_bits
    field, fraction = magnitude >> f.fraction_bits, magnitude % (1 << f.fraction_bits)
    hidden = 1 << f.fraction_bits if field else 0
    exponent = max(field, 1) - f.bias
    return Number("finite", negative, fraction + hidden, exponent - f.fraction_bits, exponent)


def _in_units(magnitude: int, unit: int, target: int) -> int:
    """``magnitude * 2^unit`` in whole units of ``2^target``, the rest dropped."""
    return magnitude << (unit - target) if unit >= target else magnitude >> (target - unit)


def round_to(magnitude: int, unit: int, ptx_type: str, nearest: bool, kept_fraction_bits: int | None = None) -> int:
    """The bits of ``magnitude * 2^unit`` in a format with infinities: to nearest even or toward zero; too large gives
    infinity either way; subnormals are kept. ``kept_fraction_bits`` leaves the fraction bits below those zero."""
    f = _FORMATS[ptx_type]
    if magnitude == 0:
        return 0
    kept = f.fraction_bits if kept_fraction_bits is None else kept_fraction_bits
    exponent = max(magnitude.bit_length() - 1 + unit, f.least_exponent)
    last = exponent - kept  # the exponent of the last bit kept
    whole = _in_units(magnitude, unit, last)
    if nearest and last > unit:
        rest, half = magnitude % (1 << (last - unit)), 1 << (last - unit - 1)
        if rest > half or (rest == half and whole % 2 == 1):
            whole += 1
    # The hidden bit of ``whole`` adds the one that makes the exponent field of a normal number; so does a carry out of
    # rounding.
    bits = ((exponent - f.least_exponent) << f.fraction_bits) + (whole << (f.fraction_bits - kept))
    assert f.infinity is not None
    return min(bits, f.infinity)


def _signed(bits: int, negative: bool, ptx_type: str) -> int:
    return bits | 1 << (_FORMATS[ptx_type].bits - 1) if negative else bits


def _infinity(negative: bool, ptx_type: str) -> int:
    magnitude = _FORMATS[ptx_type].infinity
    assert magnitude is not None
    return _signed(magnitude, negative, ptx_type)


# -------------------------------------------------------------------------------------------------- the fused step


def fused_step(products: Sequence[tuple[Number, Number]], c: Number, rule: Rule) -> int:
    """One fused step: the sum of the products and ``c``, in the rule's output format."""
    out = "f16" if rule.output == "f16" else "f32"
    if any("nan" in (a.kind, b.kind) for a, b in products) or c.kind == "nan":
        return _NAN[out]
    infinities = [c.negative] if c.kind == "infinite" else []
    for a, b in products:
        if "infinite" in (a.kind, b.kind):
            if a.is_zero or b.is_zero:
                return _NAN[out]
            infinities.append(a.negative != b.negative)
    if infinities:
        return _NAN[out] if len(set(infinities)) == 2 else _infinity(infinities[0], out)

    terms = [(a.negative != b.negative, a.significand * b.significand, a.unit + b.unit) for a, b in products]
    terms.append((c.negative, c.significand, c.unit))
    exponents = [a.exponent + b.exponent for a, b in products if not a.is_zero and not b.is_zero]
    if not c.is_zero:
        exponents.append(c.exponent)
    if rule.emax_floor is not None:
        exponents.append(rule.emax_floor)
    if not exponents:
        return 0
    unit = max(exponents) - rule.fraction_bits
    total = sum(
        (-1 if negative else 1) * _in_units(magnitude, own_unit, unit) for negative, magnitude, own_unit in terms
    )
    kept = 13 if rule.output == "e8m13" else None
    bits = round_to(abs(total), unit, out, nearest=out == "f16", kept_fraction_bits=kept)
    return _signed(bits, total < 0 and bits != 0, out)


def dot(
    a: Sequence[int], b: Sequence[int], c: int, rule: Rule, a_type: str, b_type: str, rounding: str = ""
) -> int:
    """One output of a floating-point matrix instruction: K operands of A and of B and an accumulator ``c`` of type
    ``rule.d``. ``rounding``: ``rz``, ``rm`` or ``rp`` of an f64 instruction."""
    if rule.method == "fma":
        return _fma_chain(a, b, c, rounding)
    if rule.method == "ffma":
        return _ffma(a, b, c, rule.d)
    out = "f16" if rule.output == "f16" else "f32"
    if rule.method == "fused_halves":  # f16 has every FP8 number
        x = [decode(convert(bits, a_type, "f16"), "f16") for bits in a]
        y = [decode(convert(bits, b_type, "f16"), "f16") for bits in b]
        total = 0
        for half in ((0, 1), (2, 3)):
            chosen = [(x[k], y[k]) for k in range(len(x)) if k % 4 in half]
            total = fused_step(chosen, decode(total, out), rule)
        return ieee_add(total, c, out)
    products = [(decode(x, a_type), decode(y, b_type)) for x, y in zip(a, b, strict=True)]
    for start in range(0, len(products), rule.products):
        c = fused_step(products[start : start + rule.products], decode(c, out), rule)
    return c


def integer_dot(a: Sequence[int], b: Sequence[int], c: int, satfinite: bool) -> int:
    """One s32 output, from and to signed values rather than bit patterns."""
    total = sum(x * y for x, y in zip(a, b, strict=True)) + c
    if satfinite:
        return max(-(1 << 31), min((1 << 31) - 1, total))
    return (total + (1 << 31)) % (1 << 32) - (1 << 31)


# ------------------------------------------------------------------------------------------------- IEEE operations


def convert(bits: int, source: str, target: str) -> int:
    """A number of one format to the nearest of another, with its sign; any NaN is canonical."""
    number = decode(bits, source)
    if number.kind == "nan":
        return _NAN[target]
    if number.kind == "infinite":
        return _infinity(number.negative, target)
    return _signed(round_to(number.significand, number.unit, target, nearest=True), number.negative, target)


def _directed(magnitude: int, unit: int, ptx_type: str, away: bool) -> int:
    """As :func:`round_to`, to the next number away from or toward zero. Too large toward zero is the largest finite."""
    f = _FORMATS[ptx_type]
    assert f.infinity is not None
    bits = min(round_to(magnitude, unit, ptx_type, nearest=False), f.infinity - 1)
    kept = decode(bits, ptx_type)
    least = min(unit, kept.unit)
    exact = _in_units(magnitude, unit, least) == _in_units(kept.significand, kept.unit, least)
    return bits if exact or not away else bits + 1


def _fma(a: Number, b: Number, c: Number, ptx_type: str, rounding: str = "") -> int | None:
    """The bits of IEEE 754 ``a * b + c``, to nearest even or as ``rounding`` says; None for a NaN."""
    if "nan" in (a.kind, b.kind, c.kind):
        return None
    negative = a.negative != b.negative
    if "infinite" in (a.kind, b.kind):
        if a.is_zero or b.is_zero or (c.kind == "infinite" and c.negative != negative):
            return None
        return _infinity(negative, ptx_type)
    if c.kind == "infinite":
        return _infinity(c.negative, ptx_type)
    unit = min(a.unit + b.unit, c.unit)
    product = _in_units(a.significand * b.significand, a.unit + b.unit, unit)
    addend = _in_units(c.significand, c.unit, unit)
    exact = (-product if negative else product) + (-addend if c.negative else addend)
    if exact == 0:  # two zeros of one sign keep it; x - x is +0, or -0 toward minus infinity
        one_sign = product == 0 and negative == c.negative
        return _signed(0, negative if one_sign else rounding == "rm", ptx_type)
    if rounding:
        away = rounding == ("rm" if exact < 0 else "rp")
        return _signed(_directed(abs(exact), unit, ptx_type, away), exact < 0, ptx_type)
    return _signed(round_to(abs(exact), unit, ptx_type, nearest=True), exact < 0, ptx_type)


_ONE = Number("finite", False, 1, 0, 0)


def ieee_add(x: int, y: int, ptx_type: str) -> int:
    """``x + y`` to nearest even in f32 or f16; any NaN is canonical."""
    result = _fma(decode(x, ptx_type), _ONE, decode(y, ptx_type), ptx_type)
    return _NAN[ptx_type] if result is None else result


def _ffma(a: Sequence[int], b: Sequence[int], c: int, d: str) -> int:
    """m8n8k4 from sm_80 on: float32 operations in the order of :mod:`isa.tensor.mma_884`."""

    def fma(x: Number, y: Number, z: Number) -> Number:
        bits = _fma(x, y, z, "f32")
        return decode(_NAN["f32"] if bits is None else bits, "f32")

    def multiply(x: Number, y: Number) -> Number:
        zero = Number("finite", x.negative != y.negative)  # of the product's sign: adding it changes nothing
        return fma(x, y, zero)

    x, y = [decode(bits, "f16") for bits in a], [decode(bits, "f16") for bits in b]
    if d == "f32":
        total = Number("finite", False)
        for k in range(4):
            total = fma(x[k], y[k], total)
        result = _fma(total, _ONE, decode(c, "f32"), "f32")
        return _NAN["f32"] if result is None else result
    u = fma(x[1], y[1], multiply(x[0], y[0]))
    v = fma(x[3], y[3], multiply(x[2], y[2]))
    result = _fma(fma(decode(c, "f16"), _ONE, u), _ONE, v, "f32")
    return _NAN["f16"] if result is None else convert(result, "f32", "f16")


def _fma_chain(a: Sequence[int], b: Sequence[int], c: int, rounding: str) -> int:
    """f64: the first NaN of (b, the sum so far, a) made quiet, else IEEE."""
    total = c
    for x, y in zip(a, b, strict=True):
        nans = [bits for bits in (y, total, x) if decode(bits, "f64").kind == "nan"]
        if nans:
            total = nans[0] | 1 << 51
        else:
            result = _fma(decode(x, "f64"), decode(y, "f64"), decode(total, "f64"), "f64", rounding)
            total = 0xFFF8000000000000 if result is None else result
    return total
