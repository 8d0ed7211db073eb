"""Integer arithmetic of the machine. Carries are predicates: ``.X`` takes them in, the first predicate operands give them out.

Subtraction is addition of the complement plus one, so a carry out of a subtraction means that nothing was borrowed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from isa.arith import bitfield, packed_integer
from isa.arith.bitfield import bmsk_clamp, bmsk_wrap, brev_b32, popc_b32
from isa.arith.convert import clamp_s64
from isa.arith.integer import abs_s32
from isa.arith.lane import lane
from isa.arith.packed_integer import add_x2, relu_s16x2
from isa.sass.registry import machine
from isa.spec import flag, optional

_UNSIGNED: dict[str, Any] = {"unsigned": optional("U32")}

LOW = np.uint64(0xFFFFFFFF)


@lane
def term(value, negated, extended):
    """What an operand adds to a 64-bit sum of words: itself, its complement, or the complement plus one."""
    if negated:
        return np.uint64(np.uint32(~value)) + np.uint64(0 if extended else 1)
    return np.uint64(value)


# ------------------------------------------------------------------------------------------------------------ sums


@machine("IADD3{x} d:u32, p?, q?, a:u32, b:u32, c:u32, e:pred?, f:pred?", pipe="alu", x=flag("X"))
@machine("UIADD3{x} d:u32, p?, q?, a:u32, b:u32, c:u32, e:pred?, f:pred?", pipe="uniform", x=flag("X"))
def iadd3(a, b, c, e, f, *, x, negated_a, negated_b, negated_c):
    """Add three words. The carry may be 2: ``p`` is set if there is one, ``q`` if there are two."""
    total = term(a, negated_a, x) + term(b, negated_b, x) + term(c, negated_c, x)
    if x:
        total += np.uint64(e) + np.uint64(f)
    carry = total >> np.uint64(32)
    return np.uint32(total & LOW), carry >= np.uint64(1), carry >= np.uint64(2)


@machine("UIADD3.64 d:u64, a:u64, b:u64, c:u64", pipe="uniform")
def uiadd3_pairs(a, b, c):
    """Add three pairs of registers."""
    return a + b + c


@machine("VIADD d:u32, a:u32, b:u32", pipe="fma")
def viadd(a, b):
    """Add two words."""
    return a + b


@machine("VIADD.16x2 d:u32, a:u16x2, b:u16x2", pipe="alu")
def viadd_pairs(a, b, *, negated_b):
    """Add two pairs of 16-bit integers, half by half."""
    if negated_b:
        b = add_x2(~b, np.uint32(0x00010001))
    return add_x2(a, b)


@machine("IABS d:u32, a:s32", pipe="alu")
def iabs(a):
    """Absolute value; the least integer stays itself."""
    return abs_s32(a)


# -------------------------------------------------------------------------------------------------------- products


@machine(
    "IMAD{kind}{unsigned}{x} d:u32, p?, a:u32, b:u32, c:u32, e:pred?",
    pipe="fma",
    kind=optional("MOV", "IADD", "SHL"),
    x=flag("X"),
    **_UNSIGNED,
)
@machine("UIMAD{unsigned} d:u32, p?, a:u32, b:u32, c:u32, e:pred?", pipe="uniform", **_UNSIGNED)
def imad(a, b, c, e):
    """Multiply, add, keep the low word; ``.X`` adds a carry. Assemblers use it also to move, add and shift."""
    return np.uint32(a * b + c + np.uint32(e)), False


@lane
def product_s64(a, b):
    """The whole product of two signed words."""
    return np.uint64(np.int64(np.int32(a)) * np.int64(np.int32(b)))


@lane
def product_u64(a, b):
    """The whole product of two unsigned words."""
    return np.uint64(a) * np.uint64(b)


PRODUCT = {"": product_s64, "U32": product_u64}


@machine("IMAD.WIDE{unsigned}{x} d:u64, p?, a:u32, b:u32, c:u64, e:pred?", pipe="fma", x=flag("X"), **_UNSIGNED)
@machine("UIMAD.WIDE{unsigned} d:u64, p?, a:u32, b:u32, c:u64, e:pred?", pipe="uniform", **_UNSIGNED)
def imad_wide(a, b, c, e, *, unsigned, negated_c):
    """Multiply and add the whole product to a pair of registers; ``.X`` adds a carry, ``p`` is the carry out."""
    product = PRODUCT[unsigned](a, b)
    addend = ~c if negated_c else c
    total = product + addend
    carry = total < product
    if negated_c:
        total += np.uint64(1)
        carry = carry | (total == np.uint64(0))
    total += np.uint64(e)
    return total, carry | ((total == np.uint64(0)) & e)


@machine("IMAD.HI{unsigned}{x} d:u32, p?, a:u32, b:u32, c:u64, e:pred?", pipe="fma", x=flag("X"), **_UNSIGNED)
@machine("UIMAD.HI{unsigned} d:u32, p?, a:u32, b:u32, c:u64, e:pred?", pipe="uniform", **_UNSIGNED)
def imad_hi(a, b, c, e, *, unsigned):
    """The upper word of a product plus a pair of registers."""
    product = PRODUCT[unsigned](a, b)
    total = product + c
    carry = total < product
    total += np.uint64(e)
    return np.uint32(total >> np.uint64(32)), carry | ((total == np.uint64(0)) & e)


_SIGNS = ("S8", "U8")
DP4A = {
    (a, b): getattr(packed_integer, f"dp4a_{'s' if a[0] == 'S' else 'u'}32_{'s' if b[0] == 'S' else 'u'}32")
    for a in _SIGNS
    for b in _SIGNS
}
DP2A = {
    (half, a, b): getattr(
        packed_integer, f"dp2a_{half.lower()}_{'s' if a[0] == 'S' else 'u'}32_{'s' if b[0] == 'S' else 'u'}32"
    )
    for half in ("LO", "HI")
    for a in ("S16", "U16")
    for b in _SIGNS
}


def _accumulator(params):
    return {name: ("u32" if str(params["at"])[0] == str(params["bt"])[0] == "U" else "s32", 1) for name in "dc"}


@machine("IDP.4A.{at}.{bt} d:u32, a:u32, b:u32, c:u32", pipe="fma", at=_SIGNS, bt=_SIGNS, operands=_accumulator)
def idp4(a, b, c, *, at, bt):
    """Add the products of four bytes each to ``c``."""
    return DP4A[at, bt](a, b, c)


@machine(
    "IDP.2A.{part}.{at}.{bt} d:u32, a:u32, b:u32, c:u32",
    pipe="fma",
    part=("LO", "HI"),
    at=("S16", "U16"),
    bt=_SIGNS,
    operands=_accumulator,
)
def idp2(a, b, c, *, part, at, bt):
    """Add the products of two 16-bit halves with two bytes to ``c``."""
    return DP2A[part, at, bt](a, b, c)


# ------------------------------------------------------------------------------------------------ shifted additions


@lane
def shifted_sum(word, b, negate_word, negate_b, extended, e):
    """A shifted word plus another, with signs and carry as of :func:`iadd3`: the sum and its carry."""
    total = term(word, negate_word, extended) + term(b, negate_b, extended) + np.uint64(e)
    return np.uint32(total & LOW), (total >> np.uint64(32)) != np.uint64(0)


@machine("LEA{x} d:u32, p?, a:u32, b:u32, c:u32, e:pred?", pipe="alu", x=flag("X"))
@machine("ULEA{x} d:u32, p?, a:u32, b:u32, c:u32, e:pred?", pipe="uniform", x=flag("X"))
def lea(a, b, c, e, *, x, negated_a, negated_b):
    """``a`` shifted left by ``c``, plus ``b``."""
    return shifted_sum(np.uint32(a << (c & np.uint32(31))), b, negated_a, negated_b, x, e)


@lane
def upper(pair, c):
    """The upper word of 64 bits shifted left."""
    return np.uint32((pair << np.uint64(c & np.uint32(31))) >> np.uint64(32))


@machine("LEA.HI{x} d:u32, p?, a:u32, b:u32, c:u32, n:u32, e:pred?", pipe="alu", x=flag("X"))
@machine("ULEA.HI{x} d:u32, p?, a:u32, b:u32, c:u32, n:u32, e:pred?", pipe="uniform", x=flag("X"))
def lea_hi(a, b, c, n, e, *, x, negated_a, negated_b):
    """The upper word of ``{c, a}`` shifted left by ``n``, plus ``b``."""
    word = upper(np.uint64(a) | (np.uint64(c) << np.uint64(32)), n)
    return shifted_sum(word, b, negated_a, negated_b, x, e)


@machine("LEA.HI{x}.SX32 d:u32, p?, a:s32, b:u32, n:u32, e:pred?", pipe="alu", x=flag("X"))
@machine("ULEA.HI{x}.SX32 d:u32, p?, a:s32, b:u32, n:u32, e:pred?", pipe="uniform", x=flag("X"))
def lea_hi_signed(a, b, n, e, *, x, negated_a, negated_b):
    """The upper word of ``a``, extended by its sign and shifted left by ``n``, plus ``b``."""
    return shifted_sum(upper(np.uint64(np.int64(a)), n), b, negated_a, negated_b, x, e)


# ----------------------------------------------------------------------------------------------- minima and maxima


def _signed(params):
    """Operand types of a comparison or minimum."""
    kind = "u32" if params.get("unsigned") else "s32"
    return dict.fromkeys("abc", (kind, 1))


@machine("IMNMX{unsigned} d:u32, a:s32, b:s32, e:pred", pipe="alu", operands=_signed, **_UNSIGNED)
@machine("VIMNMX{unsigned} d:u32, a:s32, b:s32, e:pred", pipe="alu", operands=_signed, **_UNSIGNED)
@machine("UIMNMX{unsigned} d:u32, a:s32, b:s32, e:pred", pipe="uniform", operands=_signed, **_UNSIGNED)
def imnmx(a, b, e):
    """The lesser of two integers where ``e`` holds, else the greater."""
    return np.uint32(min(a, b) if e else max(a, b))


@machine("VIMNMX.RELU d:u32, a:s32, b:s32, e:pred", pipe="alu")
def imnmx_relu(a, b, e):
    """As VIMNMX, but not below 0."""
    return np.uint32(max(min(a, b) if e else max(a, b), np.int32(0)))


EXTREME_X2 = {(op, t): getattr(packed_integer, f"{op}_{t.lower()}") for op in ("min", "max") for t in ("U16x2", "S16x2")}


@machine("VIMNMX.{t}{relu} d:u32, a:u32, b:u32, e:pred", pipe="alu", t=("U16x2", "S16x2"), relu=flag("RELU"))
def imnmx_pairs(a, b, e, *, t, relu):
    """The lesser (where ``e`` holds) or greater of each pair of 16-bit halves."""
    r = EXTREME_X2["min", t](a, b) if e else EXTREME_X2["max", t](a, b)
    return relu_s16x2(r) if relu else r


@machine("VIMNMX3{unsigned} d:u32, a:s32, b:s32, c:s32, e:pred", pipe="alu", operands=_signed, **_UNSIGNED)
def imnmx3(a, b, c, e):
    """The least of three integers where ``e`` holds, else the greatest."""
    return np.uint32(min(min(a, b), c) if e else max(max(a, b), c))


@machine("VIMNMX3.{t}{relu} d:u32, a:u32, b:u32, c:u32, e:pred", pipe="alu", t=("U16x2", "S16x2"), relu=flag("RELU"))
def imnmx3_pairs(a, b, c, e, *, t, relu):
    """The least (where ``e`` holds) or greatest of each three 16-bit halves."""
    if e:
        r = EXTREME_X2["min", t](EXTREME_X2["min", t](a, b), c)
    else:
        r = EXTREME_X2["max", t](EXTREME_X2["max", t](a, b), c)
    return relu_s16x2(r) if relu else r


@machine("VIMNMX3.RELU d:u32, a:s32, b:s32, c:s32, e:pred", pipe="alu")
def imnmx3_relu(a, b, c, e):
    """As VIMNMX3, but not below 0."""
    return np.uint32(max(min(min(a, b), c) if e else max(max(a, b), c), np.int32(0)))


@machine("VIADDMNMX{unsigned}{relu} d:u32, a:u32, b:u32, c:s32, e:pred", pipe="alu", relu=flag("RELU"), **_UNSIGNED)
def viaddmnmx(a, b, c, e, *, unsigned, relu):
    """``a + b``, then the lesser of that and ``c`` where ``e`` holds, else the greater."""
    total = np.uint32(a + b)
    if unsigned == "U32":
        limit = np.uint32(c)
        return min(total, limit) if e else max(total, limit)
    value = min(np.int32(total), c) if e else max(np.int32(total), c)
    return np.uint32(max(value, np.int32(0)) if relu else value)


@machine(
    "VABSDIFF{unsigned} d:u32, a:s32, b:s32, c:u32", pipe="alu", operands=lambda p: _signed(p) | {"c": ("u32", 1)}, **_UNSIGNED
)
def vabsdiff(a, b, c):
    """``|a - b| + c``."""
    return np.uint32((np.int64(a) - np.int64(b) if a > b else np.int64(b) - np.int64(a)) + np.int64(c))


@machine("VABSDIFF4{t}{acc} d:u32, a:u32, b:u32, c:u32", pipe="alu", t=optional("U8"), acc=flag("ACC"))
def vabsdiff4(a, b, c, *, t, acc):
    """The absolute differences of four bytes each, signed unless ``.U8``; ``.ACC`` adds them up and to ``c``."""
    packed = np.uint32(0)
    total = np.int64(c)
    for byte in range(4):
        x = np.int64((a >> np.uint32(8 * byte)) & np.uint32(0xFF))
        y = np.int64((b >> np.uint32(8 * byte)) & np.uint32(0xFF))
        if t == "":
            x, y = x - ((x & 128) << 1), y - ((y & 128) << 1)
        difference = x - y if x > y else y - x
        packed |= np.uint32(difference & 0xFF) << np.uint32(8 * byte)
        total += difference
    return np.uint32(total) if acc else packed


# ----------------------------------------------------------------------------------------------------- comparisons

_CMP = ("LT", "EQ", "LE", "GT", "NE", "GE")


@lane
def lt(a, b, f):
    """``a < b``, or equal and ``f``."""
    return (a < b) | ((a == b) & f)


@lane
def gt(a, b, f):
    """``a > b``, or equal and ``f``."""
    return (a > b) | ((a == b) & f)


@lane
def eq(a, b, f):
    """Equal, and ``f``."""
    return (a == b) & f


@lane
def ne(a, b, f):
    """Not equal, or ``f``."""
    return (a != b) | f


@lane
def both(x, y):
    """And."""
    return x & y


@lane
def either(x, y):
    """Or."""
    return x | y


@lane
def differ(x, y):
    """Exclusive or."""
    return x != y


COMPARE = {"LT": lt, "LE": lt, "GT": gt, "GE": gt, "EQ": eq, "NE": ne}
# Of equal operands: what the comparison of the words below says (``.EX``), else whether equality satisfies it.
ON_EQUAL = {"LT": False, "LE": True, "GT": False, "GE": True, "EQ": True, "NE": False}
COMBINE = {"AND": both, "OR": either, "XOR": differ}


@machine(
    "ISETP.{cmp}{unsigned}.{op}{ex} p, q, a:s32, b:s32, e:pred, f:pred?",
    pipe="alu",
    cmp=_CMP,
    op=("AND", "OR", "XOR"),
    ex=flag("EX"),
    operands=_signed,
    **_UNSIGNED,
)
@machine(
    "UISETP.{cmp}{unsigned}.{op}{ex} p, q, a:s32, b:s32, e:pred, f:pred?",
    pipe="uniform",
    cmp=_CMP,
    op=("AND", "OR", "XOR"),
    ex=flag("EX"),
    operands=_signed,
    **_UNSIGNED,
)
def isetp(a, b, e, f, *, cmp, op, ex):
    """Compare two integers and combine the outcome with ``e``; ``q`` gets its opposite combined with ``e``. ``.EX`` compares
    the upper words of longer integers, ``f`` being what the lower ones gave."""
    outcome = COMPARE[cmp](a, b, f if ex else ON_EQUAL[cmp])
    return COMBINE[op](outcome, e), COMBINE[op](not outcome, e)


# ------------------------------------------------------------------------------------------------ bits of a register


@machine("POPC d:u32, a:u32", pipe="xu")
@machine("UPOPC d:u32, a:u32", pipe="uniform")
def popc(a):
    """Count the set bits."""
    return popc_b32(a)


@machine("BREV d:u32, a:u32", pipe="xu")
@machine("UBREV d:u32, a:u32", pipe="uniform")
def brev(a):
    """Reverse the order of the bits."""
    return brev_b32(a)


BFIND = {
    (unsigned, sh): getattr(bitfield, f"bfind_{'shiftamt_' if sh else ''}{'u32' if unsigned else 's32'}")
    for unsigned in ("", "U32")
    for sh in (False, True)
}


@machine("FLO{unsigned}{sh} d:u32, p?, a:s32", pipe="xu", sh=flag("SH"), operands=_signed, **_UNSIGNED)
@machine("UFLO{unsigned}{sh} d:u32, p?, a:s32", pipe="uniform", sh=flag("SH"), operands=_signed, **_UNSIGNED)
def flo(a, *, unsigned, sh):
    """Position of the leading one (of the highest bit unlike the sign); ``.SH``: the left shift that brings it to the top.
    All ones if there is none."""
    r = BFIND[unsigned, sh](a)
    return r, r != np.uint32(0xFFFFFFFF)


BMSK = {False: bmsk_clamp, True: bmsk_wrap}


@machine("BMSK{w} d:u32, a:u32, b:u32", pipe="alu", w=flag("W"))
@machine("UBMSK{w} d:u32, a:u32, b:u32", pipe="uniform", w=flag("W"))
def bmsk(a, b, *, w):
    """``b`` ones from bit ``a`` up, both clamped to 32 (or modulo 32)."""
    return BMSK[w](a, b)


SZEXT = {
    (w, unsigned): getattr(bitfield, f"szext_{'wrap' if w else 'clamp'}_{'u32' if unsigned else 's32'}")
    for w in (False, True)
    for unsigned in ("", "U32")
}


@machine(
    "SGXT{unsigned}{w} d:u32, a:u32, b:u32", pipe="alu", w=flag("W"), operands=lambda p: {"a": _signed(p)["a"]}, **_UNSIGNED
)
@machine(
    "USGXT{unsigned}{w} d:u32, a:u32, b:u32",
    pipe="uniform",
    w=flag("W"),
    operands=lambda p: {"a": _signed(p)["a"]},
    **_UNSIGNED,
)
def sgxt(a, b, *, unsigned, w):
    """Extend the low ``b`` bits by their sign, or by zeros (``.U32``)."""
    return np.uint32(SZEXT[w, unsigned](a, b))


# ------------------------------------------------------------------------------------------------- narrow integers

BITS = {f"{kind}{bits}": bits for kind in "SU" for bits in (2, 4, 8, 16)}
LEAST = {t: -(1 << bits - 1) if t[0] == "S" else 0 for t, bits in BITS.items()}
GREATEST = {t: (1 << bits - 1) - 1 if t[0] == "S" else (1 << bits) - 1 for t, bits in BITS.items()}
MASK = {t: (1 << bits) - 1 for t, bits in BITS.items()}
_NARROW = tuple(LEAST)


@machine("I2I.{t}.S32.SAT d:u32, a:s32", pipe="xu", t=("S8", "U8", "S16", "U16"))
def i2i(a, *, t):
    """Clamp to a narrow type."""
    return np.uint32(clamp_s64(np.int64(a), LEAST[t], GREATEST[t]))


@machine("I2IP.{t}.S32.SAT d:u32, a:s32, b:s32, c:u32", pipe="alu", t=_NARROW)
def i2ip(a, b, c, *, t):
    """Clamp two integers to a narrow type and pack them, ``a`` the upper one, below the low bits of ``c``."""
    high = np.uint32(clamp_s64(np.int64(a), LEAST[t], GREATEST[t])) & np.uint32(MASK[t])
    low = np.uint32(clamp_s64(np.int64(b), LEAST[t], GREATEST[t])) & np.uint32(MASK[t])
    packed = (high << np.uint32(BITS[t])) | low
    return packed if BITS[t] == 16 else (c << np.uint32(2 * BITS[t])) | packed
