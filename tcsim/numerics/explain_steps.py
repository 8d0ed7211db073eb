"""The steps of an explanation: what each term brings to a fused step, and what is left of it.

Everything is computed on exact numbers, with the functions of :mod:`isa.tensor.reference`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from isa.tensor.reference import Number, decode, fused_step
from isa.tensor.rules import Rule
from isa.tensor.scaled_reference import GROUP, grouped, raised
from tcsim.numerics.scalars import value_of

__all__ = ["Operation", "Step", "Term", "fused_terms", "grouped_terms", "scaled_terms"]


@dataclass(frozen=True)
class Term:
    """What one product, or the accumulator, brings into a step.

    ``k`` is its place along K, None for the accumulator. ``a`` and ``b`` are the operands' values (``a`` alone for the
    accumulator). ``exact`` is the product, None if it is not finite. ``exponent`` is what it is aligned by, the sum of the
    operands' (a product of 1.5 and 1.5 has 0, not 1); None for a zero. ``kept`` is what is left of it.
    """

    k: int | None
    a: float
    b: float | None
    exact: Fraction | None
    exponent: int | None
    kept: Fraction

    @property
    def dropped(self) -> Fraction:
        """What truncation took away, with its sign."""
        return Fraction(0) if self.exact is None else self.exact - self.kept


@dataclass(frozen=True)
class Step:
    """Terms that are summed exactly once they are aligned, and rounded once.

    The last of ``terms`` is the accumulator, which is called ``accumulator``: ``C``, ``+0``, or what the step before left.

    ``emax`` is the exponent they are aligned to and ``unit`` that of the last bit kept (2^unit); None for integers, and where
    an operand is not finite. ``total`` is the sum of what is kept. ``rounding`` says what becomes of it: ``bits`` of ``type``.
    """

    title: str
    accumulator: str
    terms: tuple[Term, ...]
    emax: int | None
    unit: int | None
    total: Fraction | None
    rounding: str
    bits: int
    type: str

    @property
    def value(self) -> float:
        return value_of(self.bits, self.type)


@dataclass(frozen=True)
class Operation:
    """One ordinary operation: what it says, and its result."""

    title: str
    bits: int
    type: str

    @property
    def value(self) -> float:
        return value_of(self.bits, self.type)


def fused_terms(title: str, accumulator: str, products: list[tuple[int, Number, Number]], c: int, rule: Rule) -> Step:
    """One fused step, with what becomes of each term."""
    start = decode(c, rule.d)
    bits = fused_step([(x, y) for _, x, y in products], start, rule)
    exponents = [x.exponent + y.exponent for _, x, y in products if not (x.is_zero or y.is_zero)]
    exponents += [] if start.is_zero else [start.exponent]
    finite = start.kind == "finite" and all(x.kind == y.kind == "finite" for _, x, y in products)
    floor = [] if rule.emax_floor is None else [rule.emax_floor]
    emax = max(exponents + floor, default=None) if finite else None
    unit = None if emax is None else emax - rule.fraction_bits
    terms = [_product_term(k, x, y, unit) for k, x, y in products]
    exponent = None if start.is_zero or start.kind != "finite" else start.exponent
    value = _exact_of(start)
    terms.append(Term(None, _float(start), None, value, exponent, _cut(value, unit)))
    total = sum((t.kept for t in terms), Fraction(0)) if finite else None
    return Step(title, accumulator, tuple(terms), emax, unit, total, _rounding_words(rule), bits, rule.d)


def _rounding_words(rule: Rule) -> str:
    if rule.output == "f16":
        return "rounded to f16, to nearest even"
    if rule.output == "e8m13":
        return "cut to 13 fraction bits, toward zero (an f32 whose low 10 bits are zero)"
    return "rounded to f32, toward zero"


def _product_term(k: int, x: Number, y: Number, unit: int | None) -> Term:
    finite = x.kind == y.kind == "finite"
    exact = (_exact_of(x) or Fraction(0)) * (_exact_of(y) or Fraction(0)) if finite else None
    exponent = x.exponent + y.exponent if finite and not (x.is_zero or y.is_zero) else None
    return Term(k, _float(x), _float(y), exact, exponent, _cut(exact, unit))


def _exact_of(x: Number) -> Fraction | None:
    if x.kind != "finite":
        return None
    return (-1 if x.negative else 1) * Fraction(x.significand) * Fraction(2) ** x.unit


def _float(x: Number) -> float:
    if x.kind == "finite":
        magnitude = float(Fraction(x.significand) * Fraction(2) ** x.unit)
    else:
        magnitude = float("inf") if x.kind == "infinite" else float("nan")
    return -magnitude if x.negative else magnitude


def _cut(exact: Fraction | None, unit: int | None) -> Fraction:
    """Truncated toward zero to a multiple of 2^unit."""
    if exact is None or unit is None:
        return exact or Fraction(0)
    return int(exact / Fraction(2) ** unit) * Fraction(2) ** unit


# ------------------------------------------------------------------------------------------------------- block scales


def scaled_terms(
    title: str, accumulator: str, products: list[tuple[int, Number, Number]], c: int, rule: Rule, scales: tuple[Number, Number]
) -> Step:
    """A fused step whose products are multiplied by two powers of two, the scales of the row and of the column."""
    if any(scale.kind == "nan" for scale in scales):
        return _of_nan_scale(title, accumulator, rule)
    lifted = [(k, raised(x, scales[0]), raised(y, scales[1])) for k, x, y in products]
    step = fused_terms(title, accumulator, lifted, c, rule)
    own = [replace(term, a=_float(x), b=_float(y)) for term, (_, x, y) in zip(step.terms, products, strict=False)]
    return replace(step, terms=(*own, step.terms[-1]))


def grouped_terms(
    title: str, accumulator: str, products: list[tuple[int, Number, Number]], c: int, rule: Rule,
    scales: tuple[Sequence[Number], Sequence[Number]],
) -> Step:  # fmt: skip
    """A step of the 4-bit kinds. A term is the exact sum of 16 products (its ``a``) times its two scales (``b``)."""
    if any(scale.kind == "nan" for side in scales for scale in side):
        return _of_nan_scale(title, accumulator, rule)
    start = decode(c, rule.d)
    bits = grouped([x for _, x, _ in products], [y for _, _, y in products], start, *scales, rule)
    per_scale = len(products) // len(scales[0])
    parts: list[tuple[int, Fraction, Fraction, int]] = []
    for at in range(0, len(products), GROUP):
        u, v = scales[0][at // per_scale], scales[1][at // per_scale]
        total = sum((_times(x, y) for _, x, y in products[at : at + GROUP]), Fraction(0))
        factor = _times(u, v)
        parts.append((products[at][0], total, factor, u.exponent + v.exponent))
    exponents = [exponent for _, total, factor, exponent in parts if total * factor]
    exponents += [] if start.is_zero else [start.exponent]
    finite = start.kind == "finite"
    emax = max([*exponents, *([] if rule.emax_floor is None else [rule.emax_floor])]) if finite else None
    unit = None if emax is None else emax - rule.fraction_bits
    terms = [
        Term(k, float(total), float(factor), total * factor, exponent if total * factor else None, _cut(total * factor, unit))
        for k, total, factor, exponent in parts
    ]
    value = _exact_of(start)
    own = None if start.is_zero or not finite else start.exponent
    terms.append(Term(None, _float(start), None, value, own, _cut(value, unit)))
    kept = sum((t.kept for t in terms), Fraction(0)) if finite else None
    return Step(title, accumulator, tuple(terms), emax, unit, kept, _rounding_words(rule), bits, rule.d)


def _times(x: Number, y: Number) -> Fraction:
    """The product of two finite numbers."""
    return (_exact_of(x) or Fraction(0)) * (_exact_of(y) or Fraction(0))


def _of_nan_scale(title: str, accumulator: str, rule: Rule) -> Step:
    assert rule.nan is not None
    return Step(title, accumulator, (), None, None, None, "a scale is NaN", rule.nan, rule.d)
