"""Scalar video instructions: arithmetic on words, halves or bytes with a wider result in between (PTX ISA 9.7.17).

Which part of a register an operand is (``r1.b2``, ``r1.h0``) arrives as a number: 0 the word, 1 to 4 a byte, 5 and 6 a half
(:mod:`isa.lower.video` makes these operands of the suffixes).

No GPU of today has these instructions; ptxas 13.0 expands them. On an H200 its expansions give what the PTX ISA says, except
those of ``.sat``, of ``.min`` and ``.max`` as a second operation, of ``vmad``'s shifts and of results in ``.h1``, which are
refused.
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
def finish(value, c, which, add):
    """Add ``c``, or put the value into the part of ``c`` that is written."""
    if add:
        value += np.int64(c)
    bits, at = np.int64(32), np.int64(0)
    if which >= 5:
        bits, at = np.int64(16), np.int64(16 * (which - 5))
    elif which > 0:
        bits, at = np.int64(8), np.int64(8 * (which - 1))
    hole = ((np.int64(1) << bits) - np.int64(1)) << at
    return np.uint32((np.int64(c) & ~hole & np.int64(_WORD)) | ((value << at) & hole))


def _as_written(p: dict[str, str | bool]) -> str | None:
    """The modifiers with which an H200's results are not those that the PTX ISA describes."""
    odd = next((f".{word}" for word in ("sat", "min", "max", "shr7", "shr15") if word in p.values() or p.get(word)), None)
    return f"what ptxas makes of {odd} in scalar video instructions is not what the PTX ISA says" if odd else None


def _scalar(base: str, number: int, **slots: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a scalar video instruction of section 9.7.17.``number``."""
    return instruction(
        f"{base} d:b32, a:b32, b:b32, c:b32, dsel:u32, asel:u32, bsel:u32",
        timing="alu",
        section=f"9.7.17.{number}",
        ptx="2.0",
        valid=_as_written,
        **slots,
    )


_TYPED = ".{t}.{ta}.{tb}{sat}{second}"
_SLOTS: dict[str, Any] = {"t": _T, "ta": _T, "tb": _T, "sat": flag("sat"), "second": _SECOND}


@_scalar(f"vadd{_TYPED}", 1, **_SLOTS)
def vadd(a, b, c, dsel, asel, bsel, *, ta, tb, second):
    """Add parts of ``a`` and ``b``."""
    value = part(a, asel, ta == "s32") + part(b, bsel, tb == "s32")
    return finish(value, c, dsel, second == "add")


@_scalar(f"vsub{_TYPED}", 1, **_SLOTS)
def vsub(a, b, c, dsel, asel, bsel, *, ta, tb, second):
    """Subtract parts of ``a`` and ``b``."""
    value = part(a, asel, ta == "s32") - part(b, bsel, tb == "s32")
    return finish(value, c, dsel, second == "add")


@_scalar(f"vabsdiff{_TYPED}", 1, **_SLOTS)
def vabsdiff(a, b, c, dsel, asel, bsel, *, ta, tb, second):
    """The absolute difference of parts of ``a`` and ``b``."""
    value = abs(part(a, asel, ta == "s32") - part(b, bsel, tb == "s32"))
    return finish(value, c, dsel, second == "add")


@_scalar(f"vmin{_TYPED}", 1, **_SLOTS)
def vmin(a, b, c, dsel, asel, bsel, *, ta, tb, second):
    """The lesser of parts of ``a`` and ``b``."""
    value = min(part(a, asel, ta == "s32"), part(b, bsel, tb == "s32"))
    return finish(value, c, dsel, second == "add")


@_scalar(f"vmax{_TYPED}", 1, **_SLOTS)
def vmax(a, b, c, dsel, asel, bsel, *, ta, tb, second):
    """The greater of parts of ``a`` and ``b``."""
    value = max(part(a, asel, ta == "s32"), part(b, bsel, tb == "s32"))
    return finish(value, c, dsel, second == "add")


_SHIFT: dict[str, Any] = {**_SLOTS, "tb": ("u32",), "mode": ("clamp", "wrap")}


@lane
def _steps(b, bsel, wrap):
    """How far to shift: 32 at most, or modulo 32."""
    steps = part(b, bsel, False)
    return steps & np.int64(31) if wrap else min(steps, np.int64(32))


@_scalar("vshl.{t}.{ta}.{tb}{sat}.{mode}{second}", 2, **_SHIFT)
def vshl(a, b, c, dsel, asel, bsel, *, ta, mode, second):
    """Shift a part of ``a`` left."""
    steps = _steps(b, bsel, mode == "wrap")
    value = np.int64(0) if steps == 32 else np.int64(part(a, asel, ta == "s32")) << steps
    return finish(value, c, dsel, second == "add")


@_scalar("vshr.{t}.{ta}.{tb}{sat}.{mode}{second}", 2, **_SHIFT)
def vshr(a, b, c, dsel, asel, bsel, *, ta, mode, second):
    """Shift a part of ``a`` right, copies of the sign coming in for signed numbers."""
    value = part(a, asel, ta == "s32") >> _steps(b, bsel, mode == "wrap")
    return finish(value, c, dsel, second == "add")


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
    return finish(value, c, dsel, second == "add")


@instruction(
    "vmad.{t}.{ta}.{tb}{po}{sat}{scale} d:b32, a:b32, b:b32, c:b32, negated:u32, asel:u32, bsel:u32",
    timing="imad",
    section="9.7.17.3",
    ptx="2.0",
    valid=_as_written,
    t=_T,
    ta=_T,
    tb=_T,
    po=flag("po"),
    sat=flag("sat"),
    scale=optional("shr7", "shr15"),
)
def vmad(a, b, c, negated, asel, bsel, *, ta, tb, po):
    """Multiply parts of ``a`` and ``b`` and add ``c`` (and 1 with ``.po``). ``negated``: bit 0 says to negate the product,
    bit 1 to negate ``c``."""
    product = np.uint32(part(a, asel, ta == "s32") & np.int64(_WORD)) * np.uint32(part(b, bsel, tb == "s32") & np.int64(_WORD))
    if negated & 1:
        product = np.uint32(0) - np.uint32(product)
    addend = np.uint32(0) - np.uint32(c) if negated & 2 else np.uint32(c)
    return np.uint32(product + addend + np.uint32(1 if po else 0))
