"""Fused steps of terms of ordinary size give what the step for all operands gives, or say that they cannot."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from isa.tensor.formats import FLOAT_FORMATS
from isa.tensor.fused import MAX_A, MAX_B, MAX_TILE
from isa.tensor.mma_float import FloatNumbers, accumulate_any, accumulate_in_range
from isa.tensor.operands import FormatNumbers
from isa.tensor.plans import float_numbers
from isa.tensor.rules import RULES

ELEMENTS = {"f16": ("f16",), "bf16": ("bf16",), "tf32": ("tf32",), "fp8": ("e4m3", "e5m2")}


def _forms() -> Iterator[tuple[str, FloatNumbers]]:
    """Every fused rule of ``mma`` with its operands and both accumulators."""
    for rule in RULES.values():
        if rule.instruction in ("mma", "wmma") and rule.method in ("fused", "fused_halves"):
            for element in ELEMENTS.get(rule.family, ()):
                for c in ("f32", "f16"):
                    k = 512 // FLOAT_FORMATS[element].bits // 2
                    yield element, float_numbers(rule, 16, k, element, element, c, rule.d)


def _words(rng: np.random.Generator, count: int, f: FormatNumbers, spread: int) -> NDArray[np.uint32]:
    """Words of elements with exponents within ``spread`` of 1's, or of any bits; one in ten is 0, few are not finite."""
    low = f.fraction_bits + f.ignored_low_bits
    out = np.zeros(count, np.uint64)
    for position in range(max(1, 32 // f.bits)):
        top = f.magnitude_mask >> low
        exponent = rng.integers(max(0, f.bias - spread), min(top, f.bias + spread) + 1, count)
        element = (rng.integers(0, 2, count) << (f.bits - 1)) | (exponent << low) | rng.integers(0, 1 << low, count)
        element = np.where(rng.random(count) < 0.1, element & (1 << (f.bits - 1)), element)
        if not spread:
            element = rng.integers(0, 1 << f.bits, count)
        out |= element.astype(np.uint64) << np.uint64(position * f.bits)
    return out.astype(np.uint32)


@pytest.mark.parametrize("spread", [0, 1, 6, 90, 200])
def test_same_as_any(spread: int) -> None:
    """On random bits (spread 0) nearly everything is out of range; nearly nothing is where exponents are close."""
    rng = np.random.default_rng(spread)
    done = total = 0
    for _, p in _forms():
        for c_spread in (spread, 3):
            a, b = _words(rng, MAX_A, p.a, spread), _words(rng, MAX_B, p.b, spread)
            c = _words(rng, MAX_TILE, p.step.c, c_spread) & np.uint32((1 << p.step.c.bits) - 1)
            quick, slow = c.copy(), c.copy()
            accumulate_any(slow, a, b, p)
            if accumulate_in_range(quick, a, b, p):
                np.testing.assert_array_equal(quick, slow)
                done += 1
            else:
                np.testing.assert_array_equal(quick, c)
            total += 1
    if spread in (1, 6):
        assert done == total
    if spread == 0:
        assert done < total / 2


def test_zeros() -> None:
    """Sums of nothing but zeros are +0; a lone C comes through where it is in range."""
    _, p = next(iter(_forms()))
    a, b = np.zeros(MAX_A, np.uint32), np.full(MAX_B, 0x80008000, np.uint32)
    tile = np.full(MAX_TILE, 0x80000000, np.uint32)
    assert accumulate_in_range(tile, a, b, p)
    assert not tile.any()
    tile[:] = np.float32(-1.5).view(np.uint32)
    assert accumulate_in_range(tile, a, b, p)
    assert (tile == np.float32(-1.5).view(np.uint32)).all()
