"""Which element each register of each lane holds: the fragments of ``wgmma``, of one warp.

Warp w of a warpgroup holds rows 16w to 16w + 15; the fragments here are those of warp 0. B, and A where the instruction says
so, is in shared memory (:mod:`isa.tensor.matrix_descriptor`). Source: figures in PTX ISA 9.7.15.5.1.1; the recordings in
``traces/vectors`` agree with them.
"""

from __future__ import annotations

import numpy as np

from isa.tensor.forms import MmaForm, NoFormError, element_bits
from isa.tensor.layouts import Fragment, accumulator, operand_a

__all__ = ["TiledFragment", "wgmma_fragment"]

_ROWS = 16


class TiledFragment(Fragment, frozen=True):
    """A fragment of eight columns, over and over: ``tiles`` times as many columns and registers."""

    tiles: int = 1

    @property
    def registers(self) -> int:
        return int(self.tiles << len(self.register))

    def coordinates(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Row, column and matrix of every element, each as an array ``[register, lane, element]``."""
        one = Fragment(self.rows, 8, self.lane, self.register, self.element, self.word_bits)
        row, column, matrix = one.coordinates()
        columns = [column + 8 * tile for tile in range(self.tiles)]
        return np.concatenate([row] * self.tiles), np.concatenate(columns), np.concatenate([matrix] * self.tiles)


def wgmma_fragment(form: MmaForm, operand: str) -> Fragment:
    """The fragment of operand ``a`` (in registers; a sparse A has the columns that are stored), ``c`` or ``d``. Raises
    :class:`~isa.tensor.forms.NoFormError` for ``b``, which is never in registers."""
    if operand == "a":
        return operand_a(_ROWS, form.stored_k, element_bits(form.a))
    if operand not in ("c", "d"):
        raise NoFormError(f"{form}: operand {operand} is read from shared memory (PTX ISA 9.7.15.5.1.2)")
    one = accumulator(_ROWS, 8, element_bits(form.d))
    return TiledFragment(_ROWS, form.n, one.lane, one.register, one.element, one.word_bits, tiles=form.n // 8)
