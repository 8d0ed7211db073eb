"""Exchange between lanes, each against a few lines of plain Python that say what PTX says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tcsim
from tests.kernels import kernel, run

LANES = np.arange(32)
u32 = st.integers(0, 2**32 - 1)


def _shuffle(mode: str, values: list[int], b: int, c: int) -> tuple[list[int], list[bool]]:
    """PTX ISA 9.7.9.6, line by line."""
    segments, clamp = c >> 8 & 31, c & 31
    out, inside = [], []
    for lane in range(32):
        last = (lane & segments) | (clamp & ~segments)
        first = lane & segments
        source = {"up": lane - b, "down": lane + b, "bfly": lane ^ b, "idx": first | (b & ~segments)}[mode]
        good = source >= last if mode == "up" else source <= last
        out.append(values[source if good else lane])
        inside.append(good)
    return out, inside


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
@settings(max_examples=25, deadline=None)
@given(b=st.integers(0, 31), width=st.sampled_from([1, 2, 4, 8, 16, 32]), data=st.lists(u32, min_size=32, max_size=32))
def test_shuffle(mode: str, b: int, width: int, data: list[int]) -> None:
    """As the CUDA intrinsics use it: segments of a power of two, clamped to the segment's end (its start for ``up``)."""
    c = ((32 - width) << 8) | (0 if mode == "up" else 31)
    values, inside = _shuffle(mode, data, b, c)
    body = f"""
        mul.wide.u32 %rd5, lane, 4;
        add.s64 %rd5, %rd5, pin;
        ld.global.u32 %r1, [%rd5];
        mov.u32 %r6, {b};
        mov.u32 %r7, {c};
        shfl.sync.{mode}.b32 %r2|%p1, %r1, %r6, %r7, -1;
        selp.b32 %r3, 1, 0, %p1;
        """
    np.testing.assert_array_equal(run(body + "mov.u32 result, %r2;", data=np.array(data, np.uint32)), values)
    np.testing.assert_array_equal(run(body + "mov.u32 result, %r3;", data=np.array(data, np.uint32)), inside)


@settings(max_examples=20, deadline=None)
@given(bits=u32)
def test_votes(bits: int) -> None:
    for member in (0xFFFFFFFF, 0x0F0F00FF):
        true = bits & member
        want = {
            "vote.sync.all.pred": true == member,
            "vote.sync.any.pred": true != 0,
            "vote.sync.uni.pred": true in (0, member),
        }
        setup = f"""
            mov.u32 %r1, {bits:#x};
            mov.u32 %r9, {member:#x};
            shr.u32 %r2, %r9, lane;
            and.b32 %r2, %r2, 1;
            setp.eq.u32 %p9, %r2, 0;
            @%p9 bra OUT;
            shr.u32 %r2, %r1, lane;
            and.b32 %r2, %r2, 1;
            setp.eq.u32 %p1, %r2, 1;
            """
        inside = (member >> LANES) & 1
        for opcode, answer in want.items():
            got = run(setup + f"{opcode} %p2, %p1, %r9; selp.b32 result, 1, 0, %p2; OUT:")
            np.testing.assert_array_equal(got, inside * answer)
        got = run(setup + "vote.sync.ballot.b32 result, %p1, %r9; OUT:")
        np.testing.assert_array_equal(got, inside * true)


@settings(max_examples=10, deadline=None)
@given(data=st.lists(st.integers(0, 5), min_size=32, max_size=32))
def test_match(data: list[int]) -> None:
    load = "mul.wide.u32 %rd5, lane, 4; add.s64 %rd5, %rd5, pin; ld.global.u32 %r1, [%rd5]; cvt.u64.u32 %rd6, %r1;"
    words = np.array(data, np.uint32)
    groups = [sum(1 << other for other in range(32) if data[other] == value) for value in data]
    for line in ("match.any.sync.b32 result, %r1, -1;", "match.any.sync.b64 result, %rd6, -1;"):
        np.testing.assert_array_equal(run(load + line, data=words), groups)
    same = len(set(data)) == 1
    got = run(load + "match.all.sync.b32 %r2|%p1, %r1, -1; selp.b32 %r3, 1, 0, %p1; xor.b32 result, %r2, %r3;", data=words)
    np.testing.assert_array_equal(got, 0xFFFFFFFE if same else 0)
    np.testing.assert_array_equal(run(load + "match.all.sync.b32 result, 7, -1;", data=words), 0xFFFFFFFF)


@settings(max_examples=10, deadline=None)
@given(data=st.lists(u32, min_size=32, max_size=32))
def test_redux(data: list[int]) -> None:
    load = "mul.wide.u32 %rd5, lane, 4; add.s64 %rd5, %rd5, pin; ld.global.u32 %r1, [%rd5];"
    words = np.array(data, np.uint32)
    signed = words.view(np.int32)
    want = {
        "add.u32": int(words.sum(dtype=np.uint64)),
        "add.s32": int(words.sum(dtype=np.uint64)),
        "min.u32": int(words.min()),
        "max.u32": int(words.max()),
        "min.s32": int(signed.min()),
        "max.s32": int(signed.max()),
        "and.b32": int(np.bitwise_and.reduce(words)),
        "or.b32": int(np.bitwise_or.reduce(words)),
        "xor.b32": int(np.bitwise_xor.reduce(words)),
    }
    for form, answer in want.items():
        got = run(load + f"redux.sync.{form} result, %r1, -1;", data=words)
        np.testing.assert_array_equal(got, answer & 0xFFFFFFFF, err_msg=form)


@pytest.mark.parametrize(
    ("form", "special", "answer"),
    [
        ("max", (), 30.0), ("min", (), -31.0), ("max.abs", (), 31.0), ("max", (np.nan,), 30.0), ("max.NaN", (np.nan,), np.nan),
        ("min.abs.NaN", (), 0.0), ("max.abs", (-np.inf, np.nan), np.inf), ("min", (np.nan,) * 32, np.nan),
    ],
)  # fmt: skip
def test_redux_of_floats(form: str, special: tuple[float, ...], answer: float) -> None:
    values = np.arange(32, dtype=np.float32) * np.where(np.arange(32) % 2, -1, 1).astype(np.float32)
    values[: len(special)] = special
    load = "mul.wide.u32 %rd5, lane, 4; add.s64 %rd5, %rd5, pin; ld.global.f32 %f1, [%rd5];"
    text = kernel(load + f"redux.sync.{form}.f32 %f2, %f1, -1; mov.b32 result, %f2;", target="sm_100a")
    with tcsim.Device("b200"):
        out = tcsim.zeros(32, np.uint32)
        tcsim.RawModule(code=text).get_function("k")((1,), (32,), (out, tcsim.asarray(values)))
        got = tcsim.asnumpy(out)
    want = 0x7FFFFFFF if np.isnan(answer) else int(np.float32(answer).view(np.uint32))
    np.testing.assert_array_equal(got, want)


def test_elect_one() -> None:
    got = run(
        """
        setp.lt.u32 %p2, lane, 5;
        @%p2 bra OUT;
        elect.sync %r1|%p1, 0xffffffe0;
        selp.b32 %r2, 100, 0, %p1;
        add.u32 result, %r1, %r2;
        OUT:
        """,
        target="sm_90",
    )
    np.testing.assert_array_equal(got, np.select([LANES < 5, LANES == 5], [0, 105], 5))
