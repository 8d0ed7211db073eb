"""An instruction and its hooks as one kernel. Compiled."""

from __future__ import annotations

import numpy as np

from isa.kernels.planes import as_i32, as_u32, call_kernel

__all__ = ["fused"]


def fused(base, lanes, place, ctx):
    """A sequence of kernels as one. ``place``: address of their number, then of each its address (two words) and where its row
    is, in bytes from here."""
    row = as_i32(place)
    status = np.int32(0)
    for index in range(row[0]):
        at = 1 + 3 * index
        address = np.int64(as_u32(place)[at]) | np.int64(row[at + 1]) << np.int64(32)
        status = call_kernel(address, base, lanes, place + row[at + 2], ctx)
        if status != 0:
            return status
    return status
