"""Whether the operands of the text fit those of a form, and what constants are."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from isa.ptx import ast
from isa.spec.registry import Form, ResolvedOperand
from isa.types import ScalarType

__all__ = ["Mismatch", "immediate_bits", "match_operands", "names_in"]


class Mismatch(str):
    """Why operands do not fit. ``fitting``: how many of them did."""

    fitting: int

    def __new__(cls, why: str, fitting: int) -> Mismatch:
        made = super().__new__(cls, why)
        made.fitting = fitting
        return made


def names_in(operands: tuple[ast.Operand, ...]) -> Iterator[str]:
    """Every name in operands, those inside addresses, vectors and lists included."""
    for operand in operands:
        if isinstance(operand, ast.Name):
            yield operand.name
        elif isinstance(operand, ast.Address) and isinstance(operand.base, ast.Name):
            yield operand.base.name
        elif isinstance(operand, ast.Offset | ast.Element):
            yield operand.name
        elif isinstance(operand, ast.Vector | ast.Group):
            yield from names_in(operand.elements)


def match_operands(form: Form, given: tuple[ast.Operand, ...]) -> dict[str, ast.Operand | None] | Mismatch:
    """Pair the text's operands with a form's, or say why they do not fit."""
    plain = _plain_counts(form)
    if plain is not None and len(plain) == len(given):
        for wanted, operand in zip(plain.values(), given, strict=True):
            kind = type(operand)
            if wanted == 1 if kind in _SCALARS else wanted == _ADDRESS if kind is ast.Address else False:
                continue
            if kind is not ast.Vector or len(operand.elements) != wanted:  # type: ignore[union-attr]
                break
        else:
            return dict(zip(plain, given, strict=True))
    return _match_slowly(form, given)


_SCALARS = frozenset({ast.Name, ast.Immediate, ast.Not, ast.Offset})
_ADDRESS = -1
_plain: dict[int, tuple[dict[str, int] | None, Form]] = {}


def _plain_counts(form: Form) -> dict[str, int] | None:
    """Registers of each operand (-1 for an address) of a form that takes exactly these; None for other forms."""
    try:
        return _plain[id(form)][0]
    except KeyError:
        entry = form.instruction
        special = any(o.is_optional or o.paired or o.inside for o in form.operands)
        simple = not entry.hidden and entry.immediates is None and not special
        counts = {o.name: _ADDRESS if o.is_address else o.count for o in form.operands} if simple else None
        _plain[id(form)] = (counts, form)  # kept alive, so no other form can have its identity
        return counts


def _match_slowly(form: Form, given: tuple[ast.Operand, ...]) -> dict[str, ast.Operand | None] | Mismatch:
    out: dict[str, ast.Operand | None] = {}
    queue = list(given)
    specs = tuple(o for o in form.operands if o.name not in form.instruction.hidden)
    needed = sum(not o.is_optional for o in specs)
    position = 0
    while position < len(specs):
        spec = specs[position]
        paired = specs[position + 1] if position + 1 < len(specs) and specs[position + 1].paired else None
        if not queue:
            if not spec.is_optional:
                why = f"{len(given)} operands given, {needed} needed ({', '.join(o.name for o in specs)})"
                return Mismatch(why, position)
            out[spec.name] = None
            position += 1
            continue
        operand = queue.pop(0)
        if isinstance(operand, ast.Pair):
            if paired is None:
                return Mismatch(f"operand {spec.name} takes one register, not a pair", position)
            out[spec.name], out[paired.name] = operand.first, operand.second
            position += 2
            continue
        why_not = _shape_mismatch(form, spec, operand)
        if why_not:
            return Mismatch(why_not, position)
        out[spec.name] = operand
        position += 1
        if position < len(specs) and specs[position].inside:
            assert isinstance(operand, ast.Address)
            coordinates = specs[position]
            inner = operand.extra[0] if len(operand.extra) == 1 else None
            if not isinstance(inner, ast.Vector) or len(inner.elements) != coordinates.count:
                why = f"operand {spec.name} is an address with {coordinates.count} coordinate(s): [address, {{c, ...}}]"
                return Mismatch(why, position)
            out[spec.name], out[coordinates.name] = ast.Address(operand.base, operand.offset), inner
            position += 1
        if paired is not None:
            out[paired.name] = None
            position += 1
    if queue:
        return Mismatch(f"{len(given)} operands given, {len(specs)} at most ({', '.join(o.name for o in specs)})", position)
    return out


def _shape_mismatch(form: Form, spec: ResolvedOperand, operand: ast.Operand) -> str:
    if spec.is_address:
        return "" if isinstance(operand, ast.Address) else f"operand {spec.name} must be an address in []"
    if isinstance(operand, ast.Address):
        return f"operand {spec.name} is not an address"
    if form.instruction.immediates is not None:
        allowed = form.instruction.immediates(form.params).get(spec.name, ())
        if allowed and not _is_allowed(operand, allowed, spec):
            if isinstance(allowed, range):
                limits = f" from {allowed[0]} to {allowed[-1]}, a multiple of {allowed.step}" if allowed.step > 1 else ""
                return f"operand {spec.name} must be a constant{limits}"
            return f"operand {spec.name} must be {' or '.join(map(str, allowed))}" + (
                ", or a predicate" if spec.type.kind == "p" else ", as a constant"
            )
    count = len(operand.elements) if isinstance(operand, ast.Vector) else 1
    if count != spec.count:
        return f"operand {spec.name} takes {spec.count} register(s), {count} given"
    return ""


def _is_allowed(operand: ast.Operand, allowed: tuple[int, ...] | range, spec: ResolvedOperand) -> bool:
    if not isinstance(operand, ast.Immediate):
        return spec.type.kind == "p"
    return operand.kind == "int" and operand.value in allowed


def immediate_bits(immediate: ast.Immediate, type_: ScalarType) -> int:
    """The bits of a constant used as ``type_``. A double used where f32 is expected is rounded, as ptxas does."""
    value = immediate.value
    if immediate.kind == "f64" and type_.bits == 32:
        number = struct.unpack("<d", value.to_bytes(8, "little"))[0]
        try:
            packed = struct.pack("<f", number)
        except OverflowError:
            packed = struct.pack("<f", float("inf") if number > 0 else float("-inf"))
        value = int.from_bytes(packed, "little")
    elif immediate.kind == "f32" and type_.bits == 64:
        number = struct.unpack("<f", value.to_bytes(4, "little"))[0]
        value = int.from_bytes(struct.pack("<d", number), "little")
    bits = max(type_.bits, 8)
    return value & ((1 << bits) - 1)
