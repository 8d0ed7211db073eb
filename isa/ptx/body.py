"""Function bodies: instructions, labels, scopes and the declarations among them.

Nearly every line of real PTX is an instruction or a ``.loc``, so the loop in :meth:`BodyParser.parse` tries one regular
expression per statement and a table of operands. What that does not match (comments inside a statement, calls,
spaced-out modifiers, mistakes) is parsed token by token; only that path reports errors, and both build the same nodes.

Source: PTX ISA 4.3 (statements), 9.3 (predicated execution).
"""

from __future__ import annotations

import re
from sys import intern

from isa.errors import PtxSyntaxError

from . import directives
from .ast import (
    Block,
    Directive,
    Guard,
    Instruction,
    Label,
    Location,
    Registers,
    Statement,
    Variable,
)
from .declarations import LINKAGES, SPACES, declaration
from .directives import LABELLED, LocationTable
from .lexer import BAD, END, NAME, OPCODE, Cursor, skip_trivia
from .operands import OperandTable, operand

_MAX_BLOCKS = 200  # nested {} scopes; real code nests three deep, and the tree is walked recursively later

_A_STATEMENT = "an instruction, a label, a declaration such as .reg, '{' or '}'"
_DECLARES = frozenset({"align", "attribute"}) | SPACES
_NEW_FUNCTION = frozenset({"entry", "func"}) | LINKAGES

# Guard, opcode and operands of an instruction without comments, strings, parentheses or colons: the common case.
_match_instruction = re.compile(rf"(?:@\s*+(!?)\s*+({NAME})\s*+)?+({OPCODE})([^;:/\"(#]*+);", re.ASCII).match
_match_label = re.compile(rf"({NAME})\s*+:(?!:)", re.ASCII).match
_is_loc = re.compile(r"\.loc\b").match
_match_opcode = re.compile(OPCODE, re.ASCII).match


class BodyParser:
    """Parses the bodies of one module's functions; operands and locations are shared between them.

    ``files`` receives ``.file`` directives, ``sections`` the names of skipped sections.
    """

    def __init__(self, cursor: Cursor, files: dict[int, str], sections: list[str]) -> None:
        self._cursor, self._files, self._sections = cursor, files, sections
        self._operands = OperandTable()
        self._locations = LocationTable()

    def parse(self) -> Block:
        """The function body whose ``{`` is the cursor's token."""
        cursor, text, operands = self._cursor, self._cursor.text, self._operands
        line = cursor.line()
        loc: Location | None = None
        statements: list[Statement] = []
        enclosing: list[tuple[list[Statement], int]] = []
        position = cursor.end
        while True:
            position = skip_trivia(text, position).end()  # type: ignore[union-attr]  # matches the empty string
            match = _match_instruction(text, position)
            if match is not None:
                negation, guard, opcode, listed = match.groups()
                try:
                    nodes = operands.parse_list(listed)
                except PtxSyntaxError:  # unusual or wrong: the token-by-token path below decides
                    pass
                else:
                    at, column = cursor.locate(position)
                    guarded = None if guard is None else Guard(guard, negation == "!")
                    statements.append(Instruction(intern(opcode), nodes, guarded, at, column, loc))
                    position = match.end()
                    continue
            if _is_loc(text, position):
                loc, position = self._locations.read(cursor, position)
                continue

            cursor.seek(position)
            if cursor.token == "{":
                if len(enclosing) >= _MAX_BLOCKS:
                    raise cursor.error(f"at most {_MAX_BLOCKS} nested blocks")
                enclosing.append((statements, line))
                statements, line = [], cursor.line()
                position = cursor.end
            elif cursor.token == "}":
                block = Block(tuple(statements), line)
                position = cursor.end
                if not enclosing:
                    cursor.advance()
                    return block
                statements, line = enclosing.pop()
                statements.append(block)
            else:
                if cursor.token == ".pragma":
                    loc = self._pragma(statements, loc)
                elif self._at_instruction():
                    statements.append(self._instruction(loc))
                else:
                    statements.extend(self._other(line))
                position = cursor.start

    def _at_instruction(self) -> bool:
        cursor = self._cursor
        return cursor.token == "@" or (cursor.kind == "name" and _match_label(cursor.text, cursor.start) is None)

    def _pragma(self, statements: list[Statement], loc: Location | None) -> Location | None:
        """A ``.pragma``, and if it says which bytes the next instruction uses, that one too. Returns the location
        then."""
        cursor = self._cursor
        directive = directives.pragma(cursor)
        if not directive.arguments[0].startswith("used_bytes_mask"):
            statements.append(directive)
            return loc
        while _is_loc(cursor.text, cursor.start):
            loc, position = self._locations.read(cursor, cursor.start)
            cursor.seek(position)
        if self._at_instruction():
            statements.append(self._instruction(loc, directive.arguments[0]))
        else:
            statements.append(directive)
        return loc

    def _instruction(self, loc: Location | None, pragma: str | None = None) -> Instruction:
        """``@!p mov .u32 d, a;`` token by token."""
        cursor = self._cursor
        line, column = cursor.locate(cursor.start)
        guard = None
        if cursor.accept("@"):
            negated = cursor.accept("!")
            guard = Guard(cursor.name("the predicate after '@'"), negated)
        match = _match_opcode(cursor.text, cursor.start)
        if match is None:
            raise cursor.error("an instruction after its guard" if guard else "an instruction, or ':' after a label")
        opcode = match[0]
        cursor.seek(match.end())
        while cursor.kind == "dotted":
            opcode += cursor.token
            cursor.advance()
        call = opcode.partition(".")[0] == "call"
        operands = []
        if cursor.token in ("}", "@") or cursor.kind == END:
            raise cursor.error("';' after the instruction")
        if cursor.token != ";":
            operands.append(operand(cursor, call))
            while cursor.accept(","):
                operands.append(operand(cursor, call))
        if cursor.token != ";":
            line_start = cursor.text.rfind("\n", 0, cursor.start) + 1
            on_new_line = not cursor.text[line_start : cursor.start].strip()
            raise cursor.error("';' after the instruction" if on_new_line else "',' or ';' after the operand")
        cursor.advance()
        return Instruction(intern(opcode), tuple(operands), guard, line, column, loc, pragma)

    def _other(self, opened: int) -> list[Label | Registers | Variable | Directive]:
        """Any other statement; ``opened`` is the line of the enclosing ``{``."""
        cursor = self._cursor
        label = _match_label(cursor.text, cursor.start)
        word = cursor.token[1:] if cursor.kind == "dotted" else ""
        if label is not None:
            line = cursor.line()
            cursor.seek(label.end())
            if cursor.token in LABELLED:
                return [directives.labelled(cursor, label[1])]
            return [Label(label[1], line)]
        if word.partition("::")[0] in _DECLARES:
            return list(declaration(cursor))
        if word == "file":
            directives.file(cursor, self._files)
            return []
        if word == "section":
            self._sections.append(directives.section(cursor))
            return []
        if cursor.token in LABELLED:
            raise cursor.error(f"a label before {cursor.token}, as in 'name: {cursor.token} ...;'")
        if cursor.kind == END or word in _NEW_FUNCTION:
            raise cursor.error(f"'}}' closing the block opened at line {opened}")
        raise cursor.error("PTX text" if cursor.kind == BAD else _A_STATEMENT)
