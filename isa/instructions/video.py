"""Scalar video instructions: arithmetic on words, halves or bytes with a wider result in between (PTX ISA 9.7.17).

Which part of a register an operand is (``r1.b2``, ``r1.h0``) arrives as a number: 0 the word, 1 to 4 a byte, 5 and 6 a half
(:mod:`isa.lower.video` makes these operands of the suffixes).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from isa.arith.lane import lane
from isa.spec import flag, instruction, optional

_T = ("u32", "s32")
_SECOND = optional("add", "min", "max")
_SECOND_CODE = {"": 0, "add": 1, "min": 2, "max": 3}
_WORD = 0xFFFFFFFF


@lane
def part(word, which, signed):
    """The part of a register that an operand is, sign- or zero-extended."""
    if which == 0:
        value, bits = np.int64(word), np.int64(32)
    elif which < 5:
        value, bits = (np.int64(word) >> np.int64(8 * (which - 1))) & np.int64(0xFF), np.int64(8)
    else:
        value, bits = (np.int64(word) >> np.int64(16 * (which - 5))) & np.int64(0xFFFF), np.int64(16)
    if signed and (value >> (bits - 1)) & 1:
        value -= np.int64(1) << bits
    return value


@lane
def finish(value, c, which, signed, saturate, second):
    """Saturate to the part that is written, combine with ``c``, and put that part into ``c``."""
    bits = np.int64(32)
    at = np.int64(0)
    if which >= 5:
        bits, at = np.int64(16), np.int64(16 * (which - 5))
    elif which > 0:
        bits, at = np.int64(8), np.int64(8 * (which - 1))
    if saturate:
        most = (np.int64(1) << (bits - 1 if signed else bits)) - np.int64(1)
        least = -most - np.int64(1) if signed else np.int64(0)
        value = min(max(value, least), most)
    if second == 1:
        value += np.int64(c)
    elif second != 0:
        other = np.int64(np.int32(c)) if signed else np.int64(c)
        value = np.int64(np.int32(value)) if signed else value & np.int64(_WORD)
        value = min(value, other) if second == 2 else max(value, other)
    if which == 0:
        return np.uint32(value & np.int64(_WORD))
    hole = ((np.int64(1) << bits) - np.int64(1)) << at
    return np.uint32((np.int64(c) & ~hole) | ((value << at) & hole))


def _scalar(base: str, number: int, **slots: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a scalar video instruction of section 9.7.17.``number``."""
    return instruction(
        f"{base} d:b32, a:b32, b:b32, c:b32, dsel:u32, asel:u32, bsel:u32",
        timing="alu",
        section=f"9.7.17.{number}",
        ptx="2.0",
        **slots,
    )


_TYPED = ".{t}.{ta}.{tb}{sat}{second}"
_SLOTS: dict[str, Any] = {"t": _T, "ta": _T, "tb": _T, "sat": flag("sat"), "second": _SECOND}


@_scalar(f"vadd{_TYPED}", 1, **_SLOTS)
def vadd(a, b, c, dsel, asel, bsel, *, t, ta, tb, sat, second):
    """Add parts of ``a`` and ``b``."""
    value = part(a, asel, ta == "s32") + part(b, bsel, tb == "s32")
    return finish(value, c, dsel, t == "s32", sat, _SECOND_CODE[second])


@_scalar(f"vsub{_TYPED}", 1, **_SLOTS)
def vsub(a, b, c, dsel, asel, bsel, *, t, ta, tb, sat, second):
    """Subtract parts of ``a`` and ``b``."""
    value = part(a, asel, ta == "s32") - part(b, bsel, tb == "s32")
    return finish(value, c, dsel, t == "s32", sat, _SECOND_CODE[second])


@_scalar(f"vabsdiff{_TYPED}", 1, **_SLOTS)
def vabsdiff(a, b, c, dsel, asel, bsel, *, t, ta, tb, sat, second):
    """The absolute difference of parts of ``a`` and ``b``."""
    value = abs(part(a, asel, ta == "s32") - part(b, bsel, tb == "s32"))
    return finish(value, c, dsel, t == "s32", sat, _SECOND_CODE[second])


@_scalar(f"vmin{_TYPED}", 1, **_SLOTS)
def vmin(a, b, c, dsel, asel, bsel, *, t, ta, tb, sat, second):
    """The lesser of parts of ``a`` and ``b``."""
    value = min(part(a, asel, ta == "s32"), part(b, bsel, tb == "s32"))
    return finish(value, c, dsel, t == "s32", sat, _SECOND_CODE[second])


@_scalar(f"vmax{_TYPED}", 1, **_SLOTS)
def vmax(a, b, c, dsel, asel, bsel, *, t, ta, tb, sat, second):
    """The greater of parts of ``a`` and ``b``."""
    value = max(part(a, asel, ta == "s32"), part(b, bsel, tb == "s32"))
    return finish(value, c, dsel, t == "s32", sat, _SECOND_CODE[second])


_SHIFT: dict[str, Any] = {**_SLOTS, "tb": ("u32",), "mode": ("clamp", "wrap")}


@lane
def _steps(b, bsel, wrap):
    """How far to shift: 32 at most, or modulo 32."""
    steps = part(b, bsel, False)
    return steps & np.int64(31) if wrap else min(steps, np.int64(32))


@_scalar("vshl.{t}.{ta}.{tb}{sat}.{mode}{second}", 2, **_SHIFT)
def vshl(a, b, c, dsel, asel, bsel, *, t, ta, sat, mode, second):
    """Shift a part of ``a`` left."""
    steps = _steps(b, bsel, mode == "wrap")
    value = part(a, asel, ta == "s32")
    if steps == 32:  # 64 bits hold it if it is less; all that is left of it is its sign and that it is too large
        value = min(value, np.int64(1) << np.int64(30))
    return finish(value << steps, c, dsel, t == "s32", sat, _SECOND_CODE[second])


@_scalar("vshr.{t}.{ta}.{tb}{sat}.{mode}{second}", 2, **_SHIFT)
def vshr(a, b, c, dsel, asel, bsel, *, t, ta, sat, mode, second):
    """Shift a part of ``a`` right, copies of the sign coming in for signed numbers."""
    value = part(a, asel, ta == "s32") >> _steps(b, bsel, mode == "wrap")
    return finish(value, c, dsel, t == "s32", sat, _SECOND_CODE[second])


_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


@lane
def compared(x, y, comparison):
    """0 or 1; ``comparison`` is the position in eq, ne, lt, le, gt, ge."""
    if comparison == 0:
        true = x == y
    elif comparison == 1:
        true = x != y
    elif comparison == 2:
        true = x < y
    elif comparison == 3:
        true = x <= y
    elif comparison == 4:
        true = x > y
    else:
        true = x >= y
    return np.int64(true)


COMPARISON_CODE = {name: number for number, name in enumerate(_COMPARISONS)}


@_scalar("vset.{ta}.{tb}.{cmp}{second}", 4, ta=_T, tb=_T, cmp=_COMPARISONS, second=_SECOND)
def vset(a, b, c, dsel, asel, bsel, *, ta, tb, cmp, second):
    """1 where a comparison of parts of ``a`` and ``b`` holds, else 0."""
    value = compared(part(a, asel, ta == "s32"), part(b, bsel, tb == "s32"), COMPARISON_CODE[cmp])
    return finish(value, c, dsel, False, False, _SECOND_CODE[second])


_SCALE = {"": 0, "shr7": 7, "shr15": 15}


@instruction(
    "vmad.{t}.{ta}.{tb}{po}{sat}{scale} d:b32, a:b32, b:b32, c:b32, negated:u32, asel:u32, bsel:u32",
    timing="imad",
    section="9.7.17.3",
    ptx="2.0",
    t=_T,
    ta=_T,
    tb=_T,
    po=flag("po"),
    sat=flag("sat"),
    scale=optional("shr7", "shr15"),
)
def vmad(a, b, c, negated, asel, bsel, *, ta, tb, po, sat, scale):
    """Multiply parts of ``a`` and ``b`` and add ``c`` (and 1 with ``.po``), then shift and saturate.

    ``negated``: bit 0 says to negate the product, bit 1 to negate ``c``; the sum then counts as signed, as it does where a
    factor is. Sums need 66 bits, so they are kept as a high part in units of 2^32 and a low one.
    """
    x, y = part(a, asel, ta == "s32"), part(b, bsel, tb == "s32")
    signed = ta == "s32" or tb == "s32" or negated != 0
    negative = (x < 0) != (y < 0)
    magnitude = np.uint64(abs(x)) * np.uint64(abs(y))
    if negated & 1:
        negative = not negative
    high, low = np.int64(magnitude >> np.uint64(32)), np.int64(magnitude & np.uint64(_WORD))
    if negative:
        high, low = -high, -low
    addend = np.int64(np.int32(c)) if signed else np.int64(c)
    if negated & 2:
        addend = -addend
    low += addend
    if po:
        low += np.int64(1)
    high += low >> np.int64(32)
    low &= np.int64(_WORD)
    # The sum is high * 2^32 + low. After the shift, whether it fits 32 bits shows in what is above them.
    shift = np.int64(_SCALE[scale])
    low = ((high << (np.int64(32) - shift)) | (low >> shift)) & np.int64(_WORD) if shift else low
    high = high >> shift
    if sat:
        if signed:
            sign = np.int64(np.int32(low)) >> np.int64(31)
            if high != sign:
                low = np.int64(0x80000000) if high < 0 else np.int64(0x7FFFFFFF)
        elif high != 0:
            low = np.int64(_WORD)
    return np.uint32(low)
