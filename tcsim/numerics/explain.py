"""One output element of a tensor-core instruction, step by step: :func:`explain`.

Everything is computed on exact numbers, with the functions of :mod:`isa.tensor.reference`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from isa.arith.primitives import bits_f32, f32_bits, fma_f32
from isa.tensor.reference import Number, convert, decode, dot, ieee_add, round_to
from isa.tensor.rules import Rule
from isa.tensor.scaled_reference import decode_scale
from tcsim.device import Device
from tcsim.numerics.compress import compressed
from tcsim.numerics.explain_steps import Operation, Step, Term, fused_terms, grouped_terms, scaled_terms
from tcsim.numerics.instructions import TensorInstruction, device_sm, find_instruction
from tcsim.numerics.operands import OperandError
from tcsim.numerics.scalars import INTEGERS, fraction_of, integer_of, read_numbers, value_of
from tcsim.numerics.scales import ONE, read_scales, scale_text, scale_value

__all__ = ["Explanation", "Operation", "Step", "Term", "explain", "explain_bits"]

Scales = tuple[Sequence[int], Sequence[int]]
"""The codes of the scales of a row and of a column; empty where an instruction has none."""

_NAN_F32 = 0x7FFFFFFF
_FRACTION_BITS = {"f16": (10, -14), "f32": (23, -126), "f64": (52, -1022)}


@dataclass(frozen=True)
class Explanation:
    """One output element: ``str()`` of it is a text, :meth:`to_json` the same as data.

    ``bits`` and ``value`` are the result, of PTX type ``type``. ``exact`` is the sum of the exact products and C, None where
    there is none; ``nearest`` the bits of the number of that type next to it. ``ieee`` are the bits of a chain of IEEE fused
    multiply-adds in f32 (f64 operands: in f64), k ascending, C first, rounded to ``type`` at the end; None for integers, and
    where there are scales. The errors are in units in the last place of the type, at the exact sum. ``notes`` tells of numbers
    rounded on the way in.
    """

    instruction: TensorInstruction
    device: str
    steps: tuple[Step | Operation, ...]
    bits: int
    type: str
    exact: Fraction | None
    nearest: int | None
    ieee: int | None
    notes: tuple[str, ...] = field(default=())

    @property
    def rule(self) -> Rule:
        """The row of the table of arithmetic that applies, with how it is known."""
        return self.instruction.rule

    @property
    def value(self) -> float:
        return value_of(self.bits, self.type)

    @property
    def dropped(self) -> Fraction:
        """All that truncation took from terms."""
        return sum((t.dropped for s in self.steps if isinstance(s, Step) for t in s.terms), Fraction(0))

    @property
    def error_ulp(self) -> float | None:
        """The result less the exact sum; None where either is not finite, and for integers."""
        return _error(self.bits, self.type, self.exact)

    @property
    def ieee_error_ulp(self) -> float | None:
        """The same of the IEEE chain."""
        return None if self.ieee is None else _error(self.ieee, self.type, self.exact)

    def to_dict(self) -> dict[str, Any]:
        """As JSON-able data: bits in hexadecimal, exact numbers as ``[numerator, exponent of 2]``."""
        from tcsim.numerics.explain_text import as_data

        return as_data(self)

    def to_json(self) -> str:
        """As JSON text."""
        return json.dumps(self.to_dict(), indent=1)

    def __str__(self) -> str:
        from tcsim.numerics.explain_text import as_text

        return as_text(self)


def explain(
    form: str,
    a_row: Any,
    b_col: Any,
    c: Any = 0,
    *,
    device: str | Device | None = None,
    scale_a: Any = None,
    scale_b: Any = None,
) -> Explanation:
    """How one output element of a tensor-core instruction comes about: ``c`` + the products of ``a_row`` and ``b_col``.

    form and device are as for :func:`tcsim.matmul`. a_row, b_col: K numbers each; NumPy arrays of the operand's type (or of
    its bits), or a sequence of numbers, which are rounded to the type to nearest, and of texts such as ``"0x3c00"``, which are
    bits. c: one such, of the accumulator's type. K is filled up with zeros; a longer one is a chain of instructions. Of
    ``mma.sp`` and ``wgmma.sp``, ``a_row`` has its zeros: of each four numbers at most two others (tf32: of two, one). scale_a,
    scale_b: of a form with ``.block_scale``, the scales of the row and of the column, one for each block, as numbers or codes
    such as ``"0x7f"``.

    Raises NoFormError for an instruction that the device does not have, OperandError for operands that do not fit.
    """
    instruction = find_instruction(form, device)
    a, notes_a = read_numbers(a_row, instruction.a, "a")
    b, notes_b = read_numbers(b_col, instruction.b, "b")
    if len(a) != len(b):
        raise OperandError(f"a has {len(a)} numbers and b {len(b)}; one output element takes K of each")
    ((start, *more), notes_c) = read_numbers([c] if np.ndim(c) == 0 else c, instruction.c, "c")
    if more:
        raise OperandError(f"c has {1 + len(more)} numbers; one output element has one")
    scales = _scales_of(instruction, len(a), scale_a, scale_b)
    if instruction.own.is_sparse:
        a, b, places = compressed(a, b, instruction.own)
        result = explain_bits(instruction, a, b, start, scales)
        steps = tuple(_at(step, places) for step in result.steps)
    else:
        result = explain_bits(instruction, a, b, start, scales)
        steps = result.steps
    return replace(result, device=device_sm(device)[0], steps=steps, notes=(*notes_a, *notes_b, *notes_c))


def _scales_of(instruction: TensorInstruction, k: int, scale_a: Any, scale_b: Any) -> Scales:
    """The codes of whole instructions; those of blocks that are not there are 1."""
    if not instruction.block:
        if scale_a is not None or scale_b is not None:
            raise OperandError(f"{instruction.name} has no scales; those that have say .block_scale (sm_120a)")
        return (), ()
    blocks = -(-k // instruction.block)
    more = [ONE[instruction.own.scale_type]] * (-blocks % instruction.own.scale_vec)
    a, b = read_scales(scale_a, "scale_a", blocks, instruction), read_scales(scale_b, "scale_b", blocks, instruction)
    return [*a, *more], [*b, *more]


def _at(step: Step | Operation, places: list[int]) -> Step | Operation:
    """A step over stored elements, its terms with their places along K."""
    title = step.title.replace("k = ", "stored elements ").replace("k mod", "stored elements mod")
    if isinstance(step, Operation):
        return replace(step, title=title)
    return replace(step, title=title, terms=tuple(t if t.k is None else replace(t, k=places[t.k]) for t in step.terms))


def explain_bits(
    instruction: TensorInstruction, a: Sequence[int], b: Sequence[int], c: int, scales: Scales = ((), ())
) -> Explanation:
    """The same of bit patterns: K of each operand (of a sparse A, of what it stores), ``c``, and the codes of scales."""
    missing = [0] * (-len(a) % instruction.k)
    x, y = [*a, *missing], [*b, *missing]
    steps: list[Step | Operation] = []
    total = c
    for first in range(0, len(x), instruction.k):
        part = slice(first, first + instruction.k)
        prefix = f"instruction {first // instruction.k}: " if len(x) > instruction.k else ""
        start = total if first == 0 or instruction.c == instruction.d else convert(total, instruction.d, instruction.c)
        own = instruction.own.scale_vec
        blocks = slice(first // instruction.k * own, (first // instruction.k + 1) * own)
        made = _instruction(instruction, x[part], y[part], start, first, prefix, (scales[0][blocks], scales[1][blocks]))
        steps += made
        total = made[-1].bits
    exact = _exact(instruction, a, b, c, scales)
    nearest = None if exact is None or instruction.d == "s32" else _rounded(exact, instruction.d)
    ieee = None if instruction.d == "s32" or instruction.block else _ieee_chain(instruction, x, y, c)
    return Explanation(instruction, "", tuple(steps), total, instruction.d, exact, nearest, ieee)


# ------------------------------------------------------------------------------------------------- one instruction


def _instruction(
    instruction: TensorInstruction, a: list[int], b: list[int], c: int, first: int, prefix: str, scales: Scales
) -> list[Step | Operation]:
    rule = instruction.rule
    if rule.method == "integer":
        return [_integers(instruction, a, b, c, first, prefix)]
    if rule.method == "fma":
        return list(_doubles(instruction, a, b, c, first, prefix))
    wide = rule.d if rule.method != "ffma" else instruction.c
    start = c if instruction.c == wide else convert(c, instruction.c, wide)
    if rule.method == "ffma":
        return list(_subroutine(a, b, start, instruction, first, prefix))
    x, y = [decode(bits, instruction.a) for bits in a], [decode(bits, instruction.b) for bits in b]
    made: list[Step | Operation] = []
    if instruction.block:
        return [_with_scales(instruction, list(zip(range(first, first + len(x)), x, y, strict=True)), start, prefix, scales)]
    if rule.method == "fused_halves":  # FP8 unpacked to f16, which has every FP8 number
        x = [decode(convert(bits, instruction.a, "f16"), "f16") for bits in a]
        y = [decode(convert(bits, instruction.b, "f16"), "f16") for bits in b]
        total = 0
        for half, whence in (((0, 1), "+0"), ((2, 3), "sum")):
            chosen = [k for k in range(len(x)) if k % 4 in half]
            start_of_it = "+0" if whence == "+0" else "the first"
            title = f"{prefix}fused step over k mod 4 in {{{half[0]}, {half[1]}}}, from {start_of_it}"
            step = fused_terms(title, whence, [(k + first, x[k], y[k]) for k in chosen], total, rule)
            made.append(step)
            total = step.bits
        made.append(Operation(f"{prefix}+ C, rounded to nearest even", ieee_add(total, start, rule.d), rule.d))
    else:
        for at in range(0, len(x), rule.products):
            last = min(at + rule.products, len(x)) - 1
            whence = "C" if first + at == 0 else "sum"
            added = "C" if whence == "C" else "the sum so far"
            title = f"{prefix}fused step over k = {first + at} to {first + last}, and {added}"
            step = fused_terms(title, whence, [(k + first, x[k], y[k]) for k in range(at, last + 1)], start, rule)
            made.append(step)
            start = step.bits
    if instruction.d != rule.d:
        bits = convert(made[-1].bits, rule.d, instruction.d)
        made.append(Operation(f"{prefix}rounded to {instruction.d}, to nearest even", bits, instruction.d))
    return made


def _with_scales(
    instruction: TensorInstruction, products: list[tuple[int, Number, Number]], c: int, prefix: str, scales: Scales
) -> Step:
    """The one step of an instruction with block scales."""
    first, last = products[0][0], products[-1][0]
    of_a, of_b = ([decode_scale(code, instruction.own.scale_type) for code in codes] for codes in scales)
    accumulator = "C" if first == 0 else "sum"
    added = "C" if first == 0 else "the sum so far"
    if instruction.rule.method == "fused_groups":
        title = f"{prefix}sums of 16 products (a) times their scales (b), over k = {first} to {last}, and {added}"
        return grouped_terms(title, accumulator, products, c, instruction.rule, (of_a, of_b))
    factor = " * ".join(scale_text(codes[0], instruction.own.scale_type) for codes in scales)
    title = f"{prefix}fused step over k = {first} to {last}, products times {factor}, and {added}"
    return scaled_terms(title, accumulator, products, c, instruction.rule, (of_a[0], of_b[0]))


def _integers(instruction: TensorInstruction, a: list[int], b: list[int], c: int, first: int, prefix: str) -> Step:
    form = instruction.form
    terms = []
    for k, (x, y) in enumerate(zip(a, b, strict=True)):
        u, v = integer_of(x, instruction.a), integer_of(y, instruction.b)
        product = (u ^ v if form.bit_operation == "xor" else u & v) if instruction.a == "b1" else u * v
        terms.append(Term(first + k, u, v, Fraction(product), None, Fraction(product)))
    start = integer_of(c, "s32")
    terms.append(Term(None, start, None, Fraction(start), None, Fraction(start)))
    total = int(sum(t.kept for t in terms))
    low, high = -(1 << 31), (1 << 31) - 1
    kept = max(low, min(high, total)) if instruction.satfinite else total
    words = "clamped to s32, once" if instruction.satfinite else "modulo 2^32"
    what = "bits of a op b" if instruction.a == "b1" else "products"
    title = f"{prefix}exact sum of {what} k = {first} to {first + len(a) - 1} and C"
    return Step(title, "C" if first == 0 else "sum", tuple(terms), None, None, Fraction(total), words, kept & 0xFFFFFFFF, "s32")


def _fma_f64(a: int, b: int, c: int, rule: Rule, rounding: str) -> int:
    return dot([a], [b], c, rule, "f64", "f64", rounding if rounding != "rn" else "")


def _doubles(instruction: TensorInstruction, a: list[int], b: list[int], c: int, first: int, prefix: str) -> list[Operation]:
    made, total = [], c
    for k, (x, y) in enumerate(zip(a, b, strict=True)):
        total = _fma_f64(x, y, total, instruction.rule, instruction.rounding)
        made.append(Operation(f"{prefix}fma.{instruction.rounding}(a[{first + k}], b[{first + k}], sum)", total, "f64"))
    return made


# ---------------------------------------------------------------------------------------------------- IEEE in float32


def _fma32(a: int, b: int, c: int) -> int:
    """Of f32 bits, to nearest even, NaN canonical."""
    with np.errstate(all="ignore"):
        result = fma_f32(bits_f32(a), bits_f32(b), bits_f32(c))
    return _NAN_F32 if np.isnan(result) else int(f32_bits(result))


def _mul32(a: int, b: int) -> int:
    with np.errstate(all="ignore"):
        result = bits_f32(a) * bits_f32(b)
    return _NAN_F32 if np.isnan(result) else int(f32_bits(result))


def _as_f32(bits: int, ptx_type: str) -> int:
    """A narrower number, exactly."""
    return bits & ~0x1FFF if ptx_type == "tf32" else bits if ptx_type == "f32" else convert(bits, ptx_type, "f32")


def _subroutine(a: list[int], b: list[int], c: int, instruction: TensorInstruction, first: int, prefix: str) -> list[Operation]:
    """m8n8k4 from sm_80 on, in the order of :mod:`isa.tensor.mma_884`."""
    x, y = [_as_f32(bits, "f16") for bits in a], [_as_f32(bits, "f16") for bits in b]
    made: list[Operation] = []

    def note(title: str, bits: int, ptx_type: str = "f32") -> int:
        made.append(Operation(prefix + title, bits, ptx_type))
        return bits

    names = [str(first + k) for k in range(4)]
    if instruction.d == "f32":
        total = 0
        for k, name in enumerate(names):
            total = note(f"t = fma(a[{name}], b[{name}], {'t' if k else '+0'})", _fma32(x[k], y[k], total))
        note("t + C", ieee_add(total, _as_f32(c, instruction.c), "f32"))
        return made
    u = note(f"u = a[{names[0]}] * b[{names[0]}]", _mul32(x[0], y[0]))
    u = note(f"u = fma(a[{names[1]}], b[{names[1]}], u)", _fma32(x[1], y[1], u))
    v = note(f"v = a[{names[2]}] * b[{names[2]}]", _mul32(x[2], y[2]))
    v = note(f"v = fma(a[{names[3]}], b[{names[3]}], v)", _fma32(x[3], y[3], v))
    total = note("t = C + u", ieee_add(_as_f32(c, instruction.c), u, "f32"))
    total = note("t = t + v", ieee_add(total, v, "f32"))
    note("t rounded to f16, to nearest even", convert(total, "f32", "f16"), "f16")
    return made


def _ieee_chain(instruction: TensorInstruction, a: list[int], b: list[int], c: int) -> int:
    if instruction.d == "f64":
        total = c
        for x, y in zip(a, b, strict=True):
            total = _fma_f64(x, y, total, instruction.rule, "rn")
        return total
    total = _as_f32(c, instruction.c)
    for x, y in zip(a, b, strict=True):
        total = _fma32(_as_f32(x, instruction.a), _as_f32(y, instruction.b), total)
    return total if instruction.d == "f32" else convert(total, "f32", instruction.d)


# ------------------------------------------------------------------------------------------------------------ exactly


def _exact(instruction: TensorInstruction, a: Sequence[int], b: Sequence[int], c: int, scales: Scales) -> Fraction | None:
    if instruction.a in INTEGERS:
        step = _integers(instruction, list(a), list(b), c, 0, "")
        return step.total
    total = fraction_of(c, instruction.c)
    per_scale = instruction.k // max(instruction.own.scale_vec, 1)
    for k, (x, y) in enumerate(zip(a, b, strict=True)):
        parts = [fraction_of(x, instruction.a), fraction_of(y, instruction.b)]
        if instruction.block:
            parts += [scale_value(codes[k // per_scale], instruction.own.scale_type) for codes in scales]
        if total is None or None in parts:
            return None
        total += math.prod(parts)  # type: ignore[arg-type]
    return total


def _rounded(exact: Fraction, ptx_type: str) -> int:
    unit = 1 - exact.denominator.bit_length()  # the denominator is a power of two
    bits = round_to(abs(exact.numerator), unit, ptx_type, nearest=True)
    width = {"f16": 16, "f32": 32, "f64": 64}[ptx_type]
    return bits | (1 << (width - 1) if exact < 0 else 0)


def _error(bits: int, ptx_type: str, exact: Fraction | None) -> float | None:
    """In units in the last place at ``exact``."""
    got = fraction_of(bits, ptx_type) if ptx_type in _FRACTION_BITS else None
    if exact is None or got is None:
        return None
    digits, least = _FRACTION_BITS[ptx_type]
    magnitude = abs(exact)
    exponent = least
    if magnitude:
        exponent = max(least, magnitude.numerator.bit_length() - magnitude.denominator.bit_length())
        if Fraction(2) ** exponent > magnitude and exponent > least:
            exponent -= 1
    ulps = (got - exact) / Fraction(2) ** (exponent - digits)
    return float(ulps) if abs(ulps) < Fraction(2) ** 1023 else math.copysign(math.inf, ulps)
