"""Fragments of ``wmma``.

The PTX ISA fixes how many registers a fragment has (9.7.14.4.1) and leaves open what is in them. But a program may
look, and what it sees is what ptxas does: ``wmma`` is ``mma.sync`` on 16 x 8 pieces, with fragments made of theirs.
This module follows ptxas 13.0 for sm_80 and sm_90, read off the addresses in its SASS:

* m16n16: A as m16n8. B and the accumulators: the registers of columns 0 to 7, then those of columns 8 to 15.
* m32n8: A and the accumulators: the registers of rows 0 to 15, then those of rows 16 to 31. B as m16n8.
* m8n32 is computed as its transpose, so its B is laid out like A of m32n8 turned over, its A like B, its accumulators
  like those of m32n8 turned over.
* m8n8 (f64, 4-bit, 1-bit): as ``mma.sync``.

A and B of f16, and only of f16, have eight registers whatever the shape. Where the matrix fills fewer, the rest are
copies that ``wmma.mma`` does not read. sm_70 and sm_75 have layouts of their own, which are not modelled: the same is
used there.
"""

from __future__ import annotations

from msgspec.structs import replace

from isa.tensor.forms import MmaForm, element_bits
from isa.tensor.layouts import Fragment, Step, accumulator, operand_a, operand_b

__all__ = ["wmma_fragment"]

_F16_OPERAND_REGISTERS = 8


def _turned_over(f: Fragment) -> Fragment:
    """The same registers with rows and columns exchanged."""

    def exchanged(steps: tuple[Step, ...]) -> tuple[Step, ...]:
        return tuple((column, row) for row, column in steps)

    return replace(
        f,
        rows=f.columns,
        columns=f.rows,
        lane=exchanged(f.lane),
        register=exchanged(f.register),
        element=exchanged(f.element),
    )


def _with_copies(f: Fragment) -> Fragment:
    extra = (_F16_OPERAND_REGISTERS // f.registers).bit_length() - 1
    return replace(f, register=f.register + ((0, 0),) * extra)


def wmma_fragment(form: MmaForm, operand: str) -> Fragment:
    """The fragment of operand ``a``, ``b``, ``c`` or ``d`` of a ``wmma`` form, whatever the layout in memory."""
    bits = element_bits({"a": form.a, "b": form.b, "c": form.c, "d": form.d}[operand])
    turned = (form.m, form.n) == (8, 32)
    if operand == "a":
        fragment = _turned_over(operand_b(form.k, form.m, bits)) if turned else operand_a(form.m, form.k, bits)
    elif operand == "b":
        fragment = _turned_over(operand_a(form.n, form.k, bits)) if turned else operand_b(form.k, form.n, bits)
    else:
        fragment = _turned_over(accumulator(form.n, form.m, bits)) if turned else accumulator(form.m, form.n, bits)
    return _with_copies(fragment) if operand in "ab" and form.a == "f16" else fragment
