"""Random integers that follow from a name alone, the same under every NumPy version.

The words are those of Philox4x64-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11), whose stream NumPy
promises not to change (NEP 19); everything made of them here is integer arithmetic.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["Draw", "Words"]

Words = NDArray[np.uint64]


class Draw:
    """A stream of random integers, named by ``key``: any values whose text is the same everywhere."""

    def __init__(self, *key: object) -> None:
        digest = hashlib.blake2b(" ".join(map(str, key)).encode(), digest_size=16).digest()
        self._stream = np.random.Philox(key=int.from_bytes(digest, "little"))

    def words(self, *shape: int) -> Words:
        """Uniform words of 64 bits."""
        count = int(np.prod(shape, dtype=np.int64))
        return np.asarray(self._stream.random_raw(count), np.uint64).reshape(shape)

    def below(self, limit: int, *shape: int) -> NDArray[np.int64]:
        """Integers from 0 to ``limit`` - 1 (``limit`` up to 2^32)."""
        return ((self.words(*shape) >> np.uint64(32)) * np.uint64(limit) >> np.uint64(32)).astype(np.int64)

    def between(self, low: int, high: int, *shape: int) -> NDArray[np.int64]:
        """Integers from ``low`` to ``high``, both included."""
        return self.below(high - low + 1, *shape) + low

    def chance(self, sixteenths: int, *shape: int) -> NDArray[np.bool_]:
        """True with a probability of so many sixteenths."""
        return (self.words(*shape) >> np.uint64(60)) < np.uint64(sixteenths)

    def pick(self, values: Sequence[int] | Words, *shape: int) -> NDArray[np.int64] | Words:
        """Members of ``values``, each as often; of its type where it is an array."""
        return np.asarray(values)[self.below(len(values), *shape)]
