"""One output of an ``mma`` with a ``.kind``, in plain Python on exact integers, to check :mod:`isa.tensor.mma_scaled` by."""

from __future__ import annotations

from collections.abc import Sequence

from isa.tensor.forms import MmaForm
from isa.tensor.reference import Number, decode, fused_step, round_to
from isa.tensor.rules import Rule

__all__ = ["GROUP", "decode_scale", "grouped", "raised", "scaled_dot"]

GROUP = 16
"""Products that the 4-bit kinds sum exactly."""

_NAN = 0x7FFFFFFF


def decode_scale(code: int, scale_type: str) -> Number:
    """What a scale is worth. ``ue8m0``: 2^(code - 127), 255 is NaN. ``ue4m3``: e4m3 without its sign, which does not count."""
    if scale_type == "ue4m3":
        return decode(code & 0x7F, "e4m3")
    return Number("nan", False) if code == 255 else Number("finite", False, 1, code - 127, code - 127)


def scaled_dot(
    a: Sequence[int], b: Sequence[int], c: int, rule: Rule, form: MmaForm,
    scale_a: Sequence[int] = (), scale_b: Sequence[int] = (),
) -> int:  # fmt: skip
    """K codes of A and of B (of ``mma.sp``, of those that A stores), an accumulator of type ``form.d``, and the scales of the
    row and of the column."""
    x, y = [decode(bits, form.a) for bits in a], [decode(bits, form.b) for bits in b]
    accumulator = decode(c, form.d)
    sa, sb = ([decode_scale(code, form.scale_type) for code in codes] for codes in (scale_a, scale_b))
    if any(scale.kind == "nan" for scale in (*sa, *sb)):
        return _NAN
    if rule.method == "fused":
        return fused_step(list(zip(x, y, strict=True)), accumulator, rule)
    if rule.method == "fused_scaled":
        return fused_step([(raised(p, sa[0]), raised(q, sb[0])) for p, q in zip(x, y, strict=True)], accumulator, rule)
    return grouped(x, y, accumulator, sa, sb, rule)


def raised(number: Number, scale: Number) -> Number:
    """A number times a power of two, the exponent of its encoding raised as well."""
    if number.kind != "finite":
        return number
    return Number(
        "finite", number.negative, number.significand, number.unit + scale.exponent, number.exponent + scale.exponent
    )


def grouped(
    x: Sequence[Number], y: Sequence[Number], c: Number, sa: Sequence[Number], sb: Sequence[Number], rule: Rule
) -> int:
    """The bits of a step whose terms are sums of 16 products times their scales, and whose exponents are their scales'."""
    if c.kind != "finite":
        return _NAN if c.kind == "nan" else 0xFF800000 if c.negative else 0x7F800000
    terms: list[tuple[int, int, int]] = []  # value as an integer, its unit, exponent
    per_scale = len(x) // len(sa)
    for start in range(0, len(x), GROUP):
        products = [
            (-1 if p.negative != q.negative else 1, p.significand * q.significand, p.unit + q.unit)
            for p, q in zip(x[start : start + GROUP], y[start : start + GROUP], strict=True)
        ]
        least = min(unit for _, _, unit in products)
        total = sum(sign * size << (unit - least) for sign, size, unit in products)
        scales = sa[start // per_scale], sb[start // per_scale]
        value = total * scales[0].significand * scales[1].significand
        terms.append((value, least + scales[0].unit + scales[1].unit, scales[0].exponent + scales[1].exponent))
    terms.append((-c.significand if c.negative else c.significand, c.unit, c.exponent))
    exponents = [exponent for value, _, exponent in terms if value]
    assert rule.emax_floor is not None
    unit = max([*exponents, rule.emax_floor]) - rule.fraction_bits

    def cut(value: int, own: int) -> int:
        size = abs(value) << (own - unit) if own >= unit else abs(value) >> (unit - own)
        return -size if value < 0 else size

    total = sum(cut(value, own) for value, own, _ in terms)
    bits = round_to(abs(total), unit, "f32", nearest=False)
    return bits | 0x80000000 if total < 0 and bits else bits
