"""``mma`` with a ``.kind``: against exact arithmetic, fragments and scales against the PTX ISA, and from PTX."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import isa.instructions  # noqa: F401  (fills the registry)
import tcsim
from isa.errors import TcsimError
from isa.spec import find
from isa.tensor.formats import FLOAT_FORMATS
from isa.tensor.forms import MmaForm, NoFormError
from isa.tensor.layouts import mma_fragment
from isa.tensor.metadata import codes_of, gathered_k, valid_pairs
from isa.tensor.scaled_forms import KIND_FORMS, container_shift, find_kind_form, scale_columns, selectors
from isa.tensor.scaled_plans import Scales, SelectorError, execute_scaled, make_kind_plan
from isa.tensor.scaled_reference import decode_scale, scaled_dot
from tests.reference.ptxas import PTXAS, refused

CHOSEN = [form for number, form in enumerate(KIND_FORMS) if number % 17 == 3 or form.operand_bits == 4]


def pack(form: MmaForm, operand: str, codes: np.ndarray) -> np.ndarray:
    shift = container_shift(form, operand) if operand in "ab" else 0
    return mma_fragment(form, operand).pack(codes.astype(np.uint64) << np.uint64(shift))


def draw(form: MmaForm, rng: np.random.Generator, ordinary: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Codes of A, B and C: ordinary numbers, or any bits."""
    bits = [FLOAT_FORMATS[t].bits for t in (form.a, form.b, form.d)]
    shapes = (form.m, form.stored_k), (form.k, form.n), (form.m, form.n)
    a, b, c = (rng.integers(0, 1 << width, shape) for width, shape in zip(bits, shapes, strict=True))
    if ordinary:
        a, b = (x & 0xBB if width == 8 else x for x, width in zip((a, b), bits, strict=False))
        if form.d == "f32":
            values = rng.normal(size=c.shape) * 2.0 ** rng.integers(-10, 20, c.shape)
            c = values.astype(np.float32).view(np.uint32).astype(np.int64)
    return a, b, c


def scales_of(form: MmaForm, rng: np.random.Generator, operand: str, ordinary: bool) -> Scales:
    low, high = ((0x10, 0x60) if form.scale_type == "ue4m3" else (118, 138)) if ordinary else (0, 256)
    words = rng.integers(low, high, (32, 4)).astype(np.uint8).view(np.uint32)[:, 0]
    byte_ids, thread_ids = selectors(form, operand)
    return Scales(words, int(rng.choice(byte_ids)), int(rng.choice(thread_ids)))


@pytest.mark.parametrize("form", CHOSEN, ids=str)
@pytest.mark.parametrize("ordinary", [True, False])
def test_kernels_equal_the_exact_arithmetic(form: MmaForm, ordinary: bool) -> None:
    rng = np.random.default_rng(len(str(form)) + ordinary)
    plan = make_kind_plan(form, 120)
    a, b, c = draw(form, rng, ordinary)
    met = np.broadcast_to(b[None], (form.m, *b.shape))
    scales: list[Scales | None] = [None, None]
    of_rows: list[list[list[int]]] = [[[]] * form.m, [[]] * form.n]
    if form.scale_vec:
        scales = [scales_of(form, rng, operand, ordinary) for operand in "ab"]
        of_rows = [scale_columns(form, o, *s).tolist() for o, s in zip("ab", scales, strict=True)]  # type: ignore[misc]
    metadata = None
    if form.is_sparse:
        pairs = rng.choice(valid_pairs(form, True), (32, 8)).astype(np.uint32)
        metadata = (pairs << np.arange(0, 32, 4, dtype=np.uint32)).sum(axis=1).astype(np.uint32)
        met = b[gathered_k(form, codes_of(form, metadata, 0))]
    packed = [pack(form, operand, codes) for operand, codes in zip("abc", (a, b, c), strict=True)]
    d = mma_fragment(form, "d").unpack(execute_scaled(plan, *packed, *scales, metadata))
    for row, column in product(range(form.m), range(form.n)):
        x, y, z = a[row].tolist(), met[row][:, column].tolist(), int(c[row, column])
        want = scaled_dot(x, y, z, plan.rule, form, of_rows[0][row], of_rows[1][column])
        assert int(d[row, column]) == want, (row, column)


def test_fragments_of_four_bits() -> None:
    """PTX ISA 9.7.14.5.12, m16n8k64: rows groupID and 8 more, eight elements a register."""
    form = find_kind_form("mma", "mxf4", "m16n8k64", "e2m1", "e2m1", "f32", "f32", 2, "ue8m0")
    row, k, _ = mma_fragment(form, "a").coordinates()
    k_of_b, column, _ = mma_fragment(form, "b").coordinates()
    for register, lane, element in product(range(4), range(32), range(8)):
        group, thread = lane >> 2, lane & 3
        assert row[register, lane, element] == group + 8 * (register & 1)
        assert k[register, lane, element] == 8 * thread + 32 * (register >> 1) + element
        if register < 2:
            assert column[register, lane, element] == group
            assert k_of_b[register, lane, element] == 8 * thread + 32 * register + element


def test_scales_by_hand() -> None:
    assert decode_scale(127, "ue8m0").exponent == 0
    assert decode_scale(255, "ue8m0").kind == decode_scale(0x7F, "ue4m3").kind == "nan"
    assert decode_scale(0xB8, "ue4m3") == decode_scale(0x38, "ue4m3")  # the sign does not count
    form = find_kind_form("mma", "mxf4nvf4", "m16n8k64", "e2m1", "e2m1", "f32", "f32", 4, "ue4m3")
    plan = make_kind_plan(form, 120)
    one, half = 2, 1  # e2m1
    a = np.full((16, 64), one)
    b = np.full((64, 8), half)
    words = np.full(32, 0x38404830, np.uint32)  # 1, 2, 4 and 0.5 from the top: blocks 3, 2, 1, 0
    ones = np.full(32, 0x38383838, np.uint32)
    c = np.zeros((16, 8))
    packed = [pack(form, o, x) for o, x in zip("abc", (a, b, c), strict=True)]
    d = mma_fragment(form, "d").unpack(execute_scaled(plan, *packed, Scales(words), Scales(ones)))
    assert (d.astype(np.uint32).view(np.float32) == 16 * 0.5 * (1 + 2 + 4 + 0.5)).all()


def test_35_bits_are_kept() -> None:
    """In the 4-bit kinds what is 2^-34 of the greatest term still counts, and F32 is rounded toward zero."""
    form = find_kind_form("mma", "mxf4", "m16n8k64", "e2m1", "e2m1", "f32", "f32", 2, "ue8m0")
    rule = make_kind_plan(form, 120).rule
    a, b = [2] + [0] * 31 + [2] + [0] * 31, [2] * 64
    minus_one = 0xBF800000
    for far, want in ((34, 2.0**-34), (35, 2.0**-35), (36, 0.0)):
        got = scaled_dot(a, b, minus_one, rule, form, [127, 127 - far], [127, 127])
        assert np.uint32(got).view(np.float32) == np.float32(want), far


def test_what_there_is_is_listed() -> None:
    with pytest.raises(NoFormError, match=r"there are m16n8k64, A and B of e2m1.*ue4m3 with scale_vec::4X"):
        find_kind_form("mma", "mxf4nvf4", "m16n8k64", "e2m1", "e2m1", "f32", "f32", 0, "ue4m3")
    with pytest.raises(NoFormError, match=r"sm_120a and its family, this is sm_100"):
        make_kind_plan(KIND_FORMS[0], 100)
    form = find_kind_form("mma", "mxf4", "m16n8k64", "e2m1", "e2m1", "f32", "f32", 0, "ue8m0")
    zero = np.zeros((4, 32), np.uint32)
    with pytest.raises(SelectorError, match="there are byte-ids 0, 2 and thread-ids 0, 1"):
        execute_scaled(make_kind_plan(form, 120), zero, zero, zero, Scales(zero[0], 1, 0), Scales(zero[0]))


# -------------------------------------------------------------------------------------------------------------- from PTX

_KERNEL = """.version 8.7
.target {target}
.address_size 64
.visible .entry k(.param .u64 p)
{{
    .reg .b64 at; .reg .b32 r<16>; .reg .f32 x<4>; .reg .b32 lane; .reg .b16 byte, thread;
    ld.param.u64 at, [p];
    mov.u32 lane, %tid.x;
    mad.wide.u32 at, lane, 4, at;
    {loads}
    mov.f32 x0, 0f3F800000;
    mov.b16 byte, {byte};
    mov.b16 thread, 1;
    mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e2m1.e4m3.f32.ue8m0
        {{x0, x1, x2, x3}}, {{r0, r1, r2, r3}}, {{r4, r5}}, {{x0, x0, x0, x0}}, r6, {{byte, thread}}, {{r7}}, {{0, 3}};
    {stores}
    ret;
}}
"""


def run(words: np.ndarray, byte: int, target: str = "sm_120a", device: str = "sm_120") -> np.ndarray:
    loads = "\n".join(f"ld.global.b32 r{i}, [at+{128 * i}];" for i in range(8))
    stores = "\n".join(f"st.global.f32 [at+{128 * i}], x{i};" for i in range(4))
    with tcsim.Device(device):
        data = tcsim.asarray(words)
        tcsim.RawKernel(_KERNEL.format(target=target, loads=loads, stores=stores, byte=byte), "k")(1, 32, (data,))
    return data.get()


def test_a_kernel_multiplies_with_scales() -> None:
    rng = np.random.default_rng(1)
    form = find_kind_form("mma", "mxf8f6f4", "m16n8k32", "e2m1", "e4m3", "f32", "f32", 1, "ue8m0")
    a, b, _ = draw(form, rng, True)
    scale_a, scale_b = (rng.integers(118, 138, (32, 4)).astype(np.uint8).view(np.uint32)[:, 0] for _ in range(2))
    got = run(np.concatenate([pack(form, "a", a), pack(form, "b", b), scale_a[None], scale_b[None]]), 2)
    one = np.full((16, 8), 0x3F800000)
    packed = [pack(form, o, x) for o, x in zip("abc", (a, b, one), strict=True)]
    want = execute_scaled(make_kind_plan(form, 120), *packed, Scales(scale_a, 2, 1), Scales(scale_b, 0, 3))
    np.testing.assert_array_equal(got[:4], want)


def test_a_wrong_selector_stops_the_kernel() -> None:
    with pytest.raises(TcsimError, match=r"byte-id-a 5.*PTX ISA 9\.7\.14\.3"):
        run(np.zeros((8, 32), np.uint32), 5)


def test_other_architectures_refuse_it() -> None:
    with pytest.raises(TcsimError, match=r"exists on sm_120a.*for sm_90a"):
        run(np.zeros((8, 32), np.uint32), 0, "sm_90a", "h200")


# ------------------------------------------------------------------------------------------------------------- ptxas

TYPES = ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1")
KINDS = ("", "kind::f8f6f4", "kind::mxf8f6f4", "kind::mxf4", "kind::mxf4nvf4")
REGISTERS = ".reg .b32 q<64>; .reg .f32 x<64>;"


def registers(letter: str, count: int, first: int) -> str:
    return "{" + ", ".join(f"{letter}{first + i}" for i in range(count)) + "}"


def lines() -> dict[str, str]:
    """Opcodes near those with a kind, with operands to try them with."""
    found = {}
    names = ("mma", "mma.sp", "mma.sp::ordered_metadata")
    pairs = [(a, b) for a, b in product(TYPES, TYPES) if a == b or "e2m1" in (a, b)]
    for name, kind, k, (a, b), c, d in product(names, KINDS, (16, 32, 64, 128), pairs, ("f32", "f16"), ("f32", "f16")):
        block = kind.startswith("kind::mx")
        for vec, scale in product(("", "scale_vec::1X", "scale_vec::2X", "scale_vec::4X"), ("", "ue8m0", "ue4m3")):
            if not block and (vec or scale):
                continue
            words = [name, f"sync.aligned.m16n8k{k}.row.col", kind, "block_scale" * block, vec, d, a, b, c, scale]
            opcode = ".".join(filter(None, words))
            width, sparse = (4 if "mxf4" in kind else 8), name != "mma"
            operands = [
                registers("x", 4, 0) if d == "f32" else registers("q", 2, 0),
                registers("q", max(1, 16 * k * width // 1024 >> sparse), 8), registers("q", max(1, 8 * k * width // 1024), 24),
                registers("x", 4, 40) if c == "f32" else registers("q", 2, 40),
            ]  # fmt: skip
            operands += ["q50", "0"] * sparse + ["q51", "{0, 0}", "q52", "{0, 0}"] * block
            found[opcode] = f"{opcode} {', '.join(operands)};"
    return found


@pytest.mark.skipif(PTXAS is None, reason="ptxas is not on the PATH")
@pytest.mark.parametrize("target", ["sm_120a", "sm_100a", "sm_120"])
def test_ptxas_accepts_the_same(target: str, tmp_path: Path) -> None:
    every, sm = lines(), int(re.sub(r"\D", "", target))
    bad = refused([REGISTERS, *every.values()], target, tmp_path)

    def known(opcode: str) -> bool:
        for form in find(opcode)[0]:
            entry = form.instruction
            if entry.targets and target not in entry.targets:
                continue
            try:
                assert entry.arch_rule is not None
                entry.arch_rule(form.params, sm)
            except TcsimError:
                continue
            return True
        return False

    accepted = {opcode for index, opcode in enumerate(every, 1) if index not in bad}
    assert {opcode for opcode in every if known(opcode)} == accepted
    assert len(accepted) > 10


@pytest.mark.skipif(PTXAS is None, reason="ptxas is not on the PATH")
def test_ptxas_accepts_the_same_selectors(tmp_path: Path) -> None:
    base = "{x0, x1, x2, x3}, {q8, q9, q10, q11}, {q12, q13}, {x4, x5, x6, x7}, q1, {%d, %d}, q2, {%d, %d};"
    tried, text = [], [REGISTERS]
    for form in KIND_FORMS:
        if not form.scale_vec or form.is_sparse or (form.a, form.b) not in (("e4m3", "e2m1"), ("e2m1", "e2m1")):
            continue
        opcode = str(form).replace(".sync.", ".sync.aligned.")
        for operand, byte, thread in product("ab", range(5), range(5)):
            tried.append((form, operand, byte, thread))
            text.append(f"{opcode} " + base % ((byte, thread, 0, 0) if operand == "a" else (0, 0, byte, thread)))
    bad = refused(text, "sm_120a", tmp_path)
    for index, (form, operand, byte, thread) in enumerate(tried, 1):
        byte_ids, thread_ids = selectors(form, operand)
        assert (index not in bad) == (byte in byte_ids and thread in thread_ids), (str(form), operand, byte, thread)
