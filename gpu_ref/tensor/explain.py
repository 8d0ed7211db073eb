"""One output of a matrix instruction in human terms: its operands as numbers, and what the exact reference makes of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpu_ref.tensor.float_inputs import FORMATS
from gpu_ref.tensor.inputs import Operands, Registers, SparseOperands, fragments
from gpu_ref.tensor.sparse_inputs import variant
from isa.tensor import MmaForm
from isa.tensor.metadata import codes_of, gathered_k
from tcsim.numerics.explain import explain_bits
from tcsim.numerics.instructions import instruction_of
from tcsim.numerics.scalars import number_text

__all__ = ["Dot", "differing", "explain", "find_dot", "reference"]


class Dot(NamedTuple):
    """One output element: ``k`` bit patterns of A and of B (of ``mma.sp``, of those that A stores), those of C and of what was
    got, and where it is."""

    a: list[int]
    b: list[int]
    c: int
    got: int
    matrix: int
    row: int
    column: int


def differing(form: MmaForm, got: Registers, expected: Registers) -> int:
    """How many elements of D differ, of ``[warp, register, lane]`` arrays."""
    if form.d == "f16":
        return int(np.count_nonzero(np.ascontiguousarray(got).view("u2") != np.ascontiguousarray(expected).view("u2")))
    return int(np.count_nonzero(got != expected))


def find_dot(
    form: MmaForm, operands: Operands | SparseOperands, got: Registers, warp: int, register: int, lane: int, element: int
) -> Dot:
    """The output element that a warp has in a register of a lane (``element`` 1: in the upper half of it)."""
    parts = fragments(form)
    row, column, matrix = (int(x[register, lane, element]) for x in parts["d"].coordinates())
    a, b, c, d = (
        parts[name].unpack(planes[warp]).reshape(parts[name].matrices, parts[name].rows, parts[name].columns)[matrix]
        for name, planes in zip("abcd", (*operands[:3], got), strict=True)
    )
    met = b[:, column]
    if isinstance(operands, SparseOperands):
        met = met[gathered_k(form, codes_of(form, operands.e[warp, 0], variant(form, warp).selector))[row]]
    return Dot(a[row].tolist(), met.tolist(), int(c[row, column]), int(d[row, column]), matrix, row, column)


def reference(form: MmaForm, sm: int, dot_: Dot) -> int:
    """The bits of the output by :mod:`isa.tensor.reference`."""
    return explain_bits(instruction_of(form, sm), dot_.a, dot_.b, dot_.c).bits


def explain(form: MmaForm, sm: int, dot_: Dot, expected: int) -> str:
    """Several lines: the products whose operands are not zero, C, and D as it should be, was, and is by the reference."""
    where = f"row {dot_.row}, column {dot_.column}" + (f" of matrix {dot_.matrix}" if form.is_884 else "")
    lines = [f"{form}, {where}"]
    for k, (a, b) in enumerate(zip(dot_.a, dot_.b, strict=True)):
        mask = (1 << (FORMATS[form.a].bits - 1)) - 1 if form.a in FORMATS else -1
        if a & mask or b & mask:
            lines.append(f"  k={k:<3} {number_text(a, form.a)}  x  {number_text(b, form.b)}")
    lines.append(f"  C      {number_text(dot_.c, form.c)}")
    lines.append(f"  GPU    {number_text(dot_.got, form.d)}")
    lines.append(f"  kernel {number_text(expected, form.d)}")
    lines.append(f"  exact  {number_text(reference(form, sm, dot_), form.d)}")
    return "\n".join(lines)
