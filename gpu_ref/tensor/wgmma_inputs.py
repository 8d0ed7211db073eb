"""Operands of ``wgmma``: matrices as hard as those of ``mma``, laid out in shared memory in every way that there is.

A *problem* is one instruction of a warpgroup. All problems of a batch share a :class:`Setting`, which follows, as the
operands do, from a form, a class of operands, a seed and a batch, so a recording stores results only.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu_ref.tensor.draw import Draw
from gpu_ref.tensor.float_inputs import FLOAT_CLASSES, FORMATS, Sizes
from gpu_ref.tensor.inputs import INTEGER_CLASSES, integer_accumulators, pack, raw_metadata
from gpu_ref.tensor.sparse_inputs import draw_metadata, draw_pairs, spread
from isa.tensor.forms import MmaForm, element_bits
from isa.tensor.layouts import operand_a
from isa.tensor.matrix_descriptor import Descriptor, element_addresses
from isa.tensor.metadata import metadata_fragment, metadata_layout, reading_lanes
from isa.tensor.wgmma_forms import transposable
from isa.tensor.wgmma_layouts import wgmma_fragment

__all__ = ["B_AT", "IMAGE_BYTES", "UNDEFINED", "Problems", "Setting", "accumulators", "places", "problems", "setting",
           "wgmma_classes"]  # fmt: skip

B_AT = 8192
"""Where B begins in shared memory: behind the largest A, 64 rows of 128 bytes."""

IMAGE_BYTES = B_AT + 256 * 128 + 1024

UNDEFINED = "undefined"
"""The class of sparse operands whose metadata are random, pairs without a meaning included."""


class Setting(NamedTuple):
    """What the instruction's constants, predicate and descriptors say. ``a`` is the descriptor of A, 0 where A is in
    registers; addresses in descriptors count from the start of the image."""

    a_in_registers: bool
    trans_a: int
    trans_b: int
    scale_a: int
    scale_b: int
    scale_d: int
    selector: int
    a: int
    b: int


class Problems(NamedTuple):
    """``image`` ``[problem, byte]``: shared memory. ``a`` ``[problem, warp, 4, lane]``: A in registers, else noise. ``c``
    ``[problem, warp, register, lane]``: accumulators. ``e`` ``[problem, warp, lane]``: metadata, else noise. ``elements``: A
    ``[problem, row, k]``, B ``[problem, k, column]`` and C ``[problem, row, column]``, bits (of b1, words of 32)."""

    setting: Setting
    image: NDArray[np.uint8]
    a: NDArray[np.uint32]
    c: NDArray[np.uint32]
    e: NDArray[np.uint32]
    elements: tuple[NDArray[Any], NDArray[Any], NDArray[Any]]


def wgmma_classes(form: MmaForm) -> tuple[str, ...]:
    """The classes of operands that a form has."""
    own = tuple(FLOAT_CLASSES if form.a in FORMATS else INTEGER_CLASSES)
    return (*own, UNDEFINED) if form.is_sparse else own


def _word_type(form: MmaForm) -> tuple[int, int]:
    """Bits of what one element is stored as (b1: a word), and how many of them a column of B has."""
    bits = 32 if form.a == "b1" else element_bits(form.a)
    return bits, form.k * element_bits(form.a) // bits


def _descriptor(draw: Draw, at: int, mn: int, k_bytes: int, mn_major: bool) -> Descriptor:
    """A layout of a matrix of ``mn`` rows or columns of ``k_bytes`` each, without overlap, from ``at`` on."""
    swizzle = int(draw.pick((0, 32, 64, 128)))
    width = max(1, swizzle // 16)
    atom = 128 * width
    if mn_major:
        groups = k_bytes // 16
        chunks = -(-mn // (8 * width))
        if swizzle:
            return Descriptor(at, atom * groups, atom, swizzle)
        return Descriptor(at, atom * chunks, atom)
    if not swizzle:
        return Descriptor(at, atom, atom * (k_bytes // 16))
    inside = k_bytes * int(draw.below(max(1, swizzle // k_bytes)))  # further along k, inside the atom
    return Descriptor(at + inside, atom * (mn // 8), atom, swizzle)


def setting(form: MmaForm, a_in_registers: bool, case: str, seed: int, batch: int) -> Setting:
    """The setting of a batch: everything that the form leaves open is drawn."""
    draw = Draw("wgmma setting", form, a_in_registers, case, seed, batch)
    floats, free = form.d != "s32", transposable(form.a)
    trans_a, trans_b = (int(draw.below(2)) * free for _ in range(2))
    signs = [int(draw.pick((1, 1, -1))) if floats else 1 for _ in range(2)]
    bits = element_bits(form.a)
    a = 0
    if a_in_registers:
        trans_a = 0
    else:
        a = _descriptor(draw, 0, form.m, form.stored_k * bits // 8, bool(trans_a)).encode()
    b = _descriptor(draw, B_AT, form.n, form.k * bits // 8, bool(trans_b)).encode()
    selector = int(draw.below(metadata_layout(form).selectors)) if form.is_sparse else 0
    scale_d = int(draw.below(8) > 0)
    return Setting(a_in_registers, trans_a, trans_b, signs[0], signs[1], scale_d, selector, a, b)


def _matrices(form: MmaForm, draw: Draw, case: str, count: int, pairs: NDArray[np.int64] | None) -> tuple[Any, Any, Any]:
    """A ``[problem, row, k]``, B ``[problem, column, k]``, C ``[problem, row, column]``."""
    if form.a not in FORMATS:
        bits, k = _word_type(form)
        per_word = 32 // bits
        shapes = [(count, form.m, form.stored_k * element_bits(form.a) // 32), (count, form.n, k // per_word)]
        words = INTEGER_CLASSES[case](draw, form, shapes)
        kind = np.dtype(f"<u{bits // 8}")
        a, b = (np.ascontiguousarray(x, "<u4").view(kind) for x in words)
        return a, b, integer_accumulators(draw, case, (count, form.m, form.n))
    sizes = Sizes(count, form.m, form.n, form.stored_k, FORMATS[form.a], FORMATS[form.b], FORMATS[form.c])
    a, b, c = FLOAT_CLASSES[case](draw, sizes)
    if pairs is not None:
        b = spread(form, pairs, b, FLOAT_CLASSES[case](draw, sizes)[1])
    kind = np.dtype(f"<u{element_bits(form.a) // 8}")
    return a.astype(kind), b.transpose(0, 2, 1).astype(kind), c


def problems(form: MmaForm, a_in_registers: bool, case: str, seed: int, batch: int, count: int) -> Problems:
    """``count`` problems of class ``case``. Batches of one seed have nothing in common."""
    chosen = setting(form, a_in_registers, case, seed, batch)
    draw = Draw("wgmma", form, a_in_registers, case, seed, batch)
    pairs = draw_pairs(form, draw, count) if form.is_sparse else None
    numbers = case if case != UNDEFINED else wgmma_classes(form)[1 if form.a in FORMATS else 0]
    a, b, c = _matrices(form, draw, numbers, count, pairs)
    image = (draw.words(count, IMAGE_BYTES // 8)).astype("<u8").view(np.uint8)
    _put(image, chosen.b, b, bool(chosen.trans_b))
    registers = raw_words(draw, count, 4, 4, 32)
    if a_in_registers:
        fragment = operand_a(16, a.shape[2], a.dtype.itemsize * 8)
        packed = pack(fragment, a.astype(np.uint64).reshape(count * 4, -1))
        registers = packed.reshape(count, 4, 4, 32).astype(np.uint32)
    else:
        _put(image, chosen.a, a, bool(chosen.trans_a))
    e = raw_metadata(draw, 4 * count)
    if pairs is not None and case != UNDEFINED:
        codes = draw_metadata(form, draw, np.repeat(pairs, 4, axis=0))
        lanes = reading_lanes(form, chosen.selector)
        e[:, :, lanes] = pack(metadata_fragment(form), codes.reshape(4 * count, -1))[:, :, lanes]
    return Problems(
        chosen, image, registers, accumulators(form, c), e.reshape(count, 4, 32),
        (a, b.transpose(0, 2, 1), c),
    )  # fmt: skip


def raw_words(draw: Draw, *shape: int) -> NDArray[np.uint32]:
    """Noise."""
    return (draw.words(*shape) >> np.uint64(32)).astype(np.uint32)


def _put(image: NDArray[np.uint8], descriptor: int, matrix: NDArray[Any], mn_major: bool) -> None:
    """Write matrices ``[problem, row or column, k]`` where a descriptor says."""
    size = matrix.dtype.itemsize
    addresses = element_addresses(descriptor, matrix.shape[1], matrix.shape[2], 8 * size, mn_major)
    octets = np.ascontiguousarray(matrix).view(np.uint8).reshape(*matrix.shape, size)
    image[:, addresses[..., None] + np.arange(size)] = octets


def accumulators(form: MmaForm, c: NDArray[Any]) -> NDArray[np.uint32]:
    """Registers ``[problem, warp, register, lane]`` from elements ``[problem, row, column]``."""
    row, column = places(form)
    elements = c.astype(np.uint32)[:, row, column]  # [problem, warp, register, lane, element]
    if form.d == "f16":
        return np.ascontiguousarray(elements[..., 0] | elements[..., 1] << np.uint32(16))
    return np.ascontiguousarray(elements[..., 0])


def places(form: MmaForm) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Row and column of each element of D, ``[warp, register, lane, element]``."""
    row, column, _ = wgmma_fragment(form, "d").coordinates()
    rows = row + 16 * np.arange(4)[:, None, None, None]
    return rows, np.broadcast_to(column, rows.shape)
