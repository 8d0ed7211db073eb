"""128-bit registers, cache policies and hints, the stack in local memory, clocks as operands."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tcsim
from isa.errors import PtxError
from isa.instructions.cache_hints import fraction_field, range_fields
from tcsim.errors import KernelFault
from tests.kernels import kernel, run

LANES = np.arange(32)
RNG = np.random.default_rng(21)
WORDS = RNG.integers(0, 2**32, 64, dtype=np.uint32)
POLICY = "createpolicy.fractional.L2::evict_first.b64 %rd9;"


def test_128_bits_move_whole_and_in_parts() -> None:
    got = run(
        """
        .reg .b128 q<3>; .reg .b128 wide;
        ld.global.b128 q0, [pin+16];
        mov.b128 {%rd1, %rd2}, q0;
        mov.b128 q1, {%rd2, %rd1};
        mov.b128 wide, q1;
        mov.b128 {%r1, %r2, %r3, %r4}, wide;
        mov.b128 q2, {%r4, %r3, %r2, %r1};
        st.global.b128 [pin], q2;
        mov.b128 q0, -2;
        mov.b128 {_, %rd3}, q0;
        cvt.u32.u64 result, %rd3;
        """,
        data=WORDS,
        target="sm_90",
    )
    np.testing.assert_array_equal(got, 0xFFFFFFFF)
    # halves exchanged, then words reversed: pairs of words exchanged
    np.testing.assert_array_equal(run.buffer[:4], WORDS[[5, 4, 7, 6]])


def test_128_bit_exchanges_and_swaps() -> None:
    data = np.array([1, 2, 3, 4, 0, 0, 0, 0], np.uint32)
    got = run(
        POLICY
        + """
        .reg .b128 old, mine;
        setp.ne.u32 %p1, lane, 0;
        @%p1 bra DONE;
        mov.b128 mine, {1, 2, 3, 4};
        mov.b128 old, mine;
        mov.b128 mine, {9, 9, 9, 9};
        atom.global.cas.b128 old, [pin], old, mine;
        mov.b128 {result, _, _, _}, old;
        atom.global.cas.b128 mine, [pin], old, old;          // no longer equal
        atom.exch.L2::cache_hint.b128 old, [pin+16], mine, %rd9;
        mov.b128 {_, _, _, %r1}, old;
        add.u32 result, result, %r1;
        DONE:
        """,
        data=data,
        target="sm_90",
    )
    assert got[0] == 1
    np.testing.assert_array_equal(run.buffer, [9] * 8)


def test_128_bits_need_their_registers_and_alignment() -> None:
    with pytest.raises(PtxError, match="128 bits wide"):
        run(".reg .b128 q; add.u64 %rd1, q, 1;")
    with pytest.raises(KernelFault, match="16-byte access"):
        run(".reg .b128 q; ld.global.b128 q, [pin+8];")


def test_128_bit_parameters_of_functions() -> None:
    declarations = """
    .func (.param .b128 back) turn(.param .align 16 .b8 given[16])
    {
        .reg .b128 q; .reg .b64 low, high;
        ld.param.b128 q, [given];
        mov.b128 {low, high}, q;
        mov.b128 q, {high, low};
        st.param.b128 [back], q;
        ret;
    }
    """
    got = run(
        """
        .reg .b128 q;
        mov.b128 q, {5, 6, lane, 8};
        { .param .align 16 .b8 given[16]; .param .b128 back;
          st.param.b128 [given], q;
          call (back), turn, (given);
          ld.param.b128 q, [back]; }
        mov.b128 {result, _, %r1, _}, q;
        mad.lo.u32 result, result, 100, %r1;
        """,
        declarations=declarations,
    )
    np.testing.assert_array_equal(got, 100 * LANES + 5)


def test_accesses_with_a_cache_policy() -> None:
    got = run(
        POLICY
        + """
        mul.wide.u32 %rd5, lane, 4;
        add.s64 %rd5, %rd5, pin;
        ld.global.L1::evict_first.L2::cache_hint.L2::128B.u32 %r1, [%rd5], %rd9;
        st.global.L2::cache_hint.u32 [%rd5], lane, %rd9;
        atom.global.add.L2::cache_hint.u32 %r2, [%rd5], 1, %rd9;
        red.relaxed.gpu.global.add.L2::cache_hint.u32 [%rd5], 1, %rd9;
        ld.relaxed.gpu.global.u32 %r3, [%rd5];
        ldu.global.u32 %r4, [%rd5+128];
        ld.mmio.relaxed.sys.global.u32 %r5, [%rd5+128];
        add.u32 result, %r1, %r2;
        add.u32 result, result, %r3;
        add.u32 result, result, %r4;
        sub.u32 result, result, %r5;
        prefetch.global.L2::evict_last [pin];
        applypriority.global.L2::evict_normal [pin], 128;
        """,
        data=WORDS,
    )
    np.testing.assert_array_equal(got, WORDS[:32] + (LANES + LANES + 2).astype(np.uint32))


def test_asynchronous_copies_with_a_policy_and_a_predicate() -> None:
    got = run(
        POLICY
        + """
        .shared .align 16 .b8 tile[512];
        mov.u32 %r1, tile;
        shl.b32 %r2, lane, 2;
        add.u32 %r1, %r1, %r2;
        mul.wide.u32 %rd5, lane, 4;
        add.s64 %rd5, %rd5, pin;
        setp.lt.u32 %p1, lane, 8;
        cp.async.ca.shared.global.L2::cache_hint [%r1], [%rd5], 4, %rd9;
        cp.async.ca.shared.global [%r1+128], [%rd5], 4, %p1;
        cp.async.ca.shared.global.L2::cache_hint.L2::64B [%r1+256], [%rd5], 4, !%p1, %rd9;
        cp.async.wait_all;
        ld.shared.u32 result, [%r1];
        ld.shared.u32 %r3, [%r1+128];
        ld.shared.u32 %r4, [%r1+256];
        mad.lo.u32 result, %r3, 3, result;
        mad.lo.u32 result, %r4, 5, result;
        """,
        data=WORDS,
    )
    first = WORDS[:32].astype(np.uint64)
    want = first + np.where(LANES < 8, 5 * first, 3 * first)
    np.testing.assert_array_equal(got, want.astype(np.uint32))


def _policy(high: int) -> int:
    return high << 52


@settings(deadline=None)
@given(st.floats(0, 1, width=32))
def test_fractions_of_a_policy(fraction: float) -> None:
    assert int(fraction_field(np.float32(fraction))) == math.floor(np.float32(fraction) * np.float32(15.99))


@settings(deadline=None)
@given(st.integers(0, 2**46), st.integers(1, 2**32 - 1), st.integers(1, 2**32 - 1))
def test_ranges_of_a_policy(start: int, primary: int, total: int) -> None:
    """The granularity is the smallest power of two of at least 4 KiB of which 128 cover the range."""
    granularity, first, count = (int(x) for x in range_fields(np.uint64(start), np.uint32(primary), np.uint32(total)))
    shift = granularity + 12
    assert 128 << shift >= total or math.isclose(128 << shift, total, rel_tol=1e-6)
    assert granularity == 0 or 128 << (shift - 1) <= total * (1 + 1e-6)
    assert first == (start >> shift) % 128
    end = (start + (primary - 1 + (1 << shift)) % 2**32) >> shift
    assert count == min(end - (start >> shift), 127)


def test_policies_have_the_bits_that_ptxas_gives_them() -> None:
    """Bits as in the machine code for sm_90a."""
    got = run(
        """
        mov.f32 %f1, 0f3F000000;
        createpolicy.fractional.L2::evict_last.L2::evict_first.b64 %rd1, %f1;
        createpolicy.fractional.L2::evict_unchanged.L2::evict_unchanged.b64 %rd2;
        createpolicy.range.global.L2::evict_first.b64 %rd3, [0x12345000], 0x8000, 0x100000;
        createpolicy.cvt.L2.b64 %rd4, %rd3;
        st.global.v2.b64 [pin], {%rd1, %rd2};
        st.global.v2.b64 [pin+16], {%rd3, %rd4};
        """
    )
    assert got.size == 32
    first, second, third, fourth = (int(x) for x in run.buffer.view(np.uint64)[:4])
    assert first == _policy(0x157) and second == _policy(0x10F)
    assert third == fourth == _policy(0x1A1) | (0x91A2 & 0x7F) << 44 | 5 << 37


# ------------------------------------------------------------------------------------------------------------- stack


def test_memory_allocated_on_the_stack() -> None:
    got = run(
        """
        .local .align 4 .b8 fixed[8];
        stacksave.u64 %rd1;
        add.u32 %r1, lane, 1;
        mul.wide.u32 %rd2, %r1, 4;
        alloca.u64 %rd3, %rd2, 16;
        alloca.u64 %rd4, 4;
        st.local.u32 [fixed+4], 7;
        st.local.u32 [%rd4], 9;
        mov.u32 %r2, 0;
        LOOP:
        st.local.u32 [%rd3], %r2;
        add.u64 %rd3, %rd3, 4;
        add.u32 %r2, %r2, 1;
        setp.lt.u32 %p1, %r2, %r1;
        @%p1 bra LOOP;
        ld.local.u32 result, [%rd3-4];
        ld.local.u32 %r3, [fixed+4];
        ld.local.u32 %r4, [%rd4];
        mad.lo.u32 result, %r3, 100, result;
        mad.lo.u32 result, %r4, 1000, result;
        stackrestore.u64 %rd1;
        stacksave.u64 %rd5;
        sub.u64 %rd5, %rd5, %rd1;
        cvt.u32.u64 %r5, %rd5;
        add.u32 result, result, %r5;
        """
    )
    np.testing.assert_array_equal(got, 9700 + LANES)


RECURSIVE = """
.func (.param .b32 total) sum(.param .b32 given)
{
    .reg .b32 n, i, r, s; .reg .b64 size, mine, at; .reg .pred p;
    ld.param.b32 n, [given];
    mul.wide.u32 size, n, 4;
    alloca.u64 mine, size, 8;                 // n words, each n
    mov.u64 at, mine;
    mov.u32 i, 0;
    FILL:
    setp.ge.u32 p, i, n;
    @p bra FILLED;
    st.local.u32 [at], n;
    add.u64 at, at, 4;
    add.u32 i, i, 1;
    bra FILL;
    FILLED:
    mov.u32 s, 0;
    setp.lt.u32 p, n, 2;
    @p bra COUNT;
    sub.u32 r, n, 1;
    { .param .b32 a; .param .b32 b; st.param.b32 [a], r; call (b), sum, (a); ld.param.b32 s, [b]; }
    COUNT:
    setp.eq.u32 p, i, 0;
    @p bra DONE;
    sub.u64 at, at, 4;
    ld.local.u32 r, [at];
    add.u32 s, s, r;
    sub.u32 i, i, 1;
    bra COUNT;
    DONE:
    st.param.b32 [total], s;
    ret;
}
"""


def test_recursion_that_allocates() -> None:
    got = run(
        """
        and.b32 %r1, lane, 7;
        { .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call (b), sum, (a); ld.param.b32 result, [b]; }
        """,
        declarations=RECURSIVE,
    )
    np.testing.assert_array_equal(got, [sum(k * k for k in range(n % 8 + 1)) for n in range(32)])


def test_a_stack_that_is_too_small_is_a_fault() -> None:
    with pytest.raises(KernelFault, match="stack"):
        run("mov.u64 %rd2, 0x100000; alloca.u64 %rd3, %rd2; add.u64 %rd3, %rd3, 0x80000; st.local.u32 [%rd3], 1;")
    with pytest.raises(PtxError, match="alignment"):
        run("alloca.u64 %rd3, 64, 24;")


# ---------------------------------------------------------------------------------------------------- registers


def test_clocks_as_operands_of_any_instruction() -> None:
    got = run(
        "add.u32 %r1, %clock, 0; cvt.u64.u32 %rd1, %clock; add.u64 %rd2, %clock64, 0; setp.ge.u64 %p1, %rd2, %rd1;"
        "selp.u32 result, 1, 0, %p1; add.u32 result, result, %pm3;"
    )
    np.testing.assert_array_equal(got, 1)


def test_bytes_of_a_half() -> None:
    got = run(
        ".reg .b8 c<2>; mov.u16 %h1, 0x1234; mov.b16 {c0, c1}, %h1; mov.b16 %h2, {c1, c0}; cvt.u32.u16 result, %h2;"
        "isspacep.global %p1, lane; @!%p1 mov.u32 result, 0; pmevent 3;"
    )
    np.testing.assert_array_equal(got, 0x3412)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("ld.relaxed.global.u32 %r1, [pin];", "needs a scope"),
        ("ld.gpu.global.u32 %r1, [pin];", "is the scope of"),
        ("ld.nc.u32 %r1, [pin];", "weak loads from .global"),
        ("st.release.gpu.local.u32 [%r1], %r1;", "for global and shared memory"),
        ("st.shared.L2::cache_hint.u32 [%r1], %r1, %rd1;", "for global memory"),
        ("ld.global.v8.u64 {%rd1,%rd2,%rd3,%rd4,%rd5,%rd6,%rd7,%rd8}, [pin];", "wider than 32 bytes"),
        ("atom.shared.add.L2::cache_hint.u32 %r1, [%r2], 1, %rd1;", "for global memory"),
    ],
)
def test_qualifiers_that_do_not_go_together(text: str, why: str) -> None:
    with pytest.raises(tcsim.UnsupportedError, match=why):
        tcsim.RawModule(code=kernel(text))
