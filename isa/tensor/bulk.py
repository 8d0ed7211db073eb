"""Many dot products at once, from NumPy, on the kernels that execute ``mma``."""

from __future__ import annotations

from typing import Any

import numpy as np

from isa.compiled import compiled
from isa.errors import TcsimError
from isa.tensor.forms import element_bits
from isa.tensor.layouts import accumulator, operand_a, operand_b
from isa.tensor.mma_float import FloatNumbers, mma_float
from isa.tensor.plans import float_numbers
from isa.tensor.rules import Rule

__all__ = ["BulkShapeError", "block_dot"]

_MAX_WORDS = 8  # of 32 bits in a row of A, which is what the kernel has room for


class BulkShapeError(TcsimError):
    """The arrays given to :func:`block_dot` do not fit together, or with the rule."""


@compiled
def _run(d: Any, a: Any, b: Any, c: Any, numbers: FloatNumbers) -> None:
    for i in range(len(d)):
        mma_float(d[i], a[i], b[i], c[i], numbers)


def block_dot(
    a_bits: np.ndarray, b_bits: np.ndarray, c_bits: np.ndarray, rule: Rule, a_type: str, b_type: str | None = None
) -> np.ndarray:
    """``c + sum(a * b)`` of each row, under a rule of method ``fused`` or ``fused_halves``.

    ``a_bits`` and ``b_bits`` are bit patterns of ``a_type`` and ``b_type`` (default: the same), shape (n, K);
    ``c_bits`` are bit patterns of ``rule.d``, shape (n,). Returns bit patterns of ``rule.d`` in uint32, shape (n,). K
    is filled up with zeros, which change nothing, to a multiple of 128 bits; it may be at most 256 bits. Raises
    :class:`BulkShapeError`.
    """
    b_type = b_type or a_type
    bits = element_bits(a_type)
    n, k = a_bits.shape
    if b_bits.shape != (n, k) or c_bits.shape != (n,) or element_bits(b_type) != bits:
        raise BulkShapeError(
            f"block_dot: a {a_type}{a_bits.shape}, b {b_type}{b_bits.shape} and c {c_bits.shape} do not fit: "
            "a and b must be (n, K) of one width and c (n,)"
        )
    if rule.method not in ("fused", "fused_halves") or k * bits > 32 * _MAX_WORDS:
        raise BulkShapeError(
            f"block_dot: K = {k} of {a_type} under a rule of method {rule.method}; "
            f"it takes 'fused' and 'fused_halves', and K up to {32 * _MAX_WORDS // bits}"
        )
    padded_k = -(-k * bits // 128) * 128 // bits
    tiles = -(-n // 8)
    a, b = np.zeros((2, tiles * 8, padded_k), np.uint64)
    a[:n, :k], b[:n, :k] = a_bits, b_bits
    c = np.zeros(tiles * 8, np.uint64)
    c[:n] = c_bits
    return _diagonals(a, b, c, rule, a_type, b_type)[:n]


def _diagonals(a: np.ndarray, b: np.ndarray, c: np.ndarray, rule: Rule, a_type: str, b_type: str) -> np.ndarray:
    """Eight dot products are the diagonal of one 8 x 8 tile."""
    k, tiles = a.shape[1], len(c) // 8
    d_bits = element_bits(rule.d)
    a_layout, b_layout = operand_a(8, k, element_bits(a_type)), operand_b(k, 8, element_bits(b_type))
    d_layout = accumulator(8, 8, d_bits)
    numbers: FloatNumbers = float_numbers(rule, 8, k, a_type, b_type, rule.d, rule.d)
    a_planes = np.stack([a_layout.pack(x) for x in a.reshape(tiles, 8, k)])
    b_planes = np.stack([b_layout.pack(x.T) for x in b.reshape(tiles, 8, k)])
    c_planes = np.stack([d_layout.pack(np.diag(x)) for x in c.reshape(tiles, 8)])
    d_planes = np.empty_like(c_planes)
    _run(d_planes, a_planes, b_planes, c_planes, numbers)
    return np.concatenate([np.diag(d_layout.unpack(x)) for x in d_planes]).astype(np.uint32)
