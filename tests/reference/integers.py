"""PTX integer and bit instructions on Python integers, written bit by bit from the PTX ISA's pseudocode."""

from __future__ import annotations


def signed(word: int, bits: int) -> int:
    """Two's complement value of the low ``bits``."""
    word &= (1 << bits) - 1
    return word - (1 << bits) if word >> (bits - 1) else word


def mask(bits: int) -> int:
    return (1 << bits) - 1


def quotient(a: int, b: int) -> int:
    """Division that truncates toward zero."""
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def bfe(a: int, position: int, length: int, bits: int, is_signed: bool) -> int:
    """PTX ISA 9.7.1.17, but with counts of 32 bits for 64-bit fields, as recorded."""
    top = bits - 1
    if bits == 32:
        position, length = position & 0xFF, length & 0xFF
    position, length = min(position, 255), min(length, 255)
    sign = 0 if not is_signed or length == 0 else (a >> min(position + length - 1, top)) & 1
    out = 0
    for i in range(bits):
        out |= ((a >> (position + i)) & 1 if i < length and position + i <= top else sign) << i
    return out


def bfi(a: int, b: int, position: int, length: int, bits: int) -> int:
    """PTX ISA 9.7.1.18, but with counts of 32 bits for 64-bit fields, as recorded."""
    if bits == 32:
        position, length = position & 0xFF, length & 0xFF
    position, length = min(position, 255), min(length, 255)
    for i in range(length):
        if position + i < bits:
            b = b & ~(1 << (position + i)) | ((a >> i) & 1) << (position + i)
    return b


def bfind(a: int, bits: int, is_signed: bool, shiftamt: bool) -> int:
    """PTX ISA 9.7.1.16."""
    if is_signed and a >> (bits - 1):
        a = ~a & mask(bits)
    found = a.bit_length() - 1
    if found >= 0 and shiftamt:
        found = bits - 1 - found
    return found & 0xFFFFFFFF


def fns(word: int, base: int, offset: int) -> int:
    """PTX ISA 9.7.1.15, and 0 for the least offset, as recorded."""
    if offset == -(1 << 31):
        return 0
    if offset == 0:
        return base if base < 32 and word >> base & 1 else 0xFFFFFFFF
    position, count, step = base, abs(offset) - 1, 1 if offset > 0 else -1
    while 0 <= position < 32:
        if word >> position & 1:
            if count == 0:
                return position
            count -= 1
        position += step
    return 0xFFFFFFFF


def prmt(a: int, b: int, c: int, mode: str) -> int:
    """PTX ISA 9.7.9.7; ``mode`` "" is the general one."""
    source = [(b << 32 | a) >> (8 * i) & 0xFF for i in range(8)]
    s = c & 3
    table = {
        "f4e": [s, s + 1, s + 2, s + 3],
        "b4e": [s, (s - 1) % 8, (s - 2) % 8, (s - 3) % 8],
        "rc8": [s] * 4,
        "ecl": [max(i, s) for i in range(4)],
        "ecr": [min(i, s) for i in range(4)],
        "rc16": [2 * (s & 1) + (i & 1) for i in range(4)],
        "": [c >> (4 * i) & 15 for i in range(4)],
    }[mode]
    out = 0
    for i, pick in enumerate(table):
        byte = source[pick & 7]
        out |= (0xFF * (byte >> 7) if pick & 8 else byte) << (8 * i)
    return out


def lop3(a: int, b: int, c: int, lut: int) -> int:
    """PTX ISA 9.7.8.6."""
    out = 0
    for i in range(32):
        index = (a >> i & 1) << 2 | (b >> i & 1) << 1 | c >> i & 1
        out |= (lut >> index & 1) << i
    return out


def funnel(a: int, b: int, c: int, left: bool, clamp: bool) -> int:
    """PTX ISA 9.7.8.7."""
    n = min(c, 32) if clamp else c & 31
    both = b << 32 | a
    return (both << n >> 32 if left else both >> n) & 0xFFFFFFFF


def bmsk(a: int, b: int, clamp: bool) -> int:
    """PTX ISA 9.7.1.20: ``b`` ones from bit ``a`` up."""
    if not clamp:
        a, b = a & 31, b & 31
    return sum(1 << i for i in range(32) if a <= i < a + b)


def szext(a: int, n: int, clamp: bool, is_signed: bool) -> int:
    """PTX ISA 9.7.1.19."""
    n = min(n, 32) if clamp else n & 31
    if n == 0:
        return 0
    low = a & mask(n)
    return (signed(low, n) if is_signed else low) & 0xFFFFFFFF
