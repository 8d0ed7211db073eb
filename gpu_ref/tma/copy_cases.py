"""Random bulk and tensor copies that an H200 carries out, for the kernels of ``traces/tma/bulk_copies.cu``.

What it refuses (an illegal instruction) is left out: a first coordinate that is no multiple of 16 bytes, stores that begin
before the tensor, im2col copies that begin outside the box of pixels. Everything is drawn from :data:`SEED`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["BLOCK_REDUCTIONS", "CASE", "MOVES", "REGION_BYTES", "SEED", "Cases", "MapCall", "data", "draw", "regions", "source"]

SEED = 20261130
CASE = np.dtype(
    [
        ("kind", "i4"),
        ("dimensions", "i4"),
        ("coordinate", "i4", 5),
        ("offset", "i4", 3),
        *((name, "i4") for name in ("at", "bytes", "window", "out", "map", "source", "target", "operation", "ranks", "early")),
    ]
)
"""A case as the kernels read it. ``at``: where the box is in shared memory; ``window``: bytes of it that are written before and
read afterwards, ``out``: where to; ``bytes``: that the copy moves."""

DATA_BYTES = 1 << 20
REGION_BYTES = 4096
SEGMENT = 1 << 17
SIZES = (1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4)  # of CUtensorMapDataType
FLOATS = {7: 1, 10: 1, 11: 1, 12: 1, 6: 2, 9: 3, 8: 4}  # segment of the source with numbers of a type
REDUCES = (  # types of add, min, max, inc, dec, and, or, xor
    (2, 3, 4, 6, 7, 8, 9, 10, 11, 12),
    (2, 3, 4, 5, 6, 9),
    (2, 3, 4, 5, 6, 9),
    (2,),
    (2,),
    (2, 3, 4),
    (2, 3, 4),
    (2, 3, 4),
)
BLOCK_REDUCTIONS = (
    *(["add.u32", "add.s32", "add.u64", "add.f32", "add.f64", "add.noftz.f16", "add.noftz.bf16"]),
    *(f"{op}.{t}" for op in ("min", "max") for t in ("u32", "s32", "u64", "s64", "f16", "bf16")),
    *(["inc.u32", "dec.u32", "and.b32", "and.b64", "or.b32", "or.b64", "xor.b32", "xor.b64"]),
)
MOVES = ("", *(f"add.{t}" for t in ("u32", "s32", "u64")), *(f"{op}.{t}" for op in ("min", "max") for t in ("u32", "s32")))
MOVES += ("inc.u32", "dec.u32", "and.b32", "or.b32", "xor.b32")


@dataclass
class MapCall:
    """A call of an encoder; enumerators are the driver's. ``address`` counts from the start of the buffer."""

    dtype: int
    address: int
    dims: list[int]
    strides: list[int]
    element_strides: list[int]
    interleave: int
    swizzle: int
    fill: int
    box: list[int] = field(default_factory=list)
    lower: list[int] = field(default_factory=list)
    upper: list[int] = field(default_factory=list)
    channels: int = 0
    pixels: int = 0

    @property
    def rank(self) -> int:
        return len(self.dims)

    @property
    def row_bytes(self) -> int:
        """Bytes that a row (a pixel, of an im2col map) takes in shared memory."""
        if self.interleave:
            slices = 1 if not self.box else -(-self.box[0] // self.element_strides[0])
            return 16 * self.interleave * slices
        return (self.box[0] if self.box else self.channels) * SIZES[self.dtype]

    @property
    def rows(self) -> int:
        if not self.box:
            return self.pixels
        total = 1
        for index in range(1, self.rank):
            if not (self.interleave and index == self.rank - 2):
                total *= -(-self.box[index] // self.element_strides[index])
        return total

    @property
    def room(self) -> int:
        """Bytes of shared memory from the first to the last row, the swizzle's gaps included."""
        pitch = (16 << self.swizzle) if self.swizzle and not self.interleave else self.row_bytes
        return self.rows * pitch


@dataclass
class Cases:
    """The cases of one kernel, with their maps; ``out_bytes``: what their windows take together."""

    rows: NDArray[Any]
    maps: list[MapCall]
    out_bytes: int = 0


def draw() -> dict[str, Cases]:
    """The cases of the kernels ``loads``, ``stores``, ``blocks`` and ``clusters``."""
    rng = random.Random(SEED)
    return {
        "loads": _loads(rng),
        "stores": _stores(rng),
        "blocks": _blocks(rng),
        "clusters": _clusters(rng),
    }


# -------------------------------------------------------------------------------------------------------------- contents


def data() -> NDArray[np.uint8]:
    """What loads read: 32-bit words that are all different."""
    return _scrambled(DATA_BYTES // 4, 777).view(np.uint8)


def _scrambled(count: int, start: int) -> NDArray[np.uint32]:
    """Different words in no order: the steps of a hash that can be undone."""
    words = (np.arange(count, dtype=np.uint64) * 2654435761 + start) & 0xFFFF_FFFF
    for shift, factor in ((15, 0x85EBCA6B), (13, 0xC2B2AE35)):
        words ^= words >> np.uint64(shift)
        words = (words * factor) & 0xFFFF_FFFF
    return (words ^ (words >> np.uint64(16))).astype(np.uint32)


def source() -> NDArray[np.uint8]:
    """What stores write, five segments: any words, then f32, f16, bf16 and f64 numbers with subnormals, infinities and NaN."""
    generator = np.random.default_rng(SEED)
    parts = [_scrambled(SEGMENT // 4, 12345).view(np.uint8)]
    with np.errstate(all="ignore"):
        for size, exponents in ((4, (-40, 38)), (2, (-6, 4)), (2, (-39, 38)), (8, (-310, 307))):
            numbers = generator.normal(size=SEGMENT // size)
            for step, exponent in ((17, exponents[0]), (19, exponents[1])):
                numbers[::step] *= 10.0**exponent
            numbers[7::211], numbers[8::211], numbers[11::227] = np.inf, -np.inf, np.nan
            parts.append(_as_bytes(numbers, size, len(parts)))
    return np.concatenate(parts)


def _as_bytes(numbers: NDArray[np.float64], size: int, segment: int) -> NDArray[np.uint8]:
    if segment == 3:  # bf16
        return (numbers.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    return numbers.astype({2: np.float16, 4: np.float32, 8: np.float64}[size]).view(np.uint8)


def regions(cases: Cases) -> NDArray[np.uint8]:
    """What device memory holds before stores, uint8 [n, REGION_BYTES]: numbers of the kind that is stored."""
    pool = source()
    made = np.zeros((len(cases.rows), REGION_BYTES), np.uint8)
    for region, row in zip(made, cases.rows, strict=True):
        segment, at = divmod(int(row["source"]), SEGMENT)
        start = segment * SEGMENT + (at + SEGMENT // 2) % (SEGMENT - REGION_BYTES) // 16 * 16
        region[:] = pool[start : start + REGION_BYTES]
    return made


# --------------------------------------------------------------------------------------------------------------- drawing


class _Rows:
    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.maps: list[MapCall] = []
        self.out = 0

    def add(self, made: MapCall | None, windows: int = 1, **values: Any) -> None:
        if made is not None:
            values["map"] = len(self.maps)
            self.maps.append(made)
        self.rows.append(values | {"out": self.out})
        self.out += windows * int(values["window"])

    def cases(self) -> Cases:
        table = np.zeros(len(self.rows), CASE)
        for row, values in zip(table, self.rows, strict=True):
            for name, value in values.items():
                row[name] = value if np.isscalar(value) else [*value, *[0] * (row[name].size - len(value))]
        return Cases(table, self.maps, self.out)


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def _strides(rng: random.Random, first: int, dims: Sequence[int], interleave: int) -> list[int]:
    """Strides with gaps now and then, one for each dimension."""
    unit = 32 if interleave == 2 else 16
    made, size = [], first
    for extent in dims[1:]:
        size = _up(size, unit) + unit * rng.choice([0, 0, 1, 2])
        made.append(size)
        size *= extent
    return [*made, size]


def _tile(rng: random.Random, most: int, span: int, dtype: int) -> MapCall:
    """A tiled map of a tensor of at most ``span`` bytes whose copies take at most ``most`` bytes of shared memory."""
    size = SIZES[dtype]
    while True:
        rank = rng.randint(1, 5)
        interleave = rng.choice([0] * 6 + [1, 2]) if rank >= 3 else 0
        swizzle = (0, rng.randrange(4), rng.randrange(2))[interleave] if interleave else rng.randrange(4)
        dims = [rng.randint(1, most_extent) for most_extent in (40 if interleave else 150, 24, 9, 6, 4)][:rank]
        strides = _strides(rng, 16 * interleave if interleave else max(16, dims[0] * size), dims, interleave)
        if max(strides[-1], dims[0] * size) + 256 > span:
            continue
        steps = [1] * rank if rng.random() < 0.6 else [rng.choice([1, 1, 2, 3, 5, 8]) for _ in range(rank)]
        widest = 256 if interleave else (512, 32, 64, 128)[swizzle]
        row = rng.randint(1, widest // 16) * 16 // size
        box = [row, *(rng.randint(1, extent) * step for extent, step in zip((8, 6, 4, 3), steps[1:], strict=False))]
        if row == 0 or max(box) > 256:
            continue
        fill = rng.randrange(2) if dtype >= 6 else 0
        made = MapCall(dtype, 0, dims, strides[:-1], steps, interleave, swizzle, fill, box=box)
        if made.room <= most:
            return made


def _pixels(rng: random.Random, most: int, span: int, dtype: int) -> MapCall:
    """An im2col map."""
    size = SIZES[dtype]
    while True:
        rank = rng.randint(3, 5)
        spatial = rank - 2
        interleave = rng.choice([0] * 6 + [1, 2])
        swizzle = rng.randrange(2) if interleave == 2 else 0 if interleave else rng.randrange(4)
        places = [rng.randint(1, extent) for extent in (12, 9, 5)[:spatial]]
        others = rng.randint(1, 4), rng.randint(1, 4)
        dims = [*places, *others] if interleave else [rng.choice([8, 24, 40]), *places, others[0]]
        strides = _strides(rng, 16 * interleave if interleave else dims[0] * size, dims, interleave)
        lower, upper = ([rng.randint(-3, 2) for _ in places] for _ in range(2))
        if strides[-1] + 256 > span or any(e + u - low <= 0 for e, u, low in zip(places, upper, lower, strict=True)):
            continue
        steps = [1] * rank if rng.random() < 0.6 else [rng.choice([1, 1, 2, 3]) for _ in range(rank)]
        channels = 16 * rng.randint(1, (256, 32, 64, 128)[swizzle] // 16) // size
        fill = rng.randrange(2) if dtype >= 6 else 0
        made = MapCall(dtype, 0, dims, strides[:-1], steps, interleave, swizzle, fill)
        made.lower, made.upper, made.channels, made.pixels = lower, upper, channels, rng.randint(1, 40)
        if 0 < channels <= 256 and made.room <= most:
            return made


def _begin(rng: random.Random, made: MapCall, negative: bool) -> list[int]:
    """Coordinates where a copy may begin: inside the tensor, across its edges, or outside."""
    chosen = []
    for index, extent in enumerate(made.dims):
        spatial = index - (0 if made.interleave else 1)
        if made.lower and 0 <= spatial < len(made.lower):
            low, high = made.lower[spatial], extent + made.upper[spatial] - 1
        else:
            reach = made.box[index] if made.box else 4
            low, high = rng.choice([(0, extent - 1), (0, extent - 1), (-reach, 1), (extent - reach, extent + 1)])
        low, high = max(low, low if negative else 0), max(high, low if negative else 0)
        chosen.append(rng.randint(low, max(low, high)))
    if not made.interleave:
        unit = max(1, 16 // SIZES[made.dtype])
        chosen[0] = chosen[0] // unit * unit
    return chosen


def _at(rng: random.Random) -> int:
    return 128 * rng.choice([0, 0, 1, 2, 3, 5, 8])


def _loads(rng: random.Random) -> Cases:
    rows = _Rows()
    for number in range(1500):
        pixels = number % 3 == 2
        made = (_pixels if pixels else _tile)(rng, 3072, DATA_BYTES // 2, number % 13)
        made.address = _up(rng.randint(0, DATA_BYTES // 2), 32)
        at = _at(rng)
        offsets = [rng.choice([0, 0, 1, 2, 7]) for _ in made.lower]
        rows.add(
            made,
            kind=int(pixels),
            dimensions=made.rank,
            coordinate=_begin(rng, made, True),
            offset=offsets,
            at=at,
            bytes=made.rows * made.row_bytes,
            window=_up(at + made.room + 128, 128),
            early=rng.randrange(2),
        )
    return rows.cases()


def _stores(rng: random.Random) -> Cases:
    rows = _Rows()
    wanted = [(0, dtype) for dtype in range(13) for _ in range(20)]
    wanted += [(number, dtype) for number, types in enumerate(REDUCES, 1) for dtype in types for _ in range(8)]
    for operation, dtype in wanted:
        made = _tile(rng, 2048, REGION_BYTES - 256, dtype)
        at = _at(rng)
        window = _up(at + made.room + 128, 128)
        segment = FLOATS.get(dtype, 0) if rng.random() < 0.8 else 0
        made.address = 128 + len(rows.rows) * REGION_BYTES
        rows.add(
            made,
            dimensions=made.rank,
            coordinate=_begin(rng, made, False),
            at=at,
            bytes=made.rows * made.row_bytes,
            window=window,
            source=segment * SEGMENT + 16 * rng.randrange((SEGMENT - window) // 16),
            operation=operation,
        )
    return rows.cases()


def _blocks(rng: random.Random) -> Cases:
    rows = _Rows()
    wanted = [(kind, 0) for kind in (0, 1) for _ in range(20)]
    wanted += [(2, number) for number in range(len(BLOCK_REDUCTIONS)) for _ in range(6)]
    kinds = {"f32": 1, "f16": 2, "bf16": 3, "f64": 4}
    for kind, number in wanted:
        suffix = BLOCK_REDUCTIONS[number].rsplit(".", 1)[1] if kind == 2 else ""
        segment = kinds.get(suffix, 0) if rng.random() < 0.8 else 0
        size, window = 16 * rng.randint(1, 60), 2048
        rows.add(
            None,
            kind=kind,
            at=16 * rng.randint(0, 30),
            bytes=size,
            window=window,
            source=segment * SEGMENT + 16 * rng.randrange((SEGMENT - window) // 16),
            target=len(rows.rows) * REGION_BYTES + 16 * rng.randint(0, 30),
            operation=number,
            early=rng.randrange(2),
        )
    return rows.cases()


def _clusters(rng: random.Random) -> Cases:
    rows = _Rows()
    for number in range(120):
        kind = number % 3
        common = {"operation": rng.randrange(4), "early": rng.randrange(2), "kind": kind}
        if kind == 0:
            made = _tile(rng, 1024, DATA_BYTES // 2, number % 13)
            at = _at(rng)
            where = {"coordinate": _begin(rng, made, True), "dimensions": made.rank, "at": at}
            where["bytes"] = made.rows * made.row_bytes
            rows.add(made, 4, **common, **where, ranks=rng.randint(1, 15), window=_up(at + made.room + 128, 128))
            continue
        at, size = 16 * rng.randint(0, 30), 16 * rng.randint(1, 40)
        ranks = rng.randint(1, 15) if kind == 1 else rng.randrange(4)
        move = number // 3 % len(MOVES) if kind == 2 else 0
        place = {"coordinate": [1152 + 16 * rng.randint(0, 20), move], "target": 16 * rng.randrange(DATA_BYTES // 32)}
        rows.add(None, 4, **common, **place, at=at, bytes=size, ranks=ranks, window=2560)
    return rows.cases()
