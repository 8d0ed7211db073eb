"""How fast kernels execute, functionally. ``warp_instructions`` in the extra information divided by the time is the rate.

Peers, on the same kind of machine: gpuocelot 1.2 million warp instructions per CPU-second on a tiled sgemm; GPGPU-Sim's
functional mode 0.2 to 0.3 million.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tcsim
from tcsim.cli.launches import LaunchOptions, prepare

TRACES = Path(__file__).parents[2] / "traces"

ALU = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry alu(.param .u64 out, .param .u32 rounds)
{
    .reg .b32 %r<20>; .reg .b64 %rd<4>; .reg .f32 %f<8>; .reg .pred %p<2>;
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r1, [rounds];
    mov.u32 %r2, %tid.x;
    mov.u32 %r3, 0;
    cvt.rn.f32.u32 %f1, %r2;
    mov.f32 %f2, 0f3F000000;
LOOP:
    mad.lo.s32 %r4, %r2, 1664525, 1013904223;
    shr.u32 %r5, %r4, 7;
    xor.b32 %r2, %r4, %r5;
    shl.b32 %r6, %r2, 3;
    add.s32 %r2, %r2, %r6;
    fma.rn.f32 %f1, %f1, %f2, %f2;
    and.b32 %r7, %r2, 255;
    add.f32 %f1, %f1, %f2;
    min.s32 %r8, %r7, 17;
    add.s32 %r2, %r2, %r8;
    add.s32 %r3, %r3, 1;
    setp.lt.u32 %p1, %r3, %r1;
    @%p1 bra LOOP;
    cvt.rzi.u32.f32 %r9, %f1;
    add.s32 %r2, %r2, %r9;
    mov.u32 %r10, %tid.x;
    mul.wide.u32 %rd2, %r10, 4;
    add.s64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r2;
    ret;
}
"""


def _rate(
    benchmark: Any, function: tcsim.Function, grid: tuple[int, ...], block: tuple[int, ...], args: Any, shared: int
) -> None:
    function.max_dynamic_shared_size_bytes = shared

    def launch() -> None:
        function(grid, block, args, shared_mem=shared)

    launch()  # compiles
    benchmark.pedantic(launch, rounds=3)
    benchmark.extra_info["warp_instructions"] = function.instructions


def test_alu_bound(benchmark: Any) -> None:
    """Integer and float arithmetic in a loop, eight warps."""
    function = tcsim.RawModule(code=ALU).get_function("alu")
    _rate(benchmark, function, (1,), (256,), (tcsim.zeros(256, np.uint32), np.int32(50_000)), 0)


def _bundle(benchmark: Any, name: str) -> None:
    launch = prepare(str(TRACES / name), LaunchOptions())
    bundle = launch.bundle
    with launch.device:
        _rate(benchmark, launch.function, bundle.grid, bundle.block, tuple(launch.arguments), bundle.shared_mem)


MMA_GATE = 200_000
"""``mma.sync.m16n8k16`` with f16 operands and f32 results a second at least, through an executed kernel on one core."""


@pytest.mark.benchmark(timer=time.process_time)
def test_gemm_f16_1024(benchmark: Any) -> None:
    """The tiled 1024x1024x1024 f16 GEMM: cp.async, ldmatrix, mma.sync. The time is the processor's."""
    _bundle(benchmark, "gemm_f16")
    if benchmark.stats is not None:
        rate = 1024**3 / (16 * 8 * 16) / benchmark.stats.stats.median
        benchmark.extra_info["mma_per_second"] = round(rate)
        assert rate >= MMA_GATE


def test_sgemm(benchmark: Any) -> None:
    """A float32 GEMM on the FMA units."""
    _bundle(benchmark, "sgemm")


def test_vector_add(benchmark: Any) -> None:
    """A million elements: many small CTAs, memory bound."""
    _bundle(benchmark, "vector_add_large")
