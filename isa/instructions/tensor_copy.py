"""Bulk copies of parts of tensors: cp.async.bulk.tensor, cp.reduce.async.bulk.tensor and prefetches (PTX ISA 9.7.9.25.5).

What a copy does is in :mod:`isa.tma`; lanes issue theirs in ascending order. Cache policies change no value.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from isa.arith.lane import lane
from isa.arith.stack import stack_array
from isa.spec import instruction, optional
from isa.tma.issue import tensor_load, tensor_store
from isa.tma.reduce import OPERATIONS

_ONE = np.uint32(1)
_RANK = {f"{rank}d": rank for rank in range(1, 6)}
_NUMBER = {name: number for number, name in enumerate(OPERATIONS)}
_HINT: dict[str, Any] = {"hint": ("L2::cache_hint",)}


def _counts(p):
    """Coordinates, and of an im2col load the offsets of its spatial dimensions."""
    rank = _RANK[str(p["dim"])]
    return {"c": ("b32", rank), "offsets": ("b16", rank - 2)}


def _spatial(p):
    return None if _RANK[str(p["dim"])] >= 3 else f".{p['dim']} has no spatial dimensions: .im2col takes .3d to .5d"


def _store_mode(p):
    return _spatial(p) if p["mode"] == "im2col_no_offs" else None


_TENSOR: dict[str, Any] = {
    "body": "warp",
    "timing": "tensor_copy",
    "sm": 90,
    "ptx": "8.0",
    "operands": _counts,
    "dim": tuple(_RANK),
}
_TILE: dict[str, Any] = {"mode": optional("tile")}
_PIXELS: dict[str, Any] = {"mode": ("im2col",), "valid": _spatial}


@lane
def _coordinates(at, c, number, rank):
    """The coordinates that a lane gives, and zeros behind them."""
    at[:] = 0
    for index in range(rank):
        at[index] = np.int64(np.int32(c[index, number]))


@lane
def _offsets(shift, offsets, number, count):
    """The offsets of an im2col load that a lane gives, and zeros behind them.

    Hardware is told them in 16 bits together: one of 16, two of 8, or three of 5 (as ptxas 13.0 packs them).
    """
    shift[:] = 0
    if count == 2:
        shift[0], shift[1] = np.int64(offsets[0, number]) & 0xFF, np.int64(offsets[1, number]) & 0xFF
        return
    packed = np.int64(0)
    for index in range(count):
        packed += np.int64(offsets[index, number]) << (5 * index)
    for index in range(count):
        shift[index] = (packed >> (5 * index)) & (0xFFFF if count == 1 else 0x1F)


# -------------------------------------------------------------------------------------------------------------- loads

_LOAD: dict[str, Any] = {"section": "9.7.9.25.5.2", **_TENSOR}
_SPACES: dict[str, Any] = {"space": ("shared::cta", "shared::cluster")}
_TO = "cp.async.bulk.tensor.{dim}.{space}.global%s.mbarrier::complete_tx::bytes"
_CASTING = "cp.async.bulk.tensor.{dim}.shared::cluster.global%s.mbarrier::complete_tx::bytes.multicast::cluster"
_BOX = "[dst:b8], [tensor:b8, c:b32*n], [bar:b8]"


@instruction(_TO % "{mode}" + f" {_BOX}", **_LOAD, **_SPACES, **_TILE)
@instruction(_TO % "{mode}" + ".{hint}" + f" {_BOX}, policy:b64", **_LOAD, **_SPACES, **_TILE, **_HINT)
def tensor_box_load(dst, tensor, c, bar, mask, ctx, *, dim):
    """Load a box of a tensor to shared memory and tell an mbarrier. What is outside the tensor is filled as the map says."""
    for number in range(32):
        if (mask >> np.uint32(number)) & _ONE:
            at, shift = stack_array(5, np.int64), stack_array(3, np.int64)
            _coordinates(at, c, number, _RANK[dim])
            shift[:] = 0
            target, where, barrier = np.int64(dst[number]), np.int64(tensor[number]), np.int64(bar[number])
            rank, who, nobody = np.int64(_RANK[dim]), np.int64(number), np.int64(-1)
            status = tensor_load(ctx, target, where, barrier, rank, False, at, shift, nobody, who)
            if status != 0:
                return status
    return 0


@instruction(_TO % ".{mode}" + f" {_BOX}, offsets:b16*n", **_LOAD, **_SPACES, **_PIXELS)
@instruction(_TO % ".{mode}" + ".{hint}" + f" {_BOX}, offsets:b16*n, policy:b64", **_LOAD, **_SPACES, **_PIXELS, **_HINT)
def tensor_pixels_load(dst, tensor, c, bar, offsets, mask, ctx, *, dim):
    """Load the pixels of a convolution (im2col): from coordinates ``c`` on, each shifted by ``offsets``."""
    for number in range(32):
        if (mask >> np.uint32(number)) & _ONE:
            at, shift = stack_array(5, np.int64), stack_array(3, np.int64)
            _coordinates(at, c, number, _RANK[dim])
            _offsets(shift, offsets, number, _RANK[dim] - 2)
            target, where, barrier = np.int64(dst[number]), np.int64(tensor[number]), np.int64(bar[number])
            rank, who, nobody = np.int64(_RANK[dim]), np.int64(number), np.int64(-1)
            status = tensor_load(ctx, target, where, barrier, rank, True, at, shift, nobody, who)
            if status != 0:
                return status
    return 0


@instruction(_CASTING % "{mode}" + f" {_BOX}, ranks:b16", **_LOAD, **_TILE)
@instruction(_CASTING % "{mode}" + ".{hint}" + f" {_BOX}, ranks:b16, policy:b64", **_LOAD, **_TILE, **_HINT)
def tensor_box_multicast(dst, tensor, c, bar, ranks, mask, ctx, *, dim):
    """Load a box to each CTA of the cluster whose bit of ``ranks`` is set: to the same place in its shared memory."""
    for number in range(32):
        if (mask >> np.uint32(number)) & _ONE:
            at, shift = stack_array(5, np.int64), stack_array(3, np.int64)
            _coordinates(at, c, number, _RANK[dim])
            shift[:] = 0
            target, where, barrier = np.int64(dst[number]), np.int64(tensor[number]), np.int64(bar[number])
            rank, who, cast = np.int64(_RANK[dim]), np.int64(number), np.int64(ranks[number])
            status = tensor_load(ctx, target, where, barrier, rank, False, at, shift, cast, who)
            if status != 0:
                return status
    return 0


@instruction(_CASTING % ".{mode}" + f" {_BOX}, offsets:b16*n, ranks:b16", **_LOAD, **_PIXELS)
@instruction(_CASTING % ".{mode}" + ".{hint}" + f" {_BOX}, offsets:b16*n, ranks:b16, policy:b64", **_LOAD, **_PIXELS, **_HINT)
def tensor_pixels_multicast(dst, tensor, c, bar, offsets, ranks, mask, ctx, *, dim):
    """Load the pixels of a convolution to each CTA of the cluster whose bit of ``ranks`` is set."""
    for number in range(32):
        if (mask >> np.uint32(number)) & _ONE:
            at, shift = stack_array(5, np.int64), stack_array(3, np.int64)
            _coordinates(at, c, number, _RANK[dim])
            _offsets(shift, offsets, number, _RANK[dim] - 2)
            target, where, barrier = np.int64(dst[number]), np.int64(tensor[number]), np.int64(bar[number])
            rank, who, cast = np.int64(_RANK[dim]), np.int64(number), np.int64(ranks[number])
            status = tensor_load(ctx, target, where, barrier, rank, True, at, shift, cast, who)
            if status != 0:
                return status
    return 0


# ------------------------------------------------------------------------------------------------ stores and reductions

_FROM = "cp.async.bulk.tensor.{dim}.global.shared::cta{mode}.bulk_group"
_REDUCING = "cp.reduce.async.bulk.tensor.{dim}.global.shared::cta.{op}{mode}.bulk_group"
_MODES: dict[str, Any] = {"mode": optional("tile", "im2col_no_offs"), "valid": _store_mode}
_STORED = "[tensor:b8, c:b32*n], [src:b8]"


@instruction(f"{_FROM} {_STORED}", section="9.7.9.25.5.2", **_TENSOR, **_MODES)
@instruction(_FROM + ".{hint}" + f" {_STORED}, policy:b64", section="9.7.9.25.5.2", **_TENSOR, **_MODES, **_HINT)
def tensor_box_store(tensor, c, src, mask, ctx, *, dim, mode):
    """Store a box, or pixels, from shared memory. What is outside the tensor is left out."""
    for number in range(32):
        if (mask >> np.uint32(number)) & _ONE:
            at = stack_array(5, np.int64)
            _coordinates(at, c, number, _RANK[dim])
            where, source = np.int64(tensor[number]), np.int64(src[number])
            rank, who, nothing = np.int64(_RANK[dim]), np.int64(number), np.int64(-1)
            status = tensor_store(ctx, where, source, rank, mode == "im2col_no_offs", nothing, at, who)
            if status != 0:
                return status
    return 0


@instruction(f"{_REDUCING} {_STORED}", section="9.7.9.25.5.3", op=OPERATIONS, **_TENSOR, **_MODES)
@instruction(
    _REDUCING + ".{hint}" + f" {_STORED}, policy:b64", section="9.7.9.25.5.3", op=OPERATIONS, **_TENSOR, **_MODES, **_HINT
)
def tensor_box_reduce(tensor, c, src, mask, ctx, *, dim, mode, op):
    """Combine the elements of a box, or of pixels, in device memory with those of shared memory, each in one step."""
    for number in range(32):
        if (mask >> np.uint32(number)) & _ONE:
            at = stack_array(5, np.int64)
            _coordinates(at, c, number, _RANK[dim])
            where, source = np.int64(tensor[number]), np.int64(src[number])
            rank, who, operation = np.int64(_RANK[dim]), np.int64(number), np.int64(_NUMBER[op])
            status = tensor_store(ctx, where, source, rank, mode == "im2col_no_offs", operation, at, who)
            if status != 0:
                return status
    return 0


# --------------------------------------------------------------------------------------------------------- prefetches

_PREFETCH: dict[str, Any] = {
    "control": "nothing",
    "timing": "tensor_prefetch",
    "section": "9.7.9.25.5.4",
    "sm": 90,
    "ptx": "8.0",
    "operands": _counts,
    "dim": tuple(_RANK),
}
_NEARER = "cp.async.bulk.prefetch.tensor.{dim}.L2.global%s"


@instruction(_NEARER % "{mode}" + " [tensor:b8, c:b32*n]", **_PREFETCH, **_TILE)
@instruction(_NEARER % "{mode}" + ".{hint} [tensor:b8, c:b32*n], policy:b64", **_PREFETCH, **_TILE, **_HINT)
@instruction(_NEARER % ".{mode}" + " [tensor:b8, c:b32*n], offsets:b16*n", **_PREFETCH, **_PIXELS)
@instruction(_NEARER % ".{mode}" + ".{hint} [tensor:b8, c:b32*n], offsets:b16*n, policy:b64", **_PREFETCH, **_PIXELS, **_HINT)
def tensor_prefetch() -> None:
    """Bring a box, or pixels, nearer. No value changes."""
