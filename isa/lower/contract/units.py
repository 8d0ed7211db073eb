"""The special-function unit as ptxas evaluates it at compile time: correctly rounded values, not the unit's own.

ptxas works out ``rcp``, ``rsqrt``, ``sqrt``, ``lg2``, ``ex2``, ``sin`` and ``cos`` of a constant in double precision and rounds
once to float32, but scales what the unit flushes as it does at run time; ``tanh`` it leaves to run time, and everything that is
or becomes NaN. (Compared with the immediates that ptxas 13.0 puts into machine code: no difference in 7500 constants.)
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

__all__ = ["UNITS", "evaluate", "reciprocal"]

_SIGN = 0x8000_0000
_INFINITY = 0x7F80_0000
_LEAST_NORMAL = 0x0080_0000
_TWO126 = 0x7E80_0000
_TWO24, _QUARTER = 2.0**24, 0.25
_LEAST_EXPONENT = -126.0

UNITS: dict[str, Callable[[float], float]] = {
    "rcp": lambda x: 1.0 / x,
    "rsqrt": lambda x: 1.0 / math.sqrt(x),
    "sqrt": math.sqrt,
    "lg2": math.log2,
    "ex2": lambda x: 2.0**x,
    "sin": math.sin,
    "cos": math.cos,
}


def _number(bits: int) -> float:
    value: float = struct.unpack("<f", struct.pack("<I", bits))[0]
    return value


def _bits(number: float) -> int:
    """float32 bits of a double, rounded to nearest even, infinite if it is too large."""
    try:
        return int.from_bytes(struct.pack("<f", number), "little")
    except OverflowError:
        return _INFINITY | (_SIGN if number < 0 else 0)


def evaluate(unit: str, bits: int, ftz: bool) -> int | None:
    """The float32 bits of a unit's value at a constant; None if that is left to run time.

    Zeros, infinities and NaN are left too: there the unit gives the same.
    """
    magnitude = bits & ~_SIGN
    if magnitude == 0 or magnitude >= _INFINITY or (ftz and magnitude < _LEAST_NORMAL):
        return None
    if bits & _SIGN and unit in ("rsqrt", "sqrt", "lg2"):
        return None
    if unit == "sin" and magnitude < _LEAST_NORMAL:
        return bits & _SIGN
    number = _number(bits)
    try:
        if unit == "lg2" and magnitude < _LEAST_NORMAL:  # scaled, as at run time, and rounded twice
            value = _bits(_number(_bits(math.log2(number * _TWO24))) - 24.0)
        elif unit == "ex2" and not ftz and number < _LEAST_EXPONENT:
            half = _number(_bits(2.0 ** (number / 2)))
            value = _bits(half * half)
        else:
            value = _bits(UNITS[unit](number))
    except OverflowError:
        value = _INFINITY
    return value & _SIGN if ftz and value & ~_SIGN < _LEAST_NORMAL else value


def reciprocal(bits: int, tiny: bool, huge: bool) -> tuple[int | None, int] | None:
    """How a division by a constant is done: (bits of the numerator's scale or None, bits of the factor); None for NaN.

    tiny: scale for subnormal divisors. huge: scale for divisors above 2^126, whose reciprocal would otherwise be flushed.
    """
    magnitude, sign = bits & ~_SIGN, bits & _SIGN
    if magnitude > _INFINITY:
        return None
    scale = None
    if huge and magnitude > _TWO126:
        scale = _QUARTER
    elif magnitude < _LEAST_NORMAL:
        if tiny:
            scale = _TWO24
        else:
            magnitude = 0
    number = abs(_number(magnitude)) * (scale or 1.0)
    factor = _INFINITY if number == 0.0 else _bits(1.0 / number)
    if factor < _LEAST_NORMAL:
        factor = 0
    return (None if scale is None else _bits(scale)), sign | factor
