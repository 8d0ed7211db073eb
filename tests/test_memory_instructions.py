"""Loads, stores, atomics and asynchronous copies: widths, signs, vectors, spaces, and the order of lanes."""

from __future__ import annotations

import numpy as np
import pytest

import tcsim
from isa.errors import PtxError
from tcsim.errors import KernelFault
from tests.kernels import kernel, run

LANES = np.arange(32)
RNG = np.random.default_rng(20)
WORDS = RNG.integers(0, 2**32, 64, dtype=np.uint32)


@pytest.mark.parametrize(
    ("form", "register", "kind"),
    [
        ("u8", "%h1", np.uint8),
        ("s8", "%h1", np.int8),
        ("u8", "%r1", np.uint8),
        ("s8", "%r1", np.int8),
        ("u16", "%h1", np.uint16),
        ("s16", "%r1", np.int16),
        ("b16", "%r1", np.uint16),
        ("s32", "%r1", np.int32),
        ("f32", "%f1", np.uint32),
    ],
)
def test_narrow_loads_extend_as_their_type_says(form: str, register: str, kind: type) -> None:
    """Into registers of 16, 32 and (below) 64 bits."""
    finish = {
        "%h1": "cvt.s32.s16 result, %h1;" if np.issubdtype(kind, np.signedinteger) else "cvt.u32.u16 result, %h1;",
        "%r1": "mov.b32 result, %r1;",
        "%f1": "mov.b32 result, %f1;",
    }[register]
    size = np.dtype(kind).itemsize
    got = run(
        f"mul.wide.u32 %rd5, lane, {size}; add.s64 %rd5, %rd5, pin; ld.global.{form} {register}, [%rd5]; {finish}",
        data=WORDS,
    )
    np.testing.assert_array_equal(got, WORDS.view(kind)[:32].astype(np.int64).astype(np.uint32))


@pytest.mark.parametrize(
    ("form", "kind"), [("s8", np.int8), ("u8", np.uint8), ("s16", np.int16), ("s32", np.int32), ("u32", np.uint32)]
)
def test_loads_into_64_bit_registers(form: str, kind: type) -> None:
    size = np.dtype(kind).itemsize
    got = run(
        f"mul.wide.u32 %rd5, lane, {size}; add.s64 %rd5, %rd5, pin; ld.global.{form} %rd6, [%rd5];"
        "shr.u64 %rd7, %rd6, 32; cvt.u32.u64 %r1, %rd7; cvt.u32.u64 %r2, %rd6; xor.b32 result, %r1, %r2;",
        data=WORDS,
    )
    wide = WORDS.view(kind)[:32].astype(np.int64)
    np.testing.assert_array_equal(got, ((wide >> 32) ^ wide).astype(np.uint32))


def test_narrow_stores_from_wide_registers() -> None:
    run(
        """
        mul.wide.u32 %rd5, lane, 1;
        add.s64 %rd5, %rd5, pin;
        add.u32 %r1, lane, 0x12345600;
        st.global.u8 [%rd5], %r1;
        mul.wide.u32 %rd6, lane, 2;
        add.s64 %rd6, %rd6, pin;
        cvt.u64.u32 %rd7, %r1;
        st.global.u16 [%rd6+64], %rd7;
        """,
        data=np.zeros(64, np.uint32),
    )
    stored = run.buffer.view(np.uint8)
    np.testing.assert_array_equal(stored[:32], LANES)
    np.testing.assert_array_equal(stored[64:128].view(np.uint16), 0x5600 + LANES)


def test_vectors() -> None:
    got = run(
        """
        and.b32 %r9, lane, 15;
        mul.wide.u32 %rd5, %r9, 16;
        add.s64 %rd5, %rd5, pin;
        ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd5];
        ld.global.v2.u32 {%r5, %r6}, [%rd5+8];
        xor.b32 %r1, %r1, %r6;
        add.u32 %r2, %r2, %r3;
        add.u32 %r2, %r2, %r5;
        xor.b32 result, %r1, %r2;
        xor.b32 result, result, %r4;
        """,
        data=WORDS,
    )
    a, b, c, d = WORDS.reshape(16, 4)[LANES % 16].T
    np.testing.assert_array_equal(got, a ^ d ^ (b + c + c) ^ d)


def test_discarded_vector_elements() -> None:
    got = run("mov.u64 %rd5, pin; ld.global.v4.u32 {_, %r1, _, %r2}, [%rd5]; add.u32 result, %r1, %r2;", data=WORDS)
    np.testing.assert_array_equal(got, WORDS[1] + WORDS[3])


def test_generic_addresses_reach_every_space() -> None:
    got = run(
        """
        .local .align 4 .b8 mine[16];
        mov.u32 %r1, buffer;
        mad.lo.u32 %r1, lane, 4, %r1;
        st.shared.u32 [%r1], lane;
        cvt.u64.u32 %rd1, %r1;
        cvta.shared.u64 %rd2, %rd1;
        ld.u32 %r2, [%rd2];
        mov.u64 %rd3, mine;
        cvta.local.u64 %rd4, %rd3;
        add.u32 %r3, lane, 100;
        st.u32 [%rd4+4], %r3;
        ld.local.u32 %r4, [mine+4];
        ld.u32 %r5, [pin];
        isspacep.shared %p1, %rd2;
        isspacep.local %p2, %rd4;
        isspacep.global %p3, pin;
        and.pred %p1, %p1, %p2;
        and.pred %p1, %p1, %p3;
        cvta.to.shared.u64 %rd6, %rd2;
        setp.eq.u64 %p4, %rd6, %rd1;
        and.pred %p1, %p1, %p4;
        selp.b32 %r6, 1000, 0, %p1;
        add.u32 result, %r2, %r4;
        add.u32 result, result, %r5;
        add.u32 result, result, %r6;
        """,
        data=np.array([7], np.uint32),
        declarations=".shared .align 4 .b8 buffer[128];",
    )
    np.testing.assert_array_equal(got, LANES + 100 + LANES + 7 + 1000)


def test_constants_are_a_space_of_their_own() -> None:
    """As an H200 answers: a generic address of a ``.const`` variable is in ``.const`` and not in ``.global``."""
    got = run(
        """
        mov.u64 %rd1, table;
        cvta.const.u64 %rd2, %rd1;
        ld.u32 result, [%rd2+4];
        isspacep.const %p1, %rd2;
        @%p1 add.u32 result, result, 100;
        isspacep.global %p1, %rd2;
        @%p1 add.u32 result, result, 1000;
        isspacep.const %p1, pin;
        @%p1 add.u32 result, result, 10000;
        isspacep.global %p1, pin;
        @%p1 add.u32 result, result, 100000;
        """,
        data=WORDS,
        declarations=".const .align 4 .b32 table[4] = {11, 22, 33, 44};",
    )
    np.testing.assert_array_equal(got, 100122)


def test_local_memory_belongs_to_its_thread() -> None:
    got = run(
        """
        .local .align 8 .b8 mine[64];
        st.local.u32 [mine+8], tid;
        bar.sync 0;
        ld.local.u32 result, [mine+8];
        """,
        96,
    )
    np.testing.assert_array_equal(got, np.arange(96))


def test_lowest_lane_wins_a_store_to_one_place() -> None:
    run("st.global.u32 [pin], lane;", data=np.zeros(2, np.uint32))
    assert run.buffer[0] == 0


@pytest.mark.parametrize(
    ("form", "operand", "start", "want"),
    [
        ("add.u32", "lane", 5, 5 + 496),
        ("add.s32", "-1", 10, 10 - 32),
        ("min.u32", "lane", 7, 0),
        ("max.s32", "lane", -3, 31),
        ("min.s32", "-5", 3, -5),
        ("and.b32", "0x0ff0", 0xFFFF, 0x0FF0),
        ("or.b32", "lane", 0, 31),
        ("xor.b32", "lane", 9, 9),
        ("inc.u32", "9", 0, 2),
        ("dec.u32", "9", 0, 8),
        ("exch.b32", "lane", 0, 31),
    ],
)
def test_integer_atomics(form: str, operand: str, start: int, want: int) -> None:
    """32 lanes on one word: sums and extremes do not depend on the order; inc and dec wrap at 9."""
    for opcode, target in (("atom.global", "result, "), ("red.global", "")):
        if opcode == "red.global" and form.startswith("exch"):
            continue
        run(f"mov.u32 %r1, {operand}; {opcode}.{form} {target}[pin], %r1;", data=np.array([start & 0xFFFFFFFF, 0], np.uint32))
        assert run.buffer[0] == want & 0xFFFFFFFF, opcode


def test_atomics_return_what_was_there() -> None:
    got = run("atom.global.add.u32 result, [pin], 3;", data=np.array([100, 0], np.uint32))
    np.testing.assert_array_equal(got, 100 + 3 * LANES)
    got = run("atom.global.gpu.relaxed.cas.b32 result, [pin], 50, lane;", data=np.array([50, 0], np.uint32))
    np.testing.assert_array_equal(got, np.where(LANES == 0, 50, 0))


def test_wide_and_shared_atomics() -> None:
    got = run(
        """
        mov.u32 %r1, buffer;
        mov.u64 %rd5, 0x100000000;
        st.shared.u64 [%r1], 5;
        bar.sync 0;
        atom.shared.add.u64 %rd6, [%r1], %rd5;
        red.shared.max.s64 [%r1], -1;
        bar.sync 0;
        ld.shared.v2.u32 {%r2, %r3}, [%r1];
        mad.lo.u32 result, %r3, 1000, %r2;
        """,
        64,
        declarations=".shared .align 8 .b8 buffer[16];",
    )
    np.testing.assert_array_equal(got, 64 * 1000 + 5)


def test_float_atomics() -> None:
    run("cvt.rn.f32.u32 %f1, lane; red.global.add.f32 [pin], %f1;", data=np.array([0, 0], np.uint32))
    assert run.buffer.view(np.float32)[0] == 496
    run("cvt.rn.f64.u32 %fd1, lane; atom.global.add.f64 %fd2, [pin], %fd1;", data=np.array([0, 0], np.uint32))
    assert run.buffer.view(np.float64)[0] == 496


@pytest.mark.parametrize(("size", "op"), [(4, "ca"), (8, "ca"), (16, "ca"), (16, "cg")])
def test_asynchronous_copies(size: int, op: str) -> None:
    got = run(
        f"""
        mov.u32 %r1, buffer;
        and.b32 %r9, lane, 7;
        mad.lo.u32 %r2, %r9, {size}, %r1;
        mul.wide.u32 %rd5, %r9, {size};
        add.s64 %rd5, %rd5, pin;
        cp.async.{op}.shared.global [%r2], [%rd5], {size};
        cp.async.commit_group;
        cp.async.wait_group 0;
        ld.shared.u32 result, [%r2+{size - 4}];
        """,
        data=WORDS,
        declarations=".shared .align 16 .b8 buffer[512];",
    )
    np.testing.assert_array_equal(got, WORDS[(LANES % 8) * size // 4 + size // 4 - 1])


def test_copies_that_fill_with_zeros() -> None:
    """Lane i copies i % 5 words of four; nothing is read where it is none, even at a bad address."""
    got = run(
        """
        mov.u32 %r1, buffer;
        mad.lo.u32 %r2, lane, 16, %r1;
        rem.u32 %r3, lane, 5;
        shl.b32 %r4, %r3, 2;
        setp.eq.u32 %p1, %r3, 0;
        selp.b64 %rd5, 64, pin, %p1;
        mov.u32 %r6, -1;
        st.shared.v4.u32 [%r2], {%r6, %r6, %r6, %r6};
        cp.async.cg.shared.global [%r2], [%rd5], 16, %r4;
        cp.async.wait_all;
        ld.shared.v4.u32 {%r5, %r6, %r7, %r8}, [%r2];
        xor.b32 %r5, %r5, %r6;
        xor.b32 %r7, %r7, %r8;
        xor.b32 result, %r5, %r7;
        """,
        data=WORDS,
        declarations=".shared .align 16 .b8 buffer[512];",
    )
    sums = np.concatenate([[0], np.bitwise_xor.accumulate(WORDS[:4])]).astype(np.uint32)
    np.testing.assert_array_equal(got, sums[LANES % 5])


def test_bad_copy_sizes() -> None:
    declarations = ".shared .align 16 .b8 buffer[512];"
    with pytest.raises(PtxError, match="size must be 16, as a constant"):
        run("mov.u32 %r1, buffer; cp.async.cg.shared.global [%r1], [pin], 8;", declarations=declarations)
    with pytest.raises(KernelFault, match="BAD OPERAND"):
        run("mov.u32 %r1, buffer; cp.async.cg.shared.global [%r1], [pin], 16, 17;", declarations=declarations)


def test_shared_memory_is_fresh_for_every_cta() -> None:
    got = run(
        """
        mov.u32 %r1, buffer;
        ld.shared.u32 result, [%r1];
        bar.sync 0;
        st.shared.u32 [%r1], 77;
        """,
        grid=3,
        declarations=".shared .align 16 .b8 buffer[16];",
    )
    np.testing.assert_array_equal(got, 0)


@pytest.mark.parametrize("own", [False, True], ids=["of the module", "of the kernel"])
def test_dynamic_shared_memory_follows_the_static(own: bool) -> None:
    """nvcc declares a static array in the kernel that alone uses it, after it has declared the dynamic one."""
    fixed, dynamic = ".shared .align 4 .b8 fixed[20];\n", ".extern .shared .align 16 .b8 dynamic[];\n"
    code = kernel(
        (fixed if own else "")
        + """
        mov.u32 %r1, dynamic;
        mov.u32 %r2, fixed;
        st.shared.u32 [dynamic+60], 5;
        ld.shared.u32 %r3, [%r1+60];
        sub.u32 %r4, %r1, %r2;
        mad.lo.u32 result, %r3, 1000, %r4;
        """,
        declarations=dynamic if own else fixed + dynamic,
    )
    function = tcsim.RawModule(code=code).get_function("k")
    out = tcsim.zeros(32, np.uint32)
    function((1,), (32,), (out, out), shared_mem=64)
    np.testing.assert_array_equal(out.get(), 5032)
    with pytest.raises(KernelFault, match=r"the CTA has 92 bytes of shared memory \(32 static, 60 dynamic\)"):
        function((1,), (32,), (out, out), shared_mem=60)
