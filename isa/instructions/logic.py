"""Logic, shifts and byte permutation (PTX ISA 9.7.8 and 9.7.9.7)."""

from __future__ import annotations

import numpy as np

from isa.arith import bitfield
from isa.arith.bitfield import lop3 as three_inputs
from isa.arith.bitfield import prmt as permute
from isa.instructions.tables import by_type, class_of_width
from isa.spec import instruction, optional

_BITS = ("b16", "b32", "b64")


# ------------------------------------------------------------------------------------------------------------- logic


@instruction("and.{t} d, a, b", timing=class_of_width("alu"), section="9.7.8.1", t=_BITS)
@instruction("and.pred p, a:pred, b:pred", timing="predicate", section="9.7.8.1")
def logical_and(a, b):
    """Bitwise and, also of predicates."""
    return a & b


@instruction("or.{t} d, a, b", timing=class_of_width("alu"), section="9.7.8.2", t=_BITS)
@instruction("or.pred p, a:pred, b:pred", timing="predicate", section="9.7.8.2")
def logical_or(a, b):
    """Bitwise or, also of predicates."""
    return a | b


@instruction("xor.{t} d, a, b", timing=class_of_width("alu"), section="9.7.8.3", t=_BITS)
@instruction("xor.pred p, a:pred, b:pred", timing="predicate", section="9.7.8.3")
def logical_xor(a, b):
    """Bitwise exclusive or, also of predicates."""
    return a ^ b


@instruction("not.{t} d, a", timing=class_of_width("alu"), section="9.7.8.4", t=_BITS)
def complement(a):
    """Flip every bit."""
    return ~a


@instruction("not.pred p, a:pred", timing="predicate", section="9.7.8.4")
def not_pred(a):
    """Negate a predicate."""
    return not a


@instruction("cnot.{t} d, a", timing=class_of_width("cnot"), section="9.7.8.5", t=_BITS)
def cnot(a):
    """C's ``!``: 1 for zero, 0 for everything else."""
    return np.uint32(a == 0)


@instruction("lop3.b32 d, a, b, c, lut:b8", timing="alu", section="9.7.8.6", sm=50, ptx="4.3")
def lop3(a, b, c, lut):
    """Any bitwise function of three words: bit ``4 a + 2 b + c`` of the constant ``lut`` at each position."""
    return three_inputs(a, b, c, lut)


@instruction(
    "lop3.{boolean}.b32 d|p, a, b, c, lut:b8, e:pred",
    timing="alu",
    section="9.7.8.6",
    sm=70,
    ptx="8.2",
    boolean=("or", "and"),
)
def lop3_pred(a, b, c, lut, e, *, boolean):
    """Any bitwise function of three words, and whether it is not zero, combined with the predicate ``e``."""
    word = three_inputs(a, b, c, lut)
    if boolean == "or":
        return word, (word != np.uint32(0)) | e
    return word, (word != np.uint32(0)) & e


# ------------------------------------------------------------------------------------------------------------ shifts

SHF = {(way, mode): getattr(bitfield, f"shf_{way}_{mode}") for way in ("l", "r") for mode in ("wrap", "clamp")}
SHL = by_type(bitfield, "shl", _BITS)
SHR = by_type(bitfield, "shr", ("u16", "s16", "u32", "s32", "u64", "s64"))
SHR |= {f"b{bits}": SHR[f"u{bits}"] for bits in (16, 32, 64)}


@instruction(
    "shf.{way}.{mode}.b32 d, a, b, c:u32",
    timing="alu",
    section="9.7.8.7",
    sm=32,
    ptx="3.1",
    way=("l", "r"),
    mode=("wrap", "clamp"),
)
def shf(a, b, c, *, way, mode):
    """Funnel shift of the 64 bits ``{b, a}``: the high word after a shift left, the low word after a shift right. The
    amount is taken modulo 32 or clamped to 32."""
    return SHF[way, mode](a, b, c)


@instruction("shl.{t} d, a, b:u32", timing=class_of_width("alu"), section="9.7.8.8", t=_BITS)
def shl(a, b, *, t):
    """Shift left; amounts of the width and more give 0."""
    return SHL[t](a, b)


@instruction("shr.{t} d, a, b:u32", timing=class_of_width("alu"), section="9.7.8.9", t=tuple(SHR))
def shr(a, b, *, t):
    """Shift right: the sign enters for signed types, zeros for the others. Amounts of the width and more leave only
    those."""
    return SHR[t](a, b)


# ------------------------------------------------------------------------------------------------------- permutation

_SELECTORS = ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")
SELECTOR = {mode: getattr(bitfield, f"selector_{mode}") for mode in _SELECTORS}


@instruction("prmt.b32{mode} d, a, b, c", timing="alu", section="9.7.9.7", ptx="2.0", mode=optional(*_SELECTORS))
def prmt(a, b, c, *, mode):
    """Four bytes picked from the eight of ``{b, a}``. Without a mode each nibble of ``c`` names a byte, its top bit
    replicates that byte's sign; the modes derive a common selection from the low bits of ``c``."""
    if mode == "":
        return permute(a, b, c)
    return permute(a, b, SELECTOR[mode](c))
