"""Arguments that are tensor maps: which argument's array they describe, and how.

    tensor_map = "tensor_map(" name {"," key "=" value} ")"

``tensor_map(a,box=64x32,swizzle=128B)`` is the map of the array that is argument ``a``. Numbers count from the innermost
dimension, separated by ``x``. Keys: ``box``, or ``lower``, ``upper``, ``channels`` and ``pixels`` of an im2col map; ``dtype``,
``dims``, ``strides`` (bytes, all but the innermost), ``offset`` (bytes from the array's start), ``element_strides``,
``interleave``, ``swizzle``, ``l2_promotion``, ``oob_fill``. They default to the array's own and to none
(:mod:`tcsim.tensor_map`).

Arrays that only maps lead to come last, behind the kernel's own parameters. The map holds a device address, so
it is encoded when the array has one: at the launch, wherever that is. Only NumPy is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from operator import mul
from typing import Any

from isa.tma.rules import check
from isa.tma.tensor_map import ELEMENT_TYPES, INTERLEAVES, L2_PROMOTIONS, OOB_FILLS, SWIZZLES, TensorMap, encode

from .errors import ArgumentError

__all__ = ["MapArgument", "MapOf", "parse_map"]

_NUMBERS = ("box", "lower", "upper", "dims", "strides", "element_strides")
_NUMBER = ("channels", "pixels", "offset")
_WORDS = {
    "dtype": tuple(ELEMENT_TYPES),
    "interleave": INTERLEAVES,
    "swizzle": SWIZZLES,
    "l2_promotion": L2_PROMOTIONS,
    "oob_fill": OOB_FILLS,
}
_OF_DTYPE = {"s8": "u8", "b8": "u8", "s16": "u16", "b16": "u16", "b32": "u32", "b64": "u64", "e4m3": "u8", "e5m2": "u8"}


@dataclass(frozen=True)
class MapArgument:
    """A specification: the name of the argument whose array it describes, and its (key, value) pairs as written."""

    array: str
    pairs: tuple[tuple[str, str], ...]

    @property
    def spec(self) -> str:
        return f"tensor_map({','.join([self.array, *(f'{key}={value}' for key, value in self.pairs)])})"

    def of(self, position: int, dtype: str, shape: Sequence[int]) -> MapOf:
        """The map of the array at a position among the arguments. Raises TensorMapError for what no map can have."""
        given: dict[str, Any] = {}
        for key, value in self.pairs:
            given[key] = tuple(map(int, value.split("x"))) if key in _NUMBERS else int(value) if key in _NUMBER else value
        element = given.pop("dtype", _OF_DTYPE.get(dtype, dtype))
        dims = given.pop("dims", tuple(reversed(shape)))
        steps = tuple(accumulate((ELEMENT_TYPES[element].bytes, *dims), mul))[1:-1] if element in ELEMENT_TYPES else ()
        offset = given.pop("offset", 0)
        tensor = TensorMap(
            element=element,
            address=offset,
            dims=dims,
            strides=given.pop("strides", steps),
            element_strides=given.pop("element_strides", (1,) * len(dims)),
            **given,
        )
        check(tensor, self.spec)
        return MapOf(position, tensor)


@dataclass(frozen=True)
class MapOf:
    """The map of the array at a position among a launch's arguments; its ``address`` counts from the array's start."""

    position: int
    tensor: TensorMap

    def at(self, address: int) -> TensorMap:
        """What the map says when the array is at a device address."""
        return replace(self.tensor, address=address + self.tensor.address)

    def encode(self, address: int) -> bytes:
        """Its 128 bytes then."""
        return encode(self.at(address))


def parse_map(text: str) -> MapArgument:
    """Parse a specification. Raises ArgumentError, which shows the offending part."""
    start = text.index("(") + 1
    end = text.rfind(")")
    if end < 0 or text[end + 1 :].strip():
        raise ArgumentError(text, end if end >= 0 else start - 1, len(text), "a tensor map ends with ')'")
    pairs: list[tuple[str, str]] = []
    name, at = "", start
    for number, piece in enumerate(text[start:end].split(",")):
        word = piece.strip()
        if number == 0:
            name = word
            if not name.isidentifier():
                raise ArgumentError(text, at, at + len(piece), "first comes the name of an argument that is an array")
        else:
            key, _, value = word.partition("=")
            problem = _problem(key.strip(), value.strip())
            if problem:
                raise ArgumentError(text, at, at + len(piece), problem)
            pairs.append((key.strip(), value.strip()))
        at += len(piece) + 1
    keys = {key for key, _ in pairs}
    if ("box" in keys) == bool(keys & {"lower", "upper", "channels", "pixels"}):
        hint = "box=64x32, or lower=, upper=, channels= and pixels="
        raise ArgumentError(text, 0, len(text), "a tensor map has a box, or else all of an im2col map", hint)
    return MapArgument(name, tuple(pairs))


def _problem(key: str, value: str) -> str:
    if key in _WORDS:
        return "" if value in _WORDS[key] else f"{key} is one of {', '.join(_WORDS[key])}"
    if key not in (*_NUMBERS, *_NUMBER):
        return f"unknown key {key!r}; one of {', '.join((*_NUMBERS, *_NUMBER, *_WORDS))}"
    pieces = value.split("x") if key in _NUMBERS else [value]
    if not all(piece.removeprefix("-").isdecimal() for piece in pieces):
        return f"{key} takes {'numbers such as 64x32' if key in _NUMBERS else 'a number'}"
    return ""
