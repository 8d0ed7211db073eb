"""Conversions between the standard types and bf16 (PTX ISA 9.7.9.21, ``cvt``); the packed ones are in
:mod:`isa.instructions.convert_packed`.

The two types of ``cvt`` are ordered: result, then operand. Registers may be wider than the types (PTX ISA 9.4.1): the
low bits of an operand count, and a result is extended as the sign of its type says.

A conversion is put together from steps: widen a half to float32, round to an integral value or narrow, apply the
modifiers of the result. All steps but one are exact, or rounded to odd (:mod:`isa.arith.rounding`), so there is one
rounding.
"""

from __future__ import annotations

import numpy as np

from isa.arith import convert, rounding
from isa.arith.bfloat16 import bf16_to_f32, canon_bf16
from isa.arith.convert import (
    clamp_s64,
    clamp_u64,
    float_to_int,
    float_to_s64,
    float_to_u64,
    s64_to_f64_odd,
    u64_to_f64_odd,
)
from isa.arith.float16 import canon_f16, sat_f16
from isa.arith.float32 import canon_f32, ftz_f32, sat_f32
from isa.arith.float64 import nan_f64, sat_f64
from isa.arith.lane import lane
from isa.arith.primitives import f16_bits_to_f32
from isa.instructions.tables import ROUNDINGS, Table, by_rounding
from isa.spec import flag, instruction

_INTEGERS = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")
_FLOATS = ("f16", "f32", "f64")
_INTEGRAL = ("rni", "rzi", "rmi", "rpi")


def _class(params):
    """Conversions to and from 64 bits have a lower rate than the others."""
    return "convert.64" if "64" in f"{params.get('dtype', '')}{params.get('t', '')}" else "convert"


def conversion(template, *, timing=_class, **options):
    """Register a form of ``cvt``."""
    return instruction(template, section="9.7.9.21", relaxed=("d", "a"), timing=timing, **options)


# ------------------------------------------------------------------------------------------- integers to integers


def _limits(t):
    """Least and greatest value of an integer type."""
    bits = int(t[1:])
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if t[0] == "s" else (0, (1 << bits) - 1)


_LARGEST = (1 << 63) - 1
LEAST = {t: _limits(t)[0] for t in _INTEGERS}
GREATEST = {t: min(_limits(t)[1], _LARGEST) for t in _INTEGERS}


def _sat_narrows(params):
    least, greatest = _limits(params["dtype"])
    if params["sat"] and least <= _limits(params["t"])[0] and _limits(params["t"])[1] <= greatest:
        return f"cvt.sat changes nothing from .{params['t']} to .{params['dtype']} (PTX ISA 9.7.9.21)"
    return None


def _integer_class(params):
    """Extending and cutting is work of the integer units; between 32 and 64 bits a register is added or left out."""
    if params["sat"]:
        return "cvt.sat.64" if "64" in f"{params['dtype']}{params['t']}" else "cvt.sat"
    return "mov" if int(params["t"][1:]) >= 32 and int(params["dtype"][1:]) >= 32 else "alu"


@conversion(
    "cvt{sat}.{dtype}.{t} d:dtype, a",
    timing=_integer_class,
    sat=flag("sat"),
    dtype=_INTEGERS,
    t=_INTEGERS,
    valid=_sat_narrows,
)
def cvt_integer(a, *, sat, dtype, t):
    """Extend or cut an integer. ``.sat`` clamps to the range of the result instead of cutting bits off."""
    if sat and t == "u64":
        return clamp_u64(a, GREATEST[dtype])
    if sat:
        return clamp_s64(np.int64(a), LEAST[dtype], GREATEST[dtype])
    return a


# ----------------------------------------------------------------------------------------------- floats to integers


@lane
def flushed_f32(x):
    """A float32 with ``.ftz``: subnormals are zero, NaN is canonical."""
    return canon_f32(ftz_f32(x))


INTEGRAL = {mode: getattr(convert, mode) for mode in _INTEGRAL}
# An operand as a float to compute with: (type, .ftz) -> function.
VALUE = {
    ("f16", False): f16_bits_to_f32,
    ("bf16", False): bf16_to_f32,
    ("f32", False): np.float32,
    ("f32", True): flushed_f32,
    ("f64", False): np.float64,
}
# What NaN becomes: 0, but from f64 the sign bit alone. (For 64-bit results see isa.arith.convert.float_to_s64.)
NAN = {(t, dtype): 1 << (int(dtype[1:]) - 1) if t == "f64" else 0 for t in (*_FLOATS, "bf16") for dtype in _INTEGERS}


def _flushes_f32(params):
    return ".ftz needs an .f32 operand (PTX ISA 9.7.9.21)" if params["ftz"] and params["t"] != "f32" else None


@conversion(
    "cvt.{rnd}{ftz}{sat}.{dtype}.{t} d:dtype, a",
    rnd=_INTEGRAL,
    ftz=flag("ftz"),
    sat=flag("sat"),
    dtype=_INTEGERS,
    t=_FLOATS,
    valid=_flushes_f32,
)
def cvt_float_to_integer(a, *, rnd, ftz, dtype, t):
    """Round to an integer and clamp it to the range of the result, with or without ``.sat``. NaN gives 0, but from
    ``.f64`` or to 64 bits the number with only its sign bit set. ``.ftz`` takes subnormals as zero."""
    x = np.float64(INTEGRAL[rnd](VALUE[t, ftz](a)))
    if dtype == "s64":
        return float_to_s64(x)
    if dtype == "u64":
        return float_to_u64(x)
    return float_to_int(x, LEAST[dtype], GREATEST[dtype], NAN[t, dtype])


@conversion(
    "cvt.{rnd}.{dtype}.bf16 d:dtype, a",
    sm=90,
    ptx="7.8",
    rnd=_INTEGRAL,
    dtype=_INTEGERS,  # 8 bits into a .b8 register only
)
def cvt_bf16_to_integer(a, *, rnd, dtype):
    """Round to an integer and clamp it to the range of the result. NaN gives 0, in 64 bits the number with only its
    sign bit set."""
    x = np.float64(INTEGRAL[rnd](bf16_to_f32(a)))
    if dtype == "s64":
        return float_to_s64(x)
    if dtype == "u64":
        return float_to_u64(x)
    return float_to_int(x, LEAST[dtype], GREATEST[dtype], 0)


# ----------------------------------------------------------------------------------------------- integers to floats

# An integer as a float64: exact, or rounded to odd for a second rounding.
EXACT: Table = dict.fromkeys(_INTEGERS, np.float64) | {"s64": s64_to_f64_odd, "u64": u64_to_f64_odd}
# (from, to, rounding) -> function.
NARROW = {
    (source, target, mode): function
    for source, target, table in (
        ("s64", "f64", by_rounding(convert, "s64_to_f64")),
        ("u64", "f64", by_rounding(convert, "u64_to_f64")),
        ("f64", "f32", by_rounding(rounding, "f64_to_f32")),
        ("f64", "f16", by_rounding(convert, "f64_to_f16")),
        ("f64", "bf16", by_rounding(convert, "f64_to_bf16")),
        ("f32", "f16", by_rounding(convert, "f32_to_f16")),
        ("f32", "bf16", by_rounding(convert, "f32_to_bf16")),
    )
    for mode, function in table.items()
}
SAT = {"f16": sat_f16, "f32": sat_f32, "f64": sat_f64}


def _flushes_to_f32(params):
    return ".ftz needs an .f32 result (PTX ISA 9.7.9.21)" if params["ftz"] and params["dtype"] != "f32" else None


@conversion(
    "cvt.{rnd}{ftz}{sat}.{dtype}.{t} d:dtype, a",
    rnd=ROUNDINGS,
    ftz=flag("ftz"),
    sat=flag("sat"),
    dtype=_FLOATS,
    t=_INTEGERS,
    valid=_flushes_to_f32,
)
def cvt_integer_to_float(a, *, rnd, sat, dtype, t):
    """The float next to an integer in the direction of the rounding modifier. ``.sat`` clamps it to [0, 1]; ``.ftz``
    changes nothing."""
    if dtype == "f64":
        r = NARROW[t, dtype, rnd](a) if t in ("s64", "u64") else np.float64(a)
    else:
        r = NARROW["f64", dtype, rnd](EXACT[t](a))
    return SAT[dtype](r) if sat else r


@conversion("cvt.{rnd}.bf16.{t} d:bf16, a", sm=90, ptx="7.8", rnd=ROUNDINGS, t=("u16", "s16", "u32", "s32", "u64", "s64"))
def cvt_integer_to_bf16(a, *, rnd, t):
    """The bf16 next to an integer in the direction of the rounding modifier."""
    return NARROW["f64", "bf16", rnd](EXACT[t](a))


# -------------------------------------------------------------------------------------- floats to floats: the same type


@conversion("cvt.{rnd}{ftz}{sat}.f32.f32 d:f32, a", rnd=_INTEGRAL, ftz=flag("ftz"), sat=flag("sat"))
def round_f32(a, *, rnd, ftz, sat):
    """Round to an integral value, which stays a float. ``.sat`` clamps it to [0, 1], ``.ftz`` takes subnormals as
    zero."""
    r = canon_f32(INTEGRAL[rnd](VALUE["f32", ftz](a)))
    return sat_f32(r) if sat else r


@conversion("cvt.{rnd}{sat}.f16.f16 d:f16, a", rnd=_INTEGRAL, sat=flag("sat"))
def round_f16(a, *, rnd, sat):
    """Round to an integral value, which stays a float. ``.sat`` clamps it to [0, 1]."""
    r = NARROW["f32", "f16", "rn"](INTEGRAL[rnd](f16_bits_to_f32(a)))
    return sat_f16(r) if sat else r


@conversion("cvt.{rnd}{sat}.f64.f64 d:f64, a", rnd=_INTEGRAL, sat=flag("sat"))
def round_f64(a, *, rnd, sat):
    """Round to an integral value, which stays a float. ``.sat`` clamps it to [0, 1]."""
    r = nan_f64(a, a, a, INTEGRAL[rnd](a))
    return sat_f64(r) if sat else r


@conversion("cvt.{rnd}.bf16.bf16 d:bf16, a", sm=90, ptx="7.8", rnd=_INTEGRAL)
def round_bf16(a, *, rnd):
    """Round to an integral value, which stays a float."""
    return NARROW["f32", "bf16", "rn"](INTEGRAL[rnd](bf16_to_f32(a)))


def _copies(params):
    return "mov" if not params["ftz"] and not params["sat"] else "fma"


@conversion("cvt{ftz}{sat}.f32.f32 d:f32, a", timing=_copies, ftz=flag("ftz"), sat=flag("sat"))
def copy_f32(a, *, ftz, sat):
    """Copy; ``.sat`` clamps to [0, 1], ``.ftz`` flushes subnormals to zero."""
    r = VALUE["f32", ftz](a)
    return sat_f32(r) if sat else r


@conversion("cvt{sat}.f16.f16 d:f16, a", timing="half", sat=flag("sat"))
def copy_f16(a, *, sat):
    """Copy, NaN becoming 0x7fff; ``.sat`` clamps to [0, 1]."""
    return sat_f16(a) if sat else canon_f16(a)


@conversion("cvt{sat}.f64.f64 d:f64, a", timing=lambda p: "cvt.sat.f64" if p["sat"] else "mov", sat=flag("sat"))
def copy_f64(a, *, sat):
    """Copy; ``.sat`` clamps to [0, 1]."""
    return sat_f64(a) if sat else a


@conversion("cvt.bf16.bf16 d:bf16, a", timing="half", sm=90, ptx="7.8")
def copy_bf16(a):
    """Copy, NaN becoming 0x7fff."""
    return canon_bf16(a)
