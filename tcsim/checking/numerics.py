"""The hooks of matrix instructions: sums that overflow or wrap, and that cancel. Compiled.

Before the instruction, C is kept; behind it, every element of D is compared with it. An element that comes out infinite or
NaN of finite operands has overflowed. One whose magnitude has fallen below 2^-LOST of its accumulator's has lost LOST bits of
it in one step (f16: LOST_OF_HALF). One of 32-bit integers has wrapped if it is 2^31 or more from where it should be: A * B
alone is far less.
"""

from __future__ import annotations

import numpy as np

from isa.compiled import compiled
from isa.kernels.planes import as_i32, as_i64, as_u32, load_i64
from isa.machine import WARP
from tcsim.checking.clocks import report
from tcsim.checking.layout import (
    CHECKER,
    G_META,
    G_NUMERICS,
    G_POOL,
    M_DATA,
    M_DATA_BYTES,
    M_DATA_COUNT,
    M_GIVEN,
    M_GIVEN_KIND,
    M_MEMBERS,
    M_NUMBER,
    M_ROW,
    META_WORDS,
    OVERFLOW,
    T_CTA,
    T_GRID,
    T_NUMERIC,
    T_WARPS,
)
from tcsim.execute.accesses import OPERAND, PLANES

__all__ = [
    "INTEGERS",
    "KEPT",
    "LOST",
    "LOST_OF_HALF",
    "NUMERIC_WORDS",
    "compare",
    "finite",
    "keep",
    "matrix_after",
    "matrix_before",
    "overflow",
]

LOST, LOST_OF_HALF = 12, 10
"""Bits: half of the 24 of an f32 accumulator; all but one of the 11 of an f16 one, or chance would do it too often."""

N_ELEMENTS, N_CANCELLED, N_WORST, N_PLACE, N_FIRST = range(5)
NUMERIC_WORDS = 5
"""Per instruction: elements with a finite, nonzero accumulator; how many of them lost LOST bits or more; the most bits lost
and where (agent << 16 | register << 8 | half << 5 | lane); 1 + the first agent that executed it."""

KEPT = 129
"""Registers kept of a warp: 128 of C, and one that says whether A and B are finite."""

INTEGERS = -1
"""M_NUMBER of accumulators that are integers."""


@compiled
def _magnitude(word, half, size):
    """(exponent of the leading bit, or -4096 for zero; whether it is finite) of an accumulator."""
    if size == 2:
        bits = np.int64((word >> np.uint32(16 * half)) & np.uint32(0x7FFF))
        exponent, fraction, width, bias, most = bits >> 10, bits & 1023, 10, 15, 31
    else:
        bits = np.int64(word & np.uint32(0x7FFFFFFF))
        exponent, fraction, width, bias, most = bits >> 23, bits & 0x7FFFFF, 23, 127, 255
    if exponent == most:
        return np.int64(0), False
    if exponent == 0:
        if fraction == 0:
            return np.int64(-4096), True
        top = np.int64(0)
        while fraction >> (top + 1):
            top += 1
        return top - width + 1 - bias, True
    return exponent - bias, True


@compiled
def finite(base, operands, first, count, mask):
    """Whether no element of some registers has all bits of ``mask``, as what is not finite has (0: a type without). The mask
    says how wide elements are, too."""
    if mask == 0:
        return True
    if mask < 256:
        for register in range(count):
            plane = as_u32(base + operands[first + register])
            for lane in range(32):
                for byte in range(4):
                    if np.int64(plane[lane] >> np.uint32(8 * byte)) & mask == mask:
                        return False
        return True
    high = mask << 16 if mask < 65536 else mask
    for register in range(count):
        plane = as_u32(base + operands[first + register])
        for lane in range(32):
            word = np.int64(plane[lane])
            if word & high == high or (mask < 65536 and word & mask == mask):
                return False
    return True


@compiled
def keep(kept, base, operands, first, count):
    """Keep ``count`` registers."""
    for register in range(count):
        plane = as_u32(base + operands[first + register])
        for lane in range(32):
            kept[32 * register + lane] = plane[lane]


@compiled
def _wrapped(before, after):
    """Whether an accumulator of 32 bits is not where the sum should be."""
    old, new = np.int64(np.int32(before)), np.int64(np.int32(after))
    return old + np.int64(np.int32(after - before)) != new


def matrix_before(base, lanes, place, ctx):
    """Keep C, and whether A and B are finite."""
    t = as_i64(load_i64(ctx + 8 * CHECKER))
    grid = as_i64(t[T_GRID])
    meta = as_i32(grid[G_META] + 4 * META_WORDS * np.int64(as_i32(place)[0]))
    operands = as_i32(grid[G_POOL] + meta[M_ROW])
    kept = as_u32(t[T_NUMERIC] + 128 * KEPT * load_i64(ctx + 8 * WARP))
    keep(kept, base, operands, meta[M_GIVEN], meta[M_DATA_COUNT])
    mask = np.int64(meta[M_NUMBER])
    if mask == INTEGERS:
        return np.int32(0)
    all_finite = finite(base, operands, meta[OPERAND], meta[PLANES], mask)
    kept[32 * (KEPT - 1)] = np.uint32(all_finite and finite(base, operands, meta[M_GIVEN_KIND], meta[M_MEMBERS], mask))
    return np.int32(0)


@compiled
def compare(t, w, pc, base, operands, meta):
    """Compare D with what was kept. Returns whether an element is not finite that was before: whether it has overflowed depends
    on A and B."""
    kept = as_u32(t[T_NUMERIC] + 128 * KEPT * w)
    size, integers = np.int64(meta[M_DATA_BYTES]), meta[M_NUMBER] == INTEGERS
    numbers = as_i64(as_i64(t[T_GRID])[G_NUMERICS] + 8 * NUMERIC_WORDS * pc)
    agent = t[T_CTA] * t[T_WARPS] + w
    least = LOST if size == 4 else LOST_OF_HALF
    unsure = False
    for register in range(meta[M_DATA_COUNT]):
        plane = as_u32(base + operands[meta[M_DATA] + register])
        for lane in range(32):
            word = kept[32 * register + lane]
            if integers:
                if _wrapped(word, plane[lane]):
                    where = (agent << 16) | (np.int64(register) << 8) | np.int64(lane)
                    report(t, OVERFLOW, 0, 0, where, size, pc, agent, np.int64(1) << lane, -1, agent, 0, 1)
                continue
            for half in range(4 // size):
                before, before_finite = _magnitude(word, half, size)
                after, finite = _magnitude(plane[lane], half, size)
                if not finite:
                    unsure = unsure or before_finite
                elif before_finite and before > -4096:
                    numbers[N_ELEMENTS] += 1
                    lost = before - after
                    if lost >= least:
                        numbers[N_CANCELLED] += 1
                        if lost > numbers[N_WORST]:
                            place = (np.int64(register) << 8) | (np.int64(half) << 5) | np.int64(lane)
                            numbers[N_WORST], numbers[N_PLACE] = lost, (agent << 16) | place
    return unsure


@compiled
def overflow(t, w, pc, base, operands, meta):
    """Report the elements of D that are not finite, and were before; A and B are."""
    kept = as_u32(t[T_NUMERIC] + 128 * KEPT * w)
    size = np.int64(meta[M_DATA_BYTES])
    agent = t[T_CTA] * t[T_WARPS] + w
    for register in range(meta[M_DATA_COUNT]):
        plane = as_u32(base + operands[meta[M_DATA] + register])
        for lane in range(32):
            for half in range(4 // size):
                if not _magnitude(plane[lane], half, size)[1] and _magnitude(kept[32 * register + lane], half, size)[1]:
                    where = (agent << 16) | (np.int64(register) << 8) | (np.int64(half) << 5) | np.int64(lane)
                    report(t, OVERFLOW, 0, 0, where, size, pc, agent, np.int64(1) << lane, -1, agent, 0, 0)


def matrix_after(base, lanes, place, ctx):
    """Compare D with C."""
    t = as_i64(load_i64(ctx + 8 * CHECKER))
    grid = as_i64(t[T_GRID])
    pc = np.int64(as_i32(place)[0])
    meta = as_i32(grid[G_META] + 4 * META_WORDS * pc)
    operands = as_i32(grid[G_POOL] + meta[M_ROW])
    w = load_i64(ctx + 8 * WARP)
    if compare(t, w, pc, base, operands, meta) and as_u32(t[T_NUMERIC] + 128 * KEPT * w)[32 * (KEPT - 1)]:
        overflow(t, w, pc, base, operands, meta)
    return np.int32(0)
