"""A scalar form's compiled kernel on columns of operands, from Python: the code that executed kernels run, lane for lane."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from isa.kernels.cache import kernel_address
from isa.kernels.wrap import KernelSpec
from isa.spec.registry import Form, ResolvedOperand

__all__ = ["Words", "run_lanes"]

Words = NDArray[np.uint64]

_KERNEL = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64, ctypes.c_uint32, ctypes.c_int64, ctypes.c_int64)
_LANES = np.arange(32, dtype=np.uint64)


def run_lanes(form: Form, columns: Sequence[Words]) -> list[Words]:
    """The results of a form on rows of operands: a column of words for each destination.

    ``columns`` has one for each source, in the form's order, its word in the low bits; of a predicate the lowest bit counts. A
    result narrower than 32 bits is in the low bits of the register it is in, extended as the instruction extends it.
    """
    rows = len(columns[0])
    warps = -(-rows // 32)
    offsets, predicate, plane = [], 0, 1  # plane 0 holds the predicate words
    for operand in form.operands:
        if operand.type.kind == "p":
            offsets.append(predicate)
            predicate += 1
        else:
            offsets.append(32 * plane)
            plane += operand.type.planes
    blocks = np.zeros((warps, 32 * plane), np.uint32)
    given = iter(columns)
    for operand, at in zip(form.operands, offsets, strict=True):
        if not operand.is_destination:
            words = np.zeros(32 * warps, np.uint64)
            words[:rows] = next(given)
            _write(blocks, operand, at, words.reshape(warps, 32))
    kernel = _KERNEL(kernel_address(KernelSpec(form, tuple(o.type.planes for o in form.operands), {})))
    row, address = np.array([4 * at for at in offsets], np.int32), blocks.ctypes.data
    for warp in range(warps):
        status = kernel(address + 4 * blocks.shape[1] * warp, 0xFFFFFFFF, row.ctypes.data, 0)
        assert status == 0  # scalar instructions have no faults
    return [
        _read(blocks, operand, at)[:rows] for operand, at in zip(form.operands, offsets, strict=True) if operand.is_destination
    ]


def _write(blocks: NDArray[np.uint32], operand: ResolvedOperand, at: int, words: Words) -> None:
    if operand.type.kind == "p":
        blocks[:, at] = ((words & np.uint64(1)) << _LANES).sum(axis=1)
        return
    for half in range(operand.type.planes):
        blocks[:, at + 32 * half : at + 32 * half + 32] = words >> np.uint64(32 * half) & np.uint64(0xFFFFFFFF)


def _read(blocks: NDArray[np.uint32], operand: ResolvedOperand, at: int) -> Words:
    if operand.type.kind == "p":
        bits: Words = blocks[:, at, None].astype(np.uint64) >> _LANES & np.uint64(1)
        return bits.reshape(-1)
    words = np.zeros((len(blocks), 32), np.uint64)
    for half in range(operand.type.planes):
        words |= blocks[:, at + 32 * half : at + 32 * half + 32].astype(np.uint64) << np.uint64(32 * half)
    return words.reshape(-1)
