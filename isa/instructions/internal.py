"""Instructions that no PTX text contains: what ptxas makes of several PTX instructions where PTX has no name for the result.

:mod:`isa.lower` puts them into programs. Their names cannot be PTX, whose opcodes have no underscores.
"""

from __future__ import annotations

import numpy as np

from isa.arith import bfloat16, float16, float32
from isa.arith.float32 import canon_f32, copysign_f32, fma_f32_rn, fma_ftz_f32_rn, ftz_f32, neg_f32, sat_f32
from isa.arith.float64 import fma_f64_rn, neg_f64
from isa.arith.lane import lane
from isa.arith.mufu import mufu_rcp
from isa.arith.pair_f32 import high_f32, low_f32, pack_f32
from isa.arith.rounding import f64_to_f32_rn
from isa.instructions.tables import ROUNDINGS, by_rounding, function_of
from isa.spec import flag, instruction

_NOTE = "Internal: made by contraction of a multiplication and an addition; not PTX."
_F16, _BF16 = ("f16", "f16x2"), ("bf16", "bf16x2")

FMA = {t: function_of(float16 if t in _F16 else bfloat16, f"fma_{t}") for t in _F16 + _BF16}
FMA_FTZ = {t: function_of(float16, f"fma_ftz_{t}") for t in _F16}
NEG = {t: function_of(float16 if t in _F16 else bfloat16, f"neg_{t}") for t in _F16 + _BF16}
SAT = {t: function_of(float16, f"sat_{t}") for t in _F16}
SINGLE, SINGLE_FTZ = by_rounding(float32, "fma_f32"), by_rounding(float32, "fma_ftz_f32")


# ------------------------------------------------------------------------------------------------------ contraction


@instruction(
    "fused_multiply_add{minus_product}{minus_addend}{ftz}{sat}.f32 d, a, b, c",
    timing="fma",
    section="9.7.3.6",
    note=_NOTE,
    minus_product=flag("minus_product"),
    minus_addend=flag("minus_addend"),
    ftz=flag("ftz"),
    sat=flag("sat"),
)
def fused_single(a, b, c, *, minus_product, minus_addend, ftz, sat):
    """``+-(a * b) +- c`` with one rounding, to nearest even."""
    if minus_product:
        a = neg_f32(a)
    if minus_addend:
        c = neg_f32(c)
    r = fma_ftz_f32_rn(a, b, c) if ftz else fma_f32_rn(a, b, c)
    return sat_f32(r) if sat else r


@instruction(
    "fused_multiply_add{minus_product}{minus_addend}.{rnd}{ftz}.f32x2 d, a, b, c",
    timing="fma",
    section="9.7.3.6",
    note=_NOTE,
    minus_product=flag("minus_product"),
    minus_addend=flag("minus_addend"),
    rnd=ROUNDINGS,
    ftz=flag("ftz"),
)
def fused_pair(a, b, c, *, minus_product, minus_addend, rnd, ftz):
    """``+-(a * b) +- c`` of both elements, each with one rounding."""
    a0, a1, b0, b1, c0, c1 = low_f32(a), high_f32(a), low_f32(b), high_f32(b), low_f32(c), high_f32(c)
    if minus_product:
        a0, a1 = neg_f32(a0), neg_f32(a1)
    if minus_addend:
        c0, c1 = neg_f32(c0), neg_f32(c1)
    if ftz:
        return pack_f32(SINGLE_FTZ[rnd](a0, b0, c0), SINGLE_FTZ[rnd](a1, b1, c1))
    return pack_f32(SINGLE[rnd](a0, b0, c0), SINGLE[rnd](a1, b1, c1))


@instruction(
    "fused_multiply_add{minus_product}{minus_addend}.f64 d, a, b, c",
    timing="fp64",
    section="9.7.3.6",
    note=_NOTE,
    minus_product=flag("minus_product"),
    minus_addend=flag("minus_addend"),
)
def fused_double(a, b, c, *, minus_product, minus_addend):
    """``+-(a * b) +- c`` with one rounding, to nearest even."""
    if minus_product:
        a = neg_f64(a)
    if minus_addend:
        c = neg_f64(c)
    return fma_f64_rn(a, b, c)


@instruction(
    "fused_multiply_add{minus_product}{minus_addend}{ftz}{sat}.{t} d, a, b, c",
    timing="half",
    section="9.7.4.4",
    note=_NOTE,
    minus_product=flag("minus_product"),
    minus_addend=flag("minus_addend"),
    ftz=flag("ftz"),
    sat=flag("sat"),
    t=_F16,
)
def fused_f16(a, b, c, *, minus_product, minus_addend, ftz, sat, t):
    """``+-(a * b) +- c`` with one rounding, to nearest even."""
    if minus_product:
        a = NEG[t](a)
    if minus_addend:
        c = NEG[t](c)
    r = FMA_FTZ[t](a, b, c) if ftz else FMA[t](a, b, c)
    return SAT[t](r) if sat else r


@instruction(
    "fused_multiply_add{minus_product}{minus_addend}.{t} d, a, b, c",
    timing="half",
    section="9.7.4.4",
    note=_NOTE,
    minus_product=flag("minus_product"),
    minus_addend=flag("minus_addend"),
    t=_BF16,
)
def fused_bf16(a, b, c, *, minus_product, minus_addend, t):
    """``+-(a * b) +- c`` with one rounding, to nearest even."""
    if minus_product:
        a = NEG[t](a)
    if minus_addend:
        c = NEG[t](c)
    return FMA[t](a, b, c)


# ----------------------------------------------------------------------------------------------------------- scaling

LEAST_NORMAL = 2.0**-126
SCALE = {"m2": 2.0, "m4": 4.0, "m8": 8.0, "d2": 0.5, "d4": 0.25, "d8": 0.125}


@instruction(
    "mul_scaled.{scale}{ftz}{sat}.f32 d, a, b",
    timing="fma",
    section="9.7.3.5",
    note="Internal: a product and its multiplication by a power of two (FMUL.M2 and so on); not PTX.",
    scale=tuple(SCALE),
    ftz=flag("ftz"),
    sat=flag("sat"),
)
def mul_scaled(a, b, *, scale, ftz, sat):
    """``a * b`` times a power of two (``m2`` to ``m8``: 2 to 8, ``d2`` to ``d8``: 1/2 to 1/8), rounded once."""
    if ftz:
        a, b = ftz_f32(a), ftz_f32(b)
    # The product of two float32 is exact in float64, and so is its scaling. Whether it is flushed is decided before it is
    # rounded (seen on an H200).
    exact = np.float64(a) * np.float64(b) * SCALE[scale]
    r = canon_f32(f64_to_f32_rn(exact))
    if ftz and abs(exact) < LEAST_NORMAL:
        r = copysign_f32(r, np.float32(0.0))
    return sat_f32(r) if sat else r


# ---------------------------------------------------------------------------------------------- approximate division


@lane
def division_scale(x, tiny, huge):
    """What operands are multiplied by so that a reciprocal neither overflows nor vanishes: 2^24 for subnormals if ``tiny``, a
    quarter above 2^126 if ``huge``, else 1."""
    magnitude = abs(x)
    k = np.float32(0.25) if huge and magnitude > np.float32(2.0**126) else np.float32(1.0)
    return np.float32(2.0**24) if tiny and magnitude < np.float32(2.0**-126) else k


def _division_timing(params):
    return f"div.{params['kind']}.ftz" if params["ftz"] else f"div.{params['kind']}"


@instruction(
    "div_factors.{kind}{ftz}.f32 d, d2, a, b",
    timing=_division_timing,
    section="9.7.3.8",
    note="Internal: an approximate division without its last multiplication, which was contracted; not PTX.",
    kind=("approx", "full"),
    ftz=flag("ftz"),
)
def div_factors(a, b, *, kind, ftz):
    """The two numbers whose product is ``div.approx`` or ``div.full`` of ``a`` and ``b``: the reciprocal, and ``a`` scaled.

    With ``ftz`` it is the scaling that flushes ``a``, so where there is none that is left to the product.
    """
    k = division_scale(b, not ftz, kind == "full")
    scaled = ftz_f32(ftz_f32(a) * k) if ftz and k != np.float32(1.0) else a * k
    return mufu_rcp(b * k), scaled


@instruction(
    "rcp_factors.approx.f32 d, d2, a",
    timing="rcp.approx",
    section="9.7.3.13",
    note="Internal: an approximate reciprocal without its last multiplication, which was contracted; not PTX.",
)
def rcp_factors(a):
    """The two numbers whose product is ``rcp.approx``: the scale, and the reciprocal of ``a`` scaled."""
    k = division_scale(a, True, True)
    return k, mufu_rcp(k * a)
