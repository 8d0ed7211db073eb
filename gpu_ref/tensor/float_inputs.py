"""Operands of floating-point matrix instructions that leave a wrong rule nowhere to hide.

Each class aims at something: where terms are cut off when they are aligned, how the sum is rounded, overflow, subnormal
numbers, the signs of zeros, infinities and NaNs. A class is a function from a :class:`~gpu_ref.tensor.draw.Draw` and a
:class:`Sizes` to the element bit patterns of A ``[product, m, k]``, B ``[product, k, n]`` and C ``[product, m, n]``,
uint64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu_ref.tensor.draw import Draw, Words
from isa.tensor.formats import FLOAT_FORMATS, FloatFormat

__all__ = ["FLOAT_CLASSES", "FORMATS", "Matrices", "Sizes", "special_values"]

FORMATS = FLOAT_FORMATS | {"f64": FloatFormat("f64", 64, 11, 52, 1023, infinity=0x7FF << 52, nan=(0x7FF << 52) + 1)}
"""Operand and accumulator formats, by PTX name."""

Exponents = NDArray[np.int64]
Matrices = tuple[Words, Words, Words]

_ONE = np.uint64(1)


class Sizes(NamedTuple):
    """``products`` products of ``m`` x ``k`` by ``k`` x ``n`` matrices, and their formats."""

    products: int
    m: int
    n: int
    k: int
    a: FloatFormat
    b: FloatFormat
    c: FloatFormat

    @property
    def shapes(self) -> tuple[tuple[int, int, int], tuple[int, int, int], tuple[int, int, int]]:
        return (self.products, self.m, self.k), (self.products, self.k, self.n), (self.products, self.m, self.n)


# ------------------------------------------------------------------------------------------------ elements


def _top(f: FloatFormat) -> int:
    """The greatest exponent field of a finite number."""
    return (1 << f.exponent_bits) - (1 if f.infinity is None else 2)


def _least(f: FloatFormat) -> int:
    return 1 - f.bias


def _smallest(f: FloatFormat) -> int:
    """The exponent of the least subnormal."""
    return 1 - f.bias - f.fraction_bits


def _greatest(f: FloatFormat) -> int:
    return _top(f) - f.bias


def _one_sign(f: FloatFormat) -> np.uint64:
    return np.uint64(1 << (f.bits - 1))


def _fractions(draw: Draw, f: FloatFormat, shape: tuple[int, ...]) -> Words:
    """Fractions: random (half of them), none, all ones, a single one, or ones in the upper half only."""
    words, bits = draw.words(*shape), np.uint64(f.fraction_bits)
    random = words >> (np.uint64(64) - bits)
    style = words & np.uint64(7)
    single = _ONE << ((words >> np.uint64(3) & np.uint64(0xFF)) % bits)
    upper = random >> (bits // np.uint64(2)) << (bits // np.uint64(2))
    everything = np.uint64((1 << f.fraction_bits) - 1)
    return np.select([style < 4, style == 4, style == 5, style == 6], [random, random * 0, everything, single], upper)


def _signs(draw: Draw, shape: tuple[int, ...]) -> Words:
    return draw.words(*shape) >> np.uint64(63)


def _compose(
    draw: Draw, f: FloatFormat, exponents: Exponents | Words, fractions: Words | np.uint64, signs: Words, shape: tuple[int, ...]
) -> Words:
    """Finite numbers: 1.fraction * 2^exponent, cut where that is subnormal; an exponent above the format's becomes its
    greatest. Bits that the format ignores are random."""
    exponents = np.minimum(np.asarray(exponents, np.int64), _greatest(f))
    field = np.maximum(exponents + f.bias, 0).astype(np.uint64)
    below = np.clip(_least(f) - exponents, 0, 63).astype(np.uint64)
    hidden = np.uint64(1 << f.fraction_bits)
    magnitude = np.where(below > 0, (hidden | fractions) >> below, field << np.uint64(f.fraction_bits) | fractions)
    if f.infinity is None:
        magnitude = np.minimum(magnitude, np.uint64(f.nan - 1))
    magnitude = np.broadcast_to(magnitude, shape) << np.uint64(f.ignored_low_bits)
    if f.ignored_low_bits:
        magnitude = magnitude | draw.words(*shape) >> np.uint64(64 - f.ignored_low_bits)
    return magnitude | np.asarray(signs, np.uint64) << np.uint64(f.bits - 1)


def _numbers(draw: Draw, f: FloatFormat, exponents: Exponents | Words, shape: tuple[int, ...]) -> Words:
    return _compose(draw, f, exponents, _fractions(draw, f, shape), _signs(draw, shape), shape)


def _zeroed(draw: Draw, f: FloatFormat, bits: Words, sixteenths: int) -> Words:
    """Some elements made zero, with their sign."""
    return np.where(draw.chance(sixteenths, *bits.shape), bits & _one_sign(f), bits)


def special_values(f: FloatFormat) -> Words:
    """Zeros, ends of the subnormal and normal ranges, one, infinities and NaNs of all sorts, both signs."""
    top = f.infinity if f.infinity is not None else f.nan
    hidden = 1 << (f.fraction_bits + f.ignored_low_bits)
    unit = 1 << f.ignored_low_bits
    nans = {f.nan, f.nan + unit, top | hidden >> 1, (1 << (f.bits - 1)) - 1}
    # Twice what is not finite: there are fewer kinds of it. A tf32 whose payload is in the ignored bits is an infinity.
    magnitudes = [0, unit, hidden - unit, hidden, f.bias * hidden, top - unit, top, top, *nans]
    if f.ignored_low_bits:
        magnitudes += [1, top | 1]
    return np.array([x | s << (f.bits - 1) for x in magnitudes for s in (0, 1)], np.uint64)


def _product(a: Words, b: Words, s: Sizes) -> Words:
    """The bits of ``a * b`` in C's format, cut toward zero; a and b are normal with at most 25 significant fraction bits."""

    def split(bits: Words, f: FloatFormat) -> tuple[Words, Exponents, int]:
        kept = min(f.fraction_bits, 25)
        magnitude = bits & np.uint64(f.magnitude_mask)
        field = (magnitude >> np.uint64(f.fraction_bits + f.ignored_low_bits)).astype(np.int64)
        fraction = magnitude >> np.uint64(f.fraction_bits - kept + f.ignored_low_bits) & np.uint64((1 << kept) - 1)
        return fraction | np.uint64(1 << kept), field - f.bias, kept

    (x, x_exponent, x_bits), (y, y_exponent, y_bits) = split(a, s.a), split(b, s.b)
    product, point = x * y, x_bits + y_bits
    carry = product >> np.uint64(point + 1)
    fraction = product << (np.uint64(62 - point) - carry) & np.uint64((1 << 62) - 1)
    exponent = x_exponent + y_exponent + carry.astype(np.int64)
    field = np.clip(exponent + s.c.bias, 0, _top(s.c)).astype(np.uint64)
    magnitude: Words = field << np.uint64(s.c.fraction_bits) | fraction >> np.uint64(62 - s.c.fraction_bits)
    sign: Words = (a >> np.uint64(s.a.bits - 1)) ^ (b >> np.uint64(s.b.bits - 1))
    return magnitude | sign << np.uint64(s.c.bits - 1)


def _centres(draw: Draw, s: Sizes, upper_half: bool = False) -> tuple[Exponents, Exponents]:
    """An exponent for each row of A and each column of B, such that their sum is well inside C's range."""

    def centre(f: FloatFormat, *shape: int) -> Exponents:
        low, high = max((1 - s.c.bias) // 2, _least(f)), min(s.c.bias // 2, _greatest(f))
        return draw.between((low + high + 1) // 2 if upper_half else low, high, *shape)

    return centre(s.a, s.products, s.m, 1), centre(s.b, s.products, 1, s.n)


# ------------------------------------------------------------------------------------------------ classes


def _raw(draw: Draw, s: Sizes) -> Matrices:
    """Every bit random: NaNs and infinities as often as that makes them."""
    a, b, c = (draw.words(*shape) >> np.uint64(64 - f.bits) for shape, f in zip(s.shapes, (s.a, s.b, s.c), strict=True))
    return a, b, c


def _near_one(draw: Draw, s: Sizes) -> Matrices:
    """All within a few powers of two of one: what programs compute with."""
    a, b, c = s.shapes
    return (
        _numbers(draw, s.a, draw.between(-2, 1, *a), a),
        _numbers(draw, s.b, draw.between(-2, 1, *b), b),
        _numbers(draw, s.c, draw.between(-4, 4, *c), c),
    )


def _wide(draw: Draw, s: Sizes) -> Matrices:
    """Any exponent, each as often."""
    a, b, c = s.shapes
    return (
        _numbers(draw, s.a, draw.between(_least(s.a) - 1, _greatest(s.a), *a), a),
        _numbers(draw, s.b, draw.between(_least(s.b) - 1, _greatest(s.b), *b), b),
        _numbers(draw, s.c, draw.between(_least(s.c) - 1, _greatest(s.c), *c), c),
    )


def _window(draw: Draw, s: Sizes) -> Matrices:
    """Exponents that spread by up to 30 below a centre, and C within 28 of the products: every distance of alignment."""
    a, b, c = s.shapes
    row, column = _centres(draw, s)
    spread = draw.pick((2, 4, 9, 17, 31), s.products, 1, 1)
    return (
        _numbers(draw, s.a, row - draw.below(1 << 20, *a) % spread, a),
        _numbers(draw, s.b, column - draw.below(1 << 20, *b) % spread, b),
        _numbers(draw, s.c, row + column + draw.between(-28, 28, *c), c),
    )


def _edge(draw: Draw, s: Sizes) -> Matrices:
    """One large term, the others at the distances where bits are cut off or decide a tie; few significant bits in each."""
    a, b, c = s.shapes
    row, column = _centres(draw, s, upper_half=True)
    distance = np.where(draw.chance(4, s.products, 1, s.k), s.c.fraction_bits + 1, draw.between(18, 31, s.products, 1, s.k))
    distance[:, :, draw.below(s.k)] = 0
    of_a = distance // 2
    few = [_fractions(draw, f, shape) for f, shape in ((s.a, a), (s.b, b))]
    few = [np.where(draw.chance(10, *x.shape), x & np.uint64(0), x) for x in few]
    one_sign = draw.chance(8, s.products, 1, 1)  # so that what is cut off adds up
    signs = [np.where(one_sign, np.uint64(0), _signs(draw, shape)) for shape in (a, b)]
    c_distance = np.where(draw.chance(8, *c), draw.between(18, 31, *c), draw.between(-31, 2, *c))
    x = _compose(draw, s.a, row - of_a, few[0], signs[0], a)
    y = _compose(draw, s.b, column - (distance - of_a).transpose(0, 2, 1), few[1], signs[1], b)
    z = _zeroed(draw, s.c, _numbers(draw, s.c, row + column - c_distance, c), 6)
    return _mixed((x, y, z), _ties(draw, s)) if s.c.name == "f16" else (x, y, z)


def _ties(draw: Draw, s: Sizes) -> Matrices:
    """Three products: one that the result's format holds, half a unit of its last place, and a far smaller one that decides."""
    row, column = _centres(draw, s, upper_half=True)
    x, y, z = (np.zeros(shape, np.uint64) for shape in s.shapes)
    tie = s.c.fraction_bits + 1
    # Elements 0, 1 and 4 are in one step whether it takes all k or those of k mod 4 in {0, 1}.
    for k, distance in ((0, 0), (1, tie), (4 if s.k > 4 else 2, draw.between(18, 29, s.products, 1, 1))):
        of_a = distance // 2
        fractions = _fractions(draw, s.a, (s.products, s.m, 1)) if k != 1 else np.uint64(0)
        signs = [_signs(draw, (s.products, s.m, 1)), _signs(draw, (s.products, 1, s.n))]
        x[:, :, k : k + 1] = _compose(draw, s.a, row - of_a, fractions, signs[0], (s.products, s.m, 1))
        y[:, k : k + 1, :] = _compose(draw, s.b, column - (distance - of_a), np.uint64(0), signs[1], (s.products, 1, s.n))
    return x, y, z


def _mixed(some: Matrices, others: Matrices) -> Matrices:
    """Products of both by turns."""
    first = np.arange(len(some[0]))[:, None, None] % 2 == 0
    a, b, c = (np.where(first, x, y) for x, y in zip(some, others, strict=True))
    return a, b, c


def _sparse(draw: Draw, s: Sizes) -> Matrices:
    """As the window, most products zero: single terms show."""
    a, b, c = _window(draw, s)
    return _zeroed(draw, s.a, a, 12), _zeroed(draw, s.b, b, 6), _zeroed(draw, s.c, c, 8)


def _zeros(draw: Draw, s: Sizes) -> Matrices:
    """Zeros of both signs, here and there a subnormal or small number: which zero comes out."""
    a, b, c = s.shapes
    x = _numbers(draw, s.a, draw.between(_smallest(s.a), _least(s.a) + 2, *a), a)
    y = _numbers(draw, s.b, draw.between(_smallest(s.b), _least(s.b) + 2, *b), b)
    z = _numbers(draw, s.c, draw.between(_smallest(s.c), _least(s.c) + 2, *c), c)
    return _zeroed(draw, s.a, x, 14), _zeroed(draw, s.b, y, 8), _zeroed(draw, s.c, z, 14)


def _subnormal(draw: Draw, s: Sizes) -> Matrices:
    """One operand subnormal, the other anything; C subnormal, or of the products' size."""
    a, b, c = s.shapes
    small_a = draw.chance(8, s.products, 1, 1)
    small_b = ~small_a | draw.chance(4, s.products, 1, 1)

    def operand(f: FloatFormat, small: NDArray[np.bool_], shape: tuple[int, int, int]) -> Words:
        low = draw.between(_smallest(f), _least(f) + 2, *shape)
        return _numbers(draw, f, np.where(small, low, draw.between(_least(f), _greatest(f), *shape)), shape)

    x, y = operand(s.a, small_a, a), operand(s.b, small_b, b)
    low = draw.between(_smallest(s.c), _least(s.c) + 10, *c)
    sized = _smallest(s.a) + draw.between(_least(s.b), _greatest(s.b), *c)
    z = _numbers(draw, s.c, np.where(draw.chance(8, s.products, 1, 1), low, sized), c)
    return x, y, _zeroed(draw, s.c, z, 4)


def _cancellation(draw: Draw, s: Sizes) -> Matrices:
    """Products that cancel in pairs up to a last bit, or one that cancels C: what is left are the bits that were kept."""
    a, b, c = s.shapes
    row, column = _centres(draw, s)
    x = _numbers(draw, s.a, row - draw.between(0, 3, *a), a)
    y = _numbers(draw, s.b, column - draw.between(0, 3, *b), b)
    if s.a.fraction_bits > 25:
        x, y = (z >> np.uint64(27) << np.uint64(27) for z in (x, y))
    half = s.k // 2
    neighbours = np.arange(s.k).reshape(half, 2)
    apart = np.stack([np.arange(half), np.arange(half) + half], axis=1)
    for part, pairs in ((slice(0, None, 2), neighbours), (slice(1, None, 2), apart)):
        x[part, :, pairs[:, 1]] = x[part, :, pairs[:, 0]]
        y[part, pairs[:, 1], :] = y[part, pairs[:, 0], :] ^ _one_sign(s.b)
    # The last bit, and now and then a bit that is dropped in aligning.
    x ^= draw.chance(2, *a).astype(np.uint64) << np.uint64(s.a.ignored_low_bits)
    y ^= draw.chance(2, *b).astype(np.uint64) << np.uint64(s.b.ignored_low_bits)
    product = _product(x[:, :, :1], y[:, :1, :], s) ^ _one_sign(s.c)
    product ^= (draw.chance(4, *c)).astype(np.uint64)
    with_c = draw.chance(8, s.products, 1, 1)
    # Then the partners of product 0 must not cancel it first.
    for k in {1, half}:
        y[:, k] = np.where(with_c[:, 0], y[:, k] & _one_sign(s.b), y[:, k])
    small = _zeroed(draw, s.c, _numbers(draw, s.c, row + column - draw.between(0, 28, *c), c), 8)
    return x, y, np.where(with_c, product, small)


def _overflow(draw: Draw, s: Sizes) -> Matrices:
    """Products, sums and C at the end of C's range, or as near as the operands come."""
    a, b, c = s.shapes
    target = _greatest(s.c) - draw.between(-1, 4, s.products, 1, 1)
    x_exponent = np.clip(draw.between(_least(s.a), _greatest(s.a), s.products, s.m, 1), target - _greatest(s.b), target)
    x_exponent = np.minimum(x_exponent, _greatest(s.a))
    y_exponent = np.clip(target - x_exponent[:, :1], _least(s.b), _greatest(s.b))
    one_sign = draw.chance(8, s.products, 1, 1)
    signs = [np.where(one_sign, np.uint64(0), _signs(draw, shape)) for shape in s.shapes]
    x = _compose(draw, s.a, x_exponent - draw.between(0, 3, *a), _fractions(draw, s.a, a), signs[0], a)
    y = _compose(draw, s.b, y_exponent - draw.between(0, 2, *b), _fractions(draw, s.b, b), signs[1], b)
    z = _compose(draw, s.c, _greatest(s.c) - draw.between(0, 2, *c), _fractions(draw, s.c, c), signs[2], c)
    return _zeroed(draw, s.a, x, 4), y, _zeroed(draw, s.c, z, 4)


def _special(draw: Draw, s: Sizes) -> Matrices:
    """Ordinary numbers with zeros, infinities, NaNs and the ends of ranges among them, from one in 64 to half."""
    rate = draw.pick((1, 2, 8, 32), s.products, 1, 1)
    mixed = []
    for bits, f in zip(_near_one(draw, s), (s.a, s.b, s.c), strict=True):
        here = draw.below(64, *bits.shape) < rate
        mixed.append(np.where(here, draw.pick(special_values(f), *bits.shape), bits))
    return mixed[0], mixed[1], mixed[2]


def _floor(draw: Draw, s: Sizes) -> Matrices:
    """Few products, at or below the least number of C's format, and C zero or subnormal: the least exponent of alignment.

    Half are as :func:`_near_the_floor` says, if the operands reach that far down.
    """
    a, b, c = s.shapes
    target = _least(s.c) + draw.between(-36, 2, s.products, 1, 1)
    x_exponent = draw.between(_least(s.a), _greatest(s.a), s.products, s.m, 1)
    x_exponent = np.clip(x_exponent, target - _greatest(s.b), np.maximum(target - _least(s.b), _least(s.a)))
    y_exponent = target - x_exponent[:, :1] + draw.between(-2, 2, s.products, 1, s.n)
    x = _zeroed(draw, s.a, _numbers(draw, s.a, x_exponent - draw.between(0, 3, *a), a), 10)
    y = _numbers(draw, s.b, y_exponent - draw.between(0, 2, *b), b)
    z = _zeroed(draw, s.c, _numbers(draw, s.c, draw.between(_smallest(s.c), _least(s.c), *c), c), 12)
    if _smallest(s.a) + _smallest(s.b) > _smallest(s.c) - s.c.fraction_bits:
        return x, y, z  # no product is so small that its alignment could show
    return _mixed((x, y, z), _near_the_floor(draw, s))


def _near_the_floor(draw: Draw, s: Sizes) -> Matrices:
    """Two products that make all the difference: one of the size of the least subnormal number of C's format (float16: of
    half of it, which is a tie, since there sums are rounded to nearest), and one that is smaller by 2^1 to 2^24 and decides
    whether the result is zero, unless it is cut off. C is a zero."""
    x, y, z = (np.zeros(shape, np.uint64) for shape in s.shapes)
    size = _smallest(s.c) - (1 if s.c.name == "f16" else 0)
    row, column = (s.products, s.m, 1), (s.products, 1, s.n)
    each = (draw.below(24, s.products, 1, 1) + np.arange(s.m)[:, None]) % 24 + 1
    # The first of normal numbers, lest its exponent be above the floor; the second as far down as operands go.
    for k, below, least in ((0, np.zeros(row, np.int64), _least(s.a)), (1, each, _smallest(s.a) + 24)):
        of_b = np.maximum(size - least - draw.between(0, 2, s.products, 1, 1), _smallest(s.b))
        x[:, :, k : k + 1] = _compose(draw, s.a, size - below - of_b, np.uint64(0), _signs(draw, row), row)
        y[:, k : k + 1, :] = _compose(draw, s.b, of_b, np.uint64(0), _signs(draw, column), column)
    return x, y, z ^ (_signs(draw, z.shape) << np.uint64(s.c.bits - 1))


FLOAT_CLASSES: dict[str, Callable[[Draw, Sizes], Matrices]] = {
    "raw": _raw,
    "near_one": _near_one,
    "wide": _wide,
    "window": _window,
    "edge": _edge,
    "sparse": _sparse,
    "zeros": _zeros,
    "subnormal": _subnormal,
    "cancellation": _cancellation,
    "overflow": _overflow,
    "specials": _special,
    "floor": _floor,
}
"""Every class, by name."""
