"""Specialise an instruction's Python function for chosen modifiers.

The body of an instruction branches on its modifiers (``if rnd == "rz": ...``). Here those keyword arguments become constants in
the function's syntax tree, branches that cannot be taken disappear, and what is left is a small function of the operands alone,
as source text. numba never sees the other branches, so they may even have other types, and it compiles in a fraction of
the time.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import textwrap
import types as pytypes
from collections.abc import Callable, Iterator, Mapping
from typing import Any

__all__ = ["Specialized", "specialize"]


class Specialized:
    """The result: ``source`` defines a function ``body``; ``imports`` are the import lines it needs; ``arguments`` its
    positional arguments in order."""

    def __init__(self, source: str, imports: tuple[str, ...], arguments: tuple[str, ...]) -> None:
        self.source, self.imports, self.arguments = source, imports, arguments


def specialize(function: Callable[..., Any], constants: Mapping[str, Any]) -> Specialized:
    """Source of ``function`` with its keyword-only arguments bound to ``constants`` and dead branches removed. A named tuple
    becomes a module-level constant instead.

    Raises TypeError if a keyword-only argument has no constant.
    """
    tree = _parsed(function)
    keyword_only = {argument.arg for argument in tree.args.kwonlyargs}
    missing = keyword_only - set(constants)
    if missing:
        raise TypeError(f"{function.__module__}.{function.__name__}: no value for {sorted(missing)}")
    bound = {name: value for name, value in constants.items() if name in keyword_only}
    records = {name: bound.pop(name) for name in list(bound) if hasattr(bound[name], "_fields")}
    folder = _Folder(bound, function.__globals__)
    body = folder.block(tree.body[1:] if ast.get_docstring(tree) else tree.body)
    arguments = tuple(argument.arg for argument in tree.args.args)
    text = ast.unparse(ast.fix_missing_locations(ast.Module(body or [ast.Pass()], [])))
    source = f"def body({', '.join(arguments)}):\n{textwrap.indent(text, '    ')}"
    imports = _imports(source, function, folder.aliases, records)
    return Specialized(source, imports + tuple(_record_lines(records)), arguments)


def _parsed(function: Callable[..., Any]) -> ast.FunctionDef:
    tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    if not isinstance(tree, ast.FunctionDef):
        raise TypeError(f"{function!r} is not a plain function")
    return tree


_UNKNOWN = object()


class _Folder(ast.NodeTransformer):
    """Replaces constant names and folds what becomes constant."""

    def __init__(self, constants: Mapping[str, Any], names: Mapping[str, Any]) -> None:
        self.constants, self.names = constants, names
        self.aliases: dict[str, Any] = {}

    def block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for statement in statements:
            done = self.visit(statement)
            out.extend(done if isinstance(done, list) else [done] if done is not None else [])
            if out and isinstance(out[-1], ast.Return):
                break  # what follows an unconditional return is unreachable
        return out

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if isinstance(node.ctx, ast.Load) and node.id in self.constants:
            return _as_node(self.constants[node.id])
        return node

    def visit_If(self, node: ast.If) -> Any:
        test = self.visit(node.test)
        value = _constant(test)
        if value is not _UNKNOWN:
            return self.block(node.body if value else node.orelse)
        return ast.If(test, self.block(node.body) or [ast.Pass()], self.block(node.orelse))

    def visit_For(self, node: ast.For) -> Any:
        return ast.For(node.target, self.visit(node.iter), self.block(node.body), [], None)

    def visit_While(self, node: ast.While) -> Any:
        return ast.While(self.visit(node.test), self.block(node.body), [])

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        test = self.visit(node.test)
        value = _constant(test)
        if value is not _UNKNOWN:
            chosen: ast.expr = self.visit(node.body if value else node.orelse)
            return chosen
        return ast.IfExp(test, self.visit(node.body), self.visit(node.orelse))

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        stops_at = isinstance(node.op, ast.Or)
        rest: list[ast.expr] = []
        for item in node.values:
            part = self.visit(item)
            value = _constant(part)
            if value is _UNKNOWN:
                rest.append(part)
            elif bool(value) == stops_at and not rest:
                return ast.Constant(stops_at)
            elif bool(value) == stops_at:
                rest.append(part)
                break
        if not rest:
            return ast.Constant(not stops_at)
        return rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        operand = self.visit(node.operand)
        value = _constant(operand)
        if isinstance(node.op, ast.Not) and value is not _UNKNOWN:
            return ast.Constant(not value)
        return ast.UnaryOp(node.op, operand)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        left = self.visit(node.left)
        rights = [self.visit(item) for item in node.comparators]
        values = [_constant(item) for item in (left, *rights)]
        if _UNKNOWN not in values:
            code = ast.Expression(ast.Compare(left, node.ops, rights))
            return ast.Constant(eval(compile(ast.fix_missing_locations(code), "<fold>", "eval")))
        return ast.Compare(left, node.ops, rights)

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        left, right = self.visit(node.left), self.visit(node.right)
        if _constant(left) is not _UNKNOWN and _constant(right) is not _UNKNOWN:
            code = ast.Expression(ast.BinOp(left, node.op, right))
            return ast.Constant(eval(compile(ast.fix_missing_locations(code), "<fold>", "eval")))
        return ast.BinOp(left, node.op, right)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        """``TABLE[modifier]`` of a module-level dict: the entry itself, a function or a number."""
        index = self.visit(node.slice)
        value = _constant(index)
        if value is not _UNKNOWN and isinstance(node.value, ast.Name):
            table = self.names.get(node.value.id)
            if isinstance(table, Mapping):
                entry = table[value]
                if isinstance(entry, int | float | str | bool):
                    return _as_node(entry)
                self.aliases[entry.__name__] = entry
                return ast.Name(entry.__name__, ast.Load())
        return ast.Subscript(self.visit(node.value), index, node.ctx)


def _as_node(value: Any) -> ast.expr:
    if isinstance(value, tuple):
        return ast.Tuple([_as_node(item) for item in value], ast.Load())
    return ast.Constant(value)


def _constant(node: ast.expr) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Tuple):
        values = tuple(_constant(item) for item in node.elts)
        return _UNKNOWN if _UNKNOWN in values else values
    return _UNKNOWN


def _record_lines(records: Mapping[str, Any]) -> Iterator[str]:
    """Module-level definitions of constants that are named tuples, with the imports of their classes."""
    classes: set[type] = set()

    def collect(value: Any) -> None:
        classes.add(type(value))
        for part in value:
            if hasattr(part, "_fields"):
                collect(part)

    for value in records.values():
        collect(value)
    for each in sorted(classes, key=lambda c: c.__name__):
        yield f"from {each.__module__} import {each.__name__}"
    for name, value in records.items():
        yield f"{name} = {value!r}"


def _imports(
    source: str, function: Callable[..., Any], aliases: Mapping[str, Any], records: Mapping[str, Any]
) -> tuple[str, ...]:
    """Import lines (or assignments, for constants) of the module-level names that the source still uses."""
    tree = ast.parse(source)
    names = function.__globals__
    bound = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    bound |= {a.arg for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) for a in n.args.args}
    used = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    lines: list[str] = []
    for name in sorted(used - bound - set(records)):
        if name in aliases:
            lines.append(f"from {aliases[name].__module__} import {name}")
        elif name in names:
            lines.append(_import_line(name, names[name], function.__module__))
        elif not hasattr(builtins, name):
            raise NameError(f"{function.__module__}.{function.__name__} uses the unknown name {name!r}")
    return tuple(lines)


def _import_line(name: str, value: Any, module: str) -> str:
    if isinstance(value, pytypes.ModuleType):
        return f"import {value.__name__} as {name}"
    if type(value).__module__ == "numpy":
        return f"{name} = np.{type(value).__name__}({value.item()!r})"
    if isinstance(value, int | float | str | bool):
        return f"{name} = {value!r}"
    if callable(value):
        return f"from {module} import {name}"
    raise TypeError(f"{module}: {name!r} is a {type(value).__name__}, which cannot be written into a kernel")
