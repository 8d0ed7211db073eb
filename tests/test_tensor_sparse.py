"""``mma.sp``: where the metadata are, what they mean, and what comes out."""

from __future__ import annotations

import numpy as np
import pytest
from kernels import run

from gpu_ref.tensor.explain import explain, find_dot, reference
from gpu_ref.tensor.inputs import SparseOperands, classes, fragments, operands
from gpu_ref.tensor.replay import replay
from gpu_ref.tensor.sparse_inputs import variant
from isa.spec import find
from isa.tensor import (
    SPARSE_FORMS,
    MetadataError,
    MmaForm,
    NoFormError,
    execute,
    find_form,
    make_plan,
    metadata_fragment,
    metadata_layout,
    mma_fragment,
)
from isa.tensor.metadata import codes_of, gathered_k, reading_lanes, valid_pairs
from tcsim.device import Device
from tcsim.errors import KernelFault

ONE = 0x3C00
HALVES = find_form("mma.sp", "m16n8k16", "f16", "f16", "f32", "f32")
TF32 = find_form("mma.sp", "m16n8k8", "tf32", "tf32", "f32", "f32")
BYTES = find_form("mma.sp", "m16n8k64", "s8", "s8", "s32", "s32")
NIBBLES = find_form("mma.sp", "m16n8k64", "u4", "u4", "s32", "s32")

one_of_each_layout = pytest.mark.parametrize(
    "form", list({metadata_layout(form): form for form in SPARSE_FORMS}.values()), ids=str
)


# ------------------------------------------------------------------------------------------------------------ layouts


@pytest.mark.parametrize("operand", "abcd")
@pytest.mark.parametrize("form", SPARSE_FORMS, ids=str)
def test_every_element_is_held_once(form: MmaForm, operand: str) -> None:
    f = mma_fragment(form, operand)
    rows, columns = {"a": (16, form.k // 2), "b": (form.k, 8)}.get(operand, (16, 8))
    places = set(zip(*(x.ravel().tolist() for x in f.coordinates()[:2]), strict=True))
    assert places == {(r, c) for r in range(rows) for c in range(columns)}
    assert f.copies == 1 and f.registers == make_plan(form, 90).registers[operand]


@pytest.mark.parametrize("form", SPARSE_FORMS, ids=str)
def test_every_code_is_held_once_by_the_lanes_of_each_selector(form: MmaForm) -> None:
    layout, f = metadata_layout(form), metadata_fragment(form)
    row, unit, _ = f.coordinates()
    everything = {(r, u) for r in range(16) for u in range(layout.units)}
    lanes_read = []
    for selector in range(layout.selectors):
        lanes = reading_lanes(form, selector)
        held = list(zip(row[0, lanes].ravel().tolist(), unit[0, lanes].ravel().tolist(), strict=True))
        assert len(held) == len(everything) and set(held) == everything
        lanes_read += lanes.tolist()
    assert sorted(lanes_read) == list(range(32)) and f.copies == layout.selectors


def test_metadata_are_where_the_figures_of_the_ptx_isa_have_them() -> None:
    """Row and first stored unit of the code in the lowest bits, and of that in bits 16 and 17, of each lane of a group."""

    def first_codes(form: MmaForm, selector: int) -> list[tuple[int, int, int, int]]:
        row, unit, _ = metadata_fragment(form).coordinates()
        lanes = reading_lanes(form, selector)[: metadata_layout(form).lanes]
        return [tuple(int(x[0, lane, e]) for e in (0, 8) for x in (row, unit)) for lane in lanes]  # type: ignore[misc]

    def form(shape: str, t: str, d: str = "f32") -> MmaForm:
        return find_form("mma.sp", shape, t, t, d, d)

    for narrow in (HALVES, form("m16n8k16", "bf16"), TF32):
        assert [first_codes(narrow, s) for s in range(4)] == [[(0, 0, 8, 0)]] * 4
        assert [reading_lanes(narrow, s)[:3].tolist() for s in range(4)] == [[s, s + 4, s + 8] for s in range(4)]
    for wide in (form("m16n8k32", "f16"), form("m16n8k32", "bf16"), form("m16n8k16", "tf32")):
        assert first_codes(wide, 0) == first_codes(wide, 1) == [(0, 0, 8, 0), (0, 8, 8, 8)]
        assert reading_lanes(wide, 1)[:4].tolist() == [2, 3, 6, 7]
    for half in (form("m16n8k32", "u8", "s32"), NIBBLES):
        assert first_codes(half, 0) == first_codes(half, 1) == [(0, 0, 0, 8), (8, 0, 8, 8)]
    for whole in (BYTES, form("m16n8k128", "s4", "s32"), form("m16n8k64", "e5m2")):
        assert first_codes(whole, 0) == [(0, 0, 0, 8), (8, 0, 8, 8), (0, 16, 0, 24), (8, 16, 8, 24)]


def test_codes_choose_elements() -> None:
    codes = np.tile([1, 3, 0, 2], (16, 8))
    assert gathered_k(HALVES, codes[:, :8])[0].tolist() == [1, 3, 4, 6, 9, 11, 12, 14]
    assert gathered_k(BYTES, codes)[3, :4].tolist() == [1, 3, 4, 6]
    assert gathered_k(NIBBLES, codes[:, :16])[0, :8].tolist() == [2, 3, 6, 7, 8, 9, 12, 13]  # pairs of elements
    of_tf32 = np.tile([0, 1, 2, 3], (16, 2))  # 0b0100, 0b1110
    assert gathered_k(TF32, of_tf32)[0].tolist() == [0, 3, 4, 7]


def test_pairs_with_a_meaning() -> None:
    assert valid_pairs(HALVES, ordered=False) == (0b0100, 0b1000, 0b1100, 0b0001, 0b1001, 0b1101, 0b0010, 0b0110, 0b1110,
                                                  0b0011, 0b0111, 0b1011)  # fmt: skip
    assert valid_pairs(HALVES, ordered=True) == (0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b1110)
    assert valid_pairs(TF32, ordered=False) == valid_pairs(TF32, ordered=True) == (0b0100, 0b1110)


def test_dense_forms_have_no_metadata() -> None:
    with pytest.raises(NoFormError, match="dense"):
        metadata_layout(find_form("mma", "m16n8k16", "f16", "f16", "f32", "f32"))


# --------------------------------------------------------------------------------------------------------- arithmetic


@pytest.mark.parametrize(
    ("form", "sm"),
    [(form, sm) for form in SPARSE_FORMS for sm in (80, 89, 90, 120) if form.sm <= sm and (sm == 90 or form.d != "s32")],
    ids=str,
)
def test_kernels_against_the_exact_reference(form: MmaForm, sm: int) -> None:
    """Of each class of operands one warp, of which a row of eight outputs, of a different warp for each class."""
    plan = make_plan(form, sm)
    assert plan.rule.instruction == "mma.sp"
    parts = fragments(form)
    for number, case in enumerate(classes(form)):
        inputs = operands(form, case, 4711 + number, 0, 8)
        d = replay(plan, inputs)
        for place in range(number, d.shape[1] * 32, 9):
            register, lane = divmod(place, 32)
            for element in range(parts["d"].per_register):
                found = find_dot(form, inputs, d, number % 8, register, lane, element)
                right = reference(form, sm, found)
                assert found.got == right, explain(form, sm, found, right)


def small_problem(form: MmaForm) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A of ones, B all zeros, C zero, and metadata that store the first two of each four units."""
    a = np.full((16, form.k // 2), ONE if form.a == "f16" else 1, np.uint64)
    b, c = np.zeros((form.k, 8), np.uint64), np.zeros((16, 8), np.uint64)
    packed = tuple(mma_fragment(form, name).pack(x) for name, x in zip("abc", (a, b, c), strict=True))
    return (*packed, np.full(32, 0x44444444, np.uint32))  # type: ignore[return-value]


def test_what_is_not_chosen_has_no_effect() -> None:
    a, _, c, metadata = small_problem(HALVES)
    b = np.full((16, 8), 0x7E00, np.uint64)  # NaN
    b[[0, 1, 4, 5, 8, 9, 12, 13]] = ONE
    plan = make_plan(HALVES, 90)
    d = mma_fragment(HALVES, "d").unpack(execute(plan, a, mma_fragment(HALVES, "b").pack(b), c, metadata, 0))
    assert set(d.ravel().tolist()) == {0x41000000}  # 8.0
    metadata[5] = 0x44444448  # selector 1, group 1: row 1 stores elements 0 and 2 of the first chunk
    chosen = mma_fragment(HALVES, "d").unpack(execute(plan, a, mma_fragment(HALVES, "b").pack(b), c, metadata, 1))
    assert set(chosen[1].tolist()) == {0x7FFFFFFF} and set(np.delete(chosen, 1, 0).ravel().tolist()) == {0x41000000}


def test_zero_times_a_chosen_infinity_is_nan() -> None:
    a, _, c, metadata = small_problem(HALVES)
    b = np.full((16, 8), 0x7C00, np.uint64)
    packed = mma_fragment(HALVES, "b").pack(b)
    d = execute(make_plan(HALVES, 90), a & np.uint32(0xFFFF), packed, c, metadata, 2)  # half of A's elements are zero
    assert set(d.ravel().tolist()) == {0x7FFFFFFF}


def test_only_the_selected_lanes_are_read() -> None:
    a, _, c, _ = small_problem(HALVES)
    b = mma_fragment(HALVES, "b").pack(np.tile(np.array([ONE, 0, 0, 0] * 4, np.uint64)[:, None], 8))
    for selector in range(4):
        other = np.zeros(32, np.uint32)  # pairs without a meaning
        other[selector::4] = 0x44444444
        d = execute(make_plan(HALVES, 90, ordered=True), a, b, c, other, selector)
        assert set(d.ravel().tolist()) == {0x40800000}  # 4.0


def test_accumulating_in_place() -> None:
    for form in (HALVES, BYTES):
        inputs = operands(form, classes(form)[1], 3, 0, 1)
        assert isinstance(inputs, SparseOperands)
        plan = make_plan(form, 90)
        right = execute(plan, inputs.a[0], inputs.b[0], inputs.c[0], inputs.e[0, 0], 0)
        plan.kernel(inputs.c[0], inputs.a[0], inputs.b[0], inputs.c[0], inputs.e[0, 0], 0, plan.numbers)
        np.testing.assert_array_equal(inputs.c[0], right)


def test_ordered_metadata_changes_no_result() -> None:
    inputs = operands(HALVES, "window", 5, 0, 8)
    assert isinstance(inputs, SparseOperands)
    chosen = variant(HALVES, 5)
    assert chosen.ordered
    a, b, c = (np.ascontiguousarray(x[5]) for x in inputs[:3])
    found = [execute(make_plan(HALVES, 90, ordered), a, b, c, inputs.e[5, 0], chosen.selector) for ordered in (False, True)]
    np.testing.assert_array_equal(*found)
    codes = codes_of(HALVES, inputs.e[5, 0], chosen.selector)
    assert (codes[:, ::2] < codes[:, 1::2]).all()


# ------------------------------------------------------------------------------------------------ metadata that mean nothing


@pytest.mark.parametrize(
    ("form", "ordered", "word", "bit", "pair"),
    [
        (HALVES, False, 0x44444044, 8, "0b0000"),
        (HALVES, False, 0x4444444F, 0, "0b1111"),
        (HALVES, True, 0x14444444, 28, "0b0001"),
        (TF32, False, 0x44484444, 16, "0b1000"),
        (BYTES, True, 0x44644444, 20, "0b0110"),
        (NIBBLES, False, 0x54444444, 28, "0b0101"),
    ],
)
def test_bad_metadata_are_refused_by_lane_and_bits(form: MmaForm, ordered: bool, word: int, bit: int, pair: str) -> None:
    a, b, c, metadata = small_problem(form)
    plan = make_plan(form, 80, ordered)
    execute(plan, a, b, c, metadata, 0)
    metadata[13 if metadata_layout(form).lanes > 1 else 12] = word
    with pytest.raises(MetadataError, match=f"lane 1[23] are {word:#010x}, whose bits {bit} to {bit + 3} are {pair}"):
        execute(plan, a, b, c, metadata, 0)


def test_an_h200_takes_every_code_for_itself() -> None:
    """What other architectures do with such pairs is not known."""
    a, _, c, metadata = small_problem(HALVES)
    b = mma_fragment(HALVES, "b").pack(np.tile(np.array([0, 0, ONE, 0] * 4, np.uint64)[:, None], 8))
    metadata[:] = 0xAAAAAAAA  # element 2 of each chunk, twice
    d = execute(make_plan(HALVES, 90, ordered=True), a, b, c, metadata, 0)
    assert set(d.ravel().tolist()) == {0x41000000}  # 8.0
    a, _, c, metadata = small_problem(TF32)
    a = np.full_like(a, 0x3F800000)
    b = mma_fragment(TF32, "b").pack(np.tile(np.array([0x3F804000, 0x40002000] * 4, np.uint64)[:, None], 8))
    metadata[:] = 0xCCCCCCCC  # low halves of the first, high halves of the second element: 0x40004000 in each of four chunks
    d = execute(make_plan(TF32, 90), a, b, c, metadata, 0)
    assert set(d.ravel().tolist()) == {0x41004000}
    for sm in (80, 89, 100, 120):
        with pytest.raises(MetadataError):
            execute(make_plan(TF32, sm), a, b, c, metadata, 0)


def test_unordered_pairs_are_for_plain_mma_sp() -> None:
    a, b, c, metadata = small_problem(HALVES)
    metadata[:] = 0x11111111
    execute(make_plan(HALVES, 80), a, b, c, metadata, 0)
    with pytest.raises(MetadataError, match="0b0001; the pairs that have a meaning are 0b0100, 0b1000, 0b1001"):
        execute(make_plan(HALVES, 80, ordered=True), a, b, c, metadata, 0)


def test_metadata_and_selector_must_be_given() -> None:
    a, b, c, metadata = small_problem(BYTES)
    with pytest.raises(MetadataError, match="needs its metadata"):
        execute(make_plan(BYTES, 90), a, b, c)
    with pytest.raises(NoFormError, match="a sparsity selector below 1, this is 1"):
        execute(make_plan(BYTES, 90), a, b, c, metadata, 1)


# ------------------------------------------------------------------------------------------------------------ as programs


OPCODE = "mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"


def run_sparse(metadata: str, selector: int, device: str = "a100") -> list[int]:
    """A program that multiplies zeros and adds one; ``metadata`` are statements that set %r2."""
    operands = "{%f2, %f3, %f4, %f5}, {%r1, %r1}, {%r1, %r1}, {%f1, %f1, %f1, %f1}"
    body = f"mov.b32 %r1, 0; mov.f32 %f1, 0f3F800000; {metadata} {OPCODE} {operands}, %r2, {selector};"
    with Device(device):
        return list(run(f"{body} cvt.rzi.u32.f32 result, %f2;").tolist())


def test_in_a_program() -> None:
    assert run_sparse("mov.b32 %r2, 0x44444444;", 3) == [1] * 32


def test_bad_metadata_stop_a_program() -> None:
    """Where it is not known what comes of them, and if the selector says that the lane counts."""
    bad = "mov.b32 %r2, 0x44444444; setp.eq.u32 %p1, lane, 6; @%p1 mov.b32 %r2, 0x44544444;"
    assert run_sparse(bad, 1) == [1] * 32
    with pytest.raises(KernelFault, match=r"BAD OPERAND  mma\.sp::ordered_metadata"):
        run_sparse(bad, 2)
    assert run_sparse(bad, 2, "h200") == [1] * 32


def test_a_selector_out_of_range_stops_a_program() -> None:
    with pytest.raises(KernelFault, match="BAD OPERAND"):
        run_sparse("mov.b32 %r2, 0x44444444;", 4)


@pytest.mark.parametrize(
    ("opcode", "problem"),
    [
        ("mma.sp.sync.aligned.m16n8k64.row.col.f32.f16.f16.f32", "with these types there are m16n8k16, m16n8k32"),
        ("mma.sp.sync.aligned.m16n8k64.row.col.f32.e4m3.s8.f32", "of this shape there are f32.e4m3.e4m3.f32"),
        ("mma.sp.sync.aligned.m16n8k16.col.row.f32.f16.f16.f32", r"takes .row.col only \(PTX ISA 9.7.14.6.3\)"),
        ("mma.sync.aligned.m16n8k16.row.col.rz.f32.f16.f16.f32", "d f32, .rz"),
    ],
)
def test_opcodes_that_do_not_exist_are_explained(opcode: str, problem: str) -> None:
    forms, why = find(opcode)
    assert not forms
    with pytest.raises(AssertionError, match=problem):
        raise AssertionError(why)


def test_each_opcode_has_its_own_rule() -> None:
    for word, ordered in (("mma.sp", False), ("mma.sp::ordered_metadata", True)):
        (form,), _ = find(f"{word}.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32")
        assert form.instruction.arch_rule is not None
        rule = form.instruction.arch_rule(form.params, 90)
        assert rule["numbers"] == make_plan(TF32, 90, ordered).numbers

