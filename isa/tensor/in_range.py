# mypy: allow-untyped-defs, allow-untyped-calls
"""Fused steps of a warp's product whose terms are of ordinary size.

The arithmetic of a step is that of :mod:`isa.tensor.fused`. Operands are held as float32 *values* and exponents, as in
:mod:`isa.tensor.panels`: times 2^(F - emax) a product is in units of the last bit that the step keeps, and converting it to
int32 truncates it toward zero. That is half the work of aligning significands, and exact for -100 <= emax <= 126 or where every
term is zero (see there); :func:`in_range_step` tells where it is not, infinities and NaNs among it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from isa.compiled import compiled, inlined
from isa.tensor.fused import Span, StepNumbers, round_f16
from isa.tensor.operands import ZERO_EXPONENT, FormatNumbers, decode
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
)

__all__ = ["decode_values", "in_range_step"]

_LOWEST, _HIGHEST = -100, 126
_NOT_FINITE = -2 * ZERO_EXPONENT  # above the range even where the other operand is zero
_MAGNITUDE = 0x7FFFFFFF
_F32_INFINITY = 0x7F800000


@inlined
def _value(words, position, f):
    """Element ``position`` of each of eight words: its value (float32 lanes) and exponent."""
    if f.bias == 127:  # the upper bits of a float32
        bits = bitcast((words >> (position * f.bits)) << (32 - f.bits), np.int32) & ~((1 << f.ignored_low_bits) - 1)
        value, least = bitcast(bits, np.float32), -126
    elif f.bits == 16 and not f.normalise:
        value, least = from_f16_bits(words >> (position * f.bits)), -14
    else:
        significand, exponent, special = decode(words, position, f, np.float32(1))
        unit = bitcast((maximum(exponent, -64) + (127 - f.fraction_bits)) << 23, np.float32)
        value = select(exponent == ZERO_EXPONENT, np.float32(0), significand * unit)
        return value, select(special, _NOT_FINITE, exponent)
    magnitude = bitcast(value, np.int32) & _MAGNITUDE
    exponent = maximum((magnitude >> 23) - 127, least)
    exponent = select(magnitude == 0, ZERO_EXPONENT, exponent)
    return value, select(magnitude >= _F32_INFINITY, _NOT_FINITE, exponent)


@compiled
def decode_values(value: Any, exponent: Any, words: Any, count: int, per_word: int, f: FormatNumbers) -> None:
    """Decode ``count`` words (a multiple of eight) of ``per_word`` elements each, in the places of
    :func:`~isa.tensor.operands.decode_words`. The exponent of an infinity or NaN is far above the range."""
    for e in range(per_word):
        for i in range(0, count, 8):
            v, x = _value(load8(words, i), e, f)
            store8(value, e * count + i, v)
            store8(exponent, e * count + i, x)


@inlined
def _rounded(total, emax, step):
    """The sum of a step's terms, float64 lanes in units of 2^(emax - F), to its output format. It is never subnormal."""
    if step.half:
        return round_f16(total * bitcast((convert(emax, np.int64) + (1023 - step.fraction_bits)) << 52, np.float64))
    dropped = 52 - step.kept_fraction_bits
    cut = convert(bitcast((bitcast(total, np.int64) >> dropped) << dropped, np.float64), np.float32)  # exact
    return bitcast(cut * bitcast((emax + (127 - step.fraction_bits)) << 23, np.float32), np.uint32)  # too large is infinite


@inlined
def _rows(tile, m, words, a_value, a_exponent, b_value, b_exponent, e0, elements, w0, count, step):
    """The step for all rows, of ``elements`` positions from ``e0`` on of ``count`` words from ``w0`` on."""
    wrong = splat(0, np.int32) != 0
    least, lowest = -14 if step.half else -126, max(_LOWEST, step.emax_floor)
    for row in range(m):
        bits = load8(tile, row * 8)
        c = from_f16_bits(bits) if step.half else bitcast(bits, np.float32)
        magnitude = bitcast(c, np.int32) & _MAGNITUDE
        emax = select(magnitude == 0, ZERO_EXPONENT, maximum((magnitude >> 23) - 127, least))
        for element in range(elements):
            a, b = ((e0 + element) * m + row) * words + w0, ((e0 + element) * words + w0) * 8
            for w in range(count):
                emax = maximum(emax, load8(b_exponent, b + 8 * w) + load_repeated(a_exponent, a + w))
        wrong = wrong | (emax > _HIGHEST) | ((emax < _LOWEST) & (emax > ZERO_EXPONENT // 2))
        emax = maximum(emax, lowest)
        scale = bitcast(((127 + step.fraction_bits) - emax) << 23, np.float32)
        total = convert(convert(c * scale, np.int32), np.float64)
        for element in range(0, elements, 2):  # sixteen terms below 2^27 fit int32
            partial = splat(0, np.int32)
            for second in range(min(2, elements - element)):
                e = e0 + element + second
                a, b = (e * m + row) * words + w0, (e * words + w0) * 8
                for w in range(count):
                    partial = partial + convert(load8(b_value, b + 8 * w) * load_repeated(a_value, a + w) * scale, np.int32)
            total = total + convert(partial, np.float64)
        store8(tile, row * 8, _rounded(total, emax, step))
    return any_lane(wrong)


@compiled
def in_range_step(
    tile: Any, m: int, words: int, a_value: Any, a_exponent: Any, b_value: Any, b_exponent: Any, span: Span, step: StepNumbers
) -> Any:
    """``tile`` (``m`` rows of eight, in the format of ``step.c``) += the products of the elements of ``span``, which has eight
    words at most. Returns whether an exponent was out of range somewhere, and ``tile`` is of no use."""
    elements, count = span.e1 - span.e0, span.w1 - span.w0
    if elements == 2 and count == 8:  # what most steps have: LLVM then unrolls the loops
        return _rows(tile, m, words, a_value, a_exponent, b_value, b_exponent, span.e0, 2, span.w0, 8, step)
    return _rows(tile, m, words, a_value, a_exponent, b_value, b_exponent, span.e0, elements, span.w0, count, step)
