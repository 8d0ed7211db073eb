"""What of a function no registered form covers: found without binding operands, when a module is loaded."""

from __future__ import annotations

import re
from functools import cache

from isa.errors import Unsupported
from isa.lower.callgraph import call_graph, is_call, missing_functions, named, walk
from isa.ptx import ast
from isa.spec.registry import find
from isa.tensor.forms import NoFormError

__all__ = ["unsupported_in"]


def unsupported_in(function: ast.Function, module: ast.Module | None = None) -> list[Unsupported]:
    """Everything in a function that no registered form covers, without binding operands (fast: once per distinct opcode). With
    its module, also what is in the functions that it may call, and calls of functions that have no body."""
    found: list[Unsupported] = []
    if function.body is None:
        return found
    functions = [function]
    if module is not None and module.address_size == 32:
        found.append(Unsupported(".address_size 32", "tcsim has 64-bit addresses only; compile with -m64", 1, function.name))
    if module is not None and any(is_call(statement) for statement in walk(function.body)):
        functions += call_graph(module, function).functions
        bodies = named(module)
        found += [item for each in functions for item in missing_functions(each, bodies)]
    for each in functions:
        assert each.body is not None
        for statement in walk(each.body):
            if isinstance(statement, ast.Instruction):
                forms, reason = find(statement.opcode)
                if forms and module is not None:
                    reason = _wrong_target(statement.opcode, module.target)
                if reason:
                    found.append(Unsupported(statement.opcode, reason, statement.line, each.name))
    return found


@cache
def _wrong_target(opcode: str, target: str) -> str:
    """Why a module for a target cannot have an opcode, which there is; "" if it can."""
    forms, _ = find(opcode)
    entry = forms[0].instruction
    if target in entry.targets:
        return ""
    if entry.targets:
        where = f"exists on {' and '.join(entry.targets)} only"
        return f"{where}, and the module is for {target} (PTX ISA {entry.section}). Try compiling for {entry.targets[0]}"
    number = re.match(r"sm_(\d+)", target)
    if number is None:
        return ""
    sm, first = int(number[1]), min(form.instruction.sm for form in forms)
    if sm < first:
        needs = f"needs sm_{first} or later, and the module is for {target} (PTX ISA {entry.section})"
        return f"{needs}. Try compiling for sm_{first}"
    try:  # a matrix instruction may be younger than others of its name
        if entry.arch_rule is not None:
            entry.arch_rule(forms[0].params, sm)
    except NoFormError as problem:
        return str(problem)
    return ""
