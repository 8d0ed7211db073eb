"""Instruction templates: the text form of an instruction, and matching an opcode against it.

A template is written nearly as the PTX ISA writes it::

    "shf.{dir}.{mode}.b32  d, a, b, c:u32"
    "add{rnd}{ftz}{sat}.f32  d, a, b"
    "shfl.sync.{mode}.b32  d|p, a, b, c, membermask:u32"
    "ld{order}{space}{vec}.{t}  d*vec, [a]"

``.word`` is a modifier that must be there; ``.{slot}`` one of the slot's alternatives; ``{slot}`` (no dot) an alternative or
nothing. The alternatives are given with the template: a tuple of words, or :func:`flag`.

Modifiers match as a *set*: compilers vary their order (``ldmatrix...m8n8.x4`` and ``.x4.m8n8``). Only types come in the
order of the template (the two of ``cvt``, the four of ``mma``), and state spaces (from where to where ``cp.async`` copies).

Operands: ``name[:type][*count]``. The type is a type name or a slot; left out, it is the last type of the opcode. ``*count``
makes it a vector of that many registers (a number or a slot such as ``v2``). ``[a]`` is an address, ``[a, c*n]`` one with a
vector of coordinates inside its brackets. ``d|p`` is a destination
pair whose second half the text may leave out. ``name?`` may be left out. Names ``d``, ``d2``, ``p``, ``q`` are destinations,
all others sources; ``p`` and ``q`` are predicates unless typed.
"""

from __future__ import annotations

import re

from msgspec import Struct

from isa.types import SCALAR_TYPES

__all__ = ["OperandSpec", "Pattern", "Slot", "flag", "optional", "parse_pattern"]

DESTINATIONS = frozenset({"d", "d2", "p", "q"})
STATE_SPACES = frozenset({"global", "local", "shared", "shared::cta", "shared::cluster", "param", "const"})


class Slot(Struct, frozen=True):
    """A variable part of an opcode: ``words`` are its alternatives. With ``is_flag`` the parameter is True or False."""

    words: tuple[str, ...]
    is_flag: bool = False


def flag(word: str) -> Slot:
    """A modifier that is there or not; its parameter is a bool."""
    return Slot((word,), is_flag=True)


def optional(*words: str) -> Slot:
    """Alternatives of a slot written without a dot; its parameter is the word, or ``""`` when absent."""
    return Slot(words)


class OperandSpec(Struct, frozen=True):
    """One operand of a template. ``type`` and ``count`` are a literal or ``{slot}`` names, resolved by :class:`Form`."""

    name: str
    type: str
    count: str = "1"
    is_address: bool = False
    is_destination: bool = False
    is_optional: bool = False
    paired: bool = False  # the second half of ``d|p``
    inside: bool = False  # coordinates in the brackets of the address before it


class Pattern(Struct, frozen=True):
    """A parsed template. ``parts`` is the opcode left to right: ("word", w), ("slot", name) or ("opt", name)."""

    text: str
    base: str
    parts: tuple[tuple[str, str], ...]
    slots: dict[str, Slot]
    operands: tuple[OperandSpec, ...]

    def match(self, tokens: tuple[str, ...]) -> dict[str, str | bool] | None:
        """The slot parameters if these modifiers (opcode text after the base, split at dots) fit, else None."""
        found: dict[str, str | bool] = {}
        left = [(kind, name, (name,) if kind == "word" else self.slots[name].words) for kind, name in self.parts]
        for token in tokens:
            for index, (kind, name, words) in enumerate(left):
                if token in words:
                    if token in STATE_SPACES and any(k != "opt" and STATE_SPACES.issuperset(w) for k, _, w in left[:index]):
                        return None  # from there to here, not from here to there
                    if kind != "word":
                        found[name] = True if self.slots[name].is_flag else token
                    del left[index]
                    break
                if token in SCALAR_TYPES and kind != "opt" and not SCALAR_TYPES.keys().isdisjoint(words):
                    return None  # the next type of the template is another one
            else:
                return None
        for kind, name, _ in left:
            if kind != "opt":
                return None
            found[name] = False if self.slots[name].is_flag else ""
        return found

    def spell(self) -> str:
        """The opcode as documentation shows it: ``add{.rn,.rz}{.ftz}.f32``."""
        text = self.base
        for kind, name in self.parts:
            if kind == "word":
                text += f".{name}"
            else:
                words = ",".join(f".{word}" for word in _shorter(self.slots[name].words))
                text += f"{{{words}}}" if kind == "opt" else f"<{words}>"
        return text


def _shorter(words: tuple[str, ...]) -> tuple[str, ...]:
    """Of many shapes, those that differ in N only as one."""
    if len(words) <= _MOST_SHAPES:
        return words
    return tuple(dict.fromkeys(re.sub(r"^(m\d+n)\d+(k\d+)$", r"\1N\2", word) for word in words))


_MOST_SHAPES = 16

_PART = re.compile(r"\.\{(\w+)\}|\{(\w+)\}|\.([\w:]+)")
_OPERAND = re.compile(r"(?P<address>\[)?(?P<name>\w+)(?::(?P<type>\w+))?(?:\*(?P<count>\w+))?\]?(?P<optional>\?)?$")


def parse_pattern(template: str, slots: dict[str, Slot]) -> Pattern:
    """Parse a template. Raises ValueError for a template that is not in the notation above (a programming error)."""
    opcode, _, operand_text = template.strip().partition(" ")
    base = re.match(r"\w+", opcode)
    if base is None:
        raise ValueError(f"template {template!r}: no instruction name")
    parts: list[tuple[str, str]] = []
    position = base.end()
    default_type = ""
    while position < len(opcode):
        part = _PART.match(opcode, position)
        if part is None:
            raise ValueError(f"template {template!r}: cannot read {opcode[position:]!r}")
        required, free, word = part.groups()
        name = required or free or word
        if word:
            parts.append(("word", word))
        else:
            if name not in slots:
                raise ValueError(f"template {template!r}: slot {name!r} has no alternatives")
            parts.append(("slot" if required else "opt", name))
        if word in SCALAR_TYPES or (not word and all(w in SCALAR_TYPES for w in slots[name].words)):
            default_type = name
        position = part.end()
    unused = set(slots) - {name for kind, name in parts if kind != "word"}
    if unused:
        raise ValueError(f"template {template!r}: unused slots {sorted(unused)}")
    operands: list[OperandSpec] = []
    for item in filter(None, (piece.strip() for piece in re.split(r",(?![^\[]*\])", operand_text))):
        for half, piece in enumerate(item.split("|")):
            address, comma, inner = piece.strip().partition(",")
            operands.append(_operand(address + ("]" if comma else ""), template, default_type, half == 1))
            if comma:
                operands.append(_operand(inner.strip().rstrip("]"), template, default_type, False, inside=True))
    return Pattern(template, base.group(), tuple(parts), dict(slots), tuple(operands))


def _operand(text: str, template: str, default_type: str, paired: bool, inside: bool = False) -> OperandSpec:
    match = _OPERAND.match(text)
    if match is None:
        raise ValueError(f"template {template!r}: cannot read operand {text!r}")
    name = match["name"]
    destination = name in DESTINATIONS
    type_name = match["type"] or ("pred" if name in ("p", "q") else default_type)
    return OperandSpec(
        name=name,
        type=type_name,
        count=match["count"] or "1",
        is_address=bool(match["address"]),
        is_destination=destination and not match["address"],
        is_optional=bool(match["optional"]) or paired,
        paired=paired,
        inside=inside,
    )
