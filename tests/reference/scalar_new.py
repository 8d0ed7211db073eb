"""What sm_100 added: pairs of f32, mixed precision, minima of three, formats of 4 and 6 bits, scales, stochastic rounding.
Plain Python on exact numbers, from the text of an opcode (PTX ISA 9.0, 9.7.3, 9.7.5 and 9.7.9.21)."""

from __future__ import annotations

import math
from fractions import Fraction

from tests.reference import scalar_float
from tests.reference.formats import BF16, F16, F32, Format
from tests.reference.scalar_integer import Words

SMALL = {"e2m1": Format("e2m1", 2, 1), "e2m3": Format("e2m3", 2, 3), "e3m2": Format("e3m2", 3, 2),
         "e4m3": Format("e4m3", 4, 3), "e5m2": Format("e5m2", 5, 2)}  # fmt: skip
LARGEST = {"e2m1": 7, "e2m3": 0x1F, "e3m2": 0x1F, "e4m3": 0x7E, "e5m2": 0x7B}
HALVES = {"f16": F16, "bf16": BF16}


def is_new(base: str, mods: list[str], operands: int) -> bool:
    """Whether an opcode is one of these."""
    if base == "cvt":
        parts = {m.removesuffix("x2").removesuffix("x4") for m in mods[-2:]}
        return bool(parts & {"e2m1", "e2m3", "e3m2", "ue8m0"}) or "rs" in mods
    if base in ("min", "max"):
        return operands == 3
    return mods[-1] == "f32x2" or (mods[-2:-1] == ["f32"] and base in ("add", "sub", "fma"))


def evaluate(base: str, mods: list[str], words: Words) -> int:
    """The result word."""
    if base == "cvt":
        return convert(mods[:-2], mods[-2], mods[-1], words)
    if base in ("min", "max"):
        return of_three(base, mods, words)
    if mods[-1] == "f32x2":
        low = scalar_float.arithmetic(base, mods, F32, [w & 0xFFFFFFFF for w in words])
        return low | scalar_float.arithmetic(base, mods, F32, [w >> 32 for w in words]) << 32
    halves = {"add": 1, "sub": 1, "fma": 2}[base]
    wide = [widened(mods[-1], w) for w in words[:halves]] + list(words[halves:])
    return scalar_float.arithmetic(base, mods[:-1], F32, wide)


def widened(t: str, word: int) -> int:
    """A half as f32: exact."""
    f = HALVES[t]
    if f.is_nan(word):
        return 0x7FFFFFFF
    sign = F32.sign if f.negative(word) else 0
    if f.is_infinite(word):
        return F32.infinity | sign
    return F32.round(abs(f.value(word))) | sign


def of_three(base: str, mods: list[str], words: Words) -> int:
    words = [F32.flush(w) if "ftz" in mods else w for w in words]
    words = [F32.magnitude(w) if "abs" in mods else w for w in words]
    numbers = [w for w in words if not F32.is_nan(w)]
    if not numbers or ("NaN" in mods and len(numbers) < 3):
        return 0x7FFFFFFF

    def order(word: int) -> tuple[Fraction, int]:
        value = Fraction(2) ** 2000 if F32.is_infinite(word) else F32.value(F32.magnitude(word))
        return (-value if F32.negative(word) else value), 0 if F32.negative(word) else 1

    return (min if base == "min" else max)(numbers, key=order)


# --------------------------------------------------------------------------------------------------------- conversions


def to_small(t: str, f: Format, word: int) -> int:
    """To nearest, ties to even, saturating; NaN gives the largest."""
    target, largest = SMALL[t], LARGEST[t]
    if f.is_nan(word):
        return largest
    sign = target.sign if f.negative(word) else 0
    if f.is_infinite(word):
        return largest | sign
    size = abs(f.value(word))
    codes = range(largest + 1)
    best = min(codes, key=lambda code: (abs(small_value(t, code) - size), code & 1))
    return best | sign


def small_value(t: str, code: int) -> Fraction:
    """The value of a code without sign, all codes being numbers."""
    f = SMALL[t]
    field, fraction = code >> f.mbits, code & ((1 << f.mbits) - 1)
    return Fraction(fraction + (bool(field) << f.mbits)) * Fraction(2) ** (max(field, 1) - f.bias - f.mbits)


def from_small(t: str, code: int) -> int:
    """The f16 of a code of 4 or 6 bits."""
    f = SMALL[t]
    return F16.round(small_value(t, code & (f.sign - 1))) | (F16.sign if code & f.sign else 0)


def to_scale(mods: list[str], f: Format, word: int) -> int:
    if f.is_nan(word):
        return 255
    if f.is_infinite(word):
        return 254 if "satfinite" in mods else 255
    size = abs(f.value(word))
    if size <= Fraction(1, 2**127):
        return 0
    exponent = math.floor(math.log2(size))
    exponent += (Fraction(2) ** (exponent + 1) <= size) - (Fraction(2) ** exponent > size)
    if "rp" in mods and size > Fraction(2) ** exponent:
        exponent += 1
    code = max(exponent + 127, 0)
    return min(code, 254) if "satfinite" in mods else code


def stochastically(t: str, word: int, random: int, bits: int, largest: int) -> int:
    """The code without sign: exact value in units of the last place, plus the random fraction, cut."""
    f = HALVES.get(t) or SMALL[t]
    if F32.is_infinite(word):
        return largest
    size = abs(F32.value(word))
    exponent = f.least_exponent
    while size >= Fraction(2) ** (exponent + 1):
        exponent += 1
    units = size / Fraction(2) ** (exponent - f.mbits)
    # Of the number only what a float32 has is there: more bits than the sum needs.
    whole = math.floor(units + Fraction(random, 1 << bits))
    return min((exponent - f.least_exponent << f.mbits) + whole, largest)


def stochastic(mods: list[str], dtype: str, words: Words) -> int:
    *values, random = words
    pair = dtype.endswith("x2")
    t = dtype[:-2]
    bits = 13 if t == "f16" else 16
    out = 0
    width = 16 if pair else 4 if t == "e2m1" else 8
    for index, word in enumerate(values):
        first = index < len(values) // 2
        if pair or t != "e2m1":
            own = random >> 16 if first else random & 0xFFFF
        else:
            own = random >> 24 << 8 | random >> 8 & 0xFF if first else (random >> 16 & 0xFF) << 8 | random & 0xFF
        own &= (1 << bits) - 1
        if "relu" in mods and F32.negative(word) and not F32.is_nan(word):
            word = 0
        if pair:
            f = HALVES[t]
            largest = f.infinity - ("satfinite" in mods)
            sign, nan = f.sign, 0x7FFF
        else:
            largest, sign = LARGEST[t], SMALL[t].sign
            nan = 0x7F if t in ("e4m3", "e5m2") else largest
        code = nan if F32.is_nan(word) else stochastically(t, word, own, bits, largest) | (sign if F32.negative(word) else 0)
        out = out << width | code
    return out


def convert(mods: list[str], dtype: str, t: str, words: Words) -> int:
    if "rs" in mods:
        return stochastic(mods, dtype, words)
    if dtype == "ue8m0x2":
        f = F32 if t == "f32" else BF16
        upper, lower = words if t == "f32" else (words[0] >> 16, words[0] & 0xFFFF)
        return to_scale(mods, f, upper) << 8 | to_scale(mods, f, lower)
    if t == "ue8m0x2":
        out = 0
        for code in (words[0] >> 8, words[0] & 0xFF):
            out = out << 16 | (0x7FFF if code == 255 else 0x40 if code == 0 else code << 7)
        return out
    if dtype == "f16x2":
        small, step = t[:-2], 4 if t == "e2m1x2" else 8
        mask = (SMALL[small].sign << 1) - 1
        halves = [from_small(small, words[0] >> shift & mask) for shift in (step, 0)]
        return sum((0 if "relu" in mods and h & 0x8000 else h) << 16 * (1 - i) for i, h in enumerate(halves))
    small, step = dtype[:-2], 4 if dtype == "e2m1x2" else 8
    f = F32 if t == "f32" else F16
    pair = list(words) if t == "f32" else [words[0] >> 16, words[0] & 0xFFFF]
    if "relu" in mods:
        pair = [0 if f.negative(w) and not f.is_nan(w) else w for w in pair]
    return to_small(small, f, pair[0]) << step | to_small(small, f, pair[1])
