"""Do two tiles go through k together? And if not, would they with registers exchanged, or without one of two that are the same?

Tiles of matrices in memory are regular: A[i, k] is at r(i) + c(k), B[k, j] at r'(k) + c'(j), and c and r' go through k in
proportion, since both walk the same k. Here a tile is where its elements come from, int64 [row, column], 0 where that is not
known.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import combinations, permutations

import numpy as np
from numpy.typing import NDArray

from tcsim.lanes.layouts import OperandLayout

__all__ = ["Operand", "Pair", "disorder"]

Ints = NDArray[np.int64]

_MOST_ORDERS = 4
"""Registers of which all orders are tried; of more, exchanges of two."""


@dataclass(frozen=True)
class Operand:
    """An operand in registers: ``places`` [register, lane, element of the register]; or, without ``layout``, in shared memory:
    the tile itself."""

    name: str
    places: Ints
    layout: OperandLayout | None = None

    @property
    def registers(self) -> int:
        """How many registers it is in; 0 in shared memory."""
        return len(self.places) if self.layout is not None else 0

    @property
    def tile(self) -> Ints:
        """Its elements, [row, column]."""
        one = self.layout
        return self.places if one is None else self.places[one.register, one.lane, one.bit // one.bits]

    def ordered(self, order: Iterable[int]) -> Operand:
        """With the registers that have these numbers now."""
        return replace(self, places=self.places[list(order)])

    def without(self, register: int) -> Operand:
        """With nothing known of a register."""
        places = self.places.copy()
        places[register] = 0
        return replace(self, places=places)


@dataclass(frozen=True)
class Pair:
    """A and B. Of a sparse A, every ``stored``-th column belongs to every ``whole``-th row of B."""

    a: Operand
    b: Operand
    stored: int = 1
    whole: int = 1

    @property
    def is_regular(self) -> bool:
        """Whether both are tiles of matrices that go through k in proportion, as far as that is known."""
        one, two = _steps(self.a.tile), _steps(self.b.tile.T)
        if one is None or two is None:
            return False
        (c, c_known), (r, r_known) = one, two
        known = c_known[:: self.stored] & r_known[:: self.whole]
        c, r = c[:: self.stored][known], r[:: self.whole][known]
        if len(c) < 2:
            return False
        product = np.outer(c - c[0], r - r[0])
        return bool((product == product.T).all())

    @property
    def is_known(self) -> bool:
        """Whether it is known of all elements where they come from."""
        return bool(self.a.places.all() and self.b.places.all())

    @property
    def is_even(self) -> bool:
        """Whether, of a regular pair, every step over k is as long as the one before."""
        steps = _steps(self.b.tile.T)
        return steps is not None and bool((np.diff(steps[0], 2) == 0).all())

    def with_operand(self, one: Operand) -> Pair:
        """With another A, or another B."""
        return replace(self, a=one) if one.name == "a" else replace(self, b=one)


def _steps(tile: Ints) -> tuple[Ints, NDArray[np.bool_]] | None:
    """(c, for which columns it is known) of a tile that is r + c wherever something is known; None if it is not."""
    known = tile != 0
    if known.all():
        c = tile[0] - tile[0, 0]
        return (c, np.ones(len(c), bool)) if (tile - tile[:, :1] == c).all() else None
    first = int(known.sum(axis=1).argmax())
    r, r_known = np.zeros(tile.shape[0], np.int64), np.zeros(tile.shape[0], bool)
    c, c_known = np.where(known[first], tile[first], 0), known[first].copy()
    r_known[first] = True
    while True:
        row, column = _next(known, r_known, c_known)
        if row < 0:
            break
        if c_known[column]:
            r[row], r_known[row] = tile[row, column] - c[column], True
        else:
            c[column], c_known[column] = tile[row, column] - r[row], True
    both = known & r_known[:, None] & c_known[None]
    return (c, c_known) if (np.where(both, tile - r[:, None] - c[None], 0) == 0).all() else None


def _next(known: NDArray[np.bool_], rows: NDArray[np.bool_], columns: NDArray[np.bool_]) -> tuple[int, int]:
    """An element of which only the row or only the column has been found; (-1, -1) if there is none."""
    half = np.argwhere(known & (rows[:, None] ^ columns[None]))
    return (int(half[0, 0]), int(half[0, 1])) if len(half) else (-1, -1)


def disorder(pair: Pair) -> tuple[str, str] | None:
    """(what is wrong with the registers of a pair that is not regular, what to try), if that shows."""
    return _twice(pair) or _exchanged(pair)


def _twice(pair: Pair) -> tuple[str, str] | None:
    for operand in (pair.a, pair.b):
        for one, two in combinations(range(operand.registers), 2):
            if not (operand.places[one] == operand.places[two]).all():
                continue
            for wrong in (two, one):
                if pair.with_operand(operand.without(wrong)).is_regular:
                    name = operand.name
                    what = f"operand {name.upper()}: registers {name}{one} and {name}{two} hold the same elements"
                    return what, "the register that was meant for one of them"
    return None


def _orders(count: int) -> Iterable[tuple[int, ...]]:
    if 0 < count <= _MOST_ORDERS:
        yield from permutations(range(count))
        return
    for one, two in combinations(range(count), 2):
        order = list(range(count))
        order[one], order[two] = two, one
        yield tuple(order)


def _exchanged(pair: Pair) -> tuple[str, str] | None:
    """The exchange of registers of one operand that makes both regular: if there are several, one that makes them go evenly
    through k, then one that moves few."""
    found = []
    for operand in (pair.a, pair.b):
        for order in _orders(operand.registers):
            changed = pair.with_operand(operand.ordered(order))
            if changed.is_regular:
                found.append((not changed.is_even, sum(i != j for i, j in enumerate(order)), operand.name, order))
    if not found:
        return None
    _, _, name, order = min(found)
    registers = ", ".join(f"{name}{index}" for index in order)
    return f"operand {name.upper()}: registers exchanged", f"{{{registers}}}, by the numbers they have now"
