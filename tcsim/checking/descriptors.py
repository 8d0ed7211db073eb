"""The hook of ``wgmma``: every run of 16 bytes that its matrix descriptors make it read. Compiled.

A warp reads its rows of A, where that is in shared memory, and all of B. So what another thread has written there and not
ordered before is a race, and a run that nobody has written a wrong descriptor more often than not. The reads count as those of
lane 0; ``wgmma.wait_group`` makes the lanes of a warp meet.
"""

from __future__ import annotations

import numpy as np

from isa.compiled import compiled
from isa.kernels.planes import as_i32, as_i64, as_u32, load_i64
from isa.machine import WARP, WINDOW_BITS
from isa.tensor.matrix_descriptor import chunk_address, chunk_view
from isa.tensor.wgmma_operands import shape_of
from tcsim.checking.accesses import shared_access
from tcsim.checking.layout import (
    ASYNC,
    CHECKER,
    G_META,
    G_POOL,
    GROUP_BITS,
    M_DATA,
    M_ROW,
    META_WORDS,
    PRODUCT,
    READ,
    T_GRID,
    T_PRODUCT_OPEN,
    T_RANK,
)

__all__ = ["descriptor_of", "descriptor_reads", "word_of"]

_ROWS = 16


@compiled
def _read(t, w, pc, descriptor, mn_major, first, lines, k_bytes, base, operands, meta, ctx):
    """The chunks of ``lines`` rows or columns of ``k_bytes``, from ``first`` on."""
    view = chunk_view(descriptor, mn_major)
    group = np.int64(PRODUCT) << GROUP_BITS | as_i64(t[T_PRODUCT_OPEN])[w]
    # MN-major, elements have 16 bits: a line is a k
    down, across = (k_bytes // 2, lines // 8) if mn_major else (lines, k_bytes // 16)
    from_line, from_chunk = (np.int64(0), first // 8) if mn_major else (first, np.int64(0))
    own = np.int64(t[T_RANK]) << np.int64(WINDOW_BITS)
    for i in range(down):
        for j in range(across):
            address = own + chunk_address(view, from_line + i, from_chunk + j)
            shared_access(
                t, w, np.int64(0), pc, np.int64(ASYNC), np.int64(READ), group, address, np.int64(16), base, operands, meta, ctx,
            )  # fmt: skip


@compiled
def word_of(base, row, at):
    """The first lane of an operand, counted from D; 0 for one that there is not."""
    return np.uint32(0) if at < 0 else as_u32(base + row[at])[0]


@compiled
def descriptor_of(base, row, at):
    """A matrix descriptor, uint64."""
    plane = as_u32(base + row[at])
    return np.uint64(plane[0]) | (np.uint64(plane[32]) << np.uint64(32))


def descriptor_reads(base, lanes, place, ctx):
    """Before ``wgmma``: look at everything that its descriptors lead to."""
    t = as_i64(load_i64(ctx + 8 * CHECKER))
    grid = as_i64(t[T_GRID])
    pc = np.int64(as_i32(place)[0])
    meta = as_i32(grid[G_META] + 4 * META_WORDS * pc)
    operands = as_i32(grid[G_POOL] + meta[M_ROW])
    p = shape_of(base, grid[G_POOL] + meta[M_ROW], np.int64(0))
    row = as_i32(grid[G_POOL] + meta[M_ROW] + 4 * meta[M_DATA])
    w = load_i64(ctx + 8 * WARP)
    if not p.a_in_registers:
        transposed = word_of(base, row, p.at.trans_a) != np.uint32(0)
        first = np.int64(w & 3) * _ROWS
        a = descriptor_of(base, row, p.at.a)
        _read(t, w, pc, a, transposed, first, np.int64(_ROWS), p.stored * p.bits // 8, base, operands, meta, ctx)
    transposed = word_of(base, row, p.at.trans_b) != np.uint32(0)
    b = descriptor_of(base, row, p.at.b)
    _read(t, w, pc, b, transposed, np.int64(0), p.n, p.k * p.bits // 8, base, operands, meta, ctx)
    return np.int32(0)
