# mypy: allow-untyped-defs, allow-untyped-calls
"""A tensor map as the copies read it: its fields as integers in an array (compiled)."""

from __future__ import annotations

import numpy as np

from isa.compiled import compiled, inlined
from isa.kernels.planes import load_u64
from isa.tma.tensor_map import CORNER_BITS, ELEMENT_TYPES, FIELDS, LOWER_AT, UPPER_AT, Field

__all__ = ["WORDS", "read_map"]

# Words of the array. DIM, STRIDE, STEP, BOX, LOWER and UPPER are the first of several, one for each dimension.
IM2COL, RANK, FORMAT, TF32, INTERLEAVE, SWIZZLE, NAN_FILL, SIZE, PIXELS, ADDRESS = range(10)
DIM, STRIDE, STEP, BOX, LOWER, UPPER = 10, 15, 20, 25, 30, 33
WORDS = 40

_SIZES = np.array([{t.format: t.bytes for t in ELEMENT_TYPES.values()}.get(number, 0) for number in range(16)])
_CORNERS = np.array([CORNER_BITS.get(rank, 16) for rank in range(8)])
# (word of the array, lowest bit, bits, what to add) of the fields that there is one of.
_SINGLE = np.array(
    [
        (word, field.bit, field.bits, field.minus)
        for word, field in (
            (IM2COL, FIELDS["mode"]),
            (RANK, FIELDS["rank"]),
            (FORMAT, FIELDS["format"]),
            (TF32, FIELDS["tf32"]),
            (INTERLEAVE, FIELDS["interleave"]),
            (SWIZZLE, FIELDS["swizzle"]),
            (NAN_FILL, FIELDS["oob_fill"]),
            (PIXELS, FIELDS["pixels"]),
        )
    ]
)


def _place(field: Field) -> tuple[int, int, int, int]:
    return field.bit, field.bits, field.step, field.minus


_DIM_FIELD, _STEP_FIELD, _BOX_FIELD = _place(FIELDS["dim"]), _place(FIELDS["element_stride"]), _place(FIELDS["box"])
_STRIDE_FIELD, _STRIDE_HIGH = _place(FIELDS["stride"]), _place(FIELDS["stride_high"])


@inlined
def _bits(tensor_map, bit, count):
    """``count`` (at most 32) bits of a map, which never cross a multiple of 64."""
    return np.int64(load_u64(tensor_map + bit // 64 * 8) >> np.uint64(bit % 64) & np.uint64((np.int64(1) << count) - 1))


@inlined
def _one(tensor_map, field, index):
    return _bits(tensor_map, field[0] + field[2] * index, field[1]) + field[3]


@inlined
def _signed(value, bits):
    return value - (np.int64(1) << bits) if value >> (bits - 1) else value


@compiled
def read_map(tensor_map, g):
    """Fill ``g`` (int64 [WORDS]) from the map at a host address. Returns whether the bytes can be a map."""
    for index in range(len(_SINGLE)):
        g[_SINGLE[index, 0]] = _bits(tensor_map, _SINGLE[index, 1], _SINGLE[index, 2]) + _SINGLE[index, 3]
    g[ADDRESS] = np.int64(load_u64(tensor_map))
    g[SIZE] = _SIZES[g[FORMAT]]
    rank = g[RANK]
    if rank > 5 or g[SIZE] == 0 or (g[IM2COL] and rank < 3) or g[INTERLEAVE] > 2:
        return False
    for index in range(5):
        inside = index < rank
        g[DIM + index] = _one(tensor_map, _DIM_FIELD, index) if inside else 1
        g[STEP + index] = _one(tensor_map, _STEP_FIELD, index) if inside else 1
        g[BOX + index] = _one(tensor_map, _BOX_FIELD, index) if inside and (index == 0 or not g[IM2COL]) else 1
        g[STRIDE + index] = 0
        if index and inside:
            low, high = _one(tensor_map, _STRIDE_FIELD, index - 1), _one(tensor_map, _STRIDE_HIGH, index - 1)
            g[STRIDE + index] = (low << 4) | (high << 36)
    if g[IM2COL]:
        bits = _CORNERS[rank]
        for index in range(rank - 2):
            g[LOWER + index] = _signed(_bits(tensor_map, LOWER_AT + index * bits, bits), bits)
            g[UPPER + index] = _signed(_bits(tensor_map, UPPER_AT + index * bits, bits), bits)
    return True
