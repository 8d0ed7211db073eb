"""Half precision: f16 and, with ``.BF16_V2``, bf16, two at a time. A pair does each half alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from isa.arith import bfloat16, float16
from isa.arith.bfloat16 import bf16_to_f32
from isa.arith.float32 import add_f32_rn, sat_f32
from isa.arith.packed import high, low, pack
from isa.arith.primitives import f16_bits_to_f32
from isa.instructions.comparison import comparable_f16, flushed_f16
from isa.instructions.oob import FMA_OOB
from isa.instructions.tables import function_of
from isa.sass.instructions.floating import BOOLEAN, CMP, COMPARE
from isa.sass.instructions.integer import COMBINE
from isa.sass.registry import machine
from isa.spec import flag, optional

_BF = optional("BF16_V2")
_MODULES: dict[str, Any] = {"": (float16, "f16x2"), "BF16_V2": (bfloat16, "bf16x2")}


def _pairs(stem, kinds=("", "BF16_V2")):
    """``stem_f16x2`` and ``stem_bf16x2``."""
    return {kind: function_of(_MODULES[kind][0], f"{stem}_{_MODULES[kind][1]}") for kind in kinds}


ADD, MUL, FMA, RELU, CANON = (_pairs(op) for op in ("add", "mul", "fma", "relu", "canon"))
OOB = {"": FMA_OOB["f16x2"], "BF16_V2": FMA_OOB["bf16x2"]}
FTZ, SAT, MUL_FTZ, FMA_FTZ = (_pairs(op, ("",)) for op in ("ftz", "sat", "mul_ftz", "fma_ftz"))


def _halves(params):
    """Types of the packed operands."""
    kind = "bf16x2" if params.get("bf") else "f16x2"
    return dict.fromkeys("dabc", (kind, 1))


def _packed(template, **slots):
    return machine(template, pipe="fma", operands=_halves, bf=_BF, ftz=flag("FTZ"), **slots)


@_packed("HADD2{bf}{ftz}{sat} d, a, b", sat=flag("SAT"))
def hadd2(a, b, *, bf, ftz, sat):
    """Add two pairs."""
    if ftz:
        a, b = FTZ[bf](a), FTZ[bf](b)
    r = ADD[bf](a, b)
    if ftz:
        r = FTZ[bf](r)
    return SAT[bf](r) if sat else r


@machine("HADD2.F32{sat} d:f32, a:f16x2, b:f16x2", pipe="fma", sat=flag("SAT"))
def hadd2_single(a, b, *, sat):
    """Add one half of each as float32: how a half is converted."""
    r = add_f32_rn(f16_bits_to_f32(low(a)), f16_bits_to_f32(low(b)))
    return sat_f32(r) if sat else r


@_packed("HMUL2{bf}{ftz}{sat} d, a, b", sat=flag("SAT"))
def hmul2(a, b, *, bf, ftz, sat):
    """Multiply two pairs."""
    r = MUL_FTZ[bf](a, b) if ftz else MUL[bf](a, b)
    return SAT[bf](r) if sat else r


@_packed("HFMA2{mma}{bf}{ftz}{sat}{relu} d, a, b, c", mma=flag("MMA"), sat=flag("SAT"), relu=flag("RELU"))
def hfma2(a, b, c, *, bf, ftz, sat, relu):
    """``a * b + c`` of pairs, rounded once. With zero factors it moves a constant."""
    r = FMA_FTZ[bf](a, b, c) if ftz else FMA[bf](a, b, c)
    if relu:
        r = RELU[bf](r)
    return SAT[bf](r) if sat else r


@machine("HFMA2{bf}.OOB{sat}{relu} d, a, b, c", pipe="fma", operands=_halves, bf=_BF, sat=flag("SAT"), relu=flag("RELU"))
def hfma2_oob(a, b, c, *, bf, sat, relu):
    """``a * b + c`` of pairs, rounded once; +0 where ``a`` or ``b`` is what tensor copies fill in."""
    r = OOB[bf](a, b, c)
    if relu:
        r = RELU[bf](r)
    return SAT[bf](r) if sat else r


MIN = {(nan, kind): f for nan in (False, True) for kind, f in _pairs(f"min{'_nan' if nan else ''}").items()}
MAX = {(nan, kind): f for nan in (False, True) for kind, f in _pairs(f"max{'_nan' if nan else ''}").items()}
MIN_XS = {(nan, kind): f for nan in (False, True) for kind, f in _pairs(f"min{'_nan' if nan else ''}_xorsign").items()}
MAX_XS = {(nan, kind): f for nan in (False, True) for kind, f in _pairs(f"max{'_nan' if nan else ''}_xorsign").items()}


@_packed("HMNMX2{bf}{ftz}{nan}{xorsign} d, a, b, e:pred", nan=flag("NAN"), xorsign=flag("XORSIGN"))
def hmnmx2(a, b, e, *, bf, ftz, nan, xorsign):
    """The lesser of each pair of halves where ``e`` holds, else the greater."""
    if ftz:
        a, b = FTZ[bf](a), FTZ[bf](b)
    if xorsign:
        return MIN_XS[nan, bf](a, b) if e else MAX_XS[nan, bf](a, b)
    return MIN[nan, bf](a, b) if e else MAX[nan, bf](a, b)


@_packed("VHMNMX{bf}{ftz}{nan} d, a, b, c, e:pred", nan=flag("NAN"))
def vhmnmx(a, b, c, e, *, bf, ftz, nan):
    """The least of three halves where ``e`` holds, else the greatest."""
    if ftz:
        a, b, c = FTZ[bf](a), FTZ[bf](b), FTZ[bf](c)
    return MIN[nan, bf](MIN[nan, bf](a, b), c) if e else MAX[nan, bf](MAX[nan, bf](a, b), c)


VALUE = {("", False): comparable_f16, ("", True): flushed_f16, ("BF16_V2", False): bf16_to_f32}


@_packed("HSETP2{bf}.{cmp}{ftz}.{op} p, q, a, b, e:pred", cmp=CMP, op=BOOLEAN)
def hsetp2(a, b, e, *, bf, ftz, cmp, op):
    """Compare two pairs, combine both outcomes with ``e``: the low halves' into ``p``, the high halves' into ``q``."""
    first = COMPARE[cmp](VALUE[bf, ftz](low(a)), VALUE[bf, ftz](low(b)))
    second = COMPARE[cmp](VALUE[bf, ftz](high(a)), VALUE[bf, ftz](high(b)))
    return COMBINE[op](first, e), COMBINE[op](second, e)


TRUE = {(True, ""): 0x3C00, (True, "BF16_V2"): 0x3F80, (False, ""): 0xFFFF, (False, "BF16_V2"): 0xFFFF}


@_packed("HSET2{bf}{bool}.{cmp}{ftz}.{op} d, a, b, e:pred", cmp=CMP, op=BOOLEAN, bool=flag("BF"))
def hset2(a, b, e, *, bf, bool, ftz, cmp, op):
    """Compare two pairs; write all ones, or with ``.BF`` 1.0, to each half where it holds."""
    first = COMBINE[op](COMPARE[cmp](VALUE[bf, ftz](low(a)), VALUE[bf, ftz](low(b))), e)
    second = COMBINE[op](COMPARE[cmp](VALUE[bf, ftz](high(a)), VALUE[bf, ftz](high(b))), e)
    return pack(np.uint16(TRUE[bool, bf] if first else 0), np.uint16(TRUE[bool, bf] if second else 0))
