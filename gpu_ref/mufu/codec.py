"""How a recording of billions of results is kept in a few megabytes.

*Dense sweeps.* Consecutive inputs of a smooth function give consecutive outputs that lie on a line, to within a unit
or so, over a short chunk. A sweep is stored as one anchor in every 64 values and the integer distance of the others
from the chord between anchors: small numbers that deflate well. Everything is integer arithmetic, so it decodes the
same anywhere.

*Hashes.* The whole input space of an instruction, 2^32 words, is summarised by 256 pairs of 64-bit words, one pair
for each block of 2^24 inputs: the sum and the exclusive-or of :func:`mix` over the block. A model of the instruction
is checked against all 2^32 results by hashing its own.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["BLOCK", "GOLDEN", "Stream", "hash_block", "mix", "pack", "unpack"]

BLOCK = 1 << 24
"""Inputs per hashed block."""

GOLDEN = 0x9E3779B97F4A7C15
"""Odd multiplier (2^64 over the golden ratio) that spreads the input index before the result is added."""

_CHUNK = 64


def _chord(anchors: npt.NDArray[np.int64], count: int) -> npt.NDArray[np.int64]:
    """Values on the chords between ``anchors``, one per chunk; the last chunk continues the slope of the one before."""
    nexts = np.empty_like(anchors)
    nexts[:-1] = anchors[1:]
    nexts[-1] = 2 * anchors[-1] - anchors[-2] if len(anchors) > 1 else anchors[-1]
    steps = np.arange(_CHUNK, dtype=np.int64)
    line = anchors[:, None] + (((nexts - anchors)[:, None] * steps + _CHUNK // 2) >> 6)
    return line.reshape(-1)[:count]


def pack(values: npt.NDArray[np.uint32]) -> dict[str, npt.NDArray[np.generic]]:
    """Arrays that :func:`unpack` turns back into ``values`` (uint32, one dimension, at least one element)."""
    anchors = values[::_CHUNK].copy()
    residual = values.astype(np.int64) - _chord(anchors.astype(np.int64), len(values))
    far = np.flatnonzero(np.abs(residual) > 127)
    small = residual.copy()
    small[far] = 0
    return {
        "anchors": anchors,
        "residual": small.astype(np.int8),
        "far_index": far.astype(np.uint32),
        "far_value": values[far],
    }


def unpack(
    anchors: npt.NDArray[np.uint32],
    residual: npt.NDArray[np.int8],
    far_index: npt.NDArray[np.uint32],
    far_value: npt.NDArray[np.uint32],
) -> npt.NDArray[np.uint32]:
    """The sweep that :func:`pack` stored."""
    values = (_chord(anchors.astype(np.int64), len(residual)) + residual).astype(np.uint32)
    values[far_index] = far_value
    return values


def mix(z: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """A bijective scrambler of 64-bit words (the finalizer of Steele, Lea and Flood's SplitMix64), elementwise."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def hash_block(index: npt.NDArray[np.uint32], result: npt.NDArray[np.unsignedinteger]) -> tuple[int, int]:
    """(sum, exclusive-or) of ``mix(index * GOLDEN + result)`` modulo 2^64: what the recorder computes for one block."""
    words = mix(index.astype(np.uint64) * np.uint64(GOLDEN) + result.astype(np.uint64))
    return int(np.add.reduce(words)), int(np.bitwise_xor.reduce(words))


class Stream:
    """Pseudo-random words that are the same under every NumPy version, so that operands follow from a seed alone."""

    def __init__(self, seed: int) -> None:
        self._next = int(mix(np.array([seed], dtype=np.uint64))[0])

    def words(self, count: int) -> npt.NDArray[np.uint64]:
        """``count`` uniform 64-bit words."""
        index = np.arange(count, dtype=np.uint64) * np.uint64(GOLDEN) + np.uint64(self._next)
        self._next = (self._next + count * GOLDEN) & 0xFFFFFFFFFFFFFFFF
        return mix(index)

    def bits(self, width: int, count: int) -> npt.NDArray[np.uint64]:
        """``count`` uniform words of ``width`` (1 to 64) bits."""
        return self.words(count) >> np.uint64(64 - width)

    def integers(self, low: int, high: int, count: int) -> npt.NDArray[np.int64]:
        """``count`` integers in [low, high), uniform but for the bias of a 53-bit remainder."""
        return (self.bits(53, count) % np.uint64(high - low)).astype(np.int64) + low

    def fractions(self, count: int) -> npt.NDArray[np.float64]:
        """``count`` numbers in [0, 1)."""
        return self.bits(53, count).astype(np.float64) * 2.0**-53
