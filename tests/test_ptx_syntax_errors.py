"""What the PTX parser says about mistakes, and that it says nothing worse about anything else."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isa.errors import PtxSyntaxError, TcsimError, UnsupportedError
from isa.ptx import Module, body, parse, parse_file
from isa.ptx.initializers import evaluate
from tests.ptx_text import DATA, HEADER, in_body


def error(text: str) -> PtxSyntaxError:
    with pytest.raises(PtxSyntaxError) as caught:
        parse(text)
    return caught.value


A_NUMBER = "a number: decimal, 0x.., 0.. (octal), 0b.., 1.5e-3, 0f and 8 hex digits, or 0d and 16 hex digits"
A_LOCATION = "'.loc FILE LINE COLUMN', optionally with ', function_name LABEL, inlined_at FILE LINE COLUMN'"
A_LABEL = "a label before .branchtargets, as in 'name: .branchtargets ...;'"
NO_0F = "no 0f literal inside an expression (write 0d or a decimal)"
A_STATEMENT = "an instruction, a label, a declaration such as .reg, '{' or '}'"

# (text, line, column, found, expected); lines count from the text's own first line.
BODY_ERRORS = [
    ("mov.u32 %r1, %r2\nadd.s32 %r1, %r1, 1;", 2, 1, "add.s32", "';' after the instruction"),
    ("ret\n", 3, 1, "}", "';' after the instruction"),
    ("ret }", 1, 5, "}", "';' after the instruction"),
    ("mov.u32 %r1 %r2;", 1, 13, "%r2", "',' or ';' after the operand"),
    ("mov.u32 %r1, ;", 1, 14, ";", "a register, constant, address or vector"),
    ("mov.u32 , %r1;", 1, 9, ",", "a register, constant, address or vector"),
    ("mov.u32 %r1, 'a';", 1, 14, "'", "a register, constant, address or vector"),
    ("mov.b64 {%r1, %r2, %rd1;", 1, 24, ";", "'}' closing the vector"),
    ("mov.b64 {}, %rd1;", 1, 10, "}", "a register or a constant"),
    ("mov.b64 {{%r1}}, %rd1;", 1, 10, "{", "a register or a constant"),
    ("ld.u32 %r1, [%rd1+%rd2];", 1, 19, "%rd2", "a constant offset (a PTX address adds no second register)"),
    ("ld.u32 %r1, [%rd1 %rd2];", 1, 19, "%rd2", "a constant offset (a PTX address adds no second register)"),
    ("ld.u32 %r1, [%rd1+4;", 1, 20, ";", "']' closing the address"),
    ("ld.u32 %r1, [1.5];", 1, 14, "1.5", "the address: a register, a symbol or an integer"),
    ("ld.u32 %r1, [];", 1, 14, "]", "the address: a register, a symbol or an integer"),
    ("call (r, f;", 1, 11, ";", "')' closing the list"),
    ("setp.eq.s32 p|, %r1, 1;", 1, 15, ",", "the second destination after '|' (a predicate or '_')"),
    ("mov.u32 %r1, 12abc;", 1, 14, "12abc", A_NUMBER),
    ("mov.u32 %r1, 089;", 1, 14, "089", A_NUMBER),
    ("mov.f32 %f1, 0f3F80;", 1, 14, "0f3F80", A_NUMBER),
    ("mov.f32 %f1, 0f3F800000 + 1.0;", 1, 25, "+", "',' or ';' after the operand"),
    ("mov.f32 %f1, 1.0 + 0f3F800000;", 1, 20, "0f3F800000", NO_0F),
    ("mov.u64 %rd1, 0x1ffffffffffffffff;", 1, 15, "0x1ffffffffffffffff", "an integer of at most 64 bits"),
    ("mov.u32 %r1, 4 / (2 - 2);", 1, 16, "/", "a divisor other than 0"),
    ("mov.u32 %r1, 1 + 1.5;", 1, 16, "+", "both sides integer or both floating-point (PTX ISA 4.5.4)"),
    ("mov.u32 %r1, ~1.5;", 1, 14, "~", "an integer constant after '~'"),
    ("mov.u32 %r1, 1.0 % 2.0;", 1, 18, "%", "integer constants around '%'"),
    ("mov.u32 %r1, 1 ? 2;", 1, 19, ";", "':' and the other value of this '?'"),
    ("mov.u32 %r1, 1 ? 2.0 : 3.0;", 1, 14, "1", "integer constants around '?:' (PTX ISA 4.5.4)"),
    ("mov.u32 %r1, (1 + %r2);", 1, 19, "%r2", "a constant: an integer, a float, or an expression of them"),
    ("mov.u32 %r1, (1 + 2;", 1, 20, ";", "')' closing the expression"),
    ("mov.u32 %r1, x[1;", 1, 17, ";", "']' closing the array index"),
    ("@p ;", 1, 4, ";", "an instruction after its guard"),
    ("@1 bra L;", 1, 2, "1", "the predicate after '@'"),
    ("@p {ret;}", 1, 4, "{", "an instruction after its guard"),
    ("foo$L1 ret;", 1, 1, "foo$L1", "an instruction, or ':' after a label"),
    ("$L1 ret;", 1, 1, "$L1", "an instruction, or ':' after a label"),
    (";", 1, 1, ";", A_STATEMENT),
    (".rge .b32 %r<4>;", 1, 1, ".rge", A_STATEMENT),
    ("é", 1, 1, "é", "PTX text"),
    (".reg .b32 %r<4>, ;", 1, 18, ";", "a register's name"),
    (".reg .b32 %r<x>;", 1, 14, "x", "how many registers: a decimal number"),
    (".reg .b32 %r<4;", 1, 15, ";", "'>' closing the count"),
    (".reg .b32 %r<4>", 2, 1, "}", "';' after the registers, or ',' and another"),
    (".reg %r<4>;", 1, 6, "%r", "a type such as .b32 or .f16x2"),
    (".reg .int %r;", 1, 6, ".int", "a type such as .b32 or .f16x2"),
    (".reg .b32 .b64 %r;", 1, 11, ".b64", "a variable's name"),
    (".shared .b32 x[4;", 1, 17, ";", "']' closing the array size"),
    (".shared .b32 x[n];", 1, 16, "n", "an array size: an integer of 0 or more"),
    (".shared .b32 x[-1];", 1, 16, "-", "an array size: an integer of 0 or more"),
    (".shared .b32 x[2][];", 1, 19, "]", "an array size: an integer of 0 or more"),
    (".shared .align 3 .b32 x;", 1, 16, "3", "an alignment: a power of two"),
    (".shared .b32 %r.x;", 1, 14, "%r.x", "a variable's name"),
    (".branchtargets a, b;", 1, 1, ".branchtargets", A_LABEL),
    ("t: .branchtargets a, 4;", 1, 22, "4", "a label or function"),
    ("c: .callprototype (.param .b32 x) f ();", 1, 35, "f", "'_' in place of the function's name"),
    (".pragma nounroll;", 1, 9, "nounroll", "a string such as \"nounroll\""),
    ('.pragma "nounroll;', 1, 9, '"', "'\"' closing this string on the same line"),
    (".loc 1 2", 1, 1, ".loc", A_LOCATION),
    ("mov.u32 %r1, /* never closed", 1, 14, "/*", "'*/' closing this comment"),
    ("{ ret;\n.visible .entry other() { ret; }", 2, 1, ".visible", "'}' closing the block opened at line 6"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "column", "found", "expected"), BODY_ERRORS)
def test_mistake_in_a_body(text: str, line: int, column: int, found: str, expected: str) -> None:
    told = error(in_body(text))
    assert (told.found, told.expected) == (found, expected)
    assert (told.line, told.column) == (line + 5, column)


A_DECLARATION = "a module-level declaration (.entry, .func, .global, .const, .shared, .extern, ...)"
ONE_MODULE = f"{A_DECLARATION}: one text is one module, with one .version and .target at its start"
NO_INSTRUCTION = f"{A_DECLARATION}: instructions and labels stand inside a function's body"
A_TARGET = "'.target' and an architecture such as sm_90, after .version"
MODULE_ERRORS = [
    ("", 1, 1, "end of file", "a PTX module: it starts with .version"),
    ("\n // only a comment\n", 2, 19, "end of file", "a PTX module: it starts with .version"),
    ("\0\0\0", 1, 1, "end of file", "a PTX module: it starts with .version"),
    ("hello", 1, 1, "hello", "a PTX module: it starts with .version"),
    ("__global__ void k() {}", 1, 1, "__global__", "a PTX module: it starts with .version"),
    ("\x7fELF\x02\x01\0\0", 1, 1, "ELF", "PTX text; this is a cubin (cuobjdump -ptx shows the PTX in an executable)"),
    (".version 8.0\n\0 ", 2, 1, "\0", "PTX text; this looks like a binary file"),
    (".version\n.target sm_80", 2, 1, ".target", "a version number such as 8.0"),
    (".version 8.0\n.entry k() { ret; }", 2, 1, ".entry", A_TARGET),
    (".version 8.0\n.target 80", 2, 9, "80", "an architecture such as sm_90"),
    (HEADER + ".address_size 48", 4, 15, "48", "32 or 64"),
    (HEADER + HEADER, 4, 1, ".version", ONE_MODULE),
    (HEADER + "mov.u32 %r1, 4;", 4, 1, "mov.u32", NO_INSTRUCTION),
    (HEADER + ".entry k() { ret; }\n}", 5, 1, "}", f"{A_DECLARATION}: no block is open here"),
    (HEADER + ".foo 4;", 4, 1, ".foo", A_DECLARATION),
    (HEADER + ".reg .b32 %r;", 4, 1, ".reg", "registers only inside a function"),
    (HEADER + ".visible k();", 4, 10, "k", ".entry, .func or a variable's state space after .visible"),
    (HEADER + ".entry (.param .b32 a) { ret; }", 4, 8, "(", "the function's name"),
    (HEADER + ".entry k(.b32 a) { ret; }", 4, 10, ".b32", "a parameter: .param or .reg, a type and a name"),
    (HEADER + ".entry k(.param .b32 a .param .b32 b)", 4, 24, ".param", "',' and another parameter, or ')'"),
    (HEADER + ".entry k(.param .b32 a", 4, 23, "end of file", "',' and another parameter, or ')'"),
    (HEADER + ".entry k() .maxntid 1, { }", 4, 24, "{", "another argument of .maxntid"),
    (HEADER + ".entry k() .reg .b32 %r<4>; ret; }", 4, 12, ".reg", "'{' opening the function's body, or ';'"),
    (HEADER + ".entry k()\n{\n{ ret;\n}\n", 7, 2, "end of file", "'}' closing the block opened at line 5"),
    (HEADER + ".entry k() { ret; /* }", 4, 19, "/*", "'*/' closing this comment"),
    (HEADER + ".section .debug_info\n{\n.b8 1", 6, 6, "end of file", "'}' closing the section opened at line 4"),
    (HEADER + ".section debug {}", 4, 10, "debug", "a section's name such as .debug_info"),
    (HEADER + ".global .b8 x[2] = {1, 2;", 4, 25, ";", "'}' closing the initialiser"),
    (HEADER + ".global .b8 x[2] = {{1, (2}};", 4, 27, "}", "a constant or a symbol of the initialiser"),
    (HEADER + '.global .b8 x[2] = "ab";', 4, 20, '"', "a constant or a symbol of the initialiser"),
    (HEADER + ".global .b8 x = ;", 4, 17, ";", "an initial value"),
    (HEADER + ".global .b8 x", 4, 14, "end of file", "';' after the declaration"),
    (HEADER + ".global x;", 4, 9, "x", "a type such as .b32 or .f16x2"),
    (HEADER + ".align 4 .b8 x;", 4, 14, "x", "a state space such as .global or .shared"),
    (HEADER + ".global .attribute(managed) .u32 x;", 4, 20, "managed", "an attribute such as .managed"),
    (HEADER + ".file one \"x\"", 4, 7, "one", "the file's number"),
    (HEADER + ".alias f;", 4, 9, ";", "',' and the function it stands for"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "column", "found", "expected"), MODULE_ERRORS)
def test_mistake_in_a_module(text: str, line: int, column: int, found: str, expected: str) -> None:
    told = error(text)
    assert (told.found, told.expected) == (found, expected)
    assert (told.line, told.column) == (line, column)


def test_whole_message(tmp_path: Path) -> None:
    file = tmp_path / "k.ptx"
    file.write_text(HEADER + ".entry k()\n{\n\tld.global.u32\t%r1, [%rd1+%rd2];\n}\n")
    with pytest.raises(PtxSyntaxError) as caught:
        parse_file(file)
    assert str(caught.value) == (
        f"{file}:6:27: found '%rd2', expected a constant offset (a PTX address adds no second register)\n"
        "     ld.global.u32 %r1, [%rd1+%rd2];\n"
        "                              ^"
    )
    assert caught.value.source_line == "\tld.global.u32\t%r1, [%rd1+%rd2];"
    assert caught.value.path == str(file)


def test_message_of_a_very_long_line_stays_short() -> None:
    told = error(HEADER + ".global .b8 x[9] = {" + "1, " * 100_000 + ";")
    assert told.column > 300_000
    assert len(str(told)) < 500


# ------------------------------------------------------------------------------------------------------------- hostile


MANY = 60_000
HOSTILE = {
    "blocks": in_body("{" * MANY),
    "parentheses": in_body("mov a, " + "(" * MANY),
    "signs": in_body("mov a, " + "-" * MANY + "1;"),
    "casts": in_body("mov a, " + "(.s64)" * MANY + "1;"),
    "deep operators": in_body("mov a, " + "(1||1&&1|1^1&1==1<1<<1+1*" * 90 + "1" + ")" * 90 + ";"),
    "conditionals": in_body("mov a, " + "1 ? 1 : " * MANY + "1;"),
    "long sum": in_body("mov a, " + "1+" * MANY + "1;"),
    "labels": in_body("a :\n" * MANY),
    "brackets": in_body("mov a, " + "[" * MANY + ";"),
    "open braces": in_body("mov " + "{a" * MANY + ";"),
    "close braces": in_body("mov " + "a}" * MANY + ";"),
    "endless vector": in_body("mov {" + "a," * MANY),
    "wide vector": in_body("mov {" + "a," * MANY + "a};"),
    "one line": HEADER + ".entry k() {" + "mov .u32 a,b;" * MANY + "}",
    "comments": in_body("/*/" * MANY + "//\n" * MANY),
    "dimensions": HEADER + ".global .b8 x" + "[1]" * MANY + " = 5;",
    "huge dimensions": HEADER + ".global .b8 x" + "[1 << 62]" * MANY + " = 5;",
    "initialiser braces": HEADER + ".global .b8 x[1] = " + "{" * MANY + "}" * MANY + ";",
    "open initialiser": HEADER + ".global .b8 x[1] = {" + "1," * MANY + ";",
    "huge array": HEADER + ".global .b8 x[1 << 62] = {1};",
    "quotes": in_body('"\n' * MANY),
    "parameters": HEADER + ".entry k(" + ".param .b32 a," * MANY + ")",
    "long number": in_body("mov a, " + "9" * MANY + ";"),
    "long fraction": in_body("mov a, " + "9" * MANY + ".0;"),
    "section": HEADER + ".section .debug_x {" + "/" * MANY,
    "pragmas": in_body('.pragma "used_bytes_mask 1";' * MANY),
    "blank": "\n" * MANY * 9,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_takes_linear_time(name: str) -> None:
    """Half a second at most when linear; a quadratic step anywhere would take minutes."""
    start = time.process_time()
    try:
        for variable in parse(HOSTILE[name]).variables:
            evaluate(variable)
    except PtxSyntaxError:
        pass
    assert time.process_time() - start < 10


# ---------------------------------------------------------------------------------------------------------------- fuzz


def outcome(text: str) -> Module | PtxSyntaxError:
    try:
        return parse(text)
    except PtxSyntaxError as told:
        return told


def token_by_token(text: str) -> Module | PtxSyntaxError:
    """The same without the short cut for common instructions."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(body, "_match_instruction", lambda text, position: None)
        return outcome(text)


def check(text: str) -> None:
    """A module, or one syntax error that points into the text, with and without the short cut; so for initialisers."""
    lines = text.rstrip("\0").split("\n")
    found, again = outcome(text), token_by_token(text)
    if isinstance(found, PtxSyntaxError):
        assert str(found) == str(again)
        assert 1 <= found.line <= len(lines)
        assert 1 <= found.column <= len(lines[found.line - 1]) + 1
        assert found.source_line == lines[found.line - 1]
        assert found.found and found.expected and found.expected in str(found)
        return
    assert found == again
    for variable in found.variables:
        try:
            data, relocations = evaluate(variable)
        except PtxSyntaxError as told:
            assert variable.line <= told.line <= len(lines)
            assert 1 <= told.column <= len(lines[told.line - 1]) + 1
        except UnsupportedError:
            assert variable.type.endswith("ref")
        else:
            assert all(0 <= r.offset <= len(data) - r.width for r in relocations)


WORDS = r"""
.version .target .entry .func .visible .extern .global .shared .param .reg .align .b32 .u64 .f32 .v4 .pred .ptr .loc
.file .section .pragma .alias .branchtargets .callprototype .attribute .noreturn .unified .texref .b8 mov.u32 ld.v2
call ret bra mma.sync @ ! %r1 %p1 p _ L1 WARP_SZ generic sm_80 8.0 4 0 -1 0x1F 0f3F800000 0d3FF0000000000000 1.5 1e5
089 0x { } [ ] ( ) < > , ; : :: + - * / % & | ^ ~ ? = == << >> && " // /* */ # "a" . .. \ ' $ % é
"""
TOKENS = [*WORDS.split(), "\0", "\n", "#1 "]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(TOKENS), max_size=40), st.sampled_from(["", HEADER, HEADER + ".entry k() {\n"]))
def test_token_soup(tokens: list[str], start: str) -> None:
    check(start + " ".join(tokens))


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60), st.sampled_from(["", HEADER, HEADER + ".entry k() {\n", HEADER + ".global .u32 x = "]))
def test_arbitrary_text(text: str, start: str) -> None:
    check(start + text)


SEEDS = [
    (DATA / name).read_text() for name in ("data.sm_80.ptx", "triton.histogram.sm_80.ptx", "vectors.nvrtc.sm_100a.ptx")
]


def mutate(text: str, rng: random.Random) -> str:
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(text))
        match rng.randrange(6):
            case 0:
                text = text[:at] + text[at + rng.randint(1, 30) :]
            case 1:
                text = text[:at] + rng.choice(TOKENS) + text[at:]
            case 2:
                text = text[:at] + rng.choice('{}[]();:,.@!%"/*\0\n 0x9_$é') + text[at + 1 :]
            case 3:
                lines = text.split("\n")
                lines.insert(rng.randrange(len(lines)), lines[rng.randrange(len(lines))])
                text = "\n".join(lines)
            case 4:
                lines = text.split("\n")
                del lines[rng.randrange(len(lines))]
                text = "\n".join(lines)
            case 5:
                end = rng.randint(at, min(len(text), at + 200))
                text = text[:at] + text[at:end] * 2 + text[end:]
    return text[: rng.randrange(len(text))] if rng.random() < 0.1 else text


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(SEEDS), st.integers(0, 2**32))
def test_mutated_ptx(text: str, seed: int) -> None:
    check(mutate(text, random.Random(seed)))


def test_errors_share_one_base() -> None:
    assert issubclass(PtxSyntaxError, TcsimError)
