# mypy: allow-untyped-defs, allow-untyped-calls, disable-error-code="no-untyped-def"
"""The kernels of :mod:`isa.tensor.wgmma` with the numbers of the form among the operands.

There are some thousand ``wgmma`` instructions, and a kernel takes seconds to compile. So a form is not compiled in: its
numbers are constants in front of the other operands, and three kernels serve all forms.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from isa.compiled import compiled, inlined
from isa.kernels.planes import as_i32
from isa.tensor.fused import StepNumbers
from isa.tensor.mma_sparse import MetadataNumbers
from isa.tensor.operands import FormatNumbers
from isa.tensor.panels import PanelNumbers
from isa.tensor.wgmma import (
    Places,
    WgmmaFloatNumbers,
    WgmmaIntegerNumbers,
    WgmmaNumbers,
    wgmma_bits,
    wgmma_float,
    wgmma_integer,
)

__all__ = ["flat", "wgmma_bits_entry", "wgmma_float_entry", "wgmma_integer_entry"]


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


_SHAPE_COUNT = 22


@inlined
def _shape(registers, operands, at):
    n, k, stored, bits, in_registers, sparse, a, b = _numbers_8(registers, operands, at)
    metadata, selector, scale_d, scale_a, scale_b, trans_a, trans_b, c = _numbers_8(registers, operands, at + 8)
    unit_bits, units, lanes, word_shift, elements, allowed, _, _ = _numbers_8(registers, operands, at + 16)
    places = Places(a, b, metadata, selector, scale_d, scale_a, scale_b, trans_a, trans_b, c)
    codes = MetadataNumbers(unit_bits, units, lanes, word_shift, elements, allowed)
    return WgmmaNumbers(n, k, stored, bits, in_registers, sparse, places, codes)


@compiled
def wgmma_float_entry(registers: int, operands: int, ctx: int) -> Any:
    """:func:`~isa.tensor.wgmma.wgmma_float`, the numbers in front of the row of operands."""
    shape = _shape(registers, operands, 0)
    half, products, summed, least, _, _, _, _ = _numbers_8(registers, operands, _SHAPE_COUNT)
    at = _SHAPE_COUNT + 4
    a, b, c = (
        _format(registers, operands, at),
        _format(registers, operands, at + 8),
        _format(registers, operands, at + 20),
    )
    fraction_bits, floor, step_half, kept, _, _, _, _ = _numbers_8(registers, operands, at + 16)
    step = StepNumbers(fraction_bits, floor, step_half, kept, c)
    panel = PanelNumbers(products, summed, least, a, b, step)
    return wgmma_float(registers, operands + 4 * (at + 28), ctx, WgmmaFloatNumbers(shape, half, panel))


@compiled
def wgmma_integer_entry(registers: int, operands: int, ctx: int) -> Any:
    """:func:`~isa.tensor.wgmma.wgmma_integer`, the numbers in front of the row of operands."""
    shape = _shape(registers, operands, 0)
    a_signed = _number(registers, operands, _SHAPE_COUNT)
    b_signed = _number(registers, operands, _SHAPE_COUNT + 1)
    saturate = _number(registers, operands, _SHAPE_COUNT + 2)
    numbers = WgmmaIntegerNumbers(shape, a_signed, b_signed, saturate)
    return wgmma_integer(registers, operands + 4 * (_SHAPE_COUNT + 3), ctx, numbers)


@compiled
def wgmma_bits_entry(registers: int, operands: int, ctx: int) -> Any:
    """:func:`~isa.tensor.wgmma.wgmma_bits`, the numbers in front of the row of operands."""
    return wgmma_bits(registers, operands + 4 * _SHAPE_COUNT, ctx, _shape(registers, operands, 0))
