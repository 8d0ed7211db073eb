"""Video instructions against a plain reading of the PTX ISA (9.7.17, 9.7.18).

Where ptxas makes something else of one (``.sat``, ``.min``, ``.max``, shifts of ``vmad``, results in ``.h1``), an H200's
results are the reference: test_recorded_forms.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tcsim
from isa.errors import PtxError
from isa.instructions import video, video_simd
from isa.lower.video import plain_operands
from isa.ptx import Immediate
from tests.kernels import kernel, run
from tests.ptx_text import instruction

WORD = st.one_of(st.integers(0, 2**32 - 1), st.sampled_from([0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x80007FFF, 0x7F80FF01]))
TYPE = st.sampled_from(["u32", "s32"])
PART = st.integers(0, 6)
PLACE = st.integers(0, 5)
"""Where a result goes; not .h1."""
SECOND = st.sampled_from(["", "add"])

VALUES: dict[str, Callable[[int, int], int]] = {
    "vadd": lambda x, y: x + y,
    "vsub": lambda x, y: x - y,
    "vabsdiff": lambda x, y: abs(x - y),
    "vmin": min,
    "vmax": max,
    "vavrg": lambda x, y: (x + y + (x + y >= 0)) >> 1,
}
COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
}


def place(which: int) -> tuple[int, int]:
    """(First bit, bits) of a selector's part."""
    return (0, 32) if which == 0 else (8 * (which - 1), 8) if which < 5 else (16 * (which - 5), 16)


def signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) & 1 else value


def take(word: int, which: int, kind: str) -> int:
    at, bits = place(which)
    value = word >> at & (1 << bits) - 1
    return signed(value, bits) if kind == "s32" else value


def clamp(value: int, bits: int, kind: str) -> int:
    least, most = (-(1 << bits - 1), (1 << bits - 1) - 1) if kind == "s32" else (0, (1 << bits) - 1)
    return min(max(value, least), most)


def finished(value: int, c: int, which: int, second: str) -> int:
    at, bits = place(which)
    value = value + c if second else value
    hole = (1 << bits) - 1
    return c & ~(hole << at) & 0xFFFFFFFF | (value & hole) << at


@settings(deadline=None)
@given(st.sampled_from(["vadd", "vsub", "vabsdiff", "vmin", "vmax"]), WORD, WORD, WORD, PLACE, PART, PART, TYPE, TYPE, SECOND)
def test_scalar(op: str, a: int, b: int, c: int, dsel: int, asel: int, bsel: int, ta: str, tb: str, second: str) -> None:
    second = "" if dsel else second
    value = VALUES[op](take(a, asel, ta), take(b, bsel, tb))
    got = getattr(video, op)(
        np.uint32(a), np.uint32(b), np.uint32(c), dsel, asel, bsel, t="u32", ta=ta, tb=tb, sat=False, second=second
    )
    assert int(got) == finished(value, c, dsel, second)


@settings(deadline=None)
@given(st.booleans(), WORD, WORD, WORD, PLACE, PART, PART, TYPE, st.sampled_from(["clamp", "wrap"]), SECOND)
def test_shifts(left: bool, a: int, b: int, c: int, dsel: int, asel: int, bsel: int, ta: str, mode: str, second: str) -> None:
    second = "" if dsel else second
    steps = take(b, bsel, "u32")
    steps = steps % 32 if mode == "wrap" else min(steps, 32)
    x = take(a, asel, ta)
    value = x << steps if left else x >> steps
    body = video.vshl if left else video.vshr
    got = body(np.uint32(a), np.uint32(b), np.uint32(c), dsel, asel, bsel, t="u32", ta=ta, sat=False, mode=mode, second=second)
    assert int(got) == finished(value, c, dsel, second)


@settings(deadline=None)
@given(WORD, WORD, WORD, PART, PART, TYPE, TYPE, st.integers(0, 2), st.booleans())
def test_vmad(a: int, b: int, c: int, asel: int, bsel: int, ta: str, tb: str, negated: int, po: bool) -> None:
    po = po and not negated
    product = take(a, asel, ta) * take(b, bsel, tb) * (-1 if negated & 1 else 1)
    total = product + c * (-1 if negated & 2 else 1) + po
    with np.errstate(over="ignore"):
        got = video.vmad(
            np.uint32(a), np.uint32(b), np.uint32(c), negated, asel, bsel, ta=ta, tb=tb, po=po, sat=False, scale=""
        )
    assert int(got) == total & 0xFFFFFFFF


@settings(deadline=None)
@given(st.sampled_from([8, 16]), st.sampled_from([*sorted(VALUES), *sorted(COMPARISONS)]), WORD, WORD, WORD,
       st.lists(st.integers(0, 7), min_size=12, max_size=12), TYPE, TYPE, TYPE, st.booleans(), st.booleans())  # fmt: skip
def test_simd(
    bits: int, op: str, a: int, b: int, c: int, digits: list[int], t: str, ta: str, tb: str, sat: bool, add: bool
) -> None:
    count, hole = 32 // bits, (1 << bits) - 1
    sat = sat and not add and op in VALUES
    mask, asel, bsel = ([d % (2 * count) for d in digits[at : at + count]] for at in (0, 4, 8))
    written = [bool(m & 1) for m in mask]
    both = a | b << 32
    result, total = c, c
    for number in range(count):
        x, y = (both >> bits * which[number] & hole for which in (asel, bsel))
        x, y = signed(x, bits) if ta == "s32" else x, signed(y, bits) if tb == "s32" else y
        value = VALUES[op](x, y) if op in VALUES else int(COMPARISONS[op](x, y))
        value = clamp(value, bits, t) if sat else value
        if written[number]:
            result = result & ~(hole << bits * number) | (value & hole) << bits * number
            total += value
    packed = [sum(d << 4 * n for n, d in enumerate(which)) for which in (asel, bsel)]
    words: list[Any] = [np.uint32(w) for w in (a, b, c, sum(w << n for n, w in enumerate(written)), *packed)]
    if op in VALUES:
        got = getattr(video_simd, f"{op}{count}")(*words, t=t, ta=ta, tb=tb, sat=sat, add=add)
    else:
        got = getattr(video_simd, f"vset{count}")(*words, ta=ta, tb=tb, cmp=op, add=add)
    assert int(got) == (total if add else result) & 0xFFFFFFFF


def fail(message: str, _: object) -> PtxError:
    return PtxError(message, 1)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("vadd.u32.u32.s32 d, a.b3, b.h1;", (0, 4, 6)),
        ("vset.u32.u32.lt d.h0, a, b.b0, c;", (5, 0, 1)),
        ("vmad.u32.s32.u32 d, -a.b1, b, c;", (1, 2, 0)),
        ("vmad.u32.s32.u32 d, a, b, -c;", (2, 0, 0)),
        ("vadd2.u32.u32.u32 d, a, b, c;", (3, 0x10, 0x32)),
        ("vadd4.u32.u32.u32 d.b31, a.b7001, b, c;", (0b1010, 0x7001, 0x7654)),
    ],
)
def test_suffixes_become_numbers(text: str, numbers: tuple[int, int, int]) -> None:
    operands = plain_operands(instruction(text), fail).operands
    assert [o.value for o in operands[4:] if isinstance(o, Immediate)] == list(numbers)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("vadd.u32.u32.u32 %r1, %r2.b4, %r3;", "no selector"),
        ("vadd2.u32.u32.u32 %r1.h01, %r2, %r3, %r4;", "no mask"),
        ("vadd4.u32.u32.u32 %r1, %r2.b321, %r3, %r4;", "no selector"),
        ("vadd2.u32.u32.u32 %r1, %r2, %r3;", "4 operands|operands given"),
        ("vmad.u32.u32.u32.po %r1, -%r2, %r3, %r4;", "excludes"),
        ("vmad.u32.u32.u32 %r1, -%r2, %r3, -%r4;", "not both"),
        ("vadd.u32.u32.u32 %r1, %r2, %r3, %r4.b1;", "no selector"),
    ],
)
def test_wrong_suffixes_are_named(text: str, why: str) -> None:
    with pytest.raises(PtxError, match=why):
        tcsim.RawModule(code=kernel(text)).get_function("k")


def test_in_a_kernel() -> None:
    got = run(
        """
        add.u32 %r1, lane, 250;
        vadd.u32.u32.u32 %r2.b1, %r1.b0, 9, 0x01000000;
        vabsdiff4.u32.u32.u32.add result, %r2, 0x00000005, %r1;
        """
    )
    lanes = np.arange(32)
    byte = ((250 + lanes) % 256 + 9) % 256
    np.testing.assert_array_equal(got, 250 + lanes + 1 + byte + 5)
