"""The values of a kernel: what one definition puts into a register, and how values are made of each other."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = [
    "ABS",
    "CONST",
    "DEF",
    "FLUSH",
    "FORWARD",
    "MERGE",
    "NEG",
    "OTHER",
    "PACK",
    "PHI",
    "PIECE",
    "UNDEF",
    "UNDEFINED",
    "Value",
    "resolve",
]

# Kinds of value.
UNDEF = 0  # read before any write
CONST = 1  # ``bits``
OTHER = 2  # a special register, or the address of a symbol
DEF = 3  # destination number ``slot`` of instruction ``instr``
PHI = 4  # one of ``parts``, by the way that led to block ``instr``
MERGE = 5  # a guarded write by ``instr``: parts[0] if the guard holds, else parts[1]
PACK = 6  # ``parts`` side by side, the first lowest, ``bits`` wide each
PIECE = 7  # piece ``slot`` of parts[0], ``bits`` wide, of ``instr`` pieces
NEG = 8  # parts[0] with its sign changed by instruction ``instr``
FLUSH = 9  # parts[0] with subnormals flushed by instruction ``instr``
ABS = 10  # the absolute value, by instruction ``instr``, of a square parts[0]
FORWARD = 11  # nothing but parts[0]: a join that one value reaches


class Value:
    """What a register holds from one definition on. Equal by identity; the kinds above say which fields mean what."""

    __slots__ = ("bits", "instr", "kind", "parts", "seen", "slot")

    def __init__(self, kind: int, instr: int = -1, slot: int = 0, bits: int = 0, parts: Sequence[Value] = ()) -> None:
        self.kind, self.instr, self.slot, self.bits, self.parts = kind, instr, slot, bits, parts
        self.seen = False


def resolve(value: Value) -> Value:
    """The value itself: joins of one value, and packing undone by unpacking, are looked through."""
    while value.kind == FORWARD:
        value = value.parts[0]
    if value.kind == PIECE:
        return _piece(value)
    if value.kind == PACK:
        return _pack(value)
    return value


def _becomes(value: Value, other: Value) -> Value:
    if other is not value:
        value.kind, value.parts = FORWARD, (other,)
    return other


def _piece(value: Value) -> Value:
    whole = resolve(value.parts[0])
    count, slot = value.instr, value.slot
    if whole.kind == CONST:
        return _becomes(value, Value(CONST, bits=(whole.bits >> (slot * value.bits)) & ((1 << value.bits) - 1)))
    if whole.kind == PACK:
        held = len(whole.parts)
        if held == count:
            return _becomes(value, resolve(whole.parts[slot]))
        if count > held and count % held == 0:
            each = count // held
            inner = Value(PIECE, each, slot % each, value.bits, (whole.parts[slot // each],))
            return _becomes(value, resolve(inner))
        if held > count and held % count == 0:
            each = held // count
            inner = Value(PACK, bits=whole.bits, parts=whole.parts[slot * each : (slot + 1) * each])
            return _becomes(value, resolve(inner))
    return value


def _pack(value: Value) -> Value:
    parts = [resolve(part) for part in value.parts]
    value.parts = parts
    first = parts[0]
    if first.kind == PIECE and first.instr == len(parts) and first.slot == 0:
        whole = first.parts[0]
        if all(p.kind == PIECE and p.parts[0] is whole and p.slot == i for i, p in enumerate(parts)):
            return _becomes(value, resolve(whole))
    if all(part.kind == CONST for part in parts):
        mask = (1 << value.bits) - 1
        bits = sum((part.bits & mask) << (i * value.bits) for i, part in enumerate(parts))
        return _becomes(value, Value(CONST, bits=bits))
    return value


UNDEFINED = Value(UNDEF)
