# mypy: allow-untyped-defs, allow-untyped-calls, disable-error-code="no-untyped-def"
"""Chains of fused tensor-core steps over a whole matrix, many columns at a time.

The arithmetic of a step is that of :mod:`isa.tensor.fused`; this is a second way to compute it, for operands that are decoded
once and used thousands of times. A panel is 32 columns of B. For each step (16 products, say) and row:

1. ``emax`` is the largest ``exponent(a) + exponent(b)``, of integers decoded beforehand;

2. ``a * b`` is an exact float32 (22 bits at most); times 2^(F - emax), which is exact too, it is in units of the last bit
   that the step keeps, and the conversion to int32 truncates it toward zero;

3. up to sixteen of those (each below 2^27) are summed in int32, the partial sums and C exactly in float64;

4. and the sum is rounded as the step's kernels round it.

That holds while products neither overflow float32 nor lose bits to its subnormals in a way that the alignment would not
have dropped anyway: for -100 <= emax <= 126, or where every term is zero. An infinity or NaN is given an exponent far above
that. So one test of emax finds all that does not fit, and those outputs are computed by the executor's own step.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa.arith.stack import stack_array
from isa.compiled import compiled, inlined
from isa.tensor.fused import NAN_F16, NAN_F32, Span, StepNumbers, fused_step, round_f16, round_f32
from isa.tensor.operands import ZERO_EXPONENT, FormatNumbers, Operands, decode, decode_words
from isa.tensor.plans import float_numbers
from isa.tensor.rules import Rule
from isa.tensor.simd import (
    any_lane,
    bitcast,
    convert,
    from_f16_bits,
    is_nan,
    load8,
    load_repeated,
    maximum,
    select,
    splat,
    store8,
    to_f16_bits,
)

__all__ = ["chain_fused"]

PANEL = 32
"""Columns computed together: four vectors."""

_LOWEST, _HIGHEST = -100, 126
_NOT_FINITE = -2 * ZERO_EXPONENT  # above the range even where the other operand is zero
_MANY_ROWS = 1024  # whose decoded A stays in the cache while panels of B go by
_MAX_PRODUCTS = 32
_EIGHT_TIMES = 8 * _MAX_PRODUCTS


class ChainNumbers(NamedTuple):
    """``products`` of each step; ``summed`` of them fit int32 at a time. With ``halves``, two steps start from +0, and the
    accumulator is added to their result with one rounding. ``least_exponent`` is that of the accumulator's subnormals."""

    products: int
    summed: int
    halves: int
    least_exponent: int
    a: FormatNumbers
    b: FormatNumbers
    step: StepNumbers


# ---------------------------------------------------------------------------------------------------------- operands


@compiled
def _decode(value, exponent, words, f):
    """Elements (one a word, a multiple of eight of them) to float32 values, 0 if not finite, and exponents."""
    for i in range(0, words.size, 8):
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
def _add_rounded(total, addend, half):
    """float32 lanes added to nearest even in the accumulator's format, NaN canonical."""
    result = total + addend
    if half:  # rounding the sum of two float16 numbers to float32 first changes nothing: 24 bits >= 2 * 11 + 2
        return from_f16_bits(select(is_nan(result), NAN_F16, to_f16_bits(result)))
    return bitcast(select(is_nan(result), NAN_F32, bitcast(result, np.uint32)), np.float32)


@compiled
def _chain(accumulators, a_words, b_words, p):
    """``accumulators`` (float32 [panel, row, 32]) += A (uint32 [step, row, product]) times B ([panel, step, product, 32])."""
    panels, steps, rows = b_words.shape[0], b_words.shape[1], a_words.shape[1]
    a_value, a_exponent = np.empty(a_words.size, np.float32), np.empty(a_words.size, np.int32)
    b_value, b_exponent = np.empty(b_words[0].size, np.float32), np.empty(b_words[0].size, np.int32)
    partial = np.zeros((rows if p.halves else 0) * PANEL, np.float32)
    _decode(a_value, a_exponent, a_words.reshape(-1), p.a)
    a_words, of_b = a_words.reshape(-1), p.products * PANEL
    for panel in range(panels):
        b_panel, sums = b_words[panel].reshape(-1), accumulators[panel].reshape(-1)
        _decode(b_value, b_exponent, b_panel, p.b)
        target = partial if p.halves else sums
        for step in range(steps):
            at_b = step * of_b
            value, exponent = b_value[at_b : at_b + of_b], b_exponent[at_b : at_b + of_b]
            if p.halves and step % 2 == 0:
                partial[:] = 0
            for r in range(rows):
                row, at = (step * rows + r) * p.products, r * PANEL
                if not _step_of_row(target, at, a_value, a_exponent, row, value, exponent, p):
                    _any_range(target, at, a_words, row, b_panel[at_b : at_b + of_b], p)
            if p.halves and step % 2 == 1:
                for i in range(0, rows * PANEL, 8):
                    store8(sums, i, _add_rounded(load8(partial, i), load8(sums, i), p.step.half))


# ---------------------------------------------------------------------------------------------------------- whole matrices


def _chain_numbers(rule: Rule, k: int, a: str, b: str) -> ChainNumbers:
    numbers = float_numbers(rule, 16, max(k, 8), a, b, rule.d, rule.d)
    products = k // 2 if numbers.halves else min(rule.products, k)
    # sixteen terms below 2^27 fit int32, of operands with ten fraction bits or fewer
    summed = min(products, 16)
    least = -14 if numbers.step.half else -126
    return ChainNumbers(products, summed, numbers.halves, least, numbers.a, numbers.b, numbers.step)


def _order(k: int, whole: int, numbers: ChainNumbers) -> NDArray[np.intp]:
    """The elements of ``k`` in the order in which steps take them; instructions take ``whole`` each."""
    index = np.arange(k).reshape(-1, whole)
    if numbers.halves:
        half = np.arange(whole) % 4 >= 2
        index = np.concatenate([index[:, ~half], index[:, half]], axis=1)
    return index.reshape(-1, numbers.products)


def chain_fused(
    a: NDArray[np.uint32], b: NDArray[np.uint32], c: NDArray[np.uint32], rule: Rule, k: int, a_type: str, b_type: str
) -> NDArray[np.uint32]:
    """The bits of D: ``c`` and then, k ascending, instructions of ``k`` products under a rule of method ``fused`` or
    ``fused_halves``.

    ``a`` ``[M, K]`` and ``b`` ``[K, N]`` are bit patterns of ``a_type`` and ``b_type``, K a multiple of ``k`` and not 0; ``c``
    ``[M, N]`` those of ``rule.d``, as is the result.
    """
    numbers = _chain_numbers(rule, k, a_type, b_type)
    order = _order(a.shape[1], k, numbers)
    columns, panels = b.shape[1], -(-b.shape[1] // PANEL)
    padded = np.zeros((b.shape[0], panels * PANEL), np.uint32)
    padded[:, :columns] = b
    b_words = np.ascontiguousarray(padded.reshape(-1, panels, PANEL)[order].transpose(2, 0, 1, 3))
    out = np.empty(c.shape, np.uint32)
    for first in range(0, len(a), _MANY_ROWS):
        block = a[first : first + _MANY_ROWS]
        rows = -(-len(block) // 8) * 8
        a_words = np.zeros((len(order), rows, numbers.products), np.uint32)
        a_words[:, : len(block)] = block[:, order].transpose(1, 0, 2)
        start = np.zeros((rows, panels * PANEL), np.float32)
        start[: len(block), :columns] = _values(c[first : first + _MANY_ROWS], rule.d)
        sums = np.ascontiguousarray(start.reshape(rows, panels, PANEL).transpose(1, 0, 2))
        _chain(sums, a_words, b_words, numbers)
        result = sums.transpose(1, 0, 2).reshape(rows, -1)[: len(block), :columns]
        out[first : first + _MANY_ROWS] = _bits(result, rule.d)
    return out


def _values(bits: NDArray[np.uint32], d: str) -> NDArray[np.float32]:
    if d == "f32":
        return bits.view(np.float32)
    return bits.astype(np.uint16).view(np.float16).astype(np.float32)


def _bits(values: NDArray[np.float32], d: str) -> NDArray[Any]:
    if d == "f32":
        return np.ascontiguousarray(values).view(np.uint32)
    halves = values.astype(np.float16).view(np.uint16).astype(np.uint32)  # exact
    return np.where(np.isnan(values), np.uint32(NAN_F16), halves)
