"""Which functions a kernel may call: found in the text, before anything is bound.

An indirect call may reach every function whose address the module takes and whose parameters are those of the call's prototype.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from isa.errors import PtxError, Unsupported
from isa.instructions.control import HOST_FUNCTIONS
from isa.lower.scopes import variable_bytes
from isa.program import FUNCTION_ADDRESSES, FUNCTION_SPACING
from isa.ptx import ast

__all__ = [
    *("CallGraph", "call_graph", "call_parts", "function_addresses", "is_call", "missing_functions", "named", "signature"),
    "walk",
]

Signature = tuple[tuple[int, ...], tuple[int, ...]]

_WORD = re.compile(r"[A-Za-z_$%][\w$]*")


@dataclass(slots=True)
class CallGraph:
    """``functions``: those with a body that the kernel may reach, in the order of the text. ``reach``: the names of what each
    of them, and the kernel, may lead to by calls. ``by_address``: those that indirect calls may reach. ``numbers``: position
    of every function of the module in the table of function addresses. ``bodies``: every function by its names.
    ``indirect``: whether there are indirect calls.
    """

    functions: list[ast.Function] = field(default_factory=list)
    reach: dict[str, set[str]] = field(default_factory=dict)
    by_address: set[str] = field(default_factory=set)
    numbers: dict[str, int] = field(default_factory=dict)
    bodies: dict[str, ast.Function] = field(default_factory=dict)
    indirect: bool = False


def walk(block: ast.Block) -> Iterator[ast.Statement]:
    """Every statement of a body, nested blocks in line."""
    stack = [iter(block.statements)]
    while stack:
        for statement in stack[-1]:
            yield statement
            if isinstance(statement, ast.Block):
                stack.append(iter(statement.statements))
                break
        else:
            stack.pop()


def is_call(statement: ast.Statement) -> bool:
    """Whether a statement is a ``call``."""
    return isinstance(statement, ast.Instruction) and statement.opcode.partition(".")[0] == "call"


def call_parts(
    operands: tuple[ast.Operand, ...],
) -> tuple[tuple[ast.Operand, ...], str, tuple[ast.Operand, ...], str | None] | None:
    """The operands of a ``call``: (return values, function or register, arguments, prototype or targets); None if they are not
    those of a call (PTX ISA 9.7.12.5)."""
    rest = list(operands)
    returns: tuple[ast.Operand, ...] = ()
    arguments: tuple[ast.Operand, ...] = ()
    prototype = None
    if rest and isinstance(rest[0], ast.Group):
        returns = rest.pop(0).elements  # type: ignore[union-attr]
    if not rest or not isinstance(rest[0], ast.Name):
        return None
    target = rest.pop(0).name  # type: ignore[union-attr]
    if rest and isinstance(rest[0], ast.Group):
        arguments = rest.pop(0).elements  # type: ignore[union-attr]
    if rest and isinstance(rest[0], ast.Name):
        prototype = rest.pop(0).name  # type: ignore[union-attr]
    return None if rest else (returns, target, arguments, prototype)


def named(module: ast.Module) -> dict[str, ast.Function]:
    """The functions with a body by name, those that an ``.alias`` gives another name included (PTX ISA 11.6.5)."""
    found = {f.name: f for f in module.functions if f.kind == "func" and f.body is not None}
    for directive in module.directives:
        if directive.name == "alias" and directive.arguments[1] in found:
            found[directive.arguments[0]] = found[directive.arguments[1]]
    return found


def function_addresses(module: ast.Module) -> dict[str, int]:
    """The address of every function with a body: not memory, only a number that an indirect call takes."""
    numbers = _numbers(named(module))
    return {name: FUNCTION_ADDRESSES + FUNCTION_SPACING * number for name, number in numbers.items()}


def _numbers(bodies: dict[str, ast.Function]) -> dict[str, int]:
    own = {f.name: 1 for f in bodies.values()}
    places = {name: number for number, name in enumerate(own, 1)}
    return {name: places[f.name] for name, f in bodies.items()}


def signature(returns: tuple[ast.Variable, ...], params: tuple[ast.Variable, ...]) -> Signature:
    """The bytes of each return value and each parameter."""
    return tuple(variable_bytes(v) for v in returns), tuple(variable_bytes(v) for v in params)


def missing_functions(function: ast.Function, bodies: dict[str, ast.Function]) -> list[Unsupported]:
    """Direct calls of functions that have no body here and are none that the machine itself provides."""
    found: dict[str, Unsupported] = {}
    for statement in walk(function.body) if function.body is not None else ():
        if isinstance(statement, ast.Instruction) and is_call(statement):
            parts = call_parts(statement.operands)
            if parts is not None and parts[3] is None and parts[1] not in bodies and parts[1] not in HOST_FUNCTIONS:
                why = "the module has no body for this function, and tcsim does not provide it; link it into the module"
                found.setdefault(parts[1], Unsupported(f"call of {parts[1]}", why, statement.line, function.name))
    return list(found.values())


def call_graph(module: ast.Module, kernel: ast.Function) -> CallGraph:
    """What a kernel may call. Empty, at no cost, for one without calls."""
    graph = CallGraph()
    assert kernel.body is not None
    if not any(is_call(statement) for statement in walk(kernel.body)):
        return graph
    graph.bodies = named(module)
    graph.numbers = _numbers(graph.bodies)
    indirect = _Indirect(module, graph.bodies)
    direct: dict[str, set[str]] = {}
    work = [kernel]
    while work:
        function = work.pop()
        if function.name in direct:
            continue
        callees = direct[function.name] = set()
        graph.indirect = graph.indirect or _calls_indirectly(function)
        for callee, by_address in _callees(function, graph.bodies, indirect):
            callees.add(callee.name)
            work.append(callee)
            if by_address:
                graph.by_address.add(callee.name)
    graph.functions = [f for f in module.functions if f.name in direct and f.body is not None and f.kind == "func"]
    for name in direct:
        seen: set[str] = set()
        stack = list(direct[name])
        while stack:
            callee_name = stack.pop()
            if callee_name not in seen:
                seen.add(callee_name)
                stack += direct[callee_name]
        graph.reach[name] = seen
    return graph


def _calls_indirectly(function: ast.Function) -> bool:
    assert function.body is not None
    calls = (s for s in walk(function.body) if isinstance(s, ast.Instruction) and is_call(s))
    return any(parts is not None and parts[3] is not None for parts in (call_parts(s.operands) for s in calls))


def _callees(
    function: ast.Function, bodies: dict[str, ast.Function], indirect: _Indirect
) -> Iterator[tuple[ast.Function, bool]]:
    assert function.body is not None
    lists = {s.label: s for s in walk(function.body) if isinstance(s, ast.Directive) and s.label is not None}
    for statement in walk(function.body):
        if not isinstance(statement, ast.Instruction) or not is_call(statement):
            continue
        parts = call_parts(statement.operands)
        if parts is None:
            raise PtxError("call: expected (returns), function, (arguments)", statement.line, function.name)
        _, target, _, prototype = parts
        if target in bodies and prototype is None:
            yield bodies[target], False
        elif prototype is not None:
            described = lists.get(prototype)
            if described is None:
                raise PtxError(f"call: {prototype} is no .callprototype or .calltargets", statement.line, function.name)
            if described.name == "calltargets":
                yield from ((bodies[name], True) for name in described.arguments if name in bodies)
            else:
                wanted = signature(described.returns, described.params)
                yield from ((f, True) for f in indirect.functions() if signature(f.returns, f.params) == wanted)


class _Indirect:
    """The functions whose address a module takes, looked for when first asked."""

    def __init__(self, module: ast.Module, bodies: dict[str, ast.Function]) -> None:
        self.module, self.bodies = module, bodies
        self.found: list[ast.Function] | None = None

    def functions(self) -> list[ast.Function]:
        if self.found is None:
            names: set[str] = set()
            for variable in self.module.variables:
                if variable.init is not None:
                    names.update(_WORD.findall(variable.init.text))
            for function in self.module.functions:
                for statement in walk(function.body) if function.body is not None else ():
                    if isinstance(statement, ast.Instruction) and not is_call(statement):
                        names.update(o.name for o in statement.operands if isinstance(o, ast.Name | ast.Offset))
            taken = {self.bodies[name].name: self.bodies[name] for name in names if name in self.bodies}
            self.found = sorted(taken.values(), key=lambda f: f.line)
        return self.found
