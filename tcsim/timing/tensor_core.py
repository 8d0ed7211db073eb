"""The tensor core of a sub-partition: the pipe of HMMA, IMMA, BMMA and DMMA.

An ``mma`` holds it for its initiation interval and delivers its fragment after its latency; chained accumulators wait
for the whole latency. Both come from the chip's table, keyed by shape and operand type (``mma.m16n8k16.f16``). What a
``wmma`` or an FP8 ``mma`` is made of is there too. On GH100 the interval of ``mma.sync`` is 6 cycles where the
arithmetic alone would take 4: only ``wgmma`` reaches the peak rate. ``active`` counts the 4.
"""

from __future__ import annotations

__all__ = ["TENSOR_PIPE", "tensor_kind"]

TENSOR_PIPE = "tensor"

_INTEGERS = ("s8", "u8", "s4", "u4", "b1")


def tensor_kind(timing: str) -> str:
    """Nsight Compute's name of the operation that a timing class is: ``hmma``, ``imma`` or ``dmma``."""
    operand = timing.rpartition(".")[2]
    if operand in _INTEGERS:
        return "imma"
    return "dmma" if operand == "f64" else "hmma"
