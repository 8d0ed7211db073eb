"""From a ``wgmma`` form to the compiled kernel that computes it (:mod:`isa.tensor.wgmma`) and its constants.

The order of operands is that of the text: D, A, B, then of a sparse form the metadata and the selector, the scales, and the
transpositions; at the end D once more, as it was before the instruction.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from isa.tensor.forms import MmaForm, NoFormError, element_bits
from isa.tensor.mma_sparse import MetadataNumbers
from isa.tensor.plans import metadata_numbers, panel_numbers
from isa.tensor.rules import Rule, find_rule
from isa.tensor.wgmma import wgmma_bits, wgmma_float, wgmma_integer
from isa.tensor.wgmma_forms import transposable, wgmma_target
from isa.tensor.wgmma_operands import Places, WgmmaFloatNumbers, WgmmaIntegerNumbers, WgmmaNumbers

__all__ = ["WgmmaPlan", "accumulator_registers", "make_wgmma_plan", "operand_order", "wgmma_rule"]

_ROWS = 16  # of a warp


class WgmmaPlan(NamedTuple):
    """How to execute a form: ``kernel(registers, operands, ctx, numbers)``. ``rule`` is the row of the rule table."""

    rule: Rule
    kernel: Callable[..., Any]
    numbers: WgmmaFloatNumbers | WgmmaIntegerNumbers | WgmmaNumbers


def accumulator_registers(form: MmaForm) -> int:
    """Registers of D of each thread."""
    return form.n * element_bits(form.d) // 64


def operand_order(form: MmaForm, a_in_registers: bool) -> tuple[str, ...]:
    """The operands of the text behind D, A and B. Floating-point operands may be negated, those of 16 bits in shared memory
    transposed (PTX ISA 9.7.15.5.2, 9.7.15.6.4)."""
    order = ["metadata", "selector"] if form.is_sparse else []
    order.append("scale_d")
    if form.d != "s32":
        order += ["scale_a", "scale_b"]
    if transposable(form.a):
        order += ["trans_b"] if a_in_registers else ["trans_a", "trans_b"]
    return tuple(order)


def wgmma_rule(form: MmaForm, sm: int) -> Rule:
    """The row of the rule table for a form. Raises :class:`~isa.tensor.rules.NoRuleError`, or
    :class:`~isa.tensor.forms.NoFormError` on an architecture that has no ``wgmma``."""
    if sm != 90:
        raise NoFormError(f"{form} exists on {wgmma_target} only, this is sm_{sm} (PTX ISA 9.7.15)")
    return find_rule(sm, form.instruction, form.family, form.d)


def _places(form: MmaForm, a_in_registers: bool) -> Places:
    a = accumulator_registers(form)
    b = a + (4 if a_in_registers else 1)
    order = operand_order(form, a_in_registers)
    at = {name: b + 1 + index for index, name in enumerate(order)}
    others = {name: at.get(name, -1) for name in Places._fields if name not in ("a", "b", "c")}
    return Places(a=a, b=b, c=b + 1 + len(order), **others)


@cache
def make_wgmma_plan(form: MmaForm, sm: int, a_in_registers: bool) -> WgmmaPlan:
    """The kernel of a form on an architecture (10 * major + minor). Raises as :func:`wgmma_rule` does."""
    rule = wgmma_rule(form, sm)
    one_bit = form.a == "b1"
    bits = 32 if one_bit else element_bits(form.a)
    unused = MetadataNumbers(16, 8, 1, 1, 1, 0, 0)
    shape = WgmmaNumbers(
        n=form.n,
        k=form.k // 32 if one_bit else form.k,
        stored=form.k // 32 if one_bit else form.stored_k,
        bits=bits,
        a_in_registers=int(a_in_registers),
        sparse=int(form.is_sparse),
        at=_places(form, a_in_registers),
        metadata=metadata_numbers(form, False, sm) if form.is_sparse else unused,
    )
    if one_bit:
        return WgmmaPlan(rule, wgmma_bits, shape)
    if rule.method == "integer":
        signs = int(form.a == "s8"), int(form.b == "s8")
        return WgmmaPlan(rule, wgmma_integer, WgmmaIntegerNumbers(shape, *signs, int(form.satfinite)))
    panel = panel_numbers(rule, min(rule.products, form.stored_k), form.a, form.b)
    return WgmmaPlan(rule, wgmma_float, WgmmaFloatNumbers(shape, int(form.d == "f16"), panel))
