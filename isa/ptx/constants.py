"""Constants and constant expressions, evaluated while parsing.

Integers are 64 bits wide, signed unless the literal carries ``U`` or does not fit ``.s64``; an operation with one
unsigned operand is unsigned. Floating-point literals are ``.f64``; integers and floats do not mix. ``0fXXXXXXXX`` is a
literal only, never part of an expression. Source: PTX ISA 4.5; ptxas 13.0 settled the corners: ``~`` and ``%`` are
unsigned (so ``~0`` is 2**64-1), shift counts are taken modulo 64, ``?:`` keeps the type of the chosen branch and takes
no floats, a comparison of floats is an ``.s64``.
"""

from __future__ import annotations

import operator
import re
import struct
from collections.abc import Callable
from typing import NamedTuple

from .ast import Immediate
from .lexer import Cursor

WARP_SZ = 32

_MASK = (1 << 64) - 1
_MAX_DEPTH = 100  # nested parentheses and operators: far above any real text, far below Python's recursion limit

_INTEGER = re.compile(
    r"(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[bB](?P<bin>[01]+)|0(?P<oct>[0-7]+)|(?P<dec>0|[1-9]\d*))(?P<u>U?)"
)
_DECIMAL = re.compile(r"(?=.*[.eE])(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_HEX_FLOAT = re.compile(r"0[fF]([0-9a-fA-F]{8})|0[dD]([0-9a-fA-F]{16})")
_BASES = {"hex": 16, "bin": 2, "oct": 8, "dec": 10}
_is_cast = re.compile(r"\(\s*+\.[su]64\s*+\)").match
_SIGNS = ("+", "-", "~", "!")

_BINDING = {  # binary operators by precedence, as in C
    "||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, "<=": 7, ">": 7, ">=": 7,
    "<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10,
}  # fmt: skip
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_FLOAT: dict[str, Callable[[float, float], float]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
}  # fmt: skip

A_CONSTANT = "a constant: an integer, a float, or an expression of them"
A_NUMBER = "a number: decimal, 0x.., 0.. (octal), 0b.., 1.5e-3, 0f and 8 hex digits, or 0d and 16 hex digits"


class Constant(NamedTuple):
    """The value of a constant expression; ``kind`` is ``"s64"``, ``"u64"`` or ``"f64"`` (then ``value`` is a float)."""

    value: int | float
    kind: str


def immediate(cursor: Cursor) -> Immediate:
    """Parse a constant operand: a literal or an expression."""
    if cursor.token[:2] in ("0f", "0F"):
        match = _HEX_FLOAT.fullmatch(cursor.token)
        if match is None:
            raise cursor.error(A_NUMBER)
        cursor.advance()
        return Immediate(int(match[1], 16), "f32")
    value, kind = constant(cursor)
    if kind == "f64":
        return Immediate(int.from_bytes(struct.pack("<d", value), "little"), "f64")
    return Immediate(int(value), "int")


def integer(cursor: Cursor, expected: str) -> int:
    """Parse an integer constant expression, taken as a signed 64-bit number (sizes, offsets)."""
    start = cursor.start
    if cursor.kind not in ("number", "punct") and cursor.token != "WARP_SZ":
        raise cursor.error(expected)
    value, kind = constant(cursor, expected)
    if kind == "f64":
        raise cursor.error(expected, at=start)
    return int(_wrap(int(value), "s64").value)


def constant(cursor: Cursor, expected: str = A_CONSTANT) -> Constant:
    """Parse and evaluate a constant expression. ``expected`` is for the message where a constant is missing."""
    start = cursor.start
    condition = _binary(cursor, 1, expected)
    if cursor.token != "?":
        return condition
    _nest(cursor)
    cursor.advance()
    chosen = constant(cursor, expected)
    cursor.expect(":", "':' and the other value of this '?'")
    other = constant(cursor, expected)
    cursor.depth -= 1
    if "f64" in (condition.kind, chosen.kind, other.kind):
        raise cursor.error("integer constants around '?:' (PTX ISA 4.5.4)", at=start)
    return chosen if condition.value else other


def _nest(cursor: Cursor) -> None:
    cursor.depth += 1
    if cursor.depth > _MAX_DEPTH:
        raise cursor.error(f"at most {_MAX_DEPTH} nested operators")


def _binary(cursor: Cursor, weakest: int, expected: str) -> Constant:
    """Operators that bind at least as strongly as ``weakest``, left to right."""
    _nest(cursor)
    left = _unary(cursor, expected)
    while True:
        symbol = cursor.token
        binding = _BINDING.get(symbol, 0)
        if binding < weakest:
            cursor.depth -= 1
            return left
        at = cursor.start
        cursor.advance()
        left = _apply(cursor, symbol, left, _binary(cursor, binding + 1, expected), at)


def _unary(cursor: Cursor, expected: str) -> Constant:
    signs: list[tuple[str, int]] = []
    while True:
        cast = _is_cast(cursor.text, cursor.start)
        if cursor.token in _SIGNS:
            signs.append((cursor.token, cursor.start))
            cursor.advance()
        elif cast is not None:
            signs.append((cast[0].strip("() \t\r\n"), cursor.start))
            cursor.seek(cast.end())
        else:
            break
    value, kind = _primary(cursor, expected)
    for sign, at in reversed(signs):
        if kind == "f64":
            if sign not in ("+", "-"):
                raise cursor.error(f"an integer constant after {sign!r}", at=at)
            value = -value if sign == "-" else value
        elif sign == "!":
            value, kind = int(not value), "s64"
        elif sign.startswith("."):
            value, kind = _wrap(int(value), sign[1:])
        elif sign == "~":
            value, kind = _wrap(~int(value), "u64")
        elif sign == "-":
            value, kind = _wrap(-int(value), kind)
    return Constant(value, kind)


def _primary(cursor: Cursor, expected: str) -> Constant:
    token = cursor.token
    if token == "(":
        cursor.advance()
        inner = constant(cursor, expected)
        cursor.expect(")", "')' closing the expression")
        return inner
    if token == "WARP_SZ":
        value = Constant(WARP_SZ, "s64")
    elif cursor.kind == "number":
        value = _literal(cursor)
    else:
        raise cursor.error(expected)
    cursor.advance()
    return value


def _literal(cursor: Cursor) -> Constant:
    token = cursor.token
    match = _INTEGER.fullmatch(token)
    if match is not None:
        base = next(name for name in _BASES if match[name] is not None)
        digits = match[base].lstrip("0") or "0"
        if len(digits) > 64 or (number := int(digits, _BASES[base])) > _MASK:  # 64 digits: a full word in base 2
            raise cursor.error("an integer of at most 64 bits")
        return Constant(number, "u64" if match["u"] or number >> 63 else "s64")
    match = _HEX_FLOAT.fullmatch(token)
    if match is not None and match[2] is not None:
        return Constant(struct.unpack(">d", bytes.fromhex(match[2]))[0], "f64")
    if match is not None:
        raise cursor.error("no 0f literal inside an expression (write 0d or a decimal)")
    if _DECIMAL.fullmatch(token) is None:
        raise cursor.error(A_NUMBER)
    return Constant(float(token), "f64")


def _wrap(value: int, kind: str) -> Constant:
    value &= _MASK
    return Constant(value - (1 << 64) if kind == "s64" and value >> 63 else value, kind)


def _apply(cursor: Cursor, symbol: str, left: Constant, right: Constant, at: int) -> Constant:
    a, b = left.value, right.value
    if (left.kind == "f64") != (right.kind == "f64"):
        raise cursor.error("both sides integer or both floating-point (PTX ISA 4.5.4)", at=at)
    if symbol in ("/", "%") and b == 0:
        raise cursor.error("a divisor other than 0", at=at)
    if left.kind == "f64":
        if symbol in _COMPARE:
            return Constant(int(_COMPARE[symbol](a, b)), "s64")
        if symbol not in _FLOAT:
            raise cursor.error(f"integer constants around {symbol!r}", at=at)
        return Constant(_FLOAT[symbol](a, b), "f64")
    return _integers(symbol, int(a), int(b), left.kind, right.kind)


def _integers(symbol: str, a: int, b: int, left: str, right: str) -> Constant:
    if symbol in ("&&", "||"):
        return Constant(int(bool(a) and bool(b)) if symbol == "&&" else int(bool(a) or bool(b)), "s64")
    if symbol in ("<<", ">>"):
        count = b & 63
        return _wrap(a << count if symbol == "<<" else a >> count, left)
    kind = "u64" if "u64" in (left, right) or symbol == "%" else "s64"
    a, b = _wrap(a, kind).value, _wrap(b, kind).value  # type: ignore[assignment]
    if symbol in _COMPARE:
        return Constant(int(_COMPARE[symbol](a, b)), "s64")
    if symbol in ("/", "%"):  # rounds toward zero; the remainder has the sign of the dividend
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        return _wrap(quotient if symbol == "/" else a - quotient * b, kind)
    results = {"+": a + b, "-": a - b, "*": a * b, "&": a & b, "|": a | b, "^": a ^ b}
    return _wrap(results[symbol], kind)
