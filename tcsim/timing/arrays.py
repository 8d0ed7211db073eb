"""Arrays by number, in a table of addresses: what the compiled rules pass around.

A chip's state is some fifty arrays. Handing them from one compiled function to the next would cost more than what the functions
do, so they get one address, that of a table, and find rows of arrays through it. Rows are contiguous; all arrays are int64
unless their users say otherwise (:func:`row32`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.compiled import inlined
from isa.kernels.planes import as_i32, as_i64, load_i64

__all__ = ["ArrayTable", "address_of_row", "row", "row32"]


class ArrayTable:
    """Up to ``size`` arrays by number, kept alive together. ``address``: what compiled functions take."""

    def __init__(self, size: int) -> None:
        self._table = np.zeros((size, 2), np.int64)
        self._arrays: dict[int, NDArray[Any]] = {}
        self.address = int(self._table.ctypes.data)

    def put(self, number: int, array: NDArray[Any]) -> NDArray[Any]:
        """Enter an array, whose rows are those of its last axis; returns it."""
        assert array.flags.c_contiguous
        self._arrays[number] = array
        self._table[number] = array.ctypes.data, array.shape[-1] * array.itemsize
        return array

    def __getitem__(self, number: int) -> NDArray[Any]:
        return self._arrays[number]


@inlined
def address_of_row(c, number, index):
    """The host address of a row of an array."""
    return load_i64(c + 16 * number) + index * load_i64(c + 16 * number + 8)


@inlined
def row(c, number, index):
    """A row of an array of int64."""
    return as_i64(address_of_row(c, number, index))


@inlined
def row32(c, number, index):
    """A row of an array of int32."""
    return as_i32(address_of_row(c, number, index))
