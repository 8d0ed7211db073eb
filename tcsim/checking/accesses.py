"""The hooks of memory instructions: they compare every byte they touch with who touched it before. Compiled.

They run before the instruction, with the address registers as they are then. There are three, since most kernels do without two
of them, and what is not hooked is not compiled. Addresses that the instruction itself will refuse are passed over.
"""

from __future__ import annotations

import numpy as np

from isa.compiled import compiled
from isa.kernels.planes import as_i32, as_i64, as_u32, load_i64, load_u8, store_u8
from isa.machine import (
    GENERIC,
    GLOBAL,
    LOCAL,
    LOCAL_WINDOW,
    PARAM,
    PARAM_WINDOW,
    SHARED,
    SHARED_BITS,
    SHARED_HOST,
    SHARED_WINDOW,
    WARP,
    WINDOW_BITS,
)
from tcsim.checking.cells import NO_GROUP, quick_touch, touch
from tcsim.checking.clocks import advance, release, report
from tcsim.checking.layout import (
    ACQUIRE,
    C_WRITE,
    CELL_WORDS,
    CHECKER,
    COPY,
    CTA_SCOPE,
    G_GLOBAL_BITS,
    G_META,
    G_POOL,
    G_REGION_COUNT,
    G_REGIONS,
    G_TILES,
    GROUP_BITS,
    M_ACTION,
    M_GIVEN,
    M_GIVEN_KIND,
    M_ROW,
    M_STRONG,
    META_WORDS,
    ONLY_READ,
    READ,
    RELEASE,
    STRAY,
    STRONG,
    T_BEGIN,
    T_CELLS,
    T_CTA,
    T_GRID,
    T_LOCAL,
    T_LOCAL_SIZE,
    T_OPEN,
    T_PEERS,
    T_RANK,
    T_SHARED_BITS,
    T_SHARED_SIZE,
    T_WARPS,
    UNINITIALISED,
    WRITE,
)
from tcsim.execute.accesses import (
    MAX_STEPS,
    OPERAND,
    PLANES,
    ROWS,
    SECOND,
    SECOND_PLANES,
    SIZE,
    SPACE,
    T_BITS,
    T_COUNT,
    T_ELEMENTS,
    T_REGISTERS,
    T_ROW_MAJOR,
    T_STEPS,
    T_STRIDE,
    T_STRIDE_OPERAND,
    TILE,
)

__all__ = ["access", "copy_access", "global_access", "shared_access", "tile_access"]

TILE_WORDS = T_STEPS + 2 * MAX_STEPS


@compiled
def _address(base, operands, operand, planes, lane):
    address = np.int64(as_u32(base + operands[operand])[lane])
    if planes == 2:
        address |= np.int64(as_u32(base + operands[operand] + 128)[lane]) << np.int64(32)
        return address + np.int64(operands[operand + 1])
    return (address + np.int64(operands[operand + 1])) & np.int64(0xFFFF_FFFF)


@compiled
def shared_access(t, w, lane, pc, strong, action, group, address, size, base, operands, meta, ctx):
    """One access of one lane to shared memory, at an address that carries the rank of the CTA."""
    rank = address >> np.int64(WINDOW_BITS)
    offset = address & np.int64((1 << WINDOW_BITS) - 1)
    owner = t
    host = load_i64(ctx + 8 * SHARED_HOST)
    if rank != t[T_RANK]:  # another CTA's of the cluster
        if rank < 0 or rank >= 16 or as_i64(t[T_PEERS])[rank] == 0:
            return
        owner = as_i64(as_i64(t[T_PEERS])[rank])
        host = np.int64(0)
    if offset > owner[T_SHARED_SIZE] - size:
        return
    bits = t[T_SHARED_BITS]
    granule = np.int64(1) << bits
    begin = owner[T_BEGIN]
    if action & READ:  # a wider load may take in padding that nobody wrote
        empty = True
        for part in range(offset >> bits, (offset + size - 1 >> bits) + 1):
            if np.int64(as_u32(owner[T_CELLS] + 4 * CELL_WORDS * part)[C_WRITE]) >= begin:
                empty = False
                break
        if empty:
            me = t[T_CTA] * t[T_WARPS] + w
            report(t, UNINITIALISED, 0, SHARED, address, size, pc, me, np.int64(1) << lane, -1, 0, 0, 0)
    plain = strong == 0 and group == NO_GROUP
    for part in range(offset >> bits, (offset + size - 1 >> bits) + 1):
        start = part << bits
        cell = as_u32(owner[T_CELLS] + 4 * CELL_WORDS * part)
        if plain and quick_touch(t, begin, cell, w, lane, pc, action):
            continue
        touch(
            t, owner, begin, cell, w, lane, pc, strong, action, group, np.int64(SHARED), address - offset + start,
            min(granule, size), base, operands, meta, max(start - offset, np.int64(0)), host + start if host != 0 else host,
        )  # fmt: skip


@compiled
def _region(t, address, size, last):
    """The row of the region of global memory that holds an access, or -1; ``last`` is the one found before."""
    grid = as_i64(t[T_GRID])
    if last >= 0:
        row = as_i64(grid[G_REGIONS] + 32 * last)
        if row[0] <= address <= row[1] - size:
            return last
    low, high = np.int64(0), grid[G_REGION_COUNT]
    while low < high:
        middle = (low + high) // 2
        if as_i64(grid[G_REGIONS] + 32 * middle)[0] <= address:
            low = middle + 1
        else:
            high = middle
    if low == 0 or address > as_i64(grid[G_REGIONS] + 32 * (low - 1))[1] - size:
        return np.int64(-1)
    return low - 1


@compiled
def global_access(t, w, lane, pc, strong, action, group, address, size, base, operands, meta, last):
    """One access of one lane to device memory; returns the region it was in. ``last``: the region of the access before."""
    found = _region(t, address, size, last)
    if found < 0:
        return last
    grid = as_i64(t[T_GRID])
    row = as_i64(grid[G_REGIONS] + 32 * found)
    if row[2] <= 0:
        if row[2] == ONLY_READ and action & WRITE:
            me = t[T_CTA] * t[T_WARPS] + w
            report(t, STRAY, 0, GLOBAL, address, size, pc, me, np.int64(1) << lane, -1, 0, 0, 0)
        return found
    bits = grid[G_GLOBAL_BITS]
    granule = np.int64(1) << bits
    offset = address - row[0]
    for part in range(offset >> bits, (offset + size - 1 >> bits) + 1):
        start = part << bits
        cell = as_u32(row[2] + 4 * CELL_WORDS * part)
        if strong == 0 and group == NO_GROUP and quick_touch(t, np.int64(1), cell, w, lane, pc, action):
            continue
        touch(
            t, t, np.int64(1), cell, w, lane, pc, strong, action, group, np.int64(GLOBAL), row[0] + start,
            min(granule, size), base, operands, meta, max(start - offset, np.int64(0)), row[3] + start,
        )  # fmt: skip
    return found


@compiled
def _local(t, w, lane, pc, action, offset, size):
    if offset < 0 or offset > t[T_LOCAL_SIZE] - size:
        return
    first = t[T_LOCAL] + (32 * w + lane) * t[T_LOCAL_SIZE] + offset
    if action & READ:
        for byte in range(size):
            if load_u8(first + byte):
                return
        me = t[T_CTA] * t[T_WARPS] + w
        report(t, UNINITIALISED, 0, LOCAL, offset, size, pc, me, np.int64(1) << lane, -1, 0, 0, 0)
        return
    for byte in range(size):
        store_u8(first + byte, np.uint8(1))


@compiled
def _one(t, w, lane, pc, strong, action, group, space, address, size, base, operands, meta, ctx, last):
    """One access of one lane; returns the region it was in."""
    if address & (size - 1):
        return last
    if space == GENERIC:
        window = address >> np.int64(WINDOW_BITS)
        space = np.int64(GLOBAL)
        if address >> np.int64(SHARED_BITS) == np.int64(SHARED_WINDOW >> SHARED_BITS):
            space, address = np.int64(SHARED), address - np.int64(SHARED_WINDOW)
        elif window == np.int64(LOCAL_WINDOW >> WINDOW_BITS):
            space, address = np.int64(LOCAL), address - np.int64(LOCAL_WINDOW)
        elif window == np.int64(PARAM_WINDOW >> WINDOW_BITS):
            space = np.int64(PARAM)
    if space == SHARED:
        shared_access(t, w, lane, pc, strong, action, group, address, size, base, operands, meta, ctx)
    elif space == GLOBAL:
        return global_access(t, w, lane, pc, strong, action, group, address, size, base, operands, meta, last)
    elif space == LOCAL:
        _local(t, w, lane, pc, action, address, size)
    return last


@compiled
def _tile(t, w, lanes, pc, strong, action, base, operands, meta, ctx, tile):
    """A wmma load or store: every element of every lane."""
    stride = tile[T_STRIDE]
    if tile[T_STRIDE_OPERAND] >= 0:
        stride = np.int64(as_u32(base + operands[tile[T_STRIDE_OPERAND]])[0])
    size = max(np.int64(1), tile[T_BITS] // 8)
    last = np.int64(-1)
    for lane in range(32):
        if not (lanes >> np.uint32(lane)) & np.uint32(1):
            continue
        start = _address(base, operands, meta[OPERAND], meta[PLANES], lane)
        for register in range(tile[T_REGISTERS]):
            for element in range(tile[T_ELEMENTS]):
                index = (register * 32 + lane) * tile[T_ELEMENTS] + element
                r = c = np.int64(0)
                for position in range(tile[T_COUNT]):
                    if (index >> position) & 1:
                        r += tile[T_STEPS + position]
                        c += tile[T_STEPS + MAX_STEPS + position]
                steps = r * stride + c if tile[T_ROW_MAJOR] else c * stride + r
                last = _one(
                    t, w, lane, pc, strong, action, np.int64(NO_GROUP), np.int64(meta[SPACE]),
                    start + steps * tile[T_BITS] // 8, size, base, operands, meta, ctx, last,
                )  # fmt: skip


@compiled
def _copy(t, w, lanes, pc, base, operands, meta, ctx):
    """``cp.async``: reads as much of global memory as the source size says, writes all of it to shared memory later."""
    last = np.int64(-1)
    size = np.int64(meta[SIZE])
    for lane in range(32):
        if not (lanes >> np.uint32(lane)) & np.uint32(1):
            continue
        given = size
        if meta[M_GIVEN_KIND] == 1:
            given = np.int64(as_u32(base + operands[meta[M_GIVEN]])[lane])
        elif meta[M_GIVEN_KIND] == 2 and (as_u32(base + operands[meta[M_GIVEN]])[0] >> np.uint32(lane)) & np.uint32(1):
            given = np.int64(0)
        if given > 0:
            source = _address(base, operands, meta[OPERAND], meta[PLANES], lane)
            last = _one(
                t, w, lane, pc, np.int64(0), np.int64(READ), np.int64(NO_GROUP), np.int64(GLOBAL), source, size, base, operands,
                meta, ctx, last,
            )  # fmt: skip
        group = np.int64(COPY) << GROUP_BITS | as_i64(t[T_OPEN])[32 * w + lane]
        target = _address(base, operands, meta[SECOND], meta[SECOND_PLANES], lane)
        _one(
            t, w, lane, pc, np.int64(0), np.int64(WRITE), group, np.int64(SHARED), target, size, base, operands, meta, ctx, last
        )


@compiled
def _meta(t, place):
    """(its place in the program, its row of the table) of the instruction that a hook stands before."""
    pc = np.int64(as_i32(place)[0])
    return pc, as_i32(as_i64(t[T_GRID])[G_META] + 4 * META_WORDS * pc)


def copy_access(base, lanes, place, ctx):
    """Before ``cp.async``: look at everything it will touch."""
    t = as_i64(load_i64(ctx + 8 * CHECKER))
    pc, meta = _meta(t, place)
    operands = as_i32(as_i64(t[T_GRID])[G_POOL] + meta[M_ROW])
    _copy(t, load_i64(ctx + 8 * WARP), lanes, pc, base, operands, meta, ctx)
    return np.int32(0)


def tile_access(base, lanes, place, ctx):
    """Before a wmma load or store: look at everything it will touch."""
    t = as_i64(load_i64(ctx + 8 * CHECKER))
    grid = as_i64(t[T_GRID])
    pc, meta = _meta(t, place)
    operands = as_i32(grid[G_POOL] + meta[M_ROW])
    tile = as_i64(grid[G_TILES] + 8 * TILE_WORDS * meta[TILE])
    strong, action = np.int64(meta[M_STRONG]), np.int64(meta[M_ACTION])
    _tile(t, load_i64(ctx + 8 * WARP), lanes, pc, strong, action, base, operands, meta, ctx, tile)
    return np.int32(0)


def access(base, lanes, place, ctx):
    """Before another memory instruction: look at everything it will touch."""
    t = as_i64(load_i64(ctx + 8 * CHECKER))
    pc, meta = _meta(t, place)
    operands = as_i32(as_i64(t[T_GRID])[G_POOL] + meta[M_ROW])
    w = load_i64(ctx + 8 * WARP)
    strong, action = np.int64(meta[M_STRONG]), np.int64(meta[M_ACTION])
    if strong & RELEASE:
        release(t, w, strong & CTA_SCOPE != 0)
    last = np.int64(-1)
    size, space = np.int64(meta[SIZE]), np.int64(meta[SPACE])
    for lane in range(min(np.int64(meta[ROWS]), np.int64(32))):
        if (lanes >> np.uint32(lane)) & np.uint32(1):
            address = _address(base, operands, meta[OPERAND], meta[PLANES], lane)
            last = _one(
                t, w, lane, pc, strong, action, np.int64(NO_GROUP), space, address, size, base, operands, meta, ctx, last
            )
    if strong & (STRONG | ACQUIRE) and action & WRITE:
        advance(t)
    return np.int32(0)
