"""Shared memory that the system reserves in every CTA from sm_80 on, where cooperative groups keep their barriers.

On sm_90 it stands before the CTA's own, from address 0, and machine code counts it in its addresses. Up to sm_89 it stands
behind: ptxas makes ``%reserved_smem_offset_cap`` of ``SR_SMEMSZ``, all shared memory of the CTA, and
``%reserved_smem_offset_begin`` of that less the size.
"""

from __future__ import annotations

__all__ = ["RESERVED_END", "RESERVED_SHARED", "all_shared", "reserved_behind"]

RESERVED_SHARED = 1024
"""Bytes (CUDA programming guide, 16.8.3; ``%reserved_smem_offset_cap`` of an H200)."""

RESERVED_END = 0x120
"""``%reserved_smem_offset_end`` from where it begins, on an H200 (in constant bank 0 of its kernels)."""

_UNIT = 128


def all_shared(own: int) -> int:
    """``SR_SMEMSZ``: all shared memory of a CTA that has ``own`` bytes itself."""
    return -(-(own + RESERVED_SHARED) // _UNIT) * _UNIT


def reserved_behind(own: int) -> int:
    """Where the system's shared memory begins up to sm_89."""
    return all_shared(own) - RESERVED_SHARED
