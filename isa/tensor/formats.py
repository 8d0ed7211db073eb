"""The number formats of tensor-core operands, as data.

A format says how a bit pattern splits into sign, exponent and fraction. The compiled kernels take these numbers as
arguments and the exact reference reads them directly, so a format is described once.

Source: PTX ISA 5.2.3 (alternate floating-point data formats); IEEE 754-2019 for f16, f32; for e4m3 and e5m2 also the
OCP OFP8 specification 1.0. That tf32 operands lose their low 13 bits before anything else looks at them, NaN payloads
included (0x7F800001 is an infinity), was measured on an H200, driver 580.159.
"""

from __future__ import annotations

from msgspec import Struct

__all__ = ["FLOAT_FORMATS", "INTEGER_BITS", "FloatFormat"]


class FloatFormat(Struct, frozen=True):
    """A binary floating-point format, held in the low ``bits`` of its container.

    ``infinity`` is the magnitude (the bits without the sign) of infinity, or None where the format has none; ``nan``
    the smallest magnitude that is a NaN, which is beyond all of them where there is none. ``ignored_low_bits`` are dropped on
    reading and are not counted in ``fraction_bits``.
    """

    name: str
    bits: int
    exponent_bits: int
    fraction_bits: int
    bias: int
    infinity: int | None
    nan: int
    ignored_low_bits: int = 0

    @property
    def least_exponent(self) -> int:
        """The exponent of the smallest normal number, which the subnormals share."""
        return 1 - self.bias

    @property
    def magnitude_mask(self) -> int:
        """Every bit that counts, but the sign."""
        return ((1 << (self.bits - 1)) - 1) >> self.ignored_low_bits << self.ignored_low_bits


FLOAT_FORMATS = {
    f.name: f
    for f in (
        FloatFormat("f16", 16, 5, 10, 15, infinity=0x7C00, nan=0x7C01),
        FloatFormat("bf16", 16, 8, 7, 127, infinity=0x7F80, nan=0x7F81),
        FloatFormat("tf32", 32, 8, 10, 127, infinity=0x7F800000, nan=0x7F802000, ignored_low_bits=13),
        FloatFormat("e4m3", 8, 4, 3, 7, infinity=None, nan=0x7F),
        FloatFormat("e5m2", 8, 5, 2, 15, infinity=0x7C, nan=0x7D),
        FloatFormat("e2m3", 6, 2, 3, 1, infinity=None, nan=0x20),
        FloatFormat("e3m2", 6, 3, 2, 3, infinity=None, nan=0x20),
        FloatFormat("e2m1", 4, 2, 1, 1, infinity=None, nan=8),
        FloatFormat("f32", 32, 8, 23, 127, infinity=0x7F800000, nan=0x7F800001),
    )
}
"""By PTX name."""

INTEGER_BITS = {"s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1, "s32": 32}
"""The width of each integer operand type, by PTX name."""
