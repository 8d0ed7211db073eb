"""The hooks of ``wgmma`` that watch its sums, as :mod:`tcsim.checking.numerics` does those of the others. Compiled.

The accumulators are C and D in one. Whether A and B are finite is looked up in shared memory, and only if a sum is not.
"""

from __future__ import annotations

import numpy as np

from isa.compiled import compiled
from isa.kernels.planes import as_i32, as_i64, as_u32, load_i64, load_u8, load_u16, load_u32
from isa.machine import SHARED_HOST, WARP
from isa.tensor.matrix_descriptor import chunk_address, chunk_view
from isa.tensor.wgmma_operands import shape_of
from tcsim.checking.descriptors import descriptor_of, word_of
from tcsim.checking.layout import (
    CHECKER,
    G_META,
    G_POOL,
    M_DATA,
    M_DATA_COUNT,
    M_GIVEN,
    M_NUMBER,
    M_ROW,
    META_WORDS,
    T_GRID,
    T_NUMERIC,
)
from tcsim.checking.numerics import KEPT, compare, finite, keep, overflow

__all__ = ["sums_after", "sums_before"]

_ROWS = 16


@compiled
def _chunk_is_finite(host, mask):
    """Whether no element of 16 bytes has all bits of ``mask``, which says how wide elements are, too."""
    if mask < 256:
        for at in range(16):
            if np.int64(load_u8(host + at)) & mask == mask:
                return False
    elif mask < 65536:
        for at in range(0, 16, 2):
            if np.int64(load_u16(host + at)) & mask == mask:
                return False
    else:
        for at in range(0, 16, 4):
            if np.int64(load_u32(host + at)) & mask == mask:
                return False
    return True


@compiled
def _is_finite(descriptor, mn_major, first, lines, k_bytes, mask, ctx):
    """Whether ``lines`` rows or columns from ``first`` on of a matrix in shared memory are finite. (The product has read them,
    so they are all there.)"""
    view = chunk_view(descriptor, mn_major)
    down, across = (k_bytes // 2, lines // 8) if mn_major else (lines, k_bytes // 16)
    from_line, from_chunk = (np.int64(0), first // 8) if mn_major else (first, np.int64(0))
    shared = load_i64(ctx + 8 * SHARED_HOST)
    for i in range(down):
        for j in range(across):
            if not _chunk_is_finite(shared + chunk_address(view, from_line + i, from_chunk + j), mask):
                return False
    return True


def sums_before(base, lanes, place, ctx):
    """Keep the accumulators; zeros if they do not count."""
    t = as_i64(load_i64(ctx + 8 * CHECKER))
    grid = as_i64(t[T_GRID])
    meta = as_i32(grid[G_META] + 4 * META_WORDS * np.int64(as_i32(place)[0]))
    operands = as_i32(grid[G_POOL] + meta[M_ROW])
    kept = as_u32(t[T_NUMERIC] + 128 * KEPT * load_i64(ctx + 8 * WARP))
    p = shape_of(base, grid[G_POOL] + meta[M_ROW], np.int64(0))
    row = as_i32(grid[G_POOL] + meta[M_ROW] + 4 * meta[M_DATA])
    if word_of(base, row, p.at.scale_d) & np.uint32(1):
        keep(kept, base, operands, meta[M_GIVEN], meta[M_DATA_COUNT])
    else:
        for index in range(32 * meta[M_DATA_COUNT]):
            kept[index] = np.uint32(0)
    return np.int32(0)


def sums_after(base, lanes, place, ctx):
    """Compare the accumulators with those before."""
    t = as_i64(load_i64(ctx + 8 * CHECKER))
    grid = as_i64(t[T_GRID])
    pc = np.int64(as_i32(place)[0])
    meta = as_i32(grid[G_META] + 4 * META_WORDS * pc)
    operands = as_i32(grid[G_POOL] + meta[M_ROW])
    w = load_i64(ctx + 8 * WARP)
    if not compare(t, w, pc, base, operands, meta):
        return np.int32(0)
    mask = np.int64(meta[M_NUMBER])
    p = shape_of(base, grid[G_POOL] + meta[M_ROW], np.int64(0))
    row = as_i32(grid[G_POOL] + meta[M_ROW] + 4 * meta[M_DATA])
    if mask > 0 and p.a_in_registers:
        if not finite(base, operands, meta[M_DATA] + p.at.a, 4, mask):
            return np.int32(0)
    elif mask > 0:
        transposed = word_of(base, row, p.at.trans_a) != np.uint32(0)
        a = descriptor_of(base, row, p.at.a)
        if not _is_finite(a, transposed, np.int64(w & 3) * _ROWS, np.int64(_ROWS), p.stored * p.bits // 8, mask, ctx):
            return np.int32(0)
    transposed = word_of(base, row, p.at.trans_b) != np.uint32(0)
    b = descriptor_of(base, row, p.at.b)
    if mask == 0 or _is_finite(b, transposed, np.int64(0), p.n, p.k * p.bits // 8, mask, ctx):
        overflow(t, w, pc, base, operands, meta)
    return np.int32(0)
