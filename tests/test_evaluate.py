"""``tcsim.evaluate`` and ``tcsim eval``: scalar instructions on numbers."""

from __future__ import annotations

import json
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tcsim
from tcsim.cli.app import main
from tcsim.errors import TcsimError


@pytest.mark.parametrize(
    ("opcode", "operands", "result"),
    [
        ("fma.rn.f32", (1.5, 2, "0x40400000"), np.float32(6)),
        ("add.rn.f16x2", ((1, 2), (0.5, -3)), 0xBC003E00),
        ("cvt.rn.satfinite.e4m3x2.f32", (500, -0.1), 0x7E9D),
        ("mul.wide.s32", (-5, 7), -35),
        ("shf.l.wrap.b32", ("0x80000000", 1, 33), 3),
        ("setp.lt.f32", (1, "0x7fc00000"), False),
        ("selp.b32", (1, 2, True), 1),
        ("fma.rn.oob.f16", (1, "0xfff7", 2), np.float16(0)),  # the NaN of data out of bounds makes the result zero
        ("addc.sat.s32", ("0x7fffffff", 3), 0x7FFFFFFF),
        ("min.f64", (-0.0, 0.0), np.float64(-0.0)),
        ("cvt.rn.bf16.f32", (1.00390625,), ml_dtypes.bfloat16(1)),
    ],
)
def test_numbers(opcode: str, operands: tuple[Any, ...], result: Any) -> None:
    found = tcsim.evaluate(opcode, *operands).result
    assert found.shape == () and found == result
    if isinstance(result, np.float64):
        assert np.signbit(found) == np.signbit(result)


def test_arrays_and_bits() -> None:
    x = np.arange(70, dtype=np.float32).reshape(7, 10)
    found = tcsim.evaluate("fma.rn.f32", x, 2.0, np.full((7, 10), 0x3F800000, np.uint32)).result
    np.testing.assert_array_equal(found, 2 * x + 1)
    halves = np.array([1, -2, np.inf], np.float16)
    np.testing.assert_array_equal(tcsim.evaluate("neg.f16", halves).result, -halves)
    np.testing.assert_array_equal(tcsim.evaluate("abs.s32", tcsim.asarray(np.array([-3, 4], np.int32))).result, [3, 4])


def test_the_carry_flag_goes_in_and_out() -> None:
    found = tcsim.evaluate("addc.cc.u32", -1, 0, carry=True)
    assert {name: words.tolist() for name, words in found.bits.items()} == {"d": [0], "q": [1]}
    assert tcsim.evaluate("addc.u32", 1, 1).result == 2


def test_three_operands_where_the_device_has_them() -> None:
    with tcsim.Device("b200"):
        found = tcsim.evaluate("min.f32", 3, 1, 2)
    assert found.result == 1 and "no hardware of sm_100" in found.known
    with pytest.raises(TcsimError, match=r"min.f32 takes a \(f32\), b \(f32\); 3 operands were given"):
        tcsim.evaluate("min.f32", 3, 1, 2)


def test_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "ex2.approx.ftz.f32", "-1.5"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "ex2.approx.ftz.f32 on h200"
    assert shown[1].startswith("  verified on hardware: traces/mufu, hashes of an H200's results for every input there is")
    assert shown[2:] == ["  a     -1.5  (0xbfc00000)", "  d     0.3535533547401428  (0x3eb504f2)"]
    assert main(["eval", "cvt.rn.satfinite.e2m1x2.f32", "5", "-0.6", "-d", "b200"]) == 0
    assert "  d     -0.5, 4.0  (0x69)" in capsys.readouterr().out
    assert main(["eval", "fma.rn.f16x2", "1,2", "0x40004000", "0,-0.0", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["words"] == {"a": ["0x40003c00"], "b": ["0x40004000"], "c": ["0x80000000"], "d": ["0x44004000"]}
    many = tcsim.evaluate("not.b32", np.arange(40, dtype=np.uint32))
    assert "... and 8 more" in str(many)


@pytest.mark.parametrize(
    ("opcode", "operands", "message"),
    [
        ("add.f33", (1, 2), "add is known, but not with .f33"),
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", (1,), "matrix instructions: tcsim.explain"),
        ("ld.global.f32", (1,), "run it in a kernel"),
        ("cvt.rn.satfinite.e2m1x2.f32", (1, 2), "exists on sm_100a.* only, and h200 is sm_90"),
        ("add.f32", (1,), r"takes a \(f32\), b \(f32\); 1 operands"),
        ("add.f32", ("x", 1), "a = 'x' is no number"),
        ("add.s32", (1.5, 1), "a = 1.5 is no s32"),
        ("add.s32", (1 << 31, 1), "is no s32: whole numbers to 2147483647"),
        ("add.f16x2", ("y", 1), "a = 'y' is no f16x2.*or a pair of numbers"),
        ("add.f32", ((1, 2), 1), "a is f32: give a number"),
        ("add.f32", (np.ones(2), 1), "a is float64, and f32 takes float32 or uint32"),
        ("add.f32", (np.ones(2, np.float32), np.ones(3, np.float32)), "operands have the shapes"),
        ("neg.f32", (np.ones(0, np.float32),), "operands have no elements"),
    ],
)
def test_mistakes(opcode: str, operands: tuple[Any, ...], message: str) -> None:
    with pytest.raises(TcsimError, match=message):
        tcsim.evaluate(opcode, *operands)
