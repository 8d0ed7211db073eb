"""f32 and f64 arithmetic against exact rationals, in every rounding mode."""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isa.arith import compare, float32, float64
from isa.arith.primitives import bits_f32, bits_f64, f32_bits, f64_bits
from tests.reference import floats
from tests.reference.formats import F32, F64, MODES, Format
from tests.reference.words import tuples

CANONICAL_F32 = 0x7FFFFFFF


def run32(function: Callable, *words: int) -> int:
    """Bits of a float32 lane function of float32 operands given by their bits."""
    return int(f32_bits(np.float32(function(*(bits_f32(np.uint32(w)) for w in words)))))


def run64(function: Callable, *words: int) -> int:
    return int(f64_bits(np.float64(function(*(bits_f64(np.uint64(w)) for w in words)))))


def nan64(name: str, words: tuple[int, ...]) -> int:
    """The NaN that an f64 instruction gives: a NaN operand, quieted, else the default NaN; of several in this order."""
    order = {"fma": (1, 2, 0), "div": (0, 1), "sqrt": (0,)}.get(name, (1, 0))
    found = [words[i] for i in order if F64.is_nan(words[i])]
    return found[0] | 1 << 51 if found else 0xFFF8000000000000


ARITHMETIC = {
    "add": (floats.add, 2),
    "mul": (floats.mul, 2),
    "fma": (floats.fma, 3),
    "div": (floats.div, 2),
    "sqrt": (floats.sqrt, 1),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ARITHMETIC)
def test_f32_rounds_exactly(name: str, mode: str) -> None:
    reference, operands = ARITHMETIC[name]
    function = getattr(float32, f"{name}_f32_{mode}")
    for words in tuples(F32, operands, 1200, seed=operands):
        expected = reference(F32, *words, mode)
        got = run32(function, *words)
        assert got == (CANONICAL_F32 if expected is None else expected), (
            name,
            mode,
            [f"{w:08x}" for w in words],
            f"{got:08x}",
        )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ARITHMETIC)
def test_f64_rounds_exactly(name: str, mode: str) -> None:
    reference, operands = ARITHMETIC[name]
    function = getattr(float64, f"{name}_f64_{mode}")
    for words in tuples(F64, operands, 900, seed=operands):
        expected = reference(F64, *words, mode)
        got = run64(function, *words)
        assert got == (nan64(name, words) if expected is None else expected), (
            name,
            mode,
            [f"{w:016x}" for w in words],
            f"{got:016x}",
        )


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.sampled_from(MODES))
def test_f32_fma_of_any_words(a: int, b: int, c: int, mode: str) -> None:
    expected = floats.fma(F32, a, b, c, mode)
    assert run32(getattr(float32, f"fma_f32_{mode}"), a, b, c) == (CANONICAL_F32 if expected is None else expected)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.sampled_from(MODES))
def test_f64_fma_of_any_words(a: int, b: int, c: int, mode: str) -> None:
    expected = floats.fma(F64, a, b, c, mode)
    assert run64(getattr(float64, f"fma_f64_{mode}"), a, b, c) == (
        nan64("fma", (a, b, c)) if expected is None else expected
    )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["mul", "fma", "div"])
def test_f32_ftz_is_decided_after_rounding_with_unbounded_exponent(name: str, mode: str) -> None:
    reference, operands = ARITHMETIC[name]
    function = getattr(float32, f"{name}_ftz_f32_{mode}")
    rows = tuples(F32, operands, 1500, seed=21)
    least = [(0x00800000, x, c) for x in (0x3F7FFFFF, 0x3F7FFFFE, 0x3F800001) for c in (0, 1)]
    rows += [row[:operands] for row in least] + ([(0x86087800, 0x397A3800, 0x00C2B185)] if name == "fma" else [])
    for words in rows:
        flat = [F32.flush(w) for w in words]
        rounded = reference(F32, *flat, mode)
        expected = CANONICAL_F32 if rounded is None else rounded
        if all(map(F32.is_finite, flat)) and rounded is not None and F32.is_finite(rounded):
            v = [F32.value(w) for w in flat]
            exact = v[0] * v[1] if name == "mul" else v[0] / v[1] if name == "div" else v[0] * v[1] + v[2]
            if floats.is_tiny(F32, exact, mode):
                expected = F32.sign if exact < 0 else 0
        assert run32(function, *words) == expected, (name, mode, [f"{w:08x}" for w in words])


def test_modifiers_and_signs() -> None:
    for (word,) in tuples(F32, 1, 1500, seed=5):
        nan = F32.is_nan(word)
        assert run32(float32.canon_f32, word) == (CANONICAL_F32 if nan else word)
        assert run32(float32.abs_f32, word) == (CANONICAL_F32 if nan else F32.magnitude(word))
        assert run32(float32.neg_f32, word) == (CANONICAL_F32 if nan else word ^ F32.sign)
        assert run32(float32.sat_f32, word) == floats.saturate(F32, None if nan else word)
        if not nan:
            assert run32(float32.ftz_f32, word) == F32.flush(word)
            assert run32(float32.copysign_f32, 0x80000000, word) == word | F32.sign
            assert run32(float32.copysign_f32, 0x7F800000, word) == F32.magnitude(word)
    for (word,) in tuples(F64, 1, 800, seed=6):
        nan = F64.is_nan(word)
        assert run64(float64.abs_f64, word) == (word | 1 << 51 if nan else F64.magnitude(word))
        assert run64(float64.neg_f64, word) == (word | 1 << 51 if nan else word ^ F64.sign)
        assert run64(float64.sat_f64, word) == floats.saturate(F64, None if nan else word)
        assert run64(float64.copysign_f64, F64.sign, word) == word | F64.sign


RELATIONS: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip


@pytest.mark.parametrize("width", [32, 64])
def test_comparisons_and_classes(width: int) -> None:
    f: Format = F32 if width == 32 else F64
    run = run32 if width == 32 else run64

    def number(word: int) -> np.floating:
        return bits_f32(np.uint32(word)) if width == 32 else bits_f64(np.uint64(word))

    def key(word: int) -> int:
        return 0 if f.is_zero(word) else floats.order(f, word)

    for a, b in tuples(f, 2, 500, seed=8):
        x, y = number(a), number(b)
        unordered = f.is_nan(a) or f.is_nan(b)
        for name, relation in RELATIONS.items():
            holds = relation(key(a), key(b))
            assert bool(getattr(compare, name)(x, y)) == (holds and not unordered), name
            assert bool(getattr(compare, f"{name}u")(x, y)) == (holds or unordered), name
        assert bool(compare.num(x, y)) == (not unordered)
        assert bool(compare.nan(x, y)) == unordered
        for name, reference in (("min", floats.least), ("max", floats.greatest)):
            expected = reference(f, a, b)
            both = CANONICAL_F32 if width == 32 else b | 1 << 51
            assert run(getattr(compare, f"{name}_f{width}"), a, b) == (both if expected is None else expected), name
        if width == 32:
            strict = CANONICAL_F32 if unordered else floats.least(f, a, b)
            assert run32(compare.min_nan_f32, a, b) == strict
            strict = CANONICAL_F32 if unordered else floats.greatest(f, a, b)
            assert run32(compare.max_nan_f32, a, b) == strict
            magnitude = floats.least(f, f.magnitude(a), f.magnitude(b))
            got = run32(
                lambda p, q: compare.xorsign_f32(p, q, compare.min_f32(float32.abs_f32(p), float32.abs_f32(q))), a, b
            )
            assert got == (CANONICAL_F32 if magnitude is None else magnitude | (a ^ b) & f.sign)
    for (a,) in tuples(f, 1, 400, seed=9):
        x = number(a)
        assert bool(compare.is_finite(x)) == f.is_finite(a)
        assert bool(compare.is_infinite(x)) == f.is_infinite(a)
        assert bool(getattr(compare, f"is_subnormal_f{width}")(x)) == f.is_subnormal(a)
        assert bool(getattr(compare, f"is_normal_f{width}")(x)) == (f.is_finite(a) and not f.is_subnormal(a))
