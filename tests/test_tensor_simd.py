"""Eight-lane vectors: each operation compiled, against NumPy; and scratch arrays on the stack."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba import njit
from numba.core.errors import TypingError

from isa.arith.stack import stack_array
from isa.tensor import simd
from isa.tensor.simd import (
    any_lane,
    bitcast,
    convert,
    from_f16_bits,
    fused_multiply_add,
    is_nan,
    load4x2,
    load8,
    load_repeated,
    maximum,
    minimum,
    population_count,
    select,
    splat,
    store4x2,
    store8,
    to_f16_bits,
)

RNG = np.random.default_rng(1)
INTEGERS = {
    t: RNG.integers(np.iinfo(t).min, np.iinfo(t).max, (2, 8), dtype=t)
    for t in (np.int32, np.uint32, np.int64, np.uint64)
}
FLOATS = {t: RNG.normal(size=(2, 8)).astype(t) for t in (np.float32, np.float64)}
FLOATS[np.float32][0, 3] = FLOATS[np.float64][0, 3] = np.nan
ALL = {**INTEGERS, **FLOATS}


def same(function: Callable[..., None], out: np.ndarray, *arrays: np.ndarray) -> np.ndarray:
    """Run a kernel compiled and as plain Python; both must write the same to ``out``."""
    compiled, plain = np.zeros_like(out), np.zeros_like(out)
    with np.errstate(all="ignore"):
        njit(function)(compiled, *arrays)
        function(plain, *arrays)
    np.testing.assert_array_equal(compiled, plain)
    return compiled


@pytest.mark.parametrize("dtype", ALL, ids=lambda t: t.__name__)
def test_arithmetic(dtype: type) -> None:
    x, y = ALL[dtype]

    def kernel(out: Any, x: Any, y: Any) -> None:
        store8(out, 0, load8(x, 0) + load8(y, 0))
        store8(out, 8, load8(x, 0) - load8(y, 0))
        store8(out, 16, load8(x, 0) * load8(y, 0))
        store8(out, 24, load8(x, 0) + 3)
        store8(out, 32, 3 - load8(x, 0))

    out = same(kernel, np.zeros(40, dtype), x, y)
    np.testing.assert_array_equal(out.reshape(5, 8), [x + y, x - y, x * y, x + dtype(3), dtype(3) - x])


@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda t: t.__name__)
def test_bits_and_shifts(dtype: type) -> None:
    x, y = INTEGERS[dtype]

    def kernel(out: Any, x: Any, y: Any) -> None:
        a, b = load8(x, 0), load8(y, 0)
        store8(out, 0, a & b)
        store8(out, 8, a | b)
        store8(out, 16, a ^ b)
        store8(out, 24, a << 5)
        store8(out, 32, a >> 5)
        store8(out, 40, maximum(a, b))
        store8(out, 48, minimum(a, b))
        store8(out, 56, population_count(a))

    out = same(kernel, np.zeros(64, dtype), x, y)
    counts = [int(v).bit_count() for v in x.view(f"u{x.itemsize}")]
    right = [x & y, x | y, x ^ y, x << dtype(5), x >> dtype(5), np.maximum(x, y), np.minimum(x, y), counts]
    np.testing.assert_array_equal(out.reshape(8, 8), right)


@pytest.mark.parametrize("dtype", ALL, ids=lambda t: t.__name__)
def test_comparisons_and_select(dtype: type) -> None:
    x, y = ALL[dtype]

    def kernel(out: Any, x: Any, y: Any) -> None:
        a, b = load8(x, 0), load8(y, 0)
        store8(out, 0, select(a < b, a, 7))
        store8(out, 8, select(a >= b, 7, b))
        store8(out, 16, select(a == b, a, b))
        store8(out, 24, select((a != 5) | (a > b), b, a))
        store8(out, 32, select(a <= b, a, b))

    out = same(kernel, np.zeros(40, dtype), x, y)
    seven = dtype(7)
    right = [
        np.where(x < y, x, seven), np.where(x >= y, seven, y), np.where(x == y, x, y),
        np.where((x != 5) | (x > y), y, x), np.where(x <= y, x, y),
    ]  # fmt: skip
    np.testing.assert_array_equal(out.reshape(5, 8), right)


@pytest.mark.parametrize("source, target", [
    (np.int32, np.int64), (np.uint32, np.uint64), (np.int64, np.int32), (np.int32, np.float32), (np.uint32, np.float32),
    (np.int32, np.float64), (np.int64, np.float64), (np.float32, np.float64), (np.float64, np.float32),
    (np.float32, np.int32), (np.float64, np.int64), (np.int32, np.int32), (np.float64, np.float64),
])  # fmt: skip
def test_conversions(source: type, target: type) -> None:
    x = (RNG.normal(size=8) * 1e5).astype(source) if source not in INTEGERS else INTEGERS[source][0]

    def kernel(out: Any, x: Any) -> None:
        store8(out, 0, convert(load8(x, 0), target))

    np.testing.assert_array_equal(same(kernel, np.zeros(8, target), x), x.astype(target))


def test_bit_patterns() -> None:
    x = INTEGERS[np.uint32][0]

    def reinterpret(out: Any, x: Any) -> None:
        store8(out, 0, bitcast(bitcast(load8(x, 0), np.float32), np.uint32))
        store8(out, 8, bitcast(bitcast(load8(x, 0), np.int32) >> 31, np.uint32))

    out = same(reinterpret, np.zeros(16, np.uint32), x)
    np.testing.assert_array_equal(out.reshape(2, 8), [x, np.where(x >> 31, 0xFFFFFFFF, 0)])


def test_halves() -> None:
    halves = np.arange(0, 0x7C01, dtype=np.uint32)[: 0x7C00 // 8 * 8]  # every finite magnitude

    @njit
    def there_and_back(out: Any, x: Any) -> None:
        for i in range(0, len(x), 8):
            store8(out, i, to_f16_bits(from_f16_bits(load8(x, i))))

    out = np.zeros_like(halves)
    there_and_back(out, halves)
    np.testing.assert_array_equal(out, halves)

    def rounds(out: Any, x: Any) -> None:
        store8(out, 0, to_f16_bits(load8(x, 0)))

    x = np.array([1 + 2.0**-11, 1 + 3 * 2.0**-11, 2.0**-25, 3 * 2.0**-26, 65519, 65520, -0.0, -np.inf], np.float32)
    right = [0x3C00, 0x3C02, 0, 1, 0x7BFF, 0x7C00, 0x8000, 0xFC00]
    np.testing.assert_array_equal(same(rounds, np.zeros(8, np.uint32), x), right)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fused_multiply_add_rounds_once(dtype: type) -> None:
    unit = np.finfo(dtype).eps
    a, b, c = (np.full(8, v, dtype) for v in (1 + unit, 1 - unit, -1.0))

    def kernel(out: Any, a: Any, b: Any, c: Any) -> None:
        store8(out, 0, fused_multiply_add(load8(a, 0), load8(b, 0), load8(c, 0)))

    np.testing.assert_array_equal(same(kernel, np.zeros(8, dtype), a, b, c), np.full(8, -unit * unit, dtype))


def test_loads_and_stores() -> None:
    x = np.arange(64, dtype=np.uint32).reshape(2, 32)

    def kernel(out: Any, x: Any) -> None:
        store8(out, 3, load4x2(x, 5, 40))
        store4x2(out, 20, 30, load8(x, 28))
        store8(out, 40, load_repeated(x, 33))
        store8(out, 48, splat(9, np.uint32))

    out = same(kernel, np.zeros(64, np.uint32), x)
    assert out[3:11].tolist() == [5, 6, 7, 8, 40, 41, 42, 43]
    assert out[20:24].tolist() == [28, 29, 30, 31] and out[30:34].tolist() == [32, 33, 34, 35]
    assert out[40:56].tolist() == [33] * 8 + [9] * 8


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda t: t.__name__)
def test_is_nan(dtype: type) -> None:
    x = FLOATS[dtype][0]

    def kernel(out: Any, x: Any) -> None:
        store8(out, 0, select(is_nan(load8(x, 0)), splat(1, np.int32), 0))

    assert same(kernel, np.zeros(8, np.int32), x).tolist() == [0, 0, 0, 1, 0, 0, 0, 0]


def test_any_lane() -> None:
    @njit
    def kernel(x: Any) -> bool:
        return any_lane(load8(x, 0) > 5)

    assert not kernel(np.array([0, 1, 2, 3, 4, 5, 5, 5]))
    assert all(kernel(np.eye(8, dtype=np.int64)[lane] * 6) for lane in range(8))


def test_vectors_of_different_types_do_not_mix() -> None:
    @njit
    def kernel(x: Any, y: Any) -> bool:
        return any_lane(load8(x, 0) + load8(y, 0) > 0)

    with pytest.raises(TypingError):
        kernel(np.zeros(8, np.int32), np.zeros(8, np.float32))


def test_everything_public_is_tested_here() -> None:
    assert set(simd.__all__) - {"LANES", "Vector"} <= set(globals())


# ------------------------------------------------------------------------------------------------------ stack_array


def test_stack_arrays_are_apart_and_aligned() -> None:
    @njit
    def kernel(n: int) -> Any:
        x, y = stack_array(37, np.int32), stack_array(5, np.float64)
        for i in range(37):
            x[i] = i * n
        y[:] = 0.5
        return x.sum(), y.sum(), x.ctypes.data % 64, y.ctypes.data % 64, x.size, y.itemsize

    assert kernel(3) == (3 * 666, 2.5, 0, 0, 37, 8)


def test_stack_arrays_in_a_loop_do_not_grow_the_stack() -> None:
    @njit
    def step(i: int) -> int:
        x = stack_array(4096, np.int64)
        x[i % 4096] = i
        return x[i % 4096]

    @njit
    def kernel(n: int) -> int:
        total = 0
        for i in range(n):
            x = stack_array(4096, np.int64)
            x[0] = step(i)
            total += x[0]
        return total

    assert kernel(100_000) == 100_000 * 99_999 // 2  # 3 GB, were it to grow


def test_stack_arrays_need_a_constant_size() -> None:
    @njit
    def kernel(n: int) -> float:
        return stack_array(n, np.float32).sum()

    with pytest.raises(TypingError):
        kernel(3)


def test_stack_array_outside_compiled_code() -> None:
    x = stack_array(3, np.int16)
    assert x.shape == (3,) and x.dtype == np.int16
