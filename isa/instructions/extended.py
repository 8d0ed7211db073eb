"""Integers of more than one register: sums and products with a carry (PTX ISA 9.7.2).

The carry flag ``CC.CF`` is not in the text; here it is a hidden predicate operand. It holds what the adder's carry-out
holds: after a subtraction it is set when *nothing* was borrowed. Chains of one kind cannot tell, but ``sub.cc``
followed by ``addc`` can, and ptxas 13.0 hands the carry-out of one ``IADD3`` to the next as it is.
"""

from __future__ import annotations

import numpy as np

from isa.arith import integer
from isa.arith.lane import lane
from isa.instructions.tables import INTEGERS, UNSIGNED, by_type, class_of_width
from isa.spec import instruction

_CARRYING = ("u32", "s32", "u64", "s64")
_PARTS = ("lo", "hi")

MUL_HI = by_type(integer, "mul_hi", INTEGERS)


@lane
def mul_low_u32(a, b):
    """The low half of a product."""
    return np.uint32(a) * np.uint32(b)


@lane
def mul_low_u64(a, b):
    """The low half of a product."""
    return np.uint64(a) * np.uint64(b)


@lane
def carry_u32(a, b, total):
    """Whether ``total``, the wrapped sum of ``a`` and ``b`` and perhaps 1, carried out of 32 bits.

    Written with bits rather than ``total < a``: LLVM turns that into an add-with-overflow, which it cannot vectorise.
    """
    return (((a & b) | ((a | b) & ~total)) >> np.uint32(31)) != np.uint32(0)


@lane
def carry_u64(a, b, total):
    """Whether ``total``, the wrapped sum of ``a`` and ``b`` and perhaps 1, carried out of 64 bits."""
    return (((a & b) | ((a | b) & ~total)) >> np.uint64(63)) != np.uint64(0)


CARRY = {t: carry_u64 if t.endswith("64") else carry_u32 for t in _CARRYING}
PRODUCT = {("lo", t): mul_low_u64 if t.endswith("64") else mul_low_u32 for t in INTEGERS}
PRODUCT |= {("hi", t): MUL_HI[t] for t in INTEGERS}


@lane
def mul_high_s16(a, b):
    """The upper half of the 32-bit registers' product, of which 16 bits are kept: all copies of its sign."""
    return np.uint16(integer.mul_hi_s32(np.int32(a), np.int32(b)))


@lane
def mul_high_u16(a, b):
    """The upper half of the 32-bit registers' product: nothing."""
    return np.uint16(0)


# 16-bit operands are not in the PTX ISA; ptxas 13.0 extends them and takes the upper half of a 32-bit product, on all
# targets. An H200 agrees (driver 580.159.04).
PRODUCT_CARRIED = PRODUCT | {("hi", "s16"): mul_high_s16, ("hi", "u16"): mul_high_u16}


# ----------------------------------------------------------------------------------------------- sums and differences


@instruction("add.cc.{t} d, a, b, q", hidden=("q",), timing=class_of_width("alu"), section="9.7.2.1", ptx="1.2", t=_CARRYING)
def add_cc(a, b, *, t):
    """Add, and write the carry-out to the carry flag."""
    total = UNSIGNED[t](UNSIGNED[t](a) + UNSIGNED[t](b))
    return total, CARRY[t](UNSIGNED[t](a), UNSIGNED[t](b), total)


@instruction(
    "addc.{t} d, a, b, carry:pred",
    hidden=("carry",),
    timing=class_of_width("alu"),
    section="9.7.2.2",
    ptx="1.2",
    t=INTEGERS,
)
def addc(a, b, carry, *, t):
    """Add two integers and the carry flag."""
    return UNSIGNED[t](a) + UNSIGNED[t](b) + np.uint32(carry)


@instruction(
    "addc.cc.{t} d, a, b, carry:pred, q",
    hidden=("carry", "q"),
    timing=class_of_width("alu"),
    section="9.7.2.2",
    ptx="1.2",
    t=_CARRYING,
)
def addc_cc(a, b, carry, *, t):
    """Add two integers and the carry flag, and write the carry-out to the carry flag."""
    total = UNSIGNED[t](UNSIGNED[t](a) + UNSIGNED[t](b) + np.uint32(carry))
    return total, CARRY[t](UNSIGNED[t](a), UNSIGNED[t](b), total)


@instruction("sub.cc.{t} d, a, b, q", hidden=("q",), timing=class_of_width("alu"), section="9.7.2.3", ptx="1.2", t=_CARRYING)
def sub_cc(a, b, *, t):
    """Subtract ``b`` from ``a``, and write to the carry flag whether nothing was borrowed."""
    return UNSIGNED[t](a) - UNSIGNED[t](b), UNSIGNED[t](a) >= UNSIGNED[t](b)


@instruction(
    "subc.{t} d, a, b, carry:pred",
    hidden=("carry",),
    timing=class_of_width("alu"),
    section="9.7.2.4",
    ptx="1.2",
    t=INTEGERS,
)
def subc(a, b, carry, *, t):
    """Subtract ``b`` and the borrow of the instruction before from ``a``."""
    return UNSIGNED[t](a) - UNSIGNED[t](b) - np.uint32(not carry)


@instruction(
    "subc.cc.{t} d, a, b, carry:pred, q",
    hidden=("carry", "q"),
    timing=class_of_width("alu"),
    section="9.7.2.4",
    ptx="1.2",
    t=_CARRYING,
)
def subc_cc(a, b, carry, *, t):
    """Subtract ``b`` and the borrow of the instruction before from ``a``, and write to the carry flag whether nothing
    was borrowed."""
    difference = UNSIGNED[t](UNSIGNED[t](a) - UNSIGNED[t](b) - np.uint32(not carry))
    return difference, CARRY[t](UNSIGNED[t](a), UNSIGNED[t](~b), difference)


# ----------------------------------------------------------------------------------------------------------- products


@instruction(
    "mad.{part}.cc.{t} d, a, b, c, q",
    hidden=("q",),
    timing=class_of_width("imad.cc"),
    section="9.7.2.5",
    ptx="3.0",
    part=_PARTS,
    t=_CARRYING,
)
def mad_cc(a, b, c, *, part, t):
    """Multiply, add ``c`` to the low or high half of the product, and write the carry-out of that sum to the carry
    flag."""
    product = UNSIGNED[t](PRODUCT[part, t](a, b))
    total = UNSIGNED[t](product + UNSIGNED[t](c))
    return total, CARRY[t](product, UNSIGNED[t](c), total)


@instruction(
    "madc.{part}.{t} d, a, b, c, carry:pred",
    hidden=("carry",),
    timing=class_of_width("imad.cc"),
    section="9.7.2.6",
    ptx="3.0",
    part=_PARTS,
    t=INTEGERS,
)
def madc(a, b, c, carry, *, part, t):
    """Multiply, and add ``c`` and the carry flag to the low or high half of the product; of 16-bit operands, ``.hi`` is the
    high half of 32 bits."""
    return UNSIGNED[t](PRODUCT_CARRIED[part, t](a, b)) + UNSIGNED[t](c) + np.uint32(carry)


@instruction(
    "madc.{part}.cc.{t} d, a, b, c, carry:pred, q",
    hidden=("carry", "q"),
    timing=class_of_width("imad.cc"),
    section="9.7.2.6",
    ptx="3.0",
    part=_PARTS,
    t=_CARRYING,
)
def madc_cc(a, b, c, carry, *, part, t):
    """Multiply, add ``c`` and the carry flag to the low or high half of the product, and write the carry-out of that
    sum to the carry flag."""
    product = UNSIGNED[t](PRODUCT[part, t](a, b))
    total = UNSIGNED[t](product + UNSIGNED[t](c) + np.uint32(carry))
    return total, CARRY[t](product, UNSIGNED[t](c), total)
