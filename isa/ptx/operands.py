"""Instruction operands.

``operand`` is the grammar. :class:`OperandTable` puts a table in front of it: compilers repeat the same operand texts
endlessly (``%r1``, ``[%rd4+16]``, ``0f00000000``), so each distinct text of a module is parsed once and its node
shared.

Source: PTX ISA 6 (operands), 9.7.12.5 (call), 9.7.10.3 (texture addresses).
"""

from __future__ import annotations

import re

from .ast import (
    Address,
    Element,
    Group,
    Immediate,
    Name,
    Not,
    Offset,
    Operand,
    Pair,
    Signed,
    Vector,
)
from .constants import immediate, integer
from .lexer import END, NAME, Cursor

AN_OPERAND = "a register, constant, address or vector"
_AN_ELEMENT = "a register or a constant"
_A_BASE = "the address: a register, a symbol or an integer"
_AN_OFFSET = "a constant offset (a PTX address adds no second register)"

_is_name = re.compile(rf"{NAME}(?:\.[A-Za-z]\w*+)*+", re.ASCII).fullmatch
# A comma-free stretch, or one whose commas are inside brackets.
_split_top_level = re.compile(r"(?:[^,{}\[\]]++|\{[^{}]*+\}|\[[^\[\]]*+\])++").findall


def operand(cursor: Cursor, call: bool = False) -> Operand:
    """Parse one operand. In a ``call`` every ``( )`` is a :class:`Group`; elsewhere ``(1<<3)`` is a constant."""
    token = cursor.token
    if cursor.kind == "name" and token != "WARP_SZ":
        return _named(cursor)
    if token == "[":
        return _address(cursor)
    if token == "{":
        cursor.advance()
        vector = Vector(_elements(cursor, "}", "'}' closing the vector"))
        return _pair(cursor, vector) if cursor.token == "|" else vector
    if token in ("!", "-", "~"):
        return _signed(cursor, token)
    if token == "(" and (call or _opens_group(cursor)):
        cursor.advance()
        if cursor.accept(")"):
            return Group(())
        return Group(_elements(cursor, ")", "')' closing the list"))
    if cursor.kind == "number" or token in ("(", "+", "WARP_SZ"):
        return immediate(cursor)
    raise cursor.error(AN_OPERAND)


def _named(cursor: Cursor) -> Operand:
    name = cursor.token
    cursor.advance()
    following = cursor.token
    if following == "|":
        return _pair(cursor, Name(name))
    if following in ("+", "-"):
        return Offset(name, integer(cursor, _AN_OFFSET))
    if following != "[":
        return Name(name)
    cursor.advance()
    index = None
    if cursor.kind == "name" and cursor.token != "WARP_SZ":
        index = Name(cursor.token)
        cursor.advance()
    offset = 0 if index is not None and cursor.token == "]" else integer(cursor, _AN_OFFSET)
    cursor.expect("]", "']' closing the array index")
    return Element(name, index, offset)


def _pair(cursor: Cursor, first: Name | Vector) -> Pair:
    cursor.advance()
    if cursor.kind != "name":
        raise cursor.error("the second destination after '|' (a predicate or '_')")
    second = Name(cursor.token)
    cursor.advance()
    return Pair(first, second)


def _signed(cursor: Cursor, sign: str) -> Operand:
    start = cursor.start
    cursor.advance()
    name = cursor.token
    if cursor.kind != "name" or name == "WARP_SZ":
        cursor.seek(start)
        return immediate(cursor)
    cursor.advance()
    return Not(name) if sign == "!" else Signed(sign, name)


def _address(cursor: Cursor) -> Address:
    cursor.advance()
    base: Name | Immediate
    offset = 0
    if cursor.kind == "name" and cursor.token != "WARP_SZ":
        base = Name(cursor.token)
        cursor.advance()
        if cursor.token in ("+", "-"):
            offset = integer(cursor, _AN_OFFSET)
    else:
        start = cursor.start
        base = _element(cursor, _A_BASE)
        if not isinstance(base, Immediate) or base.kind != "int":
            raise cursor.error(_A_BASE, at=start)
    extra: list[Name | Immediate | Vector] = []
    while cursor.accept(","):
        if cursor.accept("{"):
            extra.append(Vector(_elements(cursor, "}", "'}' closing the coordinates")))
        else:
            extra.append(_element(cursor))
    if cursor.token != "]":
        raise cursor.error(_AN_OFFSET if cursor.kind == "name" else "']' closing the address")
    cursor.advance()
    unified = cursor.accept(".unified")
    return Address(base, offset, tuple(extra), unified)


def _elements(cursor: Cursor, closing: str, expected: str) -> tuple[Name | Immediate, ...]:
    elements = [_element(cursor)]
    while cursor.accept(","):
        elements.append(_element(cursor))
    cursor.expect(closing, expected)
    return tuple(elements)


def _element(cursor: Cursor, expected: str = _AN_ELEMENT) -> Name | Immediate:
    if cursor.kind == "name" and cursor.token != "WARP_SZ":
        name = Name(cursor.token)
        cursor.advance()
        return name
    if cursor.kind in ("number", "name") or cursor.token in ("(", "+", "-", "~", "!"):
        return immediate(cursor)
    raise cursor.error(expected)


def _opens_group(cursor: Cursor) -> bool:
    start = cursor.start
    cursor.advance()
    group = cursor.token == ")" or (cursor.kind == "name" and cursor.token != "WARP_SZ")
    cursor.seek(start)
    return group


class OperandTable(dict[str, Operand]):
    """Operand text to node, filled on demand.

    Looking up a text that is no operand raises :class:`~isa.errors.PtxSyntaxError` with a position within that text:
    parse the statement again with :func:`operand` to get the real one.
    """

    def __missing__(self, text: str) -> Operand:
        stripped = text.strip()
        node: Operand
        if _is_name(stripped) and stripped != "WARP_SZ":
            node = Name(stripped)
        else:
            cursor = Cursor(text)
            node = operand(cursor)
            if cursor.kind != END:
                raise cursor.error("the end of the operand")
        self[text] = node
        return node

    def parse_list(self, text: str) -> tuple[Operand, ...]:
        """The operands in a comma-separated list without comments, strings or parentheses; it may be blank."""
        if not text or text.isspace():
            return ()
        if "{" not in text:
            return tuple([self[piece] for piece in text.split(",")])
        pieces = _split_top_level(text)
        if ",".join(pieces) != text:  # a stray bracket or an empty piece was passed over
            raise Cursor(text).error("balanced brackets")
        return tuple([self[piece] for piece in pieces])
