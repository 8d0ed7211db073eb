"""Bulk and tensor copies: UBLKCP, UBLKRED, UTMALDG, UTMASTG, UTMAREDG. What a copy does is in :mod:`isa.tma.issue`.

They take uniform registers that follow each other: a place in shared memory, the mbarrier to tell (of a load), the coordinates;
or the two words of an address. A warp issues such an instruction once. An im2col load takes the offsets of pixels packed into
the lower half of one register: one of 16 bits, two of 8, or three of 5 (read from what ptxas makes of them).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from isa.arith.lane import lane
from isa.arith.stack import stack_array
from isa.instructions.control import first_lane
from isa.sass.registry import machine
from isa.spec import flag, optional
from isa.tma.issue import bulk_load, bulk_move, bulk_store, tensor_load, tensor_store
from isa.tma.reduce import OPERATIONS
from isa.tma.tensor_map import ELEMENT_TYPES

_TMA: dict[str, Any] = {"pipe": "uniform", "body": "warp"}
RANK = {f"{rank}D": rank for rank in range(1, 6)}
NUMBER = {name.upper(): number for number, name in enumerate(OPERATIONS)}


def _places(before):
    """The registers of a shared-memory operand: what comes ``before`` the coordinates, and these."""
    return lambda params: {"a": ("u32", before + RANK[str(params["dim"])])}


@lane
def _coordinates(at, a, number, before, rank):
    """The coordinates of a box, which stand behind ``before`` registers, and zeros behind them."""
    at[:] = 0
    for index in range(rank):
        at[index] = np.int64(np.int32(a[before + index, number]))


OFFSET_BITS = {"3D": 16, "4D": 8, "5D": 5}


@lane
def _offsets(shift, packed, count, bits):
    """The offsets of pixels, and zeros behind them."""
    shift[:] = 0
    for index in range(count):
        shift[index] = np.int64((packed >> np.uint32(bits * index)) & np.uint32((1 << bits) - 1))


@machine("UTMALDG.{dim} a:u32*7, m:u64", operands=_places(2), dim=tuple(RANK), **_TMA)
def utmaldg(a, m, mask, ctx, *, dim):
    """Load a box of a tensor to shared memory and tell an mbarrier."""
    who = first_lane(mask)
    at, shift = stack_array(5, np.int64), stack_array(3, np.int64)
    _coordinates(at, a, who, 2, RANK[dim])
    shift[:] = 0
    target, barrier, where = np.int64(a[0, who]), np.int64(a[1, who]), np.int64(m[who])
    return tensor_load(ctx, target, where, barrier, np.int64(RANK[dim]), False, at, shift, np.int64(-1), np.int64(who))


@machine("UTMALDG.{dim}.MULTICAST a:u32*7, m:u64, r:u32", operands=_places(2), dim=tuple(RANK), **_TMA)
def utmaldg_multicast(a, m, r, mask, ctx, *, dim):
    """Load a box to each CTA of the cluster whose bit in the upper half of ``r`` is set."""
    who = first_lane(mask)
    at, shift = stack_array(5, np.int64), stack_array(3, np.int64)
    _coordinates(at, a, who, 2, RANK[dim])
    shift[:] = 0
    target, barrier, where = np.int64(a[0, who]), np.int64(a[1, who]), np.int64(m[who])
    ranks = np.int64(r[who] >> np.uint32(16))
    return tensor_load(ctx, target, where, barrier, np.int64(RANK[dim]), False, at, shift, ranks, np.int64(who))


@machine(
    "UTMALDG.{dim}.IM2COL{cast} a:u32*7, m:u64, r:u32",
    operands=_places(2),
    dim=tuple(OFFSET_BITS),
    cast=flag("MULTICAST"),
    **_TMA,
)
def utmaldg_pixels(a, m, r, mask, ctx, *, dim, cast):
    """Load the pixels of a convolution, shifted by the offsets in the lower half of ``r``."""
    who = first_lane(mask)
    at, shift = stack_array(5, np.int64), stack_array(3, np.int64)
    _coordinates(at, a, who, 2, RANK[dim])
    _offsets(shift, r[who], RANK[dim] - 2, OFFSET_BITS[dim])
    target, barrier, where = np.int64(a[0, who]), np.int64(a[1, who]), np.int64(m[who])
    ranks = np.int64(r[who] >> np.uint32(16)) if cast else np.int64(-1)
    return tensor_load(ctx, target, where, barrier, np.int64(RANK[dim]), True, at, shift, ranks, np.int64(who))


@machine("UTMASTG.{dim}{pixels} a:u32*7, m:u64", operands=_places(1), dim=tuple(RANK), pixels=flag("IM2COL"), **_TMA)
def utmastg(a, m, mask, ctx, *, dim, pixels):
    """Store a box, or pixels, from shared memory."""
    who = first_lane(mask)
    at = stack_array(5, np.int64)
    _coordinates(at, a, who, 1, RANK[dim])
    rank, source, where = np.int64(RANK[dim]), np.int64(a[0, who]), np.int64(m[who])
    return tensor_store(ctx, where, source, rank, pixels, np.int64(-1), at, np.int64(who))


@machine(
    "UTMAREDG.{dim}{pixels}.{op} a:u32*7, m:u64",
    operands=_places(1),
    dim=tuple(RANK),
    pixels=flag("IM2COL"),
    op=tuple(NUMBER),
    **_TMA,
)
def utmaredg(a, m, mask, ctx, *, dim, pixels, op):
    """Combine the elements of a box, or of pixels, in device memory with those of shared memory."""
    who = first_lane(mask)
    at = stack_array(5, np.int64)
    _coordinates(at, a, who, 1, RANK[dim])
    rank, source, where = np.int64(RANK[dim]), np.int64(a[0, who]), np.int64(m[who])
    return tensor_store(ctx, where, source, rank, pixels, np.int64(NUMBER[op]), at, np.int64(who))


# -------------------------------------------------------------------------------------------------------- blocks of bytes
# The last register holds the size in units of 16 bytes; of a copy to several CTAs, in its upper half which.

SIZE_MASK = np.uint32(0xFFFF)


@machine("UBLKCP_SG{cast} a:u32*2, m:u64, n:u32", cast=flag("MULTICAST"), **_TMA)
def ublkcp_load(a, m, n, mask, ctx, *, cast):
    """Copy a block from device memory to shared memory (to that of several CTAs) and tell an mbarrier."""
    who = first_lane(mask)
    size = np.int64(n[who] & SIZE_MASK) << np.int64(4)
    ranks = np.int64(n[who] >> np.uint32(16)) if cast else np.int64(-1)
    return bulk_load(ctx, np.int64(a[0, who]), np.int64(m[who]), size, np.int64(a[1, who]), ranks, np.int64(who))


@machine("UBLKCP_GS m:u64, a:u32, n:u32", **_TMA)
def ublkcp_store(m, a, n, mask, ctx):
    """Copy a block from shared memory to device memory."""
    who = first_lane(mask)
    size, nothing = np.int64(n[who] & SIZE_MASK) << np.int64(4), np.int64(-1)
    return bulk_store(ctx, np.int64(m[who]), np.int64(a[who]), size, nothing, np.int64(0), np.int64(1), np.int64(who))


@machine("UBLKCP_SS a:u32*2, b:u32, n:u32", **_TMA)
def ublkcp_move(a, b, n, mask, ctx):
    """Copy a block to shared memory of another CTA of the cluster and tell an mbarrier there."""
    who = first_lane(mask)
    size, nothing = np.int64(n[who] & SIZE_MASK) << np.int64(4), np.int64(-1)
    target, barrier, number = np.int64(a[0, who]), np.int64(a[1, who]), np.int64(who)
    return bulk_move(ctx, target, np.int64(b[who]), size, barrier, nothing, np.int64(0), np.int64(1), number)


_ELEMENTS = {"": "u32", "S32": "s32", "U64": "u64", "S64": "s64", "F16": "f16", "BF16": "bf16", "F32": "f32", "F64": "f64"}
FORMAT = {word: ELEMENT_TYPES[name].format for word, name in _ELEMENTS.items()}
BYTES = {word: ELEMENT_TYPES[name].bytes for word, name in _ELEMENTS.items()}
_REDUCING: dict[str, Any] = {"op": tuple(NUMBER), "t": optional(*filter(None, _ELEMENTS)), "rn": flag("RN"), **_TMA}


@machine("UBLKRED_GS.{op}{t}{rn} m:u64, a:u32, n:u32", **_REDUCING)
def ublkred_store(m, a, n, mask, ctx, *, op, t):
    """Combine the elements of a block of device memory with those of shared memory."""
    who = first_lane(mask)
    size, operation = np.int64(n[who] & SIZE_MASK) << np.int64(4), np.int64(NUMBER[op])
    element, width = np.int64(FORMAT[t]), np.int64(BYTES[t])
    return bulk_store(ctx, np.int64(m[who]), np.int64(a[who]), size, operation, element, width, np.int64(who))


@machine("UBLKRED_SS.{op}{t}{rn} a:u32*2, b:u32, n:u32", **_REDUCING)
def ublkred_move(a, b, n, mask, ctx, *, op, t):
    """Combine the elements of a block of another CTA's shared memory with those of this one's, and tell an mbarrier there."""
    who = first_lane(mask)
    size, operation = np.int64(n[who] & SIZE_MASK) << np.int64(4), np.int64(NUMBER[op])
    element, width = np.int64(FORMAT[t]), np.int64(BYTES[t])
    target, barrier, number = np.int64(a[0, who]), np.int64(a[1, who]), np.int64(who)
    return bulk_move(ctx, target, np.int64(b[who]), size, barrier, operation, element, width, number)


@machine("UTMACMDFLUSH", control="nothing", pipe="uniform")
@machine("UBLKPF.L2 m:u64, n:u32", control="nothing", pipe="uniform")
@machine("UTMAPF.L2.{dim} a:u32*7, m:u64", operands=_places(0), control="nothing", pipe="uniform", dim=tuple(RANK))
@machine(
    "UTMAPF.L2.{dim}.IM2COL a:u32*7, m:u64, r:u32",
    operands=_places(0),
    control="nothing",
    pipe="uniform",
    dim=tuple(OFFSET_BITS),
)
@machine("UTMACCTL.{what} m:u64", control="nothing", pipe="uniform", what=("PF", "IV"))
def bulk_nothing() -> None:
    """Close a group of copies; bring something to the L2 cache, or a tensor map to where copies read it, or away from there."""
