"""Record which im2col stores an H200 carries out, and what they leave behind.

    python -m gpu_ref.tma.pixel_stores FOLDER

writes ``pixel_stores.npz``: ``digests``, uint64 for each of :func:`draw`, 0 where the GPU stopped with an illegal instruction.
Such a store takes its process's context with it, so each case has a process of its own.
"""

from __future__ import annotations

import random
import sys
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from gpu_ref.tma import copy_cases, record
from gpu_ref.tma.copies import carry_out, digests
from gpu_ref.tma.copy_cases import Cases, MapCall
from gpu_ref.tma.driver import Encoder

__all__ = ["draw"]

SEED = 77
PROCESSES = 14
_BF16, _F32, _F16, _U32 = 9, 7, 6, 2


def _map(**changed: Any) -> MapCall:
    """A tensor of two images of eight pixels with 16 channels, stored whole rows at a time, but for what is ``changed``."""
    given: dict[str, Any] = {"dtype": _F32, "address": 128, "dims": [16, 8, 2], "interleave": 0, "swizzle": 0, "fill": 0}
    given |= {"lower": [0], "upper": [0], "channels": 16, "pixels": 8} | changed
    given.setdefault("element_strides", [1] * len(given["dims"]))
    if "strides" not in given:
        given["strides"], total = [], given["dims"][0] * copy_cases.SIZES[given["dtype"]]
        for extent in given["dims"][1:]:
            given["strides"].append(total)
            total *= extent
    return MapCall(**given)


_Store = tuple[MapCall, tuple[int, ...], int, int]
"""Map, coordinates, operation and place in shared memory."""


def _chosen() -> list[_Store]:
    """One thing changed at a time."""
    start = (0, 0, 0)
    maps = [_map(), *(_map(pixels=count) for count in (1, 2, 4, 7, 9, 16, 20, 40))]
    made: list[_Store] = [(one, start, 0, 0) for one in maps]
    places = ((0, 1, 0), (0, 7, 0), (0, 0, 1), (0, 3, 1), (0, 7, 1), (0, 0, 2), (4, 0, 0), (16, 0, 0))
    made += [(_map(), place, 0, 0) for place in places]
    made += [(_map(pixels=1), place, 0, 0) for place in ((0, 1, 0), (0, 7, 1))]
    for lower, upper in ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (1, 1), (-1, 1), (-2, -2)):
        for pixels, at in ((8, 0), (8, 2), (1, 2)):
            made.append((_map(lower=[lower], upper=[upper], pixels=pixels), (0, at, 0), 0, 0))
    maps = [_map(element_strides=steps) for steps in ([1, 2, 1], [2, 1, 1], [1, 1, 2])]
    maps += [_map(swizzle=swizzle, channels=8 * min(swizzle, 2)) for swizzle in (1, 2, 3)]
    maps += [_map(channels=channels) for channels in (4, 8)] + [_map(dims=[24, 8, 2])]
    made += [(one, start, 0, 0) for one in maps]
    planes = {"dims": [16, 8, 4, 2], "lower": [0, 0], "upper": [0, 0]}
    made += [(_map(**planes), (0, 0, 0, 0), 0, 0), (_map(**planes, pixels=1), (0, 2, 1, 1), 0, 0)]
    made += [(_map(dims=[16, 4, 2, 2, 2], lower=[0] * 3, upper=[0] * 3), (0, 0, 0, 0, 0), 0, 0)]
    made += [(_map(dtype=dtype, dims=[32, 8, 2]), start, 0, 0) for dtype in range(13) if dtype != _F32]
    made += [(_map(dtype=_U32), start, operation, 0) for operation in range(1, 9)]
    for interleave in (1, 2):
        slices = {"dtype": _F16, "dims": [8, 2, 2], "strides": [128 * interleave, 256 * interleave], "channels": 8 * interleave}
        made.append((_map(interleave=interleave, swizzle=interleave - 1, **slices), start, 0, 0))
    return made + [(_map(), start, 0, at) for at in (128, 1024)]


def draw() -> list[Cases]:
    """Im2col stores and reductions, each by itself, the same every time."""
    rng = random.Random(SEED)
    made = _chosen()
    for number in range(70):
        drawn = copy_cases._pixels(rng, 2048, copy_cases.REGION_BYTES - 256, rng.choice([0, _U32, _F16, _F32, _BF16]))
        drawn.address = 128
        if number % 2:
            drawn.lower, drawn.upper = ([0] * len(drawn.lower) for _ in range(2))
        if number % 4 >= 2:
            drawn.element_strides = [1] * drawn.rank
        made.append((drawn, tuple(copy_cases._begin(rng, drawn, False)), 0, 128 * rng.choice([0, 1, 2])))
    return [_case(*one) for one in made]


def _case(made: MapCall, coordinate: tuple[int, ...], operation: int, at: int) -> Cases:
    rows = copy_cases._Rows()
    rows.add(
        made,
        kind=1,
        dimensions=made.rank,
        coordinate=[*coordinate, *[0] * (5 - len(coordinate))],
        at=at,
        bytes=made.rows * made.row_bytes,
        window=copy_cases._up(at + made.room + 128, 128),
        operation=operation,
    )
    return rows.cases()


def _carry_out(number: int, results: Any) -> None:
    """In a process of its own: put a case's digest into ``results``."""
    encoder, cases = Encoder(), draw()[number]
    answer = carry_out("stores", cases, record._Gpu(), lambda call, base: record._encode(encoder, call, base))
    results.put(int(digests("stores", cases, answer)[0]))


def _digest(number: int) -> int:
    context = get_context("spawn")
    results = context.SimpleQueue()
    process = context.Process(target=_carry_out, args=(number, results))
    process.start()
    process.join()
    return 0 if results.empty() else int(results.get())


def main(arguments: list[str]) -> None:
    """Record into a folder."""
    with ThreadPoolExecutor(PROCESSES) as pool:
        made = list(pool.map(_digest, range(len(draw()))))
    np.savez_compressed(Path(arguments[0]) / "pixel_stores.npz", digests=np.array(made, np.uint64))
    print(f"{sum(digest != 0 for digest in made)} of {len(made)} carried out")


if __name__ == "__main__":
    main(sys.argv[1:])
