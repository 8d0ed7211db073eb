"""SIMD video instructions: arithmetic on the halves or bytes of a 32-bit word (PTX ISA 9.7.18).

Of this family nvcc 13 emits only ``vabsdiff2`` and ``vabsdiff4`` (for ``__vabsdiffu4``, ``__vsadu2`` and their like); the other
SIMD intrinsics of CUDA become logic and arithmetic on whole words.
"""

from __future__ import annotations

import numpy as np

from isa.arith.lane import lane
from isa.spec import flag, instruction

_T = ("u32", "s32")


@lane
def element(word, number, bits, signed):
    """Element ``number`` of a word, ``bits`` wide, sign- or zero-extended."""
    value = (np.int64(word) >> np.int64(number * bits)) & np.int64((1 << bits) - 1)
    if signed and value >> np.int64(bits - 1):
        value -= np.int64(1 << bits)
    return value


@lane
def differences(a, b, c, bits, a_signed, b_signed, most):
    """``|a - b|`` element by element, ``most`` at most: (in place of the elements, their sum and ``c``), 32 bits each."""
    word = np.uint32(0)
    total = np.int64(c)
    for number in range(32 // bits):
        value = min(abs(element(a, number, bits, a_signed) - element(b, number, bits, b_signed)), np.int64(most))
        total += value
        word |= np.uint32((value & np.int64((1 << bits) - 1)) << np.int64(number * bits))
    return word, np.uint32(total & np.int64(0xFFFFFFFF))


_MOST_OF_HALF = {"u32": 0xFFFF, "s32": 0x7FFF}
_MOST_OF_BYTE = {"u32": 0xFF, "s32": 0x7F}
_NO_LIMIT = 1 << 20


@instruction(
    "vabsdiff2.{t}.{ta}.{tb}{sat} d:b32, a:b32, b:b32, c:b32",
    timing="alu",
    section="9.7.18.1",
    ptx="3.0",
    sm=30,
    t=_T,
    ta=_T,
    tb=_T,
    sat=flag("sat"),
)
def vabsdiff2(a, b, c, *, t, ta, tb, sat):
    """Absolute differences of two halves, as the types say. (``c`` is what masked elements would keep.)"""
    most = _MOST_OF_HALF[t] if sat else _NO_LIMIT
    return differences(a, b, c, 16, ta == "s32", tb == "s32", most)[0]


@instruction(
    "vabsdiff4.{t}.{ta}.{tb}{sat} d:b32, a:b32, b:b32, c:b32",
    timing="alu",
    section="9.7.18.3",
    ptx="3.0",
    sm=30,
    t=_T,
    ta=_T,
    tb=_T,
    sat=flag("sat"),
)
def vabsdiff4(a, b, c, *, t, ta, tb, sat):
    """Absolute differences of four bytes, as the types say. (``c`` is what masked elements would keep.)"""
    most = _MOST_OF_BYTE[t] if sat else _NO_LIMIT
    return differences(a, b, c, 8, ta == "s32", tb == "s32", most)[0]


@instruction(
    "vabsdiff2.{t}.{ta}.{tb}.add d:b32, a:b32, b:b32, c:b32",
    timing="alu",
    section="9.7.18.1",
    ptx="3.0",
    sm=30,
    t=("u32",),
    ta=_T,
    tb=_T,
)
def vabsdiff2_add(a, b, c, *, t, ta, tb):
    """``c`` and the absolute differences of two halves, added."""
    return differences(a, b, c, 16, ta == "s32", tb == "s32", _NO_LIMIT)[1]


@instruction(
    "vabsdiff4.{t}.{ta}.{tb}.add d:b32, a:b32, b:b32, c:b32",
    timing="alu",
    section="9.7.18.3",
    ptx="3.0",
    sm=30,
    t=("u32",),
    ta=_T,
    tb=_T,
)
def vabsdiff4_add(a, b, c, *, t, ta, tb):
    """``c`` and the absolute differences of four bytes, added."""
    return differences(a, b, c, 8, ta == "s32", tb == "s32", _NO_LIMIT)[1]
