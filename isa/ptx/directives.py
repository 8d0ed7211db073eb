"""Directives that are neither declarations nor functions: ``.loc``, ``.file``, ``.section``, ``.pragma``, ``.alias``,
call and branch targets, performance directives.

Source: PTX ISA 11.3 (control flow), 11.4 (performance), 11.5 (debugging), 11.6 (linkage), 9.7.12.
"""

from __future__ import annotations

import re

from .ast import Directive, Location, Variable
from .constants import integer
from .declarations import parameters
from .lexer import NAME, Cursor

TARGET_LISTS = frozenset({".branchtargets", ".calltargets"})
LABELLED = TARGET_LISTS | {".callprototype"}

_A_LOCATION = "'.loc FILE LINE COLUMN', optionally with ', function_name LABEL, inlined_at FILE LINE COLUMN'"

_POSITION = r"(\d{1,9}+)\s++(\d{1,9}+)\s++(\d{1,9}+)"
_match_loc = re.compile(
    rf"\.loc\s++{_POSITION}"
    rf"(?:\s*+,\s*+function_name\s++({NAME}(?:\s*+\+\s*+\d++)?+))?+"
    rf"(?:\s*+,\s*+inlined_at\s++{_POSITION})?+(?![\w,])",
    re.ASCII,
).match
# A debug section is data up to its '}': skipped whole, braces in its comments and strings excepted.
_section_body = re.compile(r"(?:[^{}/\"]++|//[^\n]*+|/\*(?s:.*?)\*/|\"[^\"\n]*+\")*+").match


class LocationTable(dict[str, Location]):
    """Reads ``.loc`` directives; each distinct one becomes one shared :class:`Location`."""

    def read(self, cursor: Cursor, position: int) -> tuple[Location, int]:
        """The location that starts at an offset of the text, and the offset after it."""
        match = _match_loc(cursor.text, position)
        if match is None:
            raise cursor.error(_A_LOCATION, at=position)
        location = self.get(match[0])
        if location is None:
            file, line, column, function, *inlined = match.groups()
            inlined_at = (int(inlined[0]), int(inlined[1]), int(inlined[2])) if inlined[0] else None
            location = Location(int(file), int(line), int(column), function, inlined_at)
            self[match[0]] = location
        return location, match.end()


def file(cursor: Cursor, files: dict[int, str]) -> None:
    """Parse ``.file 1 "name" [, timestamp, size]`` into ``files``."""
    cursor.advance()
    index = integer(cursor, "the file's number")
    files[index] = cursor.string("the file's name in quotes")
    while cursor.accept(","):
        integer(cursor, "the file's time stamp or size")


def section(cursor: Cursor) -> str:
    """Step over ``.section .debug_info { ... }`` and return the section's name."""
    line = cursor.line()
    cursor.advance()
    name = cursor.token
    if cursor.kind != "dotted":
        raise cursor.error("a section's name such as .debug_info")
    cursor.advance()
    if cursor.token != "{":
        raise cursor.error("'{' opening the section")
    body = _section_body(cursor.text, cursor.end)
    cursor.seek(body.end() if body is not None else cursor.end)
    cursor.expect("}", f"'}}' closing the section opened at line {line}")
    return name


def pragma(cursor: Cursor) -> Directive:
    """Parse ``.pragma "nounroll";``, a list of strings."""
    line = cursor.line()
    cursor.advance()
    strings = [cursor.string('a string such as "nounroll"')]
    while cursor.accept(","):
        strings.append(cursor.string("another string"))
    cursor.expect(";", "';' after the pragma")
    return Directive("pragma", tuple(strings), line)


def alias(cursor: Cursor) -> Directive:
    """Parse ``.alias new, existing;``."""
    line = cursor.line()
    cursor.advance()
    new = cursor.name("the alias's name")
    cursor.expect(",", "',' and the function it stands for")
    existing = cursor.name("the name of a function")
    cursor.expect(";", "';' after the alias")
    return Directive("alias", (new, existing), line)


def labelled(cursor: Cursor, label: str) -> Directive:
    """Parse ``.branchtargets``, ``.calltargets`` or ``.callprototype``, whose label has been read."""
    line = cursor.line()
    directive = cursor.token
    cursor.advance()
    if directive in TARGET_LISTS:
        names = [_target(cursor)]
        while cursor.accept(","):
            names.append(_target(cursor))
        cursor.expect(";", "';' after the targets, or ',' and another")
        return Directive(directive[1:], tuple(names), line, label)
    returns: tuple[Variable, ...] = parameters(cursor) if cursor.token == "(" else ()
    cursor.expect("_", "'_' in place of the function's name")
    params = parameters(cursor) if cursor.token == "(" else ()
    trailing: list[str] = []
    while cursor.kind == "dotted":
        extra = performance(cursor)
        trailing.append(" ".join((extra.name, *extra.arguments)))
    cursor.expect(";", "';' after the prototype")
    return Directive("callprototype", tuple(trailing), line, label, returns, params)


def _target(cursor: Cursor) -> str:
    """A label or function; ``L<4>`` stands for ``L0`` ... ``L3``."""
    name = cursor.name("a label or function")
    if cursor.token != "<":
        return name
    cursor.advance()
    count = cursor.token
    if not count.isdecimal():
        raise cursor.error("how many targets: a decimal number")
    cursor.advance()
    cursor.expect(">", "'>' closing the count")
    return f"{name}<{count}>"


def performance(cursor: Cursor) -> Directive:
    """Parse ``.maxntid 128, 1, 1`` and its like: any name, any comma-separated words."""
    line = cursor.line()
    name = cursor.token[1:]
    cursor.advance()
    arguments: list[str] = []
    if cursor.kind in ("number", "name"):
        arguments.append(cursor.token)
        cursor.advance()
        while cursor.accept(","):
            if cursor.kind not in ("number", "name"):
                raise cursor.error(f"another argument of .{name}")
            arguments.append(cursor.token)
            cursor.advance()
    return Directive(name, tuple(arguments), line)
