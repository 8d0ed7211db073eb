# mypy: allow-untyped-defs, allow-untyped-calls
"""Bulk copies as one thread issues them: addresses checked, bytes moved, the mbarrier told (compiled).

They are carried out at once. That is one of the orders PTX allows (a copy may happen at any time up to the wait), so a correct
program cannot tell; when the bytes come in time is the timing model's business.
"""

from __future__ import annotations

import numpy as np

from isa.arith.stack import stack_array
from isa.compiled import compiled
from isa.kernels.planes import load_i64, load_u64, store_u64
from isa.machine import CLUSTER, CLUSTER_SIZE, GENERIC, GLOBAL, OUT_OF_BOUNDS, SHARED, WINDOW_BITS, fault, locate
from isa.mbarrier import complete_tx
from isa.tma.faults import (
    CORNERS_OUTSIDE,
    INNER_COORDINATE,
    NEGATIVE,
    NO_CLUSTER,
    NO_MAP,
    NO_RANK,
    NOT_REDUCIBLE,
    OUTSIDE_CORNERS,
    SHARED_ALIGNMENT,
    SIZE,
    WRONG_MODE,
    WRONG_RANK,
)
from isa.tma.geometry import DIM, FORMAT, IM2COL, INTERLEAVE, LOWER, UPPER, WORDS, read_map
from isa.tma.geometry import RANK as MAP_RANK
from isa.tma.geometry import SIZE as ELEMENT_SIZE
from isa.tma.reduce import can_reduce, reduce_element
from isa.tma.walk import LOAD, box_bytes, copy_box

__all__ = ["bulk_load", "bulk_move", "bulk_store", "tensor_load", "tensor_store"]

MAP_BYTES = 128
OFFSET_MASK = np.int64((1 << WINDOW_BITS) - 1)
CHUNK = 16


@compiled
def _block(ctx, space, address, size, number):
    """Host address of ``size`` bytes (a multiple of 16) from a multiple of 16 on, or 0 after recording a fault."""
    first = locate(ctx, space, address, CHUNK, number)
    if first == 0 or size <= CHUNK:
        return first  # a block of no bytes must be somewhere, too
    last = locate(ctx, space, address + size - CHUNK, CHUNK, number)
    if last == 0:
        return last
    if last - first != size - CHUNK:
        fault(ctx, OUT_OF_BOUNDS, number, space, address, size)
        return np.int64(0)
    return first


@compiled
def _move(source, target, size):
    for at in range(0, size, 8):
        store_u64(target + at, load_u64(source + at))


@compiled
def _peer(ctx, address, rank):
    """The address, in the shared memory of the cluster's CTA ``rank``, of what ``address`` is in its own CTA's."""
    return (np.int64(rank) << WINDOW_BITS) | (np.int64(address) & OFFSET_MASK)


@compiled
def _known(ctx, ranks, number):
    """Whether the cluster has all CTAs of the mask ``ranks``. If not, a fault is recorded."""
    count = load_i64(load_i64(ctx + 8 * CLUSTER) + 8 * CLUSTER_SIZE)
    if ranks >> count == 0 and ranks != 0:
        return True
    fault(ctx, NO_RANK, number, SHARED, ranks, count)
    return False


# ------------------------------------------------------------------------------------------------------- one-dimensional


@compiled
def _checked(ctx, size, number):
    if size % CHUNK == 0:
        return np.int32(0)
    return fault(ctx, SIZE, number, SHARED, size, 0)


@compiled
def bulk_load(ctx, target, source, size, barrier, ranks, number):
    """Copy from device memory to shared memory at ``target``, then tell the mbarrier; both in each CTA of the mask ``ranks`` if
    that is not negative. Returns 0 or a fault code."""
    status = _checked(ctx, size, number)
    if status != 0:
        return status
    here = _block(ctx, GLOBAL, source, size, number)
    if here == 0:
        return np.int32(OUT_OF_BOUNDS)
    if ranks < 0:
        return _delivered(ctx, here, target, size, barrier, number)
    if not _known(ctx, ranks, number):
        return np.int32(NO_RANK)
    for rank in range(16):
        if (ranks >> rank) & 1:
            status = _delivered(ctx, here, _peer(ctx, target, rank), size, _peer(ctx, barrier, rank), number)
            if status != 0:
                return status
    return np.int32(0)


@compiled
def _delivered(ctx, source, target, size, barrier, number):
    there = _block(ctx, SHARED, target, size, number)
    if there == 0:
        return np.int32(OUT_OF_BOUNDS)
    _move(source, there, size)
    return _told(ctx, barrier, size, number)


@compiled
def _told(ctx, barrier, size, number):
    """``size`` bytes have come for the mbarrier object at an address in shared memory."""
    host = locate(ctx, SHARED, barrier, 8, number)
    if host == 0:
        return np.int32(OUT_OF_BOUNDS)
    return complete_tx(ctx, host, size, number)


@compiled
def bulk_store(ctx, target, source, size, operation, element, element_size, number):
    """Copy from shared memory to device memory, or combine elements there if ``operation`` is not negative. ``element``: their
    format (:mod:`isa.tma.reduce`), of ``element_size`` bytes. Returns 0 or a fault code."""
    status = _checked(ctx, size, number)
    if status != 0:
        return status
    here = _block(ctx, SHARED, source, size, number)
    if here == 0:
        return np.int32(OUT_OF_BOUNDS)
    there = _block(ctx, GLOBAL, target, size, number)
    if there == 0:
        return np.int32(OUT_OF_BOUNDS)
    _combine(here, there, size, operation, element, element_size)
    return np.int32(0)


@compiled
def _combine(source, target, size, operation, element, element_size):
    if operation < 0:
        _move(source, target, size)
    else:
        for at in range(0, size, element_size):
            reduce_element(operation, element, target + at, source + at)


@compiled
def bulk_move(ctx, target, source, size, barrier, operation, element, element_size, number):
    """The same from shared memory to that of a CTA of the cluster, whose mbarrier is then told."""
    status = _checked(ctx, size, number)
    if status != 0:
        return status
    if load_i64(load_i64(ctx + 8 * CLUSTER) + 8 * CLUSTER_SIZE) == 1:
        return fault(ctx, NO_CLUSTER, number, SHARED, target, 0)
    here = _block(ctx, SHARED, source, size, number)
    if here == 0:
        return np.int32(OUT_OF_BOUNDS)
    there = _block(ctx, SHARED, target, size, number)
    if there == 0:
        return np.int32(OUT_OF_BOUNDS)
    _combine(here, there, size, operation, element, element_size)
    return _told(ctx, barrier, size, number)


# --------------------------------------------------------------------------------------------------------------- tensors


@compiled
def _map(ctx, g, tensor_map, dimensions, im2col, at, number):
    """Read the map at a generic address into ``g`` and check that an instruction for ``dimensions`` dimensions and the
    coordinates ``at`` fit it. Returns 0 or a fault code."""
    host = locate(ctx, GENERIC, tensor_map, MAP_BYTES // 2, number)
    if host == 0 or locate(ctx, GENERIC, tensor_map + MAP_BYTES // 2, MAP_BYTES // 2, number) == 0:
        return np.int32(OUT_OF_BOUNDS)
    if not read_map(host, g):
        return fault(ctx, NO_MAP, number, GENERIC, tensor_map, 0)
    if g[MAP_RANK] != dimensions:
        return fault(ctx, WRONG_RANK, number, GENERIC, g[MAP_RANK], dimensions)
    if (g[IM2COL] != 0) != im2col:
        return fault(ctx, WRONG_MODE, number, GENERIC, 0, 0)
    if not g[INTERLEAVE] and at[0] * g[ELEMENT_SIZE] % CHUNK != 0:
        return fault(ctx, INNER_COORDINATE, number, GENERIC, at[0], g[ELEMENT_SIZE])
    if im2col:
        begin = np.int64(0) if g[INTERLEAVE] else np.int64(1)
        for index in range(dimensions - 2):
            place = at[begin + index]
            if place < g[LOWER + index] or place >= g[DIM + begin + index] + g[UPPER + index]:
                return fault(ctx, OUTSIDE_CORNERS, number, GENERIC, place, begin + index)
    return np.int32(0)


@compiled
def _box(ctx, g, direction, address, at, shift, number):
    """Copy a box from or to an address in shared memory. Returns 0 or a fault code."""
    if address % 128 != 0:
        return fault(ctx, SHARED_ALIGNMENT, number, SHARED, address, 128)
    host = _block(ctx, SHARED, address, box_bytes(g)[1], number)
    if host == 0:
        return np.int32(OUT_OF_BOUNDS)
    offset = np.int64(address) & OFFSET_MASK
    return copy_box(ctx, g, direction, host - offset, offset, at, shift, number)


@compiled
def tensor_load(ctx, target, tensor_map, barrier, dimensions, im2col, at, shift, ranks, number):
    """Load a box to shared memory and tell the mbarrier; ``ranks`` as for :func:`bulk_load`. ``at``: int64 [5], coordinates;
    ``shift``: int64 [3], offsets of an im2col copy. Returns 0 or a fault code."""
    g = stack_array(WORDS, np.int64)
    status = _map(ctx, g, tensor_map, dimensions, im2col, at, number)
    if status != 0:
        return status
    if ranks < 0:
        return _loaded(ctx, g, target, barrier, at, shift, number)
    if not _known(ctx, ranks, number):
        return np.int32(NO_RANK)
    for rank in range(16):
        if (ranks >> rank) & 1:
            status = _loaded(ctx, g, _peer(ctx, target, rank), _peer(ctx, barrier, rank), at, shift, number)
            if status != 0:
                return status
    return np.int32(0)


@compiled
def _loaded(ctx, g, target, barrier, at, shift, number):
    status = _box(ctx, g, LOAD, target, at, shift, number)
    return _told(ctx, barrier, box_bytes(g)[0], number) if status == 0 else status


@compiled
def tensor_store(ctx, tensor_map, source, dimensions, im2col, operation, at, number):
    """Store a box from shared memory, or combine it with the tensor (``operation`` from 0 on). Returns 0 or a fault code."""
    g = stack_array(WORDS, np.int64)
    status = _map(ctx, g, tensor_map, dimensions, im2col, at, number)
    if status != 0:
        return status
    for index in range(dimensions):
        if at[index] < 0:
            return fault(ctx, NEGATIVE, number, GENERIC, at[index], index)
    for index in range(dimensions - 2 if im2col else 0):
        if g[LOWER + index] < 0 or g[UPPER + index] > 0:
            corner = g[LOWER + index] if g[LOWER + index] < 0 else g[UPPER + index]
            return fault(ctx, CORNERS_OUTSIDE, number, GENERIC, corner, index)
    if operation >= 0 and not can_reduce(operation, g[FORMAT]):
        return fault(ctx, NOT_REDUCIBLE, number, GENERIC, g[FORMAT], operation)
    shift = stack_array(3, np.int64)
    shift[0] = shift[1] = shift[2] = 0
    return _box(ctx, g, np.int64(operation), source, at, shift, number)
