"""What ptxas works out or takes from before, whatever registers a program uses for it: sums that repeat others, constants.

Rules were read from ptxas 13.0; the oracle (:mod:`tests.test_contract_oracle`) and random machine code repeat that.
"""

from __future__ import annotations

import pytest

from isa.lower import prepare
from isa.lower.contract import contract
from isa.lower.contract.units import evaluate
from isa.lower.ir import Const
from isa.ptx import parse


def kernel(body: str, notes: list[str] | None = None) -> list[str]:
    """The opcodes of the arithmetic that statements become. %f1 to %f4 are loaded."""
    text = f""".version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 x, .param .u32 n) {{
    .reg .b64 %a<4>; .reg .b32 %r<9>; .reg .f32 %f<20>; .reg .pred %p<9>;
    ld.param.u64 %a1, [x]; ld.param.u32 %r1, [n];
    setp.gt.s32 %p1, %r1, 3; setp.gt.s32 %p2, %r1, 5;
    ld.global.v4.f32 {{%f1, %f2, %f3, %f4}}, [%a1];
    {body}
    ret;
}}
"""
    bound = prepare(parse(text), "k")
    undecided = contract(bound)
    if notes is not None:
        notes += [guess.why for guess in undecided]
    wanted = ("add", "sub", "mul", "fma", "fused")
    return [i.opcode for i in bound.instructions if i.opcode.startswith(wanted) and "f32" in i.opcode]


FIRST = "mul.f32 %f5, %f1, %f2; add.f32 %f6, %f5, %f3; st.global.f32 [%a1], %f6;"
OTHER = "add.f32 %f8, %f5, %f4; st.global.f32 [%a1+12], %f8;"
AGAIN = "@%p1 bra L; {guard}add.f32 %f7, {operands}; st.global.f32 [%a1+4], %f7; L:"


@pytest.mark.parametrize(
    ("body", "becomes"),
    [
        (FIRST + AGAIN.format(guard="", operands="%f5, %f3"), ["fma.rn.f32"]),
        (FIRST + AGAIN.format(guard="", operands="%f3, %f5"), ["fma.rn.f32"]),
        (FIRST + "mov.f32 %f7, %f1;" + AGAIN.format(guard="@%p2 ", operands="%f5, %f3"), ["fma.rn.f32"]),
        (
            FIRST + "@%p1 bra L; st.global.f32 [%a1+8], %f1; L: add.f32 %f7, %f5, %f3; st.global.f32 [%a1+4], %f7;",
            ["fma.rn.f32"],
        ),
        (FIRST + AGAIN.format(guard="", operands="%f5, %f4"), ["mul.f32", "add.f32", "add.f32"]),  # another sum
        (FIRST + OTHER + AGAIN.format(guard="", operands="%f5, %f3"), ["mul.f32", "add.f32", "add.f32", "add.f32"]),
        ("mul.f32 %f5, %f1, %f2;" + AGAIN.format(guard="", operands="%f5, %f3"), ["mul.f32", "add.f32"]),
    ],
)
def test_a_product_whose_other_uses_repeat_its_sum_is_fused(body: str, becomes: list[str]) -> None:
    assert kernel(body) == becomes


def test_what_may_be_computed_again_is_told() -> None:
    """ptxas keeps ``%f6``, or computes it where it is used from what it has there; which, hangs on registers."""
    notes: list[str] = []
    body = """
    mul.f32 %f5, %f1, %f2; sub.f32 %f6, %f3, %f5; add.f32 %f7, %f2, %f3;
    @%p1 bra L1; @%p2 bra L2; mul.f32 %f8, %f7, %f3; st.global.f32 [%a1], %f8;
    L2: st.global.f32 [%a1+4], %f5;
    L1: @%p2 bra L3; st.global.f32 [%a1+8], %f5;
    L3: st.global.f32 [%a1+16], %f6;
    """
    assert kernel(body, notes).count("fma.rn.f32") == 0
    assert notes == ["ptxas may compute it again where it is used"]


def constant(body: str) -> list[int]:
    """The immediates of the last copies before the store."""
    text = f""".version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 x) {{
    .reg .b64 %a<4>; .reg .b32 %r<9>; .reg .f32 %f<20>;
    ld.param.u64 %a1, [x];
    {body}
    st.global.f32 [%a1], %f2;
    ret;
}}
"""
    bound = prepare(parse(text), "k")
    return [i.args["a"].bits for i in bound.instructions if i.opcode == "mov.b32" and isinstance(i.args["a"], Const)]


def test_constants_are_followed_through_registers_that_are_written_again() -> None:
    body = "mov.f32 %f1, 0f40400000; lg2.approx.f32 %f2, %f1; st.global.f32 [%a1+4], %f2; mov.f32 %f1, 0f3F800000; "
    assert constant(body + "st.global.f32 [%a1+8], %f1; lg2.approx.ftz.f32 %f2, %f1;") == [0x3FCAE00D, 0x00000000]
    assert constant("mov.u32 %r1, 31; cvt.rn.f32.s32 %f1, %r1; lg2.approx.f32 %f2, %f1;") == [0x409E88C7]
    assert constant("mov.u32 %r1, 31; cvt.rz.f32.s32 %f1, %r1; lg2.approx.f32 %f2, %f1;") == []  # not worked out


def test_subnormal_constants_are_scaled_as_at_run_time() -> None:
    assert evaluate("lg2", 0x187494, ftz=False) == 0xC300634E  # as ptxas 13.0; rounded once it would be one more
    assert evaluate("sin", 0x80000001, ftz=False) == 0x80000000
    assert evaluate("ex2", 0xC3014111, ftz=False) == 0xD6A61  # a square, rounded twice


@pytest.mark.parametrize(
    ("made", "known"), [("abs.f32 %f6, %f1;", True), ("mul.f32 %f6, %f1, %f1;", True), ("mov.f32 %f6, %f1;", False)]
)
def test_slct_by_what_cannot_be_negative_is_decided(made: str, known: bool) -> None:
    """Even if it is NaN, by which the instruction would choose the other operand (as an H200 runs it)."""
    text = f""".version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 x) {{
    .reg .b64 %a<4>; .reg .f32 %f<9>; .reg .b32 %r<9>;
    ld.param.u64 %a1, [x]; ld.global.v2.f32 {{%f1, %f2}}, [%a1]; ld.global.v2.u32 {{%r1, %r2}}, [%a1];
    {made}
    slct.u32.f32 %r3, %r1, %r2, %f6;
    st.global.u32 [%a1], %r3;
    ret;
}}
"""
    assert (not any(i.opcode.startswith("slct") for i in prepare(parse(text), "k").instructions)) == known
