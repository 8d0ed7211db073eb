"""From a form and an architecture to the compiled kernel that computes it.

A :class:`Plan` names the kernel, its constant numbers, and the calls to make. ``mma.sync`` is one call on the whole
fragments; ``wmma`` is the ``mma.sync`` that ptxas makes of it, each on a part of the registers. A plan's kernel is an
ordinary compiled function ``kernel(d, a, b, c, numbers)``, of ``mma.sp`` ``kernel(d, a, b, c, metadata, selector,
numbers)``, to be called from other compiled code with ``numbers`` as a global constant, or from Python. There is one
kernel per kind of arithmetic, not one per form: ``numbers`` tells forms apart.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from isa.errors import TcsimError
from isa.tensor.formats import FLOAT_FORMATS
from isa.tensor.forms import MmaForm, NoFormError, element_bits, nearest_forms
from isa.tensor.fused import StepNumbers
from isa.tensor.metadata import DEFINED_EVERYWHERE, metadata_layout, reading_lanes, valid_pairs
from isa.tensor.mma_884 import Numbers884, mma_884
from isa.tensor.mma_f64 import ROUNDINGS, DoubleNumbers, mma_f64
from isa.tensor.mma_float import FloatNumbers, mma_float
from isa.tensor.mma_integer import BitNumbers, IntegerNumbers, mma_bits, mma_integer
from isa.tensor.mma_sparse import (
    MetadataNumbers,
    SparseFloatNumbers,
    SparseIntegerNumbers,
    bad_metadata,
    mma_sparse_float,
    mma_sparse_integer,
)
from isa.tensor.operands import FormatNumbers, format_numbers
from isa.tensor.panels import PanelNumbers
from isa.tensor.rules import Rule, find_rule

__all__ = [
    "Call", "MetadataError", "Plan", "Registers", "execute", "float_numbers", "make_plan", "metadata_numbers",
    "panel_numbers", "register_counts", "step_numbers", "unread_bits",
]  # fmt: skip

NO_FLOOR = -400
"""Stands for no floor of emax: below the exponent of every product and accumulator (-252), and 2^(NO_FLOOR - F) is
still an ordinary float64."""


class MetadataError(TcsimError):
    """The metadata of ``mma.sp`` are missing, or have a pair of codes that has no meaning."""


class Registers(Struct, frozen=True):
    """``count`` registers of an operand (``a``, ``b``, ``c`` or ``d``), from ``first`` on."""

    operand: str
    first: int
    count: int


class Call(Struct, frozen=True):
    """The registers that one call of the kernel takes as its d, a, b and c."""

    d: Registers
    a: Registers
    b: Registers
    c: Registers


class Plan(Struct, frozen=True):
    """How to execute ``form``: call ``kernel(d, a, b, c, numbers)`` for each of ``calls``, in order. ``registers``
    counts those of each operand that hold something of their own (a ``wmma`` fragment of f16 has copies besides, which
    nothing reads); they are of ``word_bits`` bits, 64 for f64 and else 32. ``rule`` is the row of the rule table that
    applies."""

    form: MmaForm
    rule: Rule
    kernel: Callable[..., None]
    numbers: NamedTuple
    calls: tuple[Call, ...]
    registers: dict[str, int]
    word_bits: int


def _format_numbers(ptx_type: str, rule: Rule) -> FormatNumbers:
    """An operand's format. FP8 unpacked to f16 is normalised wherever f16 has the exponent for it, which is all of
    e4m3."""
    unpacked = rule.method == "fused_halves"
    return format_numbers(ptx_type, unpacked and FLOAT_FORMATS[ptx_type].bias < FLOAT_FORMATS["f16"].bias)


def step_numbers(rule: Rule) -> StepNumbers:
    half = rule.output == "f16"
    floor = NO_FLOOR if rule.emax_floor is None else rule.emax_floor
    kept = 13 if rule.output == "e8m13" else 23
    return StepNumbers(rule.fraction_bits, floor, int(half), kept, format_numbers("f16" if half else "f32"))


def unread_bits(form: MmaForm) -> int:
    """The bits of a register of A or B that no element has: the low 13 of tf32, which PTX leaves undefined if set."""
    ignored = FLOAT_FORMATS[form.a].ignored_low_bits if form.a in FLOAT_FORMATS else 0
    return (1 << ignored) - 1


def float_numbers(rule: Rule, m: int, k: int, a: str, b: str, c: str, d: str) -> FloatNumbers:
    """The constants of :func:`~isa.tensor.mma_float.mma_float` for an ``m`` x 8 x ``k`` product under a fused rule."""
    per_word = 32 // element_bits(a)
    return FloatNumbers(
        m=m,
        b_registers=k // (4 * per_word),
        per_word=per_word,
        step_words=min(rule.products, k) // per_word,
        halves=int(rule.method == "fused_halves"),
        c_half=int(c == "f16"),
        d_half=int(d == "f16"),
        a=_format_numbers(a, rule),
        b=_format_numbers(b, rule),
        step=step_numbers(rule),
    )


def panel_numbers(rule: Rule, products: int, a: str, b: str) -> PanelNumbers:
    """The constants of :func:`~isa.tensor.panels.panel_step` for steps of ``products`` terms under a fused rule."""
    step = step_numbers(rule)
    # sixteen terms below 2^27 fit int32, of operands with ten fraction bits or fewer
    summed, least = min(products, 16), -14 if step.half else -126
    return PanelNumbers(products, summed, least, _format_numbers(a, rule), _format_numbers(b, rule), step)


def metadata_numbers(form: MmaForm, ordered: bool, sm: int) -> MetadataNumbers:
    """The constants that say where a sparse form's metadata is, and which pairs of codes may be in it: those that have a
    meaning, or all where it is known what an architecture (a row's ``sm``) does with the others."""
    layout = metadata_layout(form)
    meaning = sum(1 << pair for pair in valid_pairs(form, ordered))
    allowed = 0xFFFF if sm in DEFINED_EVERYWHERE else meaning
    elements, word_shift = layout.unit_bits // form.operand_bits, 1 if layout.unit_bits == 16 else 2
    return MetadataNumbers(layout.unit_bits, layout.units, layout.lanes, word_shift, elements, allowed, meaning)


def _numbers(form: MmaForm, rule: Rule, m: int, ordered: bool) -> tuple[Callable[..., None], NamedTuple]:
    """The kernel for an ``m`` x 8 product and its constants."""
    # Those of B, or where A is sparse of the B that a row of A meets.
    b_registers = form.stored_k * form.operand_bits // (4 * (64 if form.a == "f64" else 32))
    if form.is_884:
        tensor = rule.method == "fused"
        step = step_numbers(rule) if tensor else StepNumbers(0, 0, 0, 0, format_numbers("f32"))
        return mma_884, Numbers884(
            a_column=int(form.a_layout == "col"),
            b_column=int(form.b_layout == "col"),
            c_half=int(form.c == "f16"),
            d_half=int(form.d == "f16"),
            tensor=int(tensor),
            f16=format_numbers("f16"),
            step=step,
        )
    if rule.method == "fma":
        return mma_f64, DoubleNumbers(m, b_registers, ROUNDINGS[form.rounding])
    if form.a == "b1":
        return mma_bits, BitNumbers(m, b_registers, int(form.bit_operation == "xor"))
    if rule.method == "integer":
        signs = int(form.a.startswith("s")), int(form.b.startswith("s"))
        integers = IntegerNumbers(m, b_registers, element_bits(form.a), *signs, int(form.satfinite))
        if form.is_sparse:
            return mma_sparse_integer, SparseIntegerNumbers(integers, metadata_numbers(form, ordered, rule.sm))
        return mma_integer, integers
    # A step has the format of the wider accumulator: f16 only where both are.
    floats = float_numbers(rule, m, form.stored_k, form.a, form.b, form.c, form.d)
    if form.is_sparse:
        return mma_sparse_float, SparseFloatNumbers(floats, metadata_numbers(form, ordered, rule.sm))
    return mma_float, floats


def register_counts(form: MmaForm) -> dict[str, int]:
    """How many registers hold each operand, copies not counted."""
    product = 4 if form.is_884 else 1
    lane_bits = 32 * (64 if form.a == "f64" else 32)
    elements = {"a": form.m * form.stored_k, "b": form.k * form.n, "c": form.m * form.n, "d": form.m * form.n}
    bits = {"a": form.operand_bits, "b": form.operand_bits, "c": element_bits(form.c), "d": element_bits(form.d)}
    return {x: product * elements[x] * bits[x] // lane_bits for x in elements}


def _calls(form: MmaForm, counts: dict[str, int]) -> tuple[Call, ...]:
    """One call, or for a ``wmma`` of 16 x 16, 32 x 8 or 8 x 32 two, each of a 16 x 8 product.

    m16n16 is cut along n and m32n8 along m. m8n32 is computed as its transpose: the kernel's A is B, and the other way
    round. Source: SASS of ptxas 13.0 for sm_80 and sm_90.
    """
    if form.m * form.n <= 128:
        return (Call(*(Registers(x, 0, counts[x]) for x in "dabc")),)
    a, b = ("b", "a") if form.m == 8 else ("a", "b")
    whole = "b" if (form.m, form.n) != (16, 16) else "a"  # the kernel's operand that both calls take whole

    def part(kernel_operand: str, operand: str, index: int) -> Registers:
        count = counts[operand] if kernel_operand == whole else counts[operand] // 2
        return Registers(operand, 0 if kernel_operand == whole else index * count, count)

    return tuple(Call(part("d", "d", i), part("a", a, i), part("b", b, i), part("c", "c", i)) for i in (0, 1))


@cache
def make_plan(form: MmaForm, sm: int, ordered: bool = False) -> Plan:
    """How ``form`` executes on an architecture (10 * major + minor). ``ordered``: a sparse form with ``::ordered_metadata``.

    Raises :class:`~isa.tensor.rules.NoRuleError` or :class:`~isa.tensor.forms.NoFormError` where it does not exist.
    """
    if sm < form.sm:
        raise NoFormError(
            f"{form} needs sm_{form.sm} or later, this is sm_{sm} (PTX ISA 9.7.14); nearest there: {nearest_forms(form, sm)}"
        )
    step_d = "f32" if "f32" in (form.c, form.d) else form.d
    instruction = "mma.m8n8k4" if form.is_884 else "mma.rounded" if form.rounding else form.instruction
    rule = find_rule(sm, instruction, form.family, step_d)
    counts = register_counts(form)
    kernel, numbers = _numbers(form, rule, min(form.m * form.n // 8, 16), ordered)
    return Plan(form, rule, kernel, numbers, _calls(form, counts), counts, 64 if form.a == "f64" else 32)


def execute(
    plan: Plan, a: np.ndarray, b: np.ndarray, c: np.ndarray, metadata: np.ndarray | None = None, selector: int = 0
) -> np.ndarray:
    """One instruction on one warp, from Python. Operands and result are ``[register, lane]`` arrays of uint32, or of
    uint64 for f64; a ``wmma`` operand of f16 may have its copies or not. ``mma.sp`` takes its metadata ``[lane]``, uint32,
    and the sparsity selector besides.

    Raises :class:`MetadataError` where the metadata mean nothing, and what then happens is not known.
    """
    operands = {"a": a, "b": b, "c": c, "d": np.empty((plan.registers["d"], 32), f"uint{plan.word_bits}")}
    more: tuple[object, ...] = ()
    if plan.form.is_sparse:
        if metadata is None:
            raise MetadataError(f"{plan.form} needs its metadata operand (PTX ISA 9.7.14.6.3)")
        reading_lanes(plan.form, selector)  # refuses a selector that the form does not have
        _check(plan, metadata, selector)
        more = (metadata, selector)
    for call in plan.calls:
        parts = (operands[r.operand][r.first : r.first + r.count] for r in (call.d, call.a, call.b, call.c))
        plan.kernel(*parts, *more, plan.numbers)
    return operands["d"]


def _check(plan: Plan, metadata: np.ndarray, selector: int) -> None:
    numbers: MetadataNumbers = plan.numbers.metadata  # type: ignore[attr-defined]
    place = bad_metadata(metadata, selector, numbers)
    if place >= 0:
        lane, bit = divmod(place, 32)
        pair = int(metadata[lane]) >> bit & 15
        raise MetadataError(
            f"{plan.form}: the metadata of lane {lane} are {int(metadata[lane]):#010x}, whose bits {bit} to {bit + 3} are "
            f"{pair:#06b}; the pairs that have a meaning are "
            f"{', '.join(f'{x:#06b}' for x in range(16) if numbers.allowed >> x & 1)} (PTX ISA 9.7.14.6.1)"
        )
