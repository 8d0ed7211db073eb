"""Block scales: arrays and numbers to codes of ``ue8m0`` and ``ue4m3``.

``ue8m0`` is a power of two, 2^(code - 127), and 255 is NaN; ``ue4m3`` is e4m3 without its sign (PTX ISA 5.2.3, 9.7.14.3).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.tensor.scaled_reference import decode_scale
from tcsim.array import asnumpy
from tcsim.numerics.instructions import TensorInstruction
from tcsim.numerics.operands import OperandError

__all__ = ["ONE", "read_scales", "scale_codes", "scale_text", "scale_value"]

_STORED = {"ue8m0": "float8_e8m0fnu", "ue4m3": "float8_e4m3fn"}

ONE = {"ue8m0": 127, "ue4m3": 0x38}
"""The code of 1."""


def scale_value(code: int, scale_type: str) -> Fraction | None:
    """The exact value of a code; None for NaN."""
    number = decode_scale(code, scale_type)
    return None if number.kind != "finite" else Fraction(number.significand) * Fraction(2) ** number.unit


def scale_text(code: int, scale_type: str) -> str:
    """A scale as people read it: a power of two as such."""
    if scale_type == "ue8m0":
        return "NaN" if code == 255 else f"2^{code - 127}"
    value = scale_value(code, scale_type)
    return "NaN" if value is None else f"{float(value):g}"


def _refuse(what: str, given: str, instruction: TensorInstruction) -> OperandError:
    own = instruction.own
    return OperandError(
        f"{what} is {given}; {instruction.name} takes an {own.scale_type} scale for each {instruction.block} elements of "
        f"{'a row of A' if what == 'scale_a' else 'a column of B'}: {_STORED[own.scale_type]} of ml_dtypes, or codes as uint8"
    )


def scale_codes(scales: Any, what: str, shape: tuple[int, int], instruction: TensorInstruction) -> NDArray[np.uint8]:
    """The codes of an array of scales of this ``shape``. ``what`` is ``scale_a`` or ``scale_b``. Raises OperandError."""
    if scales is None:
        raise _refuse(what, "missing", instruction)
    given = np.asarray(asnumpy(scales))
    if given.dtype.name not in ("uint8", _STORED[instruction.own.scale_type]):
        raise _refuse(what, given.dtype.name, instruction)
    if given.shape != shape:
        raise _refuse(what, f"{' x '.join(map(str, given.shape))} and should be {shape[0]} x {shape[1]}", instruction)
    return np.ascontiguousarray(given).view(np.uint8).reshape(shape)


def read_scales(values: Any, what: str, count: int, instruction: TensorInstruction) -> list[int]:
    """The codes of the ``count`` scales of one row or column: numbers that the type has, or texts such as ``"0x7f"``, which are
    codes; or an array as :func:`scale_codes` takes. Raises OperandError."""
    if values is None:
        raise _refuse(what, "missing", instruction)
    if isinstance(values, np.ndarray) and values.dtype.kind not in "if":
        return [int(x) for x in scale_codes(values.reshape(1, -1), what, (1, count), instruction)[0]]
    if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray) or len(values) != count:
        many = f"{len(values)} numbers, and should be {count}" if hasattr(values, "__len__") else repr(values)
        raise _refuse(what, many, instruction)
    return [_code(value, f"{what}[{i}]", instruction.own.scale_type) for i, value in enumerate(values)]


def _code(value: Any, name: str, scale_type: str) -> int:
    text = value.strip().lower() if isinstance(value, str) else ""
    try:
        if text.startswith("0x"):
            code = int(text, 16)
            if code < 256:
                return code
        number = float(value)
    except (TypeError, ValueError):
        raise OperandError(f"{name} = {value!r} is no number; give numbers, or codes such as 0x7f") from None
    if math.isnan(number):
        return 255 if scale_type == "ue8m0" else 0x7F
    codes = range(256 if scale_type == "ue8m0" else 128) if math.isfinite(number) else ()
    found = [code for code in codes if scale_value(code, scale_type) == Fraction(number)]
    if not found:
        there = "powers of two from 2^-127 to 2^127" if scale_type == "ue8m0" else "e4m3 numbers from 0 to 448"
        raise OperandError(f"{name} = {value} is not in {scale_type}: {there}")
    return found[0]
