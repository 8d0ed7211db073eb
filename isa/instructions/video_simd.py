"""SIMD video instructions: arithmetic on the halves or bytes of words (PTX ISA 9.7.18).

Selectors arrive as numbers (:mod:`isa.lower.video` makes them of the suffixes): ``mask`` has a bit for each element of ``d``
that is written, ``asel`` and ``bsel`` a digit of 4 bits for each element, lowest first, that counts the elements of ``a`` and
then of ``b``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from isa.arith.lane import lane
from isa.instructions.video import COMPARISON_CODE, compared
from isa.spec import flag, instruction

_T = ("u32", "s32")
_OPERATION = {"vadd": 0, "vsub": 1, "vavrg": 2, "vabsdiff": 3, "vmin": 4, "vmax": 5}
_OPERANDS = "d:b32, a:b32, b:b32, c:b32, mask:u32, asel:u32, bsel:u32"


@lane
def element(word, number, bits, signed):
    """Element ``number`` of a word, ``bits`` wide, sign- or zero-extended."""
    value = (np.int64(word) >> np.int64(number * bits)) & np.int64((1 << bits) - 1)
    if signed and value >> np.int64(bits - 1):
        value -= np.int64(1 << bits)
    return value


@lane
def selected(a, b, select, number, bits, signed):
    """The element of ``a`` and ``b`` that digit ``number`` of a selector names."""
    which = (np.int64(select) >> np.int64(4 * number)) & np.int64(7)
    count = np.int64(32 // bits)
    return element(b, which - count, bits, signed) if which >= count else element(a, which, bits, signed)


@lane
def combined(x, y, operation):
    """One element of the result, before it is cut to its width."""
    if operation == 0:
        return x + y
    if operation == 1:
        return x - y
    if operation == 2:
        total = x + y
        return (total + 1 if total >= 0 else total) >> np.int64(1)
    if operation == 3:
        return abs(x - y)
    if operation == 4:
        return min(x, y)
    return max(x, y)


@lane
def simd(a, b, c, mask, asel, bsel, bits, a_signed, b_signed, operation, compare, signed, saturate, add):
    """Every element: combine or compare, saturate, and merge into ``c`` or add up with it."""
    most = np.int64((1 << (bits - 1 if signed else bits)) - 1)
    least = -most - np.int64(1) if signed else np.int64(0)
    word = np.int64(c)
    total = np.int64(c)
    for number in range(32 // bits):
        if (mask >> np.uint32(number)) & np.uint32(1):
            x = selected(a, b, asel, number, bits, a_signed)
            y = selected(a, b, bsel, number, bits, b_signed)
            value = compared(x, y, operation) if compare else combined(x, y, operation)
            if saturate:
                value = min(max(value, least), most)
            total += value
            hole = np.int64((1 << bits) - 1) << np.int64(number * bits)
            word = (word & ~hole) | ((value << np.int64(number * bits)) & hole)
    return np.uint32((total if add else word) & np.int64(0xFFFFFFFF))


def _rules(p: dict[str, str | bool]) -> str | None:
    return ".sat and .add exclude each other" if p["sat"] and p["add"] else None


def _simd(base: str, bits: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    slots: dict[str, Any] = {"t": _T, "ta": _T, "tb": _T, "sat": flag("sat"), "add": flag("add"), "valid": _rules}
    section = f"9.7.18.{1 if bits == 16 else 3}"
    return instruction(
        f"{base}{32 // bits}.{{t}}.{{ta}}.{{tb}}{{sat}}{{add}} {_OPERANDS}",
        timing="alu",
        section=section,
        ptx="3.0",
        sm=30,
        **slots,
    )


@_simd("vadd", 16)
def vadd2(a, b, c, mask, asel, bsel, *, t, ta, tb, sat, add):
    """Sums of halves."""
    return simd(
        a, b, c, mask, asel, bsel, 16, ta == "s32", tb == "s32", _OPERATION["vadd"], False, t == "s32", sat, add
    )  # fmt: skip


@_simd("vadd", 8)
def vadd4(a, b, c, mask, asel, bsel, *, t, ta, tb, sat, add):
    """Sums of bytes."""
    return simd(
        a, b, c, mask, asel, bsel, 8, ta == "s32", tb == "s32", _OPERATION["vadd"], False, t == "s32", sat, add
    )  # fmt: skip


@_simd("vsub", 16)
def vsub2(a, b, c, mask, asel, bsel, *, t, ta, tb, sat, add):
    """Differences of halves."""
    return simd(
        a, b, c, mask, asel, bsel, 16, ta == "s32", tb == "s32", _OPERATION["vsub"], False, t == "s32", sat, add
    )  # fmt: skip


@_simd("vsub", 8)
def vsub4(a, b, c, mask, asel, bsel, *, t, ta, tb, sat, add):
    """Differences of bytes."""
    return simd(
        a, b, c, mask, asel, bsel, 8, ta == "s32", tb == "s32", _OPERATION["vsub"], False, t == "s32", sat, add
    )  # fmt: skip


@_simd("vavrg", 16)
def vavrg2(a, b, c, mask, asel, bsel, *, t, ta, tb, sat, add):
    """Averages, halves rounded up for sums that are not negative, of halves."""
    return simd(
        a, b, c, mask, asel, bsel, 16, ta == "s32", tb == "s32", _OPERATION["vavrg"], False, t == "s32", sat, add
    )  # fmt: skip


@_simd("vavrg", 8)
def vavrg4(a, b, c, mask, asel, bsel, *, t, ta, tb, sat, add):
    """Averages, halves rounded up for sums that are not negative, of bytes."""
    return simd(
        a, b, c, mask, asel, bsel, 8, ta == "s32", tb == "s32", _OPERATION["vavrg"], False, t == "s32", sat, add
    )  # fmt: skip


@_simd("vabsdiff", 16)
def vabsdiff2(a, b, c, mask, asel, bsel, *, t, ta, tb, sat, add):
    """Absolute differences of halves."""
    return simd(
        a, b, c, mask, asel, bsel, 16, ta == "s32", tb == "s32", _OPERATION["vabsdiff"], False, t == "s32", sat, add
    )  # fmt: skip


@_simd("vabsdiff", 8)
def vabsdiff4(a, b, c, mask, asel, bsel, *, t, ta, tb, sat, add):
    """Absolute differences of bytes."""
    return simd(
        a, b, c, mask, asel, bsel, 8, ta == "s32", tb == "s32", _OPERATION["vabsdiff"], False, t == "s32", sat, add
    )  # fmt: skip


@_simd("vmin", 16)
def vmin2(a, b, c, mask, asel, bsel, *, t, ta, tb, sat, add):
    """The lesser of halves."""
    return simd(
        a, b, c, mask, asel, bsel, 16, ta == "s32", tb == "s32", _OPERATION["vmin"], False, t == "s32", sat, add
    )  # fmt: skip


@_simd("vmin", 8)
def vmin4(a, b, c, mask, asel, bsel, *, t, ta, tb, sat, add):
    """The lesser of bytes."""
    return simd(
        a, b, c, mask, asel, bsel, 8, ta == "s32", tb == "s32", _OPERATION["vmin"], False, t == "s32", sat, add
    )  # fmt: skip


@_simd("vmax", 16)
def vmax2(a, b, c, mask, asel, bsel, *, t, ta, tb, sat, add):
    """The greater of halves."""
    return simd(
        a, b, c, mask, asel, bsel, 16, ta == "s32", tb == "s32", _OPERATION["vmax"], False, t == "s32", sat, add
    )  # fmt: skip


@_simd("vmax", 8)
def vmax4(a, b, c, mask, asel, bsel, *, t, ta, tb, sat, add):
    """The greater of bytes."""
    return simd(
        a, b, c, mask, asel, bsel, 8, ta == "s32", tb == "s32", _OPERATION["vmax"], False, t == "s32", sat, add
    )  # fmt: skip


def _set(bits: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return instruction(
        f"vset{32 // bits}.{{ta}}.{{tb}}.{{cmp}}{{add}} {_OPERANDS}",
        timing="alu",
        section=f"9.7.18.{2 if bits == 16 else 4}",
        ptx="3.0",
        sm=30,
        ta=_T,
        tb=_T,
        cmp=tuple(COMPARISON_CODE),
        add=flag("add"),
    )


@_set(16)
def vset2(a, b, c, mask, asel, bsel, *, ta, tb, cmp, add):
    """1 where a comparison of halves holds, else 0."""
    return simd(
        a, b, c, mask, asel, bsel, 16, ta == "s32", tb == "s32", COMPARISON_CODE[cmp], True, False, False, add
    )  # fmt: skip


@_set(8)
def vset4(a, b, c, mask, asel, bsel, *, ta, tb, cmp, add):
    """1 where a comparison of bytes holds, else 0."""
    return simd(
        a, b, c, mask, asel, bsel, 8, ta == "s32", tb == "s32", COMPARISON_CODE[cmp], True, False, False, add
    )  # fmt: skip
