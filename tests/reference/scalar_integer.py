"""PTX integer, bit, logic and carry instructions on words, from the text of their opcode (PTX ISA 9.7.1, 9.7.2, 9.7.8)."""

from __future__ import annotations

from collections.abc import Callable

from tests.reference import integers as bitwise
from tests.reference.conversions import limits
from tests.reference.integers import mask, quotient, signed

Words = list[int]
Result = dict[str, int]


def number(t: str, word: int) -> int:
    """The value of a word of an integer or untyped-bits type."""
    bits = int(t[1:])
    return signed(word, bits) if t[0] == "s" else word & mask(bits)


def clamp(t: str, value: int) -> int:
    least, greatest = limits(int(t[1:]), t[0] == "s")
    return min(max(value, least), greatest)


def halves(word: int) -> tuple[int, int]:
    return word & 0xFFFF, word >> 16 & 0xFFFF


def by_halves(function: Callable[..., int], *words: int) -> int:
    """``function`` of the low halves and of the high halves, packed."""
    return function(*(w & 0xFFFF for w in words)) & 0xFFFF | (function(*(w >> 16 for w in words)) & 0xFFFF) << 16


def arithmetic(base: str, mods: list[str], t: str, words: Words) -> int:
    """Sums, products, quotients and extremes, before they are cut to the type."""
    bits = int(t[1:])
    a, b, c = ([number(t, w) for w in words] + [0, 0])[:3]
    if base == "add":
        return clamp(t, a + b) if "sat" in mods else a + b
    if base == "sub":
        return clamp(t, a - b) if "sat" in mods else a - b
    if base in ("mul", "mad"):
        product = a * b >> (bits if "hi" in mods else 0)
        if base == "mul":
            return product
        wide = f"{t[0]}{2 * bits}" if "wide" in mods else t
        c = number(wide, words[2])
        total = (product if "wide" in mods or "hi" in mods else product & mask(bits)) + c
        return clamp(t, total) if "sat" in mods else total
    if base in ("mul24", "mad24"):
        cut = [signed(x, 24) if t[0] == "s" else x & mask(24) for x in (a, b)]
        product = cut[0] * cut[1] >> (16 if "hi" in mods else 0)
        total = product + (c if base == "mad24" else 0)
        return clamp(t, total) if "sat" in mods else total
    if base == "sad":
        return c + abs(a - b)
    if base == "div":
        return quotient(a, b) if b else -1
    if base == "rem":
        return a - quotient(a, b) * b if b else -1
    if base in ("abs", "neg"):
        return abs(a) if base == "abs" else -a
    extreme = min(a, b) if base == "min" else max(a, b)
    return max(extreme, 0) if "relu" in mods else extreme


def packed(base: str, mods: list[str], t: str, words: Words) -> int:
    """The same of pairs of 16-bit integers."""
    half = t.removesuffix("x2")
    return by_halves(lambda x, y: arithmetic(base, mods, half, [x, y]), *words)


def carrying(base: str, mods: list[str], t: str, words: Words) -> Result:
    """Extended precision. The last word of ``addc``, ``subc`` and ``madc`` is the carry flag as hardware keeps it: the carry
    out of an adder, also of the one that subtracts by adding the complement."""
    bits = int(t[1:])
    carry = words[-1] if base in ("addc", "subc", "madc") else int(base == "sub")
    if base in ("mad", "madc"):
        product = number(t, words[0]) * number(t, words[1]) >> (max(bits, 32) if "hi" in mods else 0)
        a, b = product & mask(bits), words[2]
    else:
        a, b = words[0], words[1] ^ (mask(bits) if base.startswith("sub") else 0)
    total = a + b + carry
    return {"d": total & mask(bits), "q": total >> bits}


def bits_of(base: str, mods: list[str], t: str, words: Words) -> int:
    """Counting, searching, bit fields and masks."""
    bits = int(t[1:])
    a = words[0]
    if base == "popc":
        return a.bit_count()
    if base == "clz":
        return bits - a.bit_length()
    if base == "brev":
        return int(f"{a:0{bits}b}"[::-1], 2)
    if base == "bfind":
        return bitwise.bfind(a, bits, t[0] == "s", "shiftamt" in mods)
    if base == "fns":
        return bitwise.fns(a, words[1], signed(words[2], 32))
    if base == "bfe":
        return bitwise.bfe(a, words[1], words[2], bits, t[0] == "s")
    if base == "bfi":
        return bitwise.bfi(a, words[1], words[2], words[3], bits)
    if base == "szext":
        return bitwise.szext(a, words[1], "clamp" in mods, t[0] == "s")
    return bitwise.bmsk(a, words[1], "clamp" in mods)


def dot(base: str, mods: list[str], words: Words) -> int:
    """``dp4a`` and ``dp2a``."""
    atype, btype = mods[-2:]
    width, step = (8, 8) if base == "dp4a" else (16, 8)
    second = words[1] >> (16 if base == "dp2a" and "hi" in mods else 0)
    total = words[2]
    for i in range(32 // width):
        total += number(f"{atype[0]}{width}", words[0] >> width * i) * number(f"{btype[0]}8", second >> step * i)
    return total


def shift(base: str, t: str, a: int, n: int) -> int:
    if base == "shl":
        return a << n if n < int(t[1:]) else 0
    return number(t, a) >> min(n, int(t[1:]))


def logic(base: str, mods: list[str], t: str, words: Words) -> Result:
    """Logic, shifts, permutation; predicates are words of one bit."""
    if base == "prmt":
        return {"d": bitwise.prmt(*words, mode=next((m for m in mods if m != "b32"), ""))}
    bits = 1 if t == "pred" else int(t[1:])
    if base == "shf":
        return {"d": bitwise.funnel(*words, left=mods[0] == "l", clamp="clamp" in mods)}
    if base == "lop3":
        word = bitwise.lop3(*words[:4])
        met = int(word != 0)
        return {"d": word, "p": met | words[-1] if "or" in mods else met & words[-1]}
    if base in ("shl", "shr"):
        return {"d": shift(base, t, *words) & mask(bits)}
    if base == "not":
        word = words[0] ^ mask(bits)
    elif base == "cnot":
        word = int(words[0] == 0)
    else:
        word = {"and": words[0] & words[1], "or": words[0] | words[1], "xor": words[0] ^ words[1]}[base]
    return {"p" if t == "pred" else "d": word}
