"""What the kernels of ``traces/kernels/wgmma_*.cu`` compute, in NumPy (see :mod:`.host_kernels`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["attention", "half_negated", "saturated", "sparse", "transposed"]

Array = NDArray[Any]
Values = Mapping[str, Any]

_PAIRS = np.array([[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]])


def half_negated(v: Values) -> dict[str, Array]:
    """Of 32 elements of k, the products of the last 16 are subtracted."""
    signs = np.where(np.arange(v["a"].shape[1]) % 32 < 16, 1, -1)
    return {"c": (v["a"] * signs) @ v["b"].T}


def transposed(v: Values) -> dict[str, Array]:
    return {"c": v["a"].T @ v["b"]}


def saturated(v: Values) -> dict[str, Array]:
    """C and the products of each 32 elements of k, clamped to s32 every time."""
    total = v["c"].astype(np.int64)
    for k in range(0, v["a"].shape[1], 32):
        total += v["a"][:, k : k + 32].astype(np.int64) @ v["b"][:, k : k + 32].astype(np.int64).T
        total = np.clip(total, -(1 << 31), (1 << 31) - 1)
    return {"c": total.astype(np.int32)}


def sparse(v: Values) -> dict[str, Array]:
    """A byte of ``places`` gives two pairs of indices, ascending."""
    halves = np.stack([v["places"] & 15, v["places"] >> 4], axis=2).reshape(len(v["places"]), -1)
    index = _PAIRS[halves % 6] + 4 * np.arange(halves.shape[1])[:, None]
    a = np.zeros((len(v["a"]), v["b"].shape[1]))
    np.put_along_axis(a, index.reshape(len(a), -1), v["a"], axis=1)
    return {"c": a @ v["b"].T}


def attention(v: Values) -> dict[str, Array]:
    """``scale`` is in units of log2."""
    scores = v["q"] @ v["k"].T * v["scale"]
    weights = np.exp2(scores - scores.max(axis=1, keepdims=True))
    return {"out": weights @ v["v"] / weights.sum(axis=1, keepdims=True)}
