"""The bytes and relocations of initialised variables, against what ptxas 13.0 put into the same variable's section."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isa.errors import PtxSyntaxError, UnsupportedError
from isa.ptx import Variable, parse, parse_file
from isa.ptx.initializers import MAX_BYTES, Relocation, evaluate
from tests.ptx_text import DATA, HEADER


def variable(text: str) -> Variable:
    (only,) = parse(f"{HEADER}.global {text};").variables
    return only


# Recorded with ptxas 13.0 for sm_90a from .nv.constant3, 32-bit words in memory order.
BYTES = {
    ".u32 x": "00000000",
    ".u32 x = -1": "ffffffff",
    ".u8 x = 300": "2c",
    ".s8 x = -129": "7f",
    ".u32 x = 1<<40": "00000000",
    ".u32 x[] = {1,2,3}": "01000000 02000000 03000000",
    ".u32 x[2] = {}": "00000000 00000000",
    ".u32 x[2][3] = {{1},{2,3}}": "01000000 02000000 03000000 00000000 00000000 00000000",
    ".u32 x[][2] = {{1,2},{3}}": "01000000 02000000 03000000 00000000",
    ".u32 x[3] = {WARP_SZ, 1?2:3, (1<<3)+2}": "20000000 02000000 0a000000",
    ".v4 .f32 x = {1.0,2.0,3.0,4.0}": "0000803f 00000040 00004040 00008040",
    ".v2 .u32 x[2] = {{1,2},{3,4}}": "01000000 02000000 03000000 04000000",
    ".align 16 .v2 .f64 x[2] = {{1.0,2.0}}": "00000000 0000f03f 00000000 00000040" + "00" * 16,
    ".v4 .u8 x = {1,2,3,4}": "01020304",
    ".f32 x[4] = {1.0/3.0, 1e40, 1e-45, -0.0}": "abaaaa3e 0000807f 01000000 00000080",
    ".f32 x[2] = {(1.5), -(2.5)}": "0000c03f 000020c0",
    ".f32 x = 0d3FF0000000000000": "0000803f",
    ".f64 x = 0d400921FB54442D11": "112d4454 fb210940",
    ".f64 x = 0f3F800000": "0000803f 00000000",
    ".b32 x = 1.0": "0000803f",
    ".b32 x = 0f3F800000": "0000803f",
    ".b64 x = 1.5": "00000000 0000f83f",
    ".b128 x = 1": "01000000 00000000 00000000 00000000",
    ".s64 x[2] = {7/2, -7/2}": "03000000 00000000 fdffffff ffffffff",
    ".s64 x[2] = {-7 % 3, 7 % -3}": "00000000 00000000 07000000 00000000",
    ".s64 x[2] = {-1>>1, -1U>>1}": "ffffffff ffffffff ffffffff ffffff7f",
    ".s64 x[2] = {1<<64, 1<<-1}": "01000000 00000000 00000000 00000080",
    ".s64 x[2] = {(~0) < 0, ~0}": "00000000 00000000 ffffffff ffffffff",
    ".s64 x[2] = {-1<1U, (.u64)-1>1}": "00000000 00000000 01000000 00000000",
    ".s64 x[2] = {(1?-1:1U)>0, 1.5<2.5}": "00000000 00000000 01000000 00000000",
    ".s64 x[2] = {6&3==3, 1|2^3&4}": "00000000 00000000 03000000 00000000",
    ".s64 x[2] = {~0U, -5U/2}": "ffffffff ffffffff fdffffff ffffff7f",
    ".s64 x[2] = {9223372036854775807+1, -9223372036854775807-2}": "00000000 00000080 ffffffff ffffff7f",
}


@pytest.mark.parametrize("text", BYTES)
def test_bytes(text: str) -> None:
    data, relocations = evaluate(variable(text))
    assert data == bytes.fromhex(BYTES[text])
    assert relocations == []


@pytest.mark.parametrize(("type_", "size"), [("f16", 2), ("bf16", 2), ("f16x2", 4), ("b128", 16), ("s16", 2)])
def test_uninitialised_is_zero(type_: str, size: int) -> None:
    assert evaluate(variable(f".{type_} x[3][2]")) == (bytearray(6 * size), [])


ADDRESSES = {
    ".u64 x[2] = {foo, foo+4}": [Relocation(0, 8, "foo", 0, False, None), Relocation(8, 8, "foo", 4, False, None)],
    ".u64 x = generic(foo)+12": [Relocation(0, 8, "foo", 12, True, None)],
    ".u64 x[3] = {0, generic ( foo ) + 4 + 4*2}": [Relocation(8, 8, "foo", 12, True, None)],
    ".u64 x[1] = {foo+-4}": [Relocation(0, 8, "foo", -4, False, None)],
    ".u32 x[2] = {7, foo+(1<<3)}": [Relocation(4, 4, "foo", 8, False, None)],
    ".u8 x[3] = {0xff(foo), 0xFF00(generic(foo)+4), 65280(foo)}": [
        Relocation(0, 1, "foo", 0, False, 0xFF),
        Relocation(1, 1, "foo", 4, True, 0xFF00),
        Relocation(2, 1, "foo", 0, False, 0xFF00),
    ],
    ".b8 x[1] = {0xFF00000000000000(generic(foo)+8)}": [Relocation(0, 1, "foo", 8, True, 0xFF << 56)],
    ".u64 x[2][2] = {{1, foo}, {bar}}": [
        Relocation(8, 8, "foo", 0, False, None),
        Relocation(16, 8, "bar", 0, False, None),
    ],
}


@pytest.mark.parametrize("text", ADDRESSES)
def test_addresses(text: str) -> None:
    data, relocations = evaluate(variable(text))
    assert relocations == ADDRESSES[text]
    for found in relocations:
        assert not any(data[found.offset : found.offset + found.width])


A_VALUE = "a constant, a symbol, generic(symbol) or mask(symbol)"
MISTAKES = [
    (".u32 x[2] = {1,2,3}", 26, "3", "'}': this list holds 2 values"),
    (".u32 x[2] = {1,,2}", 24, ",", A_VALUE),
    (".u32 x[2] = {1,}", 24, "}", A_VALUE),
    (".u32 x[2] = {1 2}", 24, "2", "',' and another value, or '}'"),
    (".u32 x[2] = 5", 21, "5", "'{' and a list: x is an array or a vector"),
    (".u32 x = {5}", 18, "{", A_VALUE),
    (".u32 x[2][3] = {1,2,3,4}", 25, "1", "'{' and a list: x is an array or a vector"),
    (".u32 x[2] = {{1}}", 22, "{", A_VALUE),
    (".v4 .u8 x = {1,2}", 25, "}", "4 values for a vector"),
    (".v2 .u32 x[2] = {1,2}", 26, "1", "'{' and a list: x is an array or a vector"),
    (".f32 x = 1", 18, "1", "a floating-point constant such as 1.0: x is .f32"),
    (".f32 x[2] = {1.0, 7/2}", 27, "7", "a floating-point constant such as 1.0: x is .f32"),
    (".u32 x = 1.5", 18, "1.5", "an integer constant: x is .u32"),
    (".b16 x = 0f3F800000", 18, "0f3F800000", "an integer constant: x is .b16"),
    (".f16 x = 1.0", 18, "1.0", "no initialiser: x is .f16"),
    (".f64 x = foo", 18, "foo", "a constant: an address does not fit a .f64"),
    (".u8 x[1] = {foo}", 21, "foo", "a constant: an address does not fit a .u8"),
    (".u8 x[1] = {0xf0(foo)}", 21, "0xf0", "a mask of one byte: 0xff, 0xff00, 0xff0000, ..."),
    (".u8 x[1] = {0xff(foo)+4}", 30, "+", "',' and another value, or '}'"),
    (".u64 x[1] = {generic(foo+4)}", 33, "+", "')' after the symbol"),
    (".u64 x[1] = {4+foo}", 24, "foo", "a constant: an integer, a float, or an expression of them"),
    (".u64 x[1] = {foo+4+foo}", 28, "foo", "an offset in bytes"),
    (".u64 x = foo bar", 22, "bar", "the end of the initialiser"),
    (".s64 x[2] = {1/0}", 23, "/", "a divisor other than 0"),
    (".f64 x = 1.0/3", 21, "/", "both sides integer or both floating-point (PTX ISA 4.5.4)"),
    (".pred x = 1", 19, ".pred", "no such variable: the size of .pred is unknown"),
    (".b8 x[1 << 31] = {1}", 26, "2147483648 bytes", f"an initialised variable of at most {MAX_BYTES} bytes"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "column", "found", "expected"), MISTAKES)
def test_mistakes(text: str, column: int, found: str, expected: str) -> None:
    with pytest.raises(PtxSyntaxError) as caught:
        evaluate(variable(text))
    assert (caught.value.found, caught.value.expected) == (found, expected)
    assert (caught.value.line, caught.value.column) == (4, column)


def test_mistake_on_a_later_line() -> None:
    with pytest.raises(PtxSyntaxError) as caught:
        evaluate(variable(".u32 x[4] = {1, // one\n 2,\n   oops!}"))
    assert (caught.value.line, caught.value.column, caught.value.found) == (6, 8, "!")
    assert caught.value.source_line == "   oops!}"


@pytest.mark.parametrize("type_", ["texref", "samplerref", "surfref"])
def test_texture_references_have_no_bytes(type_: str) -> None:
    with pytest.raises(UnsupportedError, match=f"{type_} x: texture references have no bytes"):
        evaluate(variable(f".{type_} x = {{addr_mode_0 = clamp_to_border}}"))


@pytest.mark.parametrize("separator", [", ", ",", " ,\n\t"])
def test_long_table(separator: str) -> None:
    values = [value * 37 % 256 for value in range(120_000)]
    data, _ = evaluate(variable(f".b8 x[{len(values)}] = {{{separator.join(map(str, values))}}}"))
    assert data == bytes(values)


@given(st.lists(st.integers(-(2**31), 2**32 - 1), max_size=9), st.sampled_from(["{}", "{:#x}", "({})", "0+{}"]))
def test_integers(values: list[int], form: str) -> None:
    text = ", ".join(map(form.format, values))
    data, _ = evaluate(variable(f".b32 x[9] = {{{text}}}"))
    assert data == b"".join(struct.pack("<I", v % 2**32) for v in values).ljust(36, b"\0")


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=9))
def test_floats(values: list[float]) -> None:
    decimals = ", ".join(f"{v:.17e}" for v in values)
    literals = ", ".join("0f" + struct.pack(">f", v).hex() for v in values)
    expected = struct.pack(f"<{len(values)}f", *values)
    assert evaluate(variable(f".f32 x[] = {{{decimals}}}"))[0] == expected
    assert evaluate(variable(f".f32 x[] = {{{literals}}}"))[0] == expected


def test_what_nvcc_emits() -> None:
    variables = {v.name: evaluate(v) for v in parse_file(DATA / "data.sm_80.ptx").variables}
    assert struct.unpack("<5f", variables["taps"][0]) == pytest.approx((0.1, 0.25, 0.3, 0.25, 0.1))
    assert struct.unpack("<12i", variables["grid3"][0]) == (1, 2, 3, 0, 4, 5, 6, 0, 7, -8, 9, 10)
    assert variables["greeting"][0] == b'hello, "world" // not a comment\0'
    assert struct.unpack("<d", variables["pi"][0]) == (3.14159265358979,)
    assert struct.unpack("<q", variables["big"][0]) == (-1234567890123456789,)
    assert struct.unpack("<bxhiqfxxxxd", variables["mixed"][0]) == (ord("a"), -2, 3, -4, 1.25, -2.5)
    assert variables["where"][1] == [Relocation(0, 8, "values", 12, True, None)]
    assert [(r.offset, r.symbol, r.addend) for r in variables["places"][1]] == [
        (0, "values", 0),
        (16, "counter", 0),
        (24, "values", 28),
    ]
    node, patches = variables["first"]
    assert struct.unpack("<qqdq", node) == (1, 0, 1.5, 0)
    assert [(r.offset, r.symbol) for r in patches] == [(8, "last"), (24, "$str$1")]
