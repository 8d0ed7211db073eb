"""The tensor core of a sub-partition: the pipe of HMMA, IMMA, BMMA and DMMA.

An ``mma`` holds it for its initiation interval and delivers its fragment after its latency; chained accumulators wait
for the whole latency. Both come from the chip's table, keyed by shape and operand type (``mma.m16n8k16.f16``). What a
``wmma`` or an FP8 ``mma`` is made of is there too. On GH100 the interval of ``mma.sync`` is 6 cycles where the
arithmetic alone would take 4: only ``wgmma`` reaches the peak rate. ``active`` counts the 4.
"""

from __future__ import annotations

import re

from isa.kernels.planes import PLANE_BYTES
from isa.program import Program

__all__ = ["TENSOR_PIPE", "operand_wavefronts", "tensor_kind"]

TENSOR_PIPE = "tensor"

_INTEGERS = ("s8", "u8", "s4", "u4", "b1")


def tensor_kind(timing: str) -> str:
    """Nsight Compute's name of the operation that a timing class is: ``hmma``, ``imma`` or ``dmma``."""
    operand = timing.rpartition(".")[2]
    if operand in _INTEGERS:
        return "imma"
    return "dmma" if operand == "f64" else "hmma"


_WARPGROUP = re.compile(r"GMMA(?P<sparse>\.SP)?\.64x(?P<n>\d+)x")
_ROW_BYTES, _WAVEFRONT_BYTES, _WARPS = 32, 128, 4


def operand_wavefronts(program: Program, pc: int) -> float:
    """Wavefronts of shared memory that a warp's part of a warpgroup's ``mma`` counts as; 0 of other machine code.

    They are what its operands take there: 64 rows of A, unless that comes in four registers, and as many of B as the result has
    columns, each of 32 bytes, or of 64 of B if A is sparse. (Recorded launches on an H200: 48 for m64n128k16, 16 of a m64n64k16
    with A in registers; what else these count waits for one another and wavers.)
    """
    found = _WARPGROUP.search(program.opcodes[pc])
    if found is None:
        return 0.0
    registers = range(1, program.registers_per_thread + 1)
    written = set(program.writes[pc])
    others = sum(place not in written and place // PLANE_BYTES in registers for place in set(program.reads[pc]))
    rows = int(found["n"]) * (2 if found["sparse"] else 1) + (0 if others >= 4 else 64)
    return rows * _ROW_BYTES / _WAVEFRONT_BYTES / _WARPS
