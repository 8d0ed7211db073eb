# mypy: allow-untyped-defs, allow-untyped-calls
"""Floating-point ``mma.sync`` on tensor cores, and the pieces of ``wmma``: chains of fused steps over a warp's
fragments."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from isa.arith.stack import stack_array
from isa.compiled import compiled, inlined
from isa.tensor.fused import MAX_A, MAX_B, MAX_TILE, NAN_F16, NAN_F32, Span, StepNumbers, fused_step
from isa.tensor.in_range import decode_values, in_range_step
from isa.tensor.operands import (
    FormatNumbers,
    Operands,
    decode_words,
    load_tile_16,
    load_tile_32,
    order_a,
    order_b,
    store_tile_16,
    store_tile_32,
)
from isa.tensor.simd import bitcast, from_f16_bits, is_nan, load8, select, splat, store8, to_f16_bits

__all__ = [
    "FloatNumbers", "accumulate", "accumulate_any", "accumulate_in_range", "load_accumulator", "mma_float", "store_accumulator",
]  # fmt: skip


class FloatNumbers(NamedTuple):
    """One floating-point form on one architecture.

    ``m`` rows (8 or 16), ``b_registers`` registers of B, ``per_word`` elements a word. Each step takes ``step_words``
    words of every row. With ``halves``, two steps take element positions 0, 1 and then 2, 3 of all words, starting from
    +0, and C is added at the end with one rounding to nearest even. ``c_half`` and ``d_half`` tell 16-bit from 32-bit
    accumulators; where the step's own differs, C is widened before it or D is rounded to nearest even after it.
    """

    m: int
    b_registers: int
    per_word: int
    step_words: int
    halves: int
    c_half: int
    d_half: int
    a: FormatNumbers
    b: FormatNumbers
    step: StepNumbers


@inlined
def _widen(tile, m):
    for i in range(0, m * 8, 8):
        store8(tile, i, bitcast(from_f16_bits(load8(tile, i)), np.uint32))


@inlined
def _narrow(tile, m):
    for i in range(0, m * 8, 8):
        value = bitcast(load8(tile, i), np.float32)
        store8(tile, i, select(is_nan(value), NAN_F16, to_f16_bits(value)))


@inlined
def _add_rounded(tile, addend, m, half):
    """``tile`` += ``addend``, to nearest even, NaN canonical."""
    for i in range(0, m * 8, 8):
        if half:
            # Rounding the sum of two float16 numbers to float32 first changes nothing: 24 bits >= 2 * 11 + 2.
            total = from_f16_bits(load8(tile, i)) + from_f16_bits(load8(addend, i))
            store8(tile, i, select(is_nan(total), NAN_F16, to_f16_bits(total)))
        else:
            total = bitcast(load8(tile, i), np.float32) + bitcast(load8(addend, i), np.float32)
            store8(tile, i, select(is_nan(total), NAN_F32, bitcast(total, np.uint32)))


@compiled
def load_accumulator(tile: Any, c: Any, p: FloatNumbers) -> None:
    """C to a tile of the format that the steps have."""
    if p.c_half:
        load_tile_16(tile, c, p.m)
        if not p.step.half:
            _widen(tile, p.m)
    else:
        load_tile_32(tile, c, p.m)


@compiled
def store_accumulator(d: Any, tile: Any, p: FloatNumbers) -> None:
    """A tile, which is changed, to D."""
    if p.d_half:
        if not p.step.half:
            _narrow(tile, p.m)
        store_tile_16(d, tile, p.m)
    else:
        store_tile_32(d, tile, p.m)


@inlined
def _span(step, words, p):
    """The elements of one of the steps."""
    if p.halves:
        return Span(2 * step, 2 * step + 2, 0, words)
    return Span(0, p.per_word, step * p.step_words, (step + 1) * p.step_words)


@compiled
def accumulate(tile: Any, x: Operands, p: FloatNumbers) -> None:
    """``tile`` (``x.m`` rows) += the products of ``x``, in the steps of ``p``."""
    out, addend = stack_array(MAX_TILE, np.uint32), stack_array(MAX_TILE, np.uint32)
    if p.halves:
        for i in range(0, x.m * 8, 8):
            store8(addend, i, load8(tile, i))
            store8(tile, i, splat(0, np.uint32))
    for step in range(2 if p.halves else x.words // p.step_words):
        fused_step(out, tile, x, _span(step, x.words, p), p.step)
        for i in range(0, x.m * 8, 8):
            store8(tile, i, load8(out, i))
    if p.halves:
        _add_rounded(tile, addend, x.m, p.step.half)


@compiled
def accumulate_in_range(tile: Any, a_rows: Any, b_rows: Any, p: FloatNumbers) -> Any:
    """:func:`accumulate` for operands undecoded. Returns False, with nothing done, if that takes :func:`accumulate_any`."""
    a_value, a_exponent = stack_array(MAX_A, np.float32), stack_array(MAX_A, np.int32)
    b_value, b_exponent = stack_array(MAX_B, np.float32), stack_array(MAX_B, np.int32)
    sums = stack_array(MAX_TILE, np.uint32)
    words = 4 * p.b_registers
    decode_values(a_value, a_exponent, a_rows, p.m * words, p.per_word, p.a)
    decode_values(b_value, b_exponent, b_rows, 8 * words, p.per_word, p.b)
    for i in range(0, p.m * 8, 8):
        store8(sums, i, splat(0, np.uint32) if p.halves else load8(tile, i))
    for step in range(2 if p.halves else words // p.step_words):
        if in_range_step(sums, p.m, words, a_value, a_exponent, b_value, b_exponent, _span(step, words, p), p.step):
            return False
    if p.halves:
        _add_rounded(sums, tile, p.m, p.step.half)
    for i in range(0, p.m * 8, 8):
        store8(tile, i, load8(sums, i))
    return True


@compiled
def accumulate_any(tile: Any, a_rows: Any, b_rows: Any, p: FloatNumbers) -> None:
    """:func:`accumulate` for operands undecoded, whatever they are."""
    a_significand, a_exponent = stack_array(MAX_A, np.float32), stack_array(MAX_A, np.int32)
    b_significand, b_exponent = stack_array(MAX_B, np.float32), stack_array(MAX_B, np.int32)
    m, words = p.m, 4 * p.b_registers
    scale = np.float32(2.0 ** (p.step.fraction_bits - p.a.fraction_bits - p.b.fraction_bits))
    special = decode_words(a_significand, a_exponent, a_rows, m * words, p.per_word, p.a, scale)
    if decode_words(b_significand, b_exponent, b_rows, 8 * words, p.per_word, p.b, np.float32(1)):
        special = True
    x = Operands(m, words, p.per_word, a_rows, b_rows, a_significand, a_exponent, b_significand, b_exponent, p.a, p.b, special)
    accumulate(tile, x, p)


@compiled
def mma_float(d: Any, a: Any, b: Any, c: Any, p: FloatNumbers) -> None:
    """``d`` = ``a`` * ``b`` + ``c`` for one warp; each is ``[register, lane]``, uint32. ``d`` may be ``c``.

    Shapes: A ``m / 8 * b_registers`` registers, B ``b_registers``, C and D ``m / 4``, or ``m / 8`` where they are
    16-bit.
    """
    a_rows, b_rows = stack_array(MAX_A, np.uint32), stack_array(MAX_B, np.uint32)
    tile = stack_array(MAX_TILE, np.uint32)
    order_a(a_rows, a, p.m, p.b_registers)
    order_b(b_rows, b, p.b_registers)
    load_accumulator(tile, c, p)
    if not accumulate_in_range(tile, a_rows, b_rows, p):
        accumulate_any(tile, a_rows, b_rows, p)
    store_accumulator(d, tile, p)
