# mypy: allow-untyped-defs, allow-untyped-calls
"""Operands of many warps through the plan kernels of :mod:`isa.tensor`.

Each kernel has a loop of its own here, written out: a loop made by a factory would be compiled anew by every process.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpu_ref.tensor.inputs import Operands, Registers, SparseOperands
from gpu_ref.tensor.sparse_inputs import variant
from isa.compiled import compiled
from isa.tensor import Plan
from isa.tensor.mma_884 import mma_884
from isa.tensor.mma_f64 import mma_f64
from isa.tensor.mma_float import mma_float
from isa.tensor.mma_integer import mma_bits, mma_integer
from isa.tensor.mma_sparse import mma_sparse_float, mma_sparse_integer

__all__ = ["replay"]


@compiled
def _float(d, a, b, c, numbers):
    for i in range(len(d)):
        mma_float(d[i], a[i], b[i], c[i], numbers)


@compiled
def _f64(d, a, b, c, numbers):
    for i in range(len(d)):
        mma_f64(d[i], a[i], b[i], c[i], numbers)


@compiled
def _884(d, a, b, c, numbers):
    for i in range(len(d)):
        mma_884(d[i], a[i], b[i], c[i], numbers)


@compiled
def _integer(d, a, b, c, numbers):
    for i in range(len(d)):
        mma_integer(d[i], a[i], b[i], c[i], numbers)


@compiled
def _bits(d, a, b, c, numbers):
    for i in range(len(d)):
        mma_bits(d[i], a[i], b[i], c[i], numbers)


@compiled
def _sparse_float(d, a, b, c, e, selectors, numbers):
    for i in range(len(d)):
        mma_sparse_float(d[i], a[i], b[i], c[i], e[i, 0], selectors[i], numbers)


@compiled
def _sparse_integer(d, a, b, c, e, selectors, numbers):
    for i in range(len(d)):
        mma_sparse_integer(d[i], a[i], b[i], c[i], e[i, 0], selectors[i], numbers)


_LOOPS: dict[str, Any] = {
    "mma_float": _float, "mma_f64": _f64, "mma_884": _884, "mma_integer": _integer, "mma_bits": _bits,
    "mma_sparse_float": _sparse_float, "mma_sparse_integer": _sparse_integer,
}  # fmt: skip


def replay(plan: Plan, operands: Operands | SparseOperands) -> Registers:
    """D of every warp, ``[warp, register, lane]``."""
    loop = _LOOPS[plan.kernel.__name__]
    planes: dict[str, Registers] = operands._asdict()
    warps = len(operands.a)
    planes["d"] = np.empty((warps, plan.registers["d"], 32), operands.a.dtype)
    more: list[Any] = []
    if isinstance(operands, SparseOperands):
        more = [operands.e, np.array([variant(plan.form, warp).selector for warp in range(warps)])]
    for call in plan.calls:
        d, *abc = (planes[r.operand][:, r.first : r.first + r.count] for r in (call.d, call.a, call.b, call.c))
        result = np.empty(d.shape, d.dtype)
        loop(result, *(np.ascontiguousarray(x) for x in abc), *more, plan.numbers)
        d[...] = result
    return planes["d"]
