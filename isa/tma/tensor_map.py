"""Tensor maps: the 128 bytes that tell a bulk tensor copy where a tensor is and which part of it a box takes (PTX ISA 5.5.8).

The layout is NVIDIA's secret. It was solved from 33,543 calls of ``cuTensorMapEncodeTiled`` and ``cuTensorMapEncodeIm2col``
of an H200's driver (580.159.04, CUDA 13.0), with each parameter varied alone and 7,000 random ones, all of which are reproduced
byte for byte; ``traces/tma`` keeps as systematic a set. Dimensions count from the innermost, as in the driver's functions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

__all__ = [
    "ELEMENT_TYPES",
    "FIELDS",
    "INTERLEAVES",
    "L2_PROMOTIONS",
    "MAP_BYTES",
    "OOB_FILLS",
    "SWIZZLES",
    "ElementType",
    "Field",
    "TensorMap",
    "decode",
    "encode",
]

MAP_BYTES = 128


class ElementType(NamedTuple):
    """``number``: of the driver's CUtensorMapDataType. ``format``, ``tf32``: how a map says it. ``bytes``: of an element."""

    name: str
    number: int
    bytes: int
    format: int
    tf32: int = 0


ELEMENT_TYPES = {
    t.name: t
    for t in (
        ElementType("u8", 0, 1, 0),
        ElementType("u16", 1, 2, 1),
        ElementType("u32", 2, 4, 2),
        ElementType("s32", 3, 4, 3),
        ElementType("u64", 4, 8, 4),
        ElementType("s64", 5, 8, 5),
        ElementType("f16", 6, 2, 6),
        ElementType("f32", 7, 4, 7),
        ElementType("f64", 8, 8, 9),
        ElementType("bf16", 9, 2, 10),
        ElementType("f32_ftz", 10, 4, 8),
        ElementType("tf32", 11, 4, 7, 1),
        ElementType("tf32_ftz", 12, 4, 8, 1),
    )
}
# Positions are the driver's enumerators: CUtensorMapInterleave, -Swizzle, -L2promotion, -FloatOOBfill.
INTERLEAVES = ("none", "16B", "32B")
SWIZZLES = ("none", "32B", "64B", "128B")
L2_PROMOTIONS = ("none", "64B", "128B", "256B")
OOB_FILLS = ("zeros", "nan")
SWIZZLE_SPANS = (16, 256, 512, 1024)
"""Bytes after which a swizzle pattern repeats: the alignment that the box in shared memory should have."""


class Field(NamedTuple):
    """Where a number stands in a map: its lowest bit, how many, and how many of them follow each other ``step`` bits apart.
    ``minus``: what is subtracted before it is stored. ``shift``: low bits that are not stored."""

    bit: int
    bits: int
    minus: int = 0
    shift: int = 0
    step: int = 0


FIELDS = {
    "address": Field(0, 57),
    "mode": Field(64, 1),  # 1: im2col
    "rank": Field(68, 3, minus=1),
    "format": Field(71, 4),
    "interleave": Field(75, 2),
    "swizzle": Field(77, 2),
    "oob_fill": Field(79, 1),
    "tf32": Field(80, 1),
    "l2_promotion": Field(81, 2),
    "stride": Field(96, 32, shift=4, step=32),
    "stride_high": Field(224, 4, shift=36, step=4),
    "dim": Field(256, 32, minus=1, step=32),
    "element_stride": Field(416, 3, minus=1, step=3),
    "box": Field(440, 8, minus=1, step=8),  # of im2col maps the first only: channels
    "pixels": Field(480, 10, minus=1),
    "bytes": Field(512, 32),  # that a copy moves, element strides rounding each extent down
    "span": Field(576, 16),  # one of SWIZZLE_SPANS
}
# The corners of an im2col map's box: bits each takes, by rank (PTX ISA 5.5.4.1).
CORNER_BITS = {3: 16, 4: 8, 5: 5}
LOWER_AT, UPPER_AT = 448, 464


@dataclass(frozen=True)
class TensorMap:
    """What a map says.

    ``address``: of the tensor in device memory. ``dims``: extents in elements, innermost first; ``strides``: of all dimensions
    but the innermost, in bytes. A tiled map has a ``box``; an im2col map has the corners ``lower`` and ``upper`` of the pixels
    (one number for each of the ``rank - 2`` spatial dimensions, in the order of the dimensions), ``channels`` and ``pixels``
    (elements and pixels that one copy moves). The others are names from the tables above. ``bytes`` is None except where a
    map's own count differs from what its box says, as after ``tensormap.replace``, and so is ``span``.
    """

    element: str
    address: int
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    element_strides: tuple[int, ...]
    box: tuple[int, ...] = ()
    lower: tuple[int, ...] = ()
    upper: tuple[int, ...] = ()
    channels: int = 0
    pixels: int = 0
    interleave: str = "none"
    swizzle: str = "none"
    l2_promotion: str = "none"
    oob_fill: str = "zeros"
    bytes: int | None = None
    span: int | None = None

    @property
    def rank(self) -> int:
        return len(self.dims)

    @property
    def is_im2col(self) -> bool:
        return not self.box

    @property
    def element_bytes(self) -> int:
        return ELEMENT_TYPES[self.element].bytes

    def count(self) -> int:
        """The bytes of a copy as the driver counts them: it rounds the box's extents over the element strides down."""
        if self.is_im2col:
            return self.channels * self.pixels * self.element_bytes
        total = self.element_bytes
        for extent, stride in zip(self.box, self.element_strides, strict=True):
            total *= extent // stride
        return total


def encode(tensor: TensorMap) -> bytes:
    """The 128 bytes of a map, as the driver makes them. Does not check it: see :mod:`isa.tma.rules`."""
    word = 0

    def put(name: str, value: int, index: int = 0) -> None:
        nonlocal word
        field = FIELDS[name]
        stored = (value - field.minus >> field.shift) & ((1 << field.bits) - 1)
        word |= stored << field.bit + index * field.step

    kind = ELEMENT_TYPES[tensor.element]
    put("address", tensor.address)
    put("mode", int(tensor.is_im2col))
    put("rank", tensor.rank)
    put("format", kind.format)
    put("tf32", kind.tf32)
    put("interleave", INTERLEAVES.index(tensor.interleave))
    put("swizzle", SWIZZLES.index(tensor.swizzle))
    put("oob_fill", OOB_FILLS.index(tensor.oob_fill))
    put("l2_promotion", L2_PROMOTIONS.index(tensor.l2_promotion))
    for index, stride in enumerate(tensor.strides):
        put("stride", stride, index)
        put("stride_high", stride, index)
    for index, (extent, step) in enumerate(zip(tensor.dims, tensor.element_strides, strict=True)):
        put("dim", extent, index)
        put("element_stride", step, index)
    if tensor.is_im2col:
        put("box", tensor.channels)
        put("pixels", tensor.pixels)
        bits = CORNER_BITS[tensor.rank]
        for start, corner in ((LOWER_AT, tensor.lower), (UPPER_AT, tensor.upper)):
            for index, value in enumerate(corner):
                word |= (value & ((1 << bits) - 1)) << start + index * bits
    else:
        for index, extent in enumerate(tensor.box):
            put("box", extent, index)
    put("bytes", tensor.count() if tensor.bytes is None else tensor.bytes)
    span = SWIZZLE_SPANS[SWIZZLES.index(tensor.swizzle)]
    put("span", span if tensor.span is None else tensor.span)
    return word.to_bytes(MAP_BYTES, "little")


def decode(data: bytes) -> TensorMap:
    """What the 128 bytes of a map say. Raises ValueError for bytes that are no map."""
    if len(data) != MAP_BYTES:
        raise ValueError(f"a tensor map has {MAP_BYTES} bytes, not {len(data)}")
    word = int.from_bytes(data, "little")

    def get(name: str, index: int = 0) -> int:
        field = FIELDS[name]
        stored = word >> field.bit + index * field.step & ((1 << field.bits) - 1)
        return (stored << field.shift) + field.minus

    def corner(start: int, rank: int) -> tuple[int, ...]:
        bits = CORNER_BITS[rank]
        stored = [word >> start + index * bits & ((1 << bits) - 1) for index in range(rank - 2)]
        return tuple(value - (1 << bits) if value >> bits - 1 else value for value in stored)

    rank, im2col = get("rank"), bool(get("mode"))
    spelled = (get("format"), get("tf32"))
    element = next((t.name for t in ELEMENT_TYPES.values() if (t.format, t.tf32) == spelled), None)
    if rank > 5 or (im2col and rank < 3) or element is None or get("interleave") > 2:
        raise ValueError("these 128 bytes are no tensor map")
    made = TensorMap(
        element=element,
        address=get("address"),
        dims=tuple(get("dim", index) for index in range(rank)),
        strides=tuple(get("stride", index) + get("stride_high", index) for index in range(rank - 1)),
        element_strides=tuple(get("element_stride", index) for index in range(rank)),
        box=() if im2col else tuple(get("box", index) for index in range(rank)),
        lower=corner(LOWER_AT, rank) if im2col else (),
        upper=corner(UPPER_AT, rank) if im2col else (),
        channels=get("box") if im2col else 0,
        pixels=get("pixels") if im2col else 0,
        interleave=INTERLEAVES[get("interleave")],
        swizzle=SWIZZLES[get("swizzle")],
        l2_promotion=L2_PROMOTIONS[get("l2_promotion")],
        oob_fill=OOB_FILLS[get("oob_fill")],
    )
    usual = SWIZZLE_SPANS[SWIZZLES.index(made.swizzle)]
    bytes_, span = get("bytes"), get("span")
    return replace(made, bytes=None if bytes_ == made.count() else bytes_, span=None if span == usual else span)
