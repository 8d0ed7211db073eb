"""What ``mma.sp`` needs besides A, B and C: a selector, the kind of metadata, and the metadata.

The operands of a row of A and what it meets of B are to be as hard as those of the dense forms (:mod:`.float_inputs`), whatever
the metadata. So those are made first, for a dense product of as many elements as A stores. Then each warp chooses a pair of
places for each chunk of B; there its elements go, and elements of a second product of the same class go to the places between.
Most rows of A have the metadata that leads them to the first, the others read both.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu_ref.tensor.draw import Draw, Words
from isa.tensor import MmaForm, metadata_layout
from isa.tensor.metadata import gathered_k, reading_lanes, valid_pairs

__all__ = ["Variant", "draw_metadata", "draw_pairs", "spread", "variant", "variants"]


class Variant(NamedTuple):
    """``selector``, whether the instruction is ``mma.sp::ordered_metadata``, and the ``lanes`` whose metadata it reads."""

    selector: int
    ordered: bool
    lanes: NDArray[np.int64]


def variants(form: MmaForm) -> list[Variant]:
    """Every selector of a form, without and then with ``::ordered_metadata``."""
    selectors = range(metadata_layout(form).selectors)
    return [Variant(i, ordered, reading_lanes(form, i)) for ordered in (False, True) for i in selectors]


def variant(form: MmaForm, warp: int) -> Variant:
    """That of a warp: all in turn, so that each of eight warps or more has every one."""
    every = variants(form)
    return every[warp % len(every)]


def _pairs(form: MmaForm, draw: Draw, warps: int, *shape: int) -> NDArray[np.int64]:
    """Pairs of codes that a warp's kind of metadata may have, ``[warp, *shape]``."""
    drawn = [np.asarray(draw.pick(valid_pairs(form, ordered), warps, *shape), np.int64) for ordered in (False, True)]
    ordered_warps = np.array([variant(form, warp).ordered for warp in range(warps)])
    return np.where(ordered_warps.reshape(warps, *[1] * len(shape)), drawn[1], drawn[0])


def draw_pairs(form: MmaForm, draw: Draw, warps: int) -> NDArray[np.int64]:
    """A pair of codes for each chunk, ``[warp, chunk]``."""
    return _pairs(form, draw, warps, metadata_layout(form).units // 2)


def draw_metadata(form: MmaForm, draw: Draw, pairs: NDArray[np.int64]) -> Words:
    """Codes ``[warp, row, unit]``: those of the warp, and in no, a quarter of, or all chunks of each row others."""
    warps, chunks = pairs.shape
    other = draw.below(16, warps, 16, chunks) < draw.pick((0, 4, 16), warps, 1, 1)
    chosen = np.where(other, _pairs(form, draw, warps, 16, chunks), pairs[:, None])
    return np.stack([chosen & 3, chosen >> 2], axis=3).reshape(warps, 16, 2 * chunks).astype(np.uint64)


def spread(form: MmaForm, pairs: NDArray[np.int64], met: Words, others: Words) -> Words:
    """B ``[warp, k, n]`` from the elements that the pairs lead to, ``[warp, stored k, n]``, and as many for between."""
    b = np.empty((len(met), form.k, form.n), np.uint64)
    for warp, chosen in enumerate(pairs):
        codes = np.stack([chosen & 3, chosen >> 2], axis=1).reshape(1, -1)
        places = gathered_k(form, codes)[0]
        b[warp, places] = met[warp]
        b[warp, np.setdiff1d(np.arange(form.k), places)] = others[warp]
    return b
