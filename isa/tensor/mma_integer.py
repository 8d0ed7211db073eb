# mypy: allow-untyped-defs, allow-untyped-calls
"""Integer ``mma.sync``: exact sums of products, and of population counts for one-bit operands.

The sum of products and C is exact, then taken modulo 2^32, or with ``.satfinite`` clamped once to the range of s32 (PTX
ISA 9.7.14.5.14; that the clamp is of the total, C included, and not of partial sums was measured on an H200, driver
580.159).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from isa.arith.stack import stack_array
from isa.compiled import compiled, inlined
from isa.tensor.fused import MAX_TILE
from isa.tensor.operands import load_tile_32, order_a, order_b, store_tile_32
from isa.tensor.simd import bitcast, convert, load8, load_repeated, maximum, minimum, population_count, splat, store8

__all__ = ["MAX_INTEGER_A", "BitNumbers", "IntegerNumbers", "add_row", "mma_bits", "mma_integer", "unpack"]

MAX_INTEGER_A = 1024
"""Elements of the largest A operand: 16 x 64 of 4 bits."""

_MAX_B = 512
_MAX_A_WORDS, _MAX_B_WORDS = 128, 64


class IntegerNumbers(NamedTuple):
    """``m`` rows (8 or 16), ``b_registers`` registers of B, ``bits`` per element, which operands are signed,
    ``saturate``."""

    m: int
    b_registers: int
    bits: int
    a_signed: int
    b_signed: int
    saturate: int


class BitNumbers(NamedTuple):
    """``m`` rows (8 or 16), ``b_registers`` registers of B; ``exclusive`` is 1 for ``.xor.popc``, 0 for
    ``.and.popc``."""

    m: int
    b_registers: int
    exclusive: int


@compiled
def unpack(elements, words, count, bits, signed):
    """Element ``e`` of each of ``count`` words to position ``e * count + i``, as int32."""
    for e in range(32 // bits):
        for i in range(0, count, 8):
            top = load8(words, i) << (32 - bits - e * bits)
            if signed:
                store8(elements, e * count + i, bitcast(top, np.int32) >> (32 - bits))
            else:
                store8(elements, e * count + i, bitcast(top >> (32 - bits), np.int32))


@inlined
def add_row(tile: Any, row: int, total: Any, saturate: int) -> None:
    """Row ``row`` of ``tile``, which holds C, += the sums of its products (int32 lanes)."""
    addend = bitcast(load8(tile, row * 8), np.int32)
    if saturate:
        # products of one instruction sum to at most 32 * 255 * 255: only C can take the total out of range
        exact = convert(total, np.int64) + convert(addend, np.int64)
        total = convert(minimum(maximum(exact, -(1 << 31)), (1 << 31) - 1), np.int32)
    else:
        total = total + addend
    store8(tile, row * 8, bitcast(total, np.uint32))


@compiled
def mma_integer(d: Any, a: Any, b: Any, c: Any, p: IntegerNumbers) -> None:
    """``d`` = ``a`` * ``b`` + ``c`` for one warp, s8/u8/s4/u4 to s32; each is ``[register, lane]``, uint32. ``d`` may
    be ``c``."""
    a_elements, b_elements = stack_array(MAX_INTEGER_A, np.int32), stack_array(_MAX_B, np.int32)
    a_rows, b_rows = stack_array(_MAX_A_WORDS, np.uint32), stack_array(_MAX_B_WORDS, np.uint32)
    tile = stack_array(MAX_TILE, np.uint32)
    m, words = p.m, 4 * p.b_registers
    order_a(a_rows, a, m, p.b_registers)
    order_b(b_rows, b, p.b_registers)
    unpack(a_elements, a_rows, m * words, p.bits, p.a_signed)
    unpack(b_elements, b_rows, 8 * words, p.bits, p.b_signed)
    load_tile_32(tile, c, m)
    for row in range(m):
        total = splat(0, np.int32)
        for e in range(32 // p.bits):
            at, row_b = (e * m + row) * words, e * words * 8
            for w in range(words):
                total = total + load8(b_elements, row_b + 8 * w) * load_repeated(a_elements, at + w)
        add_row(tile, row, total, p.saturate)
    store_tile_32(d, tile, m)


@compiled
def mma_bits(d: Any, a: Any, b: Any, c: Any, p: BitNumbers) -> None:
    """``d`` = ``c`` + the number of ones in ``a`` op ``b``, modulo 2^32, for one warp; each is ``[register, lane]``,
    uint32."""
    a_rows, b_rows = stack_array(_MAX_A_WORDS, np.uint32), stack_array(_MAX_B_WORDS, np.uint32)
    tile = stack_array(MAX_TILE, np.uint32)
    m, words = p.m, 4 * p.b_registers
    order_a(a_rows, a, m, p.b_registers)
    order_b(b_rows, b, p.b_registers)
    load_tile_32(tile, c, m)
    for row in range(m):
        total = load8(tile, row * 8)
        for w in range(words):
            a_word, b_word = load_repeated(a_rows, row * words + w), load8(b_rows, w * 8)
            total = total + population_count((b_word ^ a_word) if p.exclusive else (b_word & a_word))
        store8(tile, row * 8, total)
    store_tile_32(d, tile, m)
