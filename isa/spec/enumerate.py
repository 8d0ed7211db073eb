"""All forms that the registry's templates stand for, one by one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from isa.spec.registry import Form, Instruction, all_instructions, make_form

__all__ = ["SCALAR_CHAPTERS", "forms_of", "scalar_forms", "scalar_instructions"]

SCALAR_CHAPTERS = (
    "integer",
    "extended",
    "floating",
    "mufu",
    "half",
    "mixed",
    "comparison",
    "logic",
    "convert",
    "convert_float",
    "convert_packed",
    "convert_small",
)
"""The modules of :mod:`isa.instructions` whose instructions compute a lane's result from that lane's operands alone."""


def scalar_instructions(*further: str) -> list[Instruction]:
    """Every instruction registered in a module of :data:`SCALAR_CHAPTERS`, or of these further ones."""
    modules = {f"isa.instructions.{chapter}" for chapter in (*SCALAR_CHAPTERS, *further)}
    return [entry for entry in all_instructions() if entry.function and entry.function.__module__ in modules]


def forms_of(entry: Instruction) -> Iterator[Form]:
    """All forms of an instruction: every combination of its slots that it allows."""
    optional = {name for kind, name in entry.pattern.parts if kind == "opt"}
    choices: list[list[str | bool]] = []
    for name, slot in entry.pattern.slots.items():
        words: list[str | bool] = [True] if slot.is_flag else list(slot.words)
        choices.append([False if slot.is_flag else "", *words] if name in optional else words)
    for values in product(*choices):
        params = dict(zip(entry.pattern.slots, values, strict=True))
        if entry.valid is None or entry.valid(params) is None:
            yield make_form(entry, params)


def scalar_forms(sm: int) -> list[Form]:
    """Every form of :func:`scalar_instructions` that an architecture (10 * major + minor) has."""
    return [form for entry in scalar_instructions() if entry.sm <= sm for form in forms_of(entry)]
