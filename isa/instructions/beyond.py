"""What ptxas 13.0 accepts although the PTX ISA does not have it, computed as the machine code that it makes.

``fma`` of bf16 in other roundings than to nearest: one alone is assembled as if its operands were f16 (widened, multiplied and
added in f32 with the rounding, and rounded to f16 to nearest; ``.relu`` and ``.oob`` are dropped); a pair rounds to nearest
even, whatever is written. ``.sat`` clamps what ``addc`` and ``subc`` give, and is dropped from ``madc.hi``. An H200 agrees
(driver 580.159.04). ``testp`` without a test is accepted, too, and reads a predicate that nothing has written: it is not here.
"""

from __future__ import annotations

import numpy as np

from isa.arith.convert import f32_to_f16_rn
from isa.arith.integer import mul_hi_s32
from isa.arith.lane import lane
from isa.arith.primitives import f16_bits_to_f32
from isa.instructions.floating import FMA_F32
from isa.instructions.half import FMA, RELU
from isa.instructions.oob import FMA_OOB
from isa.spec import flag, instruction

_OTHER = ("rz", "rm", "rp")


@instruction(
    "fma.{rnd}{oob}{relu}.bf16 d, a, b, c",
    timing="half",
    section="9.7.4.4",
    sm=80,
    ptx="7.0",
    rnd=_OTHER,
    oob=flag("oob"),
    relu=flag("relu"),
)
def fma_of_bf16_as_f16(a, b, c, *, rnd):
    """``a * b + c`` of f16 operands, rounded to f32 as written and then to the nearest f16."""
    return f32_to_f16_rn(FMA_F32[rnd](f16_bits_to_f32(a), f16_bits_to_f32(b), f16_bits_to_f32(c)))


@instruction(
    "fma.{rnd}{oob}{relu}.bf16x2 d, a, b, c",
    timing="half",
    section="9.7.4.4",
    sm=80,
    ptx="7.0",
    rnd=_OTHER,
    oob=flag("oob"),
    relu=flag("relu"),
)
def fma_of_bf16x2_to_nearest(a, b, c, *, oob, relu):
    """``a * b + c`` with one rounding, to nearest even."""
    r = FMA_OOB["bf16x2"](a, b, c) if oob else FMA["bf16x2"](a, b, c)
    return RELU["bf16x2"](r) if relu else r


@lane
def _clamped(total):
    """A sum of 64 bits, limited to 32."""
    return np.int32(min(max(total, np.int64(-0x80000000)), np.int64(0x7FFFFFFF)))


@instruction("addc.sat.s32 d, a, b, carry:pred", hidden=("carry",), timing="alu", section="9.7.2.2", ptx="1.2")
def addc_sat(a, b, carry):
    """Add two integers and the carry flag; limited to the smallest and largest number."""
    return _clamped(np.int64(np.int32(a)) + np.int64(np.int32(b)) + np.int64(carry))


@instruction("subc.sat.s32 d, a, b, carry:pred", hidden=("carry",), timing="alu", section="9.7.2.4", ptx="1.2")
def subc_sat(a, b, carry):
    """Subtract ``b`` and the borrow of the instruction before from ``a``; limited to the smallest and largest number."""
    return _clamped(np.int64(np.int32(a)) - np.int64(np.int32(b)) - np.int64(not carry))


@instruction("madc.hi.sat.s32 d, a, b, c, carry:pred", hidden=("carry",), timing="imad.cc", section="9.7.2.6", ptx="3.0")
def madc_hi_sat(a, b, c, carry):
    """Add ``c`` and the carry flag to the upper half of a product: ptxas drops ``.sat``."""
    total = np.int64(mul_hi_s32(a, b)) + np.int64(np.int32(c)) + np.int64(carry)
    return np.uint32(total & np.int64(0xFFFFFFFF))
