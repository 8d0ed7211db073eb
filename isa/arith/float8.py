"""Conversions to and from the 8-bit formats e4m3 and e5m2 (PTX ISA 9.7.9.21).

A byte is rounded from float32 directly (an f16 source widens exactly first), to nearest even, and clamps: overflow and
infinity give the largest finite value of their sign, NaN gives 0x7F (measured on an H200, driver 580.159).
"""

from __future__ import annotations

import numpy as np

from isa.arith.lane import lane
from isa.arith.packed import high, low, pack
from isa.arith.primitives import bits_f32, f16_bits_to_f32, f32_bits, f32_to_f16_bits_rn

__all__ = [
    "e4m3_to_f32",
    "e4m3x2_to_f16x2",
    "e5m2_to_f16",
    "e5m2x2_to_f16x2",
    "f16x2_to_e4m3x2",
    "f16x2_to_e5m2x2",
    "f32_to_e4m3",
    "f32_to_e5m2",
    "f32x2_to_e4m3x2",
    "f32x2_to_e5m2x2",
    "relu_f32",
]

_ZERO = np.float32(0.0)
_MAGNITUDE = np.uint32(0x7FFFFFFF)


@lane
def relu_f32(x):
    """``.relu`` on a source: negatives and -0 give +0, NaN stays NaN."""
    return _ZERO if x <= _ZERO else x


@lane
def f32_to_e4m3(x):
    """float32 to e4m3 (uint16, 0 to 255), nearest even, saturating at 448."""
    u = f32_bits(x)
    sign = np.uint32((u >> np.uint32(24)) & np.uint32(0x80))
    m = u & _MAGNITUDE
    # Normal from 2^-6: keep 3 fraction bits and move the exponent bias from 127 to 7.
    normal = np.uint32(((m + np.uint32(0x7FFFF) + ((m >> np.uint32(20)) & np.uint32(1))) >> np.uint32(20)) - np.uint32(960))
    # Below, adding 2^14 leaves the multiple of 2^-9 in the low bits of the sum.
    subnormal = np.uint32(f32_bits(bits_f32(m) + np.float32(16384.0)) - np.uint32(0x46800000))
    code = min(normal if m >= np.uint32(0x3C800000) else subnormal, np.uint32(0x7E))
    return np.uint16(sign | code if x == x else np.uint32(0x7F))


@lane
def f32_to_e5m2(x):
    """float32 to e5m2 (uint16, 0 to 255), nearest even, saturating at 57344."""
    u = f32_bits(x)
    sign = np.uint32((u >> np.uint32(24)) & np.uint32(0x80))
    m = u & _MAGNITUDE
    normal = np.uint32(((m + np.uint32(0xFFFFF) + ((m >> np.uint32(21)) & np.uint32(1))) >> np.uint32(21)) - np.uint32(448))
    subnormal = np.uint32(f32_bits(bits_f32(m) + np.float32(128.0)) - np.uint32(0x43000000))
    code = min(normal if m >= np.uint32(0x38800000) else subnormal, np.uint32(0x7B))
    return np.uint16(sign | code if x == x else np.uint32(0x7F))


@lane
def f32x2_to_e4m3x2(a, b):
    """``cvt.rn.satfinite.e4m3x2.f32 d, a, b``: ``a`` in the high byte (uint16)."""
    return np.uint16((np.uint32(f32_to_e4m3(a)) << np.uint32(8)) | np.uint32(f32_to_e4m3(b)))


@lane
def f32x2_to_e5m2x2(a, b):
    """``cvt.rn.satfinite.e5m2x2.f32 d, a, b``: ``a`` in the high byte (uint16)."""
    return np.uint16((np.uint32(f32_to_e5m2(a)) << np.uint32(8)) | np.uint32(f32_to_e5m2(b)))


@lane
def f16x2_to_e4m3x2(a):
    """``cvt.rn.satfinite.e4m3x2.f16x2``: the low half gives the low byte (uint16)."""
    return f32x2_to_e4m3x2(f16_bits_to_f32(high(a)), f16_bits_to_f32(low(a)))


@lane
def f16x2_to_e5m2x2(a):
    """``cvt.rn.satfinite.e5m2x2.f16x2``: the low half gives the low byte (uint16)."""
    return f32x2_to_e5m2x2(f16_bits_to_f32(high(a)), f16_bits_to_f32(low(a)))


@lane
def e4m3_to_f32(code):
    """The value of an e4m3 byte (any unsigned integer, low 8 bits) as float32, exact; 0x7F and 0xFF are NaN."""
    u = np.uint32(code)
    # The 7 bits with float32's exponent width are the value times 2^-120, subnormals included.
    value = bits_f32((u & np.uint32(0x7F)) << np.uint32(20)) * np.float32(2.0**120)
    nan = (u & np.uint32(0x7F)) == np.uint32(0x7F)
    bits = _MAGNITUDE if nan else f32_bits(value) | ((u & np.uint32(0x80)) << np.uint32(24))
    return bits_f32(bits)


@lane
def _e4m3_to_f16(code):
    f = e4m3_to_f32(code)
    return f32_to_f16_bits_rn(f) if f == f else np.uint16(0x7FFF)


@lane
def e5m2_to_f16(code):
    """An e5m2 byte (any unsigned integer, low 8 bits) as f16 bits: the byte is the high half, NaN becomes 0x7FFF."""
    u = np.uint32(code) & np.uint32(0xFF)
    return np.uint16(np.uint32(0x7FFF) if (u & np.uint32(0x7F)) > np.uint32(0x7C) else u << np.uint32(8))


@lane
def e4m3x2_to_f16x2(a):
    """``cvt.rn.f16x2.e4m3x2`` (exact): the low byte gives the low half (uint32)."""
    return pack(_e4m3_to_f16(a), _e4m3_to_f16(np.uint32(a) >> np.uint32(8)))


@lane
def e5m2x2_to_f16x2(a):
    """``cvt.rn.f16x2.e5m2x2`` (exact): the low byte gives the low half (uint32)."""
    return pack(e5m2_to_f16(a), e5m2_to_f16(np.uint32(a) >> np.uint32(8)))
