"""Calls of the tensor map encoders: each parameter alone over its range and past it, then all of them at random.

A call is a row of int64, :data:`COLUMNS`; enumerators are the driver's.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu_ref.tma.driver import Encoder

__all__ = ["COLUMNS", "SEED", "encode_all", "map_cases", "named"]

SEED = 20261130
ARRAYS = {"dims": 5, "strides": 4, "box": 5, "element_strides": 5, "lower": 3, "upper": 3}
SCALARS = ("im2col", "dtype", "rank", "address", "interleave", "swizzle", "l2_promotion", "oob_fill", "channels", "pixels")
COLUMNS = (*SCALARS, *(f"{name}{index}" for name, count in ARRAYS.items() for index in range(count)))

_BYTES = (1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4)  # of CUtensorMapDataType
_CORNER_BITS = {3: 16, 4: 8, 5: 5}
_EDGES = [0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 512, 1024, 1025]


def named(row: Sequence[int]) -> dict[str, Any]:
    """The parameters of a call by name, arrays as lists."""
    made: dict[str, Any] = dict(zip(SCALARS, map(int, row), strict=False))
    at = len(SCALARS)
    for name, count in ARRAYS.items():
        made[name] = [int(value) for value in row[at : at + count]]
        at += count
    return made


def map_cases() -> NDArray[np.int64]:
    """All calls, int64 [n, len(COLUMNS)]."""
    return np.array([_row(case) for case in (*_one_at_a_time(), *_random(random.Random(SEED)))], np.int64)


def encode_all(encoder: Encoder, cases: NDArray[np.int64]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """What the driver answers: (CUresult [n], maps [n, 128], of zeros where it refuses)."""
    results = np.zeros(len(cases), np.uint8)
    maps = np.zeros((len(cases), 128), np.uint8)
    for index, row in enumerate(cases):
        p = named(row)
        modes = [p["interleave"], p["swizzle"], p["l2_promotion"], p["oob_fill"]]
        start = (p["dtype"], p["rank"], p["address"], p["dims"], p["strides"])
        if p["im2col"]:
            corners = (p["lower"], p["upper"])
            answer = encoder.im2col(*start, corners, p["channels"], p["pixels"], p["element_strides"], modes)
        else:
            answer = encoder.tiled(*start, p["box"], p["element_strides"], modes)
        results[index] = answer[0]
        if answer[0] == 0:
            maps[index] = np.frombuffer(answer[1], np.uint8)
    return results, maps


def _row(case: dict[str, Any]) -> list[int]:
    return [int(case[name]) for name in SCALARS] + [int(v) for name in ARRAYS for v in case[name]]


def _case(im2col: int, rank: int, **changed: Any) -> dict[str, Any]:
    """A call that the driver accepts where the rank allows it, with some parameters changed. ``strides`` default to packed."""
    made: dict[str, Any] = {
        "im2col": im2col,
        "rank": rank,
        "dtype": 6,
        "address": 0x7F12_3456_7000,
        "interleave": 0,
        "swizzle": 0,
        "l2_promotion": 0,
        "oob_fill": 0,
        "channels": 16 * im2col,
        "pixels": 32 * im2col,
        "dims": [64, 32, 16, 8, 4],
        "strides": [1 << 20, 1 << 24, 1 << 28, 1 << 32],
        "box": [1] * 5 if im2col else [8, 4, 2, 2, 2],
        "element_strides": [1] * 5,
        "lower": [0] * 3,
        "upper": [0] * 3,
    }
    return made | changed


def _with(values: Sequence[int], index: int, value: int) -> list[int]:
    return [*values[:index], value, *values[index + 1 :]]


def _one_at_a_time() -> Iterator[dict[str, Any]]:
    for im2col in (0, 1):
        for rank in range(7):
            yield from (_case(im2col, rank, dtype=dtype, oob_fill=fill) for dtype in range(16) for fill in range(3))
        for rank in range(3, 6):
            yield from _numbers(im2col, rank)
            for interleave in range(4):
                for swizzle in range(7):
                    yield from (
                        _case(im2col, rank, interleave=interleave, swizzle=swizzle, box=[row, 2, 2, 2, 2], channels=row)
                        for row in (4, 8, 16, 32, 64, 128)
                    )
            yield from (_case(im2col, rank, l2_promotion=level) for level in range(5))
    for row in (64, 128, 256):  # how large a copy may be
        for rows in range(225, 232):
            yield _case(0, 3, dtype=2, box=[row, rows, 256 // row, 1, 1], dims=[512] * 5)
            yield _case(1, 4, dtype=2, channels=256, pixels=rows, dims=[512] * 5)


def _numbers(im2col: int, rank: int) -> Iterator[dict[str, Any]]:
    base = _case(im2col, rank)
    yield from (_case(im2col, rank, address=1 << bit) for bit in range(63))
    for axis in range(rank):
        for value in (0, *((1 << bit) + step for bit in range(33) for step in (-1, 0, 1))):
            yield _case(im2col, rank, dims=_with(base["dims"], axis, value))
        yield from (_case(im2col, rank, element_strides=_with([1] * 5, axis, step)) for step in range(10))
        if axis:
            values = [*(1 << bit for bit in range(42)), 0, 24, 48, (1 << 40) - 16]
            yield from (_case(im2col, rank, strides=_with(base["strides"], axis - 1, value)) for value in values)
        if not im2col:
            yield from (_case(0, rank, dims=[512] * 5, box=_with(base["box"], axis, value)) for value in _EDGES)
    if im2col:
        yield from (_case(1, rank, channels=value) for value in _EDGES)
        yield from (_case(1, rank, pixels=value) for value in _EDGES)
        for axis in range(rank - 2):
            for bit in range(17):
                for value in (-(1 << bit) - 1, -(1 << bit), (1 << bit) - 1):
                    for corner in ("lower", "upper"):
                        yield _case(1, rank, dims=[300] * 5, **{corner: _with([0] * 3, axis, value)})


def _random(rng: random.Random) -> Iterator[dict[str, Any]]:
    for number in range(4000):
        im2col = number % 2
        dtype, rank = rng.randrange(13), rng.randint(3 if im2col else 1, 5)
        size = _BYTES[dtype]
        interleave = rng.choice([0, 0, 0, 1, 2]) if rank >= 3 else 0
        swizzle = rng.randrange(4)
        dims = [rng.randint(1, 1 << rng.randint(1, 20)) for _ in range(5)]
        strides = [32 * rng.randint(1, 1 << rng.randint(1, 33)) for _ in range(4)]
        row = 16 // size * rng.randint(1, 8 if interleave else (16, 2, 4, 8)[swizzle])
        case = _case(
            im2col,
            rank,
            dtype=dtype,
            address=32 * rng.randrange(1 << 43),
            dims=dims,
            strides=strides,
            interleave=interleave,
            swizzle=swizzle,
            l2_promotion=rng.randrange(4),
            oob_fill=rng.randrange(2) if dtype >= 6 else 0,
            element_strides=[rng.choice([1, 1, rng.randint(1, 8)]) for _ in range(5)],
        )
        if im2col:
            limit = 1 << _CORNER_BITS[rank] - 1
            corners = [[rng.randint(-min(limit, 9), min(limit, 9) - 1) for _ in range(3)] for _ in range(2)]
            yield case | {"channels": row, "pixels": rng.randint(1, 300), "lower": corners[0], "upper": corners[1]}
        else:
            yield case | {"box": [row, *(rng.randint(1, 12) for _ in range(4))]}
