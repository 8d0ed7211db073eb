"""Operands of every matrix instruction, as a warp's registers, from integers alone.

An operand set is named by a form, a class, a seed and a batch, and is the same wherever and whenever it is made, so a
recording stores results only. Floating-point classes are those of :mod:`gpu_ref.tensor.float_inputs`; integer and one-bit
operands have classes of their own, made of whole words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu_ref.tensor.draw import Draw, Words
from gpu_ref.tensor.float_inputs import FLOAT_CLASSES, FORMATS, Sizes
from isa.tensor import MMA_FORMS, WMMA_FORMS, MmaForm, mma_fragment, wmma_fragment
from isa.tensor.layouts import Fragment

__all__ = ["FORMS", "VERSION", "Operands", "Registers", "classes", "fragments", "operands"]

VERSION = 1
"""Changes whenever an operand does: a recording can only be replayed with the version it was made with."""

FORMS = tuple(form for form in (*MMA_FORMS, *WMMA_FORMS) if form.sm <= 90)
"""The forms that an H200 has."""

Registers = NDArray[np.uint32] | NDArray[np.uint64]


class Operands(NamedTuple):
    """A, B and C of ``count`` warps, each ``[warp, register, lane]``, uint32 (uint64 for f64). Registers of ``wmma`` fragments
    that are copies hold noise: nothing may read them."""

    a: Registers
    b: Registers
    c: Registers


def fragments(form: MmaForm) -> dict[str, Fragment]:
    """The fragments of operands ``a``, ``b``, ``c`` and ``d``."""
    of = mma_fragment if form.instruction == "mma" else wmma_fragment
    return {name: of(form, name) for name in "abcd"}


def classes(form: MmaForm) -> tuple[str, ...]:
    """The classes of operands that a form has."""
    return tuple(FLOAT_CLASSES if form.a in FORMATS else _INTEGER_CLASSES)


def operands(form: MmaForm, case: str, seed: int, batch: int, warps: int) -> Operands:
    """Operands of class ``case`` for ``warps`` warps. Batches of one seed have nothing in common."""
    draw = Draw(form, case, seed, batch)
    parts = fragments(form)
    if form.a not in FORMATS:
        a, b = _INTEGER_CLASSES[case](draw, form, [(warps, parts[x].registers, 32) for x in "ab"])
        return Operands(a, b, _integer_accumulators(draw, case, (warps, parts["c"].registers, 32)))
    products = parts["a"].matrices
    sizes = Sizes(warps * products, form.m, form.n, form.k, FORMATS[form.a], FORMATS[form.b], FORMATS[form.c])
    matrices = FLOAT_CLASSES[case](draw, sizes)
    packed = []
    for name, elements in zip("abc", matrices, strict=True):
        fragment = parts[name]
        words = _pack(fragment, elements.reshape(warps, -1))
        own = fragment.registers // fragment.copies
        words[:, own:] = draw.words(warps, fragment.registers - own, 32).astype(words.dtype)
        packed.append(words)
    return Operands(packed[0], packed[1], packed[2])


def _pack(fragment: Fragment, elements: Words) -> Registers:
    """Registers ``[warp, register, lane]`` from elements ``[warp, (matrix, row, column)]``."""
    row, column, matrix = fragment.coordinates()
    index = (matrix * fragment.rows + row) * fragment.columns + column
    width = fragment.word_bits // fragment.per_register
    words = elements[:, index[..., 0]]
    for element in range(1, fragment.per_register):
        words |= elements[:, index[..., element]] << np.uint64(width * element)
    return words if fragment.word_bits == 64 else words.astype(np.uint32)


# -------------------------------------------------------------------------------------------- integers and bits


def _random(draw: Draw, form: MmaForm, shapes: list[tuple[int, int, int]]) -> list[NDArray[np.uint32]]:
    """Every bit random."""
    return [(draw.words(*shape) >> np.uint64(32)).astype(np.uint32) for shape in shapes]


def _few(draw: Draw, form: MmaForm, shapes: list[tuple[int, int, int]]) -> list[NDArray[np.uint32]]:
    """One bit in four set: small numbers, and many zeros among 4-bit ones."""
    first, second = _random(draw, form, shapes), _random(draw, form, shapes)
    return [x & y for x, y in zip(first, second, strict=True)]


def _extreme(draw: Draw, form: MmaForm, shapes: list[tuple[int, int, int]]) -> list[NDArray[np.uint32]]:
    """Elements that are least, greatest, 0, 1 or -1, mixed in a word."""
    words = []
    for shape in shapes:
        mask = draw.pick(_patterns(form), *shape).astype(np.uint32)
        choice, other = _random(draw, form, [shape, shape])
        words.append((mask & choice) | (draw.pick(_patterns(form), *shape).astype(np.uint32) & ~choice & other))
    return words


def _largest(draw: Draw, form: MmaForm, shapes: list[tuple[int, int, int]]) -> list[NDArray[np.uint32]]:
    """All elements of an operand alike and extreme: the sums of the greatest size, of either sign."""
    return [
        np.broadcast_to(draw.pick(_patterns(form), shape[0], 1, 1), shape).astype(np.uint32) for shape in shapes
    ]  # fmt: skip


def _patterns(form: MmaForm) -> tuple[int, ...]:
    """Words all of whose elements are least, greatest, -1 or 1, and zero."""
    if form.a == "b1":
        return 0, 0xFFFFFFFF, 0x55555555, 0x80000001
    return (0x80808080, 0x7F7F7F7F, 0xFFFFFFFF, 0x01010101, 0) if form.a in ("s8", "u8") else (
        0x88888888, 0x77777777, 0xFFFFFFFF, 0x11111111, 0)  # fmt: skip


_IntegerClass = Callable[[Draw, MmaForm, list[tuple[int, int, int]]], list[NDArray[np.uint32]]]

_INTEGER_CLASSES: dict[str, _IntegerClass] = {
    "raw": _random,
    "few": _few,
    "extreme": _extreme,
    "largest": _largest,
}


def _integer_accumulators(draw: Draw, case: str, shape: tuple[int, int, int]) -> NDArray[np.uint32]:
    """Sums at the ends of the range, where they wrap or are clamped; zero; and in the raw class any number."""
    near = draw.pick((0, 1 << 31, (1 << 31) - 1, (1 << 32) - 1), *shape) + draw.between(-4, 4, *shape)
    words = (near & 0xFFFFFFFF).astype(np.uint32)
    return (draw.words(*shape) >> np.uint64(32)).astype(np.uint32) if case == "raw" else words
