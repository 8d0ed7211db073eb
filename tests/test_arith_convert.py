"""Conversions against exact rationals."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isa.arith import bfloat16, convert, float8, rounding
from isa.arith.primitives import bits_f32, bits_f64, f16_bits_to_f32, f32_bits, f64_bits
from tests.reference.conversions import E4M3, E5M2, INTEGRAL_MODES, float_to_integer, integral, limits, narrow, to_byte
from tests.reference.formats import BF16, F16, F32, F64, MODES, Format
from tests.reference.words import integers, tuples

NAN16 = 0x7FFF
FORMATS = {"f16": F16, "bf16": BF16, "f32": F32, "f64": F64}


def scalar(f: Format, word: int) -> Any:
    """float32 (exactly widened) or float64 with the value of a word."""
    if f is F64:
        return bits_f64(np.uint64(word))
    if f is F32:
        return bits_f32(np.uint32(word))
    return f16_bits_to_f32(np.uint16(word)) if f is F16 else bfloat16.bf16_to_f32(np.uint16(word))


@numba.njit
def bf16_bits_widened(u: np.uint16) -> np.uint32:
    """Bits to bits, since a float32 that returns to Python passes through float64, which quiets a NaN."""
    return f32_bits(bfloat16.bf16_to_f32(u))


@numba.njit
def tf32_rna_bits(u: np.uint32) -> np.uint32:
    return convert.f32_to_tf32_rna(bits_f32(u))


def words(f: Format, count: int = 1500, seed: int = 1) -> list[int]:
    return [w for (w,) in tuples(f, 1, count, seed)]


def truncated_nan(target: Format, word: int) -> int:
    """The NaN that a float64 NaN becomes: sign and upper payload bits, quieted."""
    payload = (word & ((1 << 52) - 1)) >> (52 - target.mbits)
    return (target.sign if F64.negative(word) else 0) | target.infinity | 1 << (target.mbits - 1) | payload


@pytest.mark.parametrize("mode", MODES)
def test_narrowing_floats(mode: str) -> None:
    to_bf16 = bfloat16.f32_to_bf16_rn if mode == "rn" else getattr(convert, f"f32_to_bf16_{mode}")
    for word in words(F64, 2500):
        x = scalar(F64, word)
        want = narrow(F64, F32, word, mode)
        got = int(f32_bits(getattr(rounding, f"f64_to_f32_{mode}")(x)))
        assert got == (truncated_nan(F32, word) if want is None else want), f"{word:016x}"
        for target in (F16, BF16):
            want = narrow(F64, target, word, mode)
            got = int(getattr(convert, f"f64_to_{target.name}_{mode}")(x))
            assert got == (truncated_nan(target, word) if want is None else want), f"{word:016x}"
    for word in words(F32, 2500):
        x = scalar(F32, word)
        want = narrow(F32, F16, word, mode)
        assert int(getattr(convert, f"f32_to_f16_{mode}")(x)) == (NAN16 if want is None else want), f"{word:08x}"
        want = narrow(F32, BF16, word, mode)
        assert int(to_bf16(x)) == (NAN16 if want is None else want), f"{word:08x}"


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**64 - 1), st.sampled_from(MODES))
def test_narrowing_any_f64(word: int, mode: str) -> None:
    want = narrow(F64, F16, word, mode)
    got = int(getattr(convert, f"f64_to_f16_{mode}")(bits_f64(np.uint64(word))))
    assert got == (truncated_nan(F16, word) if want is None else want)


def test_widening_is_exact() -> None:
    for word in range(0x10000):
        if F16.is_finite(word):
            assert int(f32_bits(f16_bits_to_f32(np.uint16(word)))) == narrow(F16, F32, word, "rn")
        assert int(bf16_bits_widened(np.uint16(word))) == word << 16


@pytest.mark.parametrize("kind", ["s64", "u64"])
@pytest.mark.parametrize("mode", MODES)
def test_integers_to_floats(kind: str, mode: str) -> None:
    f64 = getattr(convert, f"{kind}_to_f64_{mode}")
    odd = getattr(convert, f"{kind}_to_f64_odd")
    dtype = np.int64 if kind == "s64" else np.uint64
    near = [((1 << b) + d) & 0xFFFFFFFFFFFFFFFF for b in range(20, 64) for d in range(-2, 3)]
    for (raw,) in integers(64, 1, 800, seed=3) + [(w,) for w in near]:
        x = raw - (1 << 64) if kind == "s64" and raw >> 63 else raw
        assert int(f64_bits(f64(dtype(x)))) == F64.round(x, mode), x
        wide = odd(dtype(x))
        assert int(f32_bits(getattr(rounding, f"f64_to_f32_{mode}")(wide))) == F32.round(x, mode), x
        assert int(getattr(convert, f"f64_to_f16_{mode}")(wide)) == F16.round(x, mode), x
        assert int(getattr(convert, f"f64_to_bf16_{mode}")(wide)) == BF16.round(x, mode), x


@pytest.mark.parametrize("kind", ["f16", "f32", "f64"])
@pytest.mark.parametrize("mode", sorted(INTEGRAL_MODES))
def test_floats_to_integers(kind: str, mode: str) -> None:
    f = FORMATS[kind]
    round_to_integral = getattr(convert, mode)
    near = [
        f.round(n + Fraction(d, 4))
        for n in (0, 1, 127, 128, 255, 32767, 2**23, 2**31, 2**32 - 1, 2**52)
        for d in range(-4, 5)
    ]
    for word in words(f) + near + [w | f.sign for w in near]:
        x = round_to_integral(scalar(f, word))
        if f.is_finite(word):
            assert float(x) == integral(f.value(word), mode)
            assert bool(np.signbit(x)) == f.negative(word)
        for bits, signed in ((8, True), (8, False), (16, True), (32, True), (32, False)):
            want = float_to_integer(f, word, mode, bits, signed, nan=0)
            assert int(convert.float_to_int(np.float64(x), *limits(bits, signed), 0)) == want, f"{word:x}"
        want = float_to_integer(f, word, mode, 64, True, nan=-(1 << 63))
        assert int(convert.float_to_s64(np.float64(x))) == want, f"{word:x}"
        want = float_to_integer(f, word, mode, 64, False, nan=1 << 63)
        assert int(convert.float_to_u64(np.float64(x))) == want, f"{word:x}"
    assert int(convert.float_to_int(np.float64(np.nan), *limits(32, True), -(1 << 31))) == -(1 << 31)


def test_saturating_integer_conversions() -> None:
    for (word,) in integers(64, 1, 400, seed=2):
        x = word - (1 << 64) if word >> 63 else word
        assert int(convert.clamp_s64(np.int64(x), -128, 127)) == min(max(x, -128), 127)
        assert int(convert.clamp_u64(np.uint64(word), 0x7FFF)) == min(word, 0x7FFF)


def tf32(word: int, mode: str) -> int:
    """Round to 10 fraction bits by exact arithmetic."""
    tenbit = Format("tf32", 8, 10)
    rounded = narrow(F32, tenbit, word, mode)
    assert rounded is not None
    return rounded << 13


def test_tf32() -> None:
    for word in words(F32, 3000):
        x = scalar(F32, word)
        nan = F32.is_nan(word)
        assert int(convert.f32_to_tf32_rn(x)) == (0x7FFFE000 if nan else tf32(word, "rn"))
        assert int(convert.f32_to_tf32_rz(x)) == (0x7FFFE000 if nan else tf32(word, "rz"))
        if not nan:
            magnitude = F32.magnitude(word)
            away = magnitude if F32.is_infinite(word) else (magnitude + 0x1000) >> 13 << 13
            assert int(convert.f32_to_tf32_rna(x)) == away | word & F32.sign
    recorded = {
        0x7F800001: (0x7F800000, 0x7F7FE000),
        0x7FC38B9F: (0x7FC38000, 0x7FC36000),
        0x7F800000: (0x7F800000, 0x7F7FE000),
    }
    for word, (plain, finite) in recorded.items():  # read from an H200
        got = tf32_rna_bits(np.uint32(word))
        assert (int(got), int(convert.satfinite_tf32(got))) == (plain, finite)


def test_satfinite_halves() -> None:
    for word in range(0x10000):
        f16 = word - 1 if F16.is_infinite(word) else word
        bf16 = word - 1 if BF16.is_infinite(word) else word
        assert int(convert.satfinite_f16(np.uint16(word))) == f16
        assert int(convert.satfinite_bf16(np.uint16(word))) == bf16


@pytest.mark.parametrize("kind", ["e4m3", "e5m2"])
def test_float_to_byte(kind: str) -> None:
    values = E4M3 if kind == "e4m3" else E5M2
    function = getattr(float8, f"f32_to_{kind}")
    halfway = [F32.round((a + b) / 2) + d for a, b in itertools.pairwise(values) for d in (-1, 0, 1)]
    top = F32.round(values[-1] * 17 / 16)
    for word in words(F32, 1500) + halfway + [w | F32.sign for w in halfway] + [top - 1, top, top + 1]:
        assert int(function(scalar(F32, word))) == to_byte(values, F32, word), f"{word:08x}"
    packed = getattr(float8, f"f16x2_to_{kind}x2")
    for word in range(0, 0x10000, 7):
        other = (word * 40503) & 0xFFFF
        want = to_byte(values, F16, other) << 8 | to_byte(values, F16, word)
        assert int(packed(np.uint32(other << 16 | word))) == want
    pair = getattr(float8, f"f32x2_to_{kind}x2")
    assert int(pair(np.float32(1.0), np.float32(-2.0))) == int(function(np.float32(1.0))) << 8 | int(
        function(np.float32(-2.0))
    )


@pytest.mark.parametrize("kind", ["e4m3", "e5m2"])
def test_byte_to_f16(kind: str) -> None:
    values = E4M3 if kind == "e4m3" else E5M2
    function = getattr(float8, f"{kind}x2_to_f16x2")

    def want(code: int) -> int:
        magnitude = code & 0x7F
        if magnitude < len(values):
            return F16.round(values[magnitude], negative_zero=code > 0x7F) | (F16.sign if code & 0x80 else 0)
        return F16.infinity | (code & 0x80) << 8 if kind == "e5m2" and magnitude == 0x7C else NAN16

    for low in range(256):
        high = low * 77 % 256
        assert int(function(np.uint16(high << 8 | low))) == want(high) << 16 | want(low)
        if kind == "e4m3" and low & 0x7F != 0x7F:
            got = int(f32_bits(float8.e4m3_to_f32(np.uint16(low))))
            assert got == F32.round(values[low & 0x7F]) | (F32.sign if low & 0x80 else 0)


def test_relu_of_a_source() -> None:
    for word in words(F32, 500):
        got = int(f32_bits(float8.relu_f32(scalar(F32, word))))
        assert F32.is_nan(got) if F32.is_nan(word) else got == (0 if F32.negative(word) else word)
