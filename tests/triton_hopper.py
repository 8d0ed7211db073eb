"""Triton kernels that use what sm_90 has: wgmma, tensor descriptors made by host or kernel, clusters.

Each function of :data:`LAUNCHES` makes its inputs and launches one kernel; it gives what that wrote and what NumPy computes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

import tcsim.triton


def normal(*shape: int, dtype: Any = np.float16, seed: int = 1, scale: float = 1.0) -> np.ndarray:
    return (scale * np.random.default_rng(seed).standard_normal(shape)).astype(dtype)


def described(array: np.ndarray, block: list[int]) -> TensorDescriptor:
    return TensorDescriptor.from_tensor(tcsim.triton.astensor(array), block)


@triton.jit
def pointer_matmul(a, b, c, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows, columns = tl.program_id(0) * M + tl.arange(0, M), tl.program_id(1) * N + tl.arange(0, N)
    inner = tl.arange(0, K)
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, k, K):
        x = tl.load(a + rows[:, None] * k + start + inner)
        y = tl.load(b + (start + inner[:, None]) * n + columns)
        total = tl.dot(x, y, total)
    tl.store(c + rows[:, None] * n + columns, total)


@triton.jit
def device_descriptor_matmul(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    left = tl.make_tensor_descriptor(a, [m, k], [k, 1], [M, K])
    right = tl.make_tensor_descriptor(b, [n, k], [k, 1], [N, K])
    out = tl.make_tensor_descriptor(c, [m, n], [n, 1], [M, N])
    row, column = tl.program_id(0) * M, tl.program_id(1) * N
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, k, K):
        total = tl.dot(left.load([row, start]), right.load([column, start]).T, total)
    out.store([row, column], total.to(tl.float16))


@triton.jit
def host_descriptor_matmul(left, right, out, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    row, column = tl.program_id(0) * M, tl.program_id(1) * N
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, k, K):
        total = tl.dot(left.load([row, start]), right.load([column, start]).T, total)
    out.store([row, column], total.to(tl.float16))


@triton.jit
def persistent_matmul(left, right, out, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    wide = tl.cdiv(n, N)
    for tile in range(tl.program_id(0), tl.cdiv(m, M) * wide, tl.num_programs(0)):
        row, column = tile // wide * M, tile % wide * N
        total = tl.zeros((M, N), tl.float32)
        for start in range(0, k, K):
            total = tl.dot(left.load([row, start]), right.load([column, start]).T, total)
        out.store([row, column], total.to(tl.float16))


@triton.jit
def causal_attention(q, k, v, out, scale, ROWS: tl.constexpr, KEYS: tl.constexpr, WIDTH: tl.constexpr):
    first = tl.program_id(0) * ROWS
    rows = first + tl.arange(0, ROWS)
    query = q.load([first, 0])
    largest = tl.full((ROWS,), -float("inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    result = tl.zeros((ROWS, WIDTH), tl.float32)
    for start in range(0, first + ROWS, KEYS):
        scores = tl.dot(query, k.load([start, 0]).T) * scale
        scores = tl.where(rows[:, None] >= start + tl.arange(0, KEYS)[None, :], scores, -float("inf"))
        larger = tl.maximum(largest, tl.max(scores, 1))
        weights = tl.exp2(scores - larger[:, None])
        fade = tl.exp2(largest - larger)
        total = total * fade + tl.sum(weights, 1)
        result = tl.dot(weights.to(tl.float16), v.load([start, 0]), result * fade[:, None])
        largest = larger
    out.store([first, 0], (result / total[:, None]).to(tl.float16))


@triton.jit
def softmax_rows(out, x, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    values = tl.load(x + tl.program_id(0) * columns + at, at < columns, other=-float("inf"))
    powers = tl.exp(values - tl.max(values, 0))
    tl.store(out + tl.program_id(0) * columns + at, powers / tl.sum(powers, 0), at < columns)


@triton.jit
def layer_norm(x, weight, bias, out, n, eps, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    inside = at < n
    values = tl.load(x + row * n + at, inside, other=0.0)
    average = tl.sum(values, 0) / n
    centred = tl.where(inside, values - average, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, 0) / n + eps)
    tl.store(out + row * n + at, centred * scale * tl.load(weight + at, inside) + tl.load(bias + at, inside), inside)


Result = tuple[np.ndarray, np.ndarray]


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a.astype(np.float64) @ b.astype(np.float64)


def _pointers(ctas: int = 1) -> Result:
    a, b, c = normal(256, 192), normal(192, 128, seed=2), np.zeros((256, 128), np.float32)
    pointer_matmul[(2, 1)](a, b, c, 128, 192, M=128, N=128, K=64, num_warps=4, num_ctas=ctas)
    return c, product(a, b)


def _device_descriptors() -> Result:
    a, b, c = normal(200, 160), normal(136, 160, seed=2), np.zeros((200, 136), np.float16)
    device_descriptor_matmul[(2, 2)](a, b, c, 200, 136, 160, M=128, N=128, K=64, num_warps=4)
    return c, product(a, b.T)


def _host_descriptors(warps: int) -> Result:
    a, b, c = normal(256, 256), normal(128, 256, seed=2), np.zeros((256, 128), np.float16)
    arguments = described(a, [128, 64]), described(b, [128, 64]), described(c, [128, 128])
    host_descriptor_matmul[(2, 1)](*arguments, 256, M=128, N=128, K=64, num_warps=warps)
    return c, product(a, b.T)


def _persistent() -> Result:
    a, b, c = normal(300, 128), normal(256, 128, seed=2), np.zeros((300, 256), np.float16)
    arguments = described(a, [128, 64]), described(b, [128, 64]), described(c, [128, 128])
    persistent_matmul[(2,)](*arguments, 300, 256, 128, M=128, N=128, K=64, num_warps=8)
    return c, product(a, b.T)


def _attention() -> Result:
    q, k, v = (normal(256, 64, seed=seed, scale=0.5) for seed in (1, 2, 3))
    out = np.zeros_like(q)
    arguments = described(q, [128, 64]), described(k, [64, 64]), described(v, [64, 64]), described(out, [128, 64])
    causal_attention[(2,)](*arguments, 0.18, ROWS=128, KEYS=64, WIDTH=64, num_warps=4)
    scores = np.where(np.tri(256, dtype=bool), 0.18 * product(q, k.T), -np.inf)
    weights = np.exp2(scores - scores.max(1, keepdims=True))
    return out, weights @ v.astype(np.float64) / weights.sum(1, keepdims=True)


def _softmax() -> Result:
    x, out = normal(8, 1000, dtype=np.float32), np.zeros((8, 1000), np.float32)
    softmax_rows[(8,)](out, x, 1000, BLOCK=1024)
    powers = np.exp(x.astype(np.float64))
    return out, powers / powers.sum(1, keepdims=True)


def _layer_norm() -> Result:
    x, weight, bias = (normal(*shape, dtype=np.float32, seed=i) for i, shape in enumerate(((8, 700), (700,), (700,))))
    out = np.zeros((8, 700), np.float32)
    layer_norm[(8,)](x, weight, bias, out, 700, 1e-5, BLOCK=1024)
    return out, (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * weight + bias


LAUNCHES: dict[str, Callable[[], Result]] = {
    "pointer_matmul": _pointers,
    "cluster_matmul": lambda: _pointers(2),
    "device_descriptor_matmul": _device_descriptors,
    "host_descriptor_matmul": lambda: _host_descriptors(4),
    "eight_warp_matmul": lambda: _host_descriptors(8),
    "persistent_matmul": _persistent,
    "causal_attention": _attention,
    "softmax_rows": _softmax,
    "layer_norm": _layer_norm,
}
