"""Barriers, fences and asynchronous copies, by the number of warps that take part."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .gpu import Benchmark, Gpu
from .ptx import module, timed_kernel
from .results import Number, Outcome
from .timing import REPEATS, per_operation

__all__ = ["FAMILY", "benchmarks"]

FAMILY = "barriers"
SHORT, LONG = 8, 24

_DECLARATIONS = """\
.shared .align 1024 .b8 cells[49152];
.reg .b32 %cell, %mine, %low, %sum, %parity; .reg .b64 %state, %from, %gptr; .reg .pred %p, %done;"""
_SETUP = [
    "mov.u32 %cell, cells; mov.u32 %sum, 0; mov.u32 %parity, 0;",
    "shl.b32 %mine, %thread, 4; add.u32 %mine, %mine, %cell; add.u32 %mine, %mine, 1024;",
    "mul.wide.u32 %from, %thread, 16; add.u64 %from, %from, %data; add.u64 %from, %from, 8192;",
    "mov.u32 %low, %ntid.x;",
    "setp.ne.u32 %p, %thread, 0;",
    "@!%p mbarrier.init.shared.b64 [%cell], %low;",
    "@!%p mbarrier.init.shared.b64 [%cell + 8], 1;",
    "setp.ne.u32 %p, %pb, 0;",
    "bar.sync 0;",
]
_FINISH = ["st.global.u32 [%own], %sum;"]


@dataclass(frozen=True)
class _Case:
    name: str
    text: str
    warps: tuple[int, ...]
    note: str = ""


_WAIT = """\
WAIT{i}:
mbarrier.{how}.shared.b64 %done, [%cell], %state;
@!%done bra WAIT{i};"""

_ALL = (1, 2, 4, 8, 12, 16, 24, 32)

CASES = (
    _Case("bar_sync", "bar.sync 0;", _ALL),
    _Case("bar_sync_reduce", "bar.red.or.pred %p, 0, %p;", (1, 4, 16, 32)),
    _Case("bar_arrive_pairs", "bar.sync 1;", (2, 8, 32), "barrier 1"),
    _Case("syncwarp", "bar.warp.sync 0xffffffff;", (1, 32)),
    _Case("membar_cta", "membar.cta;", (1, 32)),
    _Case("membar_gl", "membar.gl;", (1, 4, 32)),
    _Case("membar_sys", "membar.sys;", (1, 4)),
    _Case("fence_acq_rel_gpu_after_store", "st.global.u32 [%own + 4096], %low; fence.acq_rel.gpu;", (1, 4, 32)),
    _Case("fence_proxy_async", "fence.proxy.async;", (1, 4)),
    _Case("mbarrier_arrive", "mbarrier.arrive.shared.b64 %state, [%cell];", (1, 4, 32)),
    _Case(
        "mbarrier_arrive_wait_test", "mbarrier.arrive.shared.b64 %state, [%cell];\n" + _WAIT.replace("{how}", "test_wait"), _ALL
    ),
    _Case(
        "mbarrier_arrive_wait_try", "mbarrier.arrive.shared.b64 %state, [%cell];\n" + _WAIT.replace("{how}", "try_wait"), _ALL
    ),
    _Case(
        "mbarrier_test_done",
        "mbarrier.test_wait.parity.shared.b64 %done, [%cell + 8], 1; selp.b32 %low, 1, 0, %done; xor.b32 %sum, %sum, %low;",
        (1, 4, 32),
        "a phase that is over",
    ),
    _Case(
        "mbarrier_try_done",
        "mbarrier.try_wait.parity.shared.b64 %done, [%cell + 8], 1; selp.b32 %low, 1, 0, %done; xor.b32 %sum, %sum, %low;",
        (1, 4, 32),
        "a phase that is over",
    ),
    _Case("cp_async_4", "cp.async.ca.shared.global [%mine], [%from], 4;", (1, 4, 16)),
    _Case("cp_async_8", "cp.async.ca.shared.global [%mine], [%from], 8;", (1, 4, 16)),
    _Case("cp_async_16_ca", "cp.async.ca.shared.global [%mine], [%from], 16;", (1, 4, 16)),
    _Case("cp_async_16_cg", "cp.async.cg.shared.global [%mine], [%from], 16;", (1, 4, 16)),
    _Case("cp_async_commit", "cp.async.commit_group;", (1, 16)),
    _Case("cp_async_wait", "cp.async.wait_group 0;", (1, 16), "nothing outstanding"),
    _Case(
        "cp_async_round_16_cg",
        "cp.async.cg.shared.global [%mine], [%from], 16; cp.async.commit_group; cp.async.wait_group 0;",
        (1, 4, 16),
        "copy, commit and wait; data in the L2",
    ),
    _Case(
        "cp_async_round_16_ca",
        "cp.async.ca.shared.global [%mine], [%from], 16; cp.async.commit_group; cp.async.wait_group 0;",
        (1, 4, 16),
        "copy, commit and wait; data in the L1",
    ),
    _Case(
        "cp_async_round_4",
        "cp.async.ca.shared.global [%mine], [%from], 4; cp.async.commit_group; cp.async.wait_group 0;",
        (1, 4, 16),
        "copy, commit and wait; data in the L1",
    ),
    _Case("nanosleep_0", "nanosleep.u32 0;", (1,)),
    _Case("nanosleep_100", "nanosleep.u32 100;", (1,)),
)

_BULK = """\
    @%leader mbarrier.arrive.expect_tx.shared.b64 %state, [%cell + 8], {size};
    @%leader cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%tile], [%src], {size}, [%cell + 8];
WAIT{i}:
    mbarrier.try_wait.parity.shared.b64 %done, [%cell + 8], %parity;
    @!%done bra WAIT{i};
    xor.b32 %parity, %parity, 1;"""


def _case(case: _Case) -> Benchmark:
    kernels = []
    for copies in (SHORT, LONG):
        body = [case.text.replace("{i}", str(i)) for i in range(copies)]
        kernels.append(
            timed_kernel(
                f"round_{copies}", body, declarations=_DECLARATIONS, setup=_SETUP, finish=["cp.async.wait_all;", *_FINISH]
            )
        )

    def measure(gpu: Gpu) -> Outcome:
        outcome = Outcome(code=case.text)
        data = gpu.upload(np.zeros(1 << 16, np.uint8))
        for warps in case.warps:
            cycles, spread = per_operation(gpu, f"round_{SHORT}", f"round_{LONG}", LONG - SHORT, 16, data=data, warps=warps)
            how = f"{warps} warps, each {case.note}".strip()
            outcome.numbers[f"warps_{warps}"] = Number(cycles, "cycles per round of all warps", how, spread, REPEATS)
        return outcome

    return Benchmark(FAMILY, case.name, module(kernels, version="8.0"), measure)


def _bulk(size: int) -> Benchmark:
    """A bulk copy (TMA without a tensor map) of ``size`` bytes, one outstanding at a time, one warp."""
    declarations = _DECLARATIONS + "\n.reg .pred %leader; .reg .b64 %src; .reg .b32 %tile;"
    setup = [
        *_SETUP,
        "setp.eq.u32 %leader, %thread, 0; add.u64 %src, %data, 8192; add.u32 %tile, %cell, 1024;",
    ]
    kernels = []
    for copies in (2, 6):
        body = [_BULK.format(size=size, i=i) for i in range(copies)]
        kernels.append(timed_kernel(f"bulk_{copies}", body, declarations=declarations, setup=setup, finish=_FINISH))

    def measure(gpu: Gpu) -> Outcome:
        data = gpu.upload(np.zeros(1 << 16, np.uint8))
        cycles, spread = per_operation(gpu, "bulk_2", "bulk_6", 4, 16, data=data)
        how = f"one warp: expect_tx, cp.async.bulk of {size} bytes from the L2, try_wait until it is there"
        return Outcome({"round": Number(cycles, "cycles", how, spread, REPEATS)})

    return Benchmark(FAMILY, f"bulk_copy_{size}", module(kernels), measure)


def benchmarks() -> list[Benchmark]:
    """All of this family."""
    return [_case(case) for case in CASES] + [_bulk(size) for size in (16, 128, 512, 1024, 2048, 4096, 8192, 16384, 32768)]
