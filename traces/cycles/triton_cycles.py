"""Triton kernels of the fresh suite, compiled without a GPU: ``python triton_cycles.py FOLDER`` (needs ``triton``; 3.9 made the
files that were recorded). Prints threads of a CTA and bytes of shared memory of each, which the suite file states.
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
def triton_linear(
    x_pointer, w_pointer, bias_pointer, y_pointer, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr
):
    """Y = relu(X W^T + bias), a linear layer in bf16: W is [n][k]."""
    rows = tl.program_id(1) * M + tl.arange(0, M)
    columns = tl.program_id(0) * N + tl.arange(0, N)
    inner = tl.arange(0, K)
    x_tile = x_pointer + rows[:, None] * k + inner[None, :]
    w_tile = w_pointer + columns[None, :] * k + inner[:, None]
    total = tl.zeros((M, N), dtype=tl.float32)
    for _ in range(0, k, K):
        total = tl.dot(tl.load(x_tile), tl.load(w_tile), total)
        x_tile += K
        w_tile += K
    total = tl.maximum(total + tl.load(bias_pointer + columns)[None, :], 0.0)
    tl.store(y_pointer + rows[:, None] * n + columns[None, :], total.to(tl.bfloat16))


@triton.jit
def triton_bytes_linear(
    x_pointer, w_pointer, scale_pointer, y_pointer, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr
):
    """Y = X W with weights of one byte and a scale for each column."""
    rows = tl.program_id(1) * M + tl.arange(0, M)
    columns = tl.program_id(0) * N + tl.arange(0, N)
    inner = tl.arange(0, K)
    x_tile = x_pointer + rows[:, None] * k + inner[None, :]
    w_tile = w_pointer + inner[:, None] * n + columns[None, :]
    total = tl.zeros((M, N), dtype=tl.float32)
    for _ in range(0, k, K):
        total = tl.dot(tl.load(x_tile), tl.load(w_tile).to(tl.float16), total)
        x_tile += K
        w_tile += K * n
    tl.store(y_pointer + rows[:, None] * n + columns[None, :], total * tl.load(scale_pointer + columns)[None, :])


@triton.jit
def triton_fp8_matmul(x_pointer, w_pointer, y_pointer, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """Y = X W^T in e4m3 with f32 sums."""
    rows = tl.program_id(1) * M + tl.arange(0, M)
    columns = tl.program_id(0) * N + tl.arange(0, N)
    inner = tl.arange(0, K)
    x_tile = x_pointer + rows[:, None] * k + inner[None, :]
    w_tile = w_pointer + columns[None, :] * k + inner[:, None]
    total = tl.zeros((M, N), dtype=tl.float32)
    for _ in range(0, k, K):
        total = tl.dot(tl.load(x_tile), tl.load(w_tile), total)
        x_tile += K
        w_tile += K
    tl.store(y_pointer + rows[:, None] * n + columns[None, :], total)


@triton.jit
def triton_causal(q_pointer, k_pointer, v_pointer, out_pointer, length, scale, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr):  # fmt: skip # noqa: E501
    """Causal attention of M queries of a head: whole blocks of keys first, the diagonal with a mask at the end."""
    head = tl.program_id(1) * length * D
    start = tl.program_id(0) * M
    rows = start + tl.arange(0, M)
    columns, inner = tl.arange(0, N), tl.arange(0, D)
    q = tl.load(q_pointer + head + rows[:, None] * D + inner[None, :])
    largest = tl.full((M,), -float("inf"), tl.float32)
    total = tl.zeros((M,), tl.float32)
    out = tl.zeros((M, D), tl.float32)
    for first in range(0, start + M, N):
        k = tl.load(k_pointer + head + (first + columns)[None, :] * D + inner[:, None])
        scores = tl.dot(q, k) * scale
        scores = tl.where(rows[:, None] >= (first + columns)[None, :], scores, -float("inf"))
        new_largest = tl.maximum(largest, tl.max(scores, axis=1))
        weights = tl.exp2(scores - new_largest[:, None])
        shrink = tl.exp2(largest - new_largest)
        total = total * shrink + tl.sum(weights, axis=1)
        v = tl.load(v_pointer + head + (first + columns)[:, None] * D + inner[None, :])
        out = tl.dot(weights.to(tl.float16), v, out * shrink[:, None])
        largest = new_largest
    tl.store(out_pointer + head + rows[:, None] * D + inner[None, :], (out / total[:, None]).to(tl.float16))


@triton.jit
def triton_cumsum(x_pointer, y_pointer, columns, BLOCK: tl.constexpr):
    """Running sums of a row."""
    at = tl.program_id(0) * columns + tl.arange(0, BLOCK)
    tl.store(y_pointer + at, tl.cumsum(tl.load(x_pointer + at), axis=0))


@triton.jit
def triton_norm_grad(dy_pointer, x_pointer, w_pointer, dx_pointer, dw_pointer, columns, epsilon, BLOCK: tl.constexpr):
    """Gradient of RMS norm of a row; the weights' gradient goes out by atomics."""
    offsets = tl.arange(0, BLOCK)
    at = tl.program_id(0) * columns + offsets
    x = tl.load(x_pointer + at).to(tl.float32)
    dy = tl.load(dy_pointer + at).to(tl.float32)
    w = tl.load(w_pointer + offsets).to(tl.float32)
    factor = tl.rsqrt(tl.sum(x * x, axis=0) / columns + epsilon)
    normal = x * factor
    share = tl.sum(dy * w * normal, axis=0) / columns
    tl.store(dx_pointer + at, ((dy * w - normal * share) * factor).to(tl.float16))
    tl.atomic_add(dw_pointer + offsets, dy * normal, sem="relaxed")


LINEAR = {**dict.fromkeys(("x_pointer", "w_pointer"), "*bf16"), "bias_pointer": "*fp32", "y_pointer": "*bf16"}
BYTES = {"x_pointer": "*fp16", "w_pointer": "*i8", "scale_pointer": "*fp32", "y_pointer": "*fp32"}
FP8 = {**dict.fromkeys(("x_pointer", "w_pointer"), "*fp8e4nv"), "y_pointer": "*fp32"}
SIZES = dict.fromkeys("mnk", "i32")
CAUSAL = {**dict.fromkeys(("q_pointer", "k_pointer", "v_pointer", "out_pointer"), "*fp16"), "length": "i32", "scale": "fp32"}
GRAD = {
    **dict.fromkeys(("dy_pointer", "x_pointer", "w_pointer", "dx_pointer"), "*fp16"),
    "dw_pointer": "*fp32",
    "columns": "i32",
    "epsilon": "fp32",
}
KERNELS = [
    (triton_linear, LINEAR | SIZES, {"M": 64, "N": 128, "K": 64}, 4, 3, (80, 90)),
    (triton_bytes_linear, BYTES | SIZES, {"M": 64, "N": 64, "K": 64}, 4, 3, (80, 90)),
    (triton_fp8_matmul, FP8 | SIZES, {"M": 128, "N": 128, "K": 128}, 8, 3, (90,)),
    (triton_causal, CAUSAL, {"M": 128, "N": 64, "D": 64}, 4, 2, (80, 90)),
    (triton_cumsum, {"x_pointer": "*fp32", "y_pointer": "*fp32", "columns": "i32"}, {"BLOCK": 2048}, 8, 1, (80,)),
    (triton_norm_grad, GRAD, {"BLOCK": 1024}, 4, 1, (90,)),
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
