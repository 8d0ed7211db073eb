"""The scalar instructions against the real assembler: the registry has what ptxas accepts, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from isa.spec import Form, Instruction, by_base, find
from isa.spec.enumerate import forms_of, scalar_instructions
from isa.types import SCALAR_TYPES
from tests.reference.ptxas import PTXAS, REGISTERS, refused
from tests.test_instructions_registry import BASES

pytestmark = pytest.mark.skipif(PTXAS is None, reason="ptxas is not on the PATH")

TARGETS = ("75", "80", "86", "87", "88", "89", "90a", "100", "100a", "100f", "110a", "120", "120a")
"""ptxas 13.0 knows no older ones."""

BEYOND = {"testp.f32 p0, r1;": "reads a predicate that nothing wrote"}
"""What ptxas 13.0 accepts although it means nothing, and we refuse."""


def beyond(opcode: str) -> bool:
    return opcode in ("testp.f32", "testp.f64")


def operands_of(form: Form) -> str:
    """Registers for the operands of a form, in their order. ``lut`` is the one operand that must be a constant."""
    text = ""
    for number, operand in enumerate(o for o in form.operands if o.name not in form.instruction.hidden):
        text += "|" if operand.paired else ", " if number else ""
        # ptxas takes an 8-bit result of a bf16, and pairs of 4 bits, only in an 8-bit register.
        narrow = (form.name.endswith((".s8.bf16", ".u8.bf16")) and number == 0) or operand.type.name == "e2m1x2"
        register = "c" if narrow else REGISTERS[operand.type.bits]
        one = "0x1e" if operand.name == "lut" else f"{register}{number}"
        text += f"{{{', '.join([one] * operand.count)}}}" if operand.is_vector else one
    return text


def line_of(form: Form) -> str:
    return f"{form.name} {operands_of(form)};"


def all_forms() -> list[Form]:
    return [form for entry in scalar_instructions() for form in forms_of(entry)]


def exists(form: Form, target: str) -> bool:
    """Whether a target such as ``120a`` has a form."""
    entry = form.instruction
    return entry.sm <= int(target.rstrip("af")) and (not entry.targets or f"sm_{target}" in entry.targets)


@pytest.mark.parametrize("target", TARGETS)
def test_targets(target: str, tmp_path: Path) -> None:
    """ptxas accepts a form for exactly the targets that have it: from its instruction's ``sm`` on, or only its ``targets``."""
    forms = all_forms()
    assert len(forms) > 5000
    bad = refused([line_of(form) for form in forms], f"sm_{target}", tmp_path)
    wrong = [(line_of(f), bad.get(index)) for index, f in enumerate(forms) if (index in bad) == exists(f, target)]
    assert not wrong


def words_of(entry: Instruction) -> set[str]:
    fixed = {word for kind, word in entry.pattern.parts if kind == "word"}
    return fixed.union(*(slot.words for slot in entry.pattern.slots.values()))


def neighbours(form: Form, pool: set[str]) -> dict[str, str]:
    """Opcodes that differ from a form's in one word, with operands to try them with: one left out, replaced or added."""
    base, *words = form.name.split(".")
    out: dict[str, str] = {}
    operands = operands_of(form)
    for at, old in enumerate(words):
        rest = words[:at], words[at + 1 :]
        out[".".join([base, *rest[0], *rest[1]])] = operands
        for new in pool - {old}:
            if (new in SCALAR_TYPES) != (old in SCALAR_TYPES) or (new in words and new not in SCALAR_TYPES):
                continue
            if new in SCALAR_TYPES:
                letter = REGISTERS.get(SCALAR_TYPES[new].bits, "r")
                changed = [o.name for o in form.operands if o.type.name == old]
                shown = [o for o in form.operands if o.name not in form.instruction.hidden]
                if any(o.is_vector for o in form.operands):
                    continue
                pieces = operands.replace("|", ", |").split(", ")
                pieces = [letter + p.lstrip("|")[1:] if o.name in changed and o.name != "lut" else p
                          for o, p in zip(shown, pieces, strict=True)]  # fmt: skip
                out[".".join([base, *rest[0], new, *rest[1]])] = ", ".join(pieces).replace(", |", "|")
            else:
                out[".".join([base, *rest[0], new, *rest[1]])] = operands
    for new in pool - set(words):
        if new not in SCALAR_TYPES:
            out[".".join([base, new, *words])] = operands
    return out


MODIFIERS = {"rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi", "rs", "ftz", "sat", "satfinite", "relu", "NaN", "abs",
             "xorsign", "approx"}  # fmt: skip


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("base", BASES)
def test_nothing_near_is_missing(base: str, target: str, tmp_path: Path) -> None:
    """What ptxas accepts and differs in one word from a form that we have, we have too (or have a reason)."""
    entries = [entry for entry in scalar_instructions() if entry.pattern.base == base]
    pool = set(SCALAR_TYPES).union(MODIFIERS, *(words_of(entry) for entry in by_base(base)))
    known: set[str] = set()
    near: dict[str, str] = {}
    for entry in entries:
        for form in forms_of(entry):
            known.add(form.name)
            near |= neighbours(form, pool)
    lines = [f"{opcode} {operands};" for opcode, operands in near.items() if opcode not in known]
    bad = refused(lines, target, tmp_path)
    accepted = [line.split(" ")[0] for index, line in enumerate(lines) if index not in bad]
    assert [opcode for opcode in accepted if not find(opcode)[0] and not beyond(opcode)] == []


def test_reasons_still_hold(tmp_path: Path) -> None:
    """Once ptxas refuses what we list, the list is to be shortened."""
    assert not refused(list(BEYOND), "sm_90a", tmp_path)
    opcodes = [line.split(" ")[0] for line in BEYOND]
    assert all(beyond(opcode) and not find(opcode)[0] for opcode in opcodes)
