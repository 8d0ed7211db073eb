"""The data of initialised variables.

:func:`evaluate` turns the text that the parser kept into bytes and relocations. Source: PTX ISA 5.4.4 (initialisers,
``generic``, masks); what it leaves open follows the data sections that ptxas 13.0 writes for the same text.
"""

from __future__ import annotations

import re
import struct

from msgspec import Struct

from isa.errors import Unsupported, UnsupportedError

from .ast import Immediate, Initializer, Variable
from .constants import immediate, integer
from .lexer import END, Cursor

MAX_BYTES = 1 << 30  # of one initialised variable: a mistyped size must not take all memory

# Type: (what it may be initialised with, bytes). "f" floats, "b" both, "i" integers and addresses, "" nothing.
_TYPES = {
    **{f"{letter}{bits}": ("i", bits // 8) for letter in "su" for bits in (8, 16, 32, 64)},
    **{f"b{bits}": ("b", bits // 8) for bits in (8, 16, 32, 64, 128)},
    "f32": ("f", 4),
    "f64": ("f", 8),
    "f16": ("", 2),
    "bf16": ("", 2),
    "f16x2": ("", 4),
    "bf16x2": ("", 4),
}
_OPAQUE = ("texref", "samplerref", "surfref")
_MASKS = frozenset(0xFF << 8 * byte for byte in range(8))
_MAX_DEPTH = 100  # of nested braces, which recurse
_A_VALUE = "a constant, a symbol, generic(symbol) or mask(symbol)"


class Relocation(Struct, frozen=True, gc=False):
    """An address to write into the data once it is known.

    ``width`` bytes at byte ``offset`` receive the address of ``symbol`` plus ``addend``: the generic address when
    ``generic``, else the one within the symbol's own state space. With a ``mask`` (``0xff`` shifted left by a multiple
    of 8) they receive that byte of the address, shifted down.
    """

    offset: int
    width: int
    symbol: str
    addend: int
    generic: bool
    mask: int | None


def evaluate(variable: Variable) -> tuple[bytearray, list[Relocation]]:
    """The initial bytes of a variable, little-endian and as long as the variable, and the addresses to write into them.

    What the initialiser leaves out is zero; without one, all is. An unsized array (``x[]``) is as long as its
    initialiser. Of a range (``x<3>``, which takes no initialiser) the data are those of one.

    Raises :class:`~isa.errors.PtxSyntaxError` for an initialiser that PTX does not allow, and
    :class:`~isa.errors.UnsupportedError` for texture, sampler and surface references.
    """
    if variable.type in _OPAQUE:
        item = Unsupported(f".{variable.type} {variable.name}", "texture references have no bytes", variable.line)
        raise UnsupportedError([item], f"variable {variable.name}")
    return _Evaluator(variable).run()


class _Evaluator:
    """Fills ``_data`` from front to back; ``_offset`` is where the next value goes."""

    def __init__(self, variable: Variable) -> None:
        init = variable.init or Initializer("", variable.line)
        self._variable, self._text = variable, init.text
        self._cursor = Cursor(init.text, None, init.line, init.column)
        if variable.type not in _TYPES:
            raise self._error(f"no such variable: the size of .{variable.type} is unknown", f".{variable.type}")
        self._takes, self._width = _TYPES[variable.type]
        # A vector is one more, innermost, list.
        self._dims = variable.dims + ((variable.vector,) if variable.vector > 1 else ())
        self._data, self._offset = bytearray(), 0
        self._relocations: list[Relocation] = []

    def run(self) -> tuple[bytearray, list[Relocation]]:
        if self._dims and self._dims[0] == -1:
            self._dims = (_count_elements(self._cursor), *self._dims[1:])
        size = self._width
        for extent in self._dims:
            size *= extent
            if size > MAX_BYTES:
                raise self._error(f"an initialised variable of at most {MAX_BYTES} bytes", f"{size} bytes")
        self._data = bytearray(size)
        if self._variable.init is not None and not self._flat_integers():
            if self._dims:
                self._list(self._dims)
            else:
                self._value()
            if self._cursor.kind != END:
                raise self._cursor.error("the end of the initialiser")
        return self._data, self._relocations

    def _error(self, expected: str, found: str) -> Exception:
        return self._cursor.error(expected, at=0, found=found)

    def _flat_integers(self) -> bool:
        """Fill a plain array from a list of decimal integers, quickly. False, and nothing done, if it is not one."""
        if len(self._variable.dims) != 1 or self._variable.vector > 1 or self._takes not in ("i", "b"):
            return False
        try:
            data = b"".join(map(_Decimals(self._width).__getitem__, self._text[1:-1].split(",")))
        except ValueError:
            return False
        if self._text[0] != "{" or len(data) > len(self._data):
            return False
        self._data[: len(data)] = data
        return True

    def _list(self, dims: tuple[int, ...]) -> None:
        """``{ ... }``: up to ``dims[0]`` values or inner lists; a vector's list must be complete.

        Values follow each other without gaps: ptxas 13.0 does not pad an inner list that is too short, as C would.
        """
        cursor = self._cursor
        cursor.depth += 1
        if cursor.depth > _MAX_DEPTH:
            raise cursor.error(f"at most {_MAX_DEPTH} nested braces")
        cursor.expect("{", f"'{{' and a list: {self._variable.name} is an array or a vector")
        count = 0
        while cursor.token != "}":
            if count:
                cursor.expect(",", "',' and another value, or '}'")
            if count == dims[0]:
                raise cursor.error(f"'}}': this list holds {dims[0]} values")
            if len(dims) > 1:
                self._list(dims[1:])
            else:
                self._value()
            count += 1
        if self._variable.vector > 1 and len(dims) == 1 and count != dims[0]:
            raise cursor.error(f"{dims[0]} values for a vector")
        cursor.advance()
        cursor.depth -= 1

    def _value(self) -> None:
        """One constant or address, into the next ``width`` bytes."""
        cursor = self._cursor
        start = cursor.start
        if cursor.kind == "name" and cursor.token != "WARP_SZ":
            self._address(None)
        elif cursor.kind != "number" and cursor.token not in ("(", "+", "-", "~", "!", "WARP_SZ"):
            raise cursor.error(_A_VALUE)
        else:
            literal = cursor.kind == "number"
            value = immediate(cursor)
            if literal and cursor.token == "(":
                if value.kind != "int" or value.value not in _MASKS:
                    raise cursor.error("a mask of one byte: 0xff, 0xff00, 0xff0000, ...", at=start)
                cursor.advance()
                self._address(value.value)
                cursor.expect(")", "')' after the masked address")
            else:
                self._data[self._offset : self._offset + self._width] = self._packed(value, start)
        self._offset += self._width

    def _address(self, mask: int | None) -> None:
        """``symbol``, ``symbol+4`` or ``generic(symbol)+4``."""
        cursor = self._cursor
        if self._takes not in ("i", "b") or (mask is None and self._width < 4):
            raise cursor.error(f"a constant: an address does not fit a .{self._variable.type}")
        generic = cursor.token == "generic"
        symbol = cursor.name("a symbol")
        if generic:
            cursor.expect("(", "'(' after generic")
            symbol = cursor.name("a symbol")
            cursor.expect(")", "')' after the symbol")
        addend = integer(cursor, "an offset in bytes") if cursor.token in ("+", "-") else 0
        self._relocations.append(Relocation(self._offset, self._width, symbol, addend, generic, mask))

    def _packed(self, value: Immediate, start: int) -> bytes:
        """A constant as this variable stores it: integers wrap; a double is rounded where there are only 32 bits."""
        bits = value.value
        if value.kind == "int":
            fits, wanted = self._takes in ("i", "b"), "a floating-point constant such as 1.0"
        else:
            fits, wanted = self._takes == "f" or (self._takes == "b" and self._width in (4, 8)), "an integer constant"
        if not fits:
            wanted = wanted if self._takes else "no initialiser"
            raise self._cursor.error(f"{wanted}: {self._variable.name} is .{self._variable.type}", at=start)
        if value.kind == "f64" and self._width == 4:
            bits = _single(bits)
        return (bits & ((1 << 8 * self._width) - 1)).to_bytes(self._width, "little")


def _single(bits: int) -> int:
    """The bits of a double rounded to single precision, to nearest even; too large is infinity."""
    (number,) = struct.unpack("<d", bits.to_bytes(8, "little"))
    try:
        packed = struct.pack("<f", number)
    except OverflowError:
        packed = struct.pack("<f", float("inf") if number > 0 else float("-inf"))
    return int.from_bytes(packed, "little")


def _count_elements(cursor: Cursor) -> int:
    """How many elements the outermost list has (the first dimension of ``x[]``), without evaluating them."""
    depth = commas = 0
    content = False
    while cursor.kind != END:
        depth += (cursor.token in ("{", "(")) - (cursor.token in ("}", ")"))
        commas += cursor.token == "," and depth == 1
        content = content or cursor.token not in ("{", "}")
        cursor.advance()
    cursor.seek(0)
    return commas + content


class _Decimals(dict[str, bytes]):
    """Decimal integer text to bytes; any other text is a ``ValueError``. Tables repeat few distinct values."""

    def __init__(self, width: int) -> None:
        self._width = width

    def __missing__(self, text: str) -> bytes:
        if re.fullmatch(r"\s*-?(?:0|[1-9]\d{0,17})\s*", text, re.ASCII) is None:
            raise ValueError
        packed = (int(text) & ((1 << 8 * self._width) - 1)).to_bytes(self._width, "little")
        self[text] = packed
        return packed
