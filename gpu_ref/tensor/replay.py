# mypy: allow-untyped-defs, allow-untyped-calls
"""Operands of many warps through the plan kernels of :mod:`isa.tensor`.

Each kernel has a loop of its own here, written out: a loop made by a factory would be compiled anew by every process.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpu_ref.tensor.inputs import Operands, Registers
from isa.compiled import compiled
from isa.tensor import Plan
from isa.tensor.mma_884 import mma_884
from isa.tensor.mma_f64 import mma_f64
from isa.tensor.mma_float import mma_float
from isa.tensor.mma_integer import mma_bits, mma_integer

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


_LOOPS: dict[str, Any] = {
    "mma_float": _float, "mma_f64": _f64, "mma_884": _884, "mma_integer": _integer, "mma_bits": _bits,
}  # fmt: skip


def replay(plan: Plan, operands: Operands) -> Registers:
    """D of every warp, ``[warp, register, lane]``."""
    loop = _LOOPS[plan.kernel.__name__]
    planes: dict[str, Registers] = operands._asdict()
    planes["d"] = np.empty((len(operands.a), plan.registers["d"], 32), operands.a.dtype)
    for call in plan.calls:
        d, *abc = (planes[r.operand][:, r.first : r.first + r.count] for r in (call.d, call.a, call.b, call.c))
        result = np.empty(d.shape, d.dtype)
        loop(result, *(np.ascontiguousarray(x) for x in abc), plan.numbers)
        d[...] = result
    return planes["d"]
