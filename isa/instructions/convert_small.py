"""Conversions of sm_100 and later: formats of 4 and 6 bits, scales, and stochastic rounding (PTX ISA 9.7.9.21).

Of several f32 operands the first makes the uppermost element. Elements of 6 bits are in containers of 8, whose upper two bits
are zero in results and do not count in operands. See :mod:`isa.arith.small_floats` for what these rest on.
"""

from __future__ import annotations

import numpy as np

from isa.arith import small_floats
from isa.arith.float8 import relu_f32
from isa.arith.float16 import relu_f16x2
from isa.arith.packed import high, low, pack
from isa.arith.primitives import bits_f32, f16_bits_to_f32, f32_bits
from isa.arith.small_floats import (
    bf16_to_ue8m0_rp,
    bf16_to_ue8m0_rz,
    f32_to_ue8m0_rp,
    f32_to_ue8m0_rz,
    satfinite_ue8m0,
    stochastic,
    ue8m0_to_bf16,
)
from isa.instructions.convert import conversion
from isa.instructions.tables import function_of
from isa.spec import flag

_VARIANTS = ("100", "103", "110", "120", "121")
FAMILY_TARGETS = tuple(f"sm_{number}{letter}" for number in _VARIANTS for letter in "af")
"""What ptxas 13.0 takes these conversions for: single architectures and families, but no target without a letter."""

STOCHASTIC_TARGETS = ("sm_100a", "sm_103a")
"""What it takes stochastic rounding for."""

_SMALL = ("e2m1", "e2m3", "e3m2")
_PAIRS = tuple(f"{t}x2" for t in _SMALL)
OF_F32 = {f"{t}x2": function_of(small_floats, f"f32_to_{t}") for t in _SMALL}
TO_F16 = {f"{t}x2": function_of(small_floats, f"{t}_to_f16") for t in _SMALL}
STEP = {"e2m1x2": 4, "e2m3x2": 8, "e3m2x2": 8}
"""Bits from an element to the next."""


def _small(template, **options):
    return conversion(template, sm=100, ptx="8.6", targets=FAMILY_TARGETS, **options)


# ---------------------------------------------------------------------------------------------------------- 4 and 6 bits


@_small("cvt.rn{relu}.satfinite.{dtype}.f32 d:dtype, a, b", relu=flag("relu"), dtype=_PAIRS)
def f32_to_small(a, b, *, relu, dtype):
    """Round two f32 to a pair of 4 or 6 bits, ``a`` the upper one. Overflow gives the largest value, NaN the largest positive
    one. ``.relu`` turns negative results into 0."""
    if relu:
        a, b = relu_f32(a), relu_f32(b)
    return (OF_F32[dtype](a) << np.uint32(STEP[dtype])) | OF_F32[dtype](b)


@_small("cvt.rn{relu}.satfinite.e2m1x2.f16x2 d:e2m1x2, a", relu=flag("relu"))
def f16_to_e2m1(a, *, relu):
    """Round a pair of f16 to a pair of e2m1. Overflow gives the largest value, NaN the largest positive one. ``.relu`` turns
    negative results into 0."""
    if relu:
        a = relu_f16x2(a)
    upper, lower = f16_bits_to_f32(high(a)), f16_bits_to_f32(low(a))
    return (OF_F32["e2m1x2"](upper) << np.uint32(4)) | OF_F32["e2m1x2"](lower)


@_small("cvt.rn{relu}.f16x2.{t} d:f16x2, a", relu=flag("relu"), t=_PAIRS)
def small_to_f16(a, *, relu, t):
    """The same values as a pair of f16. ``.relu`` turns negative values into 0."""
    r = pack(TO_F16[t](a), TO_F16[t](np.uint32(a) >> np.uint32(STEP[t])))
    return relu_f16x2(r) if relu else r


# ----------------------------------------------------------------------------------------------------------------- scales

SCALE_OF_F32 = {"rz": f32_to_ue8m0_rz, "rp": f32_to_ue8m0_rp}
SCALE_OF_BF16 = {"rz": bf16_to_ue8m0_rz, "rp": bf16_to_ue8m0_rp}


@_small("cvt.{rnd}{satfinite}.ue8m0x2.f32 d:ue8m0x2, a, b", rnd=("rz", "rp"), satfinite=flag("satfinite"))
def f32_to_scale(a, b, *, rnd, satfinite):
    """Two powers of two at or below (``.rz``), at or above (``.rp``) the magnitudes of two f32, ``a`` the upper one; at least
    2^-127. Infinity and NaN give 255; ``.satfinite`` makes that 254, 2^127, but for NaN."""
    upper, lower = SCALE_OF_F32[rnd](a), SCALE_OF_F32[rnd](b)
    if satfinite:
        upper, lower = satfinite_ue8m0(upper, a), satfinite_ue8m0(lower, b)
    return (upper << np.uint32(8)) | lower


@_small("cvt.{rnd}{satfinite}.ue8m0x2.bf16x2 d:ue8m0x2, a", rnd=("rz", "rp"), satfinite=flag("satfinite"))
def bf16_to_scale(a, *, rnd, satfinite):
    """Two powers of two at or below (``.rz``), at or above (``.rp``) the magnitudes of a pair of bf16; at least 2^-127.
    Infinity and NaN give 255; ``.satfinite`` makes that 254, 2^127, but for NaN."""
    upper, lower = SCALE_OF_BF16[rnd](high(a)), SCALE_OF_BF16[rnd](low(a))
    if satfinite:
        upper = satfinite_ue8m0(upper, bits_f32(a & np.uint32(0xFFFF0000)))
        lower = satfinite_ue8m0(lower, bits_f32(a << np.uint32(16)))
    return (upper << np.uint32(8)) | lower


@_small("cvt.rn.bf16x2.ue8m0x2 d:bf16x2, a")
def scale_to_bf16(a):
    """Two powers of two as a pair of bf16; 255 becomes NaN, 0x7fff."""
    return pack(ue8m0_to_bf16(a), ue8m0_to_bf16(np.uint32(a) >> np.uint32(8)))


# --------------------------------------------------------------------------------------------------- stochastic rounding

# By type: fraction bits, exponent bias, largest finite code, where the sign of an f32 is
# moved to, and what NaN becomes.
FRACTION = {"f16x2": 10, "bf16x2": 7, "e4m3x4": 3, "e5m2x4": 2, "e2m1x4": 1, "e2m3x4": 3, "e3m2x4": 2}
BIAS = {"f16x2": 15, "bf16x2": 127, "e4m3x4": 7, "e5m2x4": 15, "e2m1x4": 1, "e2m3x4": 1, "e3m2x4": 3}
LARGEST = {"f16x2": 0x7BFF, "bf16x2": 0x7F7F, "e4m3x4": 0x7E, "e5m2x4": 0x7B, "e2m1x4": 7, "e2m3x4": 0x1F, "e3m2x4": 0x1F}
SIGN_SHIFT = {"f16x2": 16, "bf16x2": 16, "e4m3x4": 24, "e5m2x4": 24, "e2m1x4": 28, "e2m3x4": 26, "e3m2x4": 26}
SIGN = {t: 1 << (31 - shift) for t, shift in SIGN_SHIFT.items()}
NAN = {"f16x2": 0x7FFF, "bf16x2": 0x7FFF, "e4m3x4": 0x7F, "e5m2x4": 0x7F, "e2m1x4": 7, "e2m3x4": 0x1F, "e3m2x4": 0x1F}
RANDOM_BITS = {"f16x2": 13, "bf16x2": 16}
"""How many bits of each half of the random operand count."""


def _stochastic(template, **options):
    return conversion(template, sm=100, ptx="8.7", targets=STOCHASTIC_TARGETS, relu=flag("relu"), **options)


@_stochastic("cvt.rs{relu}{satfinite}.{dtype}.f32 d:dtype, a, b, c:b32", satfinite=flag("satfinite"), dtype=("f16x2", "bf16x2"))
def f32_to_half_stochastic(a, b, c, *, relu, satfinite, dtype):
    """Round two f32 to a pair of halves, ``a`` the upper one, up with a chance that is what is cut off: the upper half of the
    random bits ``c`` is added to it for ``a``, the lower one for ``b`` (of f16 the low 13 bits of each). NaN becomes 0x7fff.
    ``.satfinite`` turns infinity into the largest finite value, ``.relu`` negative results into 0. How random bits meet a
    subnormal result is a guess."""
    if relu:
        a, b = relu_f32(a), relu_f32(b)
    keep = np.uint32((1 << RANDOM_BITS[dtype]) - 1)
    most = LARGEST[dtype] if satfinite else LARGEST[dtype] + 1
    upper = stochastic(a, (c >> np.uint32(16)) & keep, RANDOM_BITS[dtype], FRACTION[dtype], BIAS[dtype], most)
    lower = stochastic(b, c & keep, RANDOM_BITS[dtype], FRACTION[dtype], BIAS[dtype], most)
    upper |= (f32_bits(a) >> np.uint32(SIGN_SHIFT[dtype])) & np.uint32(SIGN[dtype])
    upper = upper if a == a else np.uint32(NAN[dtype])
    lower |= (f32_bits(b) >> np.uint32(SIGN_SHIFT[dtype])) & np.uint32(SIGN[dtype])
    lower = lower if b == b else np.uint32(NAN[dtype])
    return (upper << np.uint32(16)) | lower


QUADS = ("e4m3x4", "e5m2x4", "e2m1x4", "e2m3x4", "e3m2x4")
QUAD_STEP = {t: 4 if t == "e2m1x4" else 8 for t in QUADS}


@_stochastic("cvt.rs{relu}.satfinite.{dtype}.f32 d:dtype, a*4, c:b32", dtype=QUADS)
def f32_to_quad_stochastic(a, c, *, relu, dtype):
    """Round four f32 to four small numbers, the first the uppermost, up with a chance that is what is cut off. Of the random
    bits ``c``, the upper half is for the first two and the lower half for the others; for e2m1x4 the upper bytes of both halves
    and the lower ones. Overflow gives the largest value. That both numbers of a pair take the same 16 bits, and how these
    meet a subnormal result, is a guess."""
    code = np.uint32(0)
    for i in range(4):
        x = a[i]
        if relu:
            x = relu_f32(x)
        first = i < 2
        if dtype == "e2m1x4":
            high_byte = (c >> np.uint32(24)) if first else (c >> np.uint32(16)) & np.uint32(0xFF)
            low_byte = (c >> np.uint32(8)) & np.uint32(0xFF) if first else c & np.uint32(0xFF)
            random = (high_byte << np.uint32(8)) | low_byte
        else:
            random = (c >> np.uint32(16)) if first else c & np.uint32(0xFFFF)
        magnitude = stochastic(x, random, 16, FRACTION[dtype], BIAS[dtype], LARGEST[dtype])
        sign = (f32_bits(x) >> np.uint32(SIGN_SHIFT[dtype])) & np.uint32(SIGN[dtype])
        code = (code << np.uint32(QUAD_STEP[dtype])) | (magnitude | sign if x == x else np.uint32(NAN[dtype]))
    return code
