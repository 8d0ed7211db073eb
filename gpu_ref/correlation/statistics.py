"""Errors of predictions. The relative error of a launch is ``predicted / recorded - 1``; launches whose recorded value is 0
have none and are left out of that metric."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gpu_ref.correlation.launches import Timed

__all__ = ["COMPARED", "JUDGED", "Agreement", "agreement", "errors"]

JUDGED = (
    "sm__cycles_elapsed.max",
    "sm__cycles_active.avg",
    "smsp__inst_executed.sum",
    "lts__t_sectors_srcunit_tex.sum",
    "dram__bytes_read.sum",
)
"""Metrics that are compared in each group of launches, by Nsight Compute's names."""

COMPARED = (
    "gpu__time_duration.sum",
    "sm__cycles_elapsed.max",
    "sm__cycles_active.avg",
    "smsp__inst_executed.sum",
    "smsp__inst_issued.sum",
    "smsp__thread_inst_executed.sum",
    "smsp__inst_executed_op_branch.sum",
    "smsp__sass_branch_targets.sum",
    "smsp__sass_branch_targets_threads_divergent.sum",
    "sm__inst_executed_pipe_adu.sum",
    "sm__inst_executed_pipe_alu.sum",
    "sm__inst_executed_pipe_cbu.sum",
    "sm__inst_executed_pipe_fma.sum",
    "sm__inst_executed_pipe_fp64.sum",
    "sm__inst_executed_pipe_lsu.sum",
    "sm__inst_executed_pipe_uniform.sum",
    "sm__inst_executed_pipe_xu.sum",
    "sm__inst_executed_pipe_tensor_op_hmma.sum",
    "sm__inst_executed_pipe_tensor_op_imma.sum",
    "sm__inst_executed_pipe_tensor_op_dmma.sum",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "smsp__warps_eligible.avg.per_cycle_active",
    "smsp__issue_active.avg.per_cycle_active",
    "smsp__average_warp_latency_per_inst_issued.ratio",
    "sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active",
    "sm__pipe_alu_cycles_active.avg.pct_of_peak_sustained_active",
    "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "l1tex__data_pipe_lsu_wavefronts.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "lts__t_requests.sum",
    "lts__t_sectors.sum",
    "lts__t_sectors_srcunit_tex.sum",
    "lts__t_sectors_srcunit_tex_lookup_hit.sum",
    "lts__t_sectors_srcunit_ltcfabric.sum",
    "lts__t_sectors_op_read.sum",
    "lts__t_sectors_op_write.sum",
    "lts__d_sectors_fill_device.sum",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "launch__registers_per_thread",
)
"""Metrics that are compared over all launches."""


@dataclass(frozen=True)
class Agreement:
    """Of one metric over launches: mean absolute percentage error, median, 90th percentile and largest absolute error (all in
    per cent), and the correlation of the logarithms (NaN where all recorded values are the same). ``equal``: launches whose
    values are the same."""

    count: int
    equal: int
    mape: float
    median: float
    p90: float
    largest: float
    correlation: float


def errors(launches: Sequence[Timed], metric: str) -> list[tuple[str, float]]:
    """(launch, relative error) of a metric, in the order of the launches."""
    found = []
    for launch in launches:
        recorded, predicted = launch.recorded.get(metric), launch.predicted.get(metric)
        if recorded and predicted is not None:
            found.append((launch.name, predicted / recorded - 1))
    return found


def agreement(launches: Sequence[Timed], metric: str) -> Agreement | None:
    """How well a metric agrees; None if no launch has it."""
    sizes = sorted(100 * abs(error) for _, error in errors(launches, metric))
    if not sizes:
        return None
    pairs = [(launch.recorded.get(metric), launch.predicted.get(metric)) for launch in launches]
    logs = [(math.log(a), math.log(b)) for a, b in pairs if a and b and a > 0 and b > 0]
    return Agreement(
        len(sizes),
        sum(size < 5e-5 for size in sizes),
        sum(sizes) / len(sizes),
        sizes[len(sizes) // 2],
        sizes[min(len(sizes) - 1, int(0.9 * len(sizes)))],
        sizes[-1],
        _correlation(logs),
    )


def _correlation(pairs: Sequence[tuple[float, float]]) -> float:
    if len(pairs) < 2:
        return math.nan
    mx, my = (sum(pair[side] for pair in pairs) / len(pairs) for side in (0, 1))
    spread = math.sqrt(sum((x - mx) ** 2 for x, _ in pairs) * sum((y - my) ** 2 for _, y in pairs))
    return sum((x - mx) * (y - my) for x, y in pairs) / spread if spread else math.nan
