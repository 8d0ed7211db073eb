"""Operands of machine instructions as nvdisasm prints them, as typed values."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

__all__ = [
    "CodeAddress",
    "Constant",
    "Immediate",
    "Label",
    "Matrices",
    "Memory",
    "Operand",
    "Register",
    "Special",
    "Strange",
    "parse_operands",
]

ZERO = -1
"""Index of RZ and URZ (always zero) and of PT and UPT (always true)."""


class _OperandError(ValueError):
    """Operand text outside what this module reads."""


@dataclass(frozen=True, slots=True)
class Register:
    """A register: ``file`` is R, UR, P, UP, B (convergence barrier), SB (scoreboard) or RPC (a return address); ``index`` is
    :data:`ZERO` for RZ, URZ, PT and UPT. ``negated`` (``-``, or ``!`` of a predicate), ``absolute`` (``|..|``), ``inverted``
    (``~``): what happens to the value read. ``parts``: suffixes such as ``H0_H0``, ``64``, ``ROW``; ``reuse``: kept in the
    operand cache."""

    file: str
    index: int
    negated: bool = False
    absolute: bool = False
    inverted: bool = False
    parts: tuple[str, ...] = ()
    reuse: bool = False

    @property
    def is_predicate(self) -> bool:
        return self.file in ("P", "UP")


@dataclass(frozen=True, slots=True)
class Immediate:
    """A number in the text. ``value``: of an integer; None for a float, whose exact bits stand in the encoding."""

    text: str
    value: int | None


@dataclass(frozen=True, slots=True)
class Constant:
    """``c[bank][register + offset]``. Offsets in bytes; ``register`` is None for a fixed place."""

    bank: int
    offset: int
    register: Register | None = None
    negated: bool = False
    absolute: bool = False
    inverted: bool = False
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Memory:
    """``desc[UR][register + uniform + offset]``. ``wide``: the register is the first of a pair (``.64``); ``scale``: what the
    register is multiplied by (``.X4``). The descriptor says how caches treat the access and changes no value."""

    register: Register | None
    uniform: Register | None
    offset: int
    wide: bool = False
    scale: int = 1
    descriptor: Register | None = None


@dataclass(frozen=True, slots=True)
class Matrices:
    """``gdesc[UR4].negA.tnspB``: matrix descriptors in uniform registers, and how the matrices are read."""

    register: Register
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Label:
    """A place in the code."""

    name: str


@dataclass(frozen=True, slots=True)
class CodeAddress:
    """Half (``lo`` or ``hi``, 32 bits) of the address of a symbol or of a label in a function; settled by the linker."""

    half: str
    symbol: str


@dataclass(frozen=True, slots=True)
class Special:
    """A special register such as ``SR_TID.X``, or a word such as ``PR``."""

    name: str


@dataclass(frozen=True, slots=True)
class Strange:
    """What is not understood. No instruction takes it, so one that has it is reported as not supported."""

    text: str


Operand = Register | Immediate | Constant | Memory | Matrices | Label | CodeAddress | Special | Strange

_REGISTER = re.compile(r"(?P<sign>[-!~]*)(?P<bar>\|?)(?P<name>UR\d+|URZ|UP\d|UPT|RZ|R\d+|PT|P\d|SB\d|B\d+)(?P<rest>[\w.|]*)$")
_INTEGER = re.compile(r"[-+]?0x[0-9a-f]+$|[-+]?\d+$")
_FLOAT = re.compile(r"[-+]?(\d+\.?\d*([eE][-+]?\d+)?|\.\d+|INF|QNAN|SNAN|NAN)$")
_CONSTANT = re.compile(r"(?P<sign>[-~]*)(?P<bar>\|?)c\[(?P<bank>0x[0-9a-f]+)\]\s*\[(?P<at>[^\]]*)\](?P<rest>[\w.|]*)$")
_MEMORY = re.compile(r"(?:desc\[(?P<desc>\w+)\])?\[(?P<at>[^\]]*)\]$")
_MATRICES = re.compile(r"gdesc\[(?P<register>\w+)\](?P<rest>[\w.]*)$")
_LABEL = re.compile(r"`\((?P<name>.+)\)$")
_CODE = re.compile(r"(?:32|8)@(?P<half>lo|hi)\((?P<symbol>.+)\)$")
_LINKED = re.compile(r"\((?P<function>[\w$.]+) \+ (?P<label>[\w$.]+)@srel\)$|fun\((?P<address>[\w$.]+)\)$")
_SPECIAL = re.compile(r"SR\w[\w.]*$|gsb\d$|PR$|[A-Z][A-Z0-9_]*$")
_RETURN_ADDRESS = {"Rpc.LO": 0, "Rpc.HI": 1}
_COMMENT = re.compile(r"\(\*.*?\*\)")


def parse_operands(text: str) -> tuple[Operand, ...]:
    """The operands of an instruction: everything behind its opcode. What cannot be read is :class:`Strange`."""
    return tuple(_readable(piece) for piece in _split(_COMMENT.sub("", text)))


def _readable(text: str) -> Operand:
    try:
        return _operand(text)
    except _OperandError:
        return Strange(text)


def _split(text: str) -> list[str]:
    """Pieces between commas or spaces outside brackets. ``R20 0x0`` are two operands, and so are ``R8 `(label)``."""
    pieces: list[str] = []
    depth, piece = 0, ""
    for character in text:
        if character in "([":
            depth += 1
        elif character in ")]":
            depth -= 1
        if depth == 0 and character in ", ":
            pieces.append(piece)
            piece = ""
        else:
            piece += character
    return [p for p in (*pieces, piece) if p]


def _operand(text: str) -> Operand:
    if match := _REGISTER.match(text):
        return _register(match, text)
    if text in _RETURN_ADDRESS:
        return Register("RPC", _RETURN_ADDRESS[text])
    if _INTEGER.match(text):
        return Immediate(text, int(text, 0))
    if _FLOAT.match(text):
        return Immediate(text, None)
    if match := _CONSTANT.match(text):
        register, uniform, offset = _place(match["at"], text)
        if register is not None and uniform is not None:
            _refuse(text)
        index = register or uniform
        if index is None or index.index < 0:  # 16 bits, which listings show with a sign; beside a register they have one
            offset &= 0xFFFF
        parts, absolute, _ = _suffixes(match["rest"], match["bar"], text)
        sign = match["sign"]
        bank = int(match["bank"], 0)
        return Constant(bank, offset, index, "-" in sign, absolute, "~" in sign, parts)
    if match := _MEMORY.match(text):
        register, uniform, offset = _place(match["at"], text)
        scale, wide = 1, False
        for part in register.parts if register is not None else ():
            if part == "64":
                wide = True
            elif re.fullmatch(r"X(4|8|16)", part):
                scale = int(part[1:])
            elif part != "U32":
                _refuse(text)
        descriptor = _plain(match["desc"]) if match["desc"] else None
        return Memory(register, uniform, offset, wide, scale, descriptor)
    if match := _MATRICES.match(text):
        return Matrices(_plain(match["register"]), tuple(word for word in match["rest"].split(".") if word))
    if match := _LABEL.match(text):
        return Label(match["name"])
    if match := _CODE.match(text):
        linked = _LINKED.match(match["symbol"])
        if linked is None:
            return CodeAddress(match["half"], match["symbol"])
        return CodeAddress(match["half"], linked["label"] or linked["address"])
    if _SPECIAL.match(text):
        return Special(text)
    _refuse(text)


def _refuse(text: str) -> NoReturn:
    raise _OperandError(f"cannot read the operand {text!r}")


def _plain(name: str) -> Register:
    match = _REGISTER.match(name)
    return _register(match, name) if match else _refuse(name)


def _register(match: re.Match[str], text: str) -> Register:
    name = match["name"]
    file = name.rstrip("0123456789")
    index = ZERO
    if file in ("RZ", "URZ", "PT", "UPT"):
        file = file[:-1]
    else:
        index = int(name[len(file) :])
    parts, absolute, reuse = _suffixes(match["rest"], match["bar"], text)
    sign = match["sign"]
    return Register(file, index, "-" in sign or "!" in sign, absolute, "~" in sign, parts, reuse)


def _suffixes(rest: str, bar: str, text: str) -> tuple[tuple[str, ...], bool, bool]:
    """Suffixes, whether the absolute value is taken, whether ``.reuse`` is set."""
    if ("|" in rest) != bool(bar):
        _refuse(text)
    words = [word for word in rest.replace("|", ".").split(".") if word]
    return tuple(word for word in words if word != "reuse"), bool(bar), "reuse" in words


def _place(inside: str, text: str) -> tuple[Register | None, Register | None, int]:
    """Register, uniform register and byte offset of what stands between brackets."""
    register: Register | None = None
    uniform: Register | None = None
    offset = 0
    for piece in inside.replace("+-", "+~").split("+"):
        piece = piece.replace("~", "-").strip()
        if _INTEGER.match(piece):
            offset += int(piece, 0)
        elif match := _REGISTER.match(piece):
            found = _register(match, piece)
            if found.file == "UR" and uniform is None:
                uniform = found
            elif found.file == "R" and register is None:
                register = found
            else:
                _refuse(text)
        else:
            _refuse(text)
    return register, uniform, offset
