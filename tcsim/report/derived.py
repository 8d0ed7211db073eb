"""Metrics that follow from others: ratios and averages that Nsight Compute also shows. None is made up where its parts are
missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping

__all__ = ["with_derived"]

Numbers = Mapping[str, int | float]
SUB_PARTITIONS = 4


def _per(numerator: str, denominator: str, scale: float = 1.0) -> Callable[[Numbers], float | None]:
    def value(metrics: Numbers) -> float | None:
        below = metrics.get(denominator, 0)
        return scale * metrics[numerator] / below if numerator in metrics and below else None

    return value


def _per_elapsed(numerator: str) -> Callable[[Numbers], float | None]:
    def value(metrics: Numbers) -> float | None:
        cycles = metrics.get("sm__cycles_elapsed.max", 0) * metrics.get("launch__sm_count", 0)
        return metrics[numerator] / cycles if numerator in metrics and cycles else None

    return value


def _per_scheduler(name: str) -> Callable[[Numbers], float | None]:
    return _per(name, "launch__sm_count", 1 / SUB_PARTITIONS)


def _sum(*names: str) -> Callable[[Numbers], float | None]:
    return lambda metrics: sum(metrics[name] for name in names) if all(name in metrics for name in names) else None


def _scaled(name: str, scale: float) -> Callable[[Numbers], float | None]:
    return lambda metrics: scale * metrics[name] if name in metrics else None


def _elapsed_sum(metrics: Numbers) -> float | None:
    """Cycles of all SMs."""
    parts = ("sm__cycles_elapsed.max", "launch__sm_count")
    return metrics[parts[0]] * metrics[parts[1]] if all(part in metrics for part in parts) else None


def _elapsed_of_schedulers(metrics: Numbers) -> float | None:
    cycles = _elapsed_sum(metrics)
    return SUB_PARTITIONS * cycles if cycles is not None else None


def _issued_of_peak(metrics: Numbers) -> float | None:
    cycles = _elapsed_sum(metrics)
    issued = metrics.get("smsp__inst_issued.sum")
    return 100 * issued / (SUB_PARTITIONS * cycles) if cycles and issued is not None else None


def _not_issued(metrics: Numbers) -> float | None:
    share = metrics.get("smsp__issue_active.avg.per_cycle_active")
    return 100 * (1 - share) if share is not None else None


_DERIVED: dict[str, Callable[[Numbers], float | None]] = {
    "sm__inst_executed.avg.per_cycle_active": _per("smsp__inst_executed.sum", "sm__cycles_active.sum"),
    "sm__inst_executed.avg.per_cycle_elapsed": _per_elapsed("smsp__inst_executed.sum"),
    "sm__inst_issued.avg.per_cycle_active": _per("smsp__inst_issued.sum", "sm__cycles_active.sum"),
    "sm__inst_issued.avg.pct_of_peak_sustained_active": _per(
        "smsp__inst_issued.sum", "sm__cycles_active.sum", 100 / SUB_PARTITIONS
    ),
    "sm__inst_issued.avg.pct_of_peak_sustained_elapsed": _issued_of_peak,
    "sm__instruction_throughput.avg.pct_of_peak_sustained_elapsed": _scaled(
        "sm__throughput.avg.pct_of_peak_sustained_elapsed", 1
    ),
    "gpc__cycles_elapsed.max": _scaled("sm__cycles_elapsed.max", 1),
    "gpc__cycles_elapsed.avg.per_second": _scaled("sm__cycles_elapsed.avg.per_second", 1),
    "smsp__issue_active.avg.pct_of_peak_sustained_active": _scaled("smsp__issue_active.avg.per_cycle_active", 100),
    "smsp__issue_inst0.avg.pct_of_peak_sustained_active": _not_issued,
    "sm__cycles_elapsed.avg": _scaled("sm__cycles_elapsed.max", 1),
    "sm__cycles_elapsed.sum": _elapsed_sum,
    "l1tex__cycles_active.avg": _scaled("sm__cycles_active.avg", 1),  # of eight launches on an H200 both are the same
    "l1tex__cycles_elapsed.sum": _elapsed_sum,
    "smsp__cycles_elapsed.sum": _elapsed_of_schedulers,
    "dram__bytes.sum": _sum("dram__bytes_read.sum", "dram__bytes_write.sum"),
    "lts__t_bytes.sum": _scaled("lts__t_sectors.sum", 32),
    "derived__smsp__inst_executed_op_branch_pct": _per("smsp__inst_executed_op_branch.sum", "smsp__inst_executed.sum"),
    "smsp__inst_executed.avg": _per_scheduler("smsp__inst_executed.sum"),
    "smsp__inst_issued.avg": _per_scheduler("smsp__inst_issued.sum"),
    "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio": _per(
        "smsp__thread_inst_executed_pred_on.sum", "smsp__inst_executed.sum"
    ),
}


def with_derived(metrics: Numbers) -> dict[str, int | float]:
    """The metrics, and those that follow from them; what is there already stays."""
    out = dict(metrics)
    for name, value in _DERIVED.items():
        if name not in out:
            found = value(out)
            if found is not None:
                out[name] = found
    return out
