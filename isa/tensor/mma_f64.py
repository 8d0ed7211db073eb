# mypy: allow-untyped-defs, allow-untyped-calls
"""Double-precision ``mma.sync``: a chain of IEEE fused multiply-adds from C, k ascending, each rounded as the instruction
says, to nearest even if it does not.

NaNs are not made canonical. A step's result is the first NaN of (b, the sum so far, a), made quiet, with its sign and
payload; an invalid operation (0 * infinity, infinity - infinity) gives 0xFFF8000000000000. Measured on an H200, driver
580.159, for m8n8k4 and m16n8k4/k8/k16.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from isa.arith.float64 import fma_f64_rm, fma_f64_rn, fma_f64_rp, fma_f64_rz
from isa.arith.primitives import bits_f64, f64_bits
from isa.arith.stack import stack_array
from isa.compiled import compiled
from isa.tensor.fused import MAX_TILE
from isa.tensor.operands import load_tile_32, order_a, order_b, store_tile_32
from isa.tensor.simd import any_lane, bitcast, fused_multiply_add, is_nan, load8, load_repeated, store8

__all__ = ["ROUNDINGS", "DoubleNumbers", "mma_f64"]

ROUNDINGS = {"": 0, "rz": 1, "rm": 2, "rp": 3}
"""The number of each rounding mode."""

_MAX_A, _MAX_B = 256, 128  # 16 x 16, 16 x 8


class DoubleNumbers(NamedTuple):
    """``m`` rows (8 or 16), ``b_registers`` registers of B (K / 4), ``rounding`` of :data:`ROUNDINGS`."""

    m: int
    b_registers: int
    rounding: int


@compiled
def _chain(tile, a_rows, b_rows, row, k, rounding):
    """One row of D, element by element; the scalar functions have the NaNs of the tensor core."""
    for column in range(8):
        total = bits_f64(tile[row * 8 + column])
        for w in range(k):
            a, b = bits_f64(a_rows[row * k + w]), bits_f64(b_rows[w * 8 + column])
            if rounding == 0:
                total = fma_f64_rn(a, b, total)
            elif rounding == 1:
                total = fma_f64_rz(a, b, total)
            elif rounding == 2:
                total = fma_f64_rm(a, b, total)
            else:
                total = fma_f64_rp(a, b, total)
        tile[row * 8 + column] = f64_bits(total)


@compiled
def mma_f64(d: Any, a: Any, b: Any, c: Any, p: DoubleNumbers) -> None:
    """``d`` = ``a`` * ``b`` + ``c`` for one warp; each is ``[register, lane]``, the bits of float64 in uint64. ``d``
    may be ``c``.

    Shapes: A ``m / 8 * b_registers`` registers, B ``b_registers``, C and D ``m / 4``.
    """
    a_rows, b_rows = stack_array(_MAX_A, np.uint64), stack_array(_MAX_B, np.uint64)
    tile = stack_array(MAX_TILE, np.uint64)
    m, k = p.m, 4 * p.b_registers
    order_a(a_rows, a, m, p.b_registers)
    order_b(b_rows, b, p.b_registers)
    load_tile_32(tile, c, m)
    for row in range(m):
        total = bitcast(load8(tile, row * 8), np.float64)
        if p.rounding == 0:
            for w in range(k):
                element = bitcast(load_repeated(a_rows, row * k + w), np.float64)
                total = fused_multiply_add(element, bitcast(load8(b_rows, w * 8), np.float64), total)
        if p.rounding != 0 or any_lane(is_nan(total)):
            _chain(tile, a_rows, b_rows, row, k, p.rounding)
        else:
            store8(tile, row * 8, bitcast(total, np.uint64))
    store_tile_32(d, tile, m)
