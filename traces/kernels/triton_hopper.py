"""Triton kernels for the scoreboard of cycles, compiled without a GPU: ``python triton_hopper.py`` (needs ``triton``).

As ``triton_kernels.py``, whose matmul and softmax are among them; for sm_90 Triton multiplies with ``wgmma``.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton_kernels import triton_matmul, triton_softmax

HERE = Path(__file__).parent


@triton.jit
def triton_layernorm(y_pointer, x_pointer, weight_pointer, bias_pointer, columns, epsilon, BLOCK: tl.constexpr):
    """Layer norm of one row of ``columns`` per program."""
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < columns
    x = tl.load(x_pointer + row * columns + offsets, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / columns
    centred = tl.where(inside, x - mean, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, axis=0) / columns + epsilon)
    weight = tl.load(weight_pointer + offsets, mask=inside).to(tl.float32)
    bias = tl.load(bias_pointer + offsets, mask=inside).to(tl.float32)
    tl.store(y_pointer + row * columns + offsets, (centred * scale * weight + bias).to(tl.float16), mask=inside)


@triton.jit
def triton_attention(
    q_pointer, k_pointer, v_pointer, out_pointer, keys, scale, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr
):
    """Attention with a running softmax: M queries of a head per program, keys in blocks of N; rows of D f16."""
    head = tl.program_id(1) * keys * D
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns, inner = tl.arange(0, N), tl.arange(0, D)
    q = tl.load(q_pointer + head + rows[:, None] * D + inner[None, :])
    k_tile = k_pointer + head + columns[None, :] * D + inner[:, None]
    v_tile = v_pointer + head + columns[:, None] * D + inner[None, :]
    largest = tl.full((M,), -float("inf"), tl.float32)
    total = tl.zeros((M,), tl.float32)
    out = tl.zeros((M, D), tl.float32)
    for _ in range(0, keys, N):
        scores = tl.dot(q, tl.load(k_tile)) * scale
        new_largest = tl.maximum(largest, tl.max(scores, axis=1))
        weights = tl.exp2(scores - new_largest[:, None])
        shrink = tl.exp2(largest - new_largest)
        total = total * shrink + tl.sum(weights, axis=1)
        out = tl.dot(weights.to(tl.float16), tl.load(v_tile), out * shrink[:, None])
        largest = new_largest
        k_tile += N * D
        v_tile += N * D
    tl.store(out_pointer + head + rows[:, None] * D + inner[None, :], (out / total[:, None]).to(tl.float16))


MATMUL = {"a_pointer": "*fp16", "b_pointer": "*fp16", "c_pointer": "*fp32", "m": "i32", "n": "i32", "k": "i32"}
ATTENTION = {**dict.fromkeys(("q_pointer", "k_pointer", "v_pointer", "out_pointer"), "*fp16"), "keys": "i32", "scale": "fp32"}
NORM = {
    **dict.fromkeys(("y_pointer", "x_pointer", "weight_pointer", "bias_pointer"), "*fp16"),
    "columns": "i32",
    "epsilon": "fp32",
}
KERNELS = [
    ("triton_matmul_128", triton_matmul, MATMUL, {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP_M": 8}, 8, 3, (80, 90)),
    ("triton_matmul_64", triton_matmul, MATMUL, {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP_M": 8}, 4, 4, (80, 90)),
    (
        "triton_softmax_4096",
        triton_softmax,
        {"y_pointer": "*fp32", "x_pointer": "*fp32", "row_stride": "i32", "columns": "i32"},
        {"BLOCK": 4096},
        8,
        1,
        (90,),
    ),
    ("triton_layernorm", triton_layernorm, NORM, {"BLOCK": 2048}, 4, 1, (80, 90)),
    ("triton_attention", triton_attention, ATTENTION, {"M": 64, "N": 64, "D": 64}, 4, 3, (80, 90)),
]
"""Name, kernel, parameters, constants, warps, stages, targets."""


def main(folder: Path) -> None:
    for name, kernel, signature, constants, warps, stages, targets in KERNELS:
        kernel.file_name = f"/traces/kernels/{HERE.name}"  # what the debug information will say
        full = {**signature, **dict.fromkeys(constants, "constexpr")}
        divisible = {(i,): [["tt.divisibility", 16]] for i, each in enumerate(signature) if signature[each] != "fp32"}
        for target in targets:
            source = ASTSource(kernel, full, constexprs=constants, attrs=divisible)
            options = {"num_warps": warps, "num_stages": stages, "enable_fp_fusion": True, "ptx_version": 87}
            compiled = triton.compile(source, target=GPUTarget("cuda", target, 32), options=options)
            ptx = re.sub(r'(\.file\s+\d+\s+")[^"]*/', r"\1", compiled.asm["ptx"])
            (folder / f"{name}.{target}.ptx").write_text(ptx)
            print(f"{name}.{target}: block {32 * compiled.metadata.num_warps}, shared_mem {compiled.metadata.shared}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else HERE)
