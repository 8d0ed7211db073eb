# mypy: allow-untyped-defs, allow-untyped-calls
"""Reading operands: from the registers of a warp to significands and exponents, eight elements at a time.

**Planes.** A kernel gets each matrix operand of a warp as ``x[register, lane]``: C-contiguous uint32, 32 lanes.
Whatever the element type, the words of ``mma.sync`` fragments lie the same way (:mod:`isa.tensor.layouts`). With
g = lane / 4, t = lane % 4:

* A: register ``r + (m / 8) * q`` of lane (g, t) is word ``t + 4 * q`` of row ``g + 8 * r``,
* B: register ``q`` of lane (g, t) is word ``t + 4 * q`` of column ``g``,
* C and D, 32 bits: registers ``2r`` and ``2r + 1`` of lane (g, t) are columns ``2t`` and ``2t + 1`` of row
  ``g + 8 * r``; 16 bits: the same two elements are the low and the high half of register ``r``.

The kernels first put them in order. A becomes *rows* of words. B becomes rows of eight, one vector each: row ``w``
holds word ``w`` of every column. Accumulators become a *tile*: row after row, eight elements each. Columns are kept in
the order 0 2 4 6 1 3 5 7, in which the even and the odd columns of a row are two runs of four lanes of C.

**Decoded operands** are two arrays. ``significand`` (float32) holds the integer significand times a scale, with the
sign; ``exponent`` (int32) the exponent of the encoding: a subnormal has the least exponent and is not normalised. A
zero has the exponent :data:`ZERO_EXPONENT`, far below any other, and a significand of one unit in place of none:
whatever is that small is truncated away, so the arithmetic needs no test for it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from isa.compiled import compiled, inlined
from isa.tensor.formats import FLOAT_FORMATS
from isa.tensor.simd import any_lane, bitcast, convert, load4x2, load8, maximum, select, splat, store4x2, store8

__all__ = [
    "COLUMN_ORDER", "ZERO_EXPONENT", "FormatNumbers", "Operands", "class_of", "class_words", "decode", "decode_words",
    "format_numbers", "load_tile_16", "load_tile_32", "order_a", "order_b", "store_tile_16", "store_tile_32",
]  # fmt: skip

COLUMN_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
"""The column of each lane of a tile row."""

ZERO_EXPONENT = -(1 << 20)

_SIGN = np.uint32(0x80000000)
_NAN, _INFINITY = np.float32(np.nan), np.float32(np.inf)


class FormatNumbers(NamedTuple):
    """A :class:`~isa.tensor.formats.FloatFormat` as the integers that compiled code takes.

    ``special`` is the least magnitude that is not finite. With ``normalise``, subnormals are given the form 1.f: how a
    number looks once unpacked to a format of wider exponent range.
    """

    bits: int
    fraction_bits: int
    ignored_low_bits: int
    bias: int
    magnitude_mask: int
    special: int
    nan: int
    normalise: int


class Operands(NamedTuple):
    """A and B of one product, decoded. Rows of A are ``words`` words (a multiple of four) of ``per_word`` elements,
    ``m`` of them; element ``e`` of word ``w`` of row ``r`` is at ``(e * m + r) * words + w`` of A's arrays. Element
    ``e`` of word ``w`` of column ``COLUMN_ORDER[i]`` is at ``(e * words + w) * 8 + i`` of B's. ``a_rows`` and
    ``b_rows`` hold the words undecoded. ``special`` says whether any element is infinite or NaN."""

    m: int
    words: int
    per_word: int
    a_rows: np.ndarray
    b_rows: np.ndarray
    a_significand: np.ndarray
    a_exponent: np.ndarray
    b_significand: np.ndarray
    b_exponent: np.ndarray
    a_format: FormatNumbers
    b_format: FormatNumbers
    special: bool


def format_numbers(name: str, normalise: bool = False) -> FormatNumbers:
    """The numbers of a format, by its PTX name."""
    f = FLOAT_FORMATS[name]
    special = f.nan if f.infinity is None else f.infinity
    return FormatNumbers(
        f.bits, f.fraction_bits, f.ignored_low_bits, f.bias, f.magnitude_mask, special, f.nan, int(normalise)
    )


@inlined
def decode(words: Any, position: int, f: FormatNumbers, scale: Any) -> Any:
    """Element ``position`` of each of eight words (uint32 lanes).

    Returns the significand (float32 lanes, the integer significand times ``scale``, signed), the exponent (int32 lanes)
    and the mask of the elements that are infinite or NaN; of those, the first two mean nothing but stay in range.
    """
    raw = words >> (position * f.bits)
    magnitude = raw & f.magnitude_mask
    field = bitcast(magnitude >> (f.fraction_bits + f.ignored_low_bits), np.int32)
    fraction = bitcast(magnitude >> f.ignored_low_bits, np.int32) & ((1 << f.fraction_bits) - 1)
    whole = select(field > 0, fraction | (1 << f.fraction_bits), fraction)
    is_zero = magnitude == 0
    significand = convert(select(is_zero, 1, whole), np.float32)
    exponent = maximum(field, 1) - f.bias
    if f.normalise:
        # Converting to float32 has normalised the integer; move the exponent it found from there to here.
        excess = (bitcast(significand, np.int32) >> 23) - (127 + f.fraction_bits)
        significand = bitcast(bitcast(significand, np.int32) - (excess << 23), np.float32)
        exponent = exponent + excess
    sign = (raw << (32 - f.bits)) & _SIGN
    significand = bitcast(bitcast(significand * scale, np.uint32) | sign, np.float32)
    return significand, select(is_zero, ZERO_EXPONENT, exponent), magnitude >= f.special


@compiled
def decode_words(
    significand: Any, exponent: Any, words: Any, count: int, per_word: int, f: FormatNumbers, scale: Any
) -> Any:
    """Decode ``count`` words (a multiple of eight) of ``per_word`` elements each; element ``e`` of word ``i`` goes to
    position ``e * count + i``. Returns whether any element is infinite or NaN."""
    special = splat(0, np.int32) != 0
    for e in range(per_word):
        for i in range(0, count, 8):
            s, x, mask = decode(load8(words, i), e, f, scale)
            store8(significand, e * count + i, s)
            store8(exponent, e * count + i, x)
            special = special | mask
    return any_lane(special)


@inlined
def class_of(words: Any, position: int, f: FormatNumbers) -> Any:
    """Element ``position`` of each word as a float32 that stands for its class: NaN, infinity, zero or, for anything
    else, one; the last three with the sign. IEEE sums of products of these are NaN or infinite exactly where those of
    the numbers are."""
    raw = words >> (position * f.bits)
    magnitude = raw & f.magnitude_mask
    ordinary = select(magnitude == 0, splat(0, np.float32), 1)
    value = select(magnitude >= f.nan, _NAN, select(magnitude >= f.special, _INFINITY, ordinary))
    return bitcast(bitcast(value, np.uint32) | ((raw << (32 - f.bits)) & _SIGN), np.float32)


@compiled
def class_words(classes: Any, words: Any, count: int, per_word: int, f: FormatNumbers) -> None:
    """:func:`class_of` for ``count`` words, in the places of :func:`decode_words`."""
    for e in range(per_word):
        for i in range(0, count, 8):
            store8(classes, e * count + i, class_of(load8(words, i), e, f))


@compiled
def order_a(rows: Any, a: Any, m: int, registers: int) -> None:
    """Turn ``m / 8 * registers`` planes of A into ``m`` rows of ``4 * registers`` words (32 or 64 bits)."""
    words = 4 * registers
    for row in range(0, m, 2):
        for q in range(registers):
            lane = (q * (m >> 3) + (row >> 3)) * 32 + (row & 7) * 4
            store4x2(rows, row * words + 4 * q, (row + 1) * words + 4 * q, load8(a, lane))


@compiled
def order_b(rows: Any, b: Any, registers: int) -> None:
    """Turn ``registers`` planes of B into ``4 * registers`` rows of eight words (32 or 64 bits)."""
    for q in range(registers):
        for t in range(4):
            for c in range(4):
                rows[(4 * q + t) * 8 + c] = b[q, 8 * c + t]
                rows[(4 * q + t) * 8 + 4 + c] = b[q, 8 * c + 4 + t]


@inlined
def load_tile_32(tile: Any, c: Any, m: int) -> None:
    """Accumulators of 32 (or 64) bits, ``m`` rows, to a tile."""
    for row in range(m):
        at = (row >> 3) * 64 + (row & 7) * 4
        store8(tile, row * 8, load4x2(c, at, at + 32))


@inlined
def store_tile_32(d: Any, tile: Any, m: int) -> None:
    """The inverse of :func:`load_tile_32`."""
    for row in range(m):
        at = (row >> 3) * 64 + (row & 7) * 4
        store4x2(d, at, at + 32, load8(tile, row * 8))


@inlined
def load_tile_16(tile: Any, c: Any, m: int) -> None:
    """Packed accumulators of 16 bits, ``m`` rows, to a tile of 32-bit words whose upper halves are zero."""
    for row in range(m):
        at = (row >> 3) * 32 + (row & 7) * 4
        words = load4x2(c, at, at)  # four words, twice
        store8(tile, row * 8, words & 0xFFFF)
        store4x2(tile, row * 8 + 4, row * 8 + 4, words >> 16)


@inlined
def store_tile_16(d: Any, tile: Any, m: int) -> None:
    """The inverse of :func:`load_tile_16`."""
    for row in range(m):
        at = (row >> 3) * 32 + (row & 7) * 4
        even, odd = load4x2(tile, row * 8, row * 8), load4x2(tile, row * 8 + 4, row * 8 + 4)
        store4x2(d, at, at, even | (odd << 16))
