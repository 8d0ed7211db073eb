"""How many warp instructions of the scalar kind a core executes in a second.

    python -m pytest tests/benchmarks/bench_instructions.py --benchmark-columns=median,ops

Each round runs a compiled loop of 10,000 calls of one kernel through its address, as the interpreter does;
``m_instructions_per_second`` in the extra information is what to read.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import njit

import isa.instructions  # noqa: F401  (fills the registry)
from isa.kernels.cache import kernel_address
from isa.kernels.planes import call_kernel
from isa.kernels.wrap import KernelSpec
from isa.spec import find

CALLS = 10_000

OPCODES = [
    "add.s32",
    "mad.lo.s32",
    "mul.wide.u32",
    "add.s64",
    "lop3.b32",
    "prmt.b32",
    "shf.l.wrap.b32",
    "setp.lt.s32",
    "selp.b32",
    "add.cc.u32",
    "fma.rn.f32",
    "fma.rn.ftz.f32",
    "add.rz.f32",
    "div.rn.f32",
    "fma.rn.f64",
    "fma.rn.f16x2",
    "fma.rn.bf16x2",
    "max.f16x2",
    "cvt.rn.f16x2.f32",
    "cvt.f32.f16",
    "cvt.rzi.s32.f32",
    "ex2.approx.ftz.f32",
    "rcp.approx.ftz.f32",
]


@njit
def call_often(kernel, registers, operands, calls):  # type: ignore[no-untyped-def]
    """``calls`` times the kernel on all lanes; the sum of its statuses keeps the loop alive."""
    total = 0
    for _ in range(calls):
        total += call_kernel(kernel, registers, np.uint32(0xFFFFFFFF), operands, 0)
    return total


@pytest.mark.parametrize("opcode", OPCODES)
def test_rate(benchmark: Any, opcode: str) -> None:
    form = find(opcode)[0][0]
    kernel = kernel_address(KernelSpec(form, tuple(o.type.planes for o in form.operands), {}))
    planes = 2 * len(form.operands) + 1
    memory = np.random.default_rng(1).integers(0, 1 << 32, 32 * planes + 16, dtype=np.uint32)
    aligned = memory[(-memory.ctypes.data % 64) // 4 :]
    # Predicates are words of the first plane, every other operand has a pair of planes.
    row = np.array([4 * i if o.type.kind == "p" else 128 * (2 * i + 1) for i, o in enumerate(form.operands)], np.int32)
    arguments = (kernel, aligned.ctypes.data, row.ctypes.data, CALLS)
    assert call_often(*arguments) == 0
    benchmark(call_often, *arguments)
    benchmark.extra_info["m_instructions_per_second"] = round(CALLS / benchmark.stats["median"] / 1e6, 1)
