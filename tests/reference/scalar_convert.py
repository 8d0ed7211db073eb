"""PTX ``cvt`` and ``cvt.pack`` on words, from the text of their opcode (PTX ISA 9.7.9.21 and 9.7.9.22)."""

from __future__ import annotations

from fractions import Fraction

from tests.reference import conversions, floats
from tests.reference.formats import F32, F64, MODES, Format
from tests.reference.integers import mask
from tests.reference.scalar_float import FORMATS, NAN, flushed
from tests.reference.scalar_integer import Words, clamp, number

_FP8 = {"e4m3x2": conversions.E4M3, "e5m2x2": conversions.E5M2}


def widened_nan(source: Format, target: str, word: int) -> int:
    """What a NaN becomes in a wider or the same format."""
    if source is F64 and target == "f64":
        return word | 1 << 51
    if target == "f64":  # quieted; sign and payload go along
        fraction = source.magnitude(word) - source.infinity | 1 << (source.mbits - 1)
        return (word & source.sign) << (63 - source.width + 1) | F64.infinity | fraction << (52 - source.mbits)
    return NAN[target]


def to_float(mods: list[str], dtype: str, value: Fraction, negative_zero: bool = False) -> int:
    """An exact value in the destination's format, with the modifiers of the result."""
    f = FORMATS[dtype]
    mode = next((m for m in mods if m in MODES), "rn")
    bits: int | None = f.round(value, mode, negative_zero)
    if "ftz" in mods and f is F32:
        bits = flushed(f, value, bits, mode)
    return limited(mods, f, bits)


def limited(mods: list[str], f: Format, bits: int | None) -> int:
    """``.sat``, ``.satfinite`` and ``.relu`` of a result; None is NaN."""
    if "sat" in mods:
        return floats.saturate(f, bits)
    if bits is None:
        return NAN[f.name]
    if "satfinite" in mods and f.is_infinite(bits):
        bits -= 1
    return 0 if "relu" in mods and f.negative(bits) else bits


def between_floats(mods: list[str], dtype: str, t: str, word: int) -> int:
    f, target = FORMATS[t], FORMATS[dtype]
    if "ftz" in mods and f is F32 and dtype != "f16":  # which ptxas drops
        word = f.flush(word)
    integral = next((m for m in mods if m in conversions.INTEGRAL_MODES), None)
    if f.is_nan(word):
        return nan_of(mods, dtype, t, word)
    if f.is_infinite(word):
        return limited(mods, target, target.infinity | (target.sign if f.negative(word) else 0))
    value = f.value(word)
    if integral:
        value = Fraction(conversions.integral(value, integral))
    return to_float([m for m in mods if m != integral], dtype, value, negative_zero=f.negative(word))


def nan_of(mods: list[str], dtype: str, t: str, word: int) -> int:
    """A converted NaN: canonical, except where hardware copies or carries it along."""
    if "sat" in mods:
        return 0
    if dtype == t and not {"ftz", *conversions.INTEGRAL_MODES} & set(mods) and t in ("f32", "f64"):
        return word  # a plain copy
    if (dtype, t) == ("f32", "bf16") and "ftz" not in mods:
        return word << 16
    if (dtype, t) == ("bf16", "f64"):
        return word >> 48 & 0x8000 | 0x7FC0 | word >> 45 & 0x7F
    if (dtype, t) == ("f16", "f64"):
        return word >> 48 & 0x8000 | 0x7E00 | word >> 42 & 0x1FF
    if (dtype, t) == ("f32", "f64"):
        return word >> 32 & 0x80000000 | 0x7FC00000 | word >> 29 & 0x3FFFFF
    if dtype == "f64" and "ftz" in mods:
        return 0x7FFFFFFFE0000000
    return widened_nan(FORMATS[t], dtype, word)


def tf32(mods: list[str], word: int) -> int:
    if "rna" in mods:
        finite = F32.is_finite(word)
        out = (word + (0x1000 if finite else 0)) & 0xFFFFE000
        return out - 0x2000 if "satfinite" in mods and out & F32.infinity == F32.infinity else out
    if "relu" in mods and F32.negative(word) and not F32.is_nan(word):
        return 0
    if F32.is_nan(word):
        return 0x7FFFE000
    narrow = Format("tf32", 8, 10)
    out = word if F32.is_infinite(word) else narrow.round(F32.value(word), mods[0], F32.negative(word)) << 13
    return out - 0x2000 if "satfinite" in mods and F32.is_infinite(out) else out


def to_fp8(mods: list[str], dtype: str, f: Format, word: int) -> int:
    if "relu" in mods and f.negative(word) and not f.is_nan(word):
        word = 0
    return conversions.to_byte(_FP8[dtype], f, word)


def from_fp8(mods: list[str], t: str, code: int) -> int:
    """The f16 of a byte."""
    values, sign = _FP8[t], code & 0x80
    magnitude = code & 0x7F
    if magnitude < len(values):
        bits = FORMATS["f16"].round(values[magnitude], "rn") | sign << 8
    elif t == "e5m2x2" and magnitude == 0x7C:
        bits = 0x7C00 | sign << 8
    else:
        return 0x7FFF
    return 0 if "relu" in mods and sign else bits


def packed(mods: list[str], dtype: str, t: str, words: Words) -> int:
    if dtype in _FP8:
        f = FORMATS["f32" if t == "f32" else "f16"]
        upper, lower = words if t == "f32" else (words[0] >> 16, words[0] & 0xFFFF)
        return to_fp8(mods, dtype, f, upper) << 8 | to_fp8(mods, dtype, f, lower)
    if t in _FP8:
        return from_fp8(mods, t, words[0] >> 8) << 16 | from_fp8(mods, t, words[0] & 0xFF)
    half = dtype.removesuffix("x2")
    upper, lower = (between_floats(mods, half, "f32", w) for w in words)
    return upper << 16 | lower


def pack_integers(t: str, words: Words) -> int:
    """``cvt.pack.sat``."""
    bits = int(t[1:])
    upper, lower = (clamp(t, number("s32", w)) & mask(bits) for w in words[:2])
    rest = words[2] if len(words) == 3 else 0
    return (rest << 2 * bits | upper << bits | lower) & mask(32)


def convert(mods: list[str], words: Words) -> int:
    """The destination word of ``cvt`` with these modifiers and types."""
    if mods[0] == "pack":
        return pack_integers(mods[2], words)
    dtype, t = mods[-2:]
    if dtype == "tf32":
        return tf32(mods, words[0])
    if dtype in _FP8 or dtype.endswith("x2"):
        return packed(mods, dtype, t, words)
    if dtype in FORMATS and t in FORMATS:
        return between_floats(mods[:-2], dtype, t, words[0])
    if dtype in FORMATS:
        return to_float([m for m in mods if m != "ftz"], dtype, Fraction(number(t, words[0])))
    bits = int(dtype[1:])
    if t not in FORMATS:
        value = number(t, words[0])
        return (clamp(dtype, value) if "sat" in mods else value) & mask(bits)
    f = FORMATS[t]
    word = f.flush(words[0]) if "ftz" in mods else words[0]
    nan = 1 << (bits - 1) if f is F64 or bits == 64 else 0
    return conversions.float_to_integer(f, word, mods[0], bits, dtype[0] == "s", nan) & mask(bits)
