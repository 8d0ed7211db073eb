"""PTX conversions on bit patterns and integers, exactly."""

from __future__ import annotations

import math
from fractions import Fraction

from tests.reference.formats import RM, RN, RP, RZ, Format, rounds_up

INTEGRAL_MODES = {"rni": RN, "rzi": RZ, "rmi": RM, "rpi": RP}


def integral(value: Fraction, mode: str) -> int:
    """The integer that ``value`` rounds to ("rni", "rzi", "rmi" or "rpi")."""
    magnitude = abs(value)
    whole = math.floor(magnitude)
    whole += rounds_up(magnitude - whole, whole & 1 == 1, value < 0, INTEGRAL_MODES[mode])
    return -whole if value < 0 else whole


def limits(bits: int, signed: bool) -> tuple[int, int]:
    """Least and greatest integer of a type."""
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)


def float_to_integer(f: Format, word: int, mode: str, bits: int, signed: bool, nan: int) -> int:
    """``cvt`` from floating to integer: rounded, clamped; ``nan`` for NaN."""
    least, greatest = limits(bits, signed)
    if f.is_nan(word):
        return nan
    if f.is_infinite(word):
        return least if f.negative(word) else greatest
    return min(max(integral(f.value(word), mode), least), greatest)


def narrow(source: Format, target: Format, word: int, mode: str) -> int | None:
    """``cvt`` between floating formats; ``None`` for NaN."""
    if source.is_nan(word):
        return None
    if source.is_infinite(word):
        return target.infinity | (target.sign if source.negative(word) else 0)
    return target.round(source.value(word), mode, negative_zero=source.negative(word))


def byte_values(ebits: int, mbits: int, greatest: int) -> list[Fraction]:
    """Values of the non-negative codes 0 to ``greatest`` of an 8-bit format."""
    f = Format("byte", ebits, mbits)
    # Decode by hand: e4m3 uses the top exponent for numbers.
    out = []
    for code in range(greatest + 1):
        exponent, fraction = code >> mbits, code & ((1 << mbits) - 1)
        significand = fraction if exponent == 0 else fraction | 1 << mbits
        out.append(Fraction(significand) * Fraction(2) ** (max(exponent, 1) - f.bias - mbits))
    return out


E4M3 = byte_values(4, 3, 0x7E)
E5M2 = byte_values(5, 2, 0x7B)


def to_byte(values: list[Fraction], source: Format, word: int) -> int:
    """``cvt.rn.satfinite`` to an 8-bit format with the given values: the nearest code, ties to the even one."""
    if source.is_nan(word):
        return 0x7F
    sign = 0x80 if source.negative(word) else 0
    if source.is_infinite(word):
        return sign | (len(values) - 1)
    x = abs(source.value(word))
    if x >= values[-1]:
        return sign | (len(values) - 1)
    low = max(code for code in range(len(values)) if values[code] <= x)
    below, above = x - values[low], values[low + 1] - x
    return sign | (low if below < above or (below == above and low % 2 == 0) else low + 1)
