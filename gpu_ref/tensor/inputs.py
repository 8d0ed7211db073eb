"""Operands of every matrix instruction, as a warp's registers, from integers alone.

An operand set is named by a form, a class, a seed and a batch, and is the same wherever and whenever it is made, so a
recording stores results only. Floating-point classes are those of :mod:`gpu_ref.tensor.float_inputs`; integer and one-bit
operands have classes of their own, made of whole words. What ``mma.sp`` needs besides is in
:mod:`gpu_ref.tensor.sparse_inputs`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu_ref.tensor.draw import Draw, Words
from gpu_ref.tensor.float_inputs import FLOAT_CLASSES, FORMATS, Sizes
from gpu_ref.tensor.sparse_inputs import draw_metadata, draw_pairs, spread, variant
from isa.tensor import MMA_FORMS, SPARSE_FORMS, WMMA_FORMS, MmaForm, metadata_fragment, mma_fragment, wmma_fragment
from isa.tensor.layouts import Fragment

__all__ = [
    "FORMS", "INTEGER_CLASSES", "VERSION", "Operands", "Registers", "SparseOperands", "classes", "fragments",
    "integer_accumulators", "operands", "pack", "raw_metadata",
]  # fmt: skip

VERSION = 1
"""Changes whenever an operand does: a recording can only be replayed with the version it was made with."""

FORMS = tuple(form for form in (*MMA_FORMS, *SPARSE_FORMS, *WMMA_FORMS) if form.sm <= 90)
"""The forms that an H200 has."""

Registers = NDArray[np.uint32] | NDArray[np.uint64]


class Operands(NamedTuple):
    """A, B and C of ``count`` warps, each ``[warp, register, lane]``, uint32 (uint64 for f64). Registers of ``wmma`` fragments
    that are copies hold noise: nothing may read them."""

    a: Registers
    b: Registers
    c: Registers


class SparseOperands(NamedTuple):
    """As :class:`Operands`, and the metadata ``e``, ``[warp, 1, lane]``. The selector of each warp is
    :func:`~gpu_ref.tensor.sparse_inputs.variant`'s."""

    a: Registers
    b: Registers
    c: Registers
    e: Registers


def fragments(form: MmaForm) -> dict[str, Fragment]:
    """The fragments of operands ``a``, ``b``, ``c``, of ``mma.sp`` ``e``, and ``d``."""
    of = wmma_fragment if form.instruction == "wmma" else mma_fragment
    inputs = {name: of(form, name) for name in "abc"}
    if form.is_sparse:
        inputs["e"] = metadata_fragment(form)
    return inputs | {"d": of(form, "d")}


def classes(form: MmaForm) -> tuple[str, ...]:
    """The classes of operands that a form has."""
    return tuple(FLOAT_CLASSES if form.a in FORMATS else INTEGER_CLASSES)


def operands(form: MmaForm, case: str, seed: int, batch: int, warps: int) -> Operands | SparseOperands:
    """Operands of class ``case`` for ``warps`` warps. Batches of one seed have nothing in common."""
    draw = Draw(form, case, seed, batch)
    parts = fragments(form)
    if form.a not in FORMATS:
        a, b = INTEGER_CLASSES[case](draw, form, [(warps, parts[x].registers, 32) for x in "ab"])
        integers = Operands(a, b, integer_accumulators(draw, case, (warps, parts["c"].registers, 32)))
        return SparseOperands(*integers, _metadata(form, draw, draw_pairs(form, draw, warps))) if form.is_sparse else integers
    products = parts["a"].matrices
    sizes = Sizes(warps * products, form.m, form.n, form.stored_k, FORMATS[form.a], FORMATS[form.b], FORMATS[form.c])
    matrices = FLOAT_CLASSES[case](draw, sizes)
    if form.is_sparse:
        pairs = draw_pairs(form, draw, warps)
        others = FLOAT_CLASSES[case](draw, sizes)[1]
        matrices = matrices[0], spread(form, pairs, matrices[1], others), matrices[2]
    packed = []
    for name, elements in zip("abc", matrices, strict=True):
        fragment = parts[name]
        words = pack(fragment, elements.reshape(warps, -1))
        own = fragment.registers // fragment.copies
        words[:, own:] = draw.words(warps, fragment.registers - own, 32).astype(words.dtype)
        packed.append(words)
    floats = Operands(packed[0], packed[1], packed[2])
    return SparseOperands(*floats, _metadata(form, draw, pairs)) if form.is_sparse else floats


def _metadata(form: MmaForm, draw: Draw, pairs: NDArray[np.int64]) -> NDArray[np.uint32]:
    """The metadata operand, ``[warp, 1, lane]``: where nothing is read, noise."""
    codes = draw_metadata(form, draw, pairs)
    warps = len(codes)
    own = pack(metadata_fragment(form), codes.reshape(warps, -1))
    words = raw_metadata(draw, warps)
    for warp in range(warps):
        lanes = variant(form, warp).lanes
        words[warp, :, lanes] = own[warp, :, lanes]
    return words


def raw_metadata(draw: Draw, warps: int) -> NDArray[np.uint32]:
    """Metadata of which every bit is random, pairs that mean nothing included, ``[warp, 1, lane]``."""
    return (draw.words(warps, 1, 32) >> np.uint64(32)).astype(np.uint32)


def pack(fragment: Fragment, elements: Words) -> Registers:
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

INTEGER_CLASSES: dict[str, _IntegerClass] = {
    "raw": _random,
    "few": _few,
    "extreme": _extreme,
    "largest": _largest,
}


def integer_accumulators(draw: Draw, case: str, shape: tuple[int, int, int]) -> NDArray[np.uint32]:
    """Sums at the ends of the range, where they wrap or are clamped; zero; and in the raw class any number."""
    near = draw.pick((0, 1 << 31, (1 << 31) - 1, (1 << 32) - 1), *shape) + draw.between(-4, 4, *shape)
    words = (near & 0xFFFFFFFF).astype(np.uint32)
    return (draw.words(*shape) >> np.uint64(32)).astype(np.uint32) if case == "raw" else words
