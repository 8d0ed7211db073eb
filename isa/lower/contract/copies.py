"""Instructions that only carry a value on: ptxas looks through them before it contracts anything.

Moves, packing and unpacking, negations, multiplications by one, ``max(x, x)``, selections between equals, flushes, and the
integer identities that leave all bits in place. (Each was found by whether a product behind it still fuses, with ptxas 13.0;
64-bit registers are pairs of 32-bit ones to ptxas.)
"""

from __future__ import annotations

from isa.lower.contract.constants import one_of
from isa.lower.contract.opcodes import FLOAT_TYPES, Op
from isa.lower.contract.values import CONST, FLUSH, NEG, OTHER, PACK, PIECE, UNDEFINED, Value, resolve
from isa.lower.ir import Arg, VReg

__all__ = ["carried"]

_MAX_TYPES = frozenset({"f32", "f64", "f16"})


def carried(index: int, op: Op, read: list[Value], place: int, count: int, target: Arg) -> Value | None:
    """What destination register ``place`` (of ``count``) of instruction ``index`` carries on, None if it computes something."""
    base = op.base
    if base == "mov":
        return _moved(index, op, read, place, count, target)
    if base == "neg":
        return Value(NEG, index, parts=read) if op.floating and op.type != "bf16x2" else None
    if base == "mul":
        return _times_one(index, op, read) if op.type in FLOAT_TYPES and not op.rounding and not op.sat else None
    if base in ("max", "min"):
        plain = op.type in _MAX_TYPES and op.words <= {"ftz", op.type}
        return _flushed(index, op, read[0]) if plain and resolve(read[0]) is resolve(read[1]) else None
    if base == "cvt":
        return _converted(index, op, read)
    if base == "selp":
        return read[0] if resolve(read[0]) is resolve(read[1]) else None
    if base in ("and", "or", "xor", "add", "shl", "shr") and op.type not in FLOAT_TYPES and len(read) > 1:
        return _integer_identity(base, op, resolve(read[0]), resolve(read[1]))
    return None


def _moved(index: int, op: Op, read: list[Value], place: int, count: int, target: Arg) -> Value:
    if count > 1:
        if type(target) is not VReg:
            return UNDEFINED
        return resolve(Value(PIECE, count, place, target.type.bits, read))
    if len(read) > 1:
        return resolve(Value(PACK, bits=int(op.type[1:]) // len(read), parts=read))
    return read[0] if read[0].kind != OTHER else Value(OTHER, index)


def _flushed(index: int, op: Op, value: Value) -> Value:
    return Value(FLUSH, index, parts=(value,)) if op.ftz else value


def _times_one(index: int, op: Op, read: list[Value]) -> Value | None:
    for constant, other in ((resolve(read[1]), read[0]), (resolve(read[0]), read[1])):
        if constant.kind == CONST:
            sign = one_of(op.type, constant.bits)
            if sign and resolve(other).kind != CONST:
                value = _flushed(index, op, other)
                return value if sign > 0 else Value(NEG, index, parts=(value,))
    return None


def _converted(index: int, op: Op, read: list[Value]) -> Value | None:
    if op.types == ("f32", "f32"):
        return _flushed(index, op, read[0]) if op.words <= {"ftz", "f32"} else None
    if len(op.types) != 2 or op.types[0][0] == "f" or op.types[1][0] == "f" or "sat" in op.words:
        return None
    if op.types[1] in ("u64", "s64", "b64") and op.types[0] in ("u32", "s32", "b32"):
        return resolve(Value(PIECE, 2, 0, 32, read))
    if op.types[1] in ("u32", "b32") and op.types[0] in ("u64", "s64", "b64"):
        return _pair(read[0], Value(CONST))
    return None


def _pair(low: Value, high: Value) -> Value:
    return resolve(Value(PACK, bits=32, parts=(low, high)))


def _integer_identity(base: str, op: Op, a: Value, b: Value) -> Value | None:
    if base in ("and", "or") and a is b:
        return a
    if base in ("or", "xor", "add", "shl", "shr") and b.kind == CONST and b.bits == 0:
        return a
    if base in ("or", "xor", "add") and a.kind == CONST and a.bits == 0:
        return b
    if op.type not in ("u64", "b64"):
        return None
    if base in ("shl", "shr") and b.kind == CONST and b.bits == 32:
        half = resolve(Value(PIECE, 2, int(base == "shr"), 32, (a,)))
        return _pair(Value(CONST), half) if base == "shl" else _pair(half, Value(CONST))
    if base == "or" and a.kind == PACK and b.kind == PACK and len(a.parts) == len(b.parts) == 2:
        return _joined(a, b)
    return None


def _joined(a: Value, b: Value) -> Value | None:
    """``or`` of two pairs whose halves do not overlap."""
    halves = []
    for x, y in zip(map(resolve, a.parts), map(resolve, b.parts), strict=True):
        if y.kind == CONST and y.bits == 0:
            halves.append(x)
        elif x.kind == CONST and x.bits == 0:
            halves.append(y)
        else:
            return None
    return _pair(halves[0], halves[1])
