"""Conversions between different floating-point types (PTX ISA 9.7.9.21, ``cvt``): wider is exact, narrower rounds
once."""

from __future__ import annotations

import numpy as np

from isa.arith.bfloat16 import bf16_to_f32, relu_bf16
from isa.arith.convert import satfinite_bf16, satfinite_f16
from isa.arith.float16 import relu_f16
from isa.arith.float32 import canon_f32
from isa.arith.lane import lane
from isa.arith.primitives import bits_f32, f16_bits_to_f32, f32_bits
from isa.instructions.convert import NARROW, SAT, VALUE, conversion, flushed_f32
from isa.instructions.tables import ROUNDINGS
from isa.spec import flag, optional

# ------------------------------------------------------------------------------------------------------------ wider


@conversion("cvt{ftz}{sat}.f32.f16 d:f32, a", ftz=flag("ftz"), sat=flag("sat"))
def f16_to_f32(a, *, sat):
    """The same value as f32; NaN becomes 0x7fffffff. ``.sat`` clamps to [0, 1]; ``.ftz`` changes nothing, as no f16 is
    subnormal in f32."""
    r = canon_f32(f16_bits_to_f32(a))
    return SAT["f32"](r) if sat else r


@conversion("cvt{sat}.f64.f16 d:f64, a", sat=flag("sat"))
def f16_to_f64(a, *, sat):
    """The same value as f64. ``.sat`` clamps to [0, 1]."""
    r = np.float64(f16_bits_to_f32(a))
    return SAT["f64"](r) if sat else r


@conversion("cvt{ftz}{sat}.f64.f32 d:f64, a", ftz=flag("ftz"), sat=flag("sat"))
def f32_to_f64(a, *, ftz, sat):
    """The same value as f64. ``.sat`` clamps to [0, 1], ``.ftz`` takes subnormals as zero."""
    r = np.float64(VALUE["f32", ftz](a))
    return SAT["f64"](r) if sat else r


@conversion("cvt{rnd}.f32.bf16 d:f32, a", timing=lambda p: "alu", sm=80, ptx="7.1", rnd=optional(*ROUNDINGS))
def bf16_to_f32_exact(a):
    """The same value as f32: the bits moved up, of NaN too. A rounding modifier changes nothing."""
    return bf16_to_f32(a)


@conversion("cvt{rnd}.ftz.f32.bf16 d:f32, a", sm=90, ptx="7.8", rnd=optional(*ROUNDINGS))
def bf16_to_f32_flushed(a):
    """The same value as f32, subnormals as zero and NaN as 0x7fffffff. A rounding modifier changes nothing."""
    return flushed_f32(bf16_to_f32(a))


@conversion("cvt{rnd}.f64.bf16 d:f64, a", sm=90, ptx="7.8", rnd=optional(*ROUNDINGS))
def bf16_to_f64(a):
    """The same value as f64. A rounding modifier changes nothing."""
    return np.float64(bf16_to_f32(a))


# --------------------------------------------------------------------------------------------------------- narrower

# ``cvt.ftz.f32.f64`` flushes what is below the least normal number *after* rounding to 24 bits. These thresholds are in
# the code that ptxas 13.0 emits, to nearest and away from zero.
_LEAST_NORMAL = 2.0**-126
_BELOW_NEAREST = 2.0**-126 * (1 - 2.0**-25)  # rounds up to the least normal number, ties to even
_BELOW_AWAY = 2.0**-126 * (1 - 2.0**-24)  # the greatest that does not


@lane
def tiny_rn(x):
    """Whether a float64 is subnormal when rounded to nearest."""
    return abs(x) < _BELOW_NEAREST


@lane
def tiny_rz(x):
    """Whether a float64 is subnormal when rounded toward zero."""
    return abs(x) < _LEAST_NORMAL


@lane
def tiny_rm(x):
    """Whether a float64 is subnormal when rounded down."""
    return abs(x) <= _BELOW_AWAY if x < 0.0 else x < _LEAST_NORMAL


@lane
def tiny_rp(x):
    """Whether a float64 is subnormal when rounded up."""
    return x <= _BELOW_AWAY if x > 0.0 else x > -_LEAST_NORMAL


TINY = {"rn": tiny_rn, "rz": tiny_rz, "rm": tiny_rm, "rp": tiny_rp}


@conversion("cvt.{rnd}{ftz}{sat}.f32.f64 d:f32, a", rnd=ROUNDINGS, ftz=flag("ftz"), sat=flag("sat"))
def f64_to_f32(a, *, rnd, ftz, sat):
    """Round to f32; NaN keeps its sign and the top of its payload. ``.sat`` clamps to [0, 1], ``.ftz`` flushes
    subnormal results to zero."""
    r = NARROW["f64", "f32", rnd](a)
    if ftz:
        r = bits_f32(f32_bits(r) & np.uint32(0x80000000)) if TINY[rnd](a) else r
    return SAT["f32"](r) if sat else r


@conversion("cvt.{rnd}{sat}.f16.f64 d:f16, a", rnd=ROUNDINGS, sat=flag("sat"))
def f64_to_f16(a, *, rnd, sat):
    """Round to f16; NaN becomes 0x7fff. ``.sat`` clamps to [0, 1]."""
    r = NARROW["f64", "f16", rnd](a)
    return SAT["f16"](r) if sat else r


@conversion("cvt.{rnd}{ftz}{sat}.f16.f32 d:f16, a", rnd=ROUNDINGS, ftz=flag("ftz"), sat=flag("sat"))
def f32_to_f16(a, *, rnd, sat):
    """Round to f16; NaN becomes 0x7fff. ``.sat`` clamps to [0, 1]. ``.ftz`` changes nothing: ptxas drops it, and rounded up, a
    subnormal is not zero."""
    r = NARROW["f32", "f16", rnd](a)
    return SAT["f16"](r) if sat else r


@conversion("cvt.{rnd}.satfinite.f16.f32 d:f16, a", sm=75, ptx="8.1", rnd=("rn", "rz"))
def f32_to_f16_finite(a, *, rnd):
    """Round to f16; infinity and beyond become the largest finite value, NaN 0x7fff."""
    return satfinite_f16(NARROW["f32", "f16", rnd](a))


@conversion("cvt.{rnd}.relu{satfinite}.f16.f32 d:f16, a", sm=80, ptx="7.0", rnd=("rn", "rz"), satfinite=flag("satfinite"))
def f32_to_f16_relu(a, *, rnd, satfinite):
    """Round to f16; negative results become 0, NaN 0x7fff. ``.satfinite`` turns infinity into the largest finite
    value."""
    r = NARROW["f32", "f16", rnd](a)
    return relu_f16(satfinite_f16(r) if satfinite else r)


@conversion("cvt.{rnd}{ftz}.bf16.f32 d:bf16, a", sm=80, ptx="7.0", rnd=ROUNDINGS, ftz=flag("ftz"))
def f32_to_bf16(a, *, rnd, ftz):
    """Round to bf16; NaN becomes 0x7fff. ``.ftz`` takes subnormal operands as zero."""
    return NARROW["f32", "bf16", rnd](VALUE["f32", ftz](a))


def _limits_something(params):
    if not params["relu"] and not params["satfinite"]:
        return "another form of cvt covers this one"
    return None


@conversion(
    "cvt.{rnd}{relu}{satfinite}.bf16.f32 d:bf16, a",
    sm=80,
    ptx="7.0",
    rnd=("rn", "rz"),
    relu=flag("relu"),
    satfinite=flag("satfinite"),
    valid=_limits_something,
)
def f32_to_bf16_limited(a, *, rnd, relu, satfinite):
    """Round to bf16; NaN becomes 0x7fff. ``.satfinite`` turns infinity into the largest finite value, ``.relu``
    negative results into 0."""
    r = NARROW["f32", "bf16", rnd](a)
    if satfinite:
        r = satfinite_bf16(r)
    return relu_bf16(r) if relu else r


@conversion("cvt.{rnd}.bf16.f64 d:bf16, a", sm=90, ptx="7.8", rnd=ROUNDINGS)
def f64_to_bf16(a, *, rnd):
    """Round to bf16."""
    return NARROW["f64", "bf16", rnd](a)


@conversion("cvt{rnd}.bf16.f16 d:bf16, a", sm=90, ptx="7.8", rnd=optional(*ROUNDINGS))
def f16_to_bf16(a, *, rnd):
    """Round to bf16, to nearest even unless written otherwise; NaN becomes 0x7fff."""
    return NARROW["f32", "bf16", rnd](f16_bits_to_f32(a))


@conversion("cvt{rnd}.f16.bf16 d:f16, a", sm=90, ptx="7.8", rnd=optional(*ROUNDINGS))
def bf16_to_f16(a, *, rnd):
    """Round to f16, to nearest even unless written otherwise; NaN becomes 0x7fff."""
    return NARROW["f32", "f16", rnd](bf16_to_f32(a))
