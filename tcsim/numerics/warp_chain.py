# mypy: allow-untyped-defs, allow-untyped-calls, disable-error-code="no-untyped-def"
"""Chains of matrix instructions that take more than A, B and C: metadata of a sparse A, block scales. As
:mod:`tcsim.numerics.tile_chain`, on the kernels that execute them, each in a loop of its own.

``wgmma.sp`` has no kernel that takes a warp's operands from registers; the one of ``mma.sp`` with its numbers computes the same
rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa.compiled import compiled
from isa.tensor import SPARSE_FORMS, MmaForm, make_plan, metadata_fragment, mma_fragment
from isa.tensor.metadata import reading_lanes
from isa.tensor.mma_scaled import mma_groups, mma_scaled, mma_sparse_kind, mma_sparse_scaled
from isa.tensor.mma_sparse import SparseFloatNumbers, mma_sparse_float, mma_sparse_integer
from isa.tensor.plans import float_numbers, metadata_numbers
from isa.tensor.scaled_forms import container_shift, scale_lanes
from isa.tensor.scaled_plans import make_kind_plan
from isa.tensor.wgmma_plans import wgmma_rule
from tcsim.numerics.compress import chosen_elements
from tcsim.numerics.tile_chain import matrix_of, padded, tiles_of

__all__ = ["chain_warps"]


@compiled
def _sparse_float(sums, a, b, codes, sa, sb, numbers):
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            for k in range(a.shape[1]):
                mma_sparse_float(sums[i, j], a[i, k], b[j, k], sums[i, j], codes[i, k], 0, numbers)


@compiled
def _sparse_integer(sums, a, b, codes, sa, sb, numbers):
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            for k in range(a.shape[1]):
                mma_sparse_integer(sums[i, j], a[i, k], b[j, k], sums[i, j], codes[i, k], 0, numbers)


@compiled
def _sparse_kind(sums, a, b, codes, sa, sb, numbers):
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            for k in range(a.shape[1]):
                mma_sparse_kind(sums[i, j], a[i, k], b[j, k], sums[i, j], codes[i, k], 0, numbers)


@compiled
def _scaled(sums, a, b, codes, sa, sb, numbers):
    first = (0, 0)
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            for k in range(a.shape[1]):
                mma_scaled(sums[i, j], a[i, k], b[j, k], sums[i, j], sa[i, k], first, sb[j, k], first, numbers)


@compiled
def _sparse_scaled(sums, a, b, codes, sa, sb, numbers):
    first = (0, 0)
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            for k in range(a.shape[1]):
                d = sums[i, j]
                mma_sparse_scaled(d, a[i, k], b[j, k], d, codes[i, k], 0, sa[i, k], first, sb[j, k], first, numbers)


@compiled
def _groups(sums, a, b, codes, sa, sb, numbers):
    first = (0, 0)
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            for k in range(a.shape[1]):
                d = sums[i, j]
                mma_groups(d, a[i, k], b[j, k], d, codes[i, k], 0, sa[i, k], first, sb[j, k], first, numbers)


_LOOPS: dict[Any, Any] = {
    mma_sparse_float: _sparse_float, mma_sparse_integer: _sparse_integer, mma_sparse_kind: _sparse_kind, mma_scaled: _scaled,
    mma_sparse_scaled: _sparse_scaled, mma_groups: _groups,
}  # fmt: skip


class _Warp(NamedTuple):
    """The loop over a kernel and its numbers; ``form`` has the fragments."""

    loop: Any
    numbers: NamedTuple
    form: MmaForm


def _warp(form: MmaForm, sm: int) -> _Warp:
    if form.kind:
        plan = make_kind_plan(form, sm)
        return _Warp(_LOOPS[plan.kernel], plan.numbers, form)
    if form.instruction != "wgmma.sp":
        plan = make_plan(form, sm)
        return _Warp(_LOOPS[plan.kernel], plan.numbers, form)
    own = (form.k, form.a, form.b, form.satfinite)
    like = next(f for f in SPARSE_FORMS if (f.k, f.a, f.b, f.satfinite) == own and f.d in (form.d, "f32", "s32"))
    if form.d == "s32":
        return _Warp(_sparse_integer, make_plan(like, sm).numbers, like)
    floats = float_numbers(wgmma_rule(form, sm), like.m, form.stored_k, form.a, form.b, form.c, form.d)
    numbers = SparseFloatNumbers(floats, metadata_numbers(form, False, sm))
    return _Warp(_sparse_float, numbers, MmaForm(**{**_fields(like), "c": form.c, "d": form.d}))


def _fields(form: MmaForm) -> dict[str, Any]:
    return {name: getattr(form, name) for name in form.__struct_fields__}


# ----------------------------------------------------------------------------------------------------------- operands


def _metadata(places: NDArray[np.intp], form: MmaForm) -> NDArray[np.uint32]:
    """Metadata ``[row of tiles, instruction, lane]`` from the places along K of stored elements ``[row, element]``."""
    fragment = metadata_fragment(form)
    row, unit, _ = fragment.coordinates()
    lanes = reading_lanes(form, 0)
    per_row = places.shape[1] // form.stored_k
    inside = (places % form.k).reshape(-1, form.m, per_row, form.stored_k).transpose(0, 2, 1, 3)
    if form.a == "tf32":  # halves of an element are units
        halves = np.stack([2 * inside, 2 * inside + 1], axis=-1)
        codes = halves.reshape(*inside.shape[:3], -1) % 4
    else:
        codes = (inside[..., :: 2 if form.operand_bits == 4 else 1] // (2 if form.operand_bits == 4 else 1)) % 4
    words = np.zeros((*inside.shape[:2], 32), np.uint32)
    shifts = 2 * np.arange(fragment.per_register, dtype=np.uint32)
    chosen = codes[:, :, row[0, lanes], unit[0, lanes]].astype(np.uint32)
    words[:, :, lanes] = (chosen << shifts).sum(axis=-1, dtype=np.uint32)
    return words


def _scale_words(codes: NDArray[np.uint8], form: MmaForm, operand: str) -> NDArray[np.uint32]:
    """Scale operands ``[tile, instruction, lane]`` from codes ``[row or column, block]``."""
    size, lanes = (form.m if operand == "a" else form.n), scale_lanes(form, operand, 0)
    cut = codes.reshape(-1, size, codes.shape[1] // form.scale_vec, form.scale_vec).astype(np.uint32)
    words = np.zeros((cut.shape[0], cut.shape[2], 32), np.uint32)
    shifts = 8 * np.arange(form.scale_vec, dtype=np.uint32)
    words[:, :, lanes] = (cut << shifts).sum(axis=-1, dtype=np.uint32).transpose(0, 2, 1)
    return words


def chain_warps(
    a: NDArray[np.uint32], b: NDArray[np.uint32], c: NDArray[np.uint32], form: MmaForm, sm: int,
    scale_a: NDArray[np.uint8] | None = None, scale_b: NDArray[np.uint8] | None = None,
) -> NDArray[Any]:  # fmt: skip
    """The bits of D: ``c`` and then, k ascending, instructions of ``form``, which is sparse or has scales.

    ``a`` ``[M, K]``, of a sparse form with its zeros, ``b`` ``[K, N]`` and ``c`` ``[M, N]`` are bit patterns, K a multiple of
    the form's; ``scale_a`` ``[M, K / block]`` and ``scale_b`` ``[N, K / block]`` codes. Raises OperandError where A is not
    sparse.
    """
    warp = _warp(form, sm)
    fragments = {name: mma_fragment(warp.form, name) for name in "abc"}
    rows, columns = warp.form.m, warp.form.n
    count = b.shape[0] // form.k
    a, b = padded(a, rows, form.k), padded(b, form.k, columns)
    codes = np.zeros((len(a) // rows, count, 32), np.uint32)
    if form.is_sparse:
        places = chosen_elements(a, form)
        a = np.take_along_axis(a, places, axis=1)
        codes = _metadata(places, warp.form)
    if form.kind:
        a, b = a << np.uint32(container_shift(form, "a")), b << np.uint32(container_shift(form, "b"))
    a_tiles = tiles_of(a, fragments["a"], rows)
    b_tiles = np.ascontiguousarray(tiles_of(b, fragments["b"], form.k).transpose(1, 0, 2, 3))
    sums = tiles_of(padded(c, rows, columns), fragments["c"], rows)
    words = [codes, codes]
    for at, (name, scales) in enumerate((("a", scale_a), ("b", scale_b))):
        if scales is not None:
            size = rows if name == "a" else columns
            words[at] = _scale_words(np.pad(scales, ((0, -len(scales) % size), (0, 0))), form, name)
    warp.loop(sums, a_tiles, b_tiles, codes, *words, warp.numbers)
    return matrix_of(sums, fragments["c"], rows)[: c.shape[0], : c.shape[1]].astype(c.dtype)
