"""The element types that arguments can have: PTX's fundamental types and the small floats of the tensor cores.

NumPy has no bf16 and no 8-bit floats, so such arrays are held as unsigned integers of the same width; :mod:`.floats` converts
between their bits and values. Nothing here imports more than NumPy, so that bundles can be recorded on a bare GPU machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

__all__ = ["ALIASES", "DTYPES", "DType", "find_dtype"]

Kind = Literal["float", "signed", "unsigned", "bits"]


@dataclass(frozen=True, slots=True)
class DType:
    """One element type.

    ``storage`` is the NumPy type that holds it. For floats, ``exponent_bits`` and ``fraction_bits`` give the layout below the
    sign bit; ``has_infinity`` is false for e4m3, whose top exponent holds numbers up to 448 and one NaN (PTX ISA, "Alternate
    floating-point data formats").
    """

    name: str
    bits: int
    kind: Kind
    storage: np.dtype[Any]
    exponent_bits: int = 0
    fraction_bits: int = 0
    has_infinity: bool = True

    @property
    def bytes(self) -> int:
        """Size of one element in bytes."""
        return self.bits // 8

    @property
    def is_native(self) -> bool:
        """Whether NumPy itself knows the type (``storage`` holds values, not just bits)."""
        return self.kind != "float" or self.storage.kind == "f"

    def integer_range(self) -> tuple[int, int]:
        """Smallest and largest value of an integer type."""
        if self.kind == "signed":
            return -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1
        return 0, (1 << self.bits) - 1


def _float(name: str, storage: str, exponent_bits: int, fraction_bits: int, has_infinity: bool = True) -> DType:
    bits = 1 + exponent_bits + fraction_bits
    return DType(name, bits, "float", np.dtype(storage), exponent_bits, fraction_bits, has_infinity)


def _integers() -> list[DType]:
    made = []
    for bits in (8, 16, 32, 64):
        made.append(DType(f"s{bits}", bits, "signed", np.dtype(f"<i{bits // 8}")))
        made.append(DType(f"u{bits}", bits, "unsigned", np.dtype(f"<u{bits // 8}")))
        made.append(DType(f"b{bits}", bits, "bits", np.dtype(f"<u{bits // 8}")))
    return made


DTYPES: dict[str, DType] = {
    dtype.name: dtype
    for dtype in [
        _float("f16", "<f2", 5, 10),
        _float("bf16", "<u2", 8, 7),
        _float("f32", "<f4", 8, 23),
        _float("f64", "<f8", 11, 52),
        _float("e4m3", "<u1", 4, 3, has_infinity=False),
        _float("e5m2", "<u1", 5, 2),
        *_integers(),
    ]
}
"""Every type by its name."""

ALIASES: dict[str, str] = {"i8": "s8", "i16": "s16", "i32": "s32", "i64": "s64"}
"""Other spellings that are understood."""


def find_dtype(name: str) -> DType | None:
    """The type called ``name`` (an alias will do), or None."""
    return DTYPES.get(ALIASES.get(name, name))
