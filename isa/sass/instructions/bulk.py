"""Bulk and tensor copies: UBLKCP, UTMALDG, UTMASTG, UTMAREDG. What a copy does is in :mod:`isa.tma.issue`.

They take uniform registers that follow each other: a place in shared memory, the mbarrier to tell (of a load), the coordinates;
or the two words of an address. A warp issues such an instruction once. Offsets of pixels (im2col) are not known.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from isa.arith.stack import stack_array
from isa.instructions.control import first_lane
from isa.sass.registry import machine
from isa.spec import flag
from isa.tma.issue import bulk_load, bulk_move, bulk_store, tensor_load, tensor_store
from isa.tma.reduce import OPERATIONS

_TMA: dict[str, Any] = {"pipe": "uniform", "body": "warp"}
RANK = {f"{rank}D": rank for rank in range(1, 6)}
NUMBER = {name.upper(): number for number, name in enumerate(OPERATIONS)}


def _places(before):
    """The registers of a shared-memory operand: what comes ``before`` the coordinates, and these."""
    return lambda params: {"a": ("u32", before + RANK[str(params["dim"])])}


@machine("UTMALDG.{dim} a:u32*7, m:u64", operands=_places(2), dim=tuple(RANK), **_TMA)
def utmaldg(a, m, mask, ctx, *, dim):
    """Load a box of a tensor to shared memory and tell an mbarrier."""
    lane = first_lane(mask)
    at, shift = stack_array(5, np.int64), stack_array(3, np.int64)
    at[:] = 0
    shift[:] = 0
    for index in range(RANK[dim]):
        at[index] = np.int64(np.int32(a[2 + index, lane]))
    target, barrier, where = np.int64(a[0, lane]), np.int64(a[1, lane]), np.int64(m[lane])
    return tensor_load(ctx, target, where, barrier, np.int64(RANK[dim]), False, at, shift, np.int64(-1), np.int64(lane))


@machine("UTMALDG.{dim}.MULTICAST a:u32*7, m:u64, r:u32", operands=_places(2), dim=tuple(RANK), **_TMA)
def utmaldg_multicast(a, m, r, mask, ctx, *, dim):
    """Load a box to each CTA of the cluster whose bit in the upper half of ``r`` is set."""
    lane = first_lane(mask)
    at, shift = stack_array(5, np.int64), stack_array(3, np.int64)
    at[:] = 0
    shift[:] = 0
    for index in range(RANK[dim]):
        at[index] = np.int64(np.int32(a[2 + index, lane]))
    target, barrier, where = np.int64(a[0, lane]), np.int64(a[1, lane]), np.int64(m[lane])
    ranks = np.int64(r[lane] >> np.uint32(16))
    return tensor_load(ctx, target, where, barrier, np.int64(RANK[dim]), False, at, shift, ranks, np.int64(lane))


@machine("UTMASTG.{dim} a:u32*7, m:u64", operands=_places(1), dim=tuple(RANK), **_TMA)
def utmastg(a, m, mask, ctx, *, dim):
    """Store a box from shared memory."""
    lane = first_lane(mask)
    at = stack_array(5, np.int64)
    at[:] = 0
    for index in range(RANK[dim]):
        at[index] = np.int64(np.int32(a[1 + index, lane]))
    rank, source, where = np.int64(RANK[dim]), np.int64(a[0, lane]), np.int64(m[lane])
    return tensor_store(ctx, where, source, rank, False, np.int64(-1), at, np.int64(lane))


@machine("UTMAREDG.{dim}.{op} a:u32*7, m:u64", operands=_places(1), dim=tuple(RANK), op=tuple(NUMBER), **_TMA)
def utmaredg(a, m, mask, ctx, *, dim, op):
    """Combine the elements of a box in device memory with those of shared memory."""
    lane = first_lane(mask)
    at = stack_array(5, np.int64)
    at[:] = 0
    for index in range(RANK[dim]):
        at[index] = np.int64(np.int32(a[1 + index, lane]))
    rank, source, where = np.int64(RANK[dim]), np.int64(a[0, lane]), np.int64(m[lane])
    return tensor_store(ctx, where, source, rank, False, np.int64(NUMBER[op]), at, np.int64(lane))


# -------------------------------------------------------------------------------------------------------- blocks of bytes
# The last register holds the size in units of 16 bytes; of a copy to several CTAs, in its upper half which.

SIZE_MASK = np.uint32(0xFFFF)


@machine("UBLKCP_SG{cast} a:u32*2, m:u64, n:u32", cast=flag("MULTICAST"), **_TMA)
def ublkcp_load(a, m, n, mask, ctx, *, cast):
    """Copy a block from device memory to shared memory (to that of several CTAs) and tell an mbarrier."""
    lane = first_lane(mask)
    size = np.int64(n[lane] & SIZE_MASK) << np.int64(4)
    ranks = np.int64(n[lane] >> np.uint32(16)) if cast else np.int64(-1)
    return bulk_load(ctx, np.int64(a[0, lane]), np.int64(m[lane]), size, np.int64(a[1, lane]), ranks, np.int64(lane))


@machine("UBLKCP_GS m:u64, a:u32, n:u32", **_TMA)
def ublkcp_store(m, a, n, mask, ctx):
    """Copy a block from shared memory to device memory."""
    lane = first_lane(mask)
    size, nothing = np.int64(n[lane] & SIZE_MASK) << np.int64(4), np.int64(-1)
    return bulk_store(ctx, np.int64(m[lane]), np.int64(a[lane]), size, nothing, np.int64(0), np.int64(1), np.int64(lane))


@machine("UBLKCP_SS a:u32*2, b:u32, n:u32", **_TMA)
def ublkcp_move(a, b, n, mask, ctx):
    """Copy a block to shared memory of another CTA of the cluster and tell an mbarrier there."""
    lane = first_lane(mask)
    size, nothing = np.int64(n[lane] & SIZE_MASK) << np.int64(4), np.int64(-1)
    target, barrier, number = np.int64(a[0, lane]), np.int64(a[1, lane]), np.int64(lane)
    return bulk_move(ctx, target, np.int64(b[lane]), size, barrier, nothing, np.int64(0), np.int64(1), number)


@machine("UTMACMDFLUSH", control="nothing", pipe="uniform")
@machine("UBLKPF.L2 m:u64, n:u32", control="nothing", pipe="uniform")
@machine("UTMAPF.L2.{dim} a:u32*7, m:u64", operands=_places(0), control="nothing", pipe="uniform", dim=tuple(RANK))
def bulk_nothing() -> None:
    """Close a group of copies, or bring something to the L2 cache."""
