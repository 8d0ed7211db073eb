"""Scalar instructions through real PTX text: order of operands, guards, pairs, sinks, constants, register widths."""

from __future__ import annotations

import numpy as np
import pytest

from isa.errors import PtxError
from tests.kernels import run

LANES = np.arange(32, dtype=np.uint32)


def one(body: str, target: str = "sm_90") -> int:
    """The result of thread 0."""
    return int(run(body, 1, target=target)[0])


@pytest.mark.parametrize(
    "text, expected",
    [
        ("mov.u32 %r1, 7; mov.u32 %r2, 3; sub.u32 result, %r1, %r2;", 4),
        ("mov.u32 %r1, 7; mov.u32 %r2, 3; mov.u32 %r3, 100; mad.lo.u32 result, %r1, %r2, %r3;", 121),
        ("mov.u32 %r1, 0xff; mov.u32 %r2, 0; bfi.b32 result, %r1, %r2, 8, 4;", 0xF00),
        ("mov.u32 %r1, 0x12345678; bfe.u32 result, %r1, 8, 12;", 0x456),
        ("mov.u32 %r1, 1; mov.u32 %r2, 0x80000000; shf.l.wrap.b32 result, %r2, %r1, 4;", 0x18),
        ("mov.u32 %r1, 0x44332211; mov.u32 %r2, 0x88776655; prmt.b32 result, %r1, %r2, 0x7531;", 0x88664422),
        ("mov.u32 %r1, 12; mov.u32 %r2, 10; lop3.b32 result, %r1, %r2, 6, 0x96;", 12 ^ 10 ^ 6),
        ("mov.f32 %f1, 0f40400000; mov.f32 %f2, 0f3F800000; div.rn.f32 %f3, %f2, %f1; mov.b32 result, %f3;", 0x3EAAAAAB),
        ("mov.f32 %f1, 0fC0000000; mov.f32 %f2, 0f40400000; copysign.f32 %f3, %f1, %f2; mov.b32 result, %f3;", 0xC0400000),
        ("mov.f32 %f1, 1.5; mov.f32 %f2, -2.0; cvt.rn.f16x2.f32 result, %f1, %f2;", 0x3E00C000),
        ("mov.u32 %r1, 5; mov.u32 %r2, 9; mov.s32 %r3, -1; slct.u32.s32 result, %r1, %r2, %r3;", 9),
    ],
)
def test_order_of_operands(text: str, expected: int) -> None:
    assert one(text) == expected


@pytest.mark.parametrize(
    "text, expected",
    [
        ("add.s32 result, result, -5;", 0xFFFFFFFB),
        ("add.u32 result, result, 0xfffffffe;", 0xFFFFFFFE),
        ("or.b32 result, result, 0b1011;", 11),
        ("add.u32 result, result, 017;", 15),
        ("mul.wide.s32 %rd1, -3, 5; shr.u64 %rd2, %rd1, 32; cvt.u32.u64 result, %rd2;", 0xFFFFFFFF),
        ("mov.s16 %h1, 1; add.s16 %h2, %h1, -3; cvt.s32.s16 result, %h2;", 0xFFFFFFFE),
        ("mov.f32 %f1, 0f3F800000; add.f32 %f2, %f1, 0f40000000; mov.b32 result, %f2;", 0x40400000),
        ("mov.f32 %f1, 0f3F800000; fma.rn.f32 %f2, %f1, 2.5, -0.5; mov.b32 result, %f2;", 0x40000000),
        ("mov.f32 %f1, 0f3F800000; add.f32 %f2, %f1, 0d4000000000000000; mov.b32 result, %f2;", 0x40400000),
        ("mov.f64 %fd1, 0d3FF0000000000000; add.f64 %fd2, %fd1, 0d4008000000000000; cvt.rzi.s32.f64 result, %fd2;", 4),
        ("mov.f64 %fd1, 1e3; mul.f64 %fd2, %fd1, -2.0; cvt.rzi.s32.f64 result, %fd2;", 2**32 - 2000),
        ("cvt.rn.f32.s32 %f1, -8; mov.b32 result, %f1;", 0xC1000000),
        ("setp.lt.f32 %p1, -0.5, 0f00000000; selp.u32 result, 3, 4, %p1;", 3),
        ("shl.b32 result, 1, 33;", 0),
    ],
)
def test_constants(text: str, expected: int) -> None:
    assert one(text) == expected


def test_guards_and_negated_predicates() -> None:
    got = run("setp.lt.u32 %p1, lane, 10; @%p1 add.u32 result, lane, 100; @!%p1 sub.u32 result, lane, 1;")
    assert got.tolist() == [lane + 100 if lane < 10 else lane - 1 for lane in range(32)]
    got = run("setp.lt.u32 %p1, lane, 10; setp.gt.and.u32 %p2, lane, 5, !%p1; selp.u32 result, 1, 0, %p2;")
    assert got.tolist() == [int(lane >= 10) for lane in range(32)]
    got = run("setp.lt.u32 %p1, lane, 10; and.pred %p2, !%p1, %p1; or.pred %p3, %p2, !%p1; selp.u32 result, 1, 0, %p3;")
    assert got.tolist() == [int(lane >= 10) for lane in range(32)]


def test_two_destinations() -> None:
    body = "setp.lt.u32 {pair}, lane, 7; @{p} add.u32 result, result, 1; @{q} add.u32 result, result, 2;"
    assert run(body.format(pair="%p1|%p2", p="%p1", q="%p2")).tolist() == [1 if lane < 7 else 2 for lane in range(32)]
    kept = "setp.eq.u32 %p3, lane, lane; " + body
    assert run(kept.format(pair="_|%p2", p="%p3", q="%p2")).tolist() == [1 if lane < 7 else 3 for lane in range(32)]
    combined = (
        "setp.lt.u32 %p3, lane, 4; setp.lt.or.u32 %p1|%p2, lane, 7, %p3; selp.u32 %r1, 1, 0, %p1; selp.u32 %r2, 2, 0, %p2; "
    )
    got = run(combined + "add.u32 result, %r1, %r2;")
    assert got.tolist() == [3 if lane < 4 else 1 if lane < 7 else 2 for lane in range(32)]
    halves = "mov.b32 %r1, 0x3C004000; cvt.rn.f16.u32 %h1, lane; mov.b32 %r2, {%h1, %h1}; setp.gt.f16x2 %p1|%p2, %r1, %r2;"
    got = run(halves + "selp.u32 %r3, 1, 0, %p1; selp.u32 %r4, 2, 0, %p2; or.b32 result, %r3, %r4;", target="sm_80")
    assert got.tolist() == [3, 1] + [0] * 30
    lop = "lop3.or.b32 {d}|%p1, lane, 1, 0, 0xC0, %p2; selp.u32 %r2, 16, 0, %p1; add.u32 result, %r1, %r2;"
    start = "mov.u32 %r1, 0; setp.eq.u32 %p2, lane, 4; "
    expected = [(lane & 1) + (16 if lane & 1 or lane == 4 else 0) for lane in range(32)]
    assert run(start + lop.format(d="%r1"), target="sm_80").tolist() == expected
    assert run(start + lop.format(d="_"), target="sm_80").tolist() == [word & 16 for word in expected]


def test_vectors_feed_scalars() -> None:
    data = np.array([5, 6, 7, 8], np.uint32)
    body = "ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [pin]; sub.u32 %r5, %r4, %r1; mad.lo.u32 result, %r2, %r3, %r5;"
    assert run(body, data=data).tolist() == [45] * 32


def test_registers_wider_than_types() -> None:
    """PTX ISA 9.4.1: cvt, ld and st may use wider registers; cvt extends its result by the sign of its type."""
    assert one("mov.u32 %r1, 0x1ff80; cvt.s8.s32 result, %r1;") == 0xFFFFFF80
    assert one("mov.u32 %r1, 0x1ff80; cvt.u8.u32 result, %r1;") == 0x80
    assert one("mov.u32 %r1, 0xdead8001; cvt.s32.s16 result, %r1;") == 0xFFFF8001
    assert one("mov.u64 %rd1, 0x1234567880000001; cvt.rn.f32.s32 %f1, %rd1; mov.b32 result, %f1;") == 0xCF000000
    assert one("mov.u32 %r1, 0xffff3c00; cvt.f32.f16 result, %r1;") == 0x3F800000
    assert one("mov.f32 %f1, 0fBF800000; cvt.rn.f16.f32 result, %f1;") == 0xBC00
    assert one("mov.u32 %r1, 0x8000; cvt.s16.s32 %rd1, %r1; shr.u64 %rd2, %rd1, 32; cvt.u32.u64 result, %rd2;") == 0xFFFFFFFF
    body = "ld.global.s8 result, [pin+3]; st.global.u8 [pin+1], result; ld.global.u16 %r1, [pin]; add.u32 result, result, %r1;"
    assert int(run(body, 1, data=np.array([0x80000011], np.uint32))[0]) == (0xFFFFFF80 + 0x8011) & 0xFFFFFFFF


def test_carry_flag_runs_through_a_chain() -> None:
    """128-bit sums in words, and 128-bit differences in double words; other instructions between leave the flag alone."""
    a, b = 0xFFFFFFFF_FFFFFFFF_00000001_FFFFFFFE, 0x00000000_00000001_FFFFFFFF_00000005
    data = np.frombuffer(a.to_bytes(16, "little") + b.to_bytes(16, "little"), np.uint32)
    load = "ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [pin]; ld.global.v4.u32 {%r5, %r6, %r7, %r8}, [pin+16];"
    store = "st.global.v4.u32 [pin+32], {%r9, %r10, %r11, %r12};"
    chain = ("{op}.cc.u32 %r9, %r1, %r5; setp.eq.u32 %p1, tid, 0; {op}c.cc.u32 %r10, %r2, %r6; add.u32 %r20, %r9, 1; "
             "{op}c.cc.u32 %r11, %r3, %r7; {op}c.u32 %r12, %r4, %r8;")  # fmt: skip
    buffer = np.concatenate([data, np.zeros(8, np.uint32)])
    for op, total in (("add", a + b), ("sub", a - b)):
        run(load + chain.format(op=op) + store, 1, data=buffer)
        got = int.from_bytes(run.buffer[8:12].tobytes(), "little")  # type: ignore[attr-defined]
        assert got == total % (1 << 128)
    wide = ("ld.global.v2.u64 {%rd1, %rd2}, [pin]; ld.global.v2.u64 {%rd3, %rd4}, [pin+16]; sub.cc.u64 %rd5, %rd1, %rd3; "
            "subc.u64 %rd6, %rd2, %rd4; st.global.v2.u64 [pin+32], {%rd5, %rd6};")  # fmt: skip
    run(wide, 1, data=buffer)
    assert int.from_bytes(run.buffer[8:12].tobytes(), "little") == (a - b) % (1 << 128)  # type: ignore[attr-defined]


def test_carry_flag_belongs_to_each_thread() -> None:
    """Written under a guard, it stays as it was in the other lanes; after ``sub.cc`` it says that nothing was borrowed."""
    body = "mov.u32 %r1, 0xffffffff; add.cc.u32 %r2, %r1, lane; addc.u32 result, 0, 0;"
    assert run(body).tolist() == [int(lane > 0) for lane in range(32)]
    guarded = "setp.lt.u32 %p1, lane, 16; add.cc.u32 %r2, 0, 0; @%p1 add.cc.u32 %r3, 0xffffffff, 1; addc.u32 result, 0, 0;"
    assert run(guarded).tolist() == [int(lane < 16) for lane in range(32)]
    assert run("sub.cc.u32 %r1, lane, 9; addc.u32 result, 0, 0;").tolist() == [int(lane >= 9) for lane in range(32)]
    assert run("mad.lo.cc.u32 %r1, lane, 0x10000000, 0; mad.hi.cc.u32 %r2, lane, 0x80000000, 0xfffffff8; addc.u32 result, 0, 0;"
               ).tolist() == [int(lane // 2 >= 8) for lane in range(32)]  # fmt: skip


def test_wrong_operands_are_refused() -> None:
    with pytest.raises(PtxError, match=r"%p1 is \.pred, expected a 32-bit register"):
        one("add.u32 result, result, %p1;")
    with pytest.raises(PtxError, match="operands"):
        one("add.u32 result, result;")
    with pytest.raises(PtxError, match="operands"):
        one("addc.u32 result, result, 1, %p1;")
