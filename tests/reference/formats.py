"""IEEE-like binary formats as bit patterns: decoding to exact rationals and rounding back, in any mode."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

RN, RZ, RM, RP = "rn", "rz", "rm", "rp"
MODES = (RN, RZ, RM, RP)


@dataclass(frozen=True)
class Format:
    """A sign bit, ``ebits`` of exponent, ``mbits`` of fraction; the top exponent is infinity and NaN."""

    name: str
    ebits: int
    mbits: int

    @property
    def width(self) -> int:
        return 1 + self.ebits + self.mbits

    @property
    def sign(self) -> int:
        return 1 << (self.ebits + self.mbits)

    @property
    def infinity(self) -> int:
        return ((1 << self.ebits) - 1) << self.mbits

    @property
    def bias(self) -> int:
        return (1 << (self.ebits - 1)) - 1

    @property
    def least_exponent(self) -> int:
        """Exponent of the least normal number."""
        return 1 - self.bias

    def magnitude(self, bits: int) -> int:
        return bits & (self.sign - 1)

    def negative(self, bits: int) -> bool:
        return bool(bits & self.sign)

    def is_nan(self, bits: int) -> bool:
        return self.magnitude(bits) > self.infinity

    def is_infinite(self, bits: int) -> bool:
        return self.magnitude(bits) == self.infinity

    def is_finite(self, bits: int) -> bool:
        return self.magnitude(bits) < self.infinity

    def is_zero(self, bits: int) -> bool:
        return self.magnitude(bits) == 0

    def is_subnormal(self, bits: int) -> bool:
        return 0 < self.magnitude(bits) < 1 << self.mbits

    def value(self, bits: int) -> Fraction:
        """Exact value of finite bits."""
        exponent, fraction = self.magnitude(bits) >> self.mbits, bits & ((1 << self.mbits) - 1)
        if exponent:
            fraction |= 1 << self.mbits
        scale = Fraction(2) ** (max(exponent, 1) - self.bias - self.mbits)
        return -fraction * scale if self.negative(bits) else fraction * scale

    def round(self, value: Fraction, mode: str = RN, negative_zero: bool = False) -> int:
        """Bits of an exact value rounded in ``mode``; ``negative_zero`` is the sign of an exact zero."""
        if value == 0:
            return self.sign if negative_zero else 0
        negative = value < 0
        exponent = max(floor_log2(abs(value)), self.least_exponent)
        steps = abs(value) / Fraction(2) ** (exponent - self.mbits)
        whole = steps.numerator // steps.denominator
        whole += rounds_up(steps - whole, whole & 1 == 1, negative, mode)
        # The biased exponent field is added, so that a carry of the significand moves to the next binade.
        bits = whole + ((exponent - self.least_exponent) << self.mbits)
        if bits >= self.infinity:
            to_infinity = mode == RN or mode == (RM if negative else RP)
            bits = self.infinity - (not to_infinity)
        return bits | self.sign if negative else bits

    def flush(self, bits: int) -> int:
        """Subnormal to zero of the same sign."""
        return bits & self.sign if self.is_subnormal(bits) else bits


F16, BF16, F32, F64 = Format("f16", 5, 10), Format("bf16", 8, 7), Format("f32", 8, 23), Format("f64", 11, 52)


def floor_log2(x: Fraction) -> int:
    """Exponent ``e`` with ``2**e <= x < 2**(e + 1)``."""
    e = x.numerator.bit_length() - x.denominator.bit_length()
    return e if x >= Fraction(2) ** e else e - 1


def rounds_up(rest: Fraction, odd: bool, negative: bool, mode: str) -> bool:
    """Whether the magnitude moves to the next step, for a remainder in [0, 1)."""
    if mode == RN:
        return rest > Fraction(1, 2) or (rest == Fraction(1, 2) and odd)
    return rest > 0 and mode == (RM if negative else RP)


def root(x: Fraction) -> Fraction:
    """The square root if it is rational, else a rational that rounds as it does to any format here, in any mode."""
    scaled = x.numerator * x.denominator << 400
    whole = math.isqrt(scaled)
    low = Fraction(2 * whole + (whole * whole != scaled), 2)
    return low / (x.denominator << 200)
