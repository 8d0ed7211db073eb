# mypy: allow-untyped-defs, allow-untyped-calls
"""``mma.sync.m8n8k4`` with f16 operands: four independent 8 x 8 x 4 products in one warp.

sm_70 and sm_75 run it on tensor cores. From sm_80 on ptxas calls a subroutine of shuffles and ordinary float32
arithmetic, and the order of that arithmetic is the instruction's meaning there:

* D in f32: from +0, ``fma(a[k], b[k], sum)`` for k = 0 to 3, then ``+ C``,
* D in f16: ``u = fma(a1, b1, a0 * b0)``, ``v = fma(a3, b3, a2 * b2)``, then ``(C + u) + v`` rounded to f16.

Every operation rounds to nearest even; zeros keep the signs that IEEE 754 gives them. Source: SASS of ptxas 13.0;
measured on an H200, driver 580.159.

Quad pair q (lanes 4q to 4q + 3 and 16 + 4q to 16 + 4q + 3) computes product q. Its lanes are numbered here ``i + 4 *
high``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from isa.arith.stack import stack_array
from isa.compiled import compiled, inlined
from isa.tensor.fused import NAN_F16, NAN_F32, Span, StepNumbers, fused_step
from isa.tensor.operands import FormatNumbers, Operands, decode_words
from isa.tensor.simd import (
    bitcast,
    from_f16_bits,
    fused_multiply_add,
    is_nan,
    load8,
    select,
    splat,
    store8,
    to_f16_bits,
)

__all__ = ["Numbers884", "mma_884"]


class Numbers884(NamedTuple):
    """``a_column`` and ``b_column`` are 1 for ``.col``; ``c_half`` and ``d_half`` 1 for ``.f16``; ``tensor`` 1 where a
    tensor core runs it, with ``step``. ``f16`` is the operand format."""

    a_column: int
    b_column: int
    c_half: int
    d_half: int
    tensor: int
    f16: FormatNumbers
    step: StepNumbers


@inlined
def _half(registers, lane, element):
    return (registers[element >> 1, lane] >> np.uint32(16 * (element & 1))) & np.uint32(0xFFFF)


@inlined
def _f32_place(row, column, quad):
    """Register and lane of an element of a 32-bit accumulator."""
    return (row & 2) | (column & 4) | (column & 1), 16 * (row >> 2) + 4 * quad + (row & 1) + (column & 2)


@compiled
def _gather(a_words, b_rows, tile, a, b, c, quad, p):
    """One product's operands, one f16 a word: A as [row, k], B as [k, column], C as [row, column], columns in order."""
    for row in range(8):
        high = 16 * (row >> 2) + 4 * quad
        for k in range(4):
            a_words[row * 4 + k] = _half(a, high + k, row & 3) if p.a_column else _half(a, high + (row & 3), k)
            b_rows[k * 8 + row] = _half(b, high + (row & 3), k) if p.b_column else _half(b, high + k, row & 3)
        for column in range(8):
            if p.c_half:
                tile[row * 8 + column] = _half(c, high + (row & 3), column)
            else:
                register, lane = _f32_place(row, column, quad)
                tile[row * 8 + column] = c[register, lane]


@compiled
def _scatter(d, tile, quad, p):
    for row in range(8):
        lane = 16 * (row >> 2) + 4 * quad + (row & 3)
        if p.d_half:
            for pair in range(4):
                d[pair, lane] = tile[row * 8 + 2 * pair] | (tile[row * 8 + 2 * pair + 1] << np.uint32(16))
        else:
            for column in range(8):
                register, lane = _f32_place(row, column, quad)
                d[register, lane] = tile[row * 8 + column]


@compiled
def _multiply_by_fma(tile, a_words, b_rows, d_half):
    """``tile``: C and then D, as float32 bits or, with ``d_half``, float16 bits."""
    b0, b1 = from_f16_bits(load8(b_rows, 0)), from_f16_bits(load8(b_rows, 8))
    b2, b3 = from_f16_bits(load8(b_rows, 16)), from_f16_bits(load8(b_rows, 24))
    for row in range(8):
        a0 = from_f16_bits(splat(a_words[row * 4], np.uint32))
        a1 = from_f16_bits(splat(a_words[row * 4 + 1], np.uint32))
        a2 = from_f16_bits(splat(a_words[row * 4 + 2], np.uint32))
        a3 = from_f16_bits(splat(a_words[row * 4 + 3], np.uint32))
        if d_half:
            u = fused_multiply_add(a1, b1, a0 * b0)
            v = fused_multiply_add(a3, b3, a2 * b2)
            total = (from_f16_bits(load8(tile, row * 8)) + u) + v
            store8(tile, row * 8, select(is_nan(total), NAN_F16, to_f16_bits(total)))
        else:
            total = fused_multiply_add(a0, b0, splat(0, np.float32))
            total = fused_multiply_add(a1, b1, total)
            total = fused_multiply_add(a2, b2, total)
            total = fused_multiply_add(a3, b3, total) + bitcast(load8(tile, row * 8), np.float32)
            store8(tile, row * 8, select(is_nan(total), NAN_F32, bitcast(total, np.uint32)))


@compiled
def _multiply_by_step(tile, a_words, b_rows, p):
    """As :func:`_multiply_by_fma`, with one fused step."""
    a_significand, a_exponent = stack_array(32, np.float32), stack_array(32, np.int32)
    b_significand, b_exponent = stack_array(32, np.float32), stack_array(32, np.int32)
    out = stack_array(64, np.uint32)
    scale = np.float32(2.0 ** (p.step.fraction_bits - 2 * p.f16.fraction_bits))
    special = decode_words(a_significand, a_exponent, a_words, 32, 1, p.f16, scale)
    if decode_words(b_significand, b_exponent, b_rows, 32, 1, p.f16, np.float32(1)):
        special = True
    x = Operands(8, 4, 1, a_words, b_rows, a_significand, a_exponent, b_significand, b_exponent, p.f16, p.f16, special)
    fused_step(out, tile, x, Span(0, 1, 0, 4), p.step)
    for i in range(0, 64, 8):
        store8(tile, i, load8(out, i))


@compiled
def mma_884(d: Any, a: Any, b: Any, c: Any, p: Numbers884) -> None:
    """``d`` = ``a`` * ``b`` + ``c``, four times, for one warp; each is ``[register, lane]``, uint32. ``d`` may be
    ``c``.

    Shapes: A and B 2 registers, C and D 8, or 4 where they are 16-bit.
    """
    a_words, b_rows = stack_array(32, np.uint32), stack_array(32, np.uint32)
    tiles = stack_array(256, np.uint32)
    for quad in range(4):
        tile = tiles[64 * quad : 64 * quad + 64]
        _gather(a_words, b_rows, tile, a, b, c, quad, p)
        if p.c_half and not p.d_half:
            for i in range(0, 64, 8):
                store8(tile, i, bitcast(from_f16_bits(load8(tile, i)), np.uint32))
        if p.tensor:
            _multiply_by_step(tile, a_words, b_rows, p)
        else:
            _multiply_by_fma(tile, a_words, b_rows, p.d_half)
    for quad in range(4):  # only now, since d may be c and lanes hold elements of other lanes' rows
        _scatter(d, tiles[64 * quad : 64 * quad + 64], quad, p)
