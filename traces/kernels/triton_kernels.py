"""Two Triton kernels, and how to compile them to PTX without a GPU: ``python triton_kernels.py`` (needs ``triton``, no torch).

Triton specialises a kernel on the properties of its arguments; what a launch would find out is stated here by hand:
every pointer and every size is divisible by 16 (``tt.divisibility``), so that loads become 16 bytes wide.

The script writes ``NAME.ptx`` beside itself, and prints the launch shape: number of warps, bytes of dynamic shared memory, and
the parameters. Triton appends two pointers to the parameters that are written here, for scratch memory; kernels that need
none get null pointers (``u64:0``).
"""

from __future__ import annotations

import re
from pathlib import Path

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

HERE = Path(__file__).parent
SM_80 = GPUTarget("cuda", 80, 32)


@triton.jit
def triton_matmul(
    a_pointer,
    b_pointer,
    c_pointer,
    m,
    n,
    k,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    """C = A * B, all row-major; A and B f16, C f32. One program per BLOCK_M x BLOCK_N tile of C.

    Programs are numbered so that GROUP_M tiles of a column run side by side and share tiles of B in the L2 cache.
    """
    program = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N)
    group_size = GROUP_M * tiles_n
    first_m = program // group_size * GROUP_M
    group_height = min(tiles_m - first_m, GROUP_M)
    tile_m = first_m + program % group_size % group_height
    tile_n = program % group_size // group_height

    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    a_tile = a_pointer + rows[:, None] * k + inner[None, :]
    b_tile = b_pointer + inner[:, None] * n + columns[None, :]

    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(tl.cdiv(k, BLOCK_K)):
        total = tl.dot(tl.load(a_tile), tl.load(b_tile), total)
        a_tile += BLOCK_K
        b_tile += BLOCK_K * n
    tl.store(c_pointer + rows[:, None] * n + columns[None, :], total)


@triton.jit
def triton_softmax(y_pointer, x_pointer, row_stride, columns, BLOCK: tl.constexpr):
    """Softmax of one row per program; the row is padded to BLOCK with -inf."""
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < columns
    x = tl.load(x_pointer + row * row_stride + offsets, mask=inside, other=-float("inf"))
    numerator = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_pointer + row * row_stride + offsets, numerator / tl.sum(numerator, axis=0), mask=inside)


KERNELS = [
    (
        triton_matmul,
        {"a_pointer": "*fp16", "b_pointer": "*fp16", "c_pointer": "*fp32", "m": "i32", "n": "i32", "k": "i32"},
        {"BLOCK_M": 128, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP_M": 4},
        {"num_warps": 4, "num_stages": 3, "enable_fp_fusion": True},
    ),
    (
        triton_softmax,
        {"y_pointer": "*fp32", "x_pointer": "*fp32", "row_stride": "i32", "columns": "i32"},
        {"BLOCK": 1024},
        {"num_warps": 4, "enable_fp_fusion": True},
    ),
]


def compile_to_ptx(
    kernel: triton.JITFunction, signature: dict[str, str], constants: dict[str, int], options: dict[str, object]
) -> str:
    """The PTX of ``kernel`` for sm_80, with source paths that are the same on every machine."""
    kernel.file_name = f"/traces/kernels/{Path(__file__).name}"  # what the debug information will say
    full = {**signature, **dict.fromkeys(constants, "constexpr")}
    divisible = {(i,): [["tt.divisibility", 16]] for i, name in enumerate(signature) if name != "columns"}
    source = ASTSource(kernel, full, constexprs=constants, attrs=divisible)
    compiled = triton.compile(source, target=SM_80, options=options)
    ptx = compiled.asm["ptx"]
    ptx = re.sub(r'(\.file\s+\d+\s+")[^"]*/', r"\1", ptx)
    parameters = re.findall(r"^\s*\.param\s+(.*?)[,]?$", ptx.partition("\n{")[0], re.MULTILINE)
    print(f"{kernel.__name__}: block {32 * compiled.metadata.num_warps}, shared_mem {compiled.metadata.shared}")
    for parameter in parameters:
        print(f"    {parameter}")
    return ptx


if __name__ == "__main__":
    for kernel, signature, constants, options in KERNELS:
        (HERE / f"{kernel.__name__}.ptx").write_text(compile_to_ptx(kernel, signature, constants, options))
