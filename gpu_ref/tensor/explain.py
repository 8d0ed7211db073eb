"""One output of a matrix instruction in human terms: its operands as numbers, and what the exact reference makes of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpu_ref.tensor.float_inputs import FORMATS
from gpu_ref.tensor.inputs import Operands, Registers, fragments
from isa.tensor import MmaForm, make_plan
from isa.tensor.formats import INTEGER_BITS
from isa.tensor.reference import convert, decode, dot, integer_dot

__all__ = ["Dot", "differing", "explain", "find_dot", "reference"]


class Dot(NamedTuple):
    """One output element: ``k`` bit patterns of A and of B, those of C and of what was got, and where it is."""

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


def find_dot(form: MmaForm, operands: Operands, got: Registers, warp: int, register: int, lane: int, element: int) -> Dot:
    """The output element that a warp has in a register of a lane (``element`` 1: in the upper half of it)."""
    parts = fragments(form)
    row, column, matrix = (int(x[register, lane, element]) for x in parts["d"].coordinates())
    a, b, c, d = (
        parts[name].unpack(planes[warp]).reshape(parts[name].matrices, parts[name].rows, parts[name].columns)[matrix]
        for name, planes in zip("abcd", (*operands, got), strict=True)
    )
    return Dot(a[row].tolist(), b[:, column].tolist(), int(c[row, column]), int(d[row, column]), matrix, row, column)


def _signed(bits: int, ptx_type: str) -> int:
    width = INTEGER_BITS[ptx_type]
    return bits - (1 << width) if ptx_type.startswith("s") and bits >> (width - 1) else bits


def reference(form: MmaForm, sm: int, dot_: Dot) -> int:
    """The bits of the output by :mod:`isa.tensor.reference`."""
    rule = make_plan(form, sm).rule
    if rule.method == "integer":
        if form.a == "b1":
            a = [x ^ y if form.bit_operation == "xor" else x & y for x, y in zip(dot_.a, dot_.b, strict=True)]
            return integer_dot(a, [1] * form.k, _signed(dot_.c, "s32"), False) & 0xFFFFFFFF
        x, y = ([_signed(bits, t) for bits in side] for side, t in ((dot_.a, form.a), (dot_.b, form.b)))
        return integer_dot(x, y, _signed(dot_.c, "s32"), form.satfinite) & 0xFFFFFFFF
    if form.a == "f64":
        return dot(dot_.a, dot_.b, dot_.c, rule, "f64", "f64")
    c = dot_.c if form.c == rule.d else convert(dot_.c, form.c, rule.d)
    result = dot(dot_.a, dot_.b, c, rule, form.a, form.b)
    return result if form.d == rule.d else convert(result, rule.d, form.d)


def _number(bits: int, ptx_type: str) -> str:
    """Such as ``3C01=1025*2^-10``."""
    if ptx_type not in FORMATS:
        return str(_signed(bits, ptx_type))
    x, digits = decode(bits, ptx_type), FORMATS[ptx_type].bits // 4
    sign = "-" if x.negative else ""
    finite = f"{x.significand}*2^{x.unit}" if x.significand else "0"
    return f"{bits:0{digits}X}=" + {"nan": "NaN", "infinite": f"{sign}Inf"}.get(x.kind, sign + finite)


def explain(form: MmaForm, sm: int, dot_: Dot, expected: int) -> str:
    """Several lines: the products whose operands are not zero, C, and D as it should be, was, and is by the reference."""
    where = f"row {dot_.row}, column {dot_.column}" + (f" of matrix {dot_.matrix}" if form.is_884 else "")
    lines = [f"{form}, {where}"]
    for k, (a, b) in enumerate(zip(dot_.a, dot_.b, strict=True)):
        mask = (1 << (FORMATS[form.a].bits - 1)) - 1 if form.a in FORMATS else -1
        if a & mask or b & mask:
            lines.append(f"  k={k:<3} {_number(a, form.a)}  x  {_number(b, form.b)}")
    lines.append(f"  C      {_number(dot_.c, form.c)}")
    lines.append(f"  GPU    {_number(dot_.got, form.d)}")
    lines.append(f"  kernel {_number(expected, form.d)}")
    lines.append(f"  exact  {_number(reference(form, sm, dot_), form.d)}")
    return "\n".join(lines)
