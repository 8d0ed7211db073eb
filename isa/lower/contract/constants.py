"""Constants that ptxas knows while it compiles: just enough of them to see which guards and branches are decided, and which
factors are immediates. Values do not change here; see
:mod:`isa.lower.contract.folding` for what does."""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable
from typing import Any

from isa.lower.contract.opcodes import Op

__all__ = ["fold", "one_of"]

_ONE = {"f32": 0x3F80_0000, "f64": 0x3FF0_0000_0000_0000, "f16": 0x3C00, "bf16": 0x3F80}
_SIGN = {"f32": 1 << 31, "f64": 1 << 63, "f16": 1 << 15, "bf16": 1 << 15}


def one_of(type_: str, bits: int) -> int:
    """1 if ``bits`` are 1.0 of a scalar floating-point type, -1 for -1.0, else 0. Packed types are not multiplied away."""
    one = _ONE.get(type_)
    if one is None:
        return 0
    return 1 if bits == one else -1 if bits == one | _SIGN[type_] else 0


_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
_BITWISE: dict[str, Callable[[int, int], int]] = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}
_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}
# struct codes of the number and of its bits, and the least normal number.
_FLOATS = {"f32": ("<f", "<I", 2.0**-126), "f64": ("<d", "<Q", 2.0**-1022)}


def fold(op: Op, sources: list[int]) -> int | None:
    """The bits of an instruction's result for constant sources, or None if that is not worked out here."""
    if op.base == "cvt":
        return _convert(op, sources[0])
    if op.type in _FLOATS:
        return _fold_float(op, sources) if op.base in _ARITHMETIC else _turn_sign(op, sources)
    width = 1 if op.type == "pred" else int(op.type[1:]) if op.type[1:].isdigit() else 0
    if not width or op.type[0] not in "usbp":
        return None
    mask = (1 << width) - 1
    values = [_signed(s, width) if op.type[0] == "s" else s & mask for s in sources]
    if op.base == "setp" and len(values) == 2:
        compare = next((_COMPARE[word] for word in op.words if word in _COMPARE), None)
        return None if compare is None else int(compare(values[0], values[1]))
    if op.base in _BITWISE and len(values) == 2:
        return _BITWISE[op.base](values[0], values[1]) & mask
    if op.base == "not":
        return ~values[0] & mask
    if op.base in _ARITHMETIC and len(values) == 2 and op.words.isdisjoint(("hi", "wide", "sat", "cc")):
        return int(_ARITHMETIC[op.base](values[0], values[1])) & mask
    if op.base in ("shl", "shr") and sources[1] < width:
        return (values[0] << sources[1] if op.base == "shl" else values[0] >> sources[1]) & mask
    if op.base in ("min", "max") and len(values) == 2 and op.type[0] in "us" and "relu" not in op.words:
        return (min if op.base == "min" else max)(values[0], values[1]) & mask
    if op.base == "mad" and "lo" in op.words and op.words.isdisjoint(("sat", "cc")):
        return (values[0] * values[1] + values[2]) & mask
    return None


_INTEGERS = {f"{sign}{width}": (sign == "s", width) for sign in "us" for width in (8, 16, 32)}


def _convert(op: Op, source: int) -> int | None:
    """To float32, from integers of at most 32 bits and from float64 rounded to nearest, from float16 exactly."""
    if len(op.types) != 2 or op.types[0] != "f32" or op.sat:
        return None
    code, _integer, least = _FLOATS["f32"]
    if op.type in _INTEGERS and op.rounding == "rn":
        signed, width = _INTEGERS[op.type]
        number = float(_signed(source, width) if signed else source & ((1 << width) - 1))
    elif op.type == "f64" and op.rounding == "rn":
        number = struct.unpack("<d", struct.pack("<Q", source & ((1 << 64) - 1)))[0]
    elif op.type == "f16" and not op.rounding:
        number = struct.unpack("<e", struct.pack("<H", source & 0xFFFF))[0]
    else:
        return None
    try:
        bits = struct.pack(code, number)
    except OverflowError:
        return None
    rounded = struct.unpack(code, bits)[0]
    if not math.isfinite(rounded) or 0 < abs(rounded) < least:
        return None
    return int.from_bytes(bits, "little")


def _turn_sign(op: Op, sources: list[int]) -> int | None:
    """``neg`` and ``abs`` of normal numbers and zeros."""
    sign = _SIGN[op.type]
    code, integer, least = _FLOATS[op.type]
    number = abs(struct.unpack(code, struct.pack(integer, sources[0] & (2 * sign - 1)))[0])
    if op.base not in ("neg", "abs") or not math.isfinite(number) or 0 < number < least:
        return None
    return sources[0] ^ sign if op.base == "neg" else sources[0] & ~sign


def _signed(value: int, width: int) -> int:
    value &= (1 << width) - 1
    return value - (1 << width) if value >> (width - 1) else value


def _fold_float(op: Op, sources: list[int]) -> int | None:
    """Add, sub and mul, rounded to nearest; a result that is NaN, infinite or subnormal is left to run time."""
    if op.rounding not in ("", "rn") or op.sat or len(sources) != 2:
        return None
    code, integer, least = _FLOATS[op.type]
    size = struct.calcsize(code)
    a, b = (struct.unpack(code, struct.pack(integer, s & ((1 << 8 * size) - 1)))[0] for s in sources)
    if not (math.isfinite(a) and math.isfinite(b)):
        return None
    # The sum or product of two float32 is exact in double or rounds to it without harm (53 >= 2 * 24 + 2 bits).
    result: float = _ARITHMETIC[op.base](a, b)
    try:
        bits = struct.pack(code, result)
    except OverflowError:
        return None
    result = struct.unpack(code, bits)[0]
    if not math.isfinite(result) or 0 < abs(result) < least:
        return None
    return int.from_bytes(bits, "little")
