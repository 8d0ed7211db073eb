"""From a form with a ``.kind`` and an architecture to the compiled kernel and its constants."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np

from isa.tensor.formats import FLOAT_FORMATS
from isa.tensor.forms import MmaForm, NoFormError
from isa.tensor.metadata import reading_lanes
from isa.tensor.mma_float import FloatNumbers
from isa.tensor.mma_scaled import (
    GroupNumbers,
    KindNumbers,
    ScaledNumbers,
    SparseKindNumbers,
    mma_groups,
    mma_kind,
    mma_scaled,
    mma_sparse_kind,
    mma_sparse_scaled,
)
from isa.tensor.mma_sparse import MetadataNumbers, SparseFloatNumbers
from isa.tensor.operands import FormatNumbers, format_numbers
from isa.tensor.plans import Call, MetadataError, Plan, Registers, metadata_numbers, register_counts, step_numbers
from isa.tensor.rules import Rule, find_rule
from isa.tensor.scaled_forms import selectors

__all__ = ["Scales", "SelectorError", "execute_scaled", "make_kind_plan"]

_NONE = MetadataNumbers(8, 16, 1, 2, 1, 0, 0)
"""In place of the metadata of a dense form."""


class SelectorError(NoFormError):
    """A byte-id or thread-id that the instruction cannot have."""


class Scales(NamedTuple):
    """A scale operand: ``words`` ``[lane]``, uint32, and its selectors."""

    words: np.ndarray
    byte_id: int = 0
    thread_id: int = 0


def _container_format(ptx_type: str) -> FormatNumbers:
    """A format whose sign is the highest bit of eight: a smaller one shifted up, with nothing that is not a number."""
    f = FLOAT_FORMATS[ptx_type]
    if f.bits == 8:
        return format_numbers(ptx_type)
    dropped = 8 - f.bits
    return FormatNumbers(8, f.fraction_bits, dropped, f.bias, 0x7F >> dropped << dropped, 0x80, 0x80, 0)


def _floats(form: MmaForm, rule: Rule) -> FloatNumbers:
    half = int(form.d == "f16")
    a, b = _container_format(form.a), _container_format(form.b)
    return FloatNumbers(16, 2, 4, 8, 0, half, half, a, b, step_numbers(rule))


def _numbers(form: MmaForm, rule: Rule) -> tuple[Callable[..., None], NamedTuple]:
    metadata = metadata_numbers(form, True, rule.sm) if form.is_sparse else _NONE
    if form.operand_bits == 4:
        scales = ScaledNumbers(form.scale_vec, int(form.scale_type == "ue4m3"))
        assert rule.emax_floor is not None
        numbers = GroupNumbers(2, scales, rule.fraction_bits, rule.emax_floor, int(form.is_sparse), metadata)
        return mma_groups, numbers
    small = [int(FLOAT_FORMATS[t].bits < 8) for t in (form.a, form.b)]
    floats = _floats(form, rule)
    if form.is_sparse:
        kernel = mma_sparse_scaled if form.scale_vec else mma_sparse_kind
        return kernel, SparseKindNumbers(SparseFloatNumbers(floats, metadata), *small)
    return (mma_scaled if form.scale_vec else mma_kind), KindNumbers(floats, *small)


@cache
def make_kind_plan(form: MmaForm, sm: int) -> Plan:
    """How a form of :data:`~isa.tensor.scaled_forms.KIND_FORMS` executes on an architecture (10 * major + minor).

    Raises :class:`~isa.tensor.rules.NoRuleError` or :class:`~isa.tensor.forms.NoFormError` where it does not exist.
    """
    if sm // 10 != form.sm // 10:
        raise NoFormError(f"{form} is of sm_120a and its family, this is sm_{sm} (PTX ISA 9.7.14.5.14)")
    rule = find_rule(sm, f"{form.instruction}.{form.kind}", form.family, form.d)
    counts = register_counts(form)
    kernel, numbers = _numbers(form, rule)
    calls = (Call(*(Registers(x, 0, counts[x]) for x in "dabc")),)
    return Plan(form, rule, kernel, numbers, calls, counts, 32)


def _check(form: MmaForm, operand: str, scales: Scales) -> tuple[int, int]:
    bytes_, threads = selectors(form, operand)
    if scales.byte_id not in bytes_ or scales.thread_id not in threads:
        raise SelectorError(
            f"{form}: byte-id-{operand} is {scales.byte_id} and thread-id-{operand} {scales.thread_id}; there are byte-ids "
            f"{', '.join(map(str, bytes_))} and thread-ids {', '.join(map(str, threads))} (PTX ISA 9.7.14.3)"
        )
    return scales.byte_id, scales.thread_id


def execute_scaled(
    plan: Plan, a: np.ndarray, b: np.ndarray, c: np.ndarray, scale_a: Scales | None = None, scale_b: Scales | None = None,
    metadata: np.ndarray | None = None, selector: int = 0,
) -> np.ndarray:  # fmt: skip
    """One instruction on one warp, from Python; operands and result are ``[register, lane]`` arrays of uint32. Raises
    :class:`SelectorError`, or :class:`~isa.tensor.plans.MetadataError` where scales or metadata are missing."""
    form = plan.form
    d = np.empty((plan.registers["d"], 32), np.uint32)
    sparse: tuple[object, ...] = ()
    if form.is_sparse:
        if metadata is None:
            raise MetadataError(f"{form} needs its metadata operand (PTX ISA 9.7.14.6.3)")
        reading_lanes(form, selector)
        sparse = (metadata, selector)
    scaled: tuple[object, ...] = ()
    if form.scale_vec:
        if scale_a is None or scale_b is None:
            raise MetadataError(f"{form} needs scales of A and of B (PTX ISA 9.7.14.3)")
        scaled = (scale_a.words, _check(form, "a", scale_a), scale_b.words, _check(form, "b", scale_b))
        if form.operand_bits == 4 and not sparse:
            sparse = (np.zeros(32, np.uint32), 0)
    plan.kernel(d, a, b, c, *sparse, *scaled, plan.numbers)
    return d
