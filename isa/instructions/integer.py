"""Integer arithmetic (PTX ISA 9.7.1). Results wrap unless ``.sat`` is written."""

from __future__ import annotations

import numpy as np

from isa.arith import bitfield, integer, packed_integer
from isa.arith.bitfield import fns as find_nth_set
from isa.arith.integer import (
    add_sat_s32,
    mad24_hi_sat_s32,
    mad_hi_sat_s32,
    max_int,
    min_int,
    relu_s32,
    sub_sat_s32,
)
from isa.arith.packed_integer import add_x2, relu_s16x2
from isa.instructions.tables import INTEGERS, UNSIGNED, by_type, class_of_width
from isa.spec import flag, instruction

_SIGNED = ("s16", "s32", "s64")
_NARROW = ("u16", "s16", "u32", "s32")
_WORDS = ("u32", "s32")
_WORDS_AND_PAIRS = ("u32", "s32", "u64", "s64")
_BITS = ("b32", "b64")

MUL_HI = by_type(integer, "mul_hi", INTEGERS)
MUL_WIDE = by_type(integer, "mul_wide", _NARROW)
MUL24 = {(part, t): getattr(integer, f"mul24_{part}_{t}") for part in ("lo", "hi") for t in _WORDS}
DIV = by_type(integer, "div", INTEGERS)
REM = by_type(integer, "rem", INTEGERS)
ABS = by_type(integer, "abs", _SIGNED)
EXTREME_X2 = {(op, t): getattr(packed_integer, f"{op}_{t}") for op in ("min", "max") for t in ("s16x2", "u16x2")}


def _saturates_s32(params):
    return ".sat is for .s32 only (PTX ISA 9.7.1)" if params["sat"] and params["t"] != "s32" else None


def _twice_as_wide(*names):
    """Operand types of the widening products: ``names`` have twice the bits of the sources."""
    return lambda params: {name: (f"{params['t'][0]}{2 * int(params['t'][1:])}", 1) for name in names}


# ------------------------------------------------------------------------------------------------ sums and products


@instruction(
    "add{sat}.{t} d, a, b",
    timing=class_of_width("alu"),
    section="9.7.1.1",
    sat=flag("sat"),
    t=INTEGERS,
    valid=_saturates_s32,
)
def add(a, b, *, sat, t):
    """Add. ``.sat`` clamps a signed 32-bit sum instead of wrapping."""
    return add_sat_s32(a, b) if sat else UNSIGNED[t](a) + UNSIGNED[t](b)


@instruction("add.{t} d, a, b", timing="alu", section="9.7.1.1", sm=90, ptx="8.0", t=("u16x2", "s16x2"))
def add_pairs(a, b):
    """Add two pairs of 16-bit integers, half by half, wrapping."""
    return add_x2(a, b)


@instruction(
    "sub{sat}.{t} d, a, b",
    timing=class_of_width("alu"),
    section="9.7.1.2",
    sat=flag("sat"),
    t=INTEGERS,
    valid=_saturates_s32,
)
def sub(a, b, *, sat, t):
    """Subtract ``b`` from ``a``. ``.sat`` clamps a signed 32-bit difference instead of wrapping."""
    return sub_sat_s32(a, b) if sat else UNSIGNED[t](a) - UNSIGNED[t](b)


@instruction("mul.lo.{t} d, a, b", timing=class_of_width("imad"), section="9.7.1.3", t=INTEGERS)
def mul_lo(a, b, *, t):
    """Multiply and keep the low half of the product."""
    return UNSIGNED[t](a) * UNSIGNED[t](b)


@instruction("mul.hi.{t} d, a, b", timing=class_of_width("imad.hi"), section="9.7.1.3", t=INTEGERS)
def mul_hi(a, b, *, t):
    """Multiply and keep the high half of the product."""
    return MUL_HI[t](a, b)


@instruction("mul.wide.{t} d, a, b", timing="imad.wide", section="9.7.1.3", t=_NARROW, operands=_twice_as_wide("d"))
def mul_wide(a, b, *, t):
    """Multiply and keep the whole product in a register twice as wide."""
    return MUL_WIDE[t](a, b)


@instruction("mad.lo.{t} d, a, b, c", timing=class_of_width("imad"), section="9.7.1.4", t=INTEGERS)
def mad_lo(a, b, c, *, t):
    """Multiply, keep the low half of the product and add ``c``."""
    return UNSIGNED[t](a) * UNSIGNED[t](b) + UNSIGNED[t](c)


@instruction(
    "mad.hi{sat}.{t} d, a, b, c",
    timing=class_of_width("imad.hi"),
    section="9.7.1.4",
    sat=flag("sat"),
    t=INTEGERS,
    valid=_saturates_s32,
)
def mad_hi(a, b, c, *, sat, t):
    """Multiply, keep the high half of the product and add ``c``. ``.sat`` clamps a signed 32-bit sum."""
    return mad_hi_sat_s32(a, b, c) if sat else UNSIGNED[t](MUL_HI[t](a, b)) + UNSIGNED[t](c)


@instruction(
    "mad.wide.{t} d, a, b, c",
    timing="imad.wide",
    section="9.7.1.4",
    t=_NARROW,
    operands=_twice_as_wide("d", "c"),
)
def mad_wide(a, b, c, *, t):
    """Multiply and add the whole product to ``c``, which is twice as wide as the factors."""
    return np.uint64(MUL_WIDE[t](a, b)) + np.uint64(c)


@instruction("mul24.{part}.{t} d, a, b", timing="imad24", section="9.7.1.5", part=("lo", "hi"), t=_WORDS)
def mul24(a, b, *, part, t):
    """Multiply the low 24 bits of each source and keep the low or high 32 bits of the 48-bit product."""
    return MUL24[part, t](a, b)


@instruction("mad24.{part}.{t} d, a, b, c", timing="imad24", section="9.7.1.6", part=("lo", "hi"), t=_WORDS)
def mad24(a, b, c, *, part, t):
    """Multiply the low 24 bits of each source, keep the low or high 32 bits of the 48-bit product and add ``c``."""
    return MUL24[part, t](a, b) + c


@instruction("mad24.hi.sat.s32 d, a, b, c", timing="imad24", section="9.7.1.6")
def mad24_sat(a, b, c):
    """As ``mad24.hi.s32``, with the sum clamped instead of wrapped."""
    return mad24_hi_sat_s32(a, b, c)


@instruction("sad.{t} d, a, b, c", timing=class_of_width("sad"), section="9.7.1.7", t=INTEGERS)
def sad(a, b, c, *, t):
    """Add the absolute difference of ``a`` and ``b`` to ``c``."""
    x, y = UNSIGNED[t](a), UNSIGNED[t](b)
    return UNSIGNED[t](c) + UNSIGNED[t](x - y if a > b else y - x)


@instruction("div.{t} d, a, b", timing=lambda p: f"div.{p['t']}", section="9.7.1.8", t=INTEGERS)
def div(a, b, *, t):
    """Divide, rounding toward zero. Dividing by zero gives all ones."""
    return DIV[t](a, b)


@instruction("rem.{t} d, a, b", timing=lambda p: f"rem.{p['t']}", section="9.7.1.9", t=INTEGERS)
def rem(a, b, *, t):
    """Remainder of a division rounded toward zero: it has the sign of the dividend. Of a division by zero it is all
    ones."""
    return REM[t](a, b)


@instruction("abs.{t} d, a", timing=class_of_width("alu"), section="9.7.1.10", t=_SIGNED)
def absolute(a, *, t):
    """Absolute value. The least integer, whose negation does not exist, stays itself."""
    return ABS[t](a)


@instruction("neg.{t} d, a", timing=class_of_width("alu"), section="9.7.1.11", t=_SIGNED)
def neg(a, *, t):
    """Negate. The least integer stays itself."""
    return UNSIGNED[t](0) - UNSIGNED[t](a)


# ---------------------------------------------------------------------------------------------------- minima, maxima


@instruction("min.{t} d, a, b", timing=class_of_width("alu"), section="9.7.1.12", t=INTEGERS)
def minimum(a, b):
    """The lesser of two integers."""
    return min_int(a, b)


@instruction("max.{t} d, a, b", timing=class_of_width("alu"), section="9.7.1.13", t=INTEGERS)
def maximum(a, b):
    """The greater of two integers."""
    return max_int(a, b)


@instruction("min.relu.s32 d, a, b", timing="alu", section="9.7.1.12", sm=90, ptx="8.0")
def min_relu(a, b):
    """The lesser of two integers, or 0 if that is negative."""
    return relu_s32(min_int(a, b))


@instruction("max.relu.s32 d, a, b", timing="alu", section="9.7.1.13", sm=90, ptx="8.0")
def max_relu(a, b):
    """The greater of two integers, or 0 if that is negative."""
    return relu_s32(max_int(a, b))


def _relu_is_signed(params):
    return ".relu needs a signed type (PTX ISA 9.7.1.12)" if params["relu"] and params["t"] == "u16x2" else None


def _extreme_pairs(op, section):
    return instruction(
        f"{op}{{relu}}.{{t}} d, a, b",
        timing="alu",
        section=section,
        sm=90,
        ptx="8.0",
        relu=flag("relu"),
        t=("u16x2", "s16x2"),
        valid=_relu_is_signed,
    )


@_extreme_pairs("min", "9.7.1.12")
def min_pairs(a, b, *, relu, t):
    """The lesser of each pair of 16-bit halves. ``.relu`` turns negative results into 0."""
    return relu_s16x2(EXTREME_X2["min", t](a, b)) if relu else EXTREME_X2["min", t](a, b)


@_extreme_pairs("max", "9.7.1.13")
def max_pairs(a, b, *, relu, t):
    """The greater of each pair of 16-bit halves. ``.relu`` turns negative results into 0."""
    return relu_s16x2(EXTREME_X2["max", t](a, b)) if relu else EXTREME_X2["max", t](a, b)


# ------------------------------------------------------------------------------------------------- bits of a register

POPC = by_type(bitfield, "popc", _BITS)
CLZ = by_type(bitfield, "clz", _BITS)
BREV = by_type(bitfield, "brev", _BITS)
BFIND = {
    (shiftamt, t): getattr(bitfield, f"bfind_{'shiftamt_' if shiftamt else ''}{t}")
    for shiftamt in (False, True)
    for t in _WORDS_AND_PAIRS
}
BFE = by_type(bitfield, "bfe", _WORDS_AND_PAIRS)
BFI = by_type(bitfield, "bfi", _BITS)
SZEXT = {(mode, t): getattr(bitfield, f"szext_{mode}_{t}") for mode in ("clamp", "wrap") for t in _WORDS}
BMSK = {mode: getattr(bitfield, f"bmsk_{mode}") for mode in ("clamp", "wrap")}


@instruction("popc.{t} d:u32, a", timing=class_of_width("popc"), section="9.7.1.14", ptx="2.0", t=_BITS)
def popc(a, *, t):
    """Count the set bits."""
    return POPC[t](a)


@instruction("clz.{t} d:u32, a", timing=class_of_width("popc"), section="9.7.1.15", ptx="2.0", t=_BITS)
def clz(a, *, t):
    """Count the zeros above the highest set bit: the width of the type for zero."""
    return CLZ[t](a)


@instruction(
    "bfind{shiftamt}.{t} d:u32, a",
    timing=class_of_width("popc"),
    section="9.7.1.16",
    ptx="2.0",
    shiftamt=flag("shiftamt"),
    t=_WORDS_AND_PAIRS,
)
def bfind(a, *, shiftamt, t):
    """Position of the highest set bit, or for signed types of the highest bit unlike the sign; 0xffffffff if there is
    none. ``.shiftamt`` gives the left shift that would bring it to the top instead."""
    return BFIND[shiftamt, t](a)


@instruction("fns.b32 d, a, b:b32, c:s32", timing="fns", section="9.7.1.17", sm=30, ptx="6.0")
def fns(a, b, c):
    """Position of the ``c``-th set bit of ``a`` counted from bit ``b`` upwards, downwards for a negative ``c``;
    0xffffffff if there is none."""
    return find_nth_set(a, b, c)


@instruction("brev.{t} d, a", timing=class_of_width("popc"), section="9.7.1.18", ptx="2.0", t=_BITS)
def brev(a, *, t):
    """Reverse the order of the bits."""
    return BREV[t](a)


@instruction("bfe.{t} d, a, b:u32, c:u32", timing=class_of_width("bfe"), section="9.7.1.19", ptx="2.0", t=_WORDS_AND_PAIRS)
def bfe(a, b, c, *, t):
    """Extract ``c`` bits from bit ``b`` up, extended as the type's sign says; a field past the top bit is filled up
    likewise."""
    return BFE[t](a, b, c)


@instruction("bfi.{t} d, a, b, c:u32, e:u32", timing=class_of_width("bfi"), section="9.7.1.20", ptx="2.0", t=_BITS)
def bfi(a, b, c, e, *, t):
    """``b`` with ``e`` bits from bit ``c`` up replaced by the low bits of ``a``."""
    return BFI[t](a, b, c, e)


@instruction(
    "szext.{mode}.{t} d, a, b:u32",
    timing="szext",
    section="9.7.1.21",
    sm=70,
    ptx="7.6",
    mode=("clamp", "wrap"),
    t=_WORDS,
)
def szext(a, b, *, mode, t):
    """Extend the low ``b`` bits of ``a`` to a word by sign or by zeros; ``b`` is clamped to 32 or taken modulo 32."""
    return SZEXT[mode, t](a, b)


@instruction("bmsk.{mode}.b32 d, a:u32, b:u32", timing="alu", section="9.7.1.22", sm=70, ptx="7.6", mode=("clamp", "wrap"))
def bmsk(a, b, *, mode):
    """A mask of ``b`` ones from bit ``a`` up; both are clamped to 32 or taken modulo 32."""
    return BMSK[mode](a, b)


# ------------------------------------------------------------------------------------------------------ dot products

DP4A = {(a, b): getattr(packed_integer, f"dp4a_{a}_{b}") for a in _WORDS for b in _WORDS}
DP2A = {(half, a, b): getattr(packed_integer, f"dp2a_{half}_{a}_{b}") for half in ("lo", "hi") for a in _WORDS for b in _WORDS}


def _accumulator(params):
    """The sum is unsigned only if both factors are."""
    kind = "u32" if params["atype"] == params["btype"] == "u32" else "s32"
    return {"d": (kind, 1), "c": (kind, 1)}


@instruction(
    "dp4a.{atype}.{btype} d, a:b32, b:b32, c",
    timing="idp",
    section="9.7.1.23",
    sm=61,
    ptx="5.0",
    atype=_WORDS,
    btype=_WORDS,
    operands=_accumulator,
)
def dp4a(a, b, c, *, atype, btype):
    """Add the products of the four bytes of ``a`` with those of ``b`` to ``c``."""
    return DP4A[atype, btype](a, b, c)


@instruction(
    "dp2a.{half}.{atype}.{btype} d, a:b32, b:b32, c",
    timing="idp",
    section="9.7.1.24",
    sm=61,
    ptx="5.0",
    half=("lo", "hi"),
    atype=_WORDS,
    btype=_WORDS,
    operands=_accumulator,
)
def dp2a(a, b, c, *, half, atype, btype):
    """Add the products of the 16-bit halves of ``a`` with two bytes of ``b``, its low or high ones, to ``c``."""
    return DP2A[half, atype, btype](a, b, c)
