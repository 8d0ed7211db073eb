"""Rows of A with their zeros, as ``mma.sp`` stores them: which elements, and those of B that they meet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.tensor.forms import MmaForm
from tcsim.numerics.operands import OperandError

__all__ = ["chosen_elements", "compressed"]


def _granularity(form: MmaForm) -> tuple[int, int, int]:
    """Elements of a unit; units of a chunk, and how many of them are stored."""
    return (2 if form.operand_bits == 4 else 1), *((2, 1) if form.a == "tf32" else (4, 2))


def chosen_elements(a: NDArray[Any], form: MmaForm) -> NDArray[np.intp]:
    """The places along K of the elements that are stored, ``[row, element]``, of a matrix of bits ``[row, K]``.

    Of each four elements two are stored: those that are not +0, then the first others, ascending. Of tf32, one of two; of 4
    bits, two pairs of four neighbouring ones. K is a multiple of the form's. Raises OperandError where more are not zero
    (PTX ISA 9.7.14.6.1).
    """
    unit, of, stored = _granularity(form)
    full = (a.reshape(len(a), -1, of, unit) != 0).any(axis=3)
    crowded = np.argwhere(full.sum(axis=2) > stored)
    if len(crowded):
        row, chunk = (int(i) for i in crowded[0])
        start, last = chunk * of * unit, (chunk + 1) * of * unit - 1
        what = "pairs with numbers" if unit == 2 else "numbers"
        where = f"row {row} of a" if len(a) > 1 else "a"
        raise OperandError(
            f"{where} has {int(full[row, chunk].sum())} {what} that are not zero among k = {start} to {last}, and of {of} only "
            f"{stored} can be stored (PTX ISA 9.7.14.6.1)"
        )
    units = np.sort(np.argsort(~full, axis=2, kind="stable")[:, :, :stored], axis=2)
    places = (units + of * np.arange(full.shape[1])[None, :, None]).reshape(len(a), -1)
    return np.asarray((places[:, :, None] * unit + np.arange(unit)).reshape(len(a), -1))


def compressed(a: Sequence[int], b: Sequence[int], form: MmaForm) -> tuple[list[int], list[int], list[int]]:
    """Of one row, filled up with zeros to whole instructions: the stored elements (bits), the elements of B that they meet, and
    their places along K. Raises as :func:`chosen_elements`."""
    missing = [0] * (-len(a) % form.k)
    a, b = [*a, *missing], [*b, *missing]
    chosen = [int(k) for k in chosen_elements(np.array([a], np.uint64), form)[0]]
    return [a[k] for k in chosen], [b[k] for k in chosen], chosen
