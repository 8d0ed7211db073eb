"""Scalar video instructions: arithmetic on words, halves or bytes with a wider result in between (PTX ISA 9.7.17).

Which part of a register an operand is (``r1.b2``, ``r1.h0``) arrives as a number: 0 the word, 1 to 4 a byte, 5 and 6 a half
(:mod:`isa.lower.video` makes these operands of the suffixes).

No GPU of today has these instructions; ptxas 13.0 expands them, and what its expansions give is computed here, as an H200
showed. With ``.sat``, with ``.min`` and ``.max`` as a second operation, with ``vmad``'s shifts and for results in ``.h1``
that is not what the PTX ISA says:

- Numbers have 64 bits between the operations, 34 before ``.sat``. Of unsigned sums ``.sat`` takes away negative ones only.
- Saturated to a byte or a half, a negative number counts as a large one; a shift saturates to a word before its part is
  written.
- ``.min`` and ``.max`` compare 64 bits; of a sum or difference, and of a saturated shift, its low word sign-extended.
- A result for ``.h1`` comes from the upper half of the value.
- ``vmad`` takes whole words as signed, whatever their type, and ``c`` too; it saturates to a signed number if ``a`` or ``b`` is
  one or something is negated, and its shift is arithmetic then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from isa.arith.lane import lane
from isa.spec import flag, instruction, optional

_T = ("u32", "s32")
_SECOND = optional("add", "min", "max")
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
def low_word(value):
    """The low word of a value, sign-extended."""
    return np.int64(np.int32(np.uint32(value & np.int64(_WORD))))


@lane
def in_word(value, signed, shifted):
    """``.sat`` to a word: of an unsigned value only a shift is limited from above."""
    if signed:
        return min(max(value, np.int64(-0x80000000)), np.int64(0x7FFFFFFF))
    if value < 0:
        return np.int64(0)
    return min(value, np.int64(_WORD)) if shifted else value


@lane
def saturated(value, which, signed, shifted):
    """``.sat`` to what is written: a word, a byte or a half."""
    value = (value << np.int64(30)) >> np.int64(30)
    if which == 0 or shifted:
        return in_word(value, signed, shifted)
    bits = np.int64(8 if which < 5 else 16) - np.int64(signed)
    top = (np.int64(1) << bits) - np.int64(1)
    return top if value < 0 or value > top else value


SUM, SHIFT, OTHER = 0, 1, 2
"""What a value is: ptxas expands these differently."""


@lane
def finish(value, c, which, signed, sat, second, kind):
    """Saturate, then combine with ``c`` (``second``: "add", "min", "max", or "" to put the value into the part of ``c`` that is
    written). ``kind``: :data:`SUM`, :data:`SHIFT` or :data:`OTHER`."""
    if sat:
        value = saturated(value, which, signed, kind == SHIFT)
    if second == "add":
        return np.uint32((value + np.int64(c)) & np.int64(_WORD))
    if second == "min" or second == "max":
        if kind == SUM or (sat and (signed or kind == SHIFT)):
            value = low_word(value)
        third = low_word(np.int64(c)) if signed else np.int64(c)
        less = value < third if signed else np.uint64(value) < np.uint64(third)
        more = value > third if signed else np.uint64(value) > np.uint64(third)
        chosen = less if second == "min" else more
        return np.uint32((value if chosen else third) & np.int64(_WORD))
    if which == 6:
        return np.uint32((value & np.int64(0xFFFF0000)) | (np.int64(c) & np.int64(0xFFFF)))
    bits, at = np.int64(32), np.int64(0)
    if which == 5:
        bits = np.int64(16)
    elif which > 0:
        bits, at = np.int64(8), np.int64(8 * (which - 1))
    hole = ((np.int64(1) << bits) - np.int64(1)) << at
    return np.uint32((np.int64(c) & ~hole & np.int64(_WORD)) | ((value << at) & hole))


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
    return finish(value, c, dsel, t == "s32", sat, second, SUM)


@_scalar(f"vsub{_TYPED}", 1, **_SLOTS)
def vsub(a, b, c, dsel, asel, bsel, *, t, ta, tb, sat, second):
    """Subtract parts of ``a`` and ``b``."""
    value = part(a, asel, ta == "s32") - part(b, bsel, tb == "s32")
    return finish(value, c, dsel, t == "s32", sat, second, SUM)


@_scalar(f"vabsdiff{_TYPED}", 1, **_SLOTS)
def vabsdiff(a, b, c, dsel, asel, bsel, *, t, ta, tb, sat, second):
    """The absolute difference of parts of ``a`` and ``b``."""
    value = abs(part(a, asel, ta == "s32") - part(b, bsel, tb == "s32"))
    return finish(value, c, dsel, t == "s32", sat, second, OTHER)


@_scalar(f"vmin{_TYPED}", 1, **_SLOTS)
def vmin(a, b, c, dsel, asel, bsel, *, t, ta, tb, sat, second):
    """The lesser of parts of ``a`` and ``b``."""
    value = min(part(a, asel, ta == "s32"), part(b, bsel, tb == "s32"))
    return finish(value, c, dsel, t == "s32", sat, second, OTHER)


@_scalar(f"vmax{_TYPED}", 1, **_SLOTS)
def vmax(a, b, c, dsel, asel, bsel, *, t, ta, tb, sat, second):
    """The greater of parts of ``a`` and ``b``."""
    value = max(part(a, asel, ta == "s32"), part(b, bsel, tb == "s32"))
    return finish(value, c, dsel, t == "s32", sat, second, OTHER)


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
    value = np.int64(part(a, asel, ta == "s32")) << np.int64(steps)
    return finish(value, c, dsel, t == "s32", sat, second, SHIFT)


@_scalar("vshr.{t}.{ta}.{tb}{sat}.{mode}{second}", 2, **_SHIFT)
def vshr(a, b, c, dsel, asel, bsel, *, t, ta, sat, mode, second):
    """Shift a part of ``a`` right, copies of the sign coming in for signed numbers."""
    value = part(a, asel, ta == "s32") >> _steps(b, bsel, mode == "wrap")
    return finish(value, c, dsel, t == "s32", sat, second, SHIFT)


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
    return finish(value, c, dsel, ta == "s32", False, second, OTHER)


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
    """Multiply parts of ``a`` and ``b`` and add ``c`` (and 1 with ``.po``), then shift right. ``negated``: bit 0 says to negate
    the product, bit 1 to negate ``c``."""
    x = part(a, asel, ta == "s32" or asel == 0)
    y = part(b, bsel, tb == "s32" or bsel == 0)
    third = low_word(np.int64(c))
    product = -(x * y) if negated & 1 else x * y
    value = product + (-third if negated & 2 else third) + np.int64(1 if po else 0)
    signed = ta == "s32" or tb == "s32" or negated != 0
    if scale != "":
        steps = np.int64(7 if scale == "shr7" else 15)
        value = value >> steps if signed else np.int64(np.uint64(value) >> np.uint64(steps))
    if sat:
        value = in_word(value, signed, True)
    return np.uint32(value & np.int64(_WORD))
