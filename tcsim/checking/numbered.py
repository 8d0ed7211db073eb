"""Memory that holds, in place of numbers, where each of its elements is.

Every unit of memory (a byte, 16 or 32 bits) has a number, counted from 1 through all buffers. It has more bits than the unit,
so the kernel runs several times, each time on other bits of the numbers. Whatever moves bits (copies, ldmatrix, shuffles,
permutations) brings them to the operands of matrix instructions, where the runs are put together again.

Units of 32 bits are for tf32: they hold ten bits of their number where ``cvt.rna.tf32`` leaves them as they are, in a number
between 2 and 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcsim.memory import DeviceMemory

__all__ = ["UNITS", "Unit"]

Ints = NDArray[np.int64]

_TWO, _AT, _EACH = 0x4000_0000, 13, 10
"""2.0 as tf32, the lowest bit of its fraction that tf32 keeps, and the bits that it keeps."""


@dataclass(frozen=True)
class Unit:
    """A unit of ``bits`` bits, of whose number ``each`` bits are seen in each of ``runs`` runs."""

    bits: int
    each: int
    runs: int

    def number(self, memory: DeviceMemory, run: int) -> int:
        """Write the numbers, as they are in one of the runs, over all of device memory; returns how many there are."""
        first, mask = 1, np.uint64((1 << self.each) - 1)
        for start, end, _ in memory.table:
            allocation = memory.nearest(int(start))
            count = int(end - start) * 8 // self.bits
            if allocation is None or not count:
                continue
            part = np.arange(first, first + count, dtype=np.uint64) >> np.uint64(run * self.each) & mask
            if self.bits == 32:
                part = part << np.uint64(_AT) | np.uint64(_TWO)
            place = allocation.data[: count * self.bits // 8].view(f"<u{self.bits // 8}")
            place[...] = part.astype(place.dtype)
            first += count
        return first - 1

    def positions(self, runs: Sequence[NDArray[Any]], bit: Ints | int, most: int) -> Ints:
        """The place in memory, in bits and counted from one unit on, of elements that begin at ``bit`` of words, from those
        words in all runs; 0 where there is none. most: how many units there are."""
        at = np.asarray(bit, np.int64) // self.bits * self.bits
        numbers: Ints = np.zeros(np.broadcast_shapes(runs[0].shape, at.shape), np.int64)
        valid = np.ones(numbers.shape, bool)
        for run, words in enumerate(runs):
            part = (words.astype(np.uint64) >> at.astype(np.uint64)).astype(np.int64) & ((1 << self.bits) - 1)
            if self.bits == 32:
                valid &= part & ~(((1 << _EACH) - 1) << _AT) == _TWO
                part = part >> _AT & ((1 << _EACH) - 1)
            numbers |= part << (run * self.each)
        valid &= (numbers > 0) & (numbers <= most)
        return np.where(valid, numbers * self.bits + (np.asarray(bit, np.int64) - at), 0)


UNITS = {8: Unit(8, 8, 4), 16: Unit(16, 16, 2), 32: Unit(32, _EACH, 3)}
"""By the bits of a unit."""
