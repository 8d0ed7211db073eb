"""Multiply-adds that take zero for what a tensor copy filled in: ``fma.oob`` (PTX ISA 9.7.4.4).

The text says that a result is zero if an operand is "OOB-NaN" and not which bits that is. On an H200 (driver 580.159.04; all
65,536 values of each operand) it is 0x7ff7 or 0xfff7, in f16 and bf16 alike, of ``a`` or ``b``; the result is +0 then, whatever
``c`` is.
"""

from __future__ import annotations

import numpy as np

from isa.arith.bfloat16 import fma_bf16
from isa.arith.float16 import fma_f16
from isa.arith.lane import lane
from isa.arith.packed import high, low, pack
from isa.instructions.half import RELU, SAT
from isa.spec import flag, instruction


@lane
def is_filled(u):
    """Whether a half is the NaN that stands for an element outside the tensor."""
    return np.uint16(u & np.uint16(0x7FFF)) == np.uint16(0x7FF7)


@lane
def fma_oob_f16(a, b, c):
    """``fma.rn.oob.f16``."""
    return np.uint16(0) if is_filled(a) or is_filled(b) else fma_f16(a, b, c)


@lane
def fma_oob_bf16(a, b, c):
    """``fma.rn.oob.bf16``."""
    return np.uint16(0) if is_filled(a) or is_filled(b) else fma_bf16(a, b, c)


@lane
def fma_oob_f16x2(a, b, c):
    """``fma.rn.oob.f16x2``: each half alone."""
    return pack(fma_oob_f16(low(a), low(b), low(c)), fma_oob_f16(high(a), high(b), high(c)))


@lane
def fma_oob_bf16x2(a, b, c):
    """``fma.rn.oob.bf16x2``: each half alone."""
    return pack(fma_oob_bf16(low(a), low(b), low(c)), fma_oob_bf16(high(a), high(b), high(c)))


FMA_OOB = {"f16": fma_oob_f16, "bf16": fma_oob_bf16, "f16x2": fma_oob_f16x2, "bf16x2": fma_oob_bf16x2}


@instruction(
    "fma.rn.oob{relu}.{t} d, a, b, c",
    timing="half",
    section="9.7.4.4",
    sm=90,
    ptx="8.1",
    relu=flag("relu"),
    t=tuple(FMA_OOB),
)
def fma_oob(a, b, c, *, relu, t):
    """``a * b + c`` with one rounding, or +0 where ``a`` or ``b`` is the NaN that tensor copies fill in. ``.relu`` turns
    negative results into 0."""
    r = FMA_OOB[t](a, b, c)
    return RELU[t](r) if relu else r


@instruction("fma.rn.oob.sat.{t} d, a, b, c", timing="half", section="9.7.4.4", sm=90, ptx="8.1", t=("f16", "f16x2"))
def fma_oob_saturated(a, b, c, *, t):
    """``a * b + c`` with one rounding, limited to [0, 1]; 0 where ``a`` or ``b`` is the NaN that tensor copies fill in."""
    return SAT[t](FMA_OOB[t](a, b, c))
