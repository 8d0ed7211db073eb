"""Declarations of registers, variables and parameters.

Source: PTX ISA 5 (state spaces, types, variables), 11.4.3 (``.ptr``), 11.6 (linkage).
"""

from __future__ import annotations

import re

from msgspec import Struct

from .ast import Initializer, Registers, Variable
from .constants import integer
from .lexer import END, Cursor

SPACES = frozenset({"reg", "sreg", "const", "global", "local", "param", "shared", "tex", "surf"})
LINKAGES = frozenset({"visible", "extern", "weak", "common"})

A_VARIABLE = "a variable's name"
_A_TYPE = "a type such as .b32 or .f16x2"
_A_SPACE = "a state space such as .global or .shared"
_A_SIZE = "an array size: an integer of 0 or more"

# The shapes of type names, not a list of them: .b128, .f16x2, .bf16, .e4m3x2, .ue8m0x2 and whatever comes next.
_is_type = re.compile(r"\.(?:pred|texref|samplerref|surfref|(?:[bsuf]|bf|tf|u?e)\d\w*)", re.ASCII).fullmatch
_is_vector = re.compile(r"\.v(\d{1,3})", re.ASCII).fullmatch
_flat_braces = re.compile(r"\{[^{}/\";]*+\}").match  # no nested brace, comment or string: the 468 KB tables


class _Qualifiers(Struct):
    """What precedes the names of a declaration."""

    space: str = ""
    type: str = ""
    align: int | None = None
    vector: int = 1
    ptr: tuple[str, int | None] | None = None
    attributes: tuple[str, ...] = ()


def declaration(cursor: Cursor, linkage: str = "") -> list[Registers | Variable]:
    """Parse a declaration statement, from ``.align``, ``.attribute`` or its state space to the ``;``."""
    line = cursor.line()
    what = _qualifiers(cursor)
    if what.space == "reg":
        return [_registers(cursor, what, line)]
    variables: list[Registers | Variable] = [_variable(cursor, what, linkage)]
    while cursor.accept(","):
        variables.append(_variable(cursor, what, linkage))
    cursor.expect(";", "';' after the declaration")
    return variables


def parameters(cursor: Cursor) -> tuple[Variable, ...]:
    """Parse ``( .param ..., .reg ... )``, the parameters or return values of a function."""
    cursor.expect("(", "'(' and the parameters")
    if cursor.accept(")"):
        return ()
    variables = []
    while True:
        if cursor.token.partition("::")[0] not in (".param", ".reg", ".align"):
            raise cursor.error("a parameter: .param or .reg, a type and a name")
        variables.append(_variable(cursor, _qualifiers(cursor), ""))
        if cursor.accept(")"):
            return tuple(variables)
        cursor.expect(",", "',' and another parameter, or ')'")


def attributes(cursor: Cursor) -> tuple[str, ...]:
    """Parse ``.attribute(.managed, .unified(1, 2))`` into ``("managed", "unified(1,2)")``."""
    cursor.advance()
    cursor.expect("(", "'(' and the attributes")
    found: list[str] = []
    while True:
        if cursor.kind != "dotted":
            raise cursor.error("an attribute such as .managed")
        found.append(cursor.token[1:])
        cursor.advance()
        if cursor.accept("("):
            arguments = [str(integer(cursor, "an integer"))]
            while cursor.accept(","):
                arguments.append(str(integer(cursor, "an integer")))
            cursor.expect(")", "')' closing the attribute's arguments")
            found[-1] += f"({','.join(arguments)})"
        if cursor.accept(")"):
            return tuple(found)
        cursor.expect(",", "',' and another attribute, or ')'")


def _qualifiers(cursor: Cursor) -> _Qualifiers:
    what = _Qualifiers()
    while cursor.kind == "dotted":
        word = cursor.token
        vector = _is_vector(word)
        if word == ".align":
            cursor.advance()
            start = cursor.start
            align = integer(cursor, "an alignment: a power of two")
            if align <= 0 or align & (align - 1):
                raise cursor.error("an alignment: a power of two", at=start)
            if what.ptr is None:
                what.align = align
            else:
                what.ptr = (what.ptr[0], align)
            continue
        if word == ".attribute":
            what.attributes += attributes(cursor)
            continue
        if word.partition("::")[0][1:] in SPACES and what.ptr is not None and not what.ptr[0]:
            what.ptr = (word[1:], what.ptr[1])
        elif word.partition("::")[0][1:] in SPACES and not what.space:
            what.space = word[1:]
        elif vector is not None:
            what.vector = int(vector[1])
        elif word == ".ptr" and what.ptr is None:
            what.ptr = ("", None)
        elif _is_type(word) and not what.type:
            what.type = word[1:]
        else:
            raise cursor.error(A_VARIABLE if what.type else _A_TYPE if what.space else _A_SPACE)
        cursor.advance()
    if not what.space or not what.type:
        raise cursor.error(_A_TYPE if what.space else _A_SPACE)
    return what


def _registers(cursor: Cursor, what: _Qualifiers, line: int) -> Registers:
    names: list[str] = []
    ranges: list[tuple[str, int]] = []
    while True:
        name = cursor.name("a register's name")
        count = _count(cursor)
        if count is None:
            names.append(name)
        else:
            ranges.append((name, count))
        if not cursor.accept(","):
            break
    cursor.expect(";", "';' after the registers, or ',' and another")
    return Registers(what.type, tuple(names), tuple(ranges), line, what.vector)


def _variable(cursor: Cursor, what: _Qualifiers, linkage: str) -> Variable:
    line = cursor.line()
    name = cursor.name(A_VARIABLE)
    count = _count(cursor)
    dims: list[int] = []
    while cursor.accept("["):
        if cursor.token == "]" and not dims:
            dims.append(-1)
        else:
            start = cursor.start
            dims.append(integer(cursor, _A_SIZE))
            if dims[-1] < 0:
                raise cursor.error(_A_SIZE, at=start)
        cursor.expect("]", "']' closing the array size")
    init = _initializer(cursor) if cursor.token == "=" and count is None else None
    return Variable(
        name, what.space, what.type, tuple(dims), what.align, linkage, line, what.vector, init, what.ptr,
        what.attributes, count,
    )  # fmt: skip


def _count(cursor: Cursor) -> int | None:
    """The ``<7>`` of ``%r<7>``, or None."""
    if cursor.token != "<":
        return None
    cursor.advance()
    count = cursor.token
    if not count.isdecimal() or len(count) > 9:
        raise cursor.error("how many registers: a decimal number")
    cursor.advance()
    cursor.expect(">", "'>' closing the count")
    return int(count)


def _initializer(cursor: Cursor) -> Initializer:
    """Cut out the text after ``=``, up to the ``,`` or ``;`` outside all brackets, without looking at the values."""
    cursor.advance()
    start = cursor.start
    line, column = cursor.locate(start)
    flat = _flat_braces(cursor.text, start)
    if flat is not None:
        cursor.seek(flat.end())
        return Initializer(flat[0], line, column)
    open_brackets: list[str] = []
    end = start
    while open_brackets or cursor.token not in (",", ";"):
        if cursor.kind == END or cursor.token == ";":
            raise cursor.error(f"'{open_brackets[-1]}' closing the initialiser" if open_brackets else "';'")
        if cursor.kind not in ("name", "number", "punct", "dotted"):
            raise cursor.error("a constant or a symbol of the initialiser")
        if cursor.token in ("{", "("):
            open_brackets.append("}" if cursor.token == "{" else ")")
        elif cursor.token in ("}", ")") and (not open_brackets or open_brackets.pop() != cursor.token):
            raise cursor.error("a constant or a symbol of the initialiser")
        end = cursor.end
        cursor.advance()
    if end == start:
        raise cursor.error("an initial value")
    return Initializer(cursor.text[start:end], line, column)
