"""The hooks of bulk copies, tensor copies among them, and of stores that tell an mbarrier. Compiled.

A copy counts as an access of the thread that issues it, by the asynchronous proxy, and as under way until a wait says otherwise
(:mod:`tcsim.checking.asynchronous`). Of a box in shared memory all is taken from its first to its last byte, whatever the
swizzle; of im2col boxes only that side.
"""

from __future__ import annotations

import numpy as np

from isa.compiled import allocating, compiled
from isa.kernels.planes import as_i32, as_i64, as_u32, load_i64
from isa.machine import GENERIC, SHARED_BITS, WARP, WINDOW_BITS, locate
from isa.tma.geometry import ADDRESS, BOX, DIM, IM2COL, INTERLEAVE, RANK, SIZE, STEP, STRIDE, WORDS, read_map
from isa.tma.walk import box_bytes
from tcsim.checking.accesses import global_access, shared_access
from tcsim.checking.cells import NO_GROUP
from tcsim.checking.layout import (
    ASYNC,
    BULK,
    CHECKER,
    G_META,
    G_POOL,
    GROUP_BITS,
    M_ROW,
    META_WORDS,
    READ,
    STRONG,
    T_BULK_OPEN,
    T_GRID,
    WRITE,
)
from tcsim.checking.mbarriers import operand_address, owner_of, transaction

__all__ = ["BULK_ROW", "async_store", "bulk_load", "bulk_move", "bulk_store", "tensor_load", "tensor_store"]

# The row of a hook, behind the instruction: places and planes of its operands, -1 where there is none.
_SHARED, _SHARED_PLANES, _GLOBAL, _GLOBAL_PLANES, _SIZE, _BARRIER, _BARRIER_PLANES, _RANKS, _POINT, _DIMENSIONS, _REDUCES = (
    range(1, 12)
)
BULK_ROW = 11
_SPACE = np.int64((1 << SHARED_BITS) - 1)


@compiled
def _start(place, ctx):
    t = as_i64(load_i64(ctx + 8 * CHECKER))
    grid, row = as_i64(t[T_GRID]), as_i32(place)
    meta = as_i32(grid[G_META] + 4 * META_WORDS * np.int64(row[0]))
    return t, row, meta, as_i32(grid[G_POOL] + meta[M_ROW]), load_i64(ctx + 8 * WARP)


@compiled
def _arrives(t, row, meta, operands, w, lane, base, size, ctx):
    """``size`` bytes are on their way to shared memory, of this CTA or of those the copy names."""
    target = operand_address(base, operands, row[_SHARED], row[_SHARED_PLANES], lane) & _SPACE
    barrier = operand_address(base, operands, row[_BARRIER], row[_BARRIER_PLANES], lane) & _SPACE
    ranks = np.int64(1) << (target >> np.int64(WINDOW_BITS))
    if row[_RANKS] >= 0:
        ranks = np.int64(as_u32(base + operands[row[_RANKS]])[lane]) & np.int64(0xFFFF)
    offset = np.int64((1 << WINDOW_BITS) - 1)
    for rank in range(16):
        if not (ranks >> rank) & 1:
            continue
        to, told = target & offset | rank << WINDOW_BITS, barrier & offset | rank << WINDOW_BITS
        group = transaction(owner_of(t, told), told, ctx)
        shared_access(
            t, w, lane, np.int64(row[0]), np.int64(ASYNC), np.int64(WRITE), group, to, size, base, operands, meta, ctx
        )


@compiled
def _leaves(t, row, meta, operands, w, lane, base, address, size, group, ctx):
    """A copy will read ``size`` bytes of shared memory."""
    shared_access(
        t, w, lane, np.int64(row[0]), np.int64(ASYNC), np.int64(READ), group, address & _SPACE, size, base, operands, meta, ctx
    )


@compiled
def _open_group(t, w, lane):
    return np.int64(BULK) << GROUP_BITS | as_i64(t[T_BULK_OPEN])[32 * w + lane]


@compiled
def _device(t, row, meta, operands, w, lane, base, address, size, stores, group, last):
    """A copy reads, or ``stores`` or reduces, ``size`` bytes of device memory. Returns the region."""
    strong, action = np.int64(ASYNC), np.int64(READ)
    if stores:
        strong, action = (strong | STRONG, action | WRITE) if row[_REDUCES] else (strong, np.int64(WRITE))
    return global_access(t, w, lane, np.int64(row[0]), strong, action, group, address, size, base, operands, meta, last)


def bulk_load(base, lanes, place, ctx):
    """``cp.async.bulk`` from device memory."""
    t, row, meta, operands, w = _start(place, ctx)
    for lane in range(32):
        if (lanes >> np.uint32(lane)) & np.uint32(1):
            size = np.int64(as_u32(base + operands[row[_SIZE]])[lane])
            source = operand_address(base, operands, row[_GLOBAL], row[_GLOBAL_PLANES], lane)
            _device(t, row, meta, operands, w, lane, base, source, size, False, np.int64(NO_GROUP), np.int64(-1))
            _arrives(t, row, meta, operands, w, lane, base, size, ctx)
    return np.int32(0)


def bulk_store(base, lanes, place, ctx):
    """``cp.async.bulk`` or ``cp.reduce.async.bulk`` to device memory."""
    t, row, meta, operands, w = _start(place, ctx)
    for lane in range(32):
        if (lanes >> np.uint32(lane)) & np.uint32(1):
            size = np.int64(as_u32(base + operands[row[_SIZE]])[lane])
            source = operand_address(base, operands, row[_SHARED], row[_SHARED_PLANES], lane)
            _leaves(t, row, meta, operands, w, lane, base, source, size, _open_group(t, w, lane), ctx)
            target = operand_address(base, operands, row[_GLOBAL], row[_GLOBAL_PLANES], lane)
            _device(t, row, meta, operands, w, lane, base, target, size, True, _open_group(t, w, lane), np.int64(-1))
    return np.int32(0)


def bulk_move(base, lanes, place, ctx):
    """``cp.async.bulk`` from shared memory to that of a CTA of the cluster. Its source has the place of device memory."""
    t, row, meta, operands, w = _start(place, ctx)
    for lane in range(32):
        if (lanes >> np.uint32(lane)) & np.uint32(1):
            size = np.int64(as_u32(base + operands[row[_SIZE]])[lane])
            source = operand_address(base, operands, row[_GLOBAL], row[_GLOBAL_PLANES], lane)
            _leaves(t, row, meta, operands, w, lane, base, source, size, np.int64(NO_GROUP), ctx)
            _arrives(t, row, meta, operands, w, lane, base, size, ctx)
    return np.int32(0)


@compiled
def _read_tensor(row, operands, base, lane, g, ctx):
    """Read the map that a lane gives; returns whether it is one."""
    address = operand_address(base, operands, row[_GLOBAL], row[_GLOBAL_PLANES], lane)
    host = locate(ctx, GENERIC, address, 64, lane)
    return host != 0 and read_map(host, g) and g[RANK] == row[_DIMENSIONS]


@allocating
def _box(t, row, meta, operands, w, lane, base, g, stores):
    """The rows of a box in device memory that are inside the tensor."""
    if g[IM2COL] or g[INTERLEAVE]:
        return
    at = np.zeros(5, np.int64)
    for index in range(row[_DIMENSIONS]):
        at[index] = np.int64(np.int32(as_u32(base + operands[row[_POINT] + index])[lane]))
    low, high = max(at[0], np.int64(0)), min(at[0] + g[BOX], g[DIM])
    if low >= high:
        return
    last = np.int64(-1)
    group = _open_group(t, w, lane) if stores else np.int64(NO_GROUP)
    for i4 in range(0, g[BOX + 4], g[STEP + 4]):
        for i3 in range(0, g[BOX + 3], g[STEP + 3]):
            for i2 in range(0, g[BOX + 2], g[STEP + 2]):
                for i1 in range(0, g[BOX + 1], g[STEP + 1]):
                    x1, x2, x3, x4 = at[1] + i1, at[2] + i2, at[3] + i3, at[4] + i4
                    inside = 0 <= x1 < g[DIM + 1] and 0 <= x2 < g[DIM + 2] and 0 <= x3 < g[DIM + 3] and 0 <= x4 < g[DIM + 4]
                    if inside:
                        line = g[ADDRESS] + x1 * g[STRIDE + 1] + x2 * g[STRIDE + 2] + x3 * g[STRIDE + 3] + x4 * g[STRIDE + 4]
                        size = (high - low) * g[SIZE]
                        last = _device(t, row, meta, operands, w, lane, base, line + low * g[SIZE], size, stores, group, last)


def tensor_load(base, lanes, place, ctx):
    """``cp.async.bulk.tensor`` to shared memory."""
    t, row, meta, operands, w = _start(place, ctx)
    g = np.zeros(WORDS, np.int64)
    for lane in range(32):
        if (lanes >> np.uint32(lane)) & np.uint32(1) and _read_tensor(row, operands, base, lane, g, ctx):
            _box(t, row, meta, operands, w, lane, base, g, False)
            _arrives(t, row, meta, operands, w, lane, base, box_bytes(g)[1], ctx)
    return np.int32(0)


def tensor_store(base, lanes, place, ctx):
    """``cp.async.bulk.tensor`` or ``cp.reduce.async.bulk.tensor`` from shared memory."""
    t, row, meta, operands, w = _start(place, ctx)
    g = np.zeros(WORDS, np.int64)
    for lane in range(32):
        if (lanes >> np.uint32(lane)) & np.uint32(1) and _read_tensor(row, operands, base, lane, g, ctx):
            source = operand_address(base, operands, row[_SHARED], row[_SHARED_PLANES], lane)
            _leaves(t, row, meta, operands, w, lane, base, source, box_bytes(g)[1], _open_group(t, w, lane), ctx)
            _box(t, row, meta, operands, w, lane, base, g, True)
    return np.int32(0)


def async_store(base, lanes, place, ctx):
    """``st.async`` and ``red.async``. (The size is the row's, in bytes.)"""
    t, row, meta, operands, w = _start(place, ctx)
    for lane in range(32):
        if (lanes >> np.uint32(lane)) & np.uint32(1):
            target = operand_address(base, operands, row[_SHARED], row[_SHARED_PLANES], lane) & _SPACE
            barrier = operand_address(base, operands, row[_BARRIER], row[_BARRIER_PLANES], lane) & _SPACE
            group = transaction(owner_of(t, barrier), barrier, ctx)
            strong, action = np.int64(ASYNC), np.int64(WRITE)
            if row[_REDUCES]:
                strong |= STRONG
            shared_access(
                t, w, lane, np.int64(row[0]), strong, action, group, target, np.int64(row[_SIZE]), base, operands, meta, ctx
            )
    return np.int32(0)
