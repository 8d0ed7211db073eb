"""What of the PTX ISA is executed, and how each instruction is known: the support matrix.

The list of all instructions is ``ptx_isa.toml``; what recordings show is ``evidence.toml``, which ``python -m
gpu_ref.evidence`` writes from the recordings of the checkout. States, from best to least:

``hardware``
    every result of the recordings named was reproduced,
``published``
    a tensor-core rule from a published source,
``specification``
    follows the text of the PTX ISA; no recording of this form alone,
``hypothesis``
    the text leaves something open, and the answer is a guess,
``refused``
    not executed: a module that has it is refused by name.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from msgspec import Struct

from isa.spec.enumerate import SCALAR_CHAPTERS, forms_of
from isa.spec.registry import Form, Instruction, all_instructions, by_base

__all__ = [
    "ISA_VERSION", "STATES", "Entry", "State", "entries", "missing", "named", "public_instructions", "state_of_form",
    "state_of_instruction",
]  # fmt: skip

_FOLDER = Path(__file__).parent

_RECORDED_FORMS = ("beyond", "oob", "video", "video_simd")
"""The modules of :mod:`isa.instructions` whose forms tests/data/forms records."""
_RECORDED_SOURCE = "tests/data/forms: results of an H200, driver 580.159.04"

STATES = ("hardware", "published", "specification", "hypothesis", "refused")

_ISA = tomllib.loads((_FOLDER / "ptx_isa.toml").read_text())
ISA_VERSION: str = _ISA["version"]


class State(Struct, frozen=True):
    """One of :data:`STATES`, and where it is from."""

    name: str
    source: str


class Entry(Struct, frozen=True):
    """An instruction of the PTX ISA: its section, its name, and the registry's instructions that it names, if any."""

    section: str
    name: str
    instructions: tuple[Instruction, ...]

    @property
    def is_supported(self) -> bool:
        return bool(self.instructions)


def public_instructions() -> Iterator[Instruction]:
    """The registered instructions that PTX has: all but those that only programs are made of."""
    for entry in all_instructions():
        is_internal = entry.function is not None and entry.function.__module__.endswith(".internal")
        if not is_internal and "_" not in entry.pattern.base:
            yield entry


def _words(entry: Instruction) -> tuple[frozenset[str], frozenset[str]]:
    """The words that an opcode must have, and those that it can."""
    fixed = frozenset(word for kind, word in entry.pattern.parts if kind == "word")
    return fixed, fixed.union(*(slot.words for slot in entry.pattern.slots.values()))


_TELLING = {
    "cp": {"bulk", "tensor", "prefetch", "mbarrier", "reduce", "commit_group", "wait_group", "wait_all"},
    "add": {"cc"},
    "sub": {"cc"},
    "mad": {"cc"},
    "cvt": {"pack"},
    "bar": {"warp"},
    "barrier": {"cluster"},
    "red": {"async"},
    "st": {"async", "bulk"},
}
"""Words that make another instruction of one: ``cp.async`` is not ``cp.async.bulk``."""


def named(name: str) -> tuple[Instruction, ...]:
    """The registered instructions that a name of ``ptx_isa.toml`` stands for."""
    base, *wanted = name.split(".")
    found = []
    for entry in by_base(base):
        fixed, possible = _words(entry)
        if set(wanted) <= possible and not fixed & _TELLING.get(base, set()) - set(wanted):
            found.append(entry)
    return tuple(found)


def entries() -> Iterator[Entry]:
    """Every instruction of the PTX ISA, by section."""
    for section, names in _ISA["sections"].items():
        for name in names:
            yield Entry(section, name, named(name))


def missing() -> list[Entry]:
    """The instructions of the PTX ISA that are not executed."""
    return [entry for entry in entries() if not entry.is_supported]


# ----------------------------------------------------------------------------------------------------------------- states


class _Evidence(Struct, frozen=True):
    scalar_sm: int
    scalar_source: str
    kernels_source: str
    opcodes: frozenset[frozenset[str]]


@cache
def _evidence() -> _Evidence:
    data = tomllib.loads((_FOLDER / "evidence.toml").read_text())
    kernels = data["kernels"]
    opcodes = frozenset(frozenset(opcode.split(".")) for opcode in kernels["opcodes"])
    return _Evidence(data["scalar"]["sm"], data["scalar"]["source"], kernels["source"], opcodes)


def _chapter(entry: Instruction) -> str:
    return entry.function.__module__.rpartition(".")[2] if entry.function else ""


def state_of_form(form: Form) -> State:
    """How a form that is no matrix instruction is known (those have :mod:`isa.tensor.rules`)."""
    entry, evidence = form.instruction, _evidence()
    if _chapter(entry) in SCALAR_CHAPTERS:
        if entry.sm <= evidence.scalar_sm and not entry.targets:
            return State("hardware", evidence.scalar_source)
        if "rs" in form.name.split("."):
            return State("hypothesis", "PTX ISA; how random bits meet subnormal results, and pairs of operands, is a guess")
        return State("specification", f"PTX ISA {entry.section}; no hardware of sm_{entry.sm} was recorded")
    if _chapter(entry) in _RECORDED_FORMS:
        return State("hardware", _RECORDED_SOURCE)
    if frozenset(form.name.split(".")) in evidence.opcodes:
        return State("hardware", evidence.kernels_source)
    return State("specification", f"PTX ISA {entry.section}; no recording of this form alone")


def state_of_instruction(entry: Instruction) -> State:
    """How an instruction is known: the state of its forms where they agree; for others, whether recorded kernels use it."""
    evidence = _evidence()
    if _chapter(entry) in SCALAR_CHAPTERS:
        return state_of_form(next(forms_of(entry)))
    if _chapter(entry) in _RECORDED_FORMS:
        return State("hardware", _RECORDED_SOURCE)
    if _chapter(entry) == "scaled_matrix":
        return State("published", "the rules of sm_120 in isa/tensor/rules.py; tcsim isa show prints them")
    count = sum(_matches(entry, opcode) for opcode in evidence.opcodes)
    if count:
        return State("hardware", f"{count} of its forms in {evidence.kernels_source}")
    return State("specification", f"PTX ISA {entry.section}; in no recorded kernel")


def _matches(entry: Instruction, opcode: frozenset[str]) -> bool:
    if entry.pattern.base not in opcode:
        return False
    fixed, possible = _words(entry)
    rest = opcode - {entry.pattern.base}
    return fixed <= rest and rest <= possible
