"""Operands that the PTX ISA leaves undefined: instructions do what an H200 does, and take note for after the launch."""

from __future__ import annotations

import numpy as np

from isa.arith.lane import lane
from isa.kernels.planes import load_i64, store_i64
from isa.machine import UNDEFINED

__all__ = ["DESCRIPTOR", "SPARSITY", "TF32", "WHAT", "note_undefined", "note_unread"]

SPARSITY, TF32, DESCRIPTOR = 1, 2, 4

WHAT: dict[int, str] = {
    SPARSITY: "sparsity metadata that are no pairs of indices of a 2:4 (tf32: 1:2) sparse row (PTX ISA 9.7.14.6.1)",
    TF32: "tf32 operands whose low 13 bits are not zero; the tensor cores drop these bits. cvt.rna.tf32.f32 rounds instead "
    "(PTX ISA 5.2.3)",
    DESCRIPTOR: "a matrix descriptor with reserved bits set, or of a matrix that does not begin where its swizzle does and has "
    "another base offset than that asks for (PTX ISA 9.7.15.5.1.2)",
}
"""By bit of the machine's word: what was met, and where PTX leaves it undefined."""


@lane
def note_undefined(ctx, what):
    """Set a bit of the machine's word ``UNDEFINED``."""
    store_i64(ctx + 8 * UNDEFINED, load_i64(ctx + 8 * UNDEFINED) | np.int64(what))


@lane
def note_unread(a, b, bits, ctx):
    """Take note of operands ``[register, lane]`` that have some of these bits, which no tf32 element has."""
    found = np.uint32(0)
    for register in range(a.shape[0]):
        for number in range(32):
            found |= a[register, number]
    for register in range(b.shape[0]):
        for number in range(32):
            found |= b[register, number]
    if (found & np.uint32(bits)) != 0:
        note_undefined(ctx, TF32)
