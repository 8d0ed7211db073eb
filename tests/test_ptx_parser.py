"""What the PTX parser makes of statements, declarations, functions and modules, and of real compilers' output.

Operands are in ``test_ptx_operands.py``, mistakes and hostile input in ``test_ptx_syntax_errors.py``, initialisers in
``test_ptx_initializers.py``.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from isa.errors import TcsimError
from isa.ptx import (
    Address,
    Block,
    Directive,
    Function,
    Guard,
    Immediate,
    Instruction,
    Label,
    Location,
    Module,
    Name,
    Registers,
    Variable,
    Vector,
    body,
    parse,
    parse_file,
)
from tests.ptx_text import DATA, HEADER, instructions, statements, walk

REAL = sorted(DATA.glob("*.ptx"))
R = Name("%r1")


def module(text: str) -> Module:
    """A module with this text after the header, starting at line 4."""
    return parse(HEADER + text)


# --------------------------------------------------------------------------------------------- statements and positions


def test_positions() -> None:
    found = statements(
        "  .reg .b32 %r<3>, x, %s<1>;\n"
        "L1: L2:\tmov.u32 %r1, 1; @!p /* two\nlines */ bra L1; { .reg .pred p; L1: ret; }\n"
        "// a comment; with a semicolon\n"
        "    add.s32\n  %r1, %r1,\n 1;\n"
        '#line 3 "somewhere else"\n'
        "end:"
    )
    inner = Block((Registers("pred", ("p",), (), 8), Label("L1", 8), Instruction("ret", (), None, 8, 38, None)), 8)
    assert found == (
        Registers("b32", ("x",), (("%r", 3), ("%s", 1)), 6),
        Label("L1", 7),
        Label("L2", 7),
        Instruction("mov.u32", (R, Immediate(1, "int")), None, 7, 9, None),
        Instruction("bra", (Name("L1"),), Guard("p", True), 7, 25, None),
        inner,
        Instruction("add.s32", (R, R, Immediate(1, "int")), None, 10, 5, None),
        Label("end", 14),
    )


def test_scopes_keep_their_own_labels_and_registers() -> None:
    scope = "{ .reg .pred P1; WAIT: @P1 bra DONE; bra WAIT; DONE: }\n"
    first, second = statements(scope + scope)
    assert isinstance(first, Block) and isinstance(second, Block)
    assert [type(s) for s in first.statements] == [Registers, Label, Instruction, Instruction, Label]
    assert [s.name for s in second.statements if isinstance(s, Label)] == ["WAIT", "DONE"]
    assert (first.line, second.line) == (6, 7)


def test_loc() -> None:
    found = statements(
        "nop; .loc 1 2 3\nnop; nop;\n"
        ".loc 2 4 5, function_name $L__info_string0, inlined_at 1 2 3 // two.py:4:5\nnop;\n"
        "{ .loc 1\t9\n0 nop; }\nnop; .loc 1 7 0, function_name f + 16, inlined_at 3 2 1\nnop;"
    )
    flat = [s for s in walk(Block(found, 0)) if isinstance(s, Instruction)]
    inlined = Location(2, 4, 5, "$L__info_string0", (1, 2, 3))
    nested = Location(1, 9, 0)
    assert [s.loc for s in flat] == [
        None,
        Location(1, 2, 3),
        Location(1, 2, 3),
        inlined,
        nested,
        nested,
        Location(1, 7, 0, "f + 16", (3, 2, 1)),
    ]


def test_loc_does_not_leak_into_the_next_function() -> None:
    found = instructions(module(".entry a() { .loc 1 2 3\n nop; } .entry b() { nop; }"))
    assert [s.loc for s in found] == [Location(1, 2, 3), None]


def test_local_is_not_a_loc() -> None:
    (variable,) = statements(".local .align 16 .b8 \t__local_depot0[160];")
    assert variable == Variable("__local_depot0", "local", "b8", (160,), 16, "", 6)


def test_labelled_directives() -> None:
    found = statements(
        "ts: .branchtargets L1, L2<3>;\n"
        "fs : .calltargets f, g;\n"
        "proto : .callprototype (.param .align 8 .b8 _[16]) _ (.param .b32 _, .reg .b64 x) .noreturn .abi_preserve 8;\n"
        "none: .callprototype _ ();"
    )
    returns = (Variable("_", "param", "b8", (16,), 8, "", 8),)
    params = (Variable("_", "param", "b32", (), None, "", 8), Variable("x", "reg", "b64", (), None, "", 8))
    assert found == (
        Directive("branchtargets", ("L1", "L2<3>"), 6, "ts"),
        Directive("calltargets", ("f", "g"), 7, "fs"),
        Directive("callprototype", ("noreturn", "abi_preserve 8"), 8, "proto", returns, params),
        Directive("callprototype", (), 9, "none"),
    )


def test_pragmas() -> None:
    found = statements(
        'L: .pragma "nounroll";\n.pragma "used_bytes_mask 0xf0ff"; .loc 1 2 3\n@p ld.v4.u32 {a,b,c,d}, [e];\n'
        'add x, y, z; .pragma "used_bytes_mask 1"; M: .pragma "a", "b;{"; .pragma "used_bytes_mask 2";'
    )
    load = found[2]
    assert isinstance(load, Instruction) and load.pragma == "used_bytes_mask 0xf0ff" and load.loc == Location(1, 2, 3)
    add = found[3]
    assert isinstance(add, Instruction) and add.pragma is None
    assert (found[1], *found[4:]) == (
        Directive("pragma", ("nounroll",), 6),
        Directive("pragma", ("used_bytes_mask 1",), 9),
        Label("M", 9),
        Directive("pragma", ("a", "b;{"), 9),
        Directive("pragma", ("used_bytes_mask 2",), 9),
    )


# ------------------------------------------------------------------------------------------------------- declarations

VARIABLES = {
    ".global .u32 x;": Variable("x", "global", "u32", (), None, "", 4),
    ".visible .global .align 8 .b8 x[16];": Variable("x", "global", "b8", (16,), 8, "visible", 4),
    ".align 8 .global .f64 x;": Variable("x", "global", "f64", (), 8, "", 4),
    ".extern .shared .align 128 .b8 x[];": Variable("x", "shared", "b8", (-1,), 128, "extern", 4),
    ".weak .const .f32 x[2][(1<<3)+2];": Variable("x", "const", "f32", (2, 10), None, "weak", 4),
    ".common .global .b32 x[][4];": Variable("x", "global", "b32", (-1, 4), None, "common", 4),
    ".shared::cta .v4 .f32 $x$1[WARP_SZ];": Variable("$x$1", "shared::cta", "f32", (32,), None, "", 4, vector=4),
    ".global .b16 x<3>;": Variable("x", "global", "b16", (), None, "", 4, count=3),
    ".global .texref x;": Variable("x", "global", "texref", (), None, "", 4),
    ".tex .u64 x;": Variable("x", "tex", "u64", (), None, "", 4),
    ".global .e4m3x2 x;": Variable("x", "global", "e4m3x2", (), None, "", 4),
    ".global .attribute(.managed, .unified(0x1F, 2)) .align 4 .u32 x;": Variable(
        "x", "global", "u32", (), 4, "", 4, attributes=("managed", "unified(31,2)")
    ),
}  # fmt: skip


@pytest.mark.parametrize("text", VARIABLES)
def test_variable(text: str) -> None:
    assert module(text).variables == (VARIABLES[text],)


def test_several_variables_in_one_declaration() -> None:
    first, second, third = module(".global .u32 a, b[2] = {1, 2},\n c = 5;").variables
    assert (first.name, second.name, third.name, third.line) == ("a", "b", "c", 5)
    assert first.init is None
    assert second.init is not None and (second.init.text, second.init.line, second.init.column) == ("{1, 2}", 4, 24)
    assert third.init is not None and third.init.text == "5"


@pytest.mark.parametrize(
    "text",
    [
        "{1, -2, 0x3}",
        "{{1, 2}, {3}}",
        "generic(values)+12",
        "{generic(a), 0, generic(b)+28, f}",
        "{0xff(a), 0xff00(generic(a)+4)}",
        "(1 ? 2 : 3) + 4",
        "0d400921FB54442D11",
        "{addr_mode_0 = clamp_to_border, filter_mode = nearest}",
        "{1 /* } ; */, // {\n 2}",
    ],
)
def test_initializer_is_kept_as_written(text: str) -> None:
    a, b = module(f".global .u32 a = {text}, b;").variables
    assert a.init is not None and a.init.text == text
    assert b.init is None


def test_registers() -> None:
    found = statements(".reg .pred p, %p<4>; .reg .v4 .f32 v; .reg .b128 %rq<2>; .reg .align 8 .f16x2 h;")
    assert found == (
        Registers("pred", ("p",), (("%p", 4),), 6),
        Registers("f32", ("v",), (), 6, 4),
        Registers("b128", (), (("%rq", 2),), 6),
        Registers("f16x2", ("h",), (), 6),
    )


def test_declarations_in_a_body() -> None:
    found = statements("{ .param .align 16 .b8 p0[16]; .param .b32 q<2>; .shared .b32 s[4], t; }")
    assert isinstance(found[0], Block)
    assert found[0].statements == (
        Variable("p0", "param", "b8", (16,), 16, "", 6),
        Variable("q", "param", "b32", (), None, "", 6, count=2),
        Variable("s", "shared", "b32", (4,), None, "", 6),
        Variable("t", "shared", "b32", (), None, "", 6),
    )


# ---------------------------------------------------------------------------------------------------------- functions


def parameter(name: str, type_: str, line: int = 4, **more: object) -> Variable:
    return Variable(name, "param", type_, (), None, "", line, **more)  # type: ignore[arg-type]


FUNCTIONS = {
    ".entry k { ret; }": ("k", "entry", "", 0, 0, ()),
    ".visible .entry k() .maxntid 1,2,3 .minnctapersm 2 { ret; }": (
        "k", "entry", "visible", 0, 0,
        (Directive("maxntid", ("1", "2", "3"), 4), Directive("minnctapersm", ("2",), 4)),
    ),
    ".weak .entry k(.param .u64 a, .param .b8 b[4])\n.reqntid 128\n.reqnctapercluster 2,1,1\n.explicitcluster {ret;}": (
        "k", "entry", "weak", 2, 0,
        (Directive("reqntid", ("128",), 5), Directive("reqnctapercluster", ("2", "1", "1"), 6),
         Directive("explicitcluster", (), 7)),
    ),
    '.entry k() .maxnreg 32 .pragma "a"; .brand_new 4 { ret; }': (
        "k", "entry", "", 0, 0,
        (Directive("maxnreg", ("32",), 4), Directive("pragma", ("a",), 4), Directive("brand_new", ("4",), 4)),
    ),
    ".func f { ret; }": ("f", "func", "", 0, 0, ()),
    ".func () f () { ret; }": ("f", "func", "", 0, 0, ()),
    ".visible .func (.param .align 4 .b8 r[16]) f(.param .b32 a) { ret; }": ("f", "func", "visible", 1, 1, ()),
    ".func (.reg .b32 r, .reg .pred s) f (.reg .b32 n) .noreturn { ret; }": (
        "f", "func", "", 1, 2, (Directive("noreturn", (), 4),),
    ),
    ".func .attribute(.unified(1, 2)) f() { ret; }": (
        "f", "func", "", 0, 0, (Directive("attribute", ("unified(1,2)",), 4),),
    ),
}  # fmt: skip


@pytest.mark.parametrize("text", FUNCTIONS)
def test_function(text: str) -> None:
    (function,) = module(text).functions
    name, kind, linkage, params, returns, directives = FUNCTIONS[text]
    assert (function.name, function.kind, function.linkage, function.directives) == (name, kind, linkage, directives)
    assert (len(function.params), len(function.returns), function.line) == (params, returns, 4)
    assert function.body is not None and [type(s) for s in function.body.statements] == [Instruction]


def test_parameters() -> None:
    (function,) = module(
        ".entry k(\n\t.param .u64 .ptr .global .align 16 a,\n\t.param .u64 .ptr b,\n\t.param .b64 .ptr .align 8 c,\n"
        "\t.param .align 64 .b8 d[128],\n\t.param .align 8 .u64 .ptr .shared e,\n\t.param .b8 f[],\n"
        "\t.param .texref g\n)\n{}"
    ).functions
    assert function.params == (
        parameter("a", "u64", 5, ptr=("global", 16)),
        parameter("b", "u64", 6, ptr=("", None)),
        parameter("c", "b64", 7, ptr=("", 8)),
        Variable("d", "param", "b8", (128,), 64, "", 8),
        Variable("e", "param", "u64", (), 8, "", 9, ptr=("shared", None)),
        Variable("f", "param", "b8", (-1,), None, "", 10),
        parameter("g", "texref", 11),
    )
    assert function.body == Block((), 13)


@pytest.mark.parametrize(
    "text",
    [
        ".extern .func f;",
        ".extern .func (.param .b32 func_retval0) vprintf\n(\n\t.param .b64 a,\n\t.param .b64 b\n)\n;",
        ".extern .func f() .noreturn;",
        ".extern .func __assertfail\n(\n.param .b64 p\n)\n.noreturn;",
    ],
)
def test_function_declaration(text: str) -> None:
    (function,) = module(text).functions
    assert function.body is None and function.linkage == "extern"


# ------------------------------------------------------------------------------------------------------------- modules


def test_module() -> None:
    text = (
        "/* made by hand */ .version 99.7 .target sm_90a, texmode_independent, debug .address_size 64\n"
        '.file 1 "a \\ b.cu", 1234, 55\n'
        '.pragma "nounroll";\n'
        ".func f();\n.alias g, f;\n"
        '.section .debug_str { info: .b8 1, 2 // } \n /* } */ .b32 .debug_abbrev, f+4 .b8 "}" }\n'
        ".section\t.debug_loc\n{\n}\n"
        ".entry k() { ret; }\n"
        '.file 7 "b.py"\n'
    )
    found = parse(text, path="x.ptx")
    assert found == Module(
        (99, 7), "sm_90a", ("texmode_independent", "debug"), 64, (),
        (Function("f", "func", "", (), (), (), None, 4),
         Function("k", "entry", "", (), (), (), Block((Instruction("ret", (), None, 11, 14, None),), 11), 11)),
        (Directive("pragma", ("nounroll",), 3), Directive("alias", ("g", "f"), 5)),
        {1: "a \\ b.cu", 7: "b.py"}, (".debug_str", ".debug_loc"), text, "x.ptx",
    )  # fmt: skip


def test_minimal_module() -> None:
    found = parse(".version 1.0 .target sm_80")
    assert (found.version, found.address_size, found.functions, found.path) == ((1, 0), 64, (), None)


def test_trailing_nul_is_ignored() -> None:
    assert parse(HEADER + "\0") == parse(HEADER)


def test_parse_file(tmp_path: Path) -> None:
    file = tmp_path / "k.ptx"
    file.write_bytes(
        "\ufeff".encode() + HEADER.replace("\n", "\r\n").encode() + b"// caf\xe9\r\n.entry k()\r\n{ ret; }\r\n"
    )
    found = parse_file(file)
    assert found.path == str(file)
    assert found.functions[0].line == 5


@pytest.mark.parametrize("name", ["missing.ptx", ""])
def test_parse_file_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    with pytest.raises(TcsimError, match="cannot read this PTX file"):
        parse_file(tmp_path / name)


# ------------------------------------------------------------------------------------------------------ real compilers


def without_comments(text: str) -> str:
    """Comments, strings and debug sections blanked out, every other character where it was."""
    pattern = r'//[^\n]*|/\*(?s:.*?)\*/|"[^"\n]*"|\.section[^{]*\{[^}]*\}'
    return re.sub(pattern, lambda m: re.sub(r"[^\n]", " ", m[0]), text)


@pytest.mark.parametrize("path", REAL, ids=lambda p: p.name)
def test_real_instructions_all_found(path: Path) -> None:
    """As many as a plain count of the ';' that end neither a directive nor a declaration."""
    text = without_comments(path.read_text())
    text = re.sub(r"^\s*\.loc\b.*", "", text, flags=re.MULTILINE)
    text = re.sub(r"(?:\.(?:visible|weak|extern)\s+)?\.(?:entry|func)\b[^{;]*\{", "", text)
    chunks = (re.sub(r"^(?:\s|[{}]|[\w$]+\s*:)+", "", chunk) for chunk in text.split(";")[:-1])
    expected = sum(not chunk.startswith(".") for chunk in chunks)
    assert len(instructions(parse_file(path))) == expected


@pytest.mark.parametrize("path", REAL, ids=lambda p: p.name)
def test_real_positions(path: Path) -> None:
    """Each instruction's line and column point at its first character, its location is the last ``.loc`` above."""
    module = parse_file(path)
    lines = without_comments(module.source).split("\n")
    latest, locations = None, []
    for line in lines:
        match = re.match(r"\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)", line)
        latest = tuple(map(int, match.groups())) if match else latest
        locations.append(latest)
    for found in instructions(module):
        start = found.opcode if found.guard is None else "@"
        assert lines[found.line - 1].startswith(start, found.column - 1)
        at = locations[found.line - 1]
        assert at is None or found.loc is None or (found.loc.file, found.loc.line, found.loc.column) == at
    assert {s.loc.file for s in instructions(module) if s.loc} <= set(module.files)


@pytest.mark.parametrize("path", REAL, ids=lambda p: p.name)
def test_both_ways_of_reading_instructions_agree(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = parse_file(path)
    monkeypatch.setattr(body, "_match_instruction", lambda text, position: None)
    assert parse_file(path) == quick


def test_real_debug_build() -> None:
    found = parse_file(DATA / "calls.debug.sm_80.ptx")
    assert found.sections == (".debug_loc", ".debug_abbrev", ".debug_info", ".debug_macinfo")
    assert found.files == {1: "/src/calls.cu"}
    prototypes = [s for f in found.functions if f.body for s in walk(f.body) if isinstance(s, Directive) and s.label]
    assert [(d.name, d.label, len(d.returns), len(d.params)) for d in prototypes] == [
        ("callprototype", "prototype_2", 1, 2),
        ("callprototype", "prototype_3", 1, 2),
    ]


def test_real_triton() -> None:
    found = parse_file(DATA / "triton.softmax.sm_80.ptx")
    (kernel,) = found.functions
    assert kernel.directives == (Directive("reqntid", ("128",), kernel.line + 8),)
    assert kernel.params[0] == parameter("softmax_param_0", "u64", kernel.line + 1, ptr=("global", 1))
    loads = [s for s in instructions(found) if s.opcode == "ld.global.b32" and s.guard]
    assert len(loads) == 8
    assert all(isinstance(s.operands[0], Vector) and isinstance(s.operands[1], Address) for s in loads)
    assert any(s.loc and s.loc.function and s.loc.inlined_at for s in instructions(found))


def test_real_partial_loads() -> None:
    found = instructions(parse_file(DATA / "vectors.nvrtc.sm_100a.ptx"))
    assert [s.opcode for s in found if s.pragma == "used_bytes_mask 0xf00f"] == ["ld.global.v4.b32"]
