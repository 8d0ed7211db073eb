"""What the kernels of ``traces/kernels`` that copy in bulk compute, in NumPy (see :mod:`.host_kernels`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["gemm_transposed", "scale_shared", "square_blocks", "sum_tiles", "transpose_tiles"]

Values = Mapping[str, Any]
Outputs = dict[str, NDArray[Any]]

TILE = 32


def transpose_tiles(v: Values) -> Outputs:
    """The output has room for two rows more, which are written with what is outside the input: zeros."""
    out = np.zeros((v["a"].shape[1], v["b"].shape[1]))
    out[:, : v["a"].shape[0]] = v["a"].T
    return {"b": out}


def sum_tiles(v: Values) -> Outputs:
    return {"b": v["b"] + v["a"].reshape(-1, *v["b"].shape).sum(0)}


def scale_shared(v: Values) -> Outputs:
    """Four CTAs of a cluster scale one tile, each by its own factor."""
    tiles = np.repeat(v["a"].reshape(-1, TILE, TILE), 4, axis=0)
    return {"b": (tiles * v["factors"][:, None, None]).reshape(v["b"].shape)}


def square_blocks(v: Values) -> Outputs:
    return {"out": v["x"] * v["x"] + np.arange(v["x"].size, dtype=np.int32)}


def gemm_transposed(v: Values) -> Outputs:
    return {"c": v["a"] @ v["b"].T}
