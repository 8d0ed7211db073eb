# mypy: allow-untyped-defs, allow-untyped-calls, disable-error-code="no-untyped-def"
"""Fused tensor-core steps for 32 columns of B at a time.

The arithmetic of a step is that of :mod:`isa.tensor.fused`; this is a second way to compute it, for operands that are decoded
once and used many times: by ``wgmma``, and for whole matrices. A panel is 32 columns of B. For each step (16 products, say)
and row of A:

1. ``emax`` is the largest ``exponent(a) + exponent(b)``, of integers decoded beforehand;

2. ``a * b`` is an exact float32 (22 bits at most); times 2^(F - emax), which is exact too, it is in units of the last bit
   that the step keeps, and the conversion to int32 truncates it toward zero;

3. up to sixteen of those (each below 2^27) are summed in int32, the partial sums and C exactly in float64;

4. and the sum is rounded as the step's kernels round it.

That holds while products neither overflow float32 nor lose bits to its subnormals in a way that the alignment would not
have dropped anyway: for -100 <= emax <= 126, or where every term is zero. An infinity or NaN is given an exponent far above
that. So one test of emax finds all that does not fit, and those outputs are computed by the step of :mod:`isa.tensor.fused`.

Accumulators are float32 numbers, of a float16 accumulator its value.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from isa.arith.stack import stack_array
from isa.compiled import compiled, inlined
from isa.tensor.fused import Span, StepNumbers, fused_step, round_f16, round_f32
from isa.tensor.operands import ZERO_EXPONENT, FormatNumbers, Operands, decode, decode_words
from isa.tensor.simd import (
    any_lane,
    bitcast,
    convert,
    from_f16_bits,
    load8,
    load_repeated,
    maximum,
    select,
    splat,
    store8,
    to_f16_bits,
)

__all__ = ["PANEL", "PanelNumbers", "decode_panel", "panel_step"]

PANEL = 32
"""Columns computed together: four vectors."""

_LOWEST, _HIGHEST = -100, 126
_NOT_FINITE = -2 * ZERO_EXPONENT  # above the range even where the other operand is zero
_MAX_PRODUCTS = 32
_EIGHT_TIMES = 8 * _MAX_PRODUCTS


class PanelNumbers(NamedTuple):
    """``products`` of each step; ``summed`` of them fit int32 at a time. ``least_exponent`` is that of the accumulator's
    subnormals."""

    products: int
    summed: int
    least_exponent: int
    a: FormatNumbers
    b: FormatNumbers
    step: StepNumbers


# ---------------------------------------------------------------------------------------------------------- operands


@compiled
def decode_panel(value: Any, exponent: Any, words: Any, count: int, f: FormatNumbers) -> None:
    """``count`` elements (one a word, a multiple of eight of them) to float32 values, 0 if not finite, and exponents."""
    for i in range(0, count, 8):
        significand, x, special = decode(load8(words, i), 0, f, np.float32(1))
        whole = convert(significand, np.float64)
        # 2^x is a float64 for every operand; a zero's place is taken by any other exponent, since it is not used
        unit = bitcast((convert(maximum(x, -1000), np.int64) + (1023 - f.fraction_bits)) << 52, np.float64)
        zero = (x == ZERO_EXPONENT) | special
        store8(value, i, select(zero, np.float32(0), convert(whole * unit, np.float32)))
        store8(exponent, i, select(special, _NOT_FINITE, x))


# ------------------------------------------------------------------------------------------------------------- a step


@inlined
def _exponent_of(c, least):
    """Of accumulators, float32 lanes; 128 for an infinity or NaN."""
    magnitude = bitcast(c, np.int32) & 0x7FFFFFFF
    return select(magnitude == 0, ZERO_EXPONENT, maximum((magnitude >> 23) - 127, least))


@inlined
def _out_of_range(emax):
    return (emax > _HIGHEST) | ((emax < _LOWEST) & (emax > ZERO_EXPONENT // 2))


@inlined
def _scale(emax, f):
    return bitcast(((127 + f) - emax) << 23, np.float32)


@inlined
def _rounded(total, c, scale, emax, step):
    """The step's result as float32 lanes (of a float16 result, its value)."""
    exact = total + convert(convert(c * scale, np.int32), np.float64)
    unit = bitcast((convert(emax, np.int64) + (1023 - step.fraction_bits)) << 52, np.float64)
    if step.half:
        return from_f16_bits(round_f16(exact * unit))
    return bitcast(round_f32(exact * unit, step.kept_fraction_bits), np.float32)


@compiled
def _step_of_row(sums, at, a_value, a_exponent, row, b_value, b_exponent, p):
    """One step of 32 outputs, elements ``at`` on of ``sums``. Returns False, with nothing done, where some are out of range."""
    c0, c1, c2, c3 = load8(sums, at), load8(sums, at + 8), load8(sums, at + 16), load8(sums, at + 24)
    e0, e1 = _exponent_of(c0, p.least_exponent), _exponent_of(c1, p.least_exponent)
    e2, e3 = _exponent_of(c2, p.least_exponent), _exponent_of(c3, p.least_exponent)
    for k in range(p.products):
        x, b = load_repeated(a_exponent, row + k), k * PANEL
        e0 = maximum(e0, load8(b_exponent, b) + x)
        e1 = maximum(e1, load8(b_exponent, b + 8) + x)
        e2 = maximum(e2, load8(b_exponent, b + 16) + x)
        e3 = maximum(e3, load8(b_exponent, b + 24) + x)
    if any_lane(_out_of_range(e0) | _out_of_range(e1) | _out_of_range(e2) | _out_of_range(e3)):
        return False
    lowest = max(_LOWEST, p.step.emax_floor)
    e0, e1, e2, e3 = maximum(e0, lowest), maximum(e1, lowest), maximum(e2, lowest), maximum(e3, lowest)
    f = p.step.fraction_bits
    s0, s1, s2, s3 = _scale(e0, f), _scale(e1, f), _scale(e2, f), _scale(e3, f)
    zero = splat(0, np.float64)
    t0, t1, t2, t3 = zero, zero, zero, zero
    for first in range(0, p.products, p.summed):
        none = splat(0, np.int32)
        p0, p1, p2, p3 = none, none, none, none
        for k in range(first, first + p.summed):
            x, b = load_repeated(a_value, row + k), k * PANEL
            p0 = p0 + convert(load8(b_value, b) * x * s0, np.int32)
            p1 = p1 + convert(load8(b_value, b + 8) * x * s1, np.int32)
            p2 = p2 + convert(load8(b_value, b + 16) * x * s2, np.int32)
            p3 = p3 + convert(load8(b_value, b + 24) * x * s3, np.int32)
        t0, t1 = t0 + convert(p0, np.float64), t1 + convert(p1, np.float64)
        t2, t3 = t2 + convert(p2, np.float64), t3 + convert(p3, np.float64)
    store8(sums, at, _rounded(t0, c0, s0, e0, p.step))
    store8(sums, at + 8, _rounded(t1, c1, s1, e1, p.step))
    store8(sums, at + 16, _rounded(t2, c2, s2, e2, p.step))
    store8(sums, at + 24, _rounded(t3, c3, s3, e3, p.step))
    return True


@compiled
def _any_range(sums, at, a_words, row, b_words, p):
    """What :func:`_step_of_row` does, for operands of any size and kind: the executor's step, eight columns at a time."""
    a_rows, b_rows = stack_array(_MAX_PRODUCTS, np.uint32), stack_array(_EIGHT_TIMES, np.uint32)
    a_significand, a_exponent = stack_array(_MAX_PRODUCTS, np.float32), stack_array(_MAX_PRODUCTS, np.int32)
    b_significand, b_exponent = stack_array(_EIGHT_TIMES, np.float32), stack_array(_EIGHT_TIMES, np.int32)
    tile, result = stack_array(8, np.uint32), stack_array(8, np.uint32)
    for k in range(_MAX_PRODUCTS):
        a_rows[k] = a_words[row + k] if k < p.products else 0
    scale = np.float32(2.0 ** (p.step.fraction_bits - p.a.fraction_bits - p.b.fraction_bits))
    a_special = decode_words(a_significand, a_exponent, a_rows, _MAX_PRODUCTS, 1, p.a, scale)
    for group in range(0, PANEL, 8):
        for k in range(p.products):
            store8(b_rows, 8 * k, load8(b_words, k * PANEL + group))
        b_special = decode_words(b_significand, b_exponent, b_rows, 8 * p.products, 1, p.b, np.float32(1))
        before = load8(sums, at + group)
        store8(tile, 0, to_f16_bits(before) if p.step.half else bitcast(before, np.uint32))
        x = Operands(
            1, p.products, 1, a_rows, b_rows, a_significand, a_exponent, b_significand, b_exponent, p.a, p.b,
            a_special | b_special,
        )  # fmt: skip
        fused_step(result, tile, x, Span(0, 1, 0, p.products), p.step)
        bits = load8(result, 0)
        store8(sums, at + group, from_f16_bits(bits) if p.step.half else bitcast(bits, np.float32))


@inlined
def panel_step(
    sums: Any, at: int, a_words: Any, a_value: Any, a_exponent: Any, row: int, b_words: Any, b_value: Any, b_exponent: Any,
    p: PanelNumbers,
) -> None:  # fmt: skip
    """One step of a row of A: ``sums[at : at + 32]`` += its ``p.products`` elements, from ``row`` on in the arrays of A, times
    as many rows of 32 elements of B. Of both operands the words, one element each, and what :func:`decode_panel` makes of
    them."""
    if not _step_of_row(sums, at, a_value, a_exponent, row, b_value, b_exponent, p):
        _any_range(sums, at, a_words, row, b_words, p)
