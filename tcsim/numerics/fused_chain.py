# mypy: allow-untyped-defs, allow-untyped-calls, disable-error-code="no-untyped-def"
"""Chains of fused tensor-core steps over a whole matrix, panel by panel of B (:mod:`isa.tensor.panels`)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa.compiled import allocating, inlined
from isa.tensor.fused import NAN_F16, NAN_F32
from isa.tensor.panels import PANEL, PanelNumbers, decode_panel, panel_step
from isa.tensor.plans import float_numbers, panel_numbers
from isa.tensor.rules import Rule
from isa.tensor.simd import bitcast, from_f16_bits, is_nan, load8, select, store8, to_f16_bits

__all__ = ["chain_fused"]

_MANY_ROWS = 1024  # whose decoded A stays in the cache while panels of B go by


class ChainNumbers(NamedTuple):
    """With ``halves``, two steps start from +0, and the accumulator is added to their result with one rounding."""

    halves: int
    panel: PanelNumbers


@inlined
def _add_rounded(total, addend, half):
    """float32 lanes added to nearest even in the accumulator's format, NaN canonical."""
    result = total + addend
    if half:  # rounding the sum of two float16 numbers to float32 first changes nothing: 24 bits >= 2 * 11 + 2
        return from_f16_bits(select(is_nan(result), NAN_F16, to_f16_bits(result)))
    return bitcast(select(is_nan(result), NAN_F32, bitcast(result, np.uint32)), np.float32)


@allocating
def _chain(accumulators, a_words, b_words, p):
    """``accumulators`` (float32 [panel, row, 32]) += A (uint32 [step, row, product]) times B ([panel, step, product, 32])."""
    panels, steps, rows, panel_p = b_words.shape[0], b_words.shape[1], a_words.shape[1], p.panel
    a_value, a_exponent = np.empty(a_words.size, np.float32), np.empty(a_words.size, np.int32)
    b_value, b_exponent = np.empty(b_words[0].size, np.float32), np.empty(b_words[0].size, np.int32)
    partial = np.zeros((rows if p.halves else 0) * PANEL, np.float32)
    decode_panel(a_value, a_exponent, a_words.reshape(-1), a_words.size, panel_p.a)
    a_words, of_b = a_words.reshape(-1), panel_p.products * PANEL
    for panel in range(panels):
        b_panel, sums = b_words[panel].reshape(-1), accumulators[panel].reshape(-1)
        decode_panel(b_value, b_exponent, b_panel, b_panel.size, panel_p.b)
        target = partial if p.halves else sums
        for step in range(steps):
            at_b = step * of_b
            words, value = b_panel[at_b : at_b + of_b], b_value[at_b : at_b + of_b]
            exponent = b_exponent[at_b : at_b + of_b]
            if p.halves and step % 2 == 0:
                partial[:] = 0
            for r in range(rows):
                row = (step * rows + r) * panel_p.products
                panel_step(target, r * PANEL, a_words, a_value, a_exponent, row, words, value, exponent, panel_p)
            if p.halves and step % 2 == 1:
                for i in range(0, rows * PANEL, 8):
                    store8(sums, i, _add_rounded(load8(partial, i), load8(sums, i), panel_p.step.half))


# ---------------------------------------------------------------------------------------------------------- whole matrices


def _chain_numbers(rule: Rule, k: int, a: str, b: str) -> ChainNumbers:
    halves = float_numbers(rule, 16, max(k, 8), a, b, rule.d, rule.d).halves
    return ChainNumbers(halves, panel_numbers(rule, k // 2 if halves else min(rule.products, k), a, b))


def _order(k: int, whole: int, numbers: ChainNumbers) -> NDArray[np.intp]:
    """The elements of ``k`` in the order in which steps take them; instructions take ``whole`` each."""
    index = np.arange(k).reshape(-1, whole)
    if numbers.halves:
        half = np.arange(whole) % 4 >= 2
        index = np.concatenate([index[:, ~half], index[:, half]], axis=1)
    return index.reshape(-1, numbers.panel.products)


def chain_fused(
    a: NDArray[np.uint32], b: NDArray[np.uint32], c: NDArray[np.uint32], rule: Rule, k: int, a_type: str, b_type: str
) -> NDArray[np.uint32]:
    """The bits of D: ``c`` and then, k ascending, instructions of ``k`` products under a rule of method ``fused`` or
    ``fused_halves``.

    ``a`` ``[M, K]`` and ``b`` ``[K, N]`` are bit patterns of ``a_type`` and ``b_type``, K a multiple of ``k`` and not 0; ``c``
    ``[M, N]`` those of ``rule.d``, as is the result.
    """
    numbers = _chain_numbers(rule, k, a_type, b_type)
    order = _order(a.shape[1], k, numbers)
    columns, panels = b.shape[1], -(-b.shape[1] // PANEL)
    padded = np.zeros((b.shape[0], panels * PANEL), np.uint32)
    padded[:, :columns] = b
    b_words = np.ascontiguousarray(padded.reshape(-1, panels, PANEL)[order].transpose(2, 0, 1, 3))
    out = np.empty(c.shape, np.uint32)
    for first in range(0, len(a), _MANY_ROWS):
        block = a[first : first + _MANY_ROWS]
        rows = -(-len(block) // 8) * 8
        a_words = np.zeros((len(order), rows, numbers.panel.products), np.uint32)
        a_words[:, : len(block)] = block[:, order].transpose(1, 0, 2)
        start = np.zeros((rows, panels * PANEL), np.float32)
        start[: len(block), :columns] = _values(c[first : first + _MANY_ROWS], rule.d)
        sums = np.ascontiguousarray(start.reshape(rows, panels, PANEL).transpose(1, 0, 2))
        _chain(sums, a_words, b_words, numbers)
        result = sums.transpose(1, 0, 2).reshape(rows, -1)[: len(block), :columns]
        out[first : first + _MANY_ROWS] = _bits(result, rule.d)
    return out


def _values(bits: NDArray[np.uint32], d: str) -> NDArray[np.float32]:
    if d == "f32":
        return bits.view(np.float32)
    return bits.astype(np.uint16).view(np.float16).astype(np.float32)


def _bits(values: NDArray[np.float32], d: str) -> NDArray[Any]:
    if d == "f32":
        return np.ascontiguousarray(values).view(np.uint32)
    halves = values.astype(np.float16).view(np.uint16).astype(np.uint32)  # exact
    return np.where(np.isnan(values), np.uint32(NAN_F16), halves)
