"""Triton kernels of the held-out suite, compiled without a GPU: ``python triton_held.py FOLDER`` (needs ``triton``; 3.9 made
the files that were recorded). Prints threads of a CTA and bytes of shared memory of each, which the suite file states.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def triton_grouped_matmul(
    a_pointer, b_pointer, c_pointer, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, GROUP: tl.constexpr
):
    """C = A B in f16; programs go through C in groups of rows of tiles, so that neighbours share what the L2 holds."""
    program = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(m, M), tl.cdiv(n, N)
    group = program // (GROUP * tiles_n)
    height = min(tiles_m - group * GROUP, GROUP)
    tile_m = group * GROUP + program % (GROUP * tiles_n) % height
    tile_n = program % (GROUP * tiles_n) // height
    rows = tile_m * M + tl.arange(0, M)
    columns = tile_n * N + tl.arange(0, N)
    inner = tl.arange(0, K)
    a_tile = a_pointer + (rows % m)[:, None] * k + inner[None, :]
    b_tile = b_pointer + inner[:, None] * n + (columns % n)[None, :]
    total = tl.zeros((M, N), dtype=tl.float32)
    for first in range(0, k, K):
        left = inner < k - first
        a = tl.load(a_tile, mask=left[None, :], other=0.0)
        b = tl.load(b_tile, mask=left[:, None], other=0.0)
        total = tl.dot(a, b, total)
        a_tile += K
        b_tile += K * n
    wanted = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(c_pointer + rows[:, None] * n + columns[None, :], total.to(tl.float16), mask=wanted)


@triton.jit
def triton_batched_tf32(a_pointer, b_pointer, c_pointer, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """C = A B for each matrix of a batch, floats multiplied as tf32."""
    batch = tl.program_id(2)
    rows = tl.program_id(1) * M + tl.arange(0, M)
    columns = tl.program_id(0) * N + tl.arange(0, N)
    inner = tl.arange(0, K)
    a_tile = a_pointer + batch * n * k + rows[:, None] * k + inner[None, :]
    b_tile = b_pointer + batch * n * k + inner[:, None] * n + columns[None, :]
    total = tl.zeros((M, N), dtype=tl.float32)
    for _ in range(0, k, K):
        total = tl.dot(tl.load(a_tile), tl.load(b_tile), total, input_precision="tf32")
        a_tile += K
        b_tile += K * n
    tl.store(c_pointer + batch * n * n + rows[:, None] * n + columns[None, :], total)


@triton.jit
def triton_int8_matmul(a_pointer, b_pointer, c_pointer, scale, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """C = A B^T of bytes, scaled to f16."""
    rows = tl.program_id(1) * M + tl.arange(0, M)
    columns = tl.program_id(0) * N + tl.arange(0, N)
    inner = tl.arange(0, K)
    a_tile = a_pointer + rows[:, None] * k + inner[None, :]
    b_tile = b_pointer + columns[None, :] * k + inner[:, None]
    total = tl.zeros((M, N), dtype=tl.int32)
    for _ in range(0, k, K):
        total = tl.dot(tl.load(a_tile), tl.load(b_tile), total)
        a_tile += K
        b_tile += K
    tl.store(c_pointer + rows[:, None] * n + columns[None, :], (total.to(tl.float32) * scale).to(tl.float16))


@triton.jit
def triton_split_k(a_pointer, b_pointer, c_pointer, n, k, share, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """C += A B in bf16, a share of k to each program along axis 2, joined by atomics."""
    rows = tl.program_id(1) * M + tl.arange(0, M)
    columns = tl.program_id(0) * N + tl.arange(0, N)
    inner = tl.program_id(2) * share + tl.arange(0, K)
    a_tile = a_pointer + rows[:, None] * k + inner[None, :]
    b_tile = b_pointer + inner[:, None] * n + columns[None, :]
    total = tl.zeros((M, N), dtype=tl.float32)
    for _ in range(0, share, K):
        total = tl.dot(tl.load(a_tile), tl.load(b_tile), total)
        a_tile += K
        b_tile += K * n
    tl.atomic_add(c_pointer + rows[:, None] * n + columns[None, :], total, sem="relaxed")


@triton.jit
def triton_attention_long(
    q_pointer, k_pointer, v_pointer, out_pointer, length, scale, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr
):
    """Attention in bf16 with heads of 128, every query to every key."""
    head = tl.program_id(1) * length * D
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns, inner = tl.arange(0, N), tl.arange(0, D)
    q = tl.load(q_pointer + head + rows[:, None] * D + inner[None, :])
    largest = tl.full((M,), -float("inf"), tl.float32)
    total = tl.zeros((M,), tl.float32)
    out = tl.zeros((M, D), tl.float32)
    k_tile = k_pointer + head + columns[None, :] * D + inner[:, None]
    v_tile = v_pointer + head + columns[:, None] * D + inner[None, :]
    for _ in range(0, length, N):
        scores = tl.dot(q, tl.load(k_tile))
        new_largest = tl.maximum(largest, tl.max(scores, axis=1) * scale)
        weights = tl.exp2(scores * scale - new_largest[:, None])
        shrink = tl.exp2(largest - new_largest)
        total = total * shrink + tl.sum(weights, axis=1)
        out = tl.dot(weights.to(tl.bfloat16), tl.load(v_tile), out * shrink[:, None])
        largest = new_largest
        k_tile += N * D
        v_tile += N * D
    tl.store(out_pointer + head + rows[:, None] * D + inner[None, :], (out / total[:, None]).to(tl.bfloat16))


@triton.jit
def triton_long_norm(x_pointer, w_pointer, b_pointer, y_pointer, columns, epsilon, BLOCK: tl.constexpr):
    """Layer norm of long rows in three passes of blocks."""
    row = tl.program_id(0) * columns
    offsets = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, columns, BLOCK):
        total += tl.load(x_pointer + row + first + offsets, mask=first + offsets < columns, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / columns
    squares = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, columns, BLOCK):
        x = tl.load(x_pointer + row + first + offsets, mask=first + offsets < columns, other=0.0).to(tl.float32)
        x = tl.where(first + offsets < columns, x - mean, 0.0)
        squares += x * x
    scale = 1.0 / tl.sqrt(tl.sum(squares, axis=0) / columns + epsilon)
    for first in range(0, columns, BLOCK):
        wanted = first + offsets < columns
        x = tl.load(x_pointer + row + first + offsets, mask=wanted, other=0.0).to(tl.float32)
        w = tl.load(w_pointer + first + offsets, mask=wanted)
        b = tl.load(b_pointer + first + offsets, mask=wanted)
        tl.store(y_pointer + row + first + offsets, ((x - mean) * scale * w + b).to(tl.float16), mask=wanted)


@triton.jit
def triton_masked_softmax(x_pointer, lengths_pointer, y_pointer, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Softmax of several rows at once, each as far as its length says."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    offsets = tl.arange(0, BLOCK)
    at = rows[:, None] * columns + offsets[None, :]
    wanted = (offsets[None, :] < tl.load(lengths_pointer + rows)[:, None]) & (offsets[None, :] < columns)
    x = tl.load(x_pointer + at, mask=wanted, other=-float("inf"))
    weights = tl.exp(x - tl.max(x, axis=1)[:, None])
    y = weights / tl.sum(weights, axis=1)[:, None]
    tl.store(y_pointer + at, y, mask=offsets[None, :] < columns)


HALVES = dict.fromkeys(("a_pointer", "b_pointer", "c_pointer"), "*fp16")
FLOATS = {**dict.fromkeys(("a_pointer", "b_pointer", "c_pointer"), "*fp32"), "n": "i32", "k": "i32"}
BYTES = {**dict.fromkeys(("a_pointer", "b_pointer"), "*i8"), "c_pointer": "*fp16", "scale": "fp32"}
SPLIT = {
    **dict.fromkeys(("a_pointer", "b_pointer"), "*bf16"),
    "c_pointer": "*fp32",
    **dict.fromkeys(("n", "k", "share"), "i32"),
}
HEADS = {**dict.fromkeys(("q_pointer", "k_pointer", "v_pointer", "out_pointer"), "*bf16"), "length": "i32", "scale": "fp32"}
NORM = {
    "x_pointer": "*fp16",
    "w_pointer": "*fp32",
    "b_pointer": "*fp32",
    "y_pointer": "*fp16",
    "columns": "i32",
    "epsilon": "fp32",
}
SOFTMAX = {"x_pointer": "*fp32", "lengths_pointer": "*i32", "y_pointer": "*fp32", "columns": "i32"}
SIZES = dict.fromkeys("mnk", "i32")
KERNELS = [
    (triton_grouped_matmul, HALVES | SIZES, {"M": 128, "N": 256, "K": 64, "GROUP": 8}, 8, 3, (80, 90)),
    (triton_batched_tf32, FLOATS, {"M": 64, "N": 64, "K": 32}, 4, 3, (80, 90)),
    (triton_int8_matmul, BYTES | SIZES, {"M": 128, "N": 128, "K": 64}, 8, 3, (80, 90)),
    (triton_split_k, SPLIT, {"M": 64, "N": 64, "K": 64}, 4, 3, (80, 90)),
    (triton_attention_long, HEADS, {"M": 128, "N": 64, "D": 128}, 8, 2, (80, 90)),
    (triton_long_norm, NORM, {"BLOCK": 1024}, 4, 1, (90,)),
    (triton_masked_softmax, SOFTMAX, {"ROWS": 4, "BLOCK": 1024}, 4, 1, (90,)),
]
"""Kernel, parameters, constants, warps, stages, targets."""


def main(folder: Path) -> None:
    for kernel, signature, constants, warps, stages, targets in KERNELS:
        full = {**signature, **dict.fromkeys(constants, "constexpr")}
        divisible = {(i,): [["tt.divisibility", 16]] for i, each in enumerate(signature) if signature[each] != "fp32"}
        for target in targets:
            source = ASTSource(kernel, full, constexprs=constants, attrs=divisible)
            options = {"num_warps": warps, "num_stages": stages, "enable_fp_fusion": True, "ptx_version": 87}
            compiled = triton.compile(source, target=GPUTarget("cuda", target, 32), options=options)
            name = f"{kernel.fn.__name__}.{target}"
            (folder / f"{name}.ptx").write_text(re.sub(r'(\.file\s+\d+\s+")[^"]*/', r"\1", compiled.asm["ptx"]))
            print(f"{name}: block {32 * compiled.metadata.num_warps}, shared_mem {compiled.metadata.shared}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
