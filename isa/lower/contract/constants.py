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
    if op.type in _FLOATS:
        return _fold_float(op, sources) if op.base in _ARITHMETIC else None
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
    if op.base == "shl" and values[1] < width:
        return values[0] << values[1] & mask
    return None


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
