# mypy: allow-untyped-defs, allow-untyped-calls, disable-error-code="call-arg"
"""Problems of :mod:`gpu_ref.tensor.wgmma_inputs` through the kernels that execute ``wgmma``."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpu_ref.tensor.wgmma_inputs import IMAGE_BYTES, Problems
from isa import instructions as _instructions  # noqa: F401  (fills the registry)
from isa.compiled import compiled
from isa.errors import TcsimError
from isa.kernels.cache import kernel_address
from isa.kernels.planes import call_kernel
from isa.kernels.wrap import KernelSpec
from isa.machine import SHARED_HOST, SHARED_SIZE, WARP, WORDS
from isa.spec import find
from isa.tensor.forms import MmaForm
from isa.tensor.wgmma_operands import flat
from isa.tensor.wgmma_plans import WgmmaPlan, accumulator_registers, make_wgmma_plan, operand_order

__all__ = ["replay_wgmma"]


@compiled
def _run(kernel, blocks, row, ctx, images):
    for i in range(len(blocks)):
        ctx[SHARED_HOST] = images[i].ctypes.data
        for warp in range(4):
            ctx[WARP] = warp
            block = blocks[i, warp].ctypes.data
            status: int = call_kernel(kernel, block, np.uint32(0xFFFFFFFF), row.ctypes.data, ctx.ctypes.data)
            if status != 0:
                return status
    return 0


def _kernel(form: MmaForm) -> int:
    """The address of the kernel that executes a form."""
    found = find(str(form))[0][0]
    rule = found.instruction.arch_rule
    assert rule is not None
    return kernel_address(KernelSpec(found, (1,) * len(found.operands), rule(found.params, 90)))


def replay_wgmma(form: MmaForm, given: Problems, plan: WgmmaPlan | None = None) -> NDArray[np.uint32]:
    """D of every problem, ``[problem, warp, register, lane]``, by the H200's rule or by that of another plan."""
    chosen = given.setting
    plan = plan or make_wgmma_plan(form, 90, chosen.a_in_registers)
    count, registers = len(given.image), accumulator_registers(form)
    order = operand_order(form, chosen.a_in_registers)
    constants = [(chosen.a, 64), (chosen.b, 64)] if not chosen.a_in_registers else [(chosen.b, 64)]
    constants += [(0 if name == "metadata" else getattr(chosen, name), 32) for name in order]
    planes: list[NDArray[np.uint32]] = [given.c]
    row = list(range(registers))
    if chosen.a_in_registers:
        row += range(registers, registers + 4)
        planes.append(given.a)
    at = registers + 4 * chosen.a_in_registers
    for value, bits in constants:
        row.append(at)
        words = [value >> shift & 0xFFFFFFFF for shift in range(0, bits, 32)]
        planes.append(np.broadcast_to(np.array(words, np.uint32)[:, None], (count, 4, len(words), 32)))
        at += len(words)
    if form.is_sparse:
        row[registers + (4 if chosen.a_in_registers else 1) + 1] = at
        planes.append(given.e[:, :, None])
    row += range(registers)
    numbers = flat(plan.numbers)
    row = [at + bool(form.is_sparse) + i for i in range(len(numbers))] + row
    constants_of = np.array([x & 0xFFFFFFFF for x in numbers], np.uint32)
    planes.append(np.broadcast_to(constants_of[:, None], (count, 4, len(numbers), 32)))
    blocks = np.ascontiguousarray(np.concatenate(planes, axis=2))
    ctx = np.zeros(WORDS, np.int64)
    ctx[SHARED_SIZE] = IMAGE_BYTES
    status = _run(_kernel(form), blocks, np.array(row, np.int32) * 128, ctx, given.image)
    if status != 0:
        raise TcsimError(f"{form}: fault {status} at {int(ctx[2]):#x}")
    return blocks[:, :, :registers].copy()
