"""Integer operations on parts of 32-bit words (PTX ISA 9.7.1): pairs of 16-bit integers, dot products of bytes."""

from __future__ import annotations

import numpy as np

from isa.arith.lane import lane

__all__ = [
    "add_x2",
    "dp2a_hi_s32_s32",
    "dp2a_hi_s32_u32",
    "dp2a_hi_u32_s32",
    "dp2a_hi_u32_u32",
    "dp2a_lo_s32_s32",
    "dp2a_lo_s32_u32",
    "dp2a_lo_u32_s32",
    "dp2a_lo_u32_u32",
    "dp4a_s32_s32",
    "dp4a_s32_u32",
    "dp4a_u32_s32",
    "dp4a_u32_u32",
    "max_s16x2",
    "max_u16x2",
    "min_s16x2",
    "min_u16x2",
    "relu_s16x2",
]

_LOW16 = np.uint32(0xFFFF)


# ------------------------------------------------------------------------------------ packed pairs of 16-bit integers


@lane
def _low_s16(x):
    return np.int16(x & _LOW16)


@lane
def _high_s16(x):
    return np.int16(x >> np.uint32(16))


@lane
def _pair(low, high):
    return np.uint32((np.uint32(high) << np.uint32(16)) | (np.uint32(low) & _LOW16))


@lane
def add_x2(a, b):
    """``add.s16x2``/``add.u16x2``: half by half, wrapping."""
    return _pair((a & _LOW16) + (b & _LOW16), (a >> np.uint32(16)) + (b >> np.uint32(16)))


@lane
def min_s16x2(a, b):
    """The lesser of each pair of signed halves."""
    return _pair(min(_low_s16(a), _low_s16(b)), min(_high_s16(a), _high_s16(b)))


@lane
def max_s16x2(a, b):
    """The greater of each pair of signed halves."""
    return _pair(max(_low_s16(a), _low_s16(b)), max(_high_s16(a), _high_s16(b)))


@lane
def min_u16x2(a, b):
    """The lesser of each pair of unsigned halves."""
    return _pair(min(a & _LOW16, b & _LOW16), min(a >> np.uint32(16), b >> np.uint32(16)))


@lane
def max_u16x2(a, b):
    """The greater of each pair of unsigned halves."""
    return _pair(max(a & _LOW16, b & _LOW16), max(a >> np.uint32(16), b >> np.uint32(16)))


@lane
def relu_s16x2(x):
    """``.relu``: negative halves become 0."""
    return max_s16x2(x, np.uint32(0))


# ------------------------------------------------------------------------------------------------------- dot products


@lane
def _s8(x, byte):
    return np.int32(np.int8((x >> np.uint32(8 * byte)) & np.uint32(0xFF)))


@lane
def _u8(x, byte):
    return np.int32((x >> np.uint32(8 * byte)) & np.uint32(0xFF))


@lane
def dp4a_s32_s32(a, b, c):
    """``c`` plus the dot product of four signed bytes of ``a`` and four signed bytes of ``b``; int32."""
    low = _s8(a, 0) * _s8(b, 0) + _s8(a, 1) * _s8(b, 1)
    high = _s8(a, 2) * _s8(b, 2) + _s8(a, 3) * _s8(b, 3)
    return np.int32(np.int32(low + high) + c)


@lane
def dp4a_s32_u32(a, b, c):
    """``c`` plus the dot product of four signed bytes of ``a`` and four unsigned bytes of ``b``; int32."""
    low = _s8(a, 0) * _u8(b, 0) + _s8(a, 1) * _u8(b, 1)
    high = _s8(a, 2) * _u8(b, 2) + _s8(a, 3) * _u8(b, 3)
    return np.int32(np.int32(low + high) + c)


@lane
def dp4a_u32_s32(a, b, c):
    """``c`` plus the dot product of four unsigned bytes of ``a`` and four signed bytes of ``b``; int32."""
    low = _u8(a, 0) * _s8(b, 0) + _u8(a, 1) * _s8(b, 1)
    high = _u8(a, 2) * _s8(b, 2) + _u8(a, 3) * _s8(b, 3)
    return np.int32(np.int32(low + high) + c)


@lane
def dp4a_u32_u32(a, b, c):
    """``c`` plus the dot product of four unsigned bytes of ``a`` and four unsigned bytes of ``b``; uint32."""
    low = _u8(a, 0) * _u8(b, 0) + _u8(a, 1) * _u8(b, 1)
    high = _u8(a, 2) * _u8(b, 2) + _u8(a, 3) * _u8(b, 3)
    return np.uint32(np.uint32(low + high) + c)


@lane
def dp2a_lo_s32_s32(a, b, c):
    """``c`` plus the dot product of both signed halves of ``a`` and the low two signed bytes of ``b``; int32."""
    low, high = np.int32(_low_s16(a)), np.int32(_high_s16(a))
    return np.int32(np.int32(low * _s8(b, 0) + high * _s8(b, 1)) + c)


@lane
def dp2a_lo_s32_u32(a, b, c):
    """``c`` plus the dot product of both signed halves of ``a`` and the low two unsigned bytes of ``b``; int32."""
    low, high = np.int32(_low_s16(a)), np.int32(_high_s16(a))
    return np.int32(np.int32(low * _u8(b, 0) + high * _u8(b, 1)) + c)


@lane
def dp2a_lo_u32_s32(a, b, c):
    """``c`` plus the dot product of both unsigned halves of ``a`` and the low two signed bytes of ``b``; int32."""
    low, high = np.int32(a & _LOW16), np.int32(a >> np.uint32(16))
    return np.int32(np.int32(low * _s8(b, 0) + high * _s8(b, 1)) + c)


@lane
def dp2a_lo_u32_u32(a, b, c):
    """``c`` plus the dot product of both unsigned halves of ``a`` and the low two unsigned bytes of ``b``; uint32."""
    low, high = np.int32(a & _LOW16), np.int32(a >> np.uint32(16))
    return np.uint32(np.uint32(low * _u8(b, 0) + high * _u8(b, 1)) + c)


@lane
def dp2a_hi_s32_s32(a, b, c):
    """``c`` plus the dot product of both signed halves of ``a`` and the high two signed bytes of ``b``; int32."""
    low, high = np.int32(_low_s16(a)), np.int32(_high_s16(a))
    return np.int32(np.int32(low * _s8(b, 2) + high * _s8(b, 3)) + c)


@lane
def dp2a_hi_s32_u32(a, b, c):
    """``c`` plus the dot product of both signed halves of ``a`` and the high two unsigned bytes of ``b``; int32."""
    low, high = np.int32(_low_s16(a)), np.int32(_high_s16(a))
    return np.int32(np.int32(low * _u8(b, 2) + high * _u8(b, 3)) + c)


@lane
def dp2a_hi_u32_s32(a, b, c):
    """``c`` plus the dot product of both unsigned halves of ``a`` and the high two signed bytes of ``b``; int32."""
    low, high = np.int32(a & _LOW16), np.int32(a >> np.uint32(16))
    return np.int32(np.int32(low * _s8(b, 2) + high * _s8(b, 3)) + c)


@lane
def dp2a_hi_u32_u32(a, b, c):
    """``c`` plus the dot product of both unsigned halves of ``a`` and the high two unsigned bytes of ``b``; uint32."""
    low, high = np.int32(a & _LOW16), np.int32(a >> np.uint32(16))
    return np.uint32(np.uint32(low * _u8(b, 2) + high * _u8(b, 3)) + c)
