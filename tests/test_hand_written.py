"""What people write by hand and compilers do not: vector registers, array elements, calls with constants and sinks."""

from __future__ import annotations

import numpy as np
import pytest

import tcsim
from isa.errors import PtxError
from tests.kernels import HEADER, kernel, run

LANES = np.arange(32)
WORDS = np.random.default_rng(22).integers(0, 2**32, 64, dtype=np.uint32)


def test_vector_registers() -> None:
    got = run(
        """
        .reg .v4 .b32 v, w;
        .reg .v2 .f32 f;
        .reg .v4 .u32 t;
        ld.global.v4.b32 v, [pin];
        mov.v4.b32 w, {v.w, v.z, v.y, v.x};
        mov.v4.u32 t, %tid;
        mov.v2.f32 f, {0f3F800000, 0f40000000};
        add.f32 f.x, f.x, f.y;
        st.global.v4.b32 [pin+16], w;
        st.global.f32 [pin+32], f.x;
        add.u32 result, t.x, t.y;
        """,
        data=WORDS,
    )
    np.testing.assert_array_equal(got, LANES)
    np.testing.assert_array_equal(run.buffer[4:8], WORDS[3::-1])
    assert run.buffer[8:9].view(np.float32)[0] == 3.0


@pytest.mark.parametrize(("text", "why"), [
    (".reg .v4 .b32 v; add.u32 %r1, v, 1;", r"takes 1 register.*4 given"),
    (".reg .v3 .b32 v;", "are .v2 or .v4"),
    (".reg .v4 .b32 v; mov.v2.b32 {%r1, %r2}, v;", "two vectors of 2"),
    ("ld.param.u32 %r1, nothing[2];", "not a variable"),
    (".shared .u32 x[4]; ld.shared.u32 %r1, x[%p1];", "not a register of 32 or 64 bits"),
])  # fmt: skip
def test_misuse_is_named(text: str, why: str) -> None:
    with pytest.raises(PtxError, match=why):
        tcsim.RawModule(code=kernel(text)).get_function("k")


def test_elements_of_arrays() -> None:
    got = run(
        """
        .shared .align 4 .u32 box[40];
        .local .u16 mine[4];
        add.u32 %r1, lane, 1;
        st.shared.u32 box[%r1], lane;
        st.local.u16 mine[3], 7;
        cvt.u64.u32 %rd5, lane;
        ld.shared.u32 %r2, box[%rd5+1];
        ld.local.u16 %r3, [mine+6];
        ld.global.u32 %r4, table[2];
        mad.lo.u32 result, %r3, 100, %r2;
        add.u32 result, result, %r4;
        """,
        declarations=".global .align 4 .u32 table[] = {1000, 2000, 3000};\n",
    )
    np.testing.assert_array_equal(got, 3700 + LANES)


def test_constants_and_sinks_in_calls() -> None:
    got = run(
        """
        mov.u64 %rd1, twice;
        how: .callprototype (.param .b32 _) _ (.param .b32 _);
        to: .calltargets twice;
        call (%r1), %rd1, (21), how;
        call (%r2), %rd1, (4), to;
        call (_), twice, (5);
        call (_), %rd1, (5), how;
        mad.lo.u32 result, %r1, 100, %r2;
        """,
        declarations="""
        .func (.param .b32 r) twice(.param .b32 x)
        { .reg .b32 a; ld.param.b32 a, [x]; shl.b32 a, a, 1; st.param.b32 [r], a; ret; }
        """,
    )
    np.testing.assert_array_equal(got, 4208)


def test_32_bit_addresses_are_refused() -> None:
    text = kernel("").replace(".address_size 64", ".address_size 32")
    with pytest.raises(tcsim.UnsupportedError, match="64-bit addresses only"):
        tcsim.RawModule(code=text)
    tcsim.RawModule(code=kernel("").replace(".address_size 64", "")).get_function("k")


def test_textures_are_named() -> None:
    declared = HEADER.format(target="sm_80") + ".global .texref t; .visible .entry k() { ret; }"
    tcsim.RawModule(code=declared).get_function("k")((1,), (1,))  # not used
    with pytest.raises(PtxError, match="textures, samplers and surfaces"):
        tcsim.RawModule(code=declared.replace("k()", "k(.param .texref p)")).get_function("k")
    with pytest.raises(PtxError, match="launching kernels from kernels"):
        tcsim.RawModule(code=kernel("mov.u64 %rd1, k;")).get_function("k")


@pytest.mark.parametrize(("text", "why"), [
    ("tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f5, %f6}];", "textures and surfaces"),
    ("sust.b.2d.b32.trap [%rd1, {%r1, %r2}], {%r3};", "textures and surfaces"),
    ("tcgen05.fence::before_thread_sync;", "compile for sm_90a"),
    ("multimem.red.relaxed.sys.global.add.u32 [%rd1], %r1;", "several GPUs"),
    ("frobnicate.u32 %r1, %r2;", "unknown instruction 'frobnicate'"),
])  # fmt: skip
def test_what_is_not_executed_says_why(text: str, why: str) -> None:
    with pytest.raises(tcsim.UnsupportedError, match=f"line 16: .*{why}"):
        tcsim.RawModule(code=kernel(text))
