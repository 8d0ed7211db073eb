"""The hooks of instructions that the lanes of a warp execute together, and of registers that may be read before they are
written. Compiled."""

from __future__ import annotations

import numpy as np

from isa.compiled import compiled
from isa.kernels.planes import as_i32, as_i64, as_u32, load_i64, load_u8, store_u8
from isa.machine import WARP
from tcsim.checking.clocks import report
from tcsim.checking.layout import (
    CHECKER,
    G_META,
    G_NUMERICS,
    G_POOL,
    INACTIVE_SOURCE,
    JUST_SET,
    M_DATA,
    M_GIVEN,
    M_MEMBERS,
    M_NUMBER,
    M_ROW,
    META_WORDS,
    PARTIAL_WARP,
    REGISTER,
    T_CTA,
    T_GRID,
    T_LIVE,
    T_PRODUCT_DONE,
    T_PRODUCT_OPEN,
    T_PRODUCT_REGISTERS,
    T_WARPS,
    T_WRITTEN,
    UNSET_REGISTER,
)
from tcsim.checking.numerics import N_FIRST, NUMERIC_WORDS

__all__ = [
    "SHUFFLE_MODES",
    "product_after",
    "product_before",
    "product_fence",
    "product_moved",
    "product_set",
    "product_touched",
    "register_moved",
    "register_read",
    "register_written",
    "shuffle_after",
    "whole_warp_before",
]

SHUFFLE_MODES = ("up", "down", "bfly", "idx")
_FULL = np.uint32(0xFFFF_FFFF)


@compiled
def _source(mode, lane, b, c):
    """(lane read, whether it is in range) of a shuffle, PTX ISA 9.7.9.6."""
    segments = np.int64((c >> np.uint32(8)) & np.uint32(31))
    clamp = np.int64(c & np.uint32(31))
    last = (lane & segments) | (clamp & ~segments)
    step = np.int64(b & np.uint32(31))
    if mode == 0:
        return lane - step, lane - step >= last
    if mode == 1:
        source = lane + step
    elif mode == 2:
        source = lane ^ step
    else:
        source = (lane & segments) | (step & ~segments)
    return source, source <= last


@compiled
def _lowest(lanes):
    lane = 0
    while not (lanes >> lane) & 1:
        lane += 1
    return lane


def shuffle_after(base, lanes, place, ctx):
    """Behind ``shfl.sync``: lanes that its mask names but that have exited, or never were, had nothing to give. Nor have those
    that it does not name; that is told where all lanes read so: sums over a part of a warp read past its end and drop it."""
    t = as_i64(load_i64(ctx + 8 * CHECKER))
    grid = as_i64(t[T_GRID])
    pc = np.int64(as_i32(place)[0])
    meta = as_i32(grid[G_META] + 4 * META_WORDS * pc)
    operands = as_i32(grid[G_POOL] + meta[M_ROW])
    w = load_i64(ctx + 8 * WARP)
    live = as_u32(t[T_LIVE])[w]
    steps, clamps = as_u32(base + operands[meta[M_DATA]]), as_u32(base + operands[meta[M_GIVEN]])
    members = as_u32(base + meta[M_MEMBERS])
    me = t[T_CTA] * t[T_WARPS] + w
    outside, within, example = np.int64(0), False, np.int64(0)
    for lane in range(32):
        if not (lanes >> np.uint32(lane)) & np.uint32(1):
            continue
        source, inside = _source(meta[M_NUMBER], np.int64(lane), steps[lane], clamps[lane])
        if inside and (members[lane] >> np.uint32(source)) & np.uint32(1) and not (live >> np.uint32(source)) & np.uint32(1):
            report(
                t, INACTIVE_SOURCE, 0, 0, np.int64(members[lane]), source, pc, me, np.int64(1) << lane, -1, me,
                members[lane] & ~live, 0,
            )  # fmt: skip
        if inside and source != lane:
            if (members[lane] >> np.uint32(source)) & np.uint32(1):
                within = True
            else:
                outside |= np.int64(1) << lane
                example = source
    if outside and not within:
        mask = np.int64(members[_lowest(outside)])
        report(t, INACTIVE_SOURCE, 0, 0, mask, example, pc, me, outside, -1, me, np.int64(1) << example, 1)
    return np.int32(0)


def whole_warp_before(base, lanes, place, ctx):
    """``mma``, ``ldmatrix`` and their kind need all 32 lanes."""
    t = as_i64(load_i64(ctx + 8 * CHECKER))
    w = load_i64(ctx + 8 * WARP)
    me = t[T_CTA] * t[T_WARPS] + w
    numbers = as_i64(as_i64(t[T_GRID])[G_NUMERICS] + 8 * NUMERIC_WORDS * np.int64(as_i32(place)[0]))
    if numbers[N_FIRST] == 0:
        numbers[N_FIRST] = me + 1
    if lanes != _FULL:
        live = as_u32(t[T_LIVE])[w]
        report(t, PARTIAL_WARP, 0, 0, 0, 0, np.int64(as_i32(place)[0]), me, lanes, -1, me, ~lanes, np.int64(live))
    return np.int32(0)


@compiled
def _written(t, w, number, count):
    return t[T_WRITTEN] + 32 * (count * w + number)


def register_written(base, lanes, place, ctx):
    """An instruction writes a register that some path reads first. Of its row: pc, then the tracked register, how many there
    are."""
    t = as_i64(load_i64(ctx + 8 * CHECKER))
    row = as_i32(place)
    first = _written(t, load_i64(ctx + 8 * WARP), np.int64(row[1]), np.int64(row[2]))
    for lane in range(32):
        if (lanes >> np.uint32(lane)) & np.uint32(1):
            store_u8(first + lane, np.uint8(1))
    return np.int32(0)


def register_moved(base, lanes, place, ctx):
    """A move copies such a register (the last of its row) to another: that is written where the first is."""
    t = as_i64(load_i64(ctx + 8 * CHECKER))
    row, w = as_i32(place), load_i64(ctx + 8 * WARP)
    into, source = _written(t, w, np.int64(row[1]), np.int64(row[2])), _written(t, w, np.int64(row[3]), np.int64(row[2]))
    for lane in range(32):
        if (lanes >> np.uint32(lane)) & np.uint32(1):
            store_u8(into + lane, load_u8(source + lane))
    return np.int32(0)


def register_read(base, lanes, place, ctx):
    """An address, a stored value or a branch depends on such a register."""
    t = as_i64(load_i64(ctx + 8 * CHECKER))
    row = as_i32(place)
    w = load_i64(ctx + 8 * WARP)
    first = _written(t, w, np.int64(row[1]), np.int64(row[2]))
    unset = np.int64(0)
    for lane in range(32):
        if (lanes >> np.uint32(lane)) & np.uint32(1) and load_u8(first + lane) == 0:
            unset |= np.int64(1) << lane
    if unset:
        me = t[T_CTA] * t[T_WARPS] + w
        report(t, UNSET_REGISTER, 0, 0, np.int64(row[1]), 0, np.int64(row[0]), me, unset, -1, me, 0, 0)
    return np.int32(0)


# Of the rows of the hooks below: the watched registers of products (tcsim.checking.products) there are, then those concerned.


@compiled
def _product_registers(t, w, count):
    return as_i64(t[T_PRODUCT_REGISTERS] + 8 * count * w)


def product_before(base, lanes, place, ctx):
    """A product is about to take a register that an ordinary instruction may have set behind the fence."""
    t, row, w = as_i64(load_i64(ctx + 8 * CHECKER)), as_i32(place), load_i64(ctx + 8 * WARP)
    if _product_registers(t, w, np.int64(row[1]))[row[2]] == JUST_SET:
        me = t[T_CTA] * t[T_WARPS] + w
        report(t, REGISTER, 0, 0, np.int64(row[2]), 0, np.int64(row[0]), me, lanes, -1, me, 0, 1)
    return np.int32(0)


def product_after(base, lanes, place, ctx):
    """A product is on its way to a register, or reads it."""
    t, row, w = as_i64(load_i64(ctx + 8 * CHECKER)), as_i32(place), load_i64(ctx + 8 * WARP)
    _product_registers(t, w, np.int64(row[1]))[row[2]] = as_i64(t[T_PRODUCT_OPEN])[w]
    return np.int32(0)


def product_touched(base, lanes, place, ctx):
    """Another instruction is about to read or write such a register."""
    t, row, w = as_i64(load_i64(ctx + 8 * CHECKER)), as_i32(place), load_i64(ctx + 8 * WARP)
    if _product_registers(t, w, np.int64(row[1]))[row[2]] > as_i64(t[T_PRODUCT_DONE])[w]:
        me = t[T_CTA] * t[T_WARPS] + w
        report(t, REGISTER, 0, 0, np.int64(row[2]), 0, np.int64(row[0]), me, lanes, -1, me, 0, 0)
    return np.int32(0)


def product_set(base, lanes, place, ctx):
    """Another instruction has written such a register."""
    t, row, w = as_i64(load_i64(ctx + 8 * CHECKER)), as_i32(place), load_i64(ctx + 8 * WARP)
    _product_registers(t, w, np.int64(row[1]))[row[2]] = JUST_SET
    return np.int32(0)


def product_moved(base, lanes, place, ctx):
    """A move has copied such a register (the second of its row) to another (the first)."""
    t, row, w = as_i64(load_i64(ctx + 8 * CHECKER)), as_i32(place), load_i64(ctx + 8 * WARP)
    registers = _product_registers(t, w, np.int64(row[1]))
    registers[row[2]] = registers[row[3]]
    return np.int32(0)


def product_fence(base, lanes, place, ctx):
    """``wgmma.fence``."""
    t, row, w = as_i64(load_i64(ctx + 8 * CHECKER)), as_i32(place), load_i64(ctx + 8 * WARP)
    registers = _product_registers(t, w, np.int64(row[1]))
    for number in range(row[1]):
        if registers[number] == JUST_SET:
            registers[number] = 0
    return np.int32(0)
