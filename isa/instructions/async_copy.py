"""Asynchronous copies from global to shared memory: cp.async (PTX ISA 9.7.9.25).

The bytes are copied when the instruction executes. That is one of the orders PTX allows (they may arrive at any time up to the
wait), so a correct program cannot tell; when they arrive in time is the timing model's business.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from isa.arith.lane import lane
from isa.instructions.memory import store_turn
from isa.kernels.planes import load_u8, load_u32, store_u8, store_u32
from isa.machine import BAD_OPERAND, GLOBAL, SHARED, fault, locate
from isa.spec import instruction, optional

_COMMON: dict[str, Any] = {
    "timing": "async_copy",
    "memory": "copy",
    "section": "9.7.9.25.3.1",
    "sm": 80,
    "ptx": "7.0",
    "body": "warp",
    "cop": ("ca", "cg"),
    "shared": ("shared", "shared::cta"),
    "prefetch": optional("L2::64B", "L2::128B", "L2::256B"),
    "immediates": lambda p: {"size": (16,) if p["cop"] == "cg" else (4, 8, 16)},
}

_HINTED = "cp.async.{cop}.{shared}.global.{hint}{prefetch} [dst:b8], [src:b8], "
_HINT: dict[str, Any] = {"hint": ("L2::cache_hint",)}


@lane
def _copy(ctx, dst, src, size, given, widest, number):
    """Copy ``given`` of ``size`` bytes for one lane and zero the rest. Returns 0, or a fault code."""
    if size != 16 and (widest or (size != 4 and size != 8)):
        return fault(ctx, BAD_OPERAND, number, SHARED, 0, size)
    if given < 0 or given > size:
        return fault(ctx, BAD_OPERAND, number, SHARED, 0, given)
    target = locate(ctx, SHARED, dst, size, number)
    if target == 0:
        return np.int32(1)
    if given == 0:
        source = target
    else:
        source = locate(ctx, GLOBAL, src, size, number)
        if source == 0:
            return np.int32(1)
    if given == size:
        for step in range(0, size, 4):
            store_u32(target + step, load_u32(source + step))
    else:
        for step in range(size):
            store_u8(target + step, load_u8(source + step) if step < given else np.uint8(0))
    return np.int32(0)


@lane
def copy_turn(turn, past_l1):
    """The lane that takes a turn (0 to 31) in copying; where lanes copy to one place, the last to come stays.

    Copies that leave out the L1 (``.cg``) write as stores of 16 bytes do (:func:`isa.instructions.memory.store_turn`); with
    ``.ca``, 16 bytes included, the highest lane stays. Measured on an H200 (``traces/vectors/lane_order.npz``).
    """
    return store_turn(turn, 16) if past_l1 else turn


@instruction("cp.async.{cop}.{shared}.global{prefetch} [dst:b8], [src:b8], size:b32", **_COMMON)
@instruction(_HINTED + "size:b32, policy:b64", **_COMMON, **_HINT)
def cp_async(dst, src, size, mask, ctx, *, cop):
    """Copy 4, 8 or 16 bytes per lane (``.cg``: 16 only)."""
    for turn in range(32):
        number = copy_turn(turn, cop == "cg")
        if (mask >> np.uint32(number)) & np.uint32(1):
            count = np.int64(size[number])
            status = _copy(ctx, dst[number], src[number], count, count, cop == "cg", number)
            if status != 0:
                return status
    return 0


@instruction("cp.async.{cop}.{shared}.global{prefetch} [dst:b8], [src:b8], size:b32, given:b32", **_COMMON)
@instruction(_HINTED + "size:b32, given:b32, policy:b64", **_COMMON, **_HINT)
def cp_async_zfill(dst, src, size, given, mask, ctx, *, cop):
    """Copy ``given`` bytes and fill the rest of ``size`` with zeros; nothing is read where ``given`` is 0."""
    for turn in range(32):
        number = copy_turn(turn, cop == "cg")
        if (mask >> np.uint32(number)) & np.uint32(1):
            count = np.int64(size[number])
            status = _copy(ctx, dst[number], src[number], count, np.int64(given[number]), cop == "cg", number)
            if status != 0:
                return status
    return 0


@instruction("cp.async.{cop}.{shared}.global{prefetch} [dst:b8], [src:b8], size:b32, ignored:pred", **_COMMON)
@instruction(_HINTED + "size:b32, ignored:pred, policy:b64", **_COMMON, **_HINT)
def cp_async_ignore(dst, src, size, ignored, mask, ctx, *, cop):
    """Copy, or fill with zeros where the predicate says to ignore the source."""
    for turn in range(32):
        number = copy_turn(turn, cop == "cg")
        if (mask >> np.uint32(number)) & np.uint32(1):
            count = np.int64(size[number])
            given = np.int64(0) if (ignored >> np.uint32(number)) & np.uint32(1) else count
            status = _copy(ctx, dst[number], src[number], count, given, cop == "cg", number)
            if status != 0:
                return status
    return 0


@instruction("cp.async.commit_group", control="nothing", timing="async_commit", section="9.7.9.25.3.2", sm=80, ptx="7.0")
@instruction("cp.async.wait_all", control="nothing", timing="async_wait", section="9.7.9.25.3.3", sm=80, ptx="7.0")
def cp_async_group() -> None:
    """Close a group of copies, or wait for all of them."""


@instruction(
    "cp.async.wait_group n:b32",
    control="nothing",
    timing="async_wait",
    section="9.7.9.25.3.3",
    sm=80,
    ptx="7.0",
    immediates=lambda p: {"n": range(-(1 << 31), 1 << 32)},
)
def cp_async_wait() -> None:
    """Wait until at most the ``n`` youngest groups of copies are still under way."""
