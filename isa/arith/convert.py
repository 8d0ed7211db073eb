"""Conversions (PTX ISA 9.7.9.21, ``cvt``) between integers, f16, bf16, f32, f64 and tf32, in every rounding mode.

Integers go to a narrow format in two steps that lose nothing: ``*_to_f64_odd``, then ``f64_to_*``
(:mod:`isa.arith.rounding`; f64 to f32 is there too). NaN results, as read from an H200 (driver 580.159.04): narrowing
an f64 keeps the sign and the upper payload and quiets, which is what these functions and ``f64_to_f32_*`` do; from
f32, f16 and bf16 the result is 0x7FFFFFFF or 0x7FFF, except that bf16 to f32 is a shift and that widening to f64
keeps the payload, quieted.
"""

from __future__ import annotations

import numpy as np

from isa.arith.bfloat16 import f32_to_bf16_rn
from isa.arith.float64 import step_f64_rm, step_f64_rp, step_f64_rz
from isa.arith.lane import lane
from isa.arith.primitives import f16_bits_to_f32, f32_bits, f32_to_f16_bits_rn, f64_bits
from isa.arith.rounding import f64_to_f32_odd, odd_f64, sum_error

__all__ = [
    "clamp_s64",
    "clamp_u64",
    "f32_to_bf16_rm",
    "f32_to_bf16_rp",
    "f32_to_bf16_rz",
    "f32_to_f16_rm",
    "f32_to_f16_rn",
    "f32_to_f16_rp",
    "f32_to_f16_rz",
    "f32_to_tf32_rn",
    "f32_to_tf32_rna",
    "f32_to_tf32_rz",
    "f64_to_bf16_rm",
    "f64_to_bf16_rn",
    "f64_to_bf16_rp",
    "f64_to_bf16_rz",
    "f64_to_f16_rm",
    "f64_to_f16_rn",
    "f64_to_f16_rp",
    "f64_to_f16_rz",
    "float_to_int",
    "float_to_s64",
    "float_to_u64",
    "rmi",
    "rni",
    "rpi",
    "rzi",
    "s64_to_f64_odd",
    "s64_to_f64_rm",
    "s64_to_f64_rn",
    "s64_to_f64_rp",
    "s64_to_f64_rz",
    "satfinite_bf16",
    "satfinite_f16",
    "satfinite_tf32",
    "u64_to_f64_odd",
    "u64_to_f64_rm",
    "u64_to_f64_rn",
    "u64_to_f64_rp",
    "u64_to_f64_rz",
]

_NAN16 = np.uint16(0x7FFF)
_SIGN16 = np.uint16(0x8000)
_TWO32 = 4294967296.0


# ----------------------------------------------------------------------------------------------- rounding to integers


@lane
def rni(x):
    """Rounded to the nearest integral value, ties to even, as float; the sign of zero is kept."""
    return np.rint(x)


@lane
def rzi(x):
    """Rounded toward zero to an integral value, as float."""
    return np.trunc(x)


@lane
def rmi(x):
    """Rounded down to an integral value, as float."""
    return np.floor(x)


@lane
def rpi(x):
    """Rounded up to an integral value, as float."""
    return np.ceil(x)


@lane
def float_to_int(x, least, greatest, nan):
    """An integral float64 as int64, clamped to [``least``, ``greatest``] (int64, below 2^53); ``nan`` for NaN.

    For results of up to 32 bits. NaN gives 0, but 2^(bits-1) where the source is f64 (PTX ISA, ``cvt``).
    """
    clamped = min(max(x, np.float64(least)), np.float64(greatest))
    return np.int64(clamped) if x == x else np.int64(nan)


@lane
def float_to_s64(x):
    """An integral float64 as int64, clamped; NaN gives the least integer."""
    inside = (x > -9223372036854775808.0) & (x < 9223372036854775808.0)
    value = np.int64(x if inside else 0.0)
    limit = np.int64(0x7FFFFFFFFFFFFFFF) if x > 0.0 else np.int64(-0x8000000000000000)
    return value if inside else limit


@lane
def float_to_u64(x):
    """An integral float64 as uint64, clamped; NaN gives 2^63."""
    inside = (x > 0.0) & (x < 18446744073709551616.0)
    value = np.uint64(x if inside else 0.0)
    limit = np.uint64(0xFFFFFFFFFFFFFFFF) if x > 0.0 else np.uint64(0)
    limit = limit if x == x else np.uint64(1 << 63)
    return value if inside else limit


# ------------------------------------------------------------------------------------------------------ from integers


@lane
def clamp_s64(x, least, greatest):
    """``cvt.sat`` between integers: int64 ``x`` clamped to [``least``, ``greatest``]."""
    return min(max(x, np.int64(least)), np.int64(greatest))


@lane
def clamp_u64(x, greatest):
    """``cvt.sat`` between integers: uint64 ``x`` clamped to ``greatest``."""
    return min(x, np.uint64(greatest))


@lane
def _upper_s64(x):
    return np.float64(x >> np.int64(32)) * _TWO32


@lane
def _upper_u64(x):
    return np.float64(np.uint64(x >> np.uint64(32))) * _TWO32


@lane
def _lower(x):
    return np.float64(np.uint32(x & np.uint64(0xFFFFFFFF)))


@lane
def s64_to_f64_rn(x):
    """int64 to float64, to nearest even."""
    return _upper_s64(x) + _lower(np.uint64(x))


@lane
def u64_to_f64_rn(x):
    """uint64 to float64, to nearest even."""
    return _upper_u64(x) + _lower(x)


@lane
def _error_s64(x, r):
    return sum_error(_upper_s64(x), _lower(np.uint64(x)), r)


@lane
def _error_u64(x, r):
    return sum_error(_upper_u64(x), _lower(x), r)


@lane
def s64_to_f64_odd(x):
    """int64 to float64, rounded to odd; exact below 2^53."""
    r = s64_to_f64_rn(x)
    return odd_f64(r, _error_s64(x, r))


@lane
def u64_to_f64_odd(x):
    """uint64 to float64, rounded to odd; exact below 2^53."""
    r = u64_to_f64_rn(x)
    return odd_f64(r, _error_u64(x, r))


@lane
def s64_to_f64_rz(x):
    """int64 to float64, toward zero."""
    r = s64_to_f64_rn(x)
    return step_f64_rz(r, _error_s64(x, r))


@lane
def s64_to_f64_rm(x):
    """int64 to float64, toward minus infinity."""
    r = s64_to_f64_rn(x)
    return step_f64_rm(r, _error_s64(x, r))


@lane
def s64_to_f64_rp(x):
    """int64 to float64, toward plus infinity."""
    r = s64_to_f64_rn(x)
    return step_f64_rp(r, _error_s64(x, r))


@lane
def u64_to_f64_rz(x):
    """uint64 to float64, toward zero."""
    r = u64_to_f64_rn(x)
    return step_f64_rz(r, _error_u64(x, r))


@lane
def u64_to_f64_rm(x):
    """uint64 to float64, toward minus infinity."""
    r = u64_to_f64_rn(x)
    return step_f64_rm(r, _error_u64(x, r))


@lane
def u64_to_f64_rp(x):
    """uint64 to float64, toward plus infinity."""
    r = u64_to_f64_rn(x)
    return step_f64_rp(r, _error_u64(x, r))


# --------------------------------------------------------------------------------------------------------- to 16 bits


@lane
def f32_to_f16_rn(x):
    """float32 to f16, to nearest even; overflow to infinity, NaN 0x7FFF."""
    return f32_to_f16_bits_rn(x) if x == x else _NAN16


@lane
def f32_to_f16_rz(x):
    """float32 to f16, toward zero; overflow to the largest finite value."""
    u = f32_to_f16_bits_rn(x)
    stepped = np.uint16(u - np.uint16(abs(f16_bits_to_f32(u)) > abs(x)))
    return stepped if x == x else _NAN16


@lane
def f32_to_f16_rm(x):
    """float32 to f16, toward minus infinity."""
    u = f32_to_f16_bits_rn(x)
    above = np.uint16(f16_bits_to_f32(u) > x)
    stepped = np.uint16(u + above) if u >= _SIGN16 else np.uint16(u - above)
    return stepped if x == x else _NAN16


@lane
def f32_to_f16_rp(x):
    """float32 to f16, toward plus infinity."""
    u = f32_to_f16_bits_rn(x)
    below = np.uint16(f16_bits_to_f32(u) < x)
    stepped = np.uint16(u - below) if u >= _SIGN16 else np.uint16(u + below)
    return stepped if x == x else _NAN16


@lane
def _f16_nan(x):
    """The f16 NaN that a float64 NaN becomes: sign and upper payload kept, quieted; only f64 sources keep a payload."""
    u = f64_bits(x)
    return np.uint16(((u >> np.uint64(48)) & np.uint64(0x8000)) | np.uint64(0x7E00) | ((u >> np.uint64(42)) & np.uint64(0x3FF)))


@lane
def _bf16_nan(x):
    """The bf16 NaN that a float64 NaN becomes."""
    u = f64_bits(x)
    return np.uint16(((u >> np.uint64(48)) & np.uint64(0x8000)) | np.uint64(0x7FC0) | ((u >> np.uint64(45)) & np.uint64(0x7F)))


@lane
def f64_to_f16_rn(x):
    """float64 to f16 in one rounding, to nearest even."""
    return f32_to_f16_rn(f64_to_f32_odd(x)) if x == x else _f16_nan(x)


@lane
def f64_to_f16_rz(x):
    """float64 to f16 in one rounding, toward zero."""
    return f32_to_f16_rz(f64_to_f32_odd(x)) if x == x else _f16_nan(x)


@lane
def f64_to_f16_rm(x):
    """float64 to f16 in one rounding, toward minus infinity."""
    return f32_to_f16_rm(f64_to_f32_odd(x)) if x == x else _f16_nan(x)


@lane
def f64_to_f16_rp(x):
    """float64 to f16 in one rounding, toward plus infinity."""
    return f32_to_f16_rp(f64_to_f32_odd(x)) if x == x else _f16_nan(x)


@lane
def f32_to_bf16_rz(x):
    """float32 to bf16, toward zero: the high half."""
    return np.uint16(f32_bits(x) >> np.uint32(16)) if x == x else _NAN16


@lane
def f32_to_bf16_rm(x):
    """float32 to bf16, toward minus infinity."""
    u = f32_bits(x)
    away = np.uint32(((u & np.uint32(0xFFFF)) != np.uint32(0)) & (u >= np.uint32(0x80000000)))
    return np.uint16((u >> np.uint32(16)) + away) if x == x else _NAN16


@lane
def f32_to_bf16_rp(x):
    """float32 to bf16, toward plus infinity."""
    u = f32_bits(x)
    away = np.uint32(((u & np.uint32(0xFFFF)) != np.uint32(0)) & (u < np.uint32(0x80000000)))
    return np.uint16((u >> np.uint32(16)) + away) if x == x else _NAN16


@lane
def f64_to_bf16_rn(x):
    """float64 to bf16 in one rounding, to nearest even."""
    return f32_to_bf16_rn(f64_to_f32_odd(x)) if x == x else _bf16_nan(x)


@lane
def f64_to_bf16_rz(x):
    """float64 to bf16 in one rounding, toward zero."""
    return f32_to_bf16_rz(f64_to_f32_odd(x)) if x == x else _bf16_nan(x)


@lane
def f64_to_bf16_rm(x):
    """float64 to bf16 in one rounding, toward minus infinity."""
    return f32_to_bf16_rm(f64_to_f32_odd(x)) if x == x else _bf16_nan(x)


@lane
def f64_to_bf16_rp(x):
    """float64 to bf16 in one rounding, toward plus infinity."""
    return f32_to_bf16_rp(f64_to_f32_odd(x)) if x == x else _bf16_nan(x)


@lane
def satfinite_f16(u):
    """``.satfinite`` on an f16 result: infinity becomes the largest finite value of its sign; NaN stays 0x7FFF."""
    return np.uint16(u - np.uint16(1)) if np.uint16(u & np.uint16(0x7FFF)) == np.uint16(0x7C00) else u


@lane
def satfinite_bf16(u):
    """``.satfinite`` on a bf16 result."""
    return np.uint16(u - np.uint16(1)) if np.uint16(u & np.uint16(0x7FFF)) == np.uint16(0x7F80) else u


# --------------------------------------------------------------------------------------------------------------- tf32


@lane
def f32_to_tf32_rna(x):
    """float32 to tf32 (uint32), ties away from zero. A NaN of small payload becomes infinity."""
    u = f32_bits(x)
    finite = (u & np.uint32(0x7F800000)) != np.uint32(0x7F800000)
    return np.uint32((u + (np.uint32(0x1000) if finite else np.uint32(0))) & np.uint32(0xFFFFE000))


@lane
def f32_to_tf32_rn(x):
    """float32 to tf32 (uint32), to nearest even; NaN 0x7FFFE000."""
    u = f32_bits(x)
    rounded = (u + np.uint32(0xFFF) + ((u >> np.uint32(13)) & np.uint32(1))) & np.uint32(0xFFFFE000)
    return np.uint32(rounded) if x == x else np.uint32(0x7FFFE000)


@lane
def f32_to_tf32_rz(x):
    """float32 to tf32 (uint32), toward zero; NaN 0x7FFFE000."""
    return np.uint32(f32_bits(x) & np.uint32(0xFFFFE000)) if x == x else np.uint32(0x7FFFE000)


@lane
def satfinite_tf32(u):
    """``.satfinite`` of ``cvt.rna.tf32``: at exponent 255 subtract 0x2000, so infinity becomes the largest finite."""
    top = (u & np.uint32(0x7F800000)) == np.uint32(0x7F800000)
    return np.uint32(u - (np.uint32(0x2000) if top else np.uint32(0)))
