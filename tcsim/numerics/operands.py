"""NumPy arrays to bit patterns of PTX types and back."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tcsim.array import asnumpy
from tcsim.errors import TcsimError, UndefinedOperandWarning

__all__ = ["OperandError", "UndefinedOperandWarning", "check_defined", "from_bits", "to_bits"]


class OperandError(TcsimError):
    """An operand has another type or shape than the instruction takes."""


class _Accepted(NamedTuple):
    """NumPy types, by name, that hold a PTX type's values; the unsigned integer that may hold its bits; how to get there."""

    values: tuple[str, ...]
    bits: str
    hint: str


_ACCEPTED = {
    "f16": _Accepted(("float16",), "uint16", ".astype(np.float16)"),
    "bf16": _Accepted(("bfloat16",), "uint16", ".astype(ml_dtypes.bfloat16)"),
    "tf32": _Accepted(("float32",), "uint32", ".astype(np.float32)"),
    "e4m3": _Accepted(("float8_e4m3fn",), "uint8", ".astype(ml_dtypes.float8_e4m3fn)"),
    "e5m2": _Accepted(("float8_e5m2",), "uint8", ".astype(ml_dtypes.float8_e5m2)"),
    "e2m3": _Accepted(("float6_e2m3fn",), "uint8", ".astype(ml_dtypes.float6_e2m3fn)"),
    "e3m2": _Accepted(("float6_e3m2fn",), "uint8", ".astype(ml_dtypes.float6_e3m2fn)"),
    "e2m1": _Accepted(("float4_e2m1fn",), "uint8", ".astype(ml_dtypes.float4_e2m1fn)"),
    "f32": _Accepted(("float32",), "uint32", ".astype(np.float32)"),
    "f64": _Accepted(("float64",), "uint64", ".astype(np.float64)"),
    "s32": _Accepted(("int32",), "", ".astype(np.int32)"),
    "s8": _Accepted(("int8",), "", ".astype(np.int8)"),
    "u8": _Accepted(("uint8",), "", ".astype(np.uint8)"),
    "s4": _Accepted(("int4", "int8"), "", ".astype(np.int8)"),
    "u4": _Accepted(("uint4", "uint8"), "", ".astype(np.uint8)"),
    "b1": _Accepted(("bool", "uint8"), "", ".astype(bool)"),
}
_RANGES = {"s4": (-8, 7), "u4": (0, 15), "b1": (0, 1)}
_BITS_OF_S4 = 0xF
_SMALL = {"e2m3": 6, "e3m2": 6, "e2m1": 4}


def to_bits(array: Any, ptx_type: str, what: str, instruction: str) -> NDArray[Any]:
    """The bit patterns of an operand: uint64 for f64, else uint32.

    Values must come in the type itself; of floating-point types the bits will also do, in an unsigned integer of that width.
    Nothing is rounded here. ``what`` and ``instruction`` are for the message of the OperandError.
    """
    given = np.asarray(asnumpy(array))
    accepted = _ACCEPTED[ptx_type]
    name = given.dtype.name
    if name not in (*accepted.values, accepted.bits):
        also = f", or its bits as {accepted.bits}" if accepted.bits else ""
        raise OperandError(
            f"{what} is {name}, and {instruction} takes {ptx_type} there: {' or '.join(accepted.values)}{also}. "
            f"Convert it yourself, so that you see the rounding: {what}{accepted.hint}"
        )
    values = np.ascontiguousarray(given, dtype=given.dtype.newbyteorder("="))
    if ptx_type in _RANGES:
        small = values.astype(np.int8 if ptx_type == "s4" else np.uint8)
        low, high = _RANGES[ptx_type]
        outside = (small < low) | (small > high)
        if outside.any():
            at = tuple(int(i) for i in np.argwhere(outside)[0])
            raise OperandError(f"{what}[{', '.join(map(str, at))}] is {small[at]}; {ptx_type} goes from {low} to {high}")
        return (small.view(np.uint8) & _BITS_OF_S4).astype(np.uint32)
    width = values.dtype.itemsize
    unsigned = values.view(f"u{width}") if values.size else values.astype(f"u{width}")
    if ptx_type in _SMALL and values.size and int(unsigned.max()) >> _SMALL[ptx_type]:
        raise OperandError(f"{what} has bits above the {_SMALL[ptx_type]} of {ptx_type}: one element a byte, in its low bits")
    return unsigned if width == 8 else unsigned.astype(np.uint32)


def from_bits(bits: NDArray[Any], ptx_type: str) -> NDArray[Any]:
    """Accumulators as NumPy values: float32, float16, int32 or float64."""
    if ptx_type == "f16":
        return bits.astype(np.uint16).view(np.float16)
    return np.ascontiguousarray(bits).view({"f32": np.float32, "s32": np.int32, "f64": np.float64}[ptx_type])


def check_defined(bits: NDArray[Any], ptx_type: str, what: str) -> None:
    """Warn of tf32 operands with live low bits: PTX does not define them; hardware drops them (measured on an H200)."""
    if ptx_type != "tf32":
        return
    live = (bits & 0x1FFF) != 0
    if live.any():
        at = ", ".join(str(int(i)) for i in np.argwhere(live)[0])
        warnings.warn(
            f"{what} has {int(live.sum())} elements with bits below those of tf32, the first at [{at}]; PTX leaves what "
            "becomes of them undefined, an H200 drops them. Round as cvt.rna.tf32.f32 does, or clear the low 13 bits",
            UndefinedOperandWarning,
            stacklevel=4,
        )
