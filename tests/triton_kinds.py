"""Triton kernels beyond products and norms: sorts, scans, histograms, scaled small floats, reshaping, a gradient of attention.

Every launch gives what was written and what NumPy expects. The files of Triton read a kernel's source, so it stands here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import triton
import triton.language as tl

Result = tuple[np.ndarray, np.ndarray]
SEED = 5


@triton.jit
def histogram(x, out, n, BLOCK: tl.constexpr, BINS: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at, at < n, 0)
    tl.atomic_add(out + tl.arange(0, BINS), tl.histogram(values, BINS, mask=at < n))


@triton.jit
def sort_rows(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.sort(tl.load(x + at), descending=True))


@triton.jit
def largest(x, out, BLOCK: tl.constexpr, K: tl.constexpr):
    row = tl.program_id(0)
    tl.store(out + row * K + tl.arange(0, K), tl.topk(tl.load(x + row * BLOCK + tl.arange(0, BLOCK)), K))


@triton.jit
def _then(a1, b1, a2, b2):
    return a1 * a2, b1 * a2 + b2


@triton.jit
def recurrence(a, b, out, T: tl.constexpr, C: tl.constexpr, REVERSE: tl.constexpr):
    at = tl.arange(0, T)[:, None] * C + tl.arange(0, C)[None, :]
    _, state = tl.associative_scan((tl.load(a + at), tl.load(b + at)), 0, _then, reverse=REVERSE)
    tl.store(out + at, state)


@triton.jit
def dequantised(a, b, scale, out, K: tl.constexpr):
    m, n, k = tl.arange(0, 32)[:, None], tl.arange(0, 32)[None, :], tl.arange(0, K)
    total = tl.dot(tl.load(a + m * K + k[None, :]), tl.load(b + k[:, None] * 32 + n), out_dtype=tl.int32)
    tl.store(out + m * 32 + n, total.to(tl.float32) * tl.load(scale + n))


@triton.jit
def scaled(a, sa, b, sb, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, FA: tl.constexpr, FB: tl.constexpr):
    PA: tl.constexpr = 2 if FA == "e2m1" else 1
    PB: tl.constexpr = 2 if FB == "e2m1" else 1
    m, n, blocks = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K // 32)
    x = tl.load(a + m[:, None] * (K // PA) + tl.arange(0, K // PA)[None, :])
    y = tl.load(b + tl.arange(0, K // PB)[:, None] * N + n[None, :])
    u = tl.load(sa + m[:, None] * (K // 32) + blocks[None, :])
    v = tl.load(sb + n[:, None] * (K // 32) + blocks[None, :])
    tl.store(out + m[:, None] * N + n[None, :], tl.dot_scaled(x, u, FA, y, v, FB))


@triton.jit
def gathered(x, index, out, R: tl.constexpr, C: tl.constexpr):
    at = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    tl.store(out + at, tl.gather(tl.load(x + at), tl.load(index + at), 1))


@triton.jit
def reshaped(x, out, B: tl.constexpr):
    values, at = tl.load(x + tl.arange(0, B)), tl.arange(0, B)
    a, b = tl.split(tl.reshape(tl.trans(tl.reshape(values, (B // 4, 4))), (B // 2, 2)))
    tl.store(out + at, tl.flip(tl.interleave(a, b), 0))
    tl.store(out + B + at, tl.reshape(tl.join(a, b * 2), (B,)))
    tl.store(out + 2 * B + at, tl.ravel(tl.permute(tl.reshape(values, (2, B // 8, 4)), (2, 0, 1))))


@triton.jit
def key_gradients(q, k, v, do, lse, delta, dk, dv, scale, L: tl.constexpr, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    n, e = tl.program_id(0) * BN + tl.arange(0, BN), tl.arange(0, D)
    keys, values = tl.load(k + n[:, None] * D + e[None, :]), tl.load(v + n[:, None] * D + e[None, :])
    of_keys, of_values = tl.zeros((BN, D), tl.float32), tl.zeros((BN, D), tl.float32)
    for start in range(0, L, BM):
        m = start + tl.arange(0, BM)
        queries, gradient = tl.load(q + m[:, None] * D + e[None, :]), tl.load(do + m[:, None] * D + e[None, :])
        p = tl.math.exp2(tl.dot(keys, tl.trans(queries)) * (scale * 1.44269504) - tl.load(lse + m)[None, :])
        p = tl.where(m[None, :] >= n[:, None], p, 0.0)
        of_values += tl.dot(p.to(tl.float16), gradient)
        ds = p * (tl.dot(values, tl.trans(gradient)) - tl.load(delta + m)[None, :])
        of_keys += tl.dot(ds.to(tl.float16), queries)
    tl.store(dk + n[:, None] * D + e[None, :], of_keys * scale)
    tl.store(dv + n[:, None] * D + e[None, :], of_values)


def _histogram(rng: Any) -> Result:
    x, out = rng.integers(0, 64, 1000).astype(np.int32), np.zeros(64, np.int32)
    histogram[(4,)](x, out, 1000, BLOCK=256, BINS=64)
    return out, np.bincount(x, minlength=64)


def _sort(rng: Any) -> Result:
    x = rng.standard_normal((5, 128)).astype(np.float32)
    out = np.zeros_like(x)
    sort_rows[(5,)](x, out, BLOCK=128)
    return out, -np.sort(-x, 1)


def _largest(rng: Any) -> Result:
    x, out = rng.integers(-1000, 1000, (4, 256)).astype(np.int32), np.zeros((4, 16), np.int32)
    largest[(4,)](x, out, BLOCK=256, K=16)
    return out, -np.sort(-x, 1)[:, :16]


def _recurrence(rng: Any, reverse: bool) -> Result:
    a = rng.uniform(0.5, 1, (64, 16)).astype(np.float32)
    b = rng.standard_normal((64, 16)).astype(np.float32)
    out, expected, state = np.zeros_like(b), np.zeros((64, 16)), np.zeros(16)
    recurrence[(1,)](a, b, out, T=64, C=16, REVERSE=reverse)
    for t in range(63, -1, -1) if reverse else range(64):
        expected[t] = state = state * a[t] + b[t]
    return out, expected


def _dequantised(rng: Any) -> Result:
    a, b = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((32, 64), (64, 32)))
    scale, out = rng.standard_normal(32).astype(np.float32), np.zeros((32, 32), np.float32)
    dequantised[(1,)](a, b, scale, out, K=64)
    return out, (a.astype(np.int32) @ b.astype(np.int32)) * scale


_E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
_E2M1 = np.concatenate([_E2M1, -_E2M1])
_SMALL = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}


def _operand(rng: Any, shape: tuple[int, int], kind: str, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Bytes and values of an operand; e2m1 is packed along ``axis``."""
    if kind != "e2m1":
        small = rng.standard_normal(shape).astype(_SMALL[kind])
        return small.view(np.uint8), small.astype(np.float32)
    packed = rng.integers(0, 256, [extent // (1 + (n == axis)) for n, extent in enumerate(shape)]).astype(np.uint8)
    return packed, np.stack([_E2M1[packed & 15], _E2M1[packed >> 4]], axis + 1).reshape(shape)


def _scaled(rng: Any, first: str, second: str) -> Result:
    m, n, k = 64, 32, 128
    (a, av), (b, bv) = _operand(rng, (m, k), first, 1), _operand(rng, (k, n), second, 0)
    sa, sb = (rng.integers(120, 134, (rows, k // 32)).astype(np.uint8) for rows in (m, n))
    out = np.zeros((m, n), np.float32)
    scaled[(1,)](a, sa, b, sb, out, M=m, N=n, K=k, FA=first, FB=second)
    av, bv = av * np.repeat(2.0 ** (sa.astype(int) - 127), 32, 1), bv * np.repeat(2.0 ** (sb.astype(int) - 127), 32, 1).T
    return out, av @ bv


def _gathered(rng: Any) -> Result:
    x, index = rng.standard_normal((8, 64)).astype(np.float32), rng.integers(0, 64, (8, 64)).astype(np.int32)
    out = np.zeros_like(x)
    gathered[(1,)](x, index, out, R=8, C=64)
    return out, np.take_along_axis(x, index, 1)


def _reshaped(rng: Any) -> Result:
    x, out = rng.standard_normal(64).astype(np.float32), np.zeros(192, np.float32)
    reshaped[(1,)](x, out, B=64)
    a, b = x.reshape(16, 4).T.reshape(32, 2).T
    parts = np.stack([a, b], 1).ravel()[::-1], np.stack([a, b * 2], 1).ravel(), x.reshape(2, 8, 4).transpose(2, 0, 1).ravel()
    return out, np.concatenate(parts)


def _key_gradients(rng: Any) -> Result:
    length, width = 128, 64
    q, k, v, do = (rng.standard_normal((length, width)).astype(np.float16) for _ in range(4))
    queries, keys, values, gradient = (x.astype(np.float64) for x in (q, k, v, do))
    scores = np.where(np.tril(np.ones((length, length))), queries @ keys.T * width**-0.5, -np.inf)
    top = scores.max(1, keepdims=True)
    total = np.exp(scores - top).sum(1, keepdims=True)
    p = np.exp(scores - top) / total
    delta = (p @ values * gradient).sum(1).astype(np.float32)
    lse = ((top + np.log(total))[:, 0] * 1.44269504).astype(np.float32)
    out = np.zeros((2, length, width), np.float32)
    key_gradients[(2,)](q, k, v, do, lse, delta, out[0], out[1], width**-0.5, L=length, D=width, BM=32, BN=64)
    ds = p * (gradient @ values.T - delta[:, None])
    return out, np.stack([ds.T @ queries * width**-0.5, p.T @ gradient])


LAUNCHES: dict[str, Callable[[Any], Result]] = {
    "histogram": _histogram,
    "sort": _sort,
    "largest": _largest,
    "recurrence": lambda rng: _recurrence(rng, False),
    "backward_recurrence": lambda rng: _recurrence(rng, True),
    "dequantised": _dequantised,
    "scaled_e4m3": lambda rng: _scaled(rng, "e4m3", "e4m3"),
    "scaled_e2m1": lambda rng: _scaled(rng, "e2m1", "e2m1"),
    "gathered": _gathered,
    "reshaped": _reshaped,
    "key_gradients": _key_gradients,
}
