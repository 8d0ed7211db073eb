"""How it is known what a kernel computes: the states of its instructions, counted."""

from __future__ import annotations

from collections.abc import Iterator

import isa.instructions  # noqa: F401  (fills the registry)
from isa.errors import TcsimError
from isa.lower.callgraph import call_graph, walk
from isa.ptx import ast
from isa.spec.registry import find
from isa.spec.support import state_of_form
from isa.tensor import Rule
from tcsim.numerics.describe import KNOWN
from tcsim.numerics.instructions import find_form_by_name, instruction_of

__all__ = ["badge"]

_STATES = {"verified": "hardware", "published": "published", "hypothesis": "hypothesis"}
_NAMED = 3  # opcodes of each state other than the first


def badge(module: ast.Module, kernel: str, sm: int) -> list[str]:
    """Lines that say of the distinct instructions of a kernel, and of all that it may call, how it is known what they do on an
    architecture (10 * major + minor): how many are verified on hardware, and which are not.

    Scalar instructions and memory accesses were verified on an H200, and are taken to be alike everywhere; matrix instructions
    have a rule for each architecture.
    """
    states: dict[str, list[str]] = {state: [] for state in KNOWN}
    for opcode in dict.fromkeys(_opcodes(module, kernel)):
        state = _state(opcode, sm)
        if state:
            states[state].append(opcode)
    total = sum(map(len, states.values()))
    lines = [f"how this is known: {len(states['hardware'])} of {total} instructions are verified on hardware"]
    for state, opcodes in states.items():
        if state != "hardware" and opcodes:
            more = f" and {len(opcodes) - _NAMED} more" if len(opcodes) > _NAMED else ""
            lines.append(f"  {KNOWN[state]}{', '.join(opcodes[:_NAMED])}{more}")
    return lines


def _opcodes(module: ast.Module, kernel: str) -> Iterator[str]:
    entry = next(f for f in module.functions if f.name == kernel and f.kind == "entry" and f.body)
    for function in (entry, *call_graph(module, entry).functions):
        assert function.body is not None
        yield from (s.opcode for s in walk(function.body) if isinstance(s, ast.Instruction))


def _state(opcode: str, sm: int) -> str:
    """Of a matrix instruction that of its rule."""
    form = find_form_by_name(opcode)
    if form is not None:
        try:
            rule: Rule = instruction_of(form, sm).rule
        except TcsimError:
            return "hypothesis"
        return _STATES[rule.status]
    forms, _ = find(opcode)
    return state_of_form(forms[0]).name if forms else ""
