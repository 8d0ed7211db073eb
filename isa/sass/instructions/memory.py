"""Loads, stores, asynchronous copies and constants of the machine.

Cache hints, orders and scopes change no value: the executor performs every access in program order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from isa.arith.lane import lane
from isa.instructions.async_copy import _copy as copy_lane
from isa.instructions.async_copy import copy_turn
from isa.instructions.memory import lowest_fault, read, store_turn, write
from isa.instructions.warp import has
from isa.kernels.planes import load_i64, load_u32, store_u32
from isa.machine import (
    BAD_OPERAND,
    LOCAL_WINDOW,
    PARAM,
    RANK,
    SHARED,
    SHARED_BITS,
    SHARED_WINDOW,
    WINDOW_BITS,
    fault,
    locate,
)
from isa.sass.registry import machine
from isa.spec import flag, optional

SIZES = {"": 4, "U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}
STEP = {name: min(size, 4) for name, size in SIZES.items()}
COUNT = {name: max(size // 4, 1) for name, size in SIZES.items()}
_SIZE = optional(*(name for name in SIZES if name))
_HINTS: dict[str, Any] = {
    "evict": optional("EF", "EL", "LU", "EU", "NA"),
    "order": optional("STRONG", "CONSTRAINED", "WEAK", "MMIO"),
    "scope": optional("GPU", "SYS", "SM", "CTA", "VC"),
}
_PREFETCH = optional("LTC64B", "LTC128B", "LTC256B")


def _width(params):
    return SIZES[str(params["size"])]


def _data(name):
    """The data operand: as many registers as the access is wide."""
    return lambda params: {name: ("u32", COUNT[str(params["size"])])}


@lane
def extended(value, size):
    """A narrow value as a word, by its sign if it has one."""
    if size == "S8":
        return np.uint32(np.int32(np.int8(value)))
    if size == "S16":
        return np.uint32(np.int32(np.int16(value)))
    return np.uint32(value)


def _load(template, state, *, pipe="lsu", memory="load", **slots):
    return machine(
        f"{template} d:u32*2, [a]",
        pipe=pipe,
        body="warp",
        memory=memory,
        state=state,
        width=_width,
        operands=_data("d"),
        size=_SIZE,
        **slots,
    )


@_load(
    "LDG{e}{evict}{size}{constant}{order}{scope}{prefetch}",
    "global",
    e=flag("E"),
    constant=flag("CONSTANT"),
    prefetch=_PREFETCH,
    **_HINTS,
)
@_load("LD{e}{evict}{size}{order}{scope}{prefetch}", "", e=flag("E"), prefetch=_PREFETCH, **_HINTS)
@_load("LDL{evict}{size}", "local", evict=_HINTS["evict"])
@_load("LDS{u}{size}", "shared", u=flag("U"))
def load(d, a, mask, ctx, *, size, space):
    """Load one register or several per lane; narrow types are extended as their sign says."""
    for number in range(32):
        if (mask >> np.uint32(number)) & np.uint32(1):
            host = locate(ctx, space, a[number], SIZES[size], number)
            if host == 0:
                return 1
            for index in range(COUNT[size]):
                d[index, number] = extended(read(host + 4 * index, STEP[size]), size)
    return 0


def _store(template, state, **slots):
    return machine(
        f"{template} [a], b:u32*2",
        pipe="lsu",
        body="warp",
        memory="store",
        state=state,
        width=_width,
        operands=_data("b"),
        size=_SIZE,
        **slots,
    )


@_store("STG{e}{evict}{size}{order}{scope}", "global", e=flag("E"), **_HINTS)
@_store("ST{e}{evict}{size}{order}{scope}", "", e=flag("E"), **_HINTS)
@_store("STL{evict}{size}", "local", evict=_HINTS["evict"])
@_store("STS{size}", "shared")
def store(a, b, mask, ctx, *, size, space):
    """Store one register or several per lane. Where lanes write the same bytes, `store_turn` says whose value stays."""
    for turn in range(32):
        number = store_turn(turn, SIZES[size])
        if (mask >> np.uint32(number)) & np.uint32(1):
            host = locate(ctx, space, a[number], SIZES[size], number)
            if host == 0:
                return lowest_fault(ctx, space, a, SIZES[size], mask)
            for index in range(COUNT[size]):
                write(host + 4 * index, np.uint64(b[index, number]), STEP[size])
    return 0


# -------------------------------------------------------------------------------------------------------- constants
# The banks are one image that takes the place of the parameters; an address arrives as an offset into it.


@_load("LDC{size}", "param", memory="")
@_load("ULDC{size}", "param", pipe="uniform", memory="")
def load_constant(d, a, mask, ctx, *, size):
    """Load from a constant bank."""
    for number in range(32):
        if (mask >> np.uint32(number)) & np.uint32(1):
            for index in range(COUNT[size]):
                host = locate(ctx, PARAM, a[number] + np.uint64(4 * index), STEP[size], number)
                if host == 0:
                    return 1
                d[index, number] = extended(read(host, STEP[size]), size)
    return 0


# ------------------------------------------------------------------------------------------------------------ copies


def _copy(operands):
    return machine(
        f"LDGSTS.E{{bypass}}{{prefetch}}{{size}}{{zfill}} {operands}",
        pipe="lsu",
        body="warp",
        memory="copy",
        state="global",
        width=_width,
        bypass=flag("BYPASS"),
        prefetch=_PREFETCH,
        size=_SIZE,
        zfill=flag("ZFILL"),
    )


@_copy("[dst:b8], [src:b8], e:pred?")
def ldgsts(dst, src, e, mask, ctx, *, bypass, size, zfill):
    """Copy from global to shared memory. Where ``e`` is false nothing is read, and zeros are written.

    With ``.ZFILL`` the low bits of the global address, which would be zero, say how many bytes at the end are zeros instead.
    """
    width = np.int64(SIZES[size])
    for turn in range(32):
        number = copy_turn(turn, bypass)
        if has(mask, number):
            given = width if has(e, number) else np.int64(0)
            source = src[number]
            if zfill:
                missing = np.int64(source & np.uint64(width - 1))
                source -= np.uint64(missing)
                given -= missing if given != 0 else np.int64(0)
            status = copy_lane(ctx, dst[number], source, width, given, False, number)
            if status != 0:
                return status
    return 0


@machine("QSPC{e}.{which} p, d:u32, [a]", pipe="lsu", body="warp", e=flag("E"), which=("S", "L", "G", "D"))
def qspc(p, a, mask, ctx, *, which):
    """Whether a generic address lies in a state space: ``S`` is shared memory of this CTA, ``D`` that of any of its cluster."""
    own = np.uint64(SHARED_WINDOW >> WINDOW_BITS) + np.uint64(load_i64(ctx + 8 * RANK))
    for number in range(32):
        window = a[number] >> np.uint64(WINDOW_BITS)
        shared = a[number] >> np.uint64(SHARED_BITS) == np.uint64(SHARED_WINDOW >> SHARED_BITS)
        local = window == np.uint64(LOCAL_WINDOW >> WINDOW_BITS)
        if which == "G":
            inside = not (shared | local)
        elif which == "L":
            inside = local
        else:
            inside = window == own if which == "S" else shared
        if inside:
            p[0] |= np.uint32(1) << np.uint32(number)
    return 0


# ---------------------------------------------------------------------------------------------------------- matrices

TILES = {"": 1, "2": 2, "4": 4}


def _matrix(template, memory, name):
    return machine(
        template,
        pipe="lsu",
        body="warp",
        memory=memory,
        state="shared",
        width=lambda p: 4 * TILES[str(p["num"])],
        operands=lambda p: {name: ("u32", TILES[str(p["num"])])},
        kind=("M88", "MT88"),
        num=optional("2", "4"),
    )


@_matrix("LDSM.16.{kind}{num} d:u32*2, [a]", "matrix_load", "d")
def ldsm(d, a, mask, ctx, *, kind, num):
    """Load 8x8 tiles of 16-bit elements; lane ``8j+r`` gives the address of row ``r`` of tile ``j``, ``MT88`` transposes."""
    for tile in range(TILES[num]):
        for row in range(8):
            source = 8 * tile + row
            if not has(mask, source):
                return fault(ctx, BAD_OPERAND, source, SHARED, 0, 16)
            host = locate(ctx, SHARED, a[source], 16, source)
            if host == 0:
                return 1
            for part in range(4):
                word = load_u32(host + 4 * part)
                if kind == "MT88":
                    shift = np.uint32(16 * (row & 1))
                    keep = np.uint32(0xFFFF0000) if row & 1 == 0 else np.uint32(0x0000FFFF)
                    low, high = 8 * part + row // 2, 8 * part + 4 + row // 2
                    d[tile, low] = (d[tile, low] & keep) | ((word & np.uint32(0xFFFF)) << shift)
                    d[tile, high] = (d[tile, high] & keep) | ((word >> np.uint32(16)) << shift)
                else:
                    d[tile, 4 * row + part] = word
    return 0


@_matrix("STSM.16.{kind}{num} [a], b:u32*2", "matrix_store", "b")
def stsm(a, b, mask, ctx, *, kind, num):
    """Store 8x8 tiles of 16-bit elements: the inverse of LDSM. Rows that collide do so as `store_turn` says."""
    for source in range(8 * TILES[num]):
        if not has(mask, source):
            return fault(ctx, BAD_OPERAND, source, SHARED, 0, 16)
    for tile in range(TILES[num]):
        for turn in range(8):
            source = store_turn(8 * tile + turn, 16)
            row = source & 7
            host = locate(ctx, SHARED, a[source], 16, source)
            if host == 0:
                return lowest_fault(ctx, SHARED, a, 16, mask & np.uint32((1 << (8 * TILES[num])) - 1))
            for part in range(4):
                if kind == "MT88":
                    shift = np.uint32(16 * (row & 1))
                    low = (b[tile, 8 * part + row // 2] >> shift) & np.uint32(0xFFFF)
                    high = (b[tile, 8 * part + 4 + row // 2] >> shift) & np.uint32(0xFFFF)
                    store_u32(host + 4 * part, low | (high << np.uint32(16)))
                else:
                    store_u32(host + 4 * part, b[tile, 4 * row + part])
    return 0
