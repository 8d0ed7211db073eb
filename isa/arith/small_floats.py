"""Conversions to and from formats of 4 and 6 bits (e2m1, e2m3, e3m2), to and from scales (ue8m0), and stochastic rounding
(PTX ISA 9.7.9.21, ``cvt``; first on sm_100).

No hardware that has them was recorded: these follow the text of the PTX ISA 9.0, and for what it leaves open the host code of
CUDA's ``cuda_fp4.hpp``, ``cuda_fp6.hpp`` and ``cuda_fp8.hpp`` (CUDA 13.0), which is meant to give the same bits. The small
formats have no infinity and no NaN: overflow gives the largest number of its sign, NaN the largest positive one.
"""

from __future__ import annotations

import numpy as np

from isa.arith.lane import lane
from isa.arith.primitives import bits_f32, f32_bits, f32_to_f16_bits_rn

__all__ = [
    "bf16_to_ue8m0_rp",
    "bf16_to_ue8m0_rz",
    "e2m1_to_f16",
    "e2m3_to_f16",
    "e3m2_to_f16",
    "f32_to_e2m1",
    "f32_to_e2m3",
    "f32_to_e3m2",
    "f32_to_ue8m0_rp",
    "f32_to_ue8m0_rz",
    "satfinite_ue8m0",
    "stochastic",
    "ue8m0_to_bf16",
]

_MAGNITUDE = np.uint32(0x7FFFFFFF)
_INFINITY = np.uint32(0x7F800000)


# ---------------------------------------------------------------------------------------------- 4 and 6 bits, to nearest


@lane
def f32_to_e2m1(x):
    """float32 to e2m1 (uint32, 4 bits), nearest even, saturating at 6."""
    u = f32_bits(x)
    m = u & _MAGNITUDE
    # Normal from 1: keep 1 fraction bit and move the exponent bias from 127 to 1.
    normal = np.uint32(((m + np.uint32(0x1FFFFF) + ((m >> np.uint32(22)) & np.uint32(1))) >> np.uint32(22)) - np.uint32(252))
    # Below, adding 2^22 leaves the multiple of 2^-1 in the low bits of the sum.
    subnormal = np.uint32(f32_bits(bits_f32(m) + np.float32(4194304.0)) - np.uint32(0x4A800000))
    code = min(normal if m >= np.uint32(0x3F800000) else subnormal, np.uint32(7))
    return np.uint32(((u >> np.uint32(28)) & np.uint32(8)) | code) if x == x else np.uint32(7)


@lane
def f32_to_e2m3(x):
    """float32 to e2m3 (uint32, 6 bits), nearest even, saturating at 7.5."""
    u = f32_bits(x)
    m = u & _MAGNITUDE
    normal = np.uint32(((m + np.uint32(0x7FFFF) + ((m >> np.uint32(20)) & np.uint32(1))) >> np.uint32(20)) - np.uint32(1008))
    subnormal = np.uint32(f32_bits(bits_f32(m) + np.float32(1048576.0)) - np.uint32(0x49800000))
    code = min(normal if m >= np.uint32(0x3F800000) else subnormal, np.uint32(0x1F))
    return np.uint32(((u >> np.uint32(26)) & np.uint32(0x20)) | code) if x == x else np.uint32(0x1F)


@lane
def f32_to_e3m2(x):
    """float32 to e3m2 (uint32, 6 bits), nearest even, saturating at 28."""
    u = f32_bits(x)
    m = u & _MAGNITUDE
    normal = np.uint32(((m + np.uint32(0xFFFFF) + ((m >> np.uint32(21)) & np.uint32(1))) >> np.uint32(21)) - np.uint32(496))
    subnormal = np.uint32(f32_bits(bits_f32(m) + np.float32(524288.0)) - np.uint32(0x49000000))
    code = min(normal if m >= np.uint32(0x3E800000) else subnormal, np.uint32(0x1F))
    return np.uint32(((u >> np.uint32(26)) & np.uint32(0x20)) | code) if x == x else np.uint32(0x1F)


# ------------------------------------------------------------------------------------------------------- 4 and 6 bits, back


@lane
def e2m1_to_f16(code):
    """An e2m1 number (the low 4 bits) as f16 bits, exact."""
    u = np.uint32(code)
    # The 3 bits with float32's exponent width are the value times 2^-126, subnormals included.
    half = f32_to_f16_bits_rn(bits_f32((u & np.uint32(7)) << np.uint32(22)) * np.float32(2.0**126))
    return np.uint16(np.uint32(half) | ((u & np.uint32(8)) << np.uint32(12)))


@lane
def e2m3_to_f16(code):
    """An e2m3 number (the low 6 bits) as f16 bits, exact."""
    u = np.uint32(code)
    half = f32_to_f16_bits_rn(bits_f32((u & np.uint32(0x1F)) << np.uint32(20)) * np.float32(2.0**126))
    return np.uint16(np.uint32(half) | ((u & np.uint32(0x20)) << np.uint32(10)))


@lane
def e3m2_to_f16(code):
    """An e3m2 number (the low 6 bits) as f16 bits, exact."""
    u = np.uint32(code)
    half = f32_to_f16_bits_rn(bits_f32((u & np.uint32(0x1F)) << np.uint32(21)) * np.float32(2.0**124))
    return np.uint16(np.uint32(half) | ((u & np.uint32(0x20)) << np.uint32(10)))


# -------------------------------------------------------------------------------------------------------------- scales


@lane
def f32_to_ue8m0_rz(x):
    """The power of two at or below a magnitude, as its exponent's field (uint32): 0 for anything below 2^-126, 255 for infinity
    and NaN. The sign is dropped."""
    return (f32_bits(x) & _MAGNITUDE) >> np.uint32(23)


@lane
def f32_to_ue8m0_rp(x):
    """The power of two at or above a magnitude: as :func:`f32_to_ue8m0_rz`, but 1 more for what lies between two of them. The
    least is 2^-127; above 2^127 there is only 255."""
    m = f32_bits(x) & _MAGNITUDE
    between = ((m & np.uint32(0x7FFFFF)) != np.uint32(0)) & (m > np.uint32(0x400000)) & (m < _INFINITY)
    return np.uint32((m >> np.uint32(23)) + np.uint32(between))


@lane
def bf16_to_ue8m0_rz(u):
    """As :func:`f32_to_ue8m0_rz`, of a bf16."""
    return f32_to_ue8m0_rz(bits_f32(np.uint32(u) << np.uint32(16)))


@lane
def bf16_to_ue8m0_rp(u):
    """As :func:`f32_to_ue8m0_rp`, of a bf16."""
    return f32_to_ue8m0_rp(bits_f32(np.uint32(u) << np.uint32(16)))


@lane
def satfinite_ue8m0(code, x):
    """``.satfinite``: 255 becomes 254 but for a NaN ``x``."""
    return np.uint32(254) if (code == np.uint32(255)) & (x == x) else code


@lane
def ue8m0_to_bf16(code):
    """The power of two of a scale (low 8 bits) as bf16 bits; 255 is NaN, 0x7FFF."""
    u = np.uint32(code) & np.uint32(0xFF)
    wide = np.uint32(0x40) if u == np.uint32(0) else u << np.uint32(7)
    return np.uint16(np.uint32(0x7FFF) if u == np.uint32(0xFF) else wide)


# ------------------------------------------------------------------------------------------------- stochastic rounding


@lane
def stochastic(x, random, random_bits, fraction_bits, bias, largest):
    """The magnitude of float32 ``x`` in a format of so many fraction bits, as its code (uint32): ``random``, a whole number of
    ``random_bits`` bits, is added just below the last bit that is kept, and what is below that bit is then cut off. At most
    ``largest``. NaN means nothing here."""
    m = f32_bits(x) & _MAGNITUDE
    field = np.int64(m >> np.uint32(23))
    significand = np.uint64(m & np.uint32(0x7FFFFF)) | np.uint64(np.uint32(0x800000) if field > 0 else np.uint32(0))
    exponent = max(field, np.int64(1)) - np.int64(127)
    least = np.int64(1 - bias)
    kept = max(exponent, least)
    # So many bits are cut off. From 44 on, what is left of the number is below 2^-19 units: no random number lifts it to one.
    cut = np.int64(23 - fraction_bits) + (kept - exponent)
    place = np.uint64(20 + min(cut, np.int64(43)))
    added = (significand << np.uint64(20)) + (np.uint64(random) << np.uint64(place - np.uint64(random_bits)))
    whole = np.int64(added >> place) if cut < np.int64(44) else np.int64(0)
    # The hidden bit of ``whole`` adds the one that makes the exponent field of a normal number.
    return np.uint32(min(((kept - least) << np.int64(fraction_bits)) + whole, np.int64(largest)))
