# mypy: allow-untyped-defs, allow-untyped-calls
"""One fused step of a tensor core: a dot product of a few terms and an accumulator, rounded once.

This is the arithmetic of every floating-point ``mma``, ``wmma`` and ``wgmma`` form, in one routine that a table of
numbers (:mod:`isa.tensor.rules`) drives. A step takes L products and an accumulator c, and does

1. products exactly, significands as encoded: a product's exponent is the sum of its operands' and is not renormalised;

2. ``emax`` = the largest exponent among the nonzero products, a nonzero c, and a floor;

3. every term, c included, truncated toward zero to a multiple of 2^(emax - F);

4. the exact sum of those;

5. rounding to the output format: float32 toward zero (overflow gives infinity, E8M13 also drops the low 10 bits), or
   float16 to nearest even. A zero result is +0, whatever the signs of what went in.

A NaN, 0 * infinity, or infinities of both signs give the canonical NaN; else an infinity gives that infinity. Both are
settled apart, on the rare path. Source: measured on an H200 (driver 580.159, CUDA 13.0) and, for other architectures,
the sources named in the rule table.

How it is done fast. A product of significands is an exact float32 (22 bits at most). Its alignment is a subtraction
from the exponent field, its truncation the conversion to int32; both take the sign along. Up to 15 terms below 2^27
fit int32, so each element position of the words (eight at most) is summed in int32, and the few partial sums and c
exactly in float64.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from isa.arith.stack import stack_array
from isa.compiled import compiled, inlined
from isa.tensor.operands import FormatNumbers, Operands, class_of, class_words, decode
from isa.tensor.simd import (
    any_lane,
    bitcast,
    convert,
    is_nan,
    load8,
    load_repeated,
    maximum,
    minimum,
    select,
    splat,
    store8,
    to_f16_bits,
)

__all__ = [
    "MAX_A", "MAX_B", "MAX_TILE", "NAN_F16", "NAN_F32", "Span", "StepNumbers", "fused_step", "round_f16", "round_f32",
]  # fmt: skip

MAX_TILE = 128
"""Accumulators of the largest warp tile: 16 x 8."""

MAX_A = 512
"""Elements of the largest A operand: 16 x 32."""

MAX_B = 256
"""Elements of the largest B operand: 32 x 8."""

NAN_F32 = 0x7FFFFFFF
NAN_F16 = 0x7FFF
_SIGN = np.uint32(0x80000000)


class StepNumbers(NamedTuple):
    """What distinguishes one fused step from another.

    ``fraction_bits`` is F. ``emax_floor`` is the least emax. ``half`` is 1 for a float16 accumulator and result.
    ``kept_fraction_bits`` is 23 for float32 results, 13 for E8M13. ``c`` is the accumulator's format.
    """

    fraction_bits: int
    emax_floor: int
    half: int
    kept_fraction_bits: int
    c: FormatNumbers


@inlined
def _aligned(term: Any, distance: Any, farthest: int) -> Any:
    """Float lanes ``term * 2^-distance`` truncated toward zero to int32. Terms are below 2^farthest / 2, so that
    whatever is ``farthest`` or more away is 0, and at least 2^-100, so that the exponent field never runs out."""
    return convert(bitcast(bitcast(term, np.int32) - (minimum(distance, farthest) << 23), np.float32), np.int32)


@inlined
def round_f32(value: Any, kept_fraction_bits: int) -> Any:
    """float64 lanes to float32 bits, toward zero, with ``kept_fraction_bits``; too large gives infinity, zero is +0."""
    bits = bitcast(value, np.int64)
    exponent = (bits >> 52) & 0x7FF
    below_normal = maximum((1023 - 126) - exponent, 0)  # subnormal results keep fewer bits
    dropped = minimum(below_normal + (52 - kept_fraction_bits), 63)
    cut = convert(bitcast((bits >> dropped) << dropped, np.float64), np.float32)  # exact, or 0, or infinite
    return bitcast(cut + np.float32(0), np.uint32)  # -0 + 0 = +0


@inlined
def round_f16(value: Any) -> Any:
    """float64 lanes to float16 bits, to nearest even; a zero, also after rounding, is +0. Goes through a float32
    rounded to odd, which keeps what the second rounding needs to know."""
    bits = bitcast(value, np.int64)
    rest = bits & ((1 << 29) - 1)
    odd = (bits - rest) | select(rest != 0, splat(1 << 29, np.int64), 0)
    half = to_f16_bits(convert(bitcast(odd, np.float64), np.float32))
    return select(half == 0x8000, 0, half)


class Span(NamedTuple):
    """The elements that a step takes of each row of A and column of B: positions ``e0`` to ``e1 - 1`` of words ``w0``
    to ``w1 - 1``."""

    e0: int
    e1: int
    w0: int
    w1: int


@compiled
def _step(out, tile, x, span, step):
    """The step for finite operands. Returns whether an accumulator is infinite or NaN."""
    f, words = step.fraction_bits, x.words
    c_scale = np.float32(2.0 ** (f - step.c.fraction_bits))
    special = splat(0, np.int32) != 0
    for row in range(x.m):
        c, c_exponent, mask = decode(load8(tile, row * 8), 0, step.c, c_scale)
        special = special | mask
        emax = maximum(c_exponent, step.emax_floor)
        for e in range(span.e0, span.e1):
            a, b = (e * x.m + row) * words, e * words * 8
            for w in range(span.w0, span.w1):
                emax = maximum(emax, load8(x.b_exponent, b + 8 * w) + load_repeated(x.a_exponent, a + w))
        total = convert(_aligned(c, emax - c_exponent, f + 3), np.float64)
        for e in range(span.e0, span.e1):
            partial = splat(0, np.int32)
            a, b = (e * x.m + row) * words, e * words * 8
            for w in range(span.w0, span.w1):
                product = load8(x.b_significand, b + 8 * w) * load_repeated(x.a_significand, a + w)
                distance = emax - (load8(x.b_exponent, b + 8 * w) + load_repeated(x.a_exponent, a + w))
                partial = partial + _aligned(product, distance, f + 3)
            total = total + convert(partial, np.float64)
        unit = bitcast((convert(emax, np.int64) + (1023 - f)) << 52, np.float64)  # 2^(emax - F)
        if step.half:
            store8(out, row * 8, round_f16(total * unit))
        else:
            store8(out, row * 8, round_f32(total * unit, step.kept_fraction_bits))
    return any_lane(special)


@compiled
def _settle_specials(out, tile, x, span, step):
    """Overwrite the results that are NaN or infinite because an operand is."""
    a_class, b_class = stack_array(MAX_A, np.float32), stack_array(MAX_B, np.float32)
    class_words(a_class, x.a_rows, x.m * x.words, x.per_word, x.a_format)
    class_words(b_class, x.b_rows, 8 * x.words, x.per_word, x.b_format)
    nan, infinity = (NAN_F16, 0x7C00) if step.half else (NAN_F32, 0x7F800000)
    for row in range(x.m):
        total = class_of(load8(tile, row * 8), 0, step.c)
        for e in range(span.e0, span.e1):
            a, b = (e * x.m + row) * x.words, e * x.words * 8
            for w in range(span.w0, span.w1):
                total = total + load8(b_class, b + 8 * w) * load_repeated(a_class, a + w)
        bits = bitcast(total, np.uint32)
        sign = (bits & _SIGN) >> (16 if step.half else 0)
        result = select((bits & 0x7FFFFFFF) == 0x7F800000, sign | infinity, load8(out, row * 8))
        store8(out, row * 8, select(is_nan(total), nan, result))


@compiled
def fused_step(out: Any, tile: Any, x: Operands, span: Span, step: StepNumbers) -> None:
    """``out`` = ``tile`` + the products of the elements of ``span`` of every row of A with those of every column of B.

    ``out`` and ``tile`` (uint32, ``x.m`` rows of eight, in ``step.c``'s format) must not be the same array. A's
    significands in ``x`` are scaled by 2^(F - the fraction bits of both operand formats).
    """
    finite_accumulators = not _step(out, tile, x, span, step)
    if x.special or not finite_accumulators:
        _settle_specials(out, tile, x, span, step)
