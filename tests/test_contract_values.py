"""What ptxas simplifies where that changes bits: small kernels against an H200's words, and every rule by what it makes of
PTX."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tcsim
from isa.lower import lower, prepare
from isa.lower.contract import contract, finish
from isa.ptx import parse

DATA = Path(__file__).parent / "data" / "contract"
RECORDED = np.load(DATA / "h200.npz")
THREADS = 128
PARAMETER = np.float32(1.7320508)

# ---------------------------------------------------------------------------------------------------- against the hardware


@pytest.mark.parametrize("name", ["f32", "f64", "f16", "f16x2", "bf16"])
def test_pairs_of_operations(name: str) -> None:
    wanted, names = RECORDED[f"{name}.outputs"], RECORDED[f"{name}.names"]
    places = wanted.shape[1] // THREADS
    operands = tcsim.asarray(np.tile(RECORDED[f"{name}.input"], places))
    module = tcsim.RawModule(path=DATA / f"{name}.ptx")
    different = []
    for number, kernel in enumerate(module.kernels):
        out = tcsim.zeros(wanted.shape[1], wanted.dtype)
        module.get_function(kernel)((1,), (THREADS,), (operands, out, PARAMETER))
        unequal = (tcsim.asnumpy(out) != wanted[number]).reshape(places, THREADS).any(axis=1)
        different += [names[number, place] for place in np.flatnonzero(unequal)]
    assert len(module.kernels) == len(wanted)
    assert not different


def test_graphs_of_operations() -> None:
    wanted = RECORDED["graphs.outputs"]
    operands = tcsim.asarray(RECORDED["graphs.input"])
    module = tcsim.RawModule(path=DATA / "graphs.ptx")
    different = []
    for number, kernel in enumerate(module.kernels):
        out = tcsim.zeros(wanted.shape[1], wanted.dtype)
        module.get_function(kernel)((1,), (THREADS,), (operands, out, PARAMETER))
        if (tcsim.asnumpy(out) != wanted[number]).any():
            different.append(kernel)
    assert len(module.kernels) == len(wanted)
    assert not different


# -------------------------------------------------------------------------------------------------------- rule by rule


def lowered(body: str, fmad: bool = True) -> list[str]:
    """The floating-point opcodes that a few statements become: %f1 to %f4, %h1 to %h3 loaded, %f8, %h8 and %d8 stored."""
    text = f""".version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 x, .param .u32 n)
{{
    .reg .b64 %rd<4>; .reg .b32 %r<9>; .reg .f32 %f<20>; .reg .f64 %d<9>; .reg .b16 %h<20>; .reg .pred %p<9>;
    ld.param.u64 %rd1, [x]; ld.param.u32 %r1, [n];
    setp.gt.s32 %p7, %r1, 3; setp.gt.s32 %p8, %r1, 5;
    ld.global.v4.f32 {{%f1, %f2, %f3, %f4}}, [%rd1];
    ld.global.b16 %h1, [%rd1+16]; ld.global.b16 %h2, [%rd1+18]; ld.global.b16 %h3, [%rd1+20];
    mov.f32 %f8, 0f00000000; mov.b16 %h8, 0; mov.f64 %d8, 0d0000000000000000; mov.b16 %h10, 0;
    {body}
    st.global.f32 [%rd1+32], %f8; st.global.b16 [%rd1+36], %h8; st.global.f64 [%rd1+40], %d8;
    ret;
}}
"""
    kernel = prepare(parse(text), "k")
    if fmad:
        contract(kernel)
    finish(kernel)
    start = next(i for i, instr in enumerate(kernel.instructions) if instr.opcode == "mov.f64") + 2
    ignored = ("st.", "ld.", "ret", "bra", "mov", "setp.gt.s32", "setp.lt.u32", "add.u32")
    return [i.opcode for i in kernel.instructions[start:] if not i.opcode.startswith(ignored)]


EX2 = "ex2.approx.ftz.f32 %f5, %f1;"


@pytest.mark.parametrize(
    ("body", "folded"),
    [
        (EX2 + "rcp.approx.ftz.f32 %f8, %f5;", True),
        (EX2 + "mov.f32 %f6, %f5; rcp.approx.ftz.f32 %f8, %f6;", True),
        (EX2 + "@%p7 rcp.approx.ftz.f32 %f8, %f5;", True),
        (EX2 + "div.approx.ftz.f32 %f8, %f2, %f5;", True),
        (EX2 + "add.f32 %f6, %f5, %f2; rcp.approx.ftz.f32 %f8, %f5;", True),  # the sum is dead
        (EX2 + "@%p7 bra L; rcp.approx.ftz.f32 %f8, %f5;\nL:", True),
        (EX2 + "rcp.approx.ftz.f32 %f6, %f5; add.rn.f32 %f8, %f5, %f6;", False),
        (EX2 + "rcp.approx.ftz.f32 %f6, %f5; rcp.approx.ftz.f32 %f7, %f5; add.rn.f32 %f8, %f6, %f7;", False),
        (EX2 + "div.approx.ftz.f32 %f8, %f5, %f5;", False),
        (EX2 + "neg.ftz.f32 %f6, %f5; rcp.approx.ftz.f32 %f8, %f6;", False),
        (EX2 + "rcp.approx.f32 %f8, %f5;", False),
        (EX2 + "div.full.ftz.f32 %f8, %f2, %f5;", False),
        ("ex2.approx.f32 %f5, %f1; rcp.approx.ftz.f32 %f8, %f5;", False),
        ("mov.f32 %f5, %f2; @%p7 ex2.approx.ftz.f32 %f5, %f1; rcp.approx.ftz.f32 %f8, %f5;", False),
        # Used again two regions further down: ptxas computes all of it there a second time, with a power of its own.
        (
            EX2 + "rcp.approx.ftz.f32 %f6, %f5; sub.ftz.f32 %f8, %f5, %f1; @%p7 bra L; add.rn.f32 %f8, %f8, %f1; @%p8 bra L;"
            "add.rn.f32 %f8, %f8, %f6;\nL:",
            True,
        ),
        # Not if its operand would have to be kept for that.
        (
            EX2 + "rcp.approx.ftz.f32 %f6, %f5; sub.ftz.f32 %f8, %f5, %f1; @%p7 bra L; add.rn.f32 %f8, %f8, %f3; @%p8 bra L;"
            "add.rn.f32 %f8, %f8, %f6;\nL:",
            False,
        ),
    ],
)
@pytest.mark.parametrize("fmad", [True, False])
def test_reciprocals_of_powers(body: str, folded: bool, fmad: bool) -> None:
    opcodes = lowered(body, fmad)
    reciprocals = [opcode for opcode in opcodes if opcode.startswith(("rcp", "div"))]
    assert (not reciprocals) == folded
    assert sum(opcode.startswith("ex2") for opcode in opcodes) == 1 + folded


def test_powers_of_parameters_are_computed_again_further_down() -> None:
    """All of it comes from parameters, a division included, so ptxas does it once more where the reciprocal is used."""
    exponent = "cvt.rn.f32.s32 %f5, %r1; div.approx.ftz.f32 %f6, 0f40000000, %f5; mul.ftz.f32 %f7, %f6, 0f3D75C28F;"
    power = "ex2.approx.ftz.f32 %f9, %f7; rcp.approx.ftz.f32 %f10, %f9; sub.rn.ftz.f32 %f8, %f9, %f1;"
    use = "@%p7 bra L; add.rn.f32 %f8, %f8, %f3; @%p8 bra L; add.rn.f32 %f8, %f8, %f10;\nL:"
    opcodes = lowered(exponent + power + use)
    assert not any(opcode.startswith("rcp") for opcode in opcodes)
    assert opcodes.count("ex2.approx.ftz.f32") == 2
    loaded = lowered(exponent.replace("cvt.rn.f32.s32 %f5, %r1;", "add.rn.f32 %f5, %f1, %f2;") + power + use)
    assert any(opcode.startswith("rcp") for opcode in loaded)


def test_a_power_of_its_own_is_noted() -> None:
    text = (DATA / "f32.ptx").read_text().split(".visible")[0] + """
.visible .entry k(.param .u64 x, .param .u32 n)
{
    .reg .b64 %rd<2>; .reg .b32 %r<4>; .reg .f32 %f<9>; .reg .pred %p<2>;
    ld.param.u64 %rd1, [x]; ld.param.u32 %r1, [n];
    ld.global.f32 %f1, [%rd1];
    ex2.approx.ftz.f32 %f2, %f1;
    mov.u32 %r2, 0;
L:
    ld.global.f32 %f4, [%rd1+4];
    rcp.approx.ftz.f32 %f3, %f2;
    add.rn.f32 %f4, %f4, %f3;
    st.global.f32 [%rd1+4], %f4;
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p1, %r2, %r1;
    @%p1 bra L;
    ret;
}
"""
    (note,) = lower(parse(text), "k", sm=90).notes
    line = next(number for number, each in enumerate(text.split("\n"), 1) if "rcp" in each)
    assert note.startswith(f"ptx:{line}: ") and "reciprocal" in note


@pytest.mark.parametrize(
    ("test", "first", "second", "becomes"),
    [
        ("gt.ftz", "%f1", "0f00000000", "max.f32"),
        ("le", "%f1", "0f00000000", "min.f32"),
        ("leu", "%f1", "0f00000000", "min.NaN.f32"),
        ("gt", "0f00000000", "%f1", "min.NaN.f32"),
        ("gtu", "0f00000000", "%f1", "min.f32"),
        ("lt", "%f1", "0f00000000", None),  # -0 would stay
        ("ge", "%f1", "0f00000000", None),
        ("gt", "%f1", "0f80000000", None),
        ("lt", "%f1", "0f3F800000", "min.f32"),
        ("geu", "%f1", "0f3F800000", "max.NaN.f32"),
        ("ge", "0f3F800000", "%f1", "min.NaN.f32"),
        ("lt", "0f3F800000", "%f1", "max.NaN.f32"),
        ("eq", "%f1", "0f3F800000", None),
        ("gt", "%f1", "0f7FC00000", None),
    ],
)
def test_selections_that_are_extremes(test: str, first: str, second: str, becomes: str | None) -> None:
    bound = second if first == "%f1" else first
    relation, *ftz = test.split(".")
    setp = f"setp.{relation}{'.ftz' if ftz else ''}.f32"
    opcodes = lowered(f"{setp} %p1, %f1, {bound}; selp.f32 %f8, {first}, {second}, %p1;")
    assert opcodes == [setp, becomes or "selp.f32"]


def test_extremes_need_the_predicate_for_themselves() -> None:
    select = "setp.gt.f32 %p1, %f1, 0f3F800000; selp.f32 %f5, %f1, 0f3F800000, %p1;"
    assert lowered(select + "selp.f32 %f6, %f2, %f3, %p1; add.rn.f32 %f8, %f5, %f6;").count("selp.f32") == 2
    assert lowered(select + "selp.f32 %f6, %f2, %f3, %p1; mov.f32 %f8, %f5;")[1] == "max.f32"  # the other is dead
    assert lowered("setp.lt.f32 %p1, %f1, 0f3F800000; selp.f32 %f5, %f1, 0f3F800000, %p1; max.f32 %f8, %f5, 0f00000000;")[
        -1
    ] == "add.rn.sat.f32"


@pytest.mark.parametrize(
    ("made", "test", "known"),
    [
        ("mul.f32 %f5, %f1, %f1;", "ge", True),
        ("mul.ftz.f32 %f5, %f1, %f1;", "ge", True),
        ("abs.f32 %f5, %f1;", "ge", True),
        ("ex2.approx.f32 %f5, %f1;", "ge", True),
        ("mul.f32 %f6, %f1, %f1; add.f32 %f5, %f6, 0f3F800000;", "ge", True),
        ("abs.f32 %f6, %f1; abs.f32 %f7, %f2; max.f32 %f5, %f6, %f7;", "lt", True),
        ("abs.f32 %f6, %f1; abs.f32 %f7, %f2; selp.f32 %f5, %f6, %f7, %p7;", "ge", True),
        ("mul.f32 %f5, %f1, %f1;", "gt", False),
        ("mul.f32 %f5, %f1, %f1;", "ltu", False),
        ("mul.rn.f32 %f5, %f1, %f1;", "ge", False),
        ("abs.ftz.f32 %f5, %f1;", "ge", False),
        ("sqrt.approx.ftz.f32 %f5, %f1;", "ge", False),
        ("fma.rn.f32 %f5, %f1, %f1, 0f3F800000;", "ge", False),
        ("mul.f32 %f5, %f1, %f2;", "ge", False),
    ],
)
def test_signs_that_are_known(made: str, test: str, known: bool) -> None:
    opcodes = lowered(made + f"setp.{test}.f32 %p1, %f5, 0f00000000; selp.f32 %f8, %f2, %f3, %p1;")
    assert (f"setp.{test}.f32" not in opcodes) == known


def test_flushed_comparisons_of_differences() -> None:
    rest = "setp.lt.ftz.f32 %p1, %f5, 0f00000000; selp.f32 %f8, %f2, %f3, %p1;"
    assert lowered("add.f32 %f5, %f1, %f2;" + rest) == ["add.f32", "neg.f32", "setp.lt.ftz.f32", "selp.f32"]
    for made in ("add.ftz.f32 %f5, %f1, %f2;", "add.rn.f32 %f5, %f1, %f2;", "mul.f32 %f6, %f1, %f3; add.f32 %f5, %f6, %f2;"):
        assert "neg.f32" not in lowered(made + rest)
    # First that, then extremes: the predicate no longer tells about the difference itself.
    assert "max.f32" not in lowered(
        "sub.f32 %f5, %f1, %f2; setp.gt.ftz.f32 %p1, %f5, 0f00000000; selp.f32 %f8, %f5, 0f00000000, %p1;"
    )


def test_a_product_once_more_is_that_product() -> None:
    again = "mul.rn.f32 %f6, %f5, 0f3F800000;"
    assert lowered("mul.ftz.f32 %f5, %f1, %f2;" + again + "add.f32 %f8, %f6, %f3;")[-1] == "fma.rn.f32"
    assert lowered("mul.f32 %f5, %f1, %f2;" + again + "add.f32 %f7, %f6, %f3; add.rn.f32 %f8, %f7, %f5;")[-2] == "add.f32"
    assert lowered("mul.rn.f32 %f5, %f1, %f2;" + again + "add.f32 %f8, %f6, %f3;")[-1] == "add.f32"


def test_flushed_products_of_which_more_is_needed() -> None:
    """``add`` of a flushed (or negated) product, where the flush is all that reads the product, but is read by others."""
    made = "mul.ftz.f32 %f5, %f1, %f2; neg.ftz.f32 %f6, %f5;"
    rest = "add.rn.f32 %f8, %f7, %f6;"
    assert any("fused" in opcode for opcode in lowered(made + "add.ftz.f32 %f7, %f6, %f3;" + rest))
    assert not any("fused" in opcode for opcode in lowered(made + "sub.ftz.f32 %f7, %f3, %f6;" + rest))
    assert not any("f" in opcode.split(".")[0] for opcode in lowered(made + "add.ftz.f32 %f7, %f5, %f3;" + rest))


def test_relu_drops_saturation_and_takes_the_outer_flush() -> None:
    outer = "max.NaN.f16 %h8, %h4, %h10;"
    assert lowered("fma.rn.sat.f16 %h4, %h1, %h2, %h3;" + outer)[-1] == "fma.rn.relu.f16"
    assert lowered("mul.f16 %h5, %h1, %h2; sub.f16 %h4, %h3, %h5; max.ftz.NaN.f16 %h8, %h4, %h10;")[-1] == "fma.rn.ftz.relu.f16"
    assert lowered("add.f16 %h4, %h1, %h2;" + outer) == ["add.f16", "max.NaN.f16"]  # the same bits
    assert lowered("add.sat.f16 %h4, %h1, %h2; max.f16 %h8, %h4, %h10;")[-1] == "max.f16"


def test_modifiers_keep_what_arithmetic_would_not() -> None:
    assert lowered("neg.f32 %f5, %f1; selp.f32 %f8, %f5, %f2, %p7;")[1:] == ["xor.b32", "selp.f32"]
    assert lowered("abs.f32 %f5, %f1; neg.f32 %f6, %f5; selp.f32 %f8, %f6, %f2, %p7;")[2:] == ["or.b32", "selp.f32"]
    assert lowered("neg.ftz.f32 %f5, %f1; selp.f32 %f8, %f5, %f2, %p7;") == ["neg.ftz.f32", "selp.f32"]
    assert lowered("@%p7 neg.f32 %f8, %f1;") == ["xor.b32"]
    assert lowered("neg.f32 %f5, %f1; cvt.f64.f32 %d8, %f5;")[1:] == ["cvt.f64.f32", "neg.f64"]


def test_what_ptxas_loses() -> None:
    assert lowered("abs.ftz.f16 %h4, %h1; cvt.rzi.s16.f16 %h8, %h4;")[-1] == "cvt.rni.s16.f16"
    assert lowered("abs.f16 %h4, %h1; cvt.rzi.s16.f16 %h8, %h4;")[-1] == "cvt.rzi.s16.f16"
    assert lowered("tanh.approx.f16 %h4, %h1; and.b16 %h8, %h4, 0x7fff;") == ["tanh.approx.f16"]
    assert lowered("tanh.approx.bf16 %h4, %h1; and.b16 %h8, %h4, 0x7fff;")[-1] == "and.b16"
