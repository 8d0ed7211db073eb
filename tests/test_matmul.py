"""``tcsim.matmul``: against recorded GEMMs, the kernels that execute instructions, and the exact reference."""

from __future__ import annotations

import hashlib
import warnings
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tcsim
from gpu_ref.tensor.draw import Draw
from gpu_ref.tensor.float_inputs import FLOAT_CLASSES, FORMATS, Sizes
from isa.tensor import MMA_FORMS, WMMA_FORMS, MmaForm, NoFormError, execute, make_plan, mma_fragment, wmma_fragment
from isa.tensor.forms import element_bits
from isa.tensor.reference import dot, integer_dot
from isa.tensor.rules import ARCHITECTURES
from tcsim.bundle import load_bundle
from tcsim.errors import DeviceError, TcsimError
from tcsim.numerics import OperandError, UndefinedOperandWarning
from tcsim.numerics.instructions import find_instruction, instruction_names
from tcsim.numerics.operands import from_bits
from tcsim.numerics.scalars import integer_of

DENSE = [form for form in (*MMA_FORMS, *WMMA_FORMS) if form.c == form.d]
STORED = {"bf16": np.uint16, "tf32": np.uint32, "e4m3": np.uint8, "e5m2": np.uint8}


def native(bits: np.ndarray, ptx_type: str) -> np.ndarray:
    """Bit patterns (uint64) as an array that matmul takes for a type."""
    if ptx_type in ("f16", "f32", "f64", "s32"):
        return from_bits(bits.astype(np.uint64 if ptx_type == "f64" else np.uint32), ptx_type)
    if ptx_type in STORED:
        return bits.astype(STORED[ptx_type])
    small = bits.astype(np.uint8)
    if ptx_type == "s4":
        return (small << 4).view(np.int8) >> 4
    return small.view(np.int8) if ptx_type == "s8" else small


def bits_of(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").astype(np.uint64)


def quietly(*args: Any, **kwargs: Any) -> np.ndarray:
    """matmul without the warning about tf32 operands, most of which have live low bits here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedOperandWarning)
        return tcsim.matmul(*args, **kwargs)


# ------------------------------------------------------------------------------------------------- recorded on an H200


@pytest.mark.parametrize(
    ("name", "form", "b_by_columns"),
    [
        ("gemm_f16", "mma.m16n8k16.f32.f16.f16.f32", False),
        ("gemm_f16_small", "mma.m16n8k16.f32.f16.f16.f32", False),
        ("gemm_bf16", "mma.m16n8k16.f32.bf16.bf16.f32", False),
        ("gemm_tf32", "mma.m16n8k8.f32.tf32.tf32.f32", False),
        ("gemm_e4m3", "mma.m16n8k32.f32.e4m3.e4m3.f32", True),
        ("gemm_s8", "mma.m16n8k32.s32.s8.s8.s32", True),
        ("wmma_gemm", "wmma.m16n16k16.f32.f16.f16.f32", False),
        ("triton_matmul", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", False),
    ],
)
def test_recorded_gemms_are_returned(name: str, form: str, b_by_columns: bool, traces: Path) -> None:
    """Each of these kernels chains its instruction over k: every byte is the H200's."""
    bundle = load_bundle(traces / name)
    a, b, *_ = bundle.values()
    assert isinstance(a, np.ndarray) and isinstance(b, np.ndarray)
    if "tf32" in form:  # this kernel rounds its operands with cvt.rna.tf32.f32
        a, b = (((x.view(np.uint32) + 0x1000) & 0xFFFFE000).view(np.float32) for x in (a, b))
    d = tcsim.matmul(a, b.T if b_by_columns else b, form=form)
    digest = hashlib.sha256(np.ascontiguousarray(d).tobytes()).hexdigest()
    assert digest == bundle.outputs["c"].sha256


def test_another_order_has_other_bits(traces: Path) -> None:
    """The recording tells orders and devices apart."""
    bundle = load_bundle(traces / "gemm_f16_small")
    a, b, *_ = bundle.values()
    recorded = bundle.outputs["c"].sha256
    for different in (
        {"k_order": "split-k:2"},
        {"k_order": "promote:1"},
        {"device": "a100"},
        {"form": "mma.m16n8k8.f32.f16.f16.f32"},
    ):
        assert hashlib.sha256(tcsim.matmul(a, b, **different).tobytes()).hexdigest() != recorded


# --------------------------------------------------------------------------------------------- against what executes


def executed(form: MmaForm, sm: int, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """A chain of instructions on bit patterns, tile by tile on whole warps, K a multiple of the form's."""
    of = mma_fragment if form.instruction == "mma" else wmma_fragment
    parts = {name: of(form, name) for name in "abcd"}
    matrices, plan = parts["a"].matrices, make_plan(form, sm)
    (m, k), n = a.shape, b.shape[1]
    a, c = (np.pad(x, ((0, -m % form.m), (0, 0))) for x in (a, c))
    b, c = (np.pad(x, ((0, 0), (0, -n % form.n))) for x in (b, c))
    for i in range(0, len(c), form.m):
        for j in range(0, c.shape[1], form.n):
            tile = c[i : i + form.m, j : j + form.n]
            for step in range(0, k, form.k):
                elements = (a[i : i + form.m, step : step + form.k], b[step : step + form.k, j : j + form.n], tile)
                copies = (np.broadcast_to(x, (matrices, *x.shape)) for x in elements)
                registers = [parts[name].pack(x) for name, x in zip("abc", copies, strict=True)]
                tile = parts["d"].unpack(execute(plan, *registers)).reshape(matrices, form.m, form.n)[0]
            c[i : i + form.m, j : j + form.n] = tile
    return c[:m, :n]


def operands(form: MmaForm, case: str, m: int, n: int, k: int, seed: int) -> tuple[np.ndarray, ...]:
    """Bit patterns of A, B and C: of floating-point forms of a class, of others random, with sums at the ends of s32."""
    draw = Draw(form, case, seed, 0)
    if form.a in FORMATS:
        sizes = Sizes(1, m, n, k, FORMATS[form.a], FORMATS[form.b], FORMATS[form.c])
        return tuple(x[0] for x in FLOAT_CLASSES[case](draw, sizes))
    a, b = (draw.words(*shape) >> np.uint64(64 - element_bits(t)) for shape, t in (((m, k), form.a), ((k, n), form.b)))
    return a, b, (draw.pick((0, 1 << 31, (1 << 31) - 1), m, n) + draw.between(-9, 9, m, n)).astype(np.uint64) & 0xFFFFFFFF


@pytest.mark.parametrize("number", range(len(DENSE)), ids=lambda number: str(DENSE[number]))
def test_the_bits_are_those_of_executed_instructions(number: int) -> None:
    """Every form, on architectures and classes of operands by turns, odd sizes, three instructions long."""
    form = DENSE[number]
    sms = [sm for sm in ARCHITECTURES if sm >= form.sm]
    cases = tuple(FLOAT_CLASSES) if form.a in FORMATS else ("integers",)
    for turn in range(3):
        sm, case = sms[(number + turn) % len(sms)], cases[(5 * number + turn) % len(cases)]
        a, b, c = operands(form, case, form.m + 3, form.n + 1, 3 * form.k, number)
        got = quietly(*(native(x, t) for x, t in ((a, form.a), (b, form.b), (c, form.c))), device=f"sm_{sm}", form=str(form))
        np.testing.assert_array_equal(bits_of(got), executed(form, sm, a, b, c), err_msg=f"sm_{sm}, {case}")


@pytest.mark.parametrize("case", FLOAT_CLASSES)
@pytest.mark.parametrize(("a_type", "k"), [("bf16", 16), ("f16", 16), ("e5m2", 32)])
def test_every_class_of_operands(case: str, a_type: str, k: int) -> None:
    """Of three types: ranges in which the fast way is right and those that it must leave to the other."""
    form = next(f for f in MMA_FORMS if (f.a, f.b, f.k, f.d) == (a_type, a_type, k, "f32"))
    a, b, c = operands(form, case, 17, 40, 2 * k, 1)
    got = tcsim.matmul(native(a, a_type), native(b, a_type), native(c, "f32"), form=str(form))
    np.testing.assert_array_equal(bits_of(got), executed(form, 90, a, b, c))


BF16 = "mma.m16n8k16.f32.bf16.bf16.f32"


@pytest.mark.parametrize("exponent", [124, 125, 126, 127, -98, -99, -100, -101, -102])
def test_the_ends_of_the_range_in_which_products_are_float32(exponent: int) -> None:
    """Products of 2.25 * 2^exponent that cancel, beside one 2^-13 as large: beyond 2^125 they are no float32 numbers, and far
    below one they are subnormal."""
    high, low = exponent // 2, exponent - exponent // 2
    a = np.array([[1.5 * 2.0**high, -1.5 * 2.0**high, 1.25 * 2.0**high]]).astype(ml_dtypes.bfloat16)
    b = np.array([[1.5 * 2.0**low], [1.5 * 2.0**low], [2.0 ** (low - 13)]]).astype(ml_dtypes.bfloat16)
    assert tcsim.matmul(a, b, form=BF16) == np.float32(1.25 * 2.0 ** (exponent - 13))
    assert tcsim.matmul(a, -b, form=BF16) == np.float32(-1.25 * 2.0 ** (exponent - 13))
    a[0, 1], a[0, 2] = -1.25 * 2.0**high, 0
    assert tcsim.matmul(a, b, form=BF16) == np.float32(0.375 * 2.0**exponent)


@pytest.mark.parametrize(("special", "other"), [(np.nan, 0), (np.nan, 1), (np.inf, 0), (-np.inf, -0.0)])
def test_one_product_can_make_the_whole_sum_a_nan(special: float, other: float) -> None:
    a, b = np.ones((3, 16), np.float16), np.ones((16, 33), np.float16)
    a[1, 5], b[5, :] = special, other
    expected = np.full((3, 33), 15 + other, np.float32)
    expected.view(np.uint32)[1] = 0x7FFFFFFF
    np.testing.assert_array_equal(bits_of(tcsim.matmul(a, b)), bits_of(expected))
    np.testing.assert_array_equal(bits_of(tcsim.matmul(b.T, a.T)), bits_of(expected.T))


def test_large_matrices_are_cut_into_blocks() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(1100, 32)).astype(np.float16), rng.normal(size=(32, 70)).astype(np.float16)
    whole = tcsim.matmul(a, b)
    for row in (0, 1023, 1024, 1099):
        np.testing.assert_array_equal(whole[row : row + 1], tcsim.matmul(a[row : row + 1], b))
    np.testing.assert_array_equal(whole[:, 69:], tcsim.matmul(a, b[:, 69:]))


# -------------------------------------------------------------------------------------------- against the reference


REFERENCED = [
    *((name, 90) for name in instruction_names(90) if name.startswith("wgmma.m64")),
    ("mma.m16n8k16.f32.f16.f16.f32", 80),
    ("mma.m16n8k32.f32.e4m3.e5m2.f32", 89),
    ("mma.m16n8k32.f16.e5m2.e5m2.f16", 90),
    ("mma.m16n8k8.f32.tf32.tf32.f32", 90),
    ("mma.m8n8k4.row.col.f16.f16.f16.f16", 70),
    ("mma.m16n8k16.f64.f64.f64.f64", 90),
]


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 72), st.integers(0, 2**32 - 1), st.sampled_from(sorted(FLOAT_CLASSES)))
@pytest.mark.parametrize(("name", "sm"), REFERENCED)
def test_the_bits_are_those_of_the_reference(name: str, sm: int, k: int, seed: int, case: str) -> None:
    """Any K: the reference takes no zeros to fill it up, so this is the proof that those change nothing."""
    instruction = find_instruction(name, f"sm_{sm}")
    rng = np.random.default_rng(seed)
    a_type, b_type, c_type = instruction.a, instruction.b, instruction.c
    if a_type in FORMATS:
        form = MmaForm("mma", 2, 2, 72, a_type, b_type, c_type, c_type, 0)
        a, b, c = operands(form, case, 2, 2, 72, seed)
        a, b = a[:, :k], b[:k]
    else:
        a, b = (rng.integers(0, 1 << element_bits(t), s, np.uint64) for t, s in ((a_type, (2, k)), (b_type, (k, 2))))
        c = rng.integers(0, 1 << 32, (2, 2), np.uint64)
    try:
        got = quietly(*(native(x, t) for x, t in ((a, a_type), (b, b_type), (c, c_type))), device=f"sm_{sm}", form=name)
    except OperandError as refused:  # f64: a -0 that zeros would make +0
        assert "-0" in str(refused) and instruction.rule.method == "fma"
        return
    for row, column in np.ndindex(2, 2):
        total = int(c[row, column])
        for first in range(0, k, instruction.k):
            x, y = (v.tolist() for v in (a[row, first : first + instruction.k], b[first : first + instruction.k, column]))
            if instruction.rule.method == "integer":
                u, v = [integer_of(i, a_type) for i in x], [integer_of(i, b_type) for i in y]
                if a_type == "b1":
                    u, v = [i & j for i, j in zip(x, y, strict=True)], [1] * len(x)
                total = integer_dot(u, v, integer_of(total, "s32"), instruction.satfinite) & 0xFFFFFFFF
            else:
                total = dot(x, y, total, instruction.rule, a_type, b_type)
        assert int(bits_of(got)[row, column]) == total


def test_filling_up_k_is_refused_where_it_would_show() -> None:
    one, tiny = np.full((1, 1), -1.0), np.zeros((1, 1))
    with pytest.raises(OperandError, match=r"D\[0, 0\] is -0 without the zeros"):
        tcsim.matmul(one, tiny, np.full((1, 1), -0.0), form="mma.m8n8k4.f64.f64.f64.f64")
    assert tcsim.matmul(one, one, form="mma.m8n8k4.f64.f64.f64.f64") == 1.0
    padded = [np.array([[-1.0, 0, 0, 0]]), np.zeros((4, 1))]
    got = tcsim.matmul(*padded, np.full((1, 1), -0.0), form="mma.m8n8k4.f64.f64.f64.f64")
    assert got == 0 and not np.signbit(got)  # as the instruction does


# -------------------------------------------------------------------------------------------------------- orders


def matrices(m: int, k: int, n: int, kind: Any = np.float16) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(m * k + n)
    return rng.normal(size=(m, k)).astype(kind), rng.normal(size=(k, n)).astype(kind)


def test_split_k_adds_chains_in_float32() -> None:
    a, b = matrices(5, 16 * 7, 9)
    c = np.ones((5, 9), np.float32)
    parts = [tcsim.matmul(a[:, s], b[s], c if s.start == 0 else None) for s in (slice(0, 48), slice(48, 96), slice(96, 112))]
    got = tcsim.matmul(a, b, c, k_order="split-k:3")
    np.testing.assert_array_equal(got, (parts[0] + parts[1]) + parts[2])
    np.testing.assert_array_equal(tcsim.matmul(a, b, c, k_order=tcsim.SplitK(1)), tcsim.matmul(a, b, c))


def test_split_k_adds_pairwise() -> None:
    a, b = matrices(20, 16 * 5, 40)
    p = [tcsim.matmul(a[:, s : s + 16], b[s : s + 16]) for s in range(0, 80, 16)]
    np.testing.assert_array_equal(tcsim.matmul(a, b, k_order="split-k:5:pairwise"), ((p[0] + p[1]) + (p[2] + p[3])) + p[4])
    assert (tcsim.matmul(a, b, k_order="split-k:5:pairwise") != tcsim.matmul(a, b, k_order="split-k:5")).any()


def test_split_k_of_float16_accumulators_rounds_once() -> None:
    a, b = matrices(6, 64, 8)
    form = "mma.m16n8k16.f16.f16.f16.f16"
    p = [tcsim.matmul(a[:, s : s + 32], b[s : s + 32], form=form).astype(np.float32) for s in (0, 32)]
    np.testing.assert_array_equal(tcsim.matmul(a, b, form=form, k_order="split-k:2"), (p[0] + p[1]).astype(np.float16))


def test_promotion_adds_every_few_instructions() -> None:
    a, b = matrices(6, 32 * 5, 8, ml_dtypes.float8_e4m3fn)
    form = "wgmma.m64n8k32.f32.e4m3.e4m3"
    c = np.full((6, 8), 0.1, np.float32)
    total = c
    for first in (0, 64, 128):
        total = total + tcsim.matmul(a[:, first : first + 64], b[first : first + 64], form=form)
    np.testing.assert_array_equal(tcsim.matmul(a, b, c, form=form, k_order="promote:2"), total)
    assert (tcsim.matmul(a, b, c, form=form) != total).any()
    halves = tcsim.matmul(a, b, c, form="wgmma.m64n8k32.f16.e4m3.e4m3", k_order=tcsim.Promote(2))
    assert halves.dtype == np.float32


def test_sums_have_the_gpus_nans_and_wrap() -> None:
    infinity = np.array([[np.inf, 0]], np.float16)
    b = np.array([[1], [0]], np.float16)
    padded = np.zeros((1, 32), np.float16), np.zeros((32, 1), np.float16)
    padded[0][0, [0, 16]], padded[1][[0, 16], 0] = (np.inf, -np.inf), (1, 1)
    assert bits_of(tcsim.matmul(*padded, k_order="split-k:2"))[0, 0] == 0x7FFFFFFF
    assert bits_of(tcsim.matmul(infinity, b, k_order="promote:1"))[0, 0] == 0x7F800000
    ones = np.ones((1, 64), np.int8), np.ones((64, 1), np.int8)
    largest = np.full((1, 1), 2**31 - 1, np.int32)
    assert tcsim.matmul(*ones, largest, form="mma.m16n8k32.s32.s8.s8.s32", k_order="split-k:2") == 63 - 2**31
    assert tcsim.matmul(*ones, largest, form="mma.m16n8k32.satfinite.s32.s8.s8.s32") == 2**31 - 1
    nan = np.array([[0x7FF0000000000001] + [0] * 7], np.uint64)
    got = tcsim.matmul(nan, np.ones((8, 1)), form="mma.m8n8k4.f64.f64.f64.f64", k_order="split-k:2")
    assert bits_of(got)[0, 0] == 0x7FF8000000000001  # quiet, its payload kept


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ("fast", "say 'chain', 'split-k:SLICES'"),
        ("split-k:9", "K is 4 instructions long"),
        (tcsim.SplitK(0), "1 to 4 slices"),
        ("promote:0", "1 instruction or more"),
        (tcsim.SplitK(2, "downward"), "'ascending' or 'pairwise'"),
    ],
)
def test_orders_that_make_no_sense(order: Any, message: str) -> None:
    a, b = matrices(2, 64, 2)
    with pytest.raises(TcsimError, match=message):
        tcsim.matmul(a, b, k_order=order)


# ------------------------------------------------------------------------------------------------------ the door itself


def test_operands_come_in_many_ways() -> None:
    a, b = matrices(8, 32, 8)
    d = tcsim.matmul(a, b)
    assert d.dtype == np.float32 and d.shape == (8, 8)
    same = [
        (a.view(np.uint16), b.view(np.uint16)),
        (np.asfortranarray(a), b[:, ::-1][:, ::-1]),
        (a.astype(">f2"), b),
        (tcsim.asarray(a), tcsim.asarray(b)),
    ]
    for x, y in same:
        np.testing.assert_array_equal(tcsim.matmul(x, y), d)
    np.testing.assert_array_equal(tcsim.matmul(a, b, device=tcsim.Device("h200")), d)
    np.testing.assert_array_equal(tcsim.matmul(a, b, device="sm_90"), d)
    np.testing.assert_array_equal(tcsim.matmul(a, b, device="sm_103"), tcsim.matmul(a, b, device="b200"))
    four = np.array([[1, -8, 7]]), np.array([[1], [2], [-3]])
    form = "mma.m16n8k64.s32.s4.s4.s32"
    assert tcsim.matmul(*(x.astype(np.int8) for x in four), form=form) == -36
    assert tcsim.matmul(*(x.astype(ml_dtypes.int4) for x in four), form=form) == -36
    ones = np.array([[True, False, True]]), np.array([[True], [True], [True]])
    assert tcsim.matmul(*ones, form="mma.m16n8k128.s32.b1.b1.s32.and.popc") == 2
    assert tcsim.matmul(*ones, form="mma.m16n8k128.s32.b1.b1.s32.xor.popc") == 1


def test_empty_extents() -> None:
    c = np.full((2, 3), -0.0, np.float32)
    got = tcsim.matmul(np.zeros((2, 0), np.float16), np.zeros((0, 3), np.float16), c)
    np.testing.assert_array_equal(bits_of(got), bits_of(c))  # no instruction, so nothing happens to C
    assert tcsim.matmul(np.zeros((0, 4), np.float16), np.zeros((4, 3), np.float16)).shape == (0, 3)


def test_forms_have_two_names() -> None:
    for form in DENSE:
        instruction = find_instruction(str(form), f"sm_{max(form.sm, 70)}")
        assert find_instruction(instruction.name, f"sm_{max(form.sm, 70)}") == instruction
        assert (instruction.a, instruction.d, instruction.k) == (form.a, form.d, form.k)
    assert find_instruction("wmma.mma.sync.aligned.row.row.m16n16k16.f32.f32").name == "wmma.m16n16k16.f32.f16.f16.f32"
    long = "wgmma.mma_async.sync.aligned.m64n256k32.f32.e4m3.e5m2"
    assert find_instruction(long).name == "wgmma.m64n256k32.f32.e4m3.e5m2"
    xor = find_instruction("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.xor.popc")
    assert xor.name == "mma.m16n8k256.s32.b1.b1.s32.xor.popc"


@pytest.mark.parametrize(
    ("form", "device", "message"),
    [
        ("mma.m16n8k32.f32.e4m3.e4m3.f32", "a100", "needs sm_89 or later, and a100 is sm_80"),
        ("mma.m16n8k16.f32.f16.f16.f32", "t4", "nearest there: mma.m16n8k8.f32.f16.f16.f32"),
        ("mma.m16n8k15.f32.f16.f16.f32", "h200", "nearest: mma.m16n8k16.f32.f16.f16.f32"),
        ("mma.sync.aligned.m16n8k16.col.row.f32.f16.f16.f32", "h200", "no tensor-core instruction is called"),
        ("wgmma.m64n64k16.f32.f16.f16", "b200", "exists on sm_90a only"),
        ("wgmma.m64n65k16.f32.f16.f16", "h200", "nearest: wgmma.m64n64k16.f32.f16.f16"),
        ("mma.sp.m16n8k32.f32.f16.f16.f32", "t4", "needs sm_80 or later, and t4 is sm_75"),
        ("mma.m16n8k64.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0", "h200", "needs sm_120 or later.*nearest there: mma"),
        ("fma.rn.f32", "h200", "no tensor-core instruction"),
    ],
)
def test_a_form_that_is_not_there_names_the_nearest(form: str, device: str, message: str) -> None:
    a, b = matrices(2, 16, 2)
    with pytest.raises(NoFormError, match=message):
        tcsim.matmul(a, b, form=form, device=device)


@pytest.mark.parametrize(
    ("a", "b", "c", "form", "message"),
    [
        (np.ones((2, 4)), np.ones((4, 2), np.float16), None, "", r"a is float64, and mma.* takes f16 there: float16, or its"),
        ([[1, 2]], np.ones((2, 2), np.float16), None, "", r"a is int64.*a\.astype\(np\.float16\)"),
        (np.ones((2, 4), np.float16), np.ones((5, 2), np.float16), None, "", "a is 2 x 4 and b 5 x 2: K differs"),
        (np.ones(4, np.float16), np.ones((4, 2), np.float16), None, "", "a has 1 dimensions"),
        (np.ones((2, 4), np.float16), np.ones((4, 3), np.float16), np.ones((3, 2), np.float32), "", "c is 3 x 2"),
        (np.ones((2, 4), np.float16), np.ones((4, 3), np.float16), np.ones((2, 3), np.float16), "", "c is float16"),
        (np.ones((2, 4), ml_dtypes.float8_e4m3), np.ones((4, 2), ml_dtypes.float8_e4m3fn), None,
         "mma.m16n8k32.f32.e4m3.e4m3.f32", "a is float8_e4m3, and"),
        (np.full((1, 2), 8, np.int8), np.ones((2, 1), np.int8), None, "mma.m16n8k64.s32.s4.s4.s32", r"a\[0, 0\] is 8; s4"),
        (np.ones((1, 2), np.float16), np.ones((2, 1), np.float16), None, "wmma.m16n16k16.f32.f16.f16.f16",
         "D is f32 and C f16"),
    ],
)  # fmt: skip
def test_operands_that_do_not_fit(a: Any, b: Any, c: Any, form: str, message: str) -> None:
    with pytest.raises(TcsimError, match=message):
        tcsim.matmul(a, b, c, form=form or "mma.m16n8k16.f32.f16.f16.f32")


def test_unknown_device() -> None:
    a, b = matrices(2, 16, 2)
    with pytest.raises(DeviceError, match=r"unknown device 'h201'.*sm_70, sm_75"):
        tcsim.matmul(a, b, device="h201")


def test_tf32_operands_with_live_low_bits_warn() -> None:
    form = "mma.m16n8k8.f32.tf32.tf32.f32"
    a, b = np.full((1, 1), 1.1, np.float32), np.ones((1, 1), np.float32)
    with pytest.warns(UndefinedOperandWarning, match=r"a has 1 elements with bits below those of tf32, the first at \[0, 0\]"):
        d = tcsim.matmul(a, b, form=form)
    assert bits_of(d)[0, 0] == int(a.view(np.uint32)[0, 0]) & ~0x1FFF
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(tcsim.matmul(d, b, form=form), d)
