# mypy: allow-untyped-defs, allow-untyped-calls
"""``mma`` with a ``.kind``: elements in containers, and block scales.

Small elements become ordinary ones when their container is shifted left by two: then the sign is the highest bit of eight,
and what follows the fraction is dropped. A scale that is a power of two only adds to exponents, so ``mxf8f6f4`` is the fused
step of :mod:`isa.tensor.fused` with other exponents. The 4-bit kinds sum 16 products at a time, exactly, and align those
sums: that is done here, in 64-bit integers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from isa.arith.primitives import bits_f64, f32_bits
from isa.arith.rounding import f64_to_f32_rz
from isa.arith.stack import stack_array
from isa.compiled import compiled, inlined
from isa.tensor.fused import MAX_A, MAX_B, MAX_TILE, NAN_F32
from isa.tensor.mma_float import FloatNumbers, accumulate, load_accumulator, mma_float, store_accumulator
from isa.tensor.mma_integer import unpack
from isa.tensor.mma_sparse import (
    MAX_SPARSE_B_WORDS,
    MetadataNumbers,
    SparseFloatNumbers,
    mma_sparse_float,
    row_codes,
    sparse_rows,
    sparse_source,
)
from isa.tensor.operands import Operands, decode_words, load_tile_32, order_a, order_b, store_tile_32
from isa.tensor.simd import load8, load_repeated, splat, store8

__all__ = [
    "GroupNumbers", "KindNumbers", "ScaledNumbers", "SparseKindNumbers", "mma_groups", "mma_kind", "mma_scaled",
    "mma_sparse_kind", "mma_sparse_scaled",
]  # fmt: skip

_MAX_PLANES = 128  # words of four registers
_MAX_ELEMENTS_A = 1024  # 16 rows of 64
_MAX_ELEMENTS_B = 1024  # 8 columns of 128
_NAN_SCALE = 1 << 20


class KindNumbers(NamedTuple):
    """``floats`` is the form of 8-bit elements. ``a_small`` and ``b_small``: elements are of fewer bits, to be shifted."""

    floats: FloatNumbers
    a_small: int
    b_small: int


class SparseKindNumbers(NamedTuple):
    """The same of ``mma.sp``."""

    floats: SparseFloatNumbers
    a_small: int
    b_small: int


class ScaledNumbers(NamedTuple):
    """``vec`` scales a row, of ``ue4m3`` if that is 1, else of ``ue8m0``."""

    vec: int
    ue4m3: int


class GroupNumbers(NamedTuple):
    """The 4-bit kinds: registers of B that a row of A meets, scales, F, the least emax; ``sparse`` is 1 for ``mma.sp``, whose
    metadata ``metadata`` describes."""

    b_registers: int
    scales: ScaledNumbers
    fraction_bits: int
    emax_floor: int
    sparse: int
    metadata: MetadataNumbers


@inlined
def _shifted(target: Any, source: Any, registers: int, small: int) -> None:
    """Registers with each container's element moved to its top, where ``small``."""
    for r in range(registers):
        for lane in range(32):
            word = source[r, lane]
            target[r * 32 + lane] = ((word & np.uint32(0x3F3F3F3F)) << np.uint32(2)) if small else word


@inlined
def _scale_word(words: Any, row: int, byte_id: int, thread_id: int, is_a: bool) -> Any:
    """The scales of a row of A or a column of B, the first in the lowest byte."""
    lane = 4 * (row & 7) + 2 * thread_id + (row >> 3) if is_a else 4 * row + thread_id
    return np.uint32(words[lane]) >> np.uint32(8 * byte_id)


@compiled
def _exponents(row_shift: Any, column_shift: Any, sa: Any, ida: Any, sb: Any, idb: Any) -> Any:
    """The exponents of ``ue8m0`` scales, of rows and columns; a NaN's is out of all range. Returns whether there is one."""
    special = False
    for row in range(16):
        code = np.int64(_scale_word(sa, row, ida[0], ida[1], True) & np.uint32(0xFF))
        row_shift[row] = code - 127 if code != 255 else _NAN_SCALE
        special |= code == 255
    for i in range(8):
        column = 2 * i if i < 4 else 2 * i - 7
        code = np.int64(_scale_word(sb, column, idb[0], idb[1], False) & np.uint32(0xFF))
        column_shift[i] = code - 127 if code != 255 else _NAN_SCALE
        special |= code == 255
    return special


@inlined
def _settle_scales(tile: Any, row_shift: Any, column_shift: Any) -> None:
    """NaN wherever a scale is."""
    for row in range(16):
        for i in range(8):
            if row_shift[row] == _NAN_SCALE or column_shift[i] == _NAN_SCALE:
                tile[row * 8 + i] = NAN_F32


@inlined
def _without_nan(shifts: Any, count: int) -> None:
    for i in range(count):
        shifts[i] = 0 if shifts[i] == _NAN_SCALE else shifts[i]


@compiled
def mma_kind(d: Any, a: Any, b: Any, c: Any, p: KindNumbers) -> None:
    """``d`` = ``a`` * ``b`` + ``c`` for one warp, 8-bit containers without scales; each is ``[register, lane]``, uint32."""
    a_flat, b_flat = stack_array(_MAX_PLANES, np.uint32), stack_array(_MAX_PLANES, np.uint32)
    _shifted(a_flat, a, 4, p.a_small)
    _shifted(b_flat, b, 2, p.b_small)
    mma_float(d, a_flat.reshape((4, 32)), b_flat.reshape((4, 32)), c, p.floats)


@compiled
def mma_sparse_kind(d: Any, a: Any, b: Any, c: Any, metadata: Any, selector: int, p: SparseKindNumbers) -> None:
    """The same of ``mma.sp``; ``metadata`` is ``[lane]``."""
    a_flat, b_flat = stack_array(_MAX_PLANES, np.uint32), stack_array(_MAX_PLANES, np.uint32)
    _shifted(a_flat, a, 4, p.a_small)
    _shifted(b_flat, b, 4, p.b_small)
    mma_sparse_float(d, a_flat.reshape((4, 32)), b_flat.reshape((4, 32)), c, metadata, selector, p.floats)


@compiled
def mma_scaled(d: Any, a: Any, b: Any, c: Any, sa: Any, ida: Any, sb: Any, idb: Any, p: KindNumbers) -> None:
    """``d`` = ``a`` * ``b`` + ``c`` for one warp, ``kind::mxf8f6f4``. ``sa`` and ``sb`` are ``[lane]``; ``ida`` and ``idb``
    {byte-id, thread-id}."""
    a_significand, a_exponent = stack_array(MAX_A, np.float32), stack_array(MAX_A, np.int32)
    b_significand, b_exponent = stack_array(MAX_B, np.float32), stack_array(MAX_B, np.int32)
    a_rows, b_rows = stack_array(MAX_A, np.uint32), stack_array(MAX_B, np.uint32)
    a_flat, b_flat = stack_array(_MAX_PLANES, np.uint32), stack_array(_MAX_PLANES, np.uint32)
    row_shift, column_shift = stack_array(16, np.int32), stack_array(8, np.int32)
    own_rows, own_columns = stack_array(16, np.int32), stack_array(8, np.int32)
    tile = stack_array(MAX_TILE, np.uint32)
    f = p.floats
    _shifted(a_flat, a, 4, p.a_small)
    _shifted(b_flat, b, 2, p.b_small)
    order_a(a_rows, a_flat.reshape((4, 32)), 16, 2)
    order_b(b_rows, b_flat.reshape((4, 32)), 2)
    nan_scale = _exponents(row_shift, column_shift, sa, ida, sb, idb)
    for i in range(16):
        own_rows[i] = row_shift[i]
    for i in range(8):
        own_columns[i] = column_shift[i]
    _without_nan(own_rows, 16)
    _without_nan(own_columns, 8)
    scale = np.float32(2.0 ** (f.step.fraction_bits - f.a.fraction_bits - f.b.fraction_bits))
    special = decode_words(a_significand, a_exponent, a_rows, 128, 4, f.a, scale)
    if decode_words(b_significand, b_exponent, b_rows, 64, 4, f.b, np.float32(1)):
        special = True
    for e in range(4):
        for row in range(16):
            at = (e * 16 + row) * 8
            store8(a_exponent, at, load8(a_exponent, at) + own_rows[row])
        for w in range(8):
            at = (e * 8 + w) * 8
            store8(b_exponent, at, load8(b_exponent, at) + load8(own_columns, 0))
    load_accumulator(tile, c, f)
    accumulate(
        tile,
        Operands(16, 8, 4, a_rows, b_rows, a_significand, a_exponent, b_significand, b_exponent, f.a, f.b, special),
        f,
    )
    if nan_scale:
        _settle_scales(tile, row_shift, column_shift)
    store_accumulator(d, tile, f)


@compiled
def mma_sparse_scaled(
    d: Any, a: Any, b: Any, c: Any, metadata: Any, selector: int, sa: Any, ida: Any, sb: Any, idb: Any, p: SparseKindNumbers
) -> None:
    """The same of ``mma.sp``."""
    a_flat, b_flat = stack_array(_MAX_PLANES, np.uint32), stack_array(_MAX_PLANES, np.uint32)
    row_shift, column_shift = stack_array(16, np.int32), stack_array(8, np.int32)
    own_rows, own_columns = stack_array(16, np.int32), stack_array(8, np.int32)
    tile = stack_array(MAX_TILE, np.uint32)
    _shifted(a_flat, a, 4, p.a_small)
    _shifted(b_flat, b, 4, p.b_small)
    nan_scale = _exponents(row_shift, column_shift, sa, ida, sb, idb)
    for i in range(16):
        own_rows[i] = row_shift[i]
    for i in range(8):
        own_columns[i] = column_shift[i]
    _without_nan(own_rows, 16)
    _without_nan(own_columns, 8)
    load_accumulator(tile, c, p.floats.dense)
    sparse_rows(tile, a_flat.reshape((4, 32)), b_flat.reshape((4, 32)), metadata, selector, own_rows, own_columns, p.floats)
    if nan_scale:
        _settle_scales(tile, row_shift, column_shift)
    store_accumulator(d, tile, p.floats.dense)


# ------------------------------------------------------------------------------------------------------------- 4-bit kinds


@inlined
def _doubled(code: Any) -> Any:
    """Twice the value of an e2m1 number: 0, 1, 2, 3, 4, 6, 8, 12."""
    field, fraction = (code >> 1) & 3, code & 1
    size = fraction if field == 0 else (2 + fraction) << (field - 1)
    return -size if code & 8 else size


@inlined
def _scale(word: Any, index: int, p: ScaledNumbers) -> Any:
    """Significand (in units of 2^-3 for ``ue4m3``) and exponent of a scale; a significand of -1 is NaN. The highest bit of
    ``ue4m3`` does not count."""
    code = np.int64((word >> np.uint32(8 * index)) & np.uint32(0xFF))
    if p.ue4m3:
        code &= 0x7F
        field, fraction = code >> 3, code & 7
        if code == 0x7F:
            return np.int64(-1), np.int64(0)
        return (fraction | 8 if field > 0 else fraction), max(field, np.int64(1)) - 7
    return np.int64(-1 if code == 255 else 1), code - 127


@inlined
def _cut(value: Any, shift: Any) -> Any:
    """``value * 2^shift`` toward zero."""
    if shift >= 0:
        return value << shift
    size = abs(value) >> min(-shift, np.int64(62))
    return -size if value < 0 else size


@compiled
def _finish(sums: Any, a_word: Any, b_word: Any, c: Any, groups: int, p: GroupNumbers) -> Any:
    """One output (uint32): sums of 16 products each, in quarters, times their scales, and an accumulator."""
    per_scale = groups // p.scales.vec
    unit = 2 + (6 if p.scales.ue4m3 else 0)
    c_field = np.int64((c >> np.uint32(23)) & np.uint32(0xFF))
    c_fraction = np.int64(c & np.uint32(0x7FFFFF))
    nan = c_field == 255 and c_fraction != 0
    emax = np.int64(p.emax_floor)
    for g in range(groups):
        sa, ea = _scale(a_word, g // per_scale, p.scales)
        sb, eb = _scale(b_word, g // per_scale, p.scales)
        nan = nan or sa < 0 or sb < 0
        if sums[g] * sa * sb != 0:
            emax = max(emax, ea + eb)
    if nan:
        return np.uint32(NAN_F32)
    if c_field == 255:
        return c
    c_exponent = max(c_field, np.int64(1)) - 127
    c_size = c_fraction | (1 << 23) if c_field > 0 else c_fraction
    if c_size != 0:
        emax = max(emax, c_exponent)
    total = _cut(-c_size if (c >> np.uint32(31)) != np.uint32(0) else c_size, p.fraction_bits - 23 - (emax - c_exponent))
    for g in range(groups):
        sa, ea = _scale(a_word, g // per_scale, p.scales)
        sb, eb = _scale(b_word, g // per_scale, p.scales)
        total += _cut(np.int64(sums[g]) * sa * sb, p.fraction_bits - unit - (emax - ea - eb))
    if total == 0:
        return np.uint32(0)
    value = np.float64(total) * bits_f64(np.uint64(emax - p.fraction_bits + 1023) << np.uint64(52))
    if abs(value) >= 2.0**128:
        return np.uint32(0x7F800000) | (np.uint32(0x80000000) if value < 0.0 else np.uint32(0))
    bits = f32_bits(f64_to_f32_rz(value))
    return np.uint32(0) if bits & np.uint32(0x7FFFFFFF) == np.uint32(0) else bits


@compiled
def mma_groups(
    d: Any, a: Any, b: Any, c: Any, metadata: Any, selector: int, sa: Any, ida: Any, sb: Any, idb: Any, p: GroupNumbers
) -> None:
    """``d`` = ``a`` * ``b`` + ``c`` for one warp, ``kind::mxf4`` and ``kind::mxf4nvf4``; of the dense ones ``metadata`` is not
    looked at."""
    a_rows, b_rows = stack_array(_MAX_PLANES, np.uint32), stack_array(MAX_SPARSE_B_WORDS, np.uint32)
    a_elements, b_elements = stack_array(_MAX_ELEMENTS_A, np.int32), stack_array(_MAX_ELEMENTS_B, np.int32)
    tile = stack_array(MAX_TILE, np.uint32)
    partial, sums = stack_array(32, np.int32), stack_array(4, np.int32)
    words = 4 * p.b_registers  # of a row of A
    b_words = 2 * words if p.sparse else words
    order_a(a_rows, a, 16, p.b_registers)
    order_b(b_rows, b, b_words // 4)
    unpack(a_elements, a_rows, 16 * words, 4, 0)
    unpack(b_elements, b_rows, 8 * b_words, 4, 0)
    for i in range(16 * words * 8):
        a_elements[i] = _doubled(a_elements[i])
    for i in range(8 * b_words * 8):
        b_elements[i] = _doubled(b_elements[i])
    load_tile_32(tile, c, 16)
    groups = words // 2
    for row in range(16):
        codes = row_codes(row, metadata, selector, p.metadata) if p.sparse else np.uint64(0)
        for g in range(groups):
            total = splat(0, np.int32)
            for w in range(2 * g, 2 * g + 2):
                for e in range(8):
                    at = sparse_source(codes, w, e, words, p.metadata) if p.sparse else (e * words + w) * 8
                    total = total + load8(b_elements, at) * load_repeated(a_elements, (e * 16 + row) * words + w)
            store8(partial, 8 * g, total)
        a_word = _scale_word(sa, row, ida[0], ida[1], True)
        for i in range(8):
            b_word = _scale_word(sb, 2 * i if i < 4 else 2 * i - 7, idb[0], idb[1], False)
            for g in range(groups):
                sums[g] = partial[8 * g + i]
            tile[row * 8 + i] = _finish(sums, a_word, b_word, tile[row * 8 + i], groups, p)
    store_tile_32(d, tile, 16)
