"""Tokens of PTX text, and a cursor over them that knows lines, columns and how to complain.

PTX needs very few tokens because opcodes, types and directives are all one thing, a dotted word. Two layers read the
text: the hot loop in :mod:`isa.ptx.body` matches whole instructions with one regular expression, and everything else
(and every error) goes through :class:`Cursor`, one token at a time.

Source: PTX ISA 4.2 to 4.5 (comments, statements, identifiers, constants). Where it is silent, ptxas 13.0 was asked.
"""

from __future__ import annotations

import re

from isa.errors import PtxSyntaxError

# PTX ISA 4.4. A lone "_" is the sink; "$" and "%" need something after them.
NAME = r"(?:[A-Za-z_][\w$]*+|[$%][\w$]++)"

# "mov.u32", "cp.async.cg.shared.global.L2::128B", "tcgen05.wait::ld.sync.aligned": any words, so that none is unknown.
OPCODE = r"[A-Za-z_]\w*+(?:\.\w++(?:::\w++)*+)*+(?!\$)"

# White space, both kinds of comment, and a preprocessor's line markers (``#line 7 "a.ptx"``, which ptxas skips too).
_TRIVIA = r"(?:\s++|//[^\n]*+|/\*(?s:.*?)\*/|\#[ \t]*+(?:line\b[ \t]*+)?\d[^\n]*+)*+"

_TOKEN = rf"""
    (?P<name>   {NAME} (?:\.[A-Za-z]\w*+)*+ )                       # also %tid.x, v.y, a.b0
  | (?P<number> 0[xXbBfFdD]\w*+
              | (?:\d++(?:\.\d*+)?|\.\d++(?![\w.:])) (?:[eE][+-]?\d++)? \w*+ )
  | (?P<dotted> \.\w++(?:::\w++)*+ )                                # a directive, type or modifier
  | (?P<string> "[^"\n]*+" )                                        # PTX strings have no escapes
  | (?P<punct>  <<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^~!?:;,=<>()\[\]{{}}@] )
"""

skip_trivia = re.compile(_TRIVIA, re.ASCII).match
_match_token = re.compile(_TOKEN, re.ASCII | re.VERBOSE).match
_match_found = re.compile(r"\.?[\w$%]{1,60}(?:(?:\.|::)[\w$%]{1,30}){0,8}|(?s:.)").match  # what an error quotes

END, BAD = "end", "bad"


class Cursor:
    """One token of look-ahead over PTX text.

    ``kind`` is ``"name" | "number" | "dotted" | "string" | "punct"``, or :data:`END`, or :data:`BAD` for a character
    that starts no token. ``token`` is its text, ``start`` and ``end`` its offsets. ``line`` and ``column`` (1-based)
    place the text's first character, for text cut out of a larger file.
    """

    __slots__ = (
        "_counted",
        "_line",
        "_line_start",
        "_origin",
        "depth",
        "end",
        "kind",
        "path",
        "start",
        "text",
        "token",
    )

    def __init__(self, text: str, path: str | None = None, line: int = 1, column: int = 1) -> None:
        self.text, self.path = text, path
        self.depth = 0  # of nested constant expressions and initialiser braces, which recurse
        self._origin = (line, column)
        self._line, self._line_start, self._counted = line, 1 - column, 0
        self.seek(0)

    def seek(self, position: int) -> None:
        """Make the token at or after an offset the current one."""
        self.end = position
        self.advance()

    def advance(self) -> None:
        text = self.text
        self.start = start = skip_trivia(text, self.end).end()  # type: ignore[union-attr]  # matches the empty string
        match = _match_token(text, start)
        if match is not None:
            self.kind, self.token, self.end = match.lastgroup or BAD, match[0], match.end()
        elif start == len(text):
            self.kind, self.token, self.end = END, "", start
        else:
            self.kind, self.token, self.end = BAD, text[start], start + 1

    def accept(self, token: str) -> bool:
        """Step over the current token if it is this one; tell whether it was."""
        if self.token != token:
            return False
        self.advance()
        return True

    def expect(self, token: str, expected: str) -> None:
        """Step over the current token, which must be this one."""
        if self.token != token:
            raise self.error(expected)
        self.advance()

    def name(self, expected: str) -> str:
        """Step over a name without a ``.x`` selector and return it."""
        token = self.token
        if self.kind != "name" or "." in token:
            raise self.error(expected)
        self.advance()
        return token

    def string(self, expected: str) -> str:
        """Step over a string and return what is between its quotes."""
        token = self.token
        if self.kind != "string":
            raise self.error(expected)
        self.advance()
        return token[1:-1]

    def locate(self, position: int) -> tuple[int, int]:
        """(line, column) of an offset. Offsets must not decrease from call to call, so that text is counted once."""
        newlines = self.text.count("\n", self._counted, position)
        if newlines:
            self._line += newlines
            self._line_start = self.text.rindex("\n", self._counted, position) + 1
        self._counted = position
        return self._line, position - self._line_start + 1

    def line(self) -> int:
        """The line of the current token (see :meth:`locate`)."""
        return self.locate(self.start)[0]

    def error(self, expected: str, at: int | None = None, found: str | None = None) -> PtxSyntaxError:
        """The error to raise for the current token, or for the text at an offset."""
        text = self.text
        at = self.start if at is None else at
        if at >= len(text):
            at, found = len(text.rstrip()), found or "end of file"
        elif found is None:
            match = _match_found(text, at)
            found = match[0] if match is not None else ""
            if text.startswith("/*", at):
                found, expected = "/*", "'*/' closing this comment"
            elif found == '"' and '"' not in text[at + 1 :].partition("\n")[0]:
                expected = "'\"' closing this string on the same line"
        newlines = text.count("\n", 0, at)
        line_start = text.rfind("\n", 0, at) + 1
        line_end = text.find("\n", at)
        line, column = self._origin[0] + newlines, at - line_start + 1
        shown = text[line_start : line_end if line_end >= 0 else len(text)]
        if not newlines:
            column += self._origin[1] - 1
            shown = " " * (self._origin[1] - 1) + shown
        return PtxSyntaxError(found, expected, line, column, shown, self.path)
