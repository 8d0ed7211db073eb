# mypy: allow-untyped-defs, allow-untyped-calls
"""Bulk tensor copies: the rows of a box, between device and shared memory (PTX ISA 5.5.3 to 5.5.7, compiled).

A box is a sequence of *rows*: its elements along the innermost dimension, which follow each other in device memory. In shared
memory one row follows the other, at distances of the swizzle's span where there is one; a swizzle then exchanges 16-byte chunks
within 128 bytes, depending on the address. Measured on an H200 (``traces/tma``), as the rest of what the PTX ISA leaves open:

- The element stride of the innermost dimension counts only where the tensor is interleaved.
- An interleaved tensor's elements are slices of 16 or 32 bytes, next to each other in device memory. Its last dimension but
  one, which numbers the slices of a pixel, counts for 1 in a box.
- Elements outside the tensor are filled with 0 or with 16-bit words 0x7ff7, whatever their type.
- Stores and reductions write whole 16-byte chunks: past the end of a tensor's row up to the next multiple.
- Loads round tf32 elements to nearest even (NaN 0x7fffe000). Flushing subnormal numbers is for reductions alone.
"""

from __future__ import annotations

import numpy as np

from isa.arith.convert import f32_to_tf32_rn
from isa.arith.primitives import bits_f32
from isa.arith.stack import stack_array
from isa.compiled import compiled, inlined
from isa.kernels.planes import load_u8, load_u16, load_u32, load_u64, store_u8, store_u16, store_u32, store_u64
from isa.machine import GLOBAL, OUT_OF_BOUNDS, fault, locate
from isa.tma.geometry import (
    ADDRESS,
    BOX,
    DIM,
    FORMAT,
    IM2COL,
    INTERLEAVE,
    LOWER,
    NAN_FILL,
    PIXELS,
    RANK,
    SIZE,
    STEP,
    STRIDE,
    SWIZZLE,
    TF32,
    UPPER,
)
from isa.tma.reduce import reduce_element

__all__ = ["LOAD", "STORE", "box_bytes", "copy_box"]

LOAD, STORE = -2, -1
"""Directions; a number from 0 on is a reducing store, by its operation (:mod:`isa.tma.reduce`)."""

NAN_WORD = np.uint16(0x7FF7)
CHUNK = 16


@inlined
def _row_elements(g):
    """Elements of a row in shared memory. (A pixel of an interleaved tensor is one.)"""
    if g[IM2COL] and g[INTERLEAVE]:
        return np.int64(1)
    step = g[STEP] if g[INTERLEAVE] else np.int64(1)
    return (g[BOX] + step - 1) // step


@inlined
def _element_bytes(g):
    return np.int64(CHUNK) << (g[INTERLEAVE] - 1) if g[INTERLEAVE] else g[SIZE]


@inlined
def _pitch(g):
    """Bytes from a row to the next in shared memory."""
    if g[SWIZZLE] and not g[INTERLEAVE]:
        return np.int64(16) << g[SWIZZLE]
    return _row_elements(g) * _element_bytes(g)


@inlined
def _extent(g, index):
    """Of a box: the coordinates that it spans in a dimension."""
    return np.int64(1) if g[INTERLEAVE] and index == g[RANK] - 2 else g[BOX + index]


@inlined
def _rows(g):
    if g[IM2COL]:
        return g[PIXELS]
    total = np.int64(1)
    for index in range(1, g[RANK]):
        total *= (_extent(g, index) + g[STEP + index] - 1) // g[STEP + index]
    return total


@compiled
def box_bytes(g):
    """(bytes that a copy moves and an mbarrier counts, bytes of shared memory that it needs)."""
    rows, row = _rows(g), _row_elements(g) * _element_bytes(g)
    return rows * row, (rows - 1) * _pitch(g) + row


@inlined
def _place(base, offset, swizzle):
    """Host address of shared-memory offset ``offset`` once swizzled. ``base``: that of offset 0."""
    pattern = ((np.int64(1) << swizzle) - 1) << 4  # none, or bits 4, 4-5, 4-6
    return base + (offset ^ ((offset >> 3) & pattern))


@inlined
def _move_chunk(source, target):
    store_u64(target, load_u64(source))
    store_u64(target + 8, load_u64(source + 8))


@compiled
def _span(ctx, address, size, number):
    """Host address of ``size`` bytes of device memory, all of one allocation; 0 after recording a fault."""
    first = locate(ctx, GLOBAL, address, 1, number)
    if first == 0:
        return first
    last = locate(ctx, GLOBAL, address + size - 1, 1, number)
    if last == 0:
        return last
    if last - first != size - 1:
        fault(ctx, OUT_OF_BOUNDS, number, GLOBAL, address, size)
        return np.int64(0)
    return first


@compiled
def _row(ctx, g, direction, base, offset, first, address, inside, number):
    """Copy a row. ``base``: host address of shared-memory offset 0; ``offset``: the row's. ``first``: coordinate of its first
    element; ``address``: where element 0 of the row's line is in device memory. ``inside``: whether the line is in the tensor.
    Returns 0 or a fault code.
    """
    size, swizzle = _element_bytes(g), g[SWIZZLE]
    step = g[STEP] if g[INTERLEAVE] else np.int64(1)
    count = _row_elements(g)
    low = high = count  # elements low to high - 1 are inside the tensor
    if inside:
        low = min(count, max(np.int64(0), (-first + step - 1) // step))
        high = max(low, min(count, (g[DIM] - first + step - 1) // step))
        if direction != LOAD and size < CHUNK:
            high = min(count, -(-high * size // CHUNK) * CHUNK // size)
    source = np.int64(0)
    if low < high:
        source = _span(ctx, address + (first + low * step) * size, ((high - low - 1) * step + 1) * size, number)
        if source == 0:
            return np.int32(OUT_OF_BOUNDS)
        source -= low * step * size
    plain = direction == STORE or (direction == LOAD and not g[TF32])
    for at in range(0, count * size, CHUNK):
        there = _place(base, offset + at, swizzle)
        begin, end = at // size, (at + CHUNK + size - 1) // size
        here = source + begin * step * size + at % size
        if plain and low <= begin and end <= high and (step == 1 or size >= CHUNK):
            if direction == LOAD:
                _move_chunk(here, there)
            else:
                _move_chunk(there, here)
        elif direction == LOAD:
            _fill_chunk(g, there, here, low * size - at, high * size - at)
        else:
            _put_chunk(g, direction, there, here, low * size - at, high * size - at)
    return np.int32(0)


@inlined
def _word(bits, tf32):
    return f32_to_tf32_rn(bits_f32(bits)) if tf32 else bits


@compiled
def _fill_chunk(g, there, here, low, high):
    """Load a chunk of which only bytes ``low`` to ``high - 1`` are inside the tensor, or whose elements change on the way."""
    size = g[SIZE]
    fill = np.uint64(0x0001_0001_0001_0001) * np.uint64(NAN_WORD) if g[NAN_FILL] else np.uint64(0)
    for byte in range(0, CHUNK, size):
        inside = low <= byte < high
        if size == 1:
            store_u8(there + byte, load_u8(here + byte) if inside else np.uint8(fill))
        elif size == 2:
            store_u16(there + byte, load_u16(here + byte) if inside else np.uint16(fill))
        elif size == 4:
            store_u32(there + byte, _word(load_u32(here + byte), g[TF32]) if inside else np.uint32(fill))
        else:
            store_u64(there + byte, load_u64(here + byte) if inside else fill)


@compiled
def _put_chunk(g, direction, there, here, low, high):
    """Store or reduce the bytes ``low`` to ``high - 1`` of a chunk."""
    size = g[SIZE]
    for byte in range(max(np.int64(0), low), min(np.int64(CHUNK), high), size):
        source, target = there + byte, here + byte
        if direction >= 0:
            reduce_element(direction, g[FORMAT], target, source)
        elif size == 1:
            store_u8(target, load_u8(source))
        elif size == 2:
            store_u16(target, load_u16(source))
        elif size == 4:
            store_u32(target, load_u32(source))
        else:
            store_u64(target, load_u64(source))


@compiled
def copy_box(ctx, g, direction, base, offset, at, shift, number):
    """Copy a box. ``g``: the map (:mod:`isa.tma.geometry`). ``base``: host address of shared-memory offset 0; ``offset``: where
    the box is there. ``at``: int64 [5], coordinates; ``shift``: int64 [3], offsets of an im2col load. ``number``: the lane.
    Returns 0 or a fault code.
    """
    if g[IM2COL]:
        return _copy_pixels(ctx, g, direction, base, offset, at, shift, number)
    rank, pitch = g[RANK], _pitch(g)
    i1 = i2 = i3 = i4 = np.int64(0)
    for _ in range(_rows(g)):
        x1, x2 = at[1] + i1 * g[STEP + 1], at[2] + i2 * g[STEP + 2]
        x3, x4 = at[3] + i3 * g[STEP + 3], at[4] + i4 * g[STEP + 4]
        inside = (rank < 2 or 0 <= x1 < g[DIM + 1]) and (rank < 3 or 0 <= x2 < g[DIM + 2])
        inside = inside and (rank < 4 or 0 <= x3 < g[DIM + 3]) and (rank < 5 or 0 <= x4 < g[DIM + 4])
        address = g[ADDRESS] + x1 * g[STRIDE + 1] + x2 * g[STRIDE + 2] + x3 * g[STRIDE + 3] + x4 * g[STRIDE + 4]
        status = _row(ctx, g, direction, base, offset, at[0], address, inside, number)
        if status != 0:
            return status
        offset += pitch
        i1 += 1
        if i1 * g[STEP + 1] >= _extent(g, 1):
            i1 = np.int64(0)
            i2 += 1
        if i2 * g[STEP + 2] >= _extent(g, 2):
            i2 = np.int64(0)
            i3 += 1
        if i3 * g[STEP + 3] >= _extent(g, 3):
            i3 = np.int64(0)
            i4 += 1
    return np.int32(0)


@compiled
def _copy_pixels(ctx, g, direction, base, offset, at, shift, number):
    """The rows of an im2col copy: pixels of the box between the corners from ``at`` on, innermost dimension first.

    Each is moved by ``shift`` when it is looked up. The spatial dimensions are the second to the last but one; of an
    interleaved tensor, the first to the last but two.
    """
    rank, pitch = g[RANK], _pitch(g)
    first = np.int64(0) if g[INTERLEAVE] else np.int64(1)
    last = first + rank - 2  # of them, exclusive
    x = stack_array(5, np.int64)
    for index in range(5):
        x[index] = at[index]
    for _ in range(g[PIXELS]):
        inside, address = True, g[ADDRESS]
        for index in range(1, rank):
            place = x[index] + (shift[index - first] if index < last else np.int64(0))
            inside = inside and 0 <= place < g[DIM + index]
            address += place * g[STRIDE + index]
        column = x[0] + (shift[0] if first == 0 else np.int64(0))
        status = _row(ctx, g, direction, base, offset, column, address, inside, number)
        if status != 0:
            return status
        offset += pitch
        for index in range(first, last):
            x[index] += g[STEP + index]
            if x[index] < g[DIM + index] + g[UPPER + index - first]:
                break
            x[index] = g[LOWER + index - first]
            if index == last - 1:
                x[rank - 1] += g[STEP + rank - 1]
    return np.int32(0)
