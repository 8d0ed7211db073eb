"""Bit manipulation (PTX ISA 9.7.1, 9.7.8, 9.7.9): shifts, bit fields, counting, byte permutation, three-input logic.

Words are uint32 or uint64, as the suffix says, except where a signed variant takes int32 or int64. Shift amounts,
positions and lengths are uint32, as in PTX. Every shift is by an amount below the width, so nothing depends on the
processor.

The 32-bit field instructions use the low 8 bits of position and length, as the PTX ISA says; the 64-bit ones, which are
sequences of instructions, use all 32 (measured on an H200, driver 580.159.04).
"""

from __future__ import annotations

import numpy as np

from isa.arith.lane import lane
from isa.arith.primitives import (
    leading_zeros_u32,
    leading_zeros_u64,
    popcount_u32,
    popcount_u64,
    reverse_u32,
    reverse_u64,
)

__all__ = [
    "bfe_s32",
    "bfe_s64",
    "bfe_u32",
    "bfe_u64",
    "bfi_b32",
    "bfi_b64",
    "bfind_s32",
    "bfind_s64",
    "bfind_shiftamt_s32",
    "bfind_shiftamt_s64",
    "bfind_shiftamt_u32",
    "bfind_shiftamt_u64",
    "bfind_u32",
    "bfind_u64",
    "bmsk_clamp",
    "bmsk_wrap",
    "brev_b32",
    "brev_b64",
    "clz_b32",
    "clz_b64",
    "fns",
    "lop3",
    "popc_b32",
    "popc_b64",
    "prmt",
    "selector_b4e",
    "selector_ecl",
    "selector_ecr",
    "selector_f4e",
    "selector_rc8",
    "selector_rc16",
    "shf_l_clamp",
    "shf_l_wrap",
    "shf_r_clamp",
    "shf_r_wrap",
    "shl_b16",
    "shl_b32",
    "shl_b64",
    "shr_s16",
    "shr_s32",
    "shr_s64",
    "shr_u16",
    "shr_u32",
    "shr_u64",
    "szext_clamp_s32",
    "szext_clamp_u32",
    "szext_wrap_s32",
    "szext_wrap_u32",
]

_NONE = np.uint32(0xFFFFFFFF)
_ALL = np.uint32(0xFFFFFFFF)
_ALL64 = np.uint64(0xFFFFFFFFFFFFFFFF)


# ------------------------------------------------------------------------------------------------------------- shifts


@lane
def shl_b16(a, n):
    """Shift left; amounts of 16 and more give 0."""
    return np.uint16(np.uint32(a) << (n & np.uint32(15))) if n < np.uint32(16) else np.uint16(0)


@lane
def shl_b32(a, n):
    """Shift left; amounts of 32 and more give 0."""
    return np.uint32(a << (n & np.uint32(31))) if n < np.uint32(32) else np.uint32(0)


@lane
def shl_b64(a, n):
    """Shift left; amounts of 64 and more give 0."""
    return np.uint64(a << np.uint64(n & np.uint32(63))) if n < np.uint32(64) else np.uint64(0)


@lane
def shr_u16(a, n):
    """Shift right, zeros entering; amounts of 16 and more give 0."""
    return np.uint16(np.uint32(a) >> (n & np.uint32(15))) if n < np.uint32(16) else np.uint16(0)


@lane
def shr_u32(a, n):
    """Shift right, zeros entering; amounts of 32 and more give 0."""
    return np.uint32(a >> (n & np.uint32(31))) if n < np.uint32(32) else np.uint32(0)


@lane
def shr_u64(a, n):
    """Shift right, zeros entering; amounts of 64 and more give 0."""
    return np.uint64(a >> np.uint64(n & np.uint32(63))) if n < np.uint32(64) else np.uint64(0)


@lane
def shr_s16(a, n):
    """Shift right, the sign entering; amounts beyond 15 act as 15."""
    return np.int16(np.int32(a) >> np.int32(min(n, np.uint32(15))))


@lane
def shr_s32(a, n):
    """Shift right, the sign entering; amounts beyond 31 act as 31."""
    return np.int32(a >> np.int32(min(n, np.uint32(31))))


@lane
def shr_s64(a, n):
    """Shift right, the sign entering; amounts beyond 63 act as 63."""
    return np.int64(a >> np.int64(min(n, np.uint32(63))))


@lane
def _funnel_left(a, b, n):
    return np.uint32((((np.uint64(b) << np.uint64(32)) | np.uint64(a)) << np.uint64(n)) >> np.uint64(32))


@lane
def _funnel_right(a, b, n):
    return np.uint32(((np.uint64(b) << np.uint64(32)) | np.uint64(a)) >> np.uint64(n))


@lane
def shf_l_wrap(a, b, c):
    """High word of ``{b, a} << (c mod 32)``."""
    return _funnel_left(a, b, c & np.uint32(31))


@lane
def shf_l_clamp(a, b, c):
    """High word of ``{b, a} << min(c, 32)``."""
    return _funnel_left(a, b, min(c, np.uint32(32)))


@lane
def shf_r_wrap(a, b, c):
    """Low word of ``{b, a} >> (c mod 32)``."""
    return _funnel_right(a, b, c & np.uint32(31))


@lane
def shf_r_clamp(a, b, c):
    """Low word of ``{b, a} >> min(c, 32)``."""
    return _funnel_right(a, b, min(c, np.uint32(32)))


# --------------------------------------------------------------------------------------------------------- bit fields


@lane
def bfe_u32(a, position, length):
    """The field of ``length`` bits from bit ``position`` (low 8 bits of each count), zero-extended."""
    length = length & np.uint32(255)
    shifted = shr_u32(a, position & np.uint32(255))
    mask = shr_u32(_ALL, np.uint32(np.uint32(32) - min(length, np.uint32(32))))
    return np.uint32(shifted & mask)


@lane
def bfe_s32(a, position, length):
    """The field of ``length`` bits from bit ``position``, sign-extended; past bit 31 all is sign; length 0 gives 0."""
    length = length & np.uint32(255)
    shifted = shr_s32(a, position & np.uint32(255))
    spare = np.int32(np.uint32(32) - min(max(length, np.uint32(1)), np.uint32(32)))
    field = np.int32(np.int32(shifted << spare) >> spare)
    return field if length != np.uint32(0) else np.int32(0)


@lane
def bfe_u64(a, position, length):
    """The field of ``length`` bits from bit ``position``, zero-extended; the counts count in full."""
    shifted = shr_u64(a, position)
    mask = shr_u64(_ALL64, np.uint32(np.uint32(64) - min(length, np.uint32(64))))
    return np.uint64(shifted & mask)


@lane
def bfe_s64(a, position, length):
    """The field of ``length`` bits from bit ``position``, sign-extended; past bit 63 all is sign; length 0 gives 0."""
    shifted = shr_s64(a, position)
    spare = np.int64(np.uint32(64) - min(max(length, np.uint32(1)), np.uint32(64)))
    field = np.int64(np.int64(shifted << spare) >> spare)
    return field if length != np.uint32(0) else np.int64(0)


@lane
def bfi_b32(a, b, position, length):
    """``b`` with ``length`` bits from ``position`` up (low 8 bits of each count) replaced by the low bits of ``a``."""
    position = position & np.uint32(255)
    ones = shr_u32(_ALL, np.uint32(np.uint32(32) - min(length & np.uint32(255), np.uint32(32))))
    mask = shl_b32(ones, position)
    return np.uint32((shl_b32(a, position) & mask) | (b & ~mask))


@lane
def bfi_b64(a, b, position, length):
    """``b`` with ``length`` bits from ``position`` up replaced by the low bits of ``a``; the counts count in full."""
    ones = shr_u64(_ALL64, np.uint32(np.uint32(64) - min(length, np.uint32(64))))
    mask = shl_b64(ones, position)
    return np.uint64((shl_b64(a, position) & mask) | (b & ~mask))


@lane
def _mask_from(start, end):
    """Bits ``start`` up to but not including ``end``; none at or above 32."""
    return np.uint32(shl_b32(_ALL, start) & ~shl_b32(_ALL, end))


@lane
def bmsk_clamp(a, b):
    """``b`` ones from bit ``a`` up, cut off at bit 31."""
    return _mask_from(min(a, np.uint32(32)), np.uint32(min(a, np.uint32(32)) + min(b, np.uint32(32))))


@lane
def bmsk_wrap(a, b):
    """``b mod 32`` ones from bit ``a mod 32`` up, cut off at bit 31."""
    return _mask_from(a & np.uint32(31), np.uint32((a & np.uint32(31)) + (b & np.uint32(31))))


@lane
def szext_clamp_u32(a, n):
    """The low ``min(n, 32)`` bits, zero-extended."""
    return bfe_u32(a, np.uint32(0), min(n, np.uint32(32)))


@lane
def szext_clamp_s32(a, n):
    """The low ``min(n, 32)`` bits, sign-extended."""
    return bfe_s32(a, np.uint32(0), min(n, np.uint32(32)))


@lane
def szext_wrap_u32(a, n):
    """The low ``n mod 32`` bits, zero-extended."""
    return bfe_u32(a, np.uint32(0), n & np.uint32(31))


@lane
def szext_wrap_s32(a, n):
    """The low ``n mod 32`` bits, sign-extended."""
    return bfe_s32(a, np.uint32(0), n & np.uint32(31))


# --------------------------------------------------------------------------------------------- counting and searching


@lane
def popc_b32(a):
    """Number of set bits, uint32."""
    return popcount_u32(a)


@lane
def popc_b64(a):
    """Number of set bits, uint32."""
    return np.uint32(popcount_u64(a))


@lane
def clz_b32(a):
    """Number of leading zeros, uint32; 32 for zero."""
    return leading_zeros_u32(a)


@lane
def clz_b64(a):
    """Number of leading zeros, uint32; 64 for zero."""
    return np.uint32(leading_zeros_u64(a))


@lane
def brev_b32(a):
    """The bits in reverse order."""
    return reverse_u32(a)


@lane
def brev_b64(a):
    """The bits in reverse order."""
    return reverse_u64(a)


@lane
def bfind_u32(a):
    """Position of the highest set bit, uint32; 0xFFFFFFFF for zero."""
    return np.uint32(np.uint32(31) - leading_zeros_u32(a))


@lane
def bfind_s32(a):
    """Position of the highest bit that differs from the sign, uint32; 0xFFFFFFFF for 0 and -1."""
    return bfind_u32(np.uint32(a ^ (a >> np.int32(31))))


@lane
def bfind_u64(a):
    """Position of the highest set bit, uint32; 0xFFFFFFFF for zero."""
    return np.uint32(np.uint32(63) - np.uint32(leading_zeros_u64(a)))


@lane
def bfind_s64(a):
    """Position of the highest bit that differs from the sign, uint32; 0xFFFFFFFF for 0 and -1."""
    return bfind_u64(np.uint64(a ^ (a >> np.int64(63))))


@lane
def bfind_shiftamt_u32(a):
    """The left shift that brings the bit found to the top, uint32; 0xFFFFFFFF if there is none."""
    return leading_zeros_u32(a) if a != np.uint32(0) else _NONE


@lane
def bfind_shiftamt_s32(a):
    """The left shift that brings the bit found to the top, uint32; 0xFFFFFFFF if there is none."""
    return bfind_shiftamt_u32(np.uint32(a ^ (a >> np.int32(31))))


@lane
def bfind_shiftamt_u64(a):
    """The left shift that brings the bit found to the top, uint32; 0xFFFFFFFF if there is none."""
    return np.uint32(leading_zeros_u64(a)) if a != np.uint64(0) else _NONE


@lane
def bfind_shiftamt_s64(a):
    """The left shift that brings the bit found to the top, uint32; 0xFFFFFFFF if there is none."""
    return bfind_shiftamt_u64(np.uint64(a ^ (a >> np.int64(63))))


@lane
def fns(mask, base, offset):
    """Position of the ``offset``-th set bit (int32) from bit ``base`` up, or down if negative; 0xFFFFFFFF if none.

    An offset of 0 asks for bit ``base`` itself; otherwise bit ``base`` counts as the first if it is set. The offset
    -2^31 gives 0, as the hardware's routine does (measured on an H200, driver 580.159.04).
    """
    down = offset < np.int32(0)
    start = np.uint32(np.uint32(31) - base) if down else base
    bits = reverse_u32(mask) if down else mask
    bits = np.uint32(bits & shl_b32(_ALL, start)) if base < np.uint32(32) else np.uint32(0)
    skip = np.uint32(-offset if down else offset) - np.uint32(1)
    for i in range(31):  # clear the lowest bits that are to be passed over
        bits = np.uint32(bits & (bits - np.uint32(1))) if np.uint32(i) < skip else bits
    bits = bits if skip < np.uint32(32) else np.uint32(0)
    lowest = np.uint32(np.uint32(31) - leading_zeros_u32(np.uint32(bits & (np.uint32(0) - bits))))
    position = (np.uint32(np.uint32(31) - lowest) if down else lowest) if bits != np.uint32(0) else _NONE
    here = base if (shr_u32(mask, base) & np.uint32(1)) != np.uint32(0) else _NONE
    found = position if offset != np.int32(-0x80000000) else np.uint32(0)
    return found if offset != np.int32(0) else here


# ---------------------------------------------------------------------------------------------------- bytes and logic


@lane
def _permuted(words, selector, i):
    """Byte ``i`` of a permutation, in place: nibble ``i`` picks one of 8 bytes, its bit 3 the sign alone."""
    pick = (selector >> np.uint32(4 * i)) & np.uint32(15)
    byte = np.uint32(words >> np.uint64((pick & np.uint32(7)) << np.uint32(3))) & np.uint32(0xFF)
    sign = np.uint32((byte >> np.uint32(7)) * np.uint32(0xFF))
    return np.uint32((sign if pick > np.uint32(7) else byte) << np.uint32(8 * i))


@lane
def prmt(a, b, selector):
    """``prmt.b32``: four bytes picked from ``{b, a}`` by the nibbles of ``selector``."""
    words = (np.uint64(b) << np.uint64(32)) | np.uint64(a)
    low = _permuted(words, selector, 0) | _permuted(words, selector, 1)
    return np.uint32(low | _permuted(words, selector, 2) | _permuted(words, selector, 3))


@lane
def selector_f4e(c):
    """Selector of ``prmt.f4e`` (forward 4 extract): bytes c, c+1, c+2, c+3."""
    return np.uint32((c & np.uint32(3)) * np.uint32(0x1111) + np.uint32(0x3210))


@lane
def selector_b4e(c):
    """Selector of ``prmt.b4e`` (backward 4 extract): bytes c, c-1, c-2, c-3, modulo 8."""
    return np.uint32(((c & np.uint32(3)) * np.uint32(0x1111) + np.uint32(0x5678)) & np.uint32(0x7777))


@lane
def selector_rc8(c):
    """Selector of ``prmt.rc8`` (replicate 8): byte c four times."""
    return np.uint32((c & np.uint32(3)) * np.uint32(0x1111))


@lane
def selector_ecl(c):
    """Selector of ``prmt.ecl`` (edge clamp left): byte i is max(i, c)."""
    return np.uint32((np.uint64(0x3333322232113210) >> np.uint64((c & np.uint32(3)) * np.uint32(16))) & np.uint64(0xFFFF))


@lane
def selector_ecr(c):
    """Selector of ``prmt.ecr`` (edge clamp right): byte i is min(i, c)."""
    return np.uint32((np.uint64(0x3210221011100000) >> np.uint64((c & np.uint32(3)) * np.uint32(16))) & np.uint64(0xFFFF))


@lane
def selector_rc16(c):
    """Selector of ``prmt.rc16`` (replicate 16): half c mod 2, twice."""
    return np.uint32((c & np.uint32(1)) * np.uint32(0x2222) + np.uint32(0x1010))


@lane
def lop3(a, b, c, lut):
    """Bitwise function of three words: at each position bit ``4 a + 2 b + c`` of ``lut`` (a constant, 0 to 255)."""
    r = np.uint32(0)
    for i in range(8):
        chosen = np.uint32(0) - np.uint32((lut >> i) & 1)
        term = (a if i & 4 else ~a) & (b if i & 2 else ~b) & (c if i & 1 else ~c)
        r = np.uint32(r | (np.uint32(term) & chosen))
    return r
