"""Arrays by number, in a table of addresses: what the compiled rules pass around.

A chip's state is some fifty arrays. Handing them from one compiled function to the next would cost more than what the functions
do, so they get one address, that of a table, and find rows of arrays through it. Rows are contiguous; all arrays are int64
unless their users say otherwise (:func:`row32`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

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


def _address(builder: Any, table: Any, number: Any, index: Any) -> Any:
    """The host address of a row, of 64-bit integers of a builder: the table has (address, bytes of a row) for each array."""
    word = ir.IntType(64)
    entry = builder.gep(builder.inttoptr(table, word.as_pointer()), [builder.shl(number, word(1))])
    start, pitch = _constant(builder, entry), _constant(builder, builder.gep(entry, [word(1)]))
    return builder.add(start, builder.mul(index, pitch))


def _constant(builder: Any, place: Any) -> Any:
    """Load what never changes while compiled code runs: LLVM then loads it once, whatever is stored in between."""
    value = builder.load(place)
    value.set_metadata("invariant.load", builder.module.add_metadata([]))
    return value


# Intrinsics: the rules call these so often that functions, one for each combination of argument types, would take a third of
# the time of compiling them.


@intrinsic
def address_of_row(typingctx, c, number, index):
    """The host address of a row of an array."""

    def codegen(context, builder, signature, arguments):
        return _address(builder, *arguments)

    return types.int64(types.int64, types.int64, types.int64), codegen


def _row_of(element: Any) -> Any:
    @intrinsic
    def of_row(typingctx, c, number, index):
        def codegen(context, builder, signature, arguments):
            return builder.inttoptr(_address(builder, *arguments), context.get_value_type(signature.return_type))

        return types.CPointer(element)(types.int64, types.int64, types.int64), codegen

    return of_row


row = _row_of(types.int64)
"""A row of an array of int64."""
row32 = _row_of(types.int32)
"""A row of an array of int32."""
