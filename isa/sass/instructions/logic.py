"""Logic, shifts, selection and moves of the machine."""

from __future__ import annotations

import numpy as np

from isa.arith import bitfield
from isa.arith.bitfield import lop3 as three_inputs
from isa.arith.bitfield import prmt as permute
from isa.arith.lane import lane
from isa.sass.registry import machine
from isa.spec import flag, optional


@machine("MOV d:u32, a:u32, m:u32?", pipe="alu")
@machine("UMOV d:u32, a:u32, m:u32?", pipe="uniform")
@machine("S2R d:u32, a:u32", pipe="adu")
@machine("S2UR d:u32, a:u32", pipe="adu")
@machine("CS2R.32 d:u32, a:u32", pipe="alu")
def mov(a):
    """Copy a register, a constant or a special register."""
    return a


@machine("CS2R d:u64, a:u64", pipe="alu")
def cs2r(a):
    """Copy a special register into a pair."""
    return a


# ----------------------------------------------------------------------------------------------------------- logic


@machine("LOP3.LUT{pand} p?, d:u32, a:u32, b:u32, c:u32, n:u32, e:pred", pipe="alu", pand=flag("PAND"))
@machine("ULOP3.LUT{pand} p?, d:u32, a:u32, b:u32, c:u32, n:u32, e:pred", pipe="uniform", pand=flag("PAND"))
def lop3(a, b, c, n, e, *, pand):
    """Any bitwise function of three words, given as a table of 8 bits; ``p``: whether the result is not zero, or ``e``."""
    word = three_inputs(a, b, c, np.uint8(n))
    some = word != np.uint32(0)
    return some & e if pand else some | e, word


@lane
def looked_up(a, b, c, table):
    """The bit of an 8-bit table that three predicates select."""
    index = (np.uint32(a) << np.uint32(2)) | (np.uint32(b) << np.uint32(1)) | np.uint32(c)
    return ((table >> index) & np.uint32(1)) != np.uint32(0)


@machine("PLOP3.LUT p, q, a:pred, b:pred, c:pred, m:u32, n:u32", pipe="alu")
@machine("UPLOP3.LUT p, q, a:pred, b:pred, c:pred, m:u32, n:u32", pipe="uniform")
def plop3(a, b, c, m, n):
    """Two functions of three predicates, each given as a table of 8 bits."""
    return looked_up(a, b, c, m), looked_up(a, b, c, n)


@machine("SEL d:u32, a:u32, b:u32, e:pred", pipe="alu")
@machine("USEL d:u32, a:u32, b:u32, e:pred", pipe="uniform")
def sel(a, b, e):
    """``a`` where ``e`` holds, else ``b``."""
    return a if e else b


# ---------------------------------------------------------------------------------------------------------- shifts


@lane
def amount(b, wide, wrap):
    """How far a shift goes: modulo the width, or no farther than it."""
    width = np.uint32(64 if wide else 32)
    if wrap:
        return b & (width - np.uint32(1))
    return min(b, width)


@lane
def shifted_left(pair, n):
    """64 bits shifted left by up to 64."""
    return pair << np.uint64(n) if n < np.uint32(64) else np.uint64(0)


@lane
def shifted_right(pair, n):
    """64 bits shifted right by up to 64, zeros entering."""
    return pair >> np.uint64(n) if n < np.uint32(64) else np.uint64(0)


@lane
def shifted_right_signed(pair, n):
    """64 bits shifted right by up to 64, the sign entering."""
    return np.uint64(np.int64(pair) >> np.int64(min(n, np.uint32(63))))


RIGHT = {"U32": shifted_right, "U64": shifted_right, "S32": shifted_right_signed, "S64": shifted_right_signed}
WIDE = {"U32": False, "S32": False, "U64": True, "S64": True}


@machine(
    "SHF.{way}{w}.{t}{hi} d:u32, a:u32, b:u32, c:u32",
    pipe="alu",
    way=("L", "R"),
    w=flag("W"),
    t=("U32", "S32", "U64", "S64"),
    hi=flag("HI"),
)
@machine(
    "USHF.{way}{w}.{t}{hi} d:u32, a:u32, b:u32, c:u32",
    pipe="uniform",
    way=("L", "R"),
    w=flag("W"),
    t=("U32", "S32", "U64", "S64"),
    hi=flag("HI"),
)
def shf(a, b, c, *, way, w, t, hi):
    """Shift the 64 bits ``{c, a}`` by ``b`` and keep one word. ``.W`` takes the amount modulo the width of the type; else it
    goes no farther than that."""
    pair = np.uint64(a) | (np.uint64(c) << np.uint64(32))
    n = amount(b, WIDE[t], w)
    result = shifted_left(pair, n) if way == "L" else RIGHT[t](pair, n)
    return np.uint32(result >> np.uint64(32)) if hi else np.uint32(result & np.uint64(0xFFFFFFFF))


# ----------------------------------------------------------------------------------------------------- permutation

SELECTOR = {mode: getattr(bitfield, f"selector_{mode.lower()}") for mode in ("F4E", "B4E", "RC8", "ECL", "ECR", "RC16")}


@machine("PRMT{mode} d:u32, a:u32, b:u32, c:u32", pipe="alu", mode=optional(*SELECTOR))
@machine("UPRMT{mode} d:u32, a:u32, b:u32, c:u32", pipe="uniform", mode=optional(*SELECTOR))
def prmt(a, b, c, *, mode):
    """Four bytes picked from the eight of ``{c, a}`` by the nibbles of ``b``."""
    if mode == "":
        return permute(a, c, b)
    return permute(a, c, SELECTOR[mode](b))


# ------------------------------------------------------------------------------------------------------ predicates
# ``P2R`` and ``R2P`` move all seven predicates at once; P0 to P6 are the first words of the register block.


@lane
def _gathered(predicates, first, number):
    """The seven predicates from the word ``first`` on, of a lane, as bits."""
    bits = np.uint32(0)
    for index in range(7):
        bits |= ((predicates[first + index] >> np.uint32(number)) & np.uint32(1)) << np.uint32(index)
    return bits


@lane
def _scatter(predicates, first, number, chosen, bits):
    """Set those of the seven predicates that ``chosen`` has a bit for."""
    for index in range(7):
        if (chosen >> np.uint32(index)) & np.uint32(1):
            bit = (bits >> np.uint32(index)) & np.uint32(1)
            others = predicates[first + index] & ~(np.uint32(1) << np.uint32(number))
            predicates[first + index] = others | (bit << np.uint32(number))


BYTE = {"": 0, "B1": 1, "B2": 2, "B3": 3}
_UNIFORM = 7


@machine("P2R{byte} d:u32, a:u32, b:u32, n:u32", pipe="alu", body="warp", byte=optional("B1", "B2", "B3"))
def p2r(d, b, n, predicates, mask, *, byte):
    """Predicates as bits: those of the mask ``n`` replace bits of ``b``; ``.B1`` puts them into its second byte."""
    shift = np.uint32(8 * BYTE[byte])
    for number in range(32):
        bits, chosen = _gathered(predicates, 0, number), n[number]
        d[number] = (b[number] & ~np.uint32(chosen << shift)) | np.uint32((bits & chosen) << shift)
    return 0


@machine("UP2UR{byte} d:u32, a:u32, b:u32, n:u32", pipe="uniform", body="warp", byte=optional("B1", "B2", "B3"))
def up2ur(d, b, n, predicates, mask, *, byte):
    """The same of the uniform predicates."""
    shift = np.uint32(8 * BYTE[byte])
    for number in range(32):
        bits, chosen = _gathered(predicates, _UNIFORM, number), n[number]
        d[number] = (b[number] & ~np.uint32(chosen << shift)) | np.uint32((bits & chosen) << shift)
    return 0


@machine("R2P{byte} a:u32, b:u32, n:u32", pipe="alu", body="warp", byte=optional("B1", "B2", "B3"))
def r2p(b, n, predicates, mask, *, byte):
    """Set the predicates of the mask ``n`` from bits of ``b``."""
    shift = np.uint32(8 * BYTE[byte])
    for number in range(32):
        if (mask >> np.uint32(number)) & np.uint32(1):
            _scatter(predicates, 0, number, n[number], np.uint32(b[number] >> shift))
    return 0


@machine("UR2UP a:u32, b:u32", pipe="uniform", body="warp")
def ur2up(b, predicates, mask):
    """Set the uniform predicates from a byte of ``b``."""
    for number in range(32):
        if (mask >> np.uint32(number)) & np.uint32(1):
            _scatter(predicates, _UNIFORM, number, np.uint32(0x7F), b[number])
    return 0
