"""Addresses as an expression over the lane: ``(lane % 8) * 80 + (lane // 8) * 16``.

The arithmetic is Python's on integers (``//`` and ``%`` round down), which for what is not negative is C's. Nothing is
evaluated but what this module names.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping

from tcsim.errors import TcsimError

__all__ = ["Expression", "ExpressionError"]

_LONGEST = 2000
_DEEPEST = 100
_LARGEST = 1 << 63
_MOST_SHIFT = 63
_SHOWN = 80
_BUILT_IN = ("lane", "warp")

_BINARY: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}
_UNARY: dict[type[ast.unaryop], Callable[[int], int]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.Invert: operator.invert,
}
_COMPARE: dict[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_FUNCTIONS: dict[str, Callable[..., int]] = {"min": min, "max": max, "abs": abs}
_ALLOWED = "+ - * // % & | ^ << >> ~, comparisons, min, max, abs"
_INSTEAD = {"Div": "use // for whole numbers", "Pow": "use * or <<", "BoolOp": "use & and |", "Not": "use == 0"}


class ExpressionError(TcsimError):
    """An address expression that cannot be read or evaluated. The message shows the part that is wrong."""


class Expression:
    """An expression over ``lane``, ``warp`` and named parts. ``lets``: name -> text, in the order of definition; a part may use
    those before it. Raises ExpressionError."""

    def __init__(self, text: str, lets: Mapping[str, str | int] | None = None) -> None:
        self.text = text.strip()
        self.lets = {name: str(value) for name, value in (lets or {}).items()}
        known = list(_BUILT_IN)
        self._parts: list[tuple[str, _Reader]] = []
        for name, value in self.lets.items():
            if not name.isidentifier() or name in _BUILT_IN or name in _FUNCTIONS:
                raise ExpressionError(f"{name!r} cannot be the name of a part; take another identifier, such as stride")
            self._parts.append((name, _Reader(value, known)))
            known.append(name)
        self._whole = _Reader(self.text, known)

    def value(self, lane: int, warp: int = 0) -> int:
        """The value in one lane. Raises ExpressionError for a division by zero or a result beyond 64 bits."""
        values = {"lane": lane, "warp": warp}
        for name, part in self._parts:
            values[name] = part.evaluate(values)
        return self._whole.evaluate(values)

    def values(self, warp: int = 0) -> list[int]:
        """The values of lanes 0 to 31."""
        return [self.value(lane, warp) for lane in range(32)]


def _clipped(text: str) -> str:
    """A text in quotes, not more than a line of it."""
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")


class _Reader:
    """One piece of text: checked when made, evaluated as often as needed."""

    def __init__(self, text: str, names: list[str]) -> None:
        self.text, self.names = text, tuple(names)
        if len(text) > _LONGEST:
            raise ExpressionError(f"an expression of {len(text):,} characters is too long; the most is {_LONGEST:,}")
        try:
            self.root = ast.parse(text.strip(), mode="eval").body
        except SyntaxError as problem:
            raise ExpressionError(self._unreadable(problem)) from None
        except (ValueError, RecursionError, MemoryError):
            raise ExpressionError(f"{_clipped(text)}: cannot be read as an expression") from None
        self.text = text.strip()
        self._check(self.root, 0)

    def _unreadable(self, problem: SyntaxError) -> str:
        at = max(0, (problem.offset or 1) - 1)
        text = self.text.strip()
        if not text:
            return "the expression is empty; give an address in bytes, such as lane * 4"
        return f"{_clipped(text)}: cannot be read from column {at + 1} on ({text[at : at + 20]!r}); allowed: {_ALLOWED}"

    def _part(self, node: ast.AST) -> str:
        return _clipped(ast.get_source_segment(self.text, node) or self.text)

    def _refuse(self, node: ast.AST, what: str) -> ExpressionError:
        part, whole = self._part(node), _clipped(self.text)
        return ExpressionError(f"{part}: {what}" if part == whole else f"{part} in {whole}: {what}")

    def _check(self, node: ast.expr, depth: int) -> None:
        """Refuse everything that is not on the list."""
        if depth > _DEEPEST:
            raise self._refuse(node, f"nested more than {_DEEPEST} deep")
        match node:
            case ast.Constant(value=int() as value) if not isinstance(value, bool):
                self._fits(node, value)
            case ast.Name(id=name):
                if name not in self.names:
                    known = ", ".join(self.names)
                    raise self._refuse(node, f"unknown name; there are {known}. Define it with --let {name}=...")
            case ast.BinOp(op=op):
                if type(op) not in _BINARY:
                    raise self._refuse(node, f"not allowed; {_INSTEAD.get(type(op).__name__, f'allowed: {_ALLOWED}')}")
            case ast.UnaryOp(op=op):
                if type(op) not in _UNARY:
                    raise self._refuse(node, f"not allowed; {_INSTEAD['Not']}")
            case ast.Compare(ops=ops):
                if any(type(op) not in _COMPARE for op in ops):
                    raise self._refuse(node, f"not allowed; allowed: {_ALLOWED}")
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
                if any(isinstance(arg, ast.Starred) for arg in args) or (len(args) != 1 if name == "abs" else len(args) < 2):
                    raise self._refuse(node, f"{name} takes {'one value' if name == 'abs' else 'two or more values'}")
            case _:
                hint = _INSTEAD.get(type(node).__name__, f"allowed: {_ALLOWED}; names: {', '.join(self.names)}")
                raise self._refuse(node, f"not allowed; {hint}")
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr) and not (isinstance(node, ast.Call) and child is node.func):
                self._check(child, depth + 1)

    def _fits(self, node: ast.AST, value: int) -> int:
        if not -_LARGEST <= value < _LARGEST:
            raise self._refuse(node, "does not fit 64 bits")
        return value

    def evaluate(self, values: Mapping[str, int]) -> int:
        """The value with these names."""
        return self._value(self.root, values)

    def _value(self, node: ast.expr, values: Mapping[str, int]) -> int:
        match node:
            case ast.Constant(value=int() as value):
                return value
            case ast.Name(id=name):
                return values[name]
            case ast.BinOp(left=left, op=op, right=right):
                return self._binary(node, op, self._value(left, values), self._value(right, values), values)
            case ast.UnaryOp(op=op, operand=operand):
                return self._fits(node, _UNARY[type(op)](self._value(operand, values)))
            case ast.Compare(left=left, ops=ops, comparators=rest):
                numbers = [self._value(each, values) for each in (left, *rest)]
                pairs = zip(numbers, ops, numbers[1:], strict=False)
                return int(all(_COMPARE[type(op)](a, b) for a, op, b in pairs))
            case ast.Call(func=ast.Name(id=name), args=args):
                return self._fits(node, _FUNCTIONS[name](*(self._value(arg, values) for arg in args)))
        raise AssertionError(f"{type(node).__name__} passed the check")

    def _binary(self, node: ast.BinOp, op: ast.operator, a: int, b: int, values: Mapping[str, int]) -> int:
        if isinstance(op, ast.FloorDiv | ast.Mod) and b == 0:
            raise self._refuse(node, f"divides by zero in lane {values['lane']}")
        if isinstance(op, ast.LShift | ast.RShift) and not 0 <= b <= _MOST_SHIFT:
            raise self._refuse(node, f"shifts by {b} in lane {values['lane']}; shifts are by 0 to {_MOST_SHIFT}")
        return self._fits(node, _BINARY[type(op)](a, b))
