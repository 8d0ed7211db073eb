# mypy: allow-untyped-defs, allow-untyped-calls, disable-error-code="no-untyped-def"
"""``wgmma.mma_async``: the part of one warp, on register planes and shared memory where they lie.

Warp w of a warpgroup computes rows 16w to 16w + 15 of D. Its part of A is read from registers or shared memory and unpacked,
one element a word; B goes by in panels of 32 columns, unpacked and decoded once for all rows.

There are some thousand instructions, and a kernel takes seconds to compile. So a form is not compiled in: its numbers
(:class:`WgmmaFloatNumbers` and so on) are constants among the operands, and three kernels serve all forms.

Operands are given as a row of byte offsets of planes (:mod:`isa.kernels.wrap`): the numbers, D, and the others where
:class:`Places` says, counted from D. With g = lane / 4 and t = lane % 4, registers of D with 32 bits, ``i``: row g + 8 (i / 2
% 2), column 8 (i / 4) + 2t + i % 2; with 16 bits: row g + 8 (i % 2), columns 8 (i / 2) + 2t and the next. A in registers lies
as that of ``mma.sync.m16n8`` (:func:`isa.tensor.layouts.operand_a`).

The kernels return 0, or a fault code; a fault leaves some of D written.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from isa.arith.stack import stack_array
from isa.compiled import compiled, inlined
from isa.kernels.planes import as_i32, as_u32, load_i64, load_u8, load_u16, load_u32, store_i64
from isa.machine import BAD_OPERAND, GLOBAL, OUT_OF_BOUNDS, SHARED, SHARED_HOST, SHARED_SIZE, UNDEFINED, WARP, fault
from isa.tensor.fused import NAN_F16, StepNumbers
from isa.tensor.matrix_descriptor import chunk_address, chunk_view
from isa.tensor.mma_sparse import MetadataNumbers, bad_metadata, chosen_unit, row_codes, without_meaning
from isa.tensor.operands import FormatNumbers
from isa.tensor.panels import PANEL, PanelNumbers, decode_panel, panel_step
from isa.tensor.simd import (
    bitcast,
    convert,
    from_f16_bits,
    is_nan,
    load8,
    load_repeated,
    maximum,
    minimum,
    population_count,
    select,
    splat,
    store8,
    to_f16_bits,
)

__all__ = [
    "Places", "WgmmaFloatNumbers", "WgmmaIntegerNumbers", "WgmmaNumbers", "flat", "shape_of", "wgmma_bits",
    "wgmma_float", "wgmma_integer",
]  # fmt: skip

_ROWS = 16
_MAX_A = 512  # elements: 16 x 32
_MAX_B = 2048  # elements of a panel: 64 x 32
_MAX_ROW_B = 1024  # those that a sparse row of A meets: 32 x 32
_TILE = 512  # 16 x 32 accumulators
_ELEMENTS_MET = 512  # 16 rows of 32


class Places(NamedTuple):
    """Where operands are in the row of offsets, D being first; -1 for one that a form does not have. ``c``: D before the
    instruction. ``metadata`` and ``selector`` are those of a sparse form. Scales and transpositions are constants."""

    a: int
    b: int
    metadata: int
    selector: int
    scale_d: int
    scale_a: int
    scale_b: int
    trans_a: int
    trans_b: int
    c: int


class WgmmaNumbers(NamedTuple):
    """``n`` columns; ``k`` elements of a column of B, of which a row of A stores ``stored``; all of ``bits`` bits (one-bit ones
    by words of 32). ``a_in_registers``: A is four registers. ``at``: where the operands are. ``metadata``: of a sparse form
    (``sparse``), else anything."""

    n: int
    k: int
    stored: int
    bits: int
    a_in_registers: int
    sparse: int
    at: Places
    metadata: MetadataNumbers


class WgmmaFloatNumbers(NamedTuple):
    """``half``: accumulators have 16 bits."""

    shape: WgmmaNumbers
    half: int
    panel: PanelNumbers


class WgmmaIntegerNumbers(NamedTuple):
    """Which operands are signed, and whether D is clamped."""

    shape: WgmmaNumbers
    a_signed: int
    b_signed: int
    saturate: int


# ------------------------------------------------------------------------------------------------------------- numbers


def flat(numbers: Any) -> tuple[int, ...]:
    """All numbers of named tuples in named tuples, in order."""
    if not isinstance(numbers, tuple):
        return (int(numbers),)
    return tuple(x for part in numbers for x in flat(part))


@inlined
def _number(registers, operands, at):
    return np.int64(as_i32(registers + as_i32(operands)[at])[0])


@inlined
def _numbers_8(registers, operands, at):
    n = _number
    r, o = registers, operands
    return (
        n(r, o, at), n(r, o, at + 1), n(r, o, at + 2), n(r, o, at + 3),
        n(r, o, at + 4), n(r, o, at + 5), n(r, o, at + 6), n(r, o, at + 7),
    )  # fmt: skip


@inlined
def _format(registers, operands, at):
    a, b, c, d, e, f, g, h = _numbers_8(registers, operands, at)
    return FormatNumbers(a, b, c, d, e, f, g, h)


_SHAPE_COUNT = 23


@inlined
def shape_of(registers: Any, operands: Any, at: Any) -> WgmmaNumbers:
    """The numbers of a form's shape, which stand at place ``at`` of the row of operands."""
    n, k, stored, bits, in_registers, sparse, a, b = _numbers_8(registers, operands, at)
    metadata, selector, scale_d, scale_a, scale_b, trans_a, trans_b, c = _numbers_8(registers, operands, at + 8)
    unit_bits, units, lanes, word_shift, elements, allowed, meaning, _ = _numbers_8(registers, operands, at + 16)
    places = Places(a, b, metadata, selector, scale_d, scale_a, scale_b, trans_a, trans_b, c)
    codes = MetadataNumbers(unit_bits, units, lanes, word_shift, elements, allowed, meaning)
    return WgmmaNumbers(n, k, stored, bits, in_registers, sparse, places, codes)


@inlined
def _float_numbers(registers, operands):
    at = _SHAPE_COUNT + 4
    half, products, summed, least, _, _, _, _ = _numbers_8(registers, operands, _SHAPE_COUNT)
    a, b = _format(registers, operands, at), _format(registers, operands, at + 8)
    fraction_bits, floor, step_half, kept, _, _, _, _ = _numbers_8(registers, operands, at + 16)
    step = StepNumbers(fraction_bits, floor, step_half, kept, _format(registers, operands, at + 20))
    return WgmmaFloatNumbers(shape_of(registers, operands, 0), half, PanelNumbers(products, summed, least, a, b, step))


_FLOAT_COUNT = _SHAPE_COUNT + 32


@inlined
def _integer_numbers(registers, operands):
    a_signed, b_signed = _number(registers, operands, _SHAPE_COUNT), _number(registers, operands, _SHAPE_COUNT + 1)
    saturate = _number(registers, operands, _SHAPE_COUNT + 2)
    return WgmmaIntegerNumbers(shape_of(registers, operands, 0), a_signed, b_signed, saturate)


_INTEGER_COUNT = _SHAPE_COUNT + 3


# ----------------------------------------------------------------------------------------------------------- operands


@compiled
def _constant(registers, operands, at):
    """The value, in lane 0, of an operand that all lanes share; 0 of one that is not there."""
    if at < 0:
        return np.uint32(0)
    return as_u32(registers + as_i32(operands)[at])[0]


@compiled
def _descriptor(registers, operands, at):
    """A 64-bit operand that all lanes share."""
    plane = as_u32(registers + as_i32(operands)[at])
    return np.uint64(plane[0]) | (np.uint64(plane[32]) << np.uint64(32))


@compiled
def _flip(registers, operands, at, bits):
    """What to XOR elements with: their sign bit if the operand is -1, else nothing."""
    negative = _constant(registers, operands, at) >> np.uint32(31)
    return np.uint32(negative << np.uint32(bits - 1))


@inlined
def _chunk(ctx, address):
    """Host address of 16 bytes of the CTA's shared memory, or 0 after recording a fault. (A descriptor names no CTA.)"""
    if address > load_i64(ctx + 8 * SHARED_SIZE) - 16:
        fault(ctx, OUT_OF_BOUNDS, 0, SHARED, address, 16)
        return np.int64(0)
    return load_i64(ctx + 8 * SHARED_HOST) + address


@compiled
def _read_k_major(words, view, ctx, first, lines, k, bits, flip, line_step, k_step):
    """``k`` elements of each of ``lines`` lines, from line ``first`` on, to ``words[line * line_step + k * k_step]``. Returns
    whether all of them are in shared memory."""
    per_chunk = 128 // bits
    for line in range(lines):
        for chunk in range(k // per_chunk):
            host = _chunk(ctx, chunk_address(view, first + line, chunk))
            if host == 0:
                return False
            at = line * line_step + chunk * per_chunk * k_step
            if bits == 8:
                for e in range(16):
                    words[at + e * k_step] = np.uint32(load_u8(host + e)) ^ flip
            elif bits == 16:
                for e in range(8):
                    words[at + e * k_step] = np.uint32(load_u16(host + 2 * e)) ^ flip
            else:
                for e in range(4):
                    words[at + e * k_step] = load_u32(host + 4 * e) ^ flip
    return True


@compiled
def _read_mn_major(words, view, ctx, first, lines, k, flip, line_step, k_step):
    """The same of a matrix of 16-bit elements that is transposed. ``first`` and ``lines`` are multiples of 8."""
    for i in range(k):
        for line in range(0, lines, 8):
            host = _chunk(ctx, chunk_address(view, i, (first + line) >> 3))
            if host == 0:
                return False
            at = line * line_step + i * k_step
            for e in range(8):
                words[at + e * line_step] = np.uint32(load_u16(host + 2 * e)) ^ flip
    return True


@compiled
def _read_a(words, registers, operands, ctx, p):
    """The warp's 16 rows of A, one after another. Returns whether all of them are in shared memory."""
    flip = _flip(registers, operands, p.at.scale_a, p.bits)
    if not p.a_in_registers:
        transposed = _constant(registers, operands, p.at.trans_a) != np.uint32(0)
        view = chunk_view(_descriptor(registers, operands, p.at.a), transposed)
        first = (load_i64(ctx + 8 * WARP) & 3) * _ROWS
        if transposed:
            return _read_mn_major(words, view, ctx, first, _ROWS, p.stored, flip, p.stored, 1)
        return _read_k_major(words, view, ctx, first, _ROWS, p.stored, p.bits, flip, p.stored, 1)
    per_word = 32 // p.bits
    mask = np.uint32(0xFFFFFFFF) >> np.uint32(32 - p.bits)
    for register in range(4):
        plane = as_u32(registers + as_i32(operands)[p.at.a + register])
        for lane in range(32):
            row = (lane >> 2) + 8 * (register & 1)
            at = row * p.stored + ((lane & 3) + 4 * (register >> 1)) * per_word
            for e in range(per_word):
                words[at + e] = ((plane[lane] >> np.uint32(e * p.bits)) & mask) ^ flip
    return True


@compiled
def _read_b(words, registers, operands, ctx, first, columns, p):
    """``columns`` columns of B, from ``first`` on, to ``words[k * PANEL + column]``; the other columns are zeros. Returns
    whether all of them are in shared memory."""
    flip = _flip(registers, operands, p.at.scale_b, p.bits)
    if p.sparse and p.bits == 32:
        flip = np.uint32(0)  # its halves are put together first
    transposed = _constant(registers, operands, p.at.trans_b) != np.uint32(0)
    view = chunk_view(_descriptor(registers, operands, p.at.b), transposed)
    if columns < PANEL:
        for i in range(0, p.k * PANEL, 8):
            store8(words, i, splat(0, np.uint32))
    if transposed:
        return _read_mn_major(words, view, ctx, first, columns, p.k, flip, 1, PANEL)
    return _read_k_major(words, view, ctx, first, columns, p.k, p.bits, flip, 1, PANEL)


@compiled
def _bad_sparsity(registers, operands, ctx, p):
    """A fault code where the selector is out of range or metadata have no meaning, else 0."""
    metadata = as_u32(registers + as_i32(operands)[p.at.metadata])
    selector = np.int64(_constant(registers, operands, p.at.selector))
    if selector >= 4 // p.metadata.lanes:
        return fault(ctx, BAD_OPERAND, 0, GLOBAL, selector, -1)
    place = bad_metadata(metadata, selector, p.metadata)
    if place >= 0:
        return fault(ctx, BAD_OPERAND, place >> 5, GLOBAL, metadata[place >> 5], place & 31)
    if without_meaning(metadata, selector, p.metadata):
        store_i64(ctx + 8 * UNDEFINED, np.int64(1))
    return np.int32(0)


@compiled
def _met_units(met, registers, operands, p):
    """The unit of B that each stored unit of each row of A meets, ``met[row * units + unit]``."""
    metadata = as_u32(registers + as_i32(operands)[p.at.metadata])
    selector = np.int64(_constant(registers, operands, p.at.selector))
    for row in range(_ROWS):
        codes = row_codes(row, metadata, selector, p.metadata)
        for unit in range(p.metadata.units):
            met[row * p.metadata.units + unit] = chosen_unit(codes, unit)


@compiled
def _gather_panel(chosen, source, met, first, count):
    """The rows of a panel that one row of A meets: row ``i`` of ``chosen`` is row ``met[first + i]`` of ``source``."""
    for i in range(count):
        at = met[first + i] * PANEL
        for c in range(0, PANEL, 8):
            store8(chosen, i * PANEL + c, load8(source, at + c))


@compiled
def _gather_halves(chosen, source, met, first, count, flip):
    """The same of elements of 32 bits, each half of which has a unit of its own; their signs are flipped last."""
    for i in range(count):
        low, high = met[first + 2 * i], met[first + 2 * i + 1]
        for c in range(0, PANEL, 8):
            low_words, high_words = load8(source, (low >> 1) * PANEL + c), load8(source, (high >> 1) * PANEL + c)
            bottom = (low_words >> ((low & 1) * 16)) & 0xFFFF
            store8(chosen, i * PANEL + c, (bottom | ((high_words >> ((high & 1) * 16)) << 16)) ^ flip)


# ------------------------------------------------------------------------------------------------------- accumulators


@compiled
def _load_32(tile, registers, operands, at, columns):
    """Registers from ``at`` on of the row of operands, ``columns`` columns, to ``tile[row * PANEL + column]``."""
    for group in range(columns >> 3):
        for i in range(4):
            plane = as_u32(registers + as_i32(operands)[at + 4 * group + i])
            place = 8 * (i >> 1) * PANEL + 8 * group + (i & 1)
            for lane in range(32):
                tile[place + (lane >> 2) * PANEL + 2 * (lane & 3)] = plane[lane]


@compiled
def _store_32(tile, registers, operands, at, columns):
    """The inverse of :func:`_load_32`."""
    for group in range(columns >> 3):
        for i in range(4):
            plane = as_u32(registers + as_i32(operands)[at + 4 * group + i])
            place = 8 * (i >> 1) * PANEL + 8 * group + (i & 1)
            for lane in range(32):
                plane[lane] = tile[place + (lane >> 2) * PANEL + 2 * (lane & 3)]


@compiled
def _load_16(tile, registers, operands, at, columns):
    """Packed accumulators of 16 bits to the low halves of a tile."""
    for group in range(columns >> 3):
        for i in range(2):
            plane = as_u32(registers + as_i32(operands)[at + 2 * group + i])
            place = 8 * i * PANEL + 8 * group
            for lane in range(32):
                target = place + (lane >> 2) * PANEL + 2 * (lane & 3)
                tile[target] = plane[lane] & np.uint32(0xFFFF)
                tile[target + 1] = plane[lane] >> np.uint32(16)


@compiled
def _store_16(tile, registers, operands, at, columns):
    """The inverse of :func:`_load_16`."""
    for group in range(columns >> 3):
        for i in range(2):
            plane = as_u32(registers + as_i32(operands)[at + 2 * group + i])
            place = 8 * i * PANEL + 8 * group
            for lane in range(32):
                source = place + (lane >> 2) * PANEL + 2 * (lane & 3)
                plane[lane] = tile[source] | (tile[source + 1] << np.uint32(16))


@compiled
def _load_tile(tile, registers, operands, first, columns, half, p):
    """Accumulators of ``columns`` columns from ``first`` on; without scale-d, and where there are none, zeros."""
    if columns < PANEL or not _constant(registers, operands, p.at.scale_d) & np.uint32(1):
        for i in range(0, _TILE, 8):
            store8(tile, i, splat(0, np.uint32))
    if _constant(registers, operands, p.at.scale_d) & np.uint32(1):
        if half:
            _load_16(tile, registers, operands, p.at.c + (first >> 2), columns)
        else:
            _load_32(tile, registers, operands, p.at.c + (first >> 1), columns)


# ---------------------------------------------------------------------------------------------------------- arithmetic


@compiled
def _meet(words, value, exponent, b_words, b_value, b_exponent, met, first, flip, p):
    """What one sparse row of A meets of a panel, undecoded and decoded; its units are those of ``met`` from ``first`` on."""
    if p.shape.bits == 32:
        _gather_halves(words, b_words, met, first, p.shape.stored, flip)
        decode_panel(value, exponent, words, p.shape.stored * PANEL, p.panel.b)
    else:
        _gather_panel(words, b_words, met, first, p.shape.stored)
        _gather_panel(value, b_value, met, first, p.shape.stored)
        _gather_panel(exponent, b_exponent, met, first, p.shape.stored)


@compiled
def wgmma_float(registers: int, operands: int, ctx: int) -> Any:
    """Floating-point operands: a fused step for each element of D. ``registers`` and ``operands`` are host addresses of the
    warp's planes and of the row of offsets, which begins with the numbers."""
    p = _float_numbers(registers, operands)
    operands += 4 * _FLOAT_COUNT
    shape, panel = p.shape, p.panel
    a_words, b_words = stack_array(_MAX_A, np.uint32), stack_array(_MAX_B, np.uint32)
    a_value, a_exponent = stack_array(_MAX_A, np.float32), stack_array(_MAX_A, np.int32)
    b_value, b_exponent = stack_array(_MAX_B, np.float32), stack_array(_MAX_B, np.int32)
    tile, met = stack_array(_TILE, np.uint32), stack_array(_ELEMENTS_MET, np.int64)
    sums = tile.view(np.float32)
    row_words, row_value, row_exponent = b_words, b_value, b_exponent
    flip_halves = _flip(registers, operands, shape.at.scale_b, shape.bits)
    if shape.sparse:
        row_words = stack_array(_MAX_ROW_B, np.uint32)
        row_value, row_exponent = stack_array(_MAX_ROW_B, np.float32), stack_array(_MAX_ROW_B, np.int32)
        status = _bad_sparsity(registers, operands, ctx, shape)
        if status != 0:
            return status
        _met_units(met, registers, operands, shape)
    if not _read_a(a_words, registers, operands, ctx, shape):
        return np.int32(OUT_OF_BOUNDS)
    decode_panel(a_value, a_exponent, a_words, _ROWS * shape.stored, panel.a)
    for first in range(0, shape.n, PANEL):
        columns = min(PANEL, shape.n - first)
        if not _read_b(b_words, registers, operands, ctx, first, columns, shape):
            return np.int32(OUT_OF_BOUNDS)
        decode_panel(b_value, b_exponent, b_words, shape.k * PANEL, panel.b)
        _load_tile(tile, registers, operands, first, columns, p.half, shape)
        if p.half:
            for i in range(0, _TILE, 8):
                store8(sums, i, from_f16_bits(load8(tile, i)))
        for row in range(_ROWS):
            if shape.sparse:
                at = row * shape.metadata.units
                _meet(row_words, row_value, row_exponent, b_words, b_value, b_exponent, met, at, flip_halves, p)
            for k in range(0, shape.stored, panel.products):
                panel_step(
                    sums, row * PANEL, a_words, a_value, a_exponent, row * shape.stored + k,
                    row_words[k * PANEL :], row_value[k * PANEL :], row_exponent[k * PANEL :], panel,
                )  # fmt: skip
        if p.half:
            for i in range(0, _TILE, 8):
                value = load8(sums, i)
                store8(tile, i, select(is_nan(value), NAN_F16, to_f16_bits(value)))
            _store_16(tile, registers, operands, first >> 2, columns)
        else:
            _store_32(tile, registers, operands, first >> 1, columns)
    return np.int32(0)


@compiled
def _extend(elements, words, count, signed):
    """Bytes, one a word, as integers."""
    for i in range(0, count, 8):
        word = load8(words, i)
        store8(elements, i, (bitcast(word << 24, np.int32) >> 24) if signed else bitcast(word, np.int32))


@compiled
def _add_saturated(total, addend):
    exact = convert(total, np.int64) + convert(addend, np.int64)
    return convert(minimum(maximum(exact, -(1 << 31)), (1 << 31) - 1), np.int32)


@compiled
def _integer_row(tile, row, a, at, b, count, saturate):
    """Row ``row`` of ``tile`` += ``count`` elements of A, from ``at`` on, times as many rows of 32 elements of B."""
    zero = splat(0, np.int32)
    t0, t1, t2, t3 = zero, zero, zero, zero
    for k in range(count):
        x = load_repeated(a, at + k)
        t0, t1 = t0 + load8(b, k * PANEL) * x, t1 + load8(b, k * PANEL + 8) * x
        t2, t3 = t2 + load8(b, k * PANEL + 16) * x, t3 + load8(b, k * PANEL + 24) * x
    place = row * PANEL
    c0, c1, c2, c3 = load8(tile, place), load8(tile, place + 8), load8(tile, place + 16), load8(tile, place + 24)
    if saturate:  # products of one instruction sum to at most 32 * 255 * 255: only C can take the total out of range
        t0, t1, t2, t3 = _add_saturated(t0, c0), _add_saturated(t1, c1), _add_saturated(t2, c2), _add_saturated(t3, c3)
    else:
        t0, t1, t2, t3 = t0 + c0, t1 + c1, t2 + c2, t3 + c3
    store8(tile, place, t0)
    store8(tile, place + 8, t1)
    store8(tile, place + 16, t2)
    store8(tile, place + 24, t3)


@compiled
def wgmma_integer(registers: int, operands: int, ctx: int) -> Any:
    """8-bit integers: the exact sum, modulo 2^32 or clamped once. Arguments as of :func:`wgmma_float`."""
    p = _integer_numbers(registers, operands)
    operands += 4 * _INTEGER_COUNT
    shape = p.shape
    a_words, b_words = stack_array(_MAX_A, np.uint32), stack_array(_MAX_B, np.uint32)
    a, b, row_b = stack_array(_MAX_A, np.int32), stack_array(_MAX_B, np.int32), stack_array(_MAX_ROW_B, np.int32)
    tile, met = stack_array(_TILE, np.uint32), stack_array(_ELEMENTS_MET, np.int64)
    sums = tile.view(np.int32)
    if shape.sparse:
        status = _bad_sparsity(registers, operands, ctx, shape)
        if status != 0:
            return status
        _met_units(met, registers, operands, shape)
    if not _read_a(a_words, registers, operands, ctx, shape):
        return np.int32(OUT_OF_BOUNDS)
    _extend(a, a_words, _ROWS * shape.stored, p.a_signed)
    for first in range(0, shape.n, PANEL):
        columns = min(PANEL, shape.n - first)
        if not _read_b(b_words, registers, operands, ctx, first, columns, shape):
            return np.int32(OUT_OF_BOUNDS)
        _extend(b, b_words, shape.k * PANEL, p.b_signed)
        _load_tile(tile, registers, operands, first, columns, 0, shape)
        for row in range(_ROWS):
            if shape.sparse:
                _gather_panel(row_b, b, met, row * shape.metadata.units, shape.stored)
                _integer_row(sums, row, a, row * shape.stored, row_b, shape.stored, p.saturate)
            else:
                _integer_row(sums, row, a, row * shape.stored, b, shape.stored, p.saturate)
        _store_32(tile, registers, operands, first >> 1, columns)
    return np.int32(0)


@compiled
def wgmma_bits(registers: int, operands: int, ctx: int) -> Any:
    """Single bits: the number of ones in ``a`` and ``b``, modulo 2^32. Arguments as of :func:`wgmma_float`."""
    p = shape_of(registers, operands, 0)
    operands += 4 * _SHAPE_COUNT
    a_words, b_words = stack_array(_MAX_A, np.uint32), stack_array(_MAX_B, np.uint32)
    tile = stack_array(_TILE, np.uint32)
    if not _read_a(a_words, registers, operands, ctx, p):
        return np.int32(OUT_OF_BOUNDS)
    for first in range(0, p.n, PANEL):
        columns = min(PANEL, p.n - first)
        if not _read_b(b_words, registers, operands, ctx, first, columns, p):
            return np.int32(OUT_OF_BOUNDS)
        _load_tile(tile, registers, operands, first, columns, 0, p)
        for row in range(_ROWS):
            for c in range(0, PANEL, 8):
                total = load8(tile, row * PANEL + c)
                for k in range(p.stored):
                    word = load8(b_words, k * PANEL + c) & load_repeated(a_words, row * p.stored + k)
                    total = total + population_count(word)
                store8(tile, row * PANEL + c, total)
        _store_32(tile, registers, operands, first >> 1, columns)
    return np.int32(0)
