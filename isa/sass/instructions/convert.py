"""Conversions between number formats: F2I, I2F, F2F, FRND and the packing ones.

The steps and how each rounds are those of ``cvt`` in PTX (:mod:`isa.instructions.convert`), whose lane functions these are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from isa.arith import convert, float8
from isa.arith.bfloat16 import relu_bf16
from isa.arith.convert import (
    f32_to_tf32_rn,
    f32_to_tf32_rz,
    float_to_int,
    float_to_s64,
    float_to_u64,
    satfinite_bf16,
    satfinite_f16,
)
from isa.arith.float8 import relu_f32
from isa.arith.float16 import relu_f16, relu_f16x2
from isa.arith.float32 import canon_f32
from isa.arith.float64 import nan_f64
from isa.arith.packed import pack
from isa.instructions.convert import EXACT as EXACT_PTX
from isa.instructions.convert import GREATEST as GREATEST_PTX
from isa.instructions.convert import LEAST as LEAST_PTX
from isa.instructions.convert import NAN as NAN_PTX
from isa.instructions.convert import NARROW as NARROW_PTX
from isa.instructions.convert import VALUE as VALUE_PTX
from isa.sass.registry import machine
from isa.spec import flag, optional

_FLOAT: dict[str, Any] = {"": "f32", "F16": "f16", "BF16": "bf16", "F64": "f64", "F32": "f32"}
_INTEGER: dict[str, Any] = {
    "": "s32",
    **{f"{kind}{bits}": f"{kind.lower()}{bits}" for kind in "SU" for bits in (8, 16, 32, 64)},
}
_DIRECTION: dict[str, Any] = {"": "rn", "RM": "rm", "RP": "rp", "RZ": "rz"}
_INTEGRAL: dict[str, Any] = {"": "rni", "FLOOR": "rmi", "CEIL": "rpi", "TRUNC": "rzi"}

INTEGRAL = {word: getattr(convert, name) for word, name in _INTEGRAL.items()}
VALUE = {(word, ftz): VALUE_PTX[t, ftz] for word, t in _FLOAT.items() for ftz in (False, True) if (t, ftz) in VALUE_PTX}
LEAST = {word: LEAST_PTX[t] for word, t in _INTEGER.items()}
GREATEST = {word: GREATEST_PTX[t] for word, t in _INTEGER.items()}
NAN = {(f, i): NAN_PTX[_FLOAT[f], _INTEGER[i]] for f in _FLOAT for i in _INTEGER}
EXACT = {word: EXACT_PTX[t] for word, t in _INTEGER.items()}
NARROW = {
    (a, b, word): NARROW_PTX[a, b, mode] for a, b, mode in NARROW_PTX for word, name in _DIRECTION.items() if name == mode
}

_SOURCES = optional("F16", "BF16", "F64")
_RESULTS = optional("F16", "BF16", "F64")
_INTEGERS = optional("S8", "U8", "S16", "U16", "U32", "S64", "U64")
_TO_INTEGRAL = optional("FLOOR", "CEIL", "TRUNC")
_RND = optional("RM", "RP", "RZ")


# ------------------------------------------------------------------------------------------------ floats to integers


def _to_integer(params):
    wide = "u64" if params["i"] in ("S64", "U64") else "u32"
    return {"a": (_FLOAT[str(params["f"])], 1), "d": (wide, 1)}


@machine(
    "F2I{ftz}{i}{f}{rnd}{ntz} d, a",
    pipe="xu",
    ftz=flag("FTZ"),
    i=_INTEGERS,
    f=_SOURCES,
    rnd=_TO_INTEGRAL,
    ntz=flag("NTZ"),
    operands=_to_integer,
)
def f2i(a, *, ftz, i, f, rnd):
    """Round to an integer and clamp it to the range of the result."""
    x = np.float64(INTEGRAL[rnd](VALUE[f, ftz](a)))
    if i == "S64":
        return np.uint64(float_to_s64(x))
    if i == "U64":
        return np.uint64(float_to_u64(x))
    return np.uint32(float_to_int(x, LEAST[i], GREATEST[i], NAN[f, i]))


@machine("F2IP.{i}.F32{rnd}{ntz} d:u32, a:f32, b:f32, c:u32", pipe="alu", i=("U8", "S8"), rnd=_TO_INTEGRAL, ntz=flag("NTZ"))
def f2ip(a, b, c, *, i, rnd):
    """Round two floats to bytes and put them below the low half of ``c``."""
    upper = np.uint32(float_to_int(np.float64(INTEGRAL[rnd](a)), LEAST[i], GREATEST[i], 0)) & np.uint32(0xFF)
    lower = np.uint32(float_to_int(np.float64(INTEGRAL[rnd](b)), LEAST[i], GREATEST[i], 0)) & np.uint32(0xFF)
    return (c << np.uint32(16)) | (upper << np.uint32(8)) | lower


# ------------------------------------------------------------------------------------------------ integers to floats


def _from_integer(params):
    return {"d": (_FLOAT[str(params["f"])], 1), "a": (_INTEGER[str(params["i"])], 1)}


@machine("I2F{f}{i}{rnd} d, a", pipe="xu", f=_RESULTS, i=_INTEGERS, rnd=_RND, operands=_from_integer)
def i2f(a, *, f, i, rnd):
    """The float next to an integer in the direction of the rounding."""
    if f == "F64":
        if i == "S64":
            return NARROW["s64", "f64", rnd](a)
        if i == "U64":
            return NARROW["u64", "f64", rnd](a)
        return np.float64(a)
    if f == "F16":
        return NARROW["f64", "f16", rnd](EXACT[i](a))
    if f == "BF16":
        return NARROW["f64", "bf16", rnd](EXACT[i](a))
    return NARROW["f64", "f32", rnd](EXACT[i](a))


@machine(
    "I2FP.F32.{i}{rnd} d:f32, a",
    pipe="alu",
    i=("S32", "U32"),
    rnd=_RND,
    operands=lambda p: {"a": (_INTEGER[str(p["i"])], 1)},
)
def i2fp(a, *, i, rnd):
    """The float32 next to a 32-bit integer in the direction of the rounding."""
    return NARROW["f64", "f32", rnd](np.float64(a))


# -------------------------------------------------------------------------------------------------- floats to floats


def _both(params):
    return {"d": (_FLOAT[str(params["to"])], 1), "a": (_FLOAT[str(params["f"])], 1)}


@machine(
    "F2F{ftz}.{to}.{f}{rnd} d, a",
    pipe="xu",
    ftz=flag("FTZ"),
    to=("F16", "BF16", "F32", "F64"),
    f=("F16", "BF16", "F32", "F64"),
    rnd=_RND,
    operands=_both,
)
def f2f(a, *, ftz, to, f, rnd):
    """Convert between float formats; wider is exact, narrower rounds once."""
    if f == "F64":
        if to == "F32":
            return NARROW["f64", "f32", rnd](a)
        if to == "F16":
            return NARROW["f64", "f16", rnd](a)
        return NARROW["f64", "bf16", rnd](a)
    x = VALUE[f, ftz](a)
    if to == "F64":
        return np.float64(x)
    if to == "F16":
        return NARROW["f32", "f16", rnd](x)
    if to == "BF16":
        return NARROW["f32", "bf16", rnd](x)
    return canon_f32(x)


@machine(
    "FRND{ftz}{f}{rnd} d, a",
    pipe="xu",
    ftz=flag("FTZ"),
    f=_SOURCES,
    rnd=_TO_INTEGRAL,
    operands=lambda p: {name: (_FLOAT[str(p["f"])], 1) for name in "da"},
)
def frnd(a, *, ftz, f, rnd):
    """Round to an integral value, which stays a float."""
    if f == "F64":
        return nan_f64(a, a, a, INTEGRAL[rnd](a))
    x = INTEGRAL[rnd](VALUE[f, ftz](a))
    if f == "F16":
        return NARROW["f32", "f16", ""](x)
    if f == "BF16":
        return NARROW["f32", "bf16", ""](x)
    return canon_f32(x)


# ---------------------------------------------------------------------------------------------------------- packing


_LIMITS: dict[str, Any] = {"finite": flag("SATFINITE"), "relu": flag("RELU"), "rnd": _RND}


@machine("F2FP{finite}{relu}.PACK_AB{rnd} d:u32, a:f32, b:f32", pipe="alu", **_LIMITS)
@machine("F2FP{finite}{relu}.F16.F32.PACK_AB{rnd} d:u32, a:f32, b:f32", pipe="alu", **_LIMITS)
def f2fp_half(a, b, *, finite, relu, rnd):
    """Round two float32 to f16 and pack them, ``a`` the upper one."""
    upper, lower = NARROW["f32", "f16", rnd](a), NARROW["f32", "f16", rnd](b)
    if finite:
        upper, lower = satfinite_f16(upper), satfinite_f16(lower)
    if relu:
        upper, lower = relu_f16(upper), relu_f16(lower)
    return pack(lower, upper)


@machine("F2FP{finite}{relu}.BF16.PACK_AB{rnd} d:u32, a:f32, b:f32", pipe="alu", **_LIMITS)
@machine("F2FP{finite}{relu}.BF16.F32.PACK_AB{rnd} d:u32, a:f32, b:f32", pipe="alu", **_LIMITS)
def f2fp_bfloat(a, b, *, finite, relu, rnd):
    """Round two float32 to bf16 and pack them, ``a`` the upper one."""
    upper, lower = NARROW["f32", "bf16", rnd](a), NARROW["f32", "bf16", rnd](b)
    if finite:
        upper, lower = satfinite_bf16(upper), satfinite_bf16(lower)
    if relu:
        upper, lower = relu_bf16(upper), relu_bf16(lower)
    return pack(lower, upper)


@machine("F2FP{finite}{relu}.MERGE_C{rnd} d:u32, a:f32, c:u32", pipe="alu", **_LIMITS)
@machine("F2FP{finite}{relu}.F16.F32.MERGE_C{rnd} d:u32, a:f32, c:u32", pipe="alu", **_LIMITS)
def f2fp_half_merged(a, c, *, finite, relu, rnd):
    """Round a float32 to f16 and put it below the low half of ``c`` (which ptxas only makes zero)."""
    r = NARROW["f32", "f16", rnd](a)
    if finite:
        r = satfinite_f16(r)
    return (c << np.uint32(16)) | np.uint32(relu_f16(r) if relu else r)


@machine("F2FP{finite}{relu}.BF16.MERGE_C{rnd} d:u32, a:f32, c:u32", pipe="alu", **_LIMITS)
@machine("F2FP{finite}{relu}.BF16.F32.MERGE_C{rnd} d:u32, a:f32, c:u32", pipe="alu", **_LIMITS)
def f2fp_bfloat_merged(a, c, *, finite, relu, rnd):
    """Round a float32 to bf16 and put it below the low half of ``c`` (which ptxas only makes zero)."""
    r = NARROW["f32", "bf16", rnd](a)
    if finite:
        r = satfinite_bf16(r)
    return (c << np.uint32(16)) | np.uint32(relu_bf16(r) if relu else r)


@machine("F2FP{relu}.TF32.F32.PACK_B{rnd} d:tf32, a:f32", pipe="alu", relu=flag("RELU"), rnd=optional("RZ"))
def f2fp_tf32(a, *, relu, rnd):
    """Round to tf32."""
    x = relu_f32(a) if relu else a
    return f32_to_tf32_rz(x) if rnd == "RZ" else f32_to_tf32_rn(x)


_FP8 = ("E4M3", "E5M2")
FP8_OF_F32 = {t: getattr(float8, f"f32x2_to_{t.lower()}x2") for t in _FP8}
FP8_OF_F16 = {t: getattr(float8, f"f16x2_to_{t.lower()}x2") for t in _FP8}
F16_OF_FP8 = {t: getattr(float8, f"{t.lower()}x2_to_f16x2") for t in _FP8}


@machine("F2FP.SATFINITE{relu}.{t}.F32.PACK_AB_MERGE_C d:u32, a:f32, b:f32, c:u32", pipe="alu", t=_FP8, relu=flag("RELU"))
def f2fp_fp8(a, b, c, *, t, relu):
    """Round two float32 to fp8 and put them below the low half of ``c``, ``a`` the upper one."""
    if relu:
        a, b = relu_f32(a), relu_f32(b)
    return (c << np.uint32(16)) | np.uint32(FP8_OF_F32[t](a, b))


@machine("F2FP.SATFINITE{relu}.{t}.F16.UNPACK_B_MERGE_C d:u32, a:u32, c:u32", pipe="alu", t=_FP8, relu=flag("RELU"))
def f2fp_fp8_of_half(a, c, *, t, relu):
    """Round a pair of f16 to fp8 and put them below the low half of ``c``."""
    return (c << np.uint32(16)) | np.uint32(FP8_OF_F16[t](relu_f16x2(a) if relu else a))


@machine("F2FP{relu}.F16.{t}.UNPACK_B d:u32, a:u16", pipe="alu", t=_FP8, relu=flag("RELU"))
def f2fp_unpack(a, *, t, relu):
    """The pair of f16 with the values of two fp8."""
    r = F16_OF_FP8[t](a)
    return relu_f16x2(r) if relu else r
