"""Errors of predictions. The relative error of a launch is ``predicted / recorded - 1``; launches whose recorded value is 0
have none and are left out of that metric."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gpu_ref.correlation.launches import Timed

__all__ = ["COMPARED", "Agreement", "agreement", "errors"]

COMPARED = (
    "sm__cycles_elapsed.max",
    "sm__cycles_active.avg",
    "smsp__inst_executed.sum",
    "smsp__thread_inst_executed.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    "lts__t_sectors_srcunit_tex.sum",
    "dram__bytes_read.sum",
    "smsp__issue_active.avg.per_cycle_active",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
)
"""Metrics that are compared, by Nsight Compute's names."""


@dataclass(frozen=True)
class Agreement:
    """Of one metric over launches: mean absolute percentage error, median, 90th percentile and largest absolute error (all in
    per cent), and the correlation of the logarithms (NaN where all recorded values are the same)."""

    count: int
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
