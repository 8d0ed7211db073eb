"""Fragments of ``ldmatrix``, ``stmatrix`` and ``movmatrix`` (``.m8n8``, ``.b16``).

A matrix is 8 rows of 8 elements of 16 bits, each row 16 contiguous bytes in shared memory. Lane ``8 * j + r`` gives the
address of row ``r`` of matrix ``j``; ``.x1`` uses the addresses of lanes 0 to 7, ``.x2`` of lanes 0 to 15, ``.x4`` of
all. Register ``j`` of lane (g, t) holds two elements of matrix ``j``: columns 2t and 2t + 1 of row g, or with
``.trans`` rows 2t and 2t + 1 of column g.

``movmatrix`` reads registers of the first kind and writes the second: lane (g, t) gets rows 2t and 2t + 1 of column g
of its source, which is columns 2t and 2t + 1 of row g of the transpose.

Source: PTX ISA 9.7.14.5.15 (ldmatrix), 9.7.14.5.16 (stmatrix), 9.7.14.5.17 (movmatrix).
"""

from __future__ import annotations

from isa.tensor.layouts import Fragment

__all__ = ["ROW_BYTES", "address_lane", "matrix_fragment"]

ROW_BYTES = 16
"""Bytes in a row of a matrix; a row's address is a multiple of it."""


def matrix_fragment(count: int, transposed: bool) -> Fragment:
    """The registers of ``.x1``, ``.x2`` or ``.x4`` (``count`` matrices), without or with ``.trans``."""
    lane = ((0, 2), (0, 4), (1, 0), (2, 0), (4, 0))
    if transposed:
        lane = tuple((column, row) for row, column in lane)  # type: ignore[assignment]
    return Fragment(
        rows=8,
        columns=8,
        lane=lane,
        register=tuple((0, 0, 1 << i) for i in range(count.bit_length() - 1)),
        element=((1, 0) if transposed else (0, 1),),
        matrices=count,
    )


def address_lane(matrix: int, row: int) -> int:
    """The lane whose address operand points to a row of a matrix."""
    return 8 * matrix + row
