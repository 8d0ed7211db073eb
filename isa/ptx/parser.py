"""PTX text to :class:`~isa.ptx.ast.Module`.

The grammar is read from the text alone: no opcode, target or ``.version`` is looked up, so PTX newer than this code
parses, and what cannot run is reported later, all at once. Source: PTX ISA 4 and 11.
"""

from __future__ import annotations

import os
import re

from isa.collector import uncollected
from isa.errors import TcsimError

from . import directives
from .ast import Directive, Function, Module, Variable
from .body import BodyParser
from .declarations import LINKAGES, SPACES, attributes, declaration, parameters
from .lexer import BAD, END, Cursor

_DECLARATION = "a module-level declaration (.entry, .func, .global, .const, .shared, .extern, ...)"
_HEADER_END = "'{' opening the function's body, or ';'"
_NOT_OF_A_FUNCTION = (
    frozenset({"entry", "func", "align", "loc", "file", "section", "version", "target"}) | SPACES | LINKAGES
)
_VERSION = re.compile(r"(\d{1,4})\.(\d{1,4})")
_ADDRESS_SIZE = 64  # when .address_size is missing: that of the host, as ptxas 13.0 has it


def parse(text: str, *, path: str | None = None) -> Module:
    """Parse PTX text.

    ``path`` is only for messages and :attr:`Module.path`. Trailing NULs, which NVRTC leaves, are ignored.

    Raises :class:`~isa.errors.PtxSyntaxError`, and nothing else, for text outside the grammar.
    """
    text = text.rstrip("\0")
    cursor = Cursor(text, path)
    _refuse_binary(cursor)
    with uncollected():
        return _ModuleParser(cursor).parse()


def parse_file(path: str | os.PathLike[str]) -> Module:
    """Parse a PTX file (UTF-8; other bytes are tolerated in comments and strings).

    Raises :class:`~isa.errors.PtxSyntaxError` for text outside the grammar, :class:`~isa.errors.TcsimError` for a file
    that cannot be read.
    """
    name = os.fspath(path)
    try:
        with open(name, encoding="utf-8-sig", errors="replace", newline="") as file:
            text = file.read()
    except OSError as error:
        raise TcsimError(f"{name}: cannot read this PTX file: {error.strerror}") from error
    return parse(text, path=name)


def _refuse_binary(cursor: Cursor) -> None:
    if cursor.text.startswith("\x7fELF"):
        raise cursor.error(
            "PTX text; this is a cubin (cuobjdump -ptx shows the PTX in an executable)", at=0, found="ELF"
        )
    nul = cursor.text.find("\0")
    if nul >= 0:
        raise cursor.error("PTX text; this looks like a binary file", at=nul, found="\0")


class _ModuleParser:
    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._files: dict[int, str] = {}
        self._sections: list[str] = []
        self._variables: list[Variable] = []
        self._functions: list[Function] = []
        self._directives: list[Directive] = []
        self._bodies = BodyParser(cursor, self._files, self._sections)

    def parse(self) -> Module:
        cursor = self._cursor
        version = self._version()
        target, options = self._target()
        address_size = _ADDRESS_SIZE
        while cursor.kind != END:
            if cursor.accept(".address_size"):
                if cursor.token not in ("32", "64"):
                    raise cursor.error("32 or 64")
                address_size = int(cursor.token)
                cursor.advance()
            else:
                self._declaration()
        return Module(
            version, target, options, address_size, tuple(self._variables), tuple(self._functions),
            tuple(self._directives), self._files, tuple(self._sections), cursor.text, cursor.path,
        )  # fmt: skip

    def _version(self) -> tuple[int, int]:
        cursor = self._cursor
        cursor.expect(".version", "a PTX module: it starts with .version")
        match = _VERSION.fullmatch(cursor.token)
        if match is None:
            raise cursor.error("a version number such as 8.0")
        cursor.advance()
        return int(match[1]), int(match[2])

    def _target(self) -> tuple[str, tuple[str, ...]]:
        cursor = self._cursor
        cursor.expect(".target", "'.target' and an architecture such as sm_90, after .version")
        target = cursor.name("an architecture such as sm_90")
        options: list[str] = []
        while cursor.accept(","):
            options.append(cursor.name("a target option such as texmode_independent"))
        return target, tuple(options)

    def _declaration(self) -> None:
        """One declaration or directive at module level."""
        cursor = self._cursor
        linkage = self._linkage()
        word = cursor.token[1:] if cursor.kind == "dotted" else ""
        if word in ("entry", "func"):
            self._functions.append(self._function(linkage))
        elif word == "reg":
            raise cursor.error("registers only inside a function")
        elif word.partition("::")[0] in SPACES or word in ("align", "attribute"):
            self._variables.extend(v for v in declaration(cursor, linkage) if isinstance(v, Variable))
        elif linkage:
            raise cursor.error(f".entry, .func or a variable's state space after .{linkage}")
        elif word == "file":
            directives.file(cursor, self._files)
        elif word == "section":
            self._sections.append(directives.section(cursor))
        elif word == "pragma":
            self._directives.append(directives.pragma(cursor))
        elif word == "alias":
            self._directives.append(directives.alias(cursor))
        elif word in ("version", "target"):
            raise cursor.error(f"{_DECLARATION}: one text is one module, with one .version and .target at its start")
        elif cursor.token == "}":
            raise cursor.error(f"{_DECLARATION}: no block is open here")
        elif cursor.kind == "name" or cursor.token == "@":
            raise cursor.error(f"{_DECLARATION}: instructions and labels stand inside a function's body")
        else:
            raise cursor.error("PTX text" if cursor.kind == BAD else _DECLARATION)

    def _linkage(self) -> str:
        cursor = self._cursor
        linkage = cursor.token[1:]
        if cursor.kind != "dotted" or linkage not in LINKAGES:
            return ""
        cursor.advance()
        return linkage

    def _function(self, linkage: str) -> Function:
        cursor = self._cursor
        line = cursor.line()
        kind = cursor.token[1:]
        cursor.advance()
        found: list[Directive] = []
        if cursor.token == ".attribute":
            found.append(Directive("attribute", attributes(cursor), line))
        returns = parameters(cursor) if kind == "func" and cursor.token == "(" else ()
        name = cursor.name("the function's name")
        params = parameters(cursor) if cursor.token == "(" else ()
        while cursor.kind == "dotted" and cursor.token[1:] not in _NOT_OF_A_FUNCTION:
            found.append(directives.pragma(cursor) if cursor.token == ".pragma" else directives.performance(cursor))
        body = None
        if cursor.token == "{":
            body = self._bodies.parse()
        else:
            cursor.expect(";", _HEADER_END)
        return Function(name, kind, linkage, params, returns, tuple(found), body, line)
