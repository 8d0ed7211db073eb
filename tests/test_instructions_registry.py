"""The scalar instructions as the registry lists them: documented, classified, and found by their own names."""

from __future__ import annotations

import os
import random
import re

import pytest

import isa.instructions  # noqa: F401  (fills the registry)
from isa.spec import Form, Instruction, find
from isa.spec.enumerate import forms_of, scalar_instructions

ALL_FORMS = bool(os.environ.get("TCSIM_ALL_FORMS"))
"""Test every form instead of a covering choice; compiling them all takes about half an hour."""


def chosen_forms(base: str) -> list[Form]:
    """Forms of a base opcode such as ``add`` in which every instruction occurs, and every value of every slot (for ``cvt``, of
    every slot of every function). With TCSIM_ALL_FORMS all of them."""
    forms = [form for entry in scalar_instructions() if entry.pattern.base == base for form in forms_of(entry)]
    if ALL_FORMS:
        return forms
    random.Random(base).shuffle(forms)
    parts = [_parts(form) for form in forms]
    missing = set().union(*parts)
    chosen: list[Form] = []
    while missing:
        best = max(range(len(forms)), key=lambda index: len(missing & parts[index]))
        chosen.append(forms[best])
        missing -= parts[best]
    return chosen


def _parts(form: Form) -> set[tuple[object, ...]]:
    function = form.instruction.function if form.instruction.pattern.base == "cvt" else None
    return {(function, *pair) for pair in form.params.items()} | {(form.instruction,)}


BASES = sorted({entry.pattern.base for entry in scalar_instructions()})


def identifier(entry: Instruction) -> str:
    return entry.pattern.text.replace(" ", "_")


@pytest.mark.parametrize("entry", scalar_instructions(), ids=identifier)
def test_documented_and_classified(entry: Instruction) -> None:
    assert re.fullmatch(r"9\.7\.[1-9]\.\d+", entry.section)
    assert re.match(r"\S.*\S", entry.note) and entry.note.endswith(".")
    assert 20 <= entry.sm <= 100
    assert all(re.fullmatch(r"sm_\d+[af]", target) for target in entry.targets)
    assert all(re.fullmatch(r"[a-z0-9.]+", entry.timing_class(form.params)) for form in forms_of(entry))


@pytest.mark.parametrize("entry", scalar_instructions(), ids=identifier)
def test_forms_are_found_by_name(entry: Instruction) -> None:
    """The name of a form finds it, with the same parameters; other forms of that name differ in their operands."""
    for form in forms_of(entry):
        found, reason = find(form.name)
        assert [f.params for f in found if f.instruction is entry] == [form.params], reason
        shapes = [tuple((o.name, o.type.name) for o in f.operands) for f in found]
        assert len(set(shapes)) == len(shapes), form.name


@pytest.mark.parametrize("opcode", ["set.eq.f32.f16", "cvt.rn.f32.f16", "cvt.rn.s32.f32", "cvt.rni.f32.s32", "slct.s32.b8"])
def test_types_come_in_order(opcode: str) -> None:
    """A form with the same two types the other way round does not count."""
    assert find(opcode)[0] == []


def test_the_two_types_of_cvt_are_not_confused() -> None:
    for opcode in (
        "cvt.f16.bf16",
        "cvt.bf16.f16",
        "cvt.rn.f32.bf16",
        "cvt.rn.bf16.f32",
        "cvt.rn.f16.f32",
        "cvt.f32.f16",
    ):
        assert [form.name for form in find(opcode)[0]] == [opcode]


def test_what_is_not_allowed_says_why() -> None:
    for opcode, word in {
        "add.sat.u32": ".sat",
        "setp.lt.b32": "equality",
        "setp.lo.s32": "unsigned",
        "setp.equ.u32": "floating-point",
        "cvt.sat.s64.s32": "changes nothing",
        "set.eq.ftz.bf16.f32": ".ftz",
        "slct.ftz.f32.s32": "selector",
        "min.ftz.bf16": ".ftz",
    }.items():
        forms, reason = find(opcode)
        assert not forms and word in reason and "PTX ISA" in reason, (opcode, reason)
