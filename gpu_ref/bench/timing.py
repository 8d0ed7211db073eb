"""Launching timed kernels (:mod:`.ptx`) and reading their clocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .gpu import Gpu
from .results import slope

__all__ = ["OPERANDS", "REPEATS", "Timed", "elapsed", "per_operation", "run_timed"]

REPEATS = 5
OPERANDS = (0x3F800001, 0x3F800003, 0x3F7FFFF5)
"""What ``pa pb pc`` are unless a benchmark needs something else: floats near 1, odd integers."""


@dataclass(frozen=True)
class Timed:
    """``clocks``: int64[warps, 2], before and after the loop, of the warps that stayed."""

    clocks: npt.NDArray[np.int64]

    @property
    def cycles(self) -> int:
        """From the first warp's start to the last one's end (warps of one SM only)."""
        return int(self.clocks[:, 1].max() - self.clocks[:, 0].min())


def run_timed(
    gpu: Gpu,
    entry: str,
    *,
    warps: int = 1,
    ctas: int = 1,
    iterations: int = 32,
    data: Any = None,
    operands: Sequence[int] = OPERANDS,
    skip: int = 0,
    shared: int = 0,
) -> Timed:
    """Launch a kernel of :func:`.ptx.timed_kernel` once. ``data`` defaults to room for one word per thread."""
    total = warps * ctas
    out = gpu.upload(np.zeros((total, 2), np.uint64))
    if data is None:
        data = gpu.empty(max(4096, total * 32 * 8))
    scalars = [np.uint32(value & 0xFFFFFFFF) for value in (iterations, *operands, skip)]
    gpu.launch(entry, ctas, warps * 32, [out, data, *scalars], shared)
    clocks = np.asarray(out.get()).reshape(total, 2).astype(np.int64)
    stayed = (np.arange(total) % warps & skip) == 0
    return Timed(clocks[stayed])


def elapsed(gpu: Gpu, entry: str, repeats: int = REPEATS, **options: Any) -> list[int]:
    """Cycles of ``repeats`` launches on one SM."""
    return [run_timed(gpu, entry, **options).cycles for _ in range(repeats)]


def per_operation(
    gpu: Gpu, short: str, long: str, operations: float, iterations: int = 32, repeats: int = REPEATS, **options: Any
) -> tuple[float, float]:
    """Cycles per operation of two kernels whose loop bodies differ by ``operations``: (median, spread)."""
    low = elapsed(gpu, short, repeats, iterations=iterations, **options)
    high = elapsed(gpu, long, repeats, iterations=iterations, **options)
    return slope(low, high, operations * iterations)
