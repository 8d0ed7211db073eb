"""Operands and instructions: every form the PTX parser knows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isa.ptx import (
    Address,
    Element,
    Group,
    Guard,
    Immediate,
    Instruction,
    Name,
    Not,
    Offset,
    Operand,
    Pair,
    Signed,
    Vector,
)
from tests.ptx_text import instruction

R = Name("%r1")


def operand(text: str) -> Operand:
    (only,) = instruction(f"x {text};").operands
    return only


def integer(value: int) -> Immediate:
    return Immediate(value, "int")


OPERANDS = {
    "%r1": R,
    "p": Name("p"),
    "$L__BB0_2": Name("$L__BB0_2"),
    "_": Name("_"),
    "%tid.x": Name("%tid.x"),
    "a.b0": Name("a.b0"),
    "_Z5twicefi": Name("_Z5twicefi"),
    "0": integer(0),
    "-4": integer(-4),
    "+4": integer(4),
    "0xFF": integer(255),
    "0XffU": integer(255),
    "017": integer(15),
    "0b101": integer(5),
    "0B11U": integer(3),
    "12U": integer(12),
    "18446744073709551615": integer(2**64 - 1),
    "-9223372036854775807": integer(-(2**63) + 1),
    "~0": integer(2**64 - 1),
    "!7": integer(0),
    "(4)": integer(4),
    "(1<<3)+2": integer(10),
    "1 + 2*3 - 8/3": integer(5),
    "7 % 4": integer(3),
    "-7/2": integer(-3),
    "-1>>1": integer(-1),
    "-1U>>1": integer(2**63 - 1),
    "1<<65": integer(2),
    "-1 < 1U": integer(0),
    "1 ? 2 : 3": integer(2),
    "0 ? 2 : 0 ? 3 : 4": integer(4),
    "6 & 3 == 3": integer(0),
    "1 | 2 ^ 3 & 4": integer(3),
    "3 && 0 || 2": integer(1),
    "(.s64)0xFFFFFFFFFFFFFFFF": integer(-1),
    "( .u64 ) -1": integer(2**64 - 1),
    "WARP_SZ": integer(32),
    "WARP_SZ - 1": integer(31),
    "-WARP_SZ": integer(-32),
    "9223372036854775807 + 1": integer(-(2**63)),
    "1.5 < 2.5": integer(1),
    "0f3F800000": Immediate(0x3F800000, "f32"),
    "0Fff800000": Immediate(0xFF800000, "f32"),
    "0d3FF0000000000000": Immediate(0x3FF0000000000000, "f64"),
    "0D7ff0000000000001": Immediate(0x7FF0000000000001, "f64"),
    "1.0": Immediate(0x3FF0000000000000, "f64"),
    "-1.5": Immediate(0xBFF8000000000000, "f64"),
    "-0.0": Immediate(0x8000000000000000, "f64"),
    "1.": Immediate(0x3FF0000000000000, "f64"),
    ".5": Immediate(0x3FE0000000000000, "f64"),
    "09.5": Immediate(0x4023000000000000, "f64"),
    "1e3": Immediate(0x408F400000000000, "f64"),
    "1.0E-1": Immediate(0x3FB999999999999A, "f64"),
    "1e999": Immediate(0x7FF0000000000000, "f64"),
    "1.0/3.0": Immediate(0x3FD5555555555555, "f64"),
    "!p": Not("p"),
    "! %p1": Not("%p1"),
    "-%r1": Signed("-", "%r1"),
    "~ %r1.b0": Signed("~", "%r1.b0"),
    "%r1|%p1": Pair(R, Name("%p1")),
    "_ | p": Pair(Name("_"), Name("p")),
    "p|_": Pair(Name("p"), Name("_")),
    "{%r1}": Vector((R,)),
    "{ %r1 }": Vector((R,)),
    "{%r1, _, 0f00000000, -1, (2)}": Vector((R, Name("_"), Immediate(0, "f32"), integer(-1), integer(2))),
    "{%r1,_}|p": Pair(Vector((R, Name("_"))), Name("p")),
    "[%r1]": Address(R),
    "[ %r1 ]": Address(R),
    "[%r1+16]": Address(R, 16),
    "[%r1+-16]": Address(R, -16),
    "[%r1-16]": Address(R, -16),
    "[%r1 + 0]": Address(R, 0),
    "[%r1+0x10]": Address(R, 16),
    "[%r1+4*8+(1<<4)]": Address(R, 48),
    "[%r1+~3]": Address(R, -4),
    "[%r1 + WARP_SZ]": Address(R, 32),
    "[sym+4]": Address(Name("sym"), 4),
    "[64]": Address(integer(64)),
    "[64+4]": Address(integer(68)),
    "[%r1].unified": Address(R, unified=True),
    "[%rd1, {%r1, %r2}]": Address(Name("%rd1"), 0, (Vector((R, Name("%r2"))),)),
    "[ %rd1 + 8 , { %r1 } ]": Address(Name("%rd1"), 8, (Vector((R,)),)),
    "[tex, sampler, {%f1}]": Address(Name("tex"), 0, (Name("sampler"), Vector((Name("%f1"),)))),
    "[surf, %r1]": Address(Name("surf"), 0, (R,)),
    "table+16": Offset("table", 16),
    "table + -4": Offset("table", -4),
    "table[5]": Element("table", None, 5),
    "table[%r1]": Element("table", R, 0),
    "table[%r1+1]": Element("table", R, 1),
    "(a)": Group((Name("a"),)),
    "(a, 4, _)": Group((Name("a"), integer(4), Name("_"))),
    "()": Group(()),
}


@pytest.mark.parametrize("text", OPERANDS)
def test_operand(text: str) -> None:
    assert operand(text) == OPERANDS[text]
    # The same among others, and with a comment inside the statement, which takes the token-by-token path.
    assert instruction(f"x {text} , {text},_;").operands == (OPERANDS[text], OPERANDS[text], Name("_"))
    assert instruction(f"x /* ; */ {text} // ,\n;").operands == (OPERANDS[text],)


def test_wide_vector() -> None:
    names = [f"%r{i}" for i in range(128)]
    assert operand("{" + ", ".join(names) + "}") == Vector(tuple(map(Name, names)))


def render(node: Operand) -> str:
    match node:
        case Name(name):
            return name
        case Not(name):
            return f"!{name}"
        case Signed(op, name):
            return op + name
        case Immediate(value, kind):
            return str(value) if kind == "int" else f"0f{value:08X}" if kind == "f32" else f"0d{value:016x}"
        case Pair(first, second):
            return f"{render(first)}|{render(second)}"
        case Vector(elements):
            return "{" + ", ".join(map(render, elements)) + "}"
        case Offset(name, offset):
            return f"{name}+{offset}"
        case Element(name, index, offset):
            return f"{name}[{render(index)}+{offset}]" if index else f"{name}[{offset}]"
        case Address(base, offset, extra, unified):
            inside = ", ".join([render(base) + (f"+{offset}" if offset else ""), *map(render, extra)])
            return f"[{inside}]" + (".unified" if unified else "")
    raise AssertionError(node)


names = st.builds(Name, st.from_regex(r"(?:[%$_]?[a-z][a-z0-9_$]{0,5}(?:\.[xyzw])?|_)", fullmatch=True))
plain = st.from_regex(r"[%$]?[a-z][a-z0-9_$]{0,5}", fullmatch=True)
immediates = st.one_of(
    st.builds(Immediate, st.integers(-(2**63) + 1, 2**64 - 1), st.just("int")),
    st.builds(Immediate, st.integers(0, 2**32 - 1), st.just("f32")),
    st.builds(Immediate, st.integers(0, 2**64 - 1), st.just("f64")),
)
offsets = st.integers(-(2**31), 2**31)
vectors = st.builds(lambda e: Vector(tuple(e)), st.lists(st.one_of(names, immediates), min_size=1, max_size=9))
extras = st.builds(tuple, st.lists(st.one_of(names, vectors), max_size=2))
operands = st.one_of(
    names,
    immediates,
    vectors,
    st.builds(Not, plain),
    st.builds(Signed, st.sampled_from("-~"), plain),
    st.builds(Pair, st.one_of(names, vectors), names),
    st.builds(Offset, plain, offsets),
    st.builds(Element, plain, st.one_of(st.none(), names), offsets),
    st.builds(Address, names, offsets, extras, st.booleans()),
)


@given(st.lists(operands, min_size=1, max_size=5))
def test_operands_round_trip(nodes: list[Operand]) -> None:
    assert instruction(f"x.y {', '.join(map(render, nodes))};").operands == tuple(nodes)


expressions = st.recursive(
    st.integers(0, 2**63 - 1).map(str),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*&|^"), inner).map(" ".join),
        inner.map("({})".format),
        inner.map("-({})".format),
    ),
    max_leaves=20,
)


@given(expressions)
def test_constant_expressions_agree_with_python(text: str) -> None:
    """These operators agree with Python's on exact integers once both are cut to 64 bits."""
    value = operand(f"0+{text}")
    assert isinstance(value, Immediate)
    assert value.value % 2**64 == eval(f"0+{text}") % 2**64


# ------------------------------------------------------------------------------------------------------- instructions


@pytest.mark.parametrize(
    "opcode",
    [
        "ret",
        "mov.u32",
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
        "cp.async.cg.shared.global.L2::128B",
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes",
        "tcgen05.wait::ld.sync.aligned",
        "tcgen05.ld.sync.aligned.16x32bx2.x32.b32",
        "atom.global.gpu.acq_rel.add.noftz.v8.f16",
        "made_up.opcode.of.2040",
    ],
)
def test_any_opcode(opcode: str) -> None:
    assert instruction(f"{opcode};") == Instruction(opcode, (), None, 6, 1, None)
    assert instruction(f"@p {opcode} %r1 ;") == Instruction(opcode, (R,), Guard("p", False), 6, 1, None)


@pytest.mark.parametrize("text", ["mov .u32 %r1, 4;", "mov/**/.u32 %r1, 4;", "mov.u32\t%r1 , 4 ;", "mov.u32%r1,\r\n4;"])
def test_spelling_of_an_instruction(text: str) -> None:
    assert instruction(text) == Instruction("mov.u32", (R, integer(4)), None, 6, 1, None)


@pytest.mark.parametrize(
    ("text", "negated"), [("@%p1", False), ("@!%p1", True), ("@ ! %p1", True), ("@/**/%p1", False)]
)
def test_guard(text: str, negated: bool) -> None:
    assert instruction(f"{text} bra L;").guard == Guard("%p1", negated)


CALLS = {
    "call f;": (Name("f"),),
    "call.uni f, (a, 5);": (Name("f"), Group((Name("a"), integer(5)))),
    "call f, (5);": (Name("f"), Group((integer(5),))),
    "call (), f, ();": (Group(()), Name("f"), Group(())),
    "call(r),f,((1<<2)+1);": (Group((Name("r"),)), Name("f"), Group((integer(5),))),
    "call.uni (r0),\n%rd1,\n(\np0,\np1\n)\n, proto;": (
        Group((Name("r0"),)),
        Name("%rd1"),
        Group((Name("p0"), Name("p1"))),
        Name("proto"),
    ),
}


@pytest.mark.parametrize("text", CALLS)
def test_call(text: str) -> None:
    assert instruction(text).operands == CALLS[text]


def test_tensor_operands() -> None:
    found = instruction("cp.async.bulk.tensor.3d.x [%r1], [%rd1, {%r2, %r3, 0}], [%r4+8], {%h1, %h2}, %h3;")
    assert found.operands == (
        Address(R),
        Address(Name("%rd1"), 0, (Vector((Name("%r2"), Name("%r3"), integer(0))),)),
        Address(Name("%r4"), 8),
        Vector((Name("%h1"), Name("%h2"))),
        Name("%h3"),
    )
