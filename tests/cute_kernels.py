"""Kernels in the CuTe DSL (``pip install nvidia-cutlass-dsl``), compiled to PTX without a GPU.

``CUTE_DSL_ARCH=sm_80 CUTE_DSL_KEEP=ptx python -m tests.cute_kernels`` writes a file for each into the current folder. (The
package reads both variables when it is imported.)
"""

from __future__ import annotations

from pathlib import Path

import cutlass
import cutlass.cute as cute
from cutlass.cute.nvgpu import cpasync, warp
from cutlass.cute.runtime import make_fake_compact_tensor
from cutlass.memory import SmemAllocator

THREADS = 128
TILE = 32
M, N, K = 64, 32, 64


@cute.kernel
def _axpy(x: cute.Tensor, y: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    mine = cute.zipped_divide(x, (4,))[None, block * THREADS + thread]
    theirs = cute.zipped_divide(y, (4,))[None, block * THREADS + thread]
    theirs.store(mine.load() * 2.5 + theirs.load())


@cute.jit
def axpy(x: cute.Tensor, y: cute.Tensor):
    """y += 2.5 x, four elements a thread."""
    _axpy(x, y).launch(grid=(cute.size(x) // (4 * THREADS), 1, 1), block=(THREADS, 1, 1))


@cute.kernel
def _transpose(a: cute.Tensor, b: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    column, row, _ = cute.arch.block_idx()
    memory = SmemAllocator()
    tile = memory.allocate_tensor(cutlass.Float32, cute.make_layout((TILE, TILE), stride=(TILE + 1, 1)), 16)
    for step in range(thread // TILE, TILE, THREADS // TILE):
        tile[step, thread % TILE] = a[row * TILE + step, column * TILE + thread % TILE]
    cute.arch.sync_threads()
    for step in range(thread // TILE, TILE, THREADS // TILE):
        b[column * TILE + step, row * TILE + thread % TILE] = tile[thread % TILE, step]


@cute.jit
def transpose(a: cute.Tensor, b: cute.Tensor):
    """b = a transposed, by tiles in shared memory."""
    _transpose(a, b).launch(grid=(a.shape[1] // TILE, a.shape[0] // TILE, 1), block=(THREADS, 1, 1))


@cute.kernel
def _reduce(x: cute.Tensor, sums: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    value = x[block * THREADS + thread]
    for step in cutlass.range_constexpr(5):
        value += cute.arch.shuffle_sync_bfly(value, offset=1 << step)
    memory = SmemAllocator()
    parts = memory.allocate_tensor(cutlass.Int32, cute.make_layout(THREADS // 32), 16)
    if thread % 32 == 0:
        parts[thread // 32] = value
    cute.arch.sync_threads()
    if thread == 0:
        total = parts[0]
        for index in cutlass.range_constexpr(1, THREADS // 32):
            total += parts[index]
        sums[block] = total


@cute.jit
def reduce(x: cute.Tensor, sums: cute.Tensor):
    """The sum of each CTA's elements, by shuffles."""
    _reduce(x, sums).launch(grid=(cute.size(sums), 1, 1), block=(THREADS, 1, 1))


@cute.kernel
def _gemm(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor, mma: cute.TiledMma):
    thread, _, _ = cute.arch.thread_idx()
    memory = SmemAllocator()
    sa = memory.allocate_tensor(cutlass.Float16, cute.make_layout((M, K), stride=(K + 8, 1)), 16)
    sb = memory.allocate_tensor(cutlass.Float16, cute.make_layout((N, K), stride=(K + 8, 1)), 16)
    copy = cute.make_copy_atom(cpasync.CopyG2SOp(), cutlass.Float16, num_bits_per_copy=128)
    rows = THREADS // (K // 8)
    tiled = cute.make_tiled_copy_tv(copy, cute.make_layout((rows, K // 8), stride=(K // 8, 1)), cute.make_layout((1, 8)))
    mine = tiled.get_slice(thread)
    cute.copy(tiled, mine.partition_S(a), mine.partition_D(sa))
    cute.copy(tiled, mine.partition_S(b), mine.partition_D(sb))
    cute.arch.cp_async_commit_group()
    cute.arch.cp_async_wait_group(0)
    cute.arch.sync_threads()
    part = mma.get_slice(thread)
    ra, rb = mma.make_fragment_A(part.partition_A(sa)), mma.make_fragment_B(part.partition_B(sb))
    rc = mma.make_fragment_C(part.partition_C(c))
    cute.autovec_copy(part.partition_A(sa), ra)
    cute.autovec_copy(part.partition_B(sb), rb)
    rc.fill(0.0)
    for k in cutlass.range_constexpr(cute.size(ra, mode=[2])):
        cute.gemm(mma, rc, ra[None, None, k], rb[None, None, k], rc)
    cute.autovec_copy(rc, part.partition_C(c))


@cute.jit
def gemm(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
    """c = a b^T in f16 with f32 sums: cp.async into padded shared memory, then mma.sync by four warps."""
    mma = cute.make_tiled_mma(warp.MmaF16BF16Op(cutlass.Float16, cutlass.Float32, (16, 8, 16)), cute.make_layout((4, 1, 1)))
    _gemm(a, b, c, mma).launch(grid=(1, 1, 1), block=(THREADS, 1, 1))


F16, F32, I32 = cutlass.Float16, cutlass.Float32, cutlass.Int32
KERNELS = {
    "axpy": (axpy, [(F32, (4096,)), (F32, (4096,))]),
    "transpose": (transpose, [(F32, (64, 96)), (F32, (96, 64))]),
    "reduce": (reduce, [(I32, (1024,)), (I32, (8,))]),
    "gemm": (gemm, [(F16, (M, K)), (F16, (N, K)), (F32, (M, N))]),
}
"""Each kernel with the element types and shapes of its tensors, which are row-major."""


def main() -> None:
    """Compile all of them."""
    for name, (function, tensors) in KERNELS.items():
        fakes = [
            make_fake_compact_tensor(type_, shape, stride_order=tuple(reversed(range(len(shape)))), assumed_align=16)
            for type_, shape in tensors
        ]
        Path(f"{name}.ptx").write_text(cute.compile(function, *fakes).__ptx__)


if __name__ == "__main__":
    main()
