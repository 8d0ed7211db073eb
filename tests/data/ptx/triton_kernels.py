"""Triton kernels whose PTX is in the .ptx files beside this one: for sm_80 and sm_90, Triton 3.9, without a GPU."""

import triton
import triton.language as tl


@triton.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    steps = tl.arange(0, BK)
    left = a + rows[:, None] * K + steps[None, :]
    right = b + steps[:, None] * N + columns[None, :]
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        x = tl.load(left, mask=steps[None, :] < K - k, other=0.0)
        y = tl.load(right, mask=steps[:, None] < K - k, other=0.0)
        total = tl.dot(x, y, total)
        left += BK
        right += BK * N
    out = c + rows[:, None] * N + columns[None, :]
    tl.store(out, total.to(tl.float16), mask=(rows[:, None] < M) & (columns[None, :] < N))


@triton.jit
def softmax(x, y, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * stride + at, mask=at < n, other=-float("inf"))
    weights = tl.exp(values - tl.max(values, 0))
    tl.store(y + row * stride + at, weights / tl.sum(weights, 0), mask=at < n)


@triton.jit
def histogram(x, bins, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n, other=0)
    tl.device_print("value", value)
    tl.device_assert(value >= 0)
    tl.atomic_add(bins + value, 1, mask=at < n)


@triton.jit
def copy_tiles(source, target, M, N, BM: tl.constexpr, BN: tl.constexpr):
    src = tl.make_tensor_descriptor(source, [M, N], [N, 1], [BM, BN])
    dst = tl.make_tensor_descriptor(target, [M, N], [N, 1], [BM, BN])
    for i in range(4):
        dst.store([i * BM, 0], src.load([i * BM, 0]) * 2)
