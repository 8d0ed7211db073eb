"""``tcsim.matmul`` and ``tcsim.explain`` of instructions with a sparse A or with block scales."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tcsim
from isa.tensor import MmaForm
from isa.tensor.formats import FLOAT_FORMATS, INTEGER_BITS
from isa.tensor.scaled_reference import scaled_dot
from tcsim.cli.app import main
from tcsim.errors import TcsimError
from tcsim.numerics.explain import explain_bits
from tcsim.numerics.instructions import find_instruction
from tests.test_matmul import bits_of, native

MX = "mma.m16n8k32.kind::mxf8f6f4.block_scale.f32.e4m3.e2m3.f32.ue8m0"
NVF4 = "mma.m16n8k64.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3"
FORMS = [
    ("mma.sp.m16n8k32.f32.f16.f16.f32", 80),
    ("mma.sp.m16n8k16.f32.tf32.tf32.f32", 90),
    ("mma.sp.m16n8k64.f32.e4m3.e5m2.f32", 90),
    ("mma.sp.m16n8k64.f32.e4m3.e5m2.f32", 89),
    ("mma.sp.m16n8k64.satfinite.s32.s8.u8.s32", 90),
    ("mma.sp.m16n8k128.s32.s4.s4.s32", 80),
    ("wgmma.sp.m64n64k32.f16.f16.f16", 90),
    ("wgmma.sp.m64n64k16.f32.tf32.tf32", 90),
    ("wgmma.sp.m64n64k64.f32.e4m3.e4m3", 90),
    ("wgmma.sp.m64n64k64.f16.e5m2.e4m3", 90),
    ("wgmma.sp.m64n64k64.s32.s8.s8", 90),
    ("mma.sp.m16n8k64.kind::f8f6f4.f16.e3m2.e2m1.f16", 120),
    (MX, 120),
    ("mma.sp.m16n8k64.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e2m1.e5m2.f32.ue8m0", 120),
    ("mma.m16n8k64.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0", 120),
    (NVF4, 120),
    ("mma.sp.m16n8k128.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3", 120),
]


def drawn(rng: np.random.Generator, ptx_type: str, *shape: int) -> np.ndarray:
    """Bit patterns, of 16- and 32-bit floating-point types numbers of some exponents."""
    if ptx_type in INTEGER_BITS:
        return rng.integers(0, 1 << INTEGER_BITS[ptx_type], shape, dtype=np.uint64)
    f = FLOAT_FORMATS[ptx_type]
    bits = rng.integers(0, 1 << f.bits, shape, dtype=np.uint64)
    if f.bits < 16:
        return bits
    low = f.fraction_bits + f.ignored_low_bits
    exponents = rng.integers(f.bias - 6, f.bias + 6, shape).astype(np.uint64) << np.uint64(low)
    kept = (1 << low) - 1 >> f.ignored_low_bits << f.ignored_low_bits | 1 << (f.bits - 1)
    return bits & np.uint64(kept) | exponents


def with_zeros(rng: np.random.Generator, a: np.ndarray, form: MmaForm) -> np.ndarray:
    """Of each chunk of a row only as many elements as can be stored, anywhere in it."""
    unit = 2 if form.operand_bits == 4 else 1
    of, stored = (2, 1) if form.a == "tf32" else (4, 2)
    order = rng.permuted(np.broadcast_to(np.arange(of), (len(a), a.shape[1] // (of * unit), of)), axis=2)
    return np.where(np.repeat(order < stored, unit, axis=2).reshape(a.shape), a, 0)


@pytest.mark.parametrize(("name", "sm"), FORMS)
def test_the_bits_are_those_of_the_reference(name: str, sm: int) -> None:
    """Two instructions long, odd sizes; each element against exact arithmetic on what A stores."""
    instruction = find_instruction(name, f"sm_{sm}")
    form, m, n, k = instruction.own, 18, 9, 2 * instruction.own.k
    rng = np.random.default_rng(len(name))
    a, b, c = drawn(rng, form.a, m, k), drawn(rng, form.b, k, n), drawn(rng, form.c, m, n)
    a = with_zeros(rng, a, form) if form.is_sparse else a
    scales: dict[str, Any] = {}
    if form.scale_vec:
        low, high = (110, 140) if form.scale_type == "ue8m0" else (0, 127)
        shapes = {"scale_a": (m, k // instruction.block), "scale_b": (k // instruction.block, n)}
        scales = {which: rng.integers(low, high, shape).astype(np.uint8) for which, shape in shapes.items()}
    operands = (native(x, t) for x, t in ((a, form.a), (b, form.b), (c, form.c)))
    got = bits_of(tcsim.matmul(*operands, form=name, device=f"sm_{sm}", **scales))
    for row, column in ((0, 0), (9, 3), (m - 1, n - 1)):
        rows = [hex(int(x)) for x in a[row]], [hex(int(x)) for x in b[:, column]], hex(int(c[row, column]))
        codes = {}
        if form.scale_vec:
            codes = {"scale_a": scales["scale_a"][row], "scale_b": scales["scale_b"][:, column]}
        explained = tcsim.explain(name, *rows, device=f"sm_{sm}", **codes)
        assert explained.bits == got[row, column]
        assert name.split(".")[0] in str(explained) and explained.to_json()
        if form.scale_vec and not form.is_sparse:
            total, per = int(c[row, column]), form.scale_vec
            for part in range(2):
                along, blocks = slice(part * form.k, (part + 1) * form.k), slice(part * per, (part + 1) * per)
                of_a, of_b = ([int(x) for x in codes[which][blocks]] for which in ("scale_a", "scale_b"))
                x, y = [int(v) for v in a[row, along]], [int(v) for v in b[along, column]]
                total = scaled_dot(x, y, total, instruction.rule, form, of_a, of_b)
            assert total == explained.bits


def test_a_row_with_fewer_numbers_meets_the_elements_that_its_first_zeros_do() -> None:
    form = "mma.sp.m16n8k32.f32.f16.f16.f32"
    a, b = np.zeros((1, 32), np.float16), np.zeros((32, 1), np.float16)
    a[0, 3] = 1
    b[0], b[3] = np.inf, 2
    assert np.isnan(tcsim.matmul(a, b, form=form))  # 0 * inf: the zero at k = 0 is stored beside the 1
    b[0], b[1] = 0, np.inf
    assert tcsim.matmul(a, b, form=form) == 2


def test_orders_along_k_take_the_scales_along() -> None:
    rng = np.random.default_rng(3)
    a, b = (rng.integers(0, 16, shape).astype(np.uint8) for shape in ((5, 256), (256, 6)))
    sa, sb = (rng.integers(30, 90, shape).astype(np.uint8) for shape in ((5, 16), (16, 6)))
    parts = [
        tcsim.matmul(a[:, s], b[s], form=NVF4, device="rtx5090", scale_a=sa[:, t], scale_b=sb[t])
        for s, t in ((slice(0, 128), slice(0, 8)), (slice(128, 256), slice(8, 16)))
    ]
    got = tcsim.matmul(a, b, form=NVF4, device="rtx5090", scale_a=sa, scale_b=sb, k_order="split-k:2")
    np.testing.assert_array_equal(got, parts[0] + parts[1])


def test_scales_of_a_part_of_an_instruction_and_as_ml_dtypes() -> None:
    a = np.full((1, 32), 2, ml_dtypes.float8_e4m3fn)
    b = np.full((32, 1), 3, ml_dtypes.float6_e2m3fn)
    sa, sb = np.full((1, 1), 4, ml_dtypes.float8_e8m0fnu), np.full((1, 1), 0.5, ml_dtypes.float8_e8m0fnu)
    assert tcsim.matmul(a, b, form=MX, device="sm_120", scale_a=sa, scale_b=sb) == 32 * 6 * 2
    half = tcsim.matmul(a[:, :8], b[:8], form=MX, device="sm_120", scale_a=sa, scale_b=sb)
    assert half == 8 * 6 * 2


def test_the_current_device_counts() -> None:
    a, b = (np.random.default_rng(1).normal(size=shape).astype(np.float16) for shape in ((64, 64), (64, 64)))
    with tcsim.Device("v100"):
        here = tcsim.matmul(a, b, form="mma.m8n8k4.row.col.f32.f16.f16.f32")
        with pytest.raises(TcsimError, match="v100 is sm_70"):
            tcsim.explain("mma.m16n8k16.f32.f16.f16.f32", [1], [1])
    np.testing.assert_array_equal(here, tcsim.matmul(a, b, form="mma.m8n8k4.row.col.f32.f16.f16.f32", device="v100"))
    with tcsim.Device("a100"):
        assert "a100" in str(tcsim.explain("mma.m16n8k16.f32.f16.f16.f32", [1], [1]))
    assert "h200" in str(tcsim.explain("mma.m16n8k16.f32.f16.f16.f32", [1], [1]))


def test_what_an_explanation_of_scales_shows(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["explain", MX, "--a", "1,2", "--b", "3,0.5", "--c", "1", "--scale-a", "8", "--scale-b", "0x7e", "-d", "sm_120"]
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert "fused step over k = 0 to 31, products times 2^3 * 2^-1, and C" in shown
    assert "result       17  (0x41880000), exact" in shown  # (1 * 3 + 2 * 0.5) * 8 * 0.5 + 1
    e = tcsim.explain(NVF4, [1] * 40, [1] * 40, 1, device="sm_120", scale_a=["1.5", 2, 448], scale_b=[2, 1, 1])
    (step,) = e.steps
    assert [(t.k, t.a, t.b) for t in step.terms[:3]] == [(0, 16, 3), (16, 16, 2), (32, 8, 448)]
    assert e.exact == 48 + 32 + 8 * 448 + 1 and e.ieee is None
    nan = tcsim.explain(MX, [1], [1], device="sm_120", scale_a=["0xff"], scale_b=[1])
    assert nan.bits == 0x7FFFFFFF and "a scale is NaN" in str(nan)


A, B = np.zeros((2, 32), np.uint8), np.zeros((32, 3), np.uint8)


@pytest.mark.parametrize(
    ("scale_a", "scale_b", "message"),
    [
        (
            None,
            None,
            "scale_a is missing; mma.m16n8k32.*takes an ue8m0 scale for each 32 elements of a row of A",
        ),
        (np.zeros((2, 1), np.uint8), None, "scale_b is missing.*a column of B"),
        (np.zeros((2, 2), np.uint8), np.zeros((1, 3), np.uint8), "scale_a is 2 x 2 and should be 2 x 1"),
        (np.zeros((2, 1)), np.zeros((1, 3), np.uint8), "scale_a is float64"),
        (np.zeros((2, 1), ml_dtypes.float8_e4m3fn), np.zeros((1, 3), np.uint8), "scale_a is float8_e4m3fn"),
    ],
)
def test_scales_that_do_not_fit(scale_a: Any, scale_b: Any, message: str) -> None:
    with pytest.raises(TcsimError, match=message):
        tcsim.matmul(A, B, form=MX, device="sm_120", scale_a=scale_a, scale_b=scale_b)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "scale_a is missing"),
        ([1, 1], "scale_a is 2 numbers, and should be 1"),
        ([3], r"scale_a\[0\] = 3 is not in ue8m0: powers of two"),
        ([float("inf")], "not in ue8m0"),
        (["0x1ff"], "no number"),
        (["x"], "no number"),
    ],
)
def test_scales_of_an_explanation_that_do_not_fit(given: Any, message: str) -> None:
    with pytest.raises(TcsimError, match=message):
        tcsim.explain(MX, [1], [1], device="sm_120", scale_a=given, scale_b=[1])


def test_scales_where_there_are_none() -> None:
    half = np.ones((1, 1), np.float16)
    with pytest.raises(TcsimError, match="has no scales; those that have are called like mma"):
        tcsim.matmul(half, half, scale_a=np.ones((1, 1), np.uint8))
    with pytest.raises(TcsimError, match="has no scales"):
        tcsim.explain("mma.m16n8k16.f32.f16.f16.f32", [1], [1], scale_a=[1])


def test_explain_bits_takes_what_a_stores() -> None:
    instruction = find_instruction("mma.sp.m16n8k32.f32.f16.f16.f32")
    assert explain_bits(instruction, [0x3C00] * 16, [0x3C00] * 16, 0).value == 16
