"""Counters by pipe are those that Nsight Compute reported on an H200, exactly."""

from __future__ import annotations

from pathlib import Path

import pytest

import tcsim
from tcsim.cli.launches import LaunchOptions, prepare

TRACES = Path(__file__).parents[1] / "traces"
COUNTED = ("cbu", "lsu", "uniform", "fma", "xu", "tensor_op_hmma", "tensor_op_imma")


@pytest.mark.parametrize("name", ["bytecode", "wgmma_f16", "block_scan"])
def test_instructions_by_pipe(name: str) -> None:
    launch = prepare(str(TRACES / name), LaunchOptions())
    with tcsim.Profiler() as profiler:
        launch.run()
    profile = profiler.launches[0]
    for pipe in COUNTED:
        metric = f"sm__inst_executed_pipe_{pipe}.sum"
        assert profile.metrics[metric] == float(launch.bundle.metrics[metric].value), metric
    fma = "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active"
    assert profile.metrics[fma] == pytest.approx(float(launch.bundle.metrics[fma].value), rel=0.35)


def test_what_ptx_does_not_tell_is_absent() -> None:
    launch = prepare(str(TRACES / "vector_add"), LaunchOptions())
    with tcsim.Profiler(code="ptx") as profiler:
        launch.run()
    metrics = profiler.launches[0].metrics
    assert "sm__inst_executed_pipe_cbu.sum" not in metrics and metrics["sm__inst_executed_pipe_lsu.sum"] > 0


def test_arithmetic_of_threads() -> None:
    """As ``sm__sass_thread_inst_executed_op_*_pred_on.sum`` of an H200 (Nsight Compute 2025.3) for this launch."""
    launch = prepare(str(TRACES / "half2_math"), LaunchOptions())
    with tcsim.Profiler() as profiler:
        launch.run()
    measured = {"fadd": 4096, "ffma": 8192, "fmul": 6144, "hadd": 12288, "hfma": 10240, "hmul": 2048, "dadd": 0}
    metrics = profiler.launches[0].metrics
    assert {op: metrics[f"sm__sass_thread_inst_executed_op_{op}_pred_on.sum"] for op in measured} == measured
    assert metrics["l1tex__t_bytes.sum"] == 49152


def test_named_barriers_limit_the_ctas_of_an_sm() -> None:
    """A register names the barrier of producer_consumer, so each of its CTAs takes all 16 of the 64 that an SM has."""
    launch = prepare(str(TRACES / "producer_consumer"), LaunchOptions())
    with tcsim.Profiler() as profiler:
        launch.run()
    for metric in ("launch__barrier_count", "launch__occupancy_limit_barriers", "sm__maximum_warps_per_active_cycle_pct"):
        assert profiler.launches[0].metrics[metric] == float(launch.bundle.metrics[metric].value), metric


def test_sub_partitions_without_warps_are_not_active() -> None:
    """One warp in all: its sub-partition has it in every active cycle (Nsight Compute: 0.98), the other three count as idle."""
    launch = prepare(str(TRACES / "tensor_sums"), LaunchOptions())
    with tcsim.Profiler() as profiler:
        launch.run()
    metrics = profiler.launches[0].metrics
    assert metrics["sm__warps_active.avg.per_cycle_active"] == pytest.approx(1.0, abs=0.05)
    assert metrics["smsp__warps_active.avg.per_cycle_active"] == pytest.approx(1.0)
