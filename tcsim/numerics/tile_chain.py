# mypy: allow-untyped-defs, allow-untyped-calls, disable-error-code="no-untyped-def"
"""Chains of matrix instructions over a whole matrix, tile by tile, on the kernels that execute them.

For the forms that have no fast way of their own: integers, single bits, f64, and ``m8n8k4`` where it is a subroutine. Each
kernel has a loop of its own, written out: a loop made by a factory would be compiled anew by every process.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.compiled import compiled
from isa.tensor import Fragment, MmaForm, make_plan, mma_fragment
from isa.tensor.mma_884 import mma_884
from isa.tensor.mma_f64 import mma_f64
from isa.tensor.mma_integer import mma_bits, mma_integer

__all__ = ["chain_tiles", "matrix_of", "padded", "tiles_of"]


@compiled
def _f64(sums, a, b, numbers):
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            for k in range(a.shape[1]):
                mma_f64(sums[i, j], a[i, k], b[j, k], sums[i, j], numbers)


@compiled
def _884(sums, a, b, numbers):
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            for k in range(a.shape[1]):
                mma_884(sums[i, j], a[i, k], b[j, k], sums[i, j], numbers)


@compiled
def _integer(sums, a, b, numbers):
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            for k in range(a.shape[1]):
                mma_integer(sums[i, j], a[i, k], b[j, k], sums[i, j], numbers)


@compiled
def _bits(sums, a, b, numbers):
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            for k in range(a.shape[1]):
                mma_bits(sums[i, j], a[i, k], b[j, k], sums[i, j], numbers)


_LOOPS: dict[str, Any] = {"mma_f64": _f64, "mma_884": _884, "mma_integer": _integer, "mma_bits": _bits}


def tiles_of(matrix: NDArray[Any], fragment: Fragment, tile_rows: int) -> NDArray[Any]:
    """A matrix as ``[row of tiles, column of tiles, register, lane]``. ``tile_rows`` are the rows that a tile covers: those of
    a fragment's several matrices lie below one another, or (B) are the same rows."""
    row, column, which = fragment.coordinates()
    if tile_rows > fragment.rows:
        row = which * fragment.rows + row
    cut = matrix.reshape(len(matrix) // tile_rows, tile_rows, -1, fragment.columns).transpose(1, 3, 0, 2)
    width = fragment.word_bits // fragment.per_register
    kind = np.dtype(f"u{fragment.word_bits // 8}").type
    words = cut[row[..., 0], column[..., 0]].astype(kind)
    for element in range(1, fragment.per_register):
        words |= cut[row[..., element], column[..., element]].astype(kind) << kind(element * width)
    return np.ascontiguousarray(words.transpose(2, 3, 0, 1))


def matrix_of(tiles: NDArray[Any], fragment: Fragment, tile_rows: int) -> NDArray[Any]:
    """The inverse of :func:`tiles_of`, for accumulators."""
    row, column, which = fragment.coordinates()
    if tile_rows > fragment.rows:
        row = which * fragment.rows + row
    width = fragment.word_bits // fragment.per_register
    kind = np.dtype(f"u{fragment.word_bits // 8}").type
    planes = tiles.transpose(2, 3, 0, 1)
    cut = np.empty((tile_rows, fragment.columns, *tiles.shape[:2]), kind)
    for element in range(fragment.per_register):
        mask = kind((1 << width) - 1)
        cut[row[..., element], column[..., element]] = planes >> kind(element * width) & mask
    return cut.transpose(2, 0, 3, 1).reshape(tiles.shape[0] * tile_rows, -1)


def padded(matrix: NDArray[Any], rows: int, columns: int) -> NDArray[Any]:
    """Filled up with zeros to multiples of ``rows`` and ``columns``."""
    m, n = matrix.shape
    return np.pad(matrix, ((0, -m % rows), (0, -n % columns)))


def chain_tiles(a: NDArray[Any], b: NDArray[Any], c: NDArray[Any], form: MmaForm, sm: int) -> NDArray[Any]:
    """The bits of D: ``c`` and then, k ascending, instructions of ``form``, an ``mma`` form.

    ``a`` ``[M, K]``, ``b`` ``[K, N]`` and ``c`` ``[M, N]`` are bit patterns (uint32, for f64 uint64), K a multiple of the
    form's. The result has the type of ``c``.
    """
    plan = make_plan(form, sm)
    of_a, of_b, of_c = (mma_fragment(form, name) for name in "abc")
    rows = of_a.matrices * form.m  # the products of m8n8k4 share B, and take rows of A below one another
    a_tiles = tiles_of(padded(a, rows, form.k), of_a, rows)
    b_tiles = np.ascontiguousarray(tiles_of(padded(b, form.k, form.n), of_b, form.k).transpose(1, 0, 2, 3))
    sums = tiles_of(padded(c, rows, form.n), of_c, rows)
    _LOOPS[plan.kernel.__name__](sums, a_tiles, b_tiles, plan.numbers)
    return matrix_of(sums, of_c, rows)[: c.shape[0], : c.shape[1]].astype(c.dtype)
