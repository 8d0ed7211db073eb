"""Conversions to and from packed types, fp8 and tf32 (PTX ISA 9.7.9.21), and ``cvt.pack`` (9.7.9.22).

Of two f32 operands the first makes the upper element.
"""

from __future__ import annotations

import numpy as np

from isa.arith import float8
from isa.arith.bfloat16 import relu_bf16x2
from isa.arith.convert import (
    clamp_s64,
    f32_to_tf32_rn,
    f32_to_tf32_rna,
    f32_to_tf32_rz,
    satfinite_bf16,
    satfinite_f16,
    satfinite_tf32,
)
from isa.arith.float8 import relu_f32
from isa.arith.float16 import relu_f16x2
from isa.arith.packed import pack
from isa.instructions.convert import NARROW, conversion
from isa.instructions.tables import by_type, function_of
from isa.spec import flag, instruction

_FP8 = ("e4m3x2", "e5m2x2")

SATFINITE = {"f16": satfinite_f16, "bf16": satfinite_bf16}
TO_TF32 = {"rn": f32_to_tf32_rn, "rz": f32_to_tf32_rz}
FP8_OF_F32 = by_type(float8, "f32x2_to", _FP8)
FP8_OF_F16 = by_type(float8, "f16x2_to", _FP8)
F16_OF_FP8 = {t: function_of(float8, f"{t}_to_f16x2") for t in _FP8}


def _packs_two(half):
    return conversion(
        f"cvt.{{rnd}}{{relu}}{{satfinite}}.{half}x2.f32 d:{half}x2, a, b",
        sm=80,
        ptx="7.0",
        rnd=("rn", "rz"),
        relu=flag("relu"),
        satfinite=flag("satfinite"),
    )


@_packs_two("f16")
def pack_f16(a, b, *, rnd, relu, satfinite):
    """Round two f32 to a pair of f16, ``a`` the upper one; NaN becomes 0x7fff. ``.satfinite`` turns infinity into the
    largest finite value, ``.relu`` negative results into 0."""
    upper, lower = NARROW["f32", "f16", rnd](a), NARROW["f32", "f16", rnd](b)
    if satfinite:
        upper, lower = SATFINITE["f16"](upper), SATFINITE["f16"](lower)
    return relu_f16x2(pack(lower, upper)) if relu else pack(lower, upper)


@_packs_two("bf16")
def pack_bf16(a, b, *, rnd, relu, satfinite):
    """Round two f32 to a pair of bf16, ``a`` the upper one; NaN becomes 0x7fff. ``.satfinite`` turns infinity into the
    largest finite value, ``.relu`` negative results into 0."""
    upper, lower = NARROW["f32", "bf16", rnd](a), NARROW["f32", "bf16", rnd](b)
    if satfinite:
        upper, lower = SATFINITE["bf16"](upper), SATFINITE["bf16"](lower)
    return relu_bf16x2(pack(lower, upper)) if relu else pack(lower, upper)


# -------------------------------------------------------------------------------------------------------------- tf32


@conversion(
    "cvt.rna{satfinite}.tf32.f32 d:tf32, a",
    sm=80,
    ptx="7.0",
    timing=lambda p: "cvt.rna.tf32",
    satfinite=flag("satfinite"),
)
def f32_to_tf32_away(a, *, satfinite):
    """Round to tf32, ties away from zero. It is integer work: half a unit is added and the low bits are cut, of NaN
    too. ``.satfinite`` turns infinity into the largest finite value."""
    r = f32_to_tf32_rna(a)
    return satfinite_tf32(r) if satfinite else r


@conversion("cvt.{rnd}{relu}.tf32.f32 d:tf32, a", sm=90, ptx="7.8", rnd=("rn", "rz"), relu=flag("relu"))
def f32_to_tf32(a, *, rnd, relu):
    """Round to tf32; NaN becomes 0x7fffe000. ``.relu`` turns negative results into 0."""
    return TO_TF32[rnd](relu_f32(a) if relu else a)


@conversion("cvt.{rnd}{relu}.satfinite.tf32.f32 d:tf32, a", sm=100, ptx="8.6", rnd=("rn", "rz"), relu=flag("relu"))
def f32_to_tf32_finite(a, *, rnd, relu):
    """Round to tf32; infinity and beyond become the largest finite value, NaN 0x7fffe000. ``.relu`` turns negative results into
    0."""
    r = TO_TF32[rnd](relu_f32(a) if relu else a)
    return satfinite_tf32(r) if a == a else r


# --------------------------------------------------------------------------------------------------------------- fp8


@conversion("cvt.rn{relu}.satfinite.{dtype}.f32 d:dtype, a, b", sm=89, ptx="8.1", relu=flag("relu"), dtype=_FP8)
def f32_to_fp8(a, b, *, relu, dtype):
    """Round two f32 to a pair of fp8, ``a`` the upper one. Overflow gives the largest finite value, NaN 0x7f. ``.relu``
    turns negative results into 0."""
    if relu:
        a, b = relu_f32(a), relu_f32(b)
    return FP8_OF_F32[dtype](a, b)


@conversion("cvt.rn{relu}.satfinite.{dtype}.f16x2 d:dtype, a", sm=89, ptx="8.1", relu=flag("relu"), dtype=_FP8)
def f16_to_fp8(a, *, relu, dtype):
    """Round a pair of f16 to a pair of fp8. Overflow gives the largest finite value, NaN 0x7f. ``.relu`` turns negative
    results into 0."""
    return FP8_OF_F16[dtype](relu_f16x2(a) if relu else a)


@conversion("cvt.rn{relu}.f16x2.{t} d:f16x2, a", sm=89, ptx="8.1", relu=flag("relu"), t=_FP8)
def fp8_to_f16(a, *, relu, t):
    """The same values as a pair of f16; NaN becomes 0x7fff. ``.relu`` turns negative values into 0."""
    return relu_f16x2(F16_OF_FP8[t](a)) if relu else F16_OF_FP8[t](a)


# ---------------------------------------------------------------------------------------------------------- cvt.pack

_PACKED = ("u2", "s2", "u4", "s4", "u8", "s8")
BITS = {t: int(t[1:]) for t in (*_PACKED, "u16", "s16")}
LEAST = {t: -(1 << (bits - 1)) if t[0] == "s" else 0 for t, bits in BITS.items()}
GREATEST = {t: (1 << (bits - (t[0] == "s"))) - 1 for t, bits in BITS.items()}
MASK = {t: (1 << bits) - 1 for t, bits in BITS.items()}


@instruction(
    "cvt.pack.sat.{ctype}.s32 d:b32, a, b",
    timing="cvt.pack",
    section="9.7.9.22",
    sm=72,
    ptx="6.5",
    ctype=("u16", "s16"),
)
def cvt_pack(a, b, *, ctype):
    """Clamp two integers to 16 bits and pack them, ``a`` the upper one."""
    upper, lower = (
        clamp_s64(np.int64(a), LEAST[ctype], GREATEST[ctype]),
        clamp_s64(np.int64(b), LEAST[ctype], GREATEST[ctype]),
    )
    return (np.uint32(upper) << np.uint32(16)) | (np.uint32(lower) & np.uint32(0xFFFF))


@instruction(
    "cvt.pack.sat.{ctype}.s32.b32 d:b32, a:s32, b:s32, c:b32",
    timing="cvt.pack",
    section="9.7.9.22",
    sm=72,
    ptx="6.5",
    ctype=_PACKED,
)
def cvt_pack_more(a, b, c, *, ctype):
    """Clamp two integers to a narrow type and pack them, ``a`` the upper one, below the low bits of ``c``."""
    upper = np.uint32(clamp_s64(np.int64(a), LEAST[ctype], GREATEST[ctype])) & np.uint32(MASK[ctype])
    lower = np.uint32(clamp_s64(np.int64(b), LEAST[ctype], GREATEST[ctype])) & np.uint32(MASK[ctype])
    return (c << np.uint32(2 * BITS[ctype])) | (upper << np.uint32(BITS[ctype])) | lower
