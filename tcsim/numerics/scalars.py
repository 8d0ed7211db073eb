"""Single numbers of PTX types: bits to values and back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from isa.tensor.formats import FLOAT_FORMATS, INTEGER_BITS
from isa.tensor.reference import decode
from tcsim.bundle.dtypes import DTYPES
from tcsim.bundle.floats import encode
from tcsim.numerics.operands import OperandError, to_bits

__all__ = ["INTEGERS", "bits_text", "fraction_of", "integer_of", "number_text", "read_numbers", "value_of"]

INTEGERS = frozenset(INTEGER_BITS)
_MOST = 1 << 16  # numbers that a row may have
_PLAIN = ("float64", "int64", "object")  # what NumPy makes of Python's numbers, which are values to be rounded


def _width(ptx_type: str) -> int:
    if ptx_type == "f64":
        return 64
    return FLOAT_FORMATS[ptx_type].bits if ptx_type in FLOAT_FORMATS else INTEGER_BITS[ptx_type]


def integer_of(bits: int, ptx_type: str) -> int:
    """The value of an integer type's bits."""
    width = INTEGER_BITS[ptx_type]
    return bits - (1 << width) if ptx_type.startswith("s") and bits >> (width - 1) else bits


def fraction_of(bits: int, ptx_type: str) -> Fraction | None:
    """The exact value; None for an infinity or NaN."""
    if ptx_type in INTEGERS:
        return Fraction(integer_of(bits, ptx_type))
    number = decode(bits, ptx_type)
    if number.kind != "finite":
        return None
    return (-1 if number.negative else 1) * Fraction(number.significand) * Fraction(2) ** number.unit


def value_of(bits: int, ptx_type: str) -> float:
    """The value as a float64, which every one of these types fits; an integer as an int."""
    if ptx_type in INTEGERS:
        return integer_of(bits, ptx_type)
    number = decode(bits, ptx_type)
    if number.kind == "finite":
        magnitude = float(Fraction(number.significand) * Fraction(2) ** number.unit)
    else:
        magnitude = math.inf if number.kind == "infinite" else math.nan
    return -magnitude if number.negative else magnitude


def bits_text(bits: int, ptx_type: str) -> str:
    """In hexadecimal, as many digits as the type has."""
    return f"0x{bits:0{-(-_width(ptx_type) // 4)}x}"


def number_text(bits: int, ptx_type: str) -> str:
    """Bits and exact value, such as ``3C01=1025*2^-10``; of integers the value."""
    if ptx_type in INTEGERS:
        return str(integer_of(bits, ptx_type))
    x = decode(bits, ptx_type)
    sign = "-" if x.negative else ""
    finite = f"{x.significand}*2^{x.unit}" if x.significand else "0"
    return f"{bits:0{_width(ptx_type) // 4}X}=" + {"nan": "NaN", "infinite": f"{sign}Inf"}.get(x.kind, sign + finite)


def read_numbers(values: Any, ptx_type: str, what: str) -> tuple[list[int], list[str]]:
    """The bits of a row of numbers, and a note for each that had to be rounded.

    ``values``: a NumPy array of the type (or of its bits, where that is a floating-point one); otherwise a sequence of numbers
    and of texts, of which ``0x...`` are bits. Raises OperandError.
    """
    if isinstance(values, np.ndarray) and (ptx_type == "f64" or values.dtype.name not in _PLAIN):
        bits = to_bits(values, ptx_type, what, f"the operand of {ptx_type}")
        return [int(x) for x in bits.ravel()], []
    if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray):
        raise OperandError(f"{what} must be a sequence of numbers, or of bits such as '0x3c00'")
    if not 0 < len(values) <= _MOST:
        raise OperandError(f"{what} has {len(values)} numbers; one output element takes 1 to {_MOST}")
    found, notes = [], []
    for index, value in enumerate(values):
        name = f"{what}[{index}]" if len(values) > 1 else what
        bits_, exact = _read(value, ptx_type, name)
        found.append(bits_)
        if not exact:
            notes.append(f"{name} = {value} is {value_of(bits_, ptx_type)!r} in {ptx_type}")
    return found, notes


def _read(value: Any, ptx_type: str, name: str) -> tuple[int, bool]:
    """Bits, and whether they are the number that was given."""
    width = _width(ptx_type)
    text = value.strip().lower() if isinstance(value, str) else ""
    try:
        if text.startswith("0x"):
            bits = int(text, 16)
            if bits >> width:
                raise OperandError(f"{name} = {value} has more than the {width} bits of {ptx_type}")
            return bits, True
        if ptx_type in INTEGERS:
            return _read_integer(value, ptx_type, name), True
        number = float(value)
    except (TypeError, ValueError):
        raise OperandError(f"{name} = {value!r} is no number; give numbers, or bits such as 0x3c00") from None
    if ptx_type == "f64":
        return int(np.float64(number).view(np.uint64)), True
    if ptx_type not in DTYPES and ptx_type != "tf32":
        bits = _nearest_code(number, ptx_type)
        return bits, value_of(bits, ptx_type) == number
    stored = encode(np.array([number]), DTYPES["f32" if ptx_type == "tf32" else ptx_type])
    bits = int(stored.view(f"u{stored.itemsize}")[0])
    if ptx_type == "tf32" and math.isfinite(number):  # to nearest even, on the 13 bits that tf32 lacks
        bits = bits + 0xFFF + (bits >> 13 & 1) & ~0x1FFF
    got = value_of(bits, ptx_type)
    return bits, got == number or (math.isnan(got) and math.isnan(number))


def _nearest_code(number: float, ptx_type: str) -> int:
    """The code of a format without infinity and NaN that is nearest, ties to even; beyond them the largest, as ``cvt`` does."""
    sign = 1 << (_width(ptx_type) - 1)
    if math.isnan(number):
        return sign - 1
    size = abs(number)
    code = min(range(sign), key=lambda c: (abs(value_of(c, ptx_type) - size) if size < math.inf else -c, c & 1))
    return code | (sign if math.copysign(1.0, number) < 0 else 0)


def _read_integer(value: Any, ptx_type: str, name: str) -> int:
    number = int(value)
    width = INTEGER_BITS[ptx_type]
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if ptx_type.startswith("s") else (0, (1 << width) - 1)
    if number != float(value) or not low <= number <= high:
        raise OperandError(f"{name} = {value} is not in {ptx_type}, whole numbers from {low} to {high}")
    return number & ((1 << width) - 1)
