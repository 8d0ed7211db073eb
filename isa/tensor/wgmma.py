# mypy: allow-untyped-defs, allow-untyped-calls, disable-error-code="no-untyped-def"
"""``wgmma.mma_async``: the part of one warp, on register planes and shared memory where they lie.

Warp w of a warpgroup computes rows 16w to 16w + 15 of D. Its part of A is read from registers or shared memory and unpacked,
one element a word; B goes by in panels of 32 columns, unpacked and decoded once for all rows.

There are some thousand instructions, and a kernel takes seconds to compile. So a form is not compiled in: its numbers
(:class:`~isa.tensor.wgmma_operands.WgmmaFloatNumbers` and so on) are constants among the operands, and three kernels serve all
forms. Where operands are is in :mod:`isa.tensor.wgmma_operands`.

The kernels return 0, or a fault code; a fault leaves some of D written.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from isa.arith.stack import stack_array
from isa.compiled import compiled, inlined
from isa.machine import OUT_OF_BOUNDS
from isa.tensor.fused import NAN_F16
from isa.tensor.panels import PANEL, decode_panel, panel_step
from isa.tensor.simd import (
    any_lane,
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
from isa.tensor.undefined import TF32, note_undefined
from isa.tensor.wgmma_operands import (
    FLOAT_COUNT,
    INTEGER_COUNT,
    MAX_A,
    MAX_B,
    MAX_ROW_B,
    MET,
    ROWS,
    SHAPE_COUNT,
    TILE,
    bad_sparsity,
    float_numbers,
    gather_halves,
    gather_panel,
    integer_numbers,
    load_tile,
    met_units,
    read_a,
    read_b,
    shape_of,
    sign_flip,
    store_16,
    store_32,
)

__all__ = ["wgmma_bits", "wgmma_float", "wgmma_integer"]


@compiled
def _meet(words, value, exponent, b_words, b_value, b_exponent, met, first, flip, p):
    """What one sparse row of A meets of a panel, undecoded and decoded; its units are those of ``met`` from ``first`` on."""
    if p.shape.bits == 32:
        gather_halves(words, b_words, met, first, p.shape.stored, flip)
        decode_panel(value, exponent, words, p.shape.stored * PANEL, p.panel.b)
    else:
        gather_panel(words, b_words, met, first, p.shape.stored)
        gather_panel(value, b_value, met, first, p.shape.stored)
        gather_panel(exponent, b_exponent, met, first, p.shape.stored)


@inlined
def _note_unread(ctx, words, count, ignored_low_bits):
    """Take note of bits that no element has."""
    if ignored_low_bits == 0:
        return
    found = splat(0, np.uint32)
    for i in range(0, count, 8):
        found = found | load8(words, i)
    if any_lane((found & ((1 << ignored_low_bits) - 1)) != 0):
        note_undefined(ctx, TF32)


@compiled
def wgmma_float(registers: int, operands: int, ctx: int) -> Any:
    """Floating-point operands: a fused step for each element of D. ``registers`` and ``operands`` are host addresses of the
    warp's planes and of the row of offsets, which begins with the numbers."""
    p = float_numbers(registers, operands)
    operands += 4 * FLOAT_COUNT
    shape, panel = p.shape, p.panel
    a_words, b_words = stack_array(MAX_A, np.uint32), stack_array(MAX_B, np.uint32)
    a_value, a_exponent = stack_array(MAX_A, np.float32), stack_array(MAX_A, np.int32)
    b_value, b_exponent = stack_array(MAX_B, np.float32), stack_array(MAX_B, np.int32)
    tile, met = stack_array(TILE, np.uint32), stack_array(MET, np.int64)
    sums = tile.view(np.float32)
    row_words, row_value, row_exponent = b_words, b_value, b_exponent
    flip_halves = sign_flip(registers, operands, shape.at.scale_b, shape.bits)
    if shape.sparse:
        row_words = stack_array(MAX_ROW_B, np.uint32)
        row_value, row_exponent = stack_array(MAX_ROW_B, np.float32), stack_array(MAX_ROW_B, np.int32)
        status = bad_sparsity(registers, operands, ctx, shape)
        if status != 0:
            return status
        met_units(met, registers, operands, shape)
    if not read_a(a_words, registers, operands, ctx, shape):
        return np.int32(OUT_OF_BOUNDS)
    _note_unread(ctx, a_words, ROWS * shape.stored, panel.a.ignored_low_bits)
    decode_panel(a_value, a_exponent, a_words, ROWS * shape.stored, panel.a)
    for first in range(0, shape.n, PANEL):
        columns = min(PANEL, shape.n - first)
        if not read_b(b_words, registers, operands, ctx, first, columns, shape):
            return np.int32(OUT_OF_BOUNDS)
        _note_unread(ctx, b_words, shape.k * PANEL, panel.b.ignored_low_bits)
        decode_panel(b_value, b_exponent, b_words, shape.k * PANEL, panel.b)
        load_tile(tile, registers, operands, first, columns, p.half, shape)
        if p.half:
            for i in range(0, TILE, 8):
                store8(sums, i, from_f16_bits(load8(tile, i)))
        for row in range(ROWS):
            if shape.sparse:
                at = row * shape.metadata.units
                _meet(row_words, row_value, row_exponent, b_words, b_value, b_exponent, met, at, flip_halves, p)
            for k in range(0, shape.stored, panel.products):
                panel_step(
                    sums, row * PANEL, a_words, a_value, a_exponent, row * shape.stored + k,
                    row_words[k * PANEL :], row_value[k * PANEL :], row_exponent[k * PANEL :], panel,
                )  # fmt: skip
        if p.half:
            for i in range(0, TILE, 8):
                value = load8(sums, i)
                store8(tile, i, select(is_nan(value), NAN_F16, to_f16_bits(value)))
            store_16(tile, registers, operands, first >> 2, columns)
        else:
            store_32(tile, registers, operands, first >> 1, columns)
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
    p = integer_numbers(registers, operands)
    operands += 4 * INTEGER_COUNT
    shape = p.shape
    a_words, b_words = stack_array(MAX_A, np.uint32), stack_array(MAX_B, np.uint32)
    a, b, row_b = stack_array(MAX_A, np.int32), stack_array(MAX_B, np.int32), stack_array(MAX_ROW_B, np.int32)
    tile, met = stack_array(TILE, np.uint32), stack_array(MET, np.int64)
    sums = tile.view(np.int32)
    if shape.sparse:
        status = bad_sparsity(registers, operands, ctx, shape)
        if status != 0:
            return status
        met_units(met, registers, operands, shape)
    if not read_a(a_words, registers, operands, ctx, shape):
        return np.int32(OUT_OF_BOUNDS)
    _extend(a, a_words, ROWS * shape.stored, p.a_signed)
    for first in range(0, shape.n, PANEL):
        columns = min(PANEL, shape.n - first)
        if not read_b(b_words, registers, operands, ctx, first, columns, shape):
            return np.int32(OUT_OF_BOUNDS)
        _extend(b, b_words, shape.k * PANEL, p.b_signed)
        load_tile(tile, registers, operands, first, columns, 0, shape)
        for row in range(ROWS):
            if shape.sparse:
                gather_panel(row_b, b, met, row * shape.metadata.units, shape.stored)
                _integer_row(sums, row, a, row * shape.stored, row_b, shape.stored, p.saturate)
            else:
                _integer_row(sums, row, a, row * shape.stored, b, shape.stored, p.saturate)
        store_32(tile, registers, operands, first >> 1, columns)
    return np.int32(0)


@compiled
def wgmma_bits(registers: int, operands: int, ctx: int) -> Any:
    """Single bits: the number of ones in ``a`` and ``b``, modulo 2^32. Arguments as of :func:`wgmma_float`."""
    p = shape_of(registers, operands, 0)
    operands += 4 * SHAPE_COUNT
    a_words, b_words = stack_array(MAX_A, np.uint32), stack_array(MAX_B, np.uint32)
    tile = stack_array(TILE, np.uint32)
    if not read_a(a_words, registers, operands, ctx, p):
        return np.int32(OUT_OF_BOUNDS)
    for first in range(0, p.n, PANEL):
        columns = min(PANEL, p.n - first)
        if not read_b(b_words, registers, operands, ctx, first, columns, p):
            return np.int32(OUT_OF_BOUNDS)
        load_tile(tile, registers, operands, first, columns, 0, p)
        for row in range(ROWS):
            for c in range(0, PANEL, 8):
                total = load8(tile, row * PANEL + c)
                for k in range(p.stored):
                    word = load8(b_words, k * PANEL + c) & load_repeated(a_words, row * p.stored + k)
                    total = total + population_count(word)
                store8(tile, row * PANEL + c, total)
        store_32(tile, registers, operands, first >> 1, columns)
    return np.int32(0)
