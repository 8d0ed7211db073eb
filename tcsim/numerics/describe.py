"""What is known about a tensor-core instruction, as lines of text: rule and provenance for each architecture, machine code."""

from __future__ import annotations

import tomllib
import zipfile
from functools import cache
from pathlib import Path

import isa.tensor
from isa.spec.registry import Form
from isa.spec.support import state_of_form
from isa.tensor import MmaForm, NoFormError, NoRuleError, Rule
from isa.tensor.rules import ARCHITECTURES
from tcsim.numerics.explain_text import rule_text
from tcsim.numerics.instructions import TensorInstruction, find_instruction, instruction_of

__all__ = ["KNOWN", "arithmetic_lines", "how_known", "machine_code", "status_letters"]

_RECORDINGS = Path(isa.__file__).parents[1] / "traces"


@cache
def _table() -> dict[str, dict[str, str]]:
    path = Path(isa.tensor.__file__).parent / "machine_code.toml"
    table = tomllib.loads(path.read_text())
    del table["source"]
    return table


def machine_code(form: MmaForm) -> dict[tuple[int, ...], str]:
    """What ptxas 13.0 makes of a dense form, by the architectures that have it alike; empty for other forms."""
    rows = _table().get(str(form), {})
    return {tuple(int(sm) for sm in sms.split()): code for sms, code in rows.items()}


def _rules(form: MmaForm | str) -> dict[int, TensorInstruction]:
    """The instruction on each architecture that has it."""
    found = {}
    for sm in ARCHITECTURES:
        try:
            if isinstance(form, str):
                found[sm] = find_instruction(form, f"sm_{sm}")
            elif sm >= form.sm:
                found[sm] = instruction_of(form, sm)
        except (NoFormError, NoRuleError):
            continue
    return found


def arithmetic_lines(form: MmaForm | str) -> list[str]:
    """The rule of each architecture with how it is known; the same ones together. ``form`` may be the name of a ``wgmma``."""
    groups: dict[tuple[str, str, str], list[int]] = {}
    for sm, instruction in _rules(form).items():
        rule = instruction.rule
        groups.setdefault((_rule_text(rule, instruction), rule.status, rule.source), []).append(sm)
    lines = []
    for (text, status, source), sms in groups.items():
        known = {"verified": "verified on hardware", "published": "published, not checked here"}.get(status, status)
        lines += [f"{_targets(sms)}: {text}", f"    {known}: {source}"]
    return lines


def _rule_text(rule: Rule, instruction: TensorInstruction) -> str:
    if rule.method == "integer":
        return "exact integer sum, " + ("clamped once to s32" if instruction.satfinite else "modulo 2^32")
    if rule.method == "fma":
        return f"a chain of IEEE f64 fused multiply-adds (.{instruction.rounding}), C first, k ascending"
    return rule_text(rule, instruction.k)


def _targets(sms: list[int]) -> str:
    return ", ".join(f"sm_{sm}" for sm in sms)


def status_letters(form: MmaForm) -> list[str]:
    """For each architecture of the table: V verified, P published, H hypothesis, ``-`` where there is no such form."""
    rules = _rules(form)
    return [rules[sm].rule.status[0].upper() if sm in rules else "-" for sm in ARCHITECTURES]


# --------------------------------------------------------------------------------------------- how a scalar form is known


@cache
def _recorded() -> dict[frozenset[str], str]:
    """What the recordings that come with the checkout say about every operand of a form; an installed package has none."""
    found: dict[frozenset[str], str] = {}
    for folder in ("mufu", "scalar"):
        for name in _arrays(f"{folder}/hashes.npz"):
            if " " not in name:
                what = f"traces/{folder}, hashes of an H200's results for every input there is"
                found[_words(name)] = f"verified on hardware: {what}"
    return found


def _arrays(path: str) -> list[str]:
    file = _RECORDINGS / path
    if not file.is_file():
        return []
    with zipfile.ZipFile(file) as archive:
        return [name.removesuffix(".npy") for name in archive.namelist()]


def _words(opcode: str) -> frozenset[str]:
    """The opcode's words; ``.rn`` is what is done where nothing is said."""
    return frozenset(opcode.split(".")) - {"rn"}


KNOWN = {
    "hardware": "verified on hardware: ",
    "published": "published, not checked here: ",
    "specification": "by specification: ",
    "hypothesis": "hypothesis: ",
}
"""How the states of :mod:`isa.spec.support` begin a line."""


def how_known(found: Form) -> str:
    """How it is known what a form that is no matrix instruction returns, as a line: its state, and the source."""
    state = state_of_form(found)
    return _recorded().get(_words(found.name), KNOWN[state.name] + state.source)
