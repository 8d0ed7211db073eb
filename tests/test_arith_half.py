"""f16 and bf16 arithmetic against exact rationals."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isa.arith import bfloat16, float16
from isa.arith.packed import pack
from tests.reference import floats
from tests.reference.formats import BF16, F16, Format
from tests.reference.words import tuples

NAN = 0x7FFF
FORMATS = {"f16": (F16, float16), "bf16": (BF16, bfloat16)}


def run(function: Callable, *words: int) -> int:
    result = function(*(np.uint16(w) for w in words))
    assert isinstance(result, (int, np.uint16))
    return int(result)


def canonical(bits: int | None) -> int:
    return NAN if bits is None else bits


def sub(f: Format, a: int, b: int) -> int | None:
    return floats.add(f, a, b ^ f.sign)


ARITHMETIC = {"add": (floats.add, 2), "sub": (sub, 2), "mul": (floats.mul, 2), "fma": (floats.fma, 3)}


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic_rounds_once(kind: str, name: str) -> None:
    f, module = FORMATS[kind]
    reference, operands = ARITHMETIC[name]
    function = getattr(module, f"{name}_{kind}")
    for words in tuples(f, operands, 3000, seed=7):
        assert run(function, *words) == canonical(reference(f, *words)), (name, [f"{w:04x}" for w in words])


@settings(max_examples=300, deadline=None)
@given(*[st.integers(0, 0xFFFF)] * 3, st.sampled_from(sorted(FORMATS)))
def test_fma_of_any_words(a: int, b: int, c: int, kind: str) -> None:
    f, module = FORMATS[kind]
    assert run(getattr(module, f"fma_{kind}"), a, b, c) == canonical(floats.fma(f, a, b, c))


def flushed(exact: Fraction, rounded: int | None) -> int:
    """The result of an ``.ftz`` operation: zero where ``exact``, rounded to 11 bits of any exponent, is subnormal."""
    if rounded is not None and F16.is_finite(rounded) and floats.is_tiny(F16, exact):
        return rounded & F16.sign
    return canonical(rounded)


def test_ftz_is_decided_after_rounding_with_unbounded_exponent() -> None:
    assert run(float16.fma_f16, 0x0A42, 0x88B2, 0x0400) == 0x0400
    assert run(float16.fma_ftz_f16, 0x0A42, 0x88B2, 0x0400) == 0  # both read from an H200
    assert run(float16.fma_ftz_f16, 0x0A76, 0x8401, 0x0400) == 0x0400
    for words in tuples(F16, 3, 3000, seed=11):
        a, b, c = (F16.flush(w) for w in words)
        rounded = floats.fma(F16, a, b, c)
        exact = F16.value(a) * F16.value(b) + F16.value(c) if all(map(F16.is_finite, (a, b, c))) else Fraction(0)
        assert run(float16.fma_ftz_f16, *words) == flushed(exact, rounded), [f"{w:04x}" for w in words]
    for words in tuples(F16, 2, 3000, seed=12):
        a, b = (F16.flush(w) for w in words)
        exact = F16.value(a) * F16.value(b) if F16.is_finite(a) and F16.is_finite(b) else Fraction(0)
        assert run(float16.mul_ftz_f16, *words) == flushed(exact, floats.mul(F16, a, b)), [f"{w:04x}" for w in words]


@pytest.mark.parametrize("kind", FORMATS)
def test_min_and_max(kind: str) -> None:
    f, module = FORMATS[kind]
    for a, b in tuples(f, 2, 1500, seed=3):
        for name, reference in (("min", floats.least), ("max", floats.greatest)):
            assert run(getattr(module, f"{name}_{kind}"), a, b) == canonical(reference(f, a, b))
            any_nan = f.is_nan(a) or f.is_nan(b)
            strict = NAN if any_nan else canonical(reference(f, a, b))
            assert run(getattr(module, f"{name}_nan_{kind}"), a, b) == strict
            magnitude = reference(f, f.magnitude(a), f.magnitude(b))
            signed = NAN if magnitude is None else magnitude | (a ^ b) & f.sign
            assert run(getattr(module, f"{name}_xorsign_{kind}"), a, b) == signed
            assert run(getattr(module, f"{name}_nan_xorsign_{kind}"), a, b) == (NAN if any_nan else signed)


@pytest.mark.parametrize("kind", FORMATS)
def test_modifiers_on_every_word(kind: str) -> None:
    f, module = FORMATS[kind]
    for word in range(0, 0x10000, 5):
        nan = f.is_nan(word)
        assert run(getattr(module, f"canon_{kind}"), word) == (NAN if nan else word)
        assert run(getattr(module, f"abs_{kind}"), word) == (NAN if nan else word & 0x7FFF)
        assert run(getattr(module, f"neg_{kind}"), word) == (NAN if nan else word ^ 0x8000)
        assert run(getattr(module, f"relu_{kind}"), word) == (NAN if nan else 0 if f.negative(word) else word)
        if kind == "f16":
            assert run(float16.ftz_f16, word) == f.flush(word)
            assert run(float16.sat_f16, word) == floats.saturate(f, None if nan else word)


@pytest.mark.parametrize("kind", FORMATS)
def test_pairs_do_each_half_alone(kind: str) -> None:
    f, module = FORMATS[kind]
    names = [n.removesuffix("x2") for n in module.__all__ if n.endswith("x2")]
    assert len(names) >= 16
    words = [w for row in tuples(f, 3, 60, seed=1) for w in row]
    for name in names:
        one, two = getattr(module, name), getattr(module, f"{name}x2")
        operands = 3 if name.startswith("fma") else 2 if name.startswith(("add", "sub", "mul", "min", "max")) else 1
        for i in range(0, len(words) - 6, 5):
            low = [np.uint16(w) for w in words[i : i + operands]]
            high = [np.uint16(w) for w in words[i + 3 : i + 3 + operands]]
            pairs = [np.uint32(int(low[k]) | int(high[k]) << 16) for k in range(operands)]
            assert int(two(*pairs)) == int(one(*low)) | int(one(*high)) << 16, name
    assert int(pack(np.uint16(0x1234), np.uint16(0xABCD))) == 0xABCD1234
