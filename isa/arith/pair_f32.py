"""Pairs of float32 in a 64-bit register (``.f32x2``), element 0 in the low half; first on sm_100 (PTX ISA 9.7.3)."""

from __future__ import annotations

import numpy as np

from isa.arith.lane import lane
from isa.arith.primitives import bits_f32, f32_bits

__all__ = ["high_f32", "low_f32", "pack_f32"]


@lane
def low_f32(x):
    """Element 0, float32."""
    return bits_f32(np.uint32(x & np.uint64(0xFFFFFFFF)))


@lane
def high_f32(x):
    """Element 1, float32."""
    return bits_f32(np.uint32(x >> np.uint64(32)))


@lane
def pack_f32(element0, element1):
    """The uint64 with two float32 elements."""
    return np.uint64(f32_bits(element0)) | (np.uint64(f32_bits(element1)) << np.uint64(32))
