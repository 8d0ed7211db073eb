"""From a mismatch to a small one: everything becomes zero without which GPU and simulator still differ."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from gpu_ref.tensor.inputs import Operands, Registers, SparseOperands, fragments
from gpu_ref.tensor.sparse_inputs import variants
from isa.tensor import MmaForm

__all__ = ["Place", "shrink"]

_Inputs = Operands | SparseOperands
_Run = Callable[[_Inputs], tuple[Registers, Registers]]


class Place(NamedTuple):
    """An element of D: ``element`` is 1 for the upper half of a register."""

    warp: int
    register: int
    lane: int
    element: int


def _differ(results: tuple[Registers, Registers], place: Place, half: bool) -> bool:
    got, expected = (int(d[place.warp, place.register, place.lane]) for d in results)
    return (got ^ expected) >> (16 * place.element) & (0xFFFF if half else ~0) != 0


def shrink(form: MmaForm, inputs: _Inputs, place: Place, run: _Run) -> tuple[_Inputs, Place]:
    """Operands of a few warps (of ``mma.sp``, as many as its selectors need), and where the mismatch is in them.

    Of the warp with the mismatch, all rows of A, columns of B and elements of C but those of the output are made zero, then
    products one by one, then C; each as long as ``run``, which returns D of GPU and simulator, still differs there. Operands
    that do not differ any more once their neighbours are gone come back as they were.
    """
    first = place.warp - place.warp % (len(variants(form)) if form.is_sparse else 1)
    inputs = type(inputs)(*(x[first : place.warp + 1].copy() for x in inputs))
    place = place._replace(warp=place.warp - first)
    half = form.d == "f16"
    parts = fragments(form)
    row, column, matrix = (int(x[place.register, place.lane, place.element]) for x in parts["d"].coordinates())
    a, b, c = (
        parts[name].unpack(planes[place.warp]).reshape(parts[name].matrices, parts[name].rows, parts[name].columns)
        for name, planes in zip("abc", inputs[:3], strict=True)
    )
    for x in (a, b, c):
        x[np.arange(len(x)) != matrix] = 0
    a[matrix, np.arange(form.m) != row] = 0
    b[matrix][:, np.arange(form.n) != column] = 0
    value = c[matrix, row, column]
    c[:] = 0
    c[matrix, row, column] = value

    def with_(a: Registers, b: Registers, c: Registers) -> _Inputs:
        new = type(inputs)(*(x.copy() for x in inputs))
        for name, planes, elements in (("a", new.a, a), ("b", new.b, b), ("c", new.c, c)):
            planes[place.warp] = parts[name].pack(elements)
        return new

    if not _differ(run(with_(a, b, c)), place, half):
        return inputs, place
    size = a.shape[2] // 2
    while size:
        for start in range(0, a.shape[2], size):
            fewer_a, fewer_b = a.copy(), b.copy()
            fewer_a[matrix, row, start : start + size] = 0
            if not form.is_sparse:
                fewer_b[matrix, start : start + size, column] = 0
            changes = not (np.array_equal(fewer_a, a) and np.array_equal(fewer_b, b))
            if changes and _differ(run(with_(fewer_a, fewer_b, c)), place, half):
                a, b = fewer_a, fewer_b
        size //= 2
    without = np.zeros_like(c)
    if value and _differ(run(with_(a, b, without)), place, half):
        c = without
    return with_(a, b, c), place
