"""Integer arithmetic (PTX ISA 9.7.1, 9.7.2): everything beyond wrapping ``+``, ``-``, ``*`` and bitwise operators.

Signed operands are int16, int32 or int64, unsigned ones uint16, uint32 or uint64, as the suffix says. Results wrap
unless the name says ``sat``. Nothing traps: a division by zero gives all ones, quotient and remainder (measured on an
H200, driver 580.159.04).
"""

from __future__ import annotations

import numpy as np

from isa.arith.lane import lane
from isa.arith.primitives import product_high_s64, product_high_u64

__all__ = [
    "abs_s16",
    "abs_s32",
    "abs_s64",
    "add_carry_u32",
    "add_carry_u64",
    "add_sat_s32",
    "div_s16",
    "div_s32",
    "div_s64",
    "div_u16",
    "div_u32",
    "div_u64",
    "mad24_hi_sat_s32",
    "mad_hi_sat_s32",
    "max_int",
    "min_int",
    "mul24_hi_s32",
    "mul24_hi_u32",
    "mul24_lo_s32",
    "mul24_lo_u32",
    "mul_hi_s16",
    "mul_hi_s32",
    "mul_hi_s64",
    "mul_hi_u16",
    "mul_hi_u32",
    "mul_hi_u64",
    "mul_wide_s16",
    "mul_wide_s32",
    "mul_wide_u16",
    "mul_wide_u32",
    "relu_s32",
    "rem_s16",
    "rem_s32",
    "rem_s64",
    "rem_u16",
    "rem_u32",
    "rem_u64",
    "sad_s16",
    "sad_s32",
    "sad_s64",
    "sad_u16",
    "sad_u32",
    "sad_u64",
    "sub_carry_u32",
    "sub_carry_u64",
    "sub_sat_s32",
]

_LOW16 = np.uint32(0xFFFF)


# ----------------------------------------------------------------------------------------------------------- products


@lane
def mul_wide_s16(a, b):
    """The whole product, int32."""
    return np.int32(np.int32(a) * np.int32(b))


@lane
def mul_wide_u16(a, b):
    """The whole product, uint32."""
    return np.uint32(np.uint32(a) * np.uint32(b))


@lane
def mul_wide_s32(a, b):
    """The whole product, int64."""
    return np.int64(a) * np.int64(b)


@lane
def mul_wide_u32(a, b):
    """The whole product, uint64."""
    return np.uint64(a) * np.uint64(b)


@lane
def mul_hi_s16(a, b):
    """The high 16 bits of the product."""
    return np.int16(mul_wide_s16(a, b) >> np.int32(16))


@lane
def mul_hi_u16(a, b):
    """The high 16 bits of the product."""
    return np.uint16(mul_wide_u16(a, b) >> np.uint32(16))


@lane
def mul_hi_s32(a, b):
    """The high 32 bits of the product."""
    return np.int32((np.int64(a) * np.int64(b)) >> np.int64(32))


@lane
def mul_hi_u32(a, b):
    """The high 32 bits of the product."""
    return np.uint32((np.uint64(a) * np.uint64(b)) >> np.uint64(32))


@lane
def mul_hi_s64(a, b):
    """The high 64 bits of the product."""
    return product_high_s64(a, b)


@lane
def mul_hi_u64(a, b):
    """The high 64 bits of the product."""
    return product_high_u64(a, b)


@lane
def _clamp_s32(x):
    return np.int32(min(max(x, np.int64(-0x80000000)), np.int64(0x7FFFFFFF)))


@lane
def mad_hi_sat_s32(a, b, c):
    """``mad.hi.sat.s32``: the high half of the product plus ``c``, clamped."""
    return _clamp_s32(((np.int64(a) * np.int64(b)) >> np.int64(32)) + np.int64(c))


@lane
def _product24_s(a, b):
    """Product of the sign-extended low 24 bits, int64."""
    return np.int64(np.int32(a << np.int32(8)) >> np.int32(8)) * np.int64(np.int32(b << np.int32(8)) >> np.int32(8))


@lane
def _product24_u(a, b):
    return np.uint64(a & np.uint32(0xFFFFFF)) * np.uint64(b & np.uint32(0xFFFFFF))


@lane
def mul24_lo_s32(a, b):
    """Low 32 bits of the 48-bit product of the low 24 bits."""
    return np.int32(_product24_s(a, b))


@lane
def mul24_hi_s32(a, b):
    """High 32 bits of the 48-bit product of the low 24 bits."""
    return np.int32(_product24_s(a, b) >> np.int64(16))


@lane
def mul24_lo_u32(a, b):
    """Low 32 bits of the 48-bit product of the low 24 bits."""
    return np.uint32(_product24_u(a, b))


@lane
def mul24_hi_u32(a, b):
    """High 32 bits of the 48-bit product of the low 24 bits."""
    return np.uint32(_product24_u(a, b) >> np.uint64(16))


@lane
def mad24_hi_sat_s32(a, b, c):
    """``mad24.hi.sat.s32``: high 32 bits of the 48-bit product plus ``c``, clamped."""
    return _clamp_s32((_product24_s(a, b) >> np.int64(16)) + np.int64(c))


# ------------------------------------------------------------------------------------------------ quotient, remainder
# Quotients of 32-bit integers are exact when truncated from float64: a/b differs from a smaller integer by at least
# 1/b, far more than its rounding error. That keeps the lane loop vector code; x86 has no vector integer division, and
# its scalar one traps.


@lane
def div_u32(a, b):
    """Quotient; 0xFFFFFFFF for division by zero."""
    q = np.uint32(np.int64(np.float64(a) / np.float64(b if b != np.uint32(0) else np.uint32(1))))
    return q if b != np.uint32(0) else np.uint32(0xFFFFFFFF)


@lane
def rem_u32(a, b):
    """Remainder; 0xFFFFFFFF for division by zero."""
    return np.uint32(a - div_u32(a, b) * b) if b != np.uint32(0) else np.uint32(0xFFFFFFFF)


@lane
def div_s32(a, b):
    """Quotient, truncated toward zero; -1 for division by zero; the least integer divided by -1 is itself."""
    q = np.int32(np.int64(np.float64(a) / np.float64(b if b != np.int32(0) else np.int32(1))))
    return q if b != np.int32(0) else np.int32(-1)


@lane
def rem_s32(a, b):
    """Remainder with the sign of the dividend; -1 for division by zero."""
    return np.int32(a - div_s32(a, b) * b) if b != np.int32(0) else np.int32(-1)


@lane
def div_u16(a, b):
    """Quotient; 0xFFFF for division by zero."""
    return np.uint16(div_u32(np.uint32(a), np.uint32(b)))


@lane
def rem_u16(a, b):
    """Remainder; 0xFFFF for division by zero."""
    return np.uint16(rem_u32(np.uint32(a), np.uint32(b)))


@lane
def div_s16(a, b):
    """Quotient, truncated toward zero; -1 for division by zero; the least integer divided by -1 is itself."""
    return np.int16(div_s32(np.int32(a), np.int32(b)))


@lane
def rem_s16(a, b):
    """Remainder with the sign of the dividend; -1 for division by zero."""
    return np.int16(rem_s32(np.int32(a), np.int32(b)))


@lane
def div_u64(a, b):
    """Quotient; all ones for division by zero."""
    q = a // (b if b != np.uint64(0) else np.uint64(1))
    return np.uint64(q) if b != np.uint64(0) else np.uint64(0xFFFFFFFFFFFFFFFF)


@lane
def rem_u64(a, b):
    """Remainder; all ones for division by zero."""
    return np.uint64(a - div_u64(a, b) * b) if b != np.uint64(0) else np.uint64(0xFFFFFFFFFFFFFFFF)


@lane
def _magnitude_s64(x):
    sign = np.uint64(x >> np.int64(63))
    return np.uint64((np.uint64(x) ^ sign) - sign)


@lane
def div_s64(a, b):
    """Quotient, truncated toward zero; -1 for division by zero; the least integer divided by -1 is itself."""
    sign = np.uint64((a ^ b) >> np.int64(63))
    q = np.int64((div_u64(_magnitude_s64(a), _magnitude_s64(b)) ^ sign) - sign)
    return q if b != np.int64(0) else np.int64(-1)


@lane
def rem_s64(a, b):
    """Remainder with the sign of the dividend; -1 for division by zero."""
    sign = np.uint64(a >> np.int64(63))
    r = np.int64((rem_u64(_magnitude_s64(a), _magnitude_s64(b)) ^ sign) - sign)
    return r if b != np.int64(0) else np.int64(-1)


# -------------------------------------------------------------------------------------- absolute values, minima, sums


@lane
def abs_s16(a):
    """Absolute value; the least integer stays itself."""
    return np.int16(a if a >= np.int16(0) else -a)


@lane
def abs_s32(a):
    """Absolute value; the least integer stays itself."""
    return np.int32(a if a >= np.int32(0) else -a)


@lane
def abs_s64(a):
    """Absolute value; the least integer stays itself."""
    return np.int64(_magnitude_s64(a))


@lane
def min_int(a, b):
    """The lesser of two integers of one type."""
    return a if a < b else b


@lane
def max_int(a, b):
    """The greater of two integers of one type."""
    return a if a > b else b


@lane
def relu_s32(x):
    """``.relu``: negative becomes 0."""
    return x if x > np.int32(0) else np.int32(0)


@lane
def sad_s16(a, b, c):
    """``c`` plus the absolute difference of ``a`` and ``b``."""
    return np.int16(c + (a - b if a > b else b - a))


@lane
def sad_u16(a, b, c):
    """``c`` plus the absolute difference of ``a`` and ``b``."""
    return np.uint16(c + (a - b if a > b else b - a))


@lane
def sad_s32(a, b, c):
    """``c`` plus the absolute difference of ``a`` and ``b``."""
    return np.int32(c + (a - b if a > b else b - a))


@lane
def sad_u32(a, b, c):
    """``c`` plus the absolute difference of ``a`` and ``b``."""
    return np.uint32(c + (a - b if a > b else b - a))


@lane
def sad_s64(a, b, c):
    """``c`` plus the absolute difference of ``a`` and ``b``."""
    # Unsigned: LLVM takes it that signed 64-bit sums do not wrap, and they do here.
    distance = np.uint64(a) - np.uint64(b) if a > b else np.uint64(b) - np.uint64(a)
    return np.int64(np.uint64(c) + distance)


@lane
def sad_u64(a, b, c):
    """``c`` plus the absolute difference of ``a`` and ``b``."""
    return np.uint64(c + (a - b if a > b else b - a))


@lane
def add_sat_s32(a, b):
    """``add.sat.s32``: the sum, clamped."""
    return _clamp_s32(np.int64(a) + np.int64(b))


@lane
def sub_sat_s32(a, b):
    """``sub.sat.s32``: the difference, clamped."""
    return _clamp_s32(np.int64(a) - np.int64(b))


@lane
def add_carry_u32(a, b, carry):
    """``(a + b + carry, carry out)``, all uint32; ``carry`` is 0 or 1."""
    s = np.uint64(a) + np.uint64(b) + np.uint64(carry)
    return np.uint32(s), np.uint32(s >> np.uint64(32))


@lane
def sub_carry_u32(a, b, carry):
    """``(a + ~b + carry, carry out)``, all uint32: a subtraction, whose carry flag is the *absence* of a borrow.

    So hardware keeps CC.CF, as ``sub.cc`` before ``addc`` shows (measured on an H200, driver 580.159.04); ``sub.cc``
    alone takes a carry of 1.
    """
    return add_carry_u32(a, np.uint32(~b), carry)


@lane
def add_carry_u64(a, b, carry):
    """``(a + b + carry, carry out)``: uint64, and the carries uint32, 0 or 1."""
    s = np.uint64(a + b)
    t = np.uint64(s + np.uint64(carry))
    return t, np.uint32((s < a) | (t < s))


@lane
def sub_carry_u64(a, b, carry):
    """``(a + ~b + carry, carry out)``: uint64, and the carries uint32, as in :func:`sub_carry_u32`."""
    return add_carry_u64(a, np.uint64(~b), carry)
