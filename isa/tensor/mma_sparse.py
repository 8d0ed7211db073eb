# mypy: allow-untyped-defs, allow-untyped-calls
"""``mma.sp``: for each row of A, the rows of B that the metadata chooses, then the arithmetic of the dense instruction.

A row's stored elements meet, in their order, the elements of B that their codes name, and nothing else of B, so that an
infinity or a NaN there goes unseen. From then on a stored element is an element: a step takes as many stored products as
that of the dense instruction takes products. Source: recordings of every form on an H200, driver 580.159.04, in
``traces/vectors``; half as many products in a step fail to reproduce them.

Not modelled: for FP8 on sm_90, ptxas 13.0 makes code that takes a lane's place in its group from ``%tid.x``. In a CTA whose
width is no multiple of four it mixes lanes up; here it never does.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from isa.arith.stack import stack_array
from isa.compiled import compiled, inlined
from isa.tensor.fused import MAX_A, MAX_B, MAX_TILE
from isa.tensor.mma_float import FloatNumbers, accumulate, load_accumulator, store_accumulator
from isa.tensor.mma_integer import MAX_INTEGER_A, IntegerNumbers, add_row, unpack
from isa.tensor.operands import Operands, decode_words, load_tile_32, order_a, order_b, store_tile_32
from isa.tensor.simd import load8, load_repeated, splat, store8

__all__ = [
    "MAX_SPARSE_B_WORDS", "MetadataNumbers", "SparseFloatNumbers", "SparseIntegerNumbers", "bad_metadata", "chosen_unit",
    "mma_sparse_float", "mma_sparse_integer", "row_codes", "sparse_rows", "sparse_source",
]  # fmt: skip

_MAX_ROW = 32  # elements of a stored row; of its words, eight are read from the last four on
_MAX_A_WORDS = 128  # 16 rows of 8
MAX_SPARSE_B_WORDS = 128
"""16 rows of 8."""

_MAX_DENSE_B = 512  # elements: 64 x 8 of 8 bits
_MAX_DENSE_INTEGER_B = 1024  # 128 x 8 of 4 bits


class MetadataNumbers(NamedTuple):
    """A :class:`~isa.tensor.metadata.MetadataLayout`; ``word_shift``, of two to which a word has so many units;
    ``elements`` of a unit, 0 for a part of one; and in ``allowed`` a bit for each of the 16 pairs of codes: whether it may
    occur. ``meaning``: whether PTX gives it one, which matters where it is known what others do."""

    unit_bits: int
    units: int
    lanes: int
    word_shift: int
    elements: int
    allowed: int
    meaning: int


class SparseFloatNumbers(NamedTuple):
    """``dense`` is the form that has as many elements in a row of A as this one stores."""

    dense: FloatNumbers
    metadata: MetadataNumbers


class SparseIntegerNumbers(NamedTuple):
    """As :class:`SparseFloatNumbers`."""

    dense: IntegerNumbers
    metadata: MetadataNumbers


@inlined
def row_codes(row: int, metadata: Any, selector: int, p: MetadataNumbers) -> Any:
    """The codes of a row, first unit lowest (:func:`isa.tensor.metadata.metadata_fragment` says where they are)."""
    first = 4 * (row & 7) + p.lanes * selector
    codes = np.uint64(0)
    if p.unit_bits == 16:
        for i in range(p.units >> 3):
            half = (np.uint64(metadata[first + i]) >> np.uint64(16 * (row >> 3))) & np.uint64(0xFFFF)
            codes |= half << np.uint64(16 * i)
    else:
        for i in range(p.units >> 4):
            codes |= np.uint64(metadata[first + (row >> 3) + 2 * i]) << np.uint64(32 * i)
    return codes


@compiled
def bad_metadata(metadata: Any, selector: int, p: MetadataNumbers) -> Any:
    """Where the first pair of codes is that may not occur, as ``32 * lane + bit``; -1 if there is none. ``metadata``
    is the operand, ``[lane]``."""
    return -1 if p.allowed == 0xFFFF else _first_without(metadata, selector, p, p.allowed)


@inlined
def without_meaning(metadata: Any, selector: int, p: MetadataNumbers) -> Any:
    """Whether there is a pair of codes without a meaning, where all may occur."""
    return p.allowed == 0xFFFF and _first_without(metadata, selector, p, p.meaning) >= 0


@inlined
def _first_without(metadata: Any, selector: int, p: MetadataNumbers, pairs: int) -> Any:
    for row in range(16):
        codes = row_codes(row, metadata, selector, p)
        for unit in range(0, p.units, 2):
            pair = (codes >> np.uint64(2 * unit)) & np.uint64(15)
            if (np.uint64(pairs) >> pair) & np.uint64(1) == 0:
                lane = 4 * (row & 7) + p.lanes * selector
                if p.unit_bits == 16:
                    return 32 * (lane + (unit >> 3)) + 16 * (row >> 3) + 2 * (unit & 7)
                return 32 * (lane + (row >> 3) + 2 * (unit >> 4)) + 2 * (unit & 15)
    return -1


@inlined
def chosen_unit(codes: Any, unit: int) -> Any:
    """The unit of a column of B that a stored unit meets."""
    return 4 * (unit >> 1) + np.int64((codes >> np.uint64(2 * unit)) & np.uint64(3))


@compiled
def _gather_words(chosen: Any, b_rows: Any, codes: Any, words: int, p: MetadataNumbers) -> None:
    """``words`` rows of eight words of B: what meets the stored words of a row of A. ``b_rows`` holds twice as many."""
    per_word, mask = 1 << p.word_shift, (1 << p.unit_bits) - 1
    for w in range(words):
        word = splat(0, np.uint32)
        for i in range(per_word):
            unit = chosen_unit(codes, (w << p.word_shift) + i)
            source = load8(b_rows, (unit >> p.word_shift) * 8)
            word = word | (((source >> ((unit & (per_word - 1)) * p.unit_bits)) & mask) << (i * p.unit_bits))
        store8(chosen, w * 8, word)


@inlined
def sparse_source(codes: Any, w: int, e: int, words: int, p: MetadataNumbers) -> Any:
    """Where the element of B that meets element ``e`` of stored word ``w`` is in arrays of elements of B."""
    per_word = 1 << p.word_shift
    pairs = p.elements >> 1  # 1 where a unit is a pair of elements
    unit = chosen_unit(codes, (w << p.word_shift) + (e >> pairs))
    position = (unit & (per_word - 1)) * p.elements + (e & pairs)
    return (position * 2 * words + (unit >> p.word_shift)) * 8


@compiled
def sparse_rows(
    tile: Any, a: Any, b: Any, metadata: Any, selector: int, row_shift: Any, column_shift: Any, p: SparseFloatNumbers
) -> None:
    """``tile`` += ``a`` * ``b``, row by row. ``row_shift`` and ``column_shift`` (int32; columns as in a tile) are added to the
    exponents of A and B."""
    a_significand, a_exponent = stack_array(MAX_A, np.float32), stack_array(MAX_A, np.int32)
    b_significand, b_exponent = stack_array(_MAX_DENSE_B, np.float32), stack_array(_MAX_DENSE_B, np.int32)
    row_a_significand, row_a_exponent = stack_array(_MAX_ROW, np.float32), stack_array(_MAX_ROW, np.int32)
    row_b_significand, row_b_exponent = stack_array(MAX_B, np.float32), stack_array(MAX_B, np.int32)
    a_rows, b_rows = stack_array(_MAX_A_WORDS, np.uint32), stack_array(MAX_SPARSE_B_WORDS, np.uint32)
    row_words, chosen = stack_array(_MAX_ROW, np.uint32), stack_array(MAX_B, np.uint32)
    row_tile = stack_array(MAX_TILE, np.uint32)
    dense = p.dense
    words, per_word = 4 * dense.b_registers, dense.per_word
    order_a(a_rows, a, dense.m, dense.b_registers)
    order_b(b_rows, b, 2 * dense.b_registers)
    scale = np.float32(2.0 ** (dense.step.fraction_bits - dense.a.fraction_bits - dense.b.fraction_bits))
    count = dense.m * words
    special = decode_words(a_significand, a_exponent, a_rows, count, per_word, dense.a, scale)
    if decode_words(b_significand, b_exponent, b_rows, 16 * words, per_word, dense.b, np.float32(1)):
        special = True
    for i in range(_MAX_ROW):
        row_words[i] = 0
    for row in range(dense.m):
        codes = row_codes(row, metadata, selector, p.metadata)
        _gather_words(chosen, b_rows, codes, words, p.metadata)
        if p.metadata.elements == 0:  # the halves of an element may come from two
            found = decode_words(row_b_significand, row_b_exponent, chosen, 8 * words, per_word, dense.b, np.float32(1))
            special = special | found
        for e in range(per_word):
            for w in range(words):
                target = e * words + w
                if p.metadata.elements != 0:
                    source = sparse_source(codes, w, e, words, p.metadata)
                    store8(row_b_significand, 8 * target, load8(b_significand, source))
                    store8(row_b_exponent, 8 * target, load8(b_exponent, source) + load8(column_shift, 0))
                row_a_significand[target] = a_significand[e * count + row * words + w]
                row_a_exponent[target] = a_exponent[e * count + row * words + w] + row_shift[row]
        for w in range(words):
            row_words[w] = a_rows[row * words + w]
        x = Operands(
            1, words, per_word, row_words, chosen, row_a_significand, row_a_exponent, row_b_significand, row_b_exponent,
            dense.a, dense.b, special,
        )  # fmt: skip
        store8(row_tile, 0, load8(tile, row * 8))
        accumulate(row_tile, x, dense)
        store8(tile, row * 8, load8(row_tile, 0))


@compiled
def mma_sparse_float(d: Any, a: Any, b: Any, c: Any, metadata: Any, selector: int, p: SparseFloatNumbers) -> None:
    """``d`` = ``a`` * ``b`` + ``c`` for one warp; each is ``[register, lane]``, uint32, and ``metadata`` ``[lane]``. ``d``
    may be ``c``.

    Shapes: B ``2 * dense.b_registers`` registers, the others as the dense form's.
    """
    tile = stack_array(MAX_TILE, np.uint32)
    row_shift, column_shift = stack_array(16, np.int32), stack_array(8, np.int32)
    for i in range(16):
        row_shift[i] = 0
    for i in range(8):
        column_shift[i] = 0
    load_accumulator(tile, c, p.dense)
    sparse_rows(tile, a, b, metadata, selector, row_shift, column_shift, p)
    store_accumulator(d, tile, p.dense)


@compiled
def mma_sparse_integer(d: Any, a: Any, b: Any, c: Any, metadata: Any, selector: int, p: SparseIntegerNumbers) -> None:
    """As :func:`mma_sparse_float`, s8/u8/s4/u4 to s32."""
    a_elements, b_elements = stack_array(MAX_INTEGER_A, np.int32), stack_array(_MAX_DENSE_INTEGER_B, np.int32)
    a_rows, b_rows = stack_array(_MAX_A_WORDS, np.uint32), stack_array(MAX_SPARSE_B_WORDS, np.uint32)
    tile = stack_array(MAX_TILE, np.uint32)
    dense = p.dense
    words, per_word, count = 4 * dense.b_registers, 32 // dense.bits, 4 * dense.m * dense.b_registers
    order_a(a_rows, a, dense.m, dense.b_registers)
    order_b(b_rows, b, 2 * dense.b_registers)
    unpack(a_elements, a_rows, count, dense.bits, dense.a_signed)
    unpack(b_elements, b_rows, 16 * words, dense.bits, dense.b_signed)
    load_tile_32(tile, c, dense.m)
    for row in range(dense.m):
        codes = row_codes(row, metadata, selector, p.metadata)
        total = splat(0, np.int32)
        for e in range(per_word):
            for w in range(words):
                source = sparse_source(codes, w, e, words, p.metadata)
                total = total + load8(b_elements, source) * load_repeated(a_elements, e * count + row * words + w)
        add_row(tile, row, total, dense.saturate)
    store_tile_32(d, tile, dense.m)
