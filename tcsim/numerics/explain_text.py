"""An explanation as text for people and as data for programs."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from isa.tensor import Rule
from tcsim.numerics.explain import Explanation
from tcsim.numerics.explain_steps import Operation, Step, Term
from tcsim.numerics.scalars import INTEGERS, bits_text, fraction_of, value_of

__all__ = ["as_data", "as_text", "exact_text", "rule_text"]

SCHEMA = 1
_NOTES = 4  # shown


def _value(x: float) -> str:
    """The shortest decimal that is this number."""
    text = repr(x)
    return text.removesuffix(".0") if "e" not in text else text


def exact_text(x: Fraction) -> str:
    """A dyadic number in decimal where that is short and exact, else as an odd number times a power of two."""
    if x == 0:
        return "0"
    short = _value(float(x)) if abs(x) < Fraction(2) ** 1000 else ""
    if short and len(short) <= 14 and Fraction(short) == x:
        return short
    numerator, exponent = _dyadic(x)
    return f"{numerator}*2^{exponent}"


def _dyadic(x: Fraction) -> tuple[int, int]:
    """An odd numerator and the exponent of two; (0, 0) for zero."""
    if x == 0:
        return 0, 0
    zeros = (x.numerator & -x.numerator).bit_length() - 1
    return x.numerator >> zeros, zeros + 1 - x.denominator.bit_length()


def _approximately(x: Fraction) -> str:
    """The value to 17 digits, marked where that is not all."""
    if abs(x) >= Fraction(2) ** 1023:  # more than a float64 may hold
        excess = abs(x).numerator.bit_length() - x.denominator.bit_length() - 52
        return f"about {int(x / Fraction(2) ** excess)}*2^{excess}"
    short = float(x)
    return _value(short) if Fraction(short) == x else f"about {_value(short)}"


def rule_text(rule: Rule, k: int) -> str:
    """A row of the table of arithmetic in a line, for an instruction of ``k`` products."""
    if rule.method == "integer":
        return "exact integer sum; wrapped modulo 2^32, or with .satfinite clamped once"
    if rule.method == "fma":
        return "a chain of IEEE f64 fused multiply-adds, C first, k ascending"
    if rule.method == "ffma":
        return "no tensor core: a chain of f32 fused multiply-adds from +0 (f16 results: two chains), then + C"
    ends = {"f32": "f32 toward zero", "e8m13": "13 fraction bits toward zero", "f16": "f16 to nearest even"}[rule.output]
    floor = "" if rule.emax_floor is None else f" (at least {rule.emax_floor})"
    step = (
        f"aligned to the largest exponent{floor}, each term cut to {rule.fraction_bits} bits below it, summed, "
        f"rounded to {ends}"
    )
    if rule.method == "fused_groups":
        return f"exact sums of 16 products, times their two scales, and the accumulator: {step}"
    if rule.method == "fused_scaled":
        count = min(rule.products, k)
        return f"exponents of products raised by those of their scales; steps of {count} and the accumulator: {step}"
    if rule.method == "fused_halves":
        return f"two steps (k mod 4 in {{0, 1}} from +0, then {{2, 3}}): {step}; then + C to nearest even"
    return f"steps of {min(rule.products, k)} products and the accumulator: {step}"


# --------------------------------------------------------------------------------------------------------------- text


def as_text(e: Explanation) -> str:
    """Several lines; zero terms of a step are told together."""
    lines = [f"{e.instruction.name} on {e.device or f'sm_{e.instruction.sm}'} (sm_{e.instruction.sm})"]
    lines += [f"  {rule_text(e.rule, e.instruction.k)}", f"  {e.rule.status}: {e.rule.source}"]
    lines += [f"  note: {note}" for note in e.notes[:_NOTES]]
    if len(e.notes) > _NOTES:
        lines.append(f"  note: and {len(e.notes) - _NOTES} more numbers rounded on the way in")
    for number, step in enumerate(e.steps):
        if isinstance(step, Step):
            lines += ["", *_step_lines(step)]
        else:
            if number == 0 or isinstance(e.steps[number - 1], Step):
                lines.append("")
            lines.append(_operation_line(step))
    return "\n".join([*lines, "", *_summary(e)])


def _operation_line(step: Operation) -> str:
    return f"{step.title:<44} = {_value(step.value)}  ({bits_text(step.bits, step.type)})"


def _step_lines(step: Step) -> list[str]:
    lines = [step.title]
    if step.emax is not None:
        lines.append(f"  emax = {step.emax}: every term is cut to a multiple of 2^{step.unit}")
    elif step.total is None:
        lines.append("  not all finite: an infinity or NaN decides, nothing is aligned")
    rows = [_row(term, step.accumulator) for term in step.terms if term.exact != 0]
    zeros = [str(term.k) for term in step.terms if term.exact == 0 and term.k is not None]
    if rows:
        aligned = step.emax is not None
        head = ("k", "a", "b", "product", "exponent", "dropped") if aligned else ("k", "a", "b", "product")
        table = [head, *(row[: len(head)] for row in rows)]
        widths = [max(len(row[i]) for row in table) for i in range(len(head))]
        lines += ["  " + "  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in table]
    if zeros:
        shown = ", ".join(zeros) if len(zeros) <= 6 else f"{', '.join(zeros[:3])}, ... {zeros[-1]} ({len(zeros)} of them)"
        lines.append(f"  zero: k = {shown}")
    if step.total is not None:
        lines.append(f"  sum of what is kept = {exact_text(step.total)}")
    lines.append(f"  {step.rounding} = {_value(step.value)}  ({bits_text(step.bits, step.type)}){_lost(step)}")
    return lines


def _lost(step: Step) -> str:
    if step.total is None or (got := fraction_of(step.bits, step.type)) is None or got == step.total:
        return ""
    return f", off by {exact_text(got - step.total)}"


def _row(term: Term, accumulator: str) -> tuple[str, ...]:
    name = accumulator if term.k is None else str(term.k)
    product = exact_text(term.exact) if term.exact is not None else "not finite"
    exponent = "" if term.exponent is None else str(term.exponent)
    return name, _value(term.a), "" if term.b is None else _value(term.b), product, exponent, exact_text(term.dropped)


def _error(ulp: float | None) -> str:
    return "" if ulp is None else f", {ulp:+.3g} ulp" if ulp else ", exact"


def _summary(e: Explanation) -> list[str]:
    if e.type in INTEGERS:
        return [f"result       {_value(e.value)}  ({bits_text(e.bits, e.type)})"]
    lines = [f"result       {_value(e.value)}  ({bits_text(e.bits, e.type)}){_error(e.error_ulp)}"]
    if e.exact is not None:
        lines.append(f"exact sum    {_approximately(e.exact)}")
    if e.nearest is not None:
        lines.append(f"nearest {e.type}  {_value(value_of(e.nearest, e.type))}  ({bits_text(e.nearest, e.type)})")
    if e.ieee is not None:
        kind = "f64" if e.type == "f64" else "f32"
        value, bits = _value(value_of(e.ieee, e.type)), bits_text(e.ieee, e.type)
        lines.append(f"{kind} FMAs     {value}  ({bits}){_error(e.ieee_error_ulp)}: IEEE, C first, k ascending")
    return lines


# --------------------------------------------------------------------------------------------------------------- data


def _number(x: float) -> float | int | str:
    """JSON has no infinities and NaNs."""
    return x if x - x == 0 else str(x)


def _exact(x: Fraction | None) -> list[int] | None:
    return None if x is None else list(_dyadic(x))


def as_data(e: Explanation) -> dict[str, Any]:
    """What JSON can hold."""
    return {
        "schema": SCHEMA,
        "instruction": e.instruction.name,
        "device": e.device,
        "sm": e.instruction.sm,
        "rule": {"text": rule_text(e.rule, e.instruction.k), "status": e.rule.status, "source": e.rule.source},
        "notes": list(e.notes),
        "steps": [_step_data(step) for step in e.steps],
        "type": e.type,
        "bits": bits_text(e.bits, e.type),
        "value": _number(e.value),
        "exact": _exact(e.exact),
        "nearest_bits": None if e.nearest is None else bits_text(e.nearest, e.type),
        "ieee_bits": None if e.ieee is None else bits_text(e.ieee, e.type),
        "error_ulp": None if e.error_ulp is None else _number(e.error_ulp),
        "ieee_error_ulp": None if e.ieee_error_ulp is None else _number(e.ieee_error_ulp),
    }


def _step_data(step: Step | Operation) -> dict[str, Any]:
    data: dict[str, Any] = {
        "title": step.title,
        "bits": bits_text(step.bits, step.type),
        "type": step.type,
        "value": _number(step.value),
    }
    if isinstance(step, Step):
        data |= {"accumulator": step.accumulator, "emax": step.emax, "unit": step.unit}
        data |= {"sum": _exact(step.total), "rounding": step.rounding, "terms": [_term_data(term) for term in step.terms]}
    return data


def _term_data(term: Term) -> dict[str, Any]:
    return {
        "k": term.k,
        "a": _number(term.a),
        "b": None if term.b is None else _number(term.b),
        "exact": _exact(term.exact),
        "exponent": term.exponent,
        "kept": _exact(term.kept),
        "dropped": _exact(term.dropped),
    }
