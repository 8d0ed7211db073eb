"""Comparisons of function addresses that machine code and memory would decide differently.

What ptxas makes of a function's address depends on the module: its place in the code, a number, or an address that is settled
when the code is loaded (:mod:`isa.sass.code_addresses`). Calls take any of these here; but in the first two cases an address
that code takes looks like any other immediate, and is not the one that a variable is initialised with.
"""

from __future__ import annotations

import re
from collections.abc import Container

from isa.errors import Unsupported
from isa.lower.callgraph import call_graph, call_parts, is_call, named, walk
from isa.ptx import ast

__all__ = ["compared_functions"]

_COPIES = ("mov", "selp", "cvta")
_WORD = re.compile(r"[A-Za-z_$%][\w$]*")
_WHY = "it compares addresses of functions, which machine code may spell otherwise than variables that hold them"


def compared_functions(module: ast.Module, kernel: ast.Function) -> list[Unsupported]:
    """Comparisons, in a kernel and the functions it may call, of what may be the address of a function (but not with null), if
    variables hold such addresses, too. None in code that is built for debugging, where all addresses are alike."""
    bodies = named(module).keys()
    if not bodies or "debug" in module.target_options or not _in_variables(module, bodies):
        return []
    functions = (kernel, *call_graph(module, kernel).functions)
    return [found for function in functions for found in _compared(function, bodies, kernel.name)]


def _in_variables(module: ast.Module, bodies: Container[str]) -> bool:
    return any(v.init is not None and any(word in bodies for word in _WORD.findall(v.init.text)) for v in module.variables)


def _compared(function: ast.Function, bodies: Container[str], kernel: str) -> list[Unsupported]:
    assert function.body is not None
    instructions = [s for s in walk(function.body) if isinstance(s, ast.Instruction)]
    pointers: set[str] = set()
    for node in instructions:
        parts = call_parts(node.operands) if is_call(node) else None
        if parts is not None and parts[3] is not None:
            pointers.add(parts[1])
    size = -1
    while size != len(pointers):
        size = len(pointers)
        for node in instructions:
            names = _names(node)
            if node.opcode.startswith(_COPIES) and names and any(n in bodies or n in pointers for n in names[1:]):
                pointers.add(names[0])
    return [
        Unsupported(node.opcode, _WHY, node.line, kernel)
        for node in instructions
        if node.opcode.startswith("set") and len(_names(node)) > 2 and not pointers.isdisjoint(_names(node)[1:])
    ]


def _names(node: ast.Instruction) -> list[str]:
    return [operand.name for operand in node.operands if isinstance(operand, ast.Name)]
