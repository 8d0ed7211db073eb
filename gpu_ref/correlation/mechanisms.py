"""Tables of what relative errors of counters do not show: where warps' cycles go, percentages, bank conflicts, and how much the
hardware's own numbers waver."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence

from gpu_ref.correlation.launches import Timed
from gpu_ref.metrics import REPEATED, STALL_REASONS

__all__ = ["mechanisms", "misplaced", "noise", "stall_shares"]

POINTS = (
    ("sm__warps_active.avg.pct_of_peak_sustained_active", 1.0),
    ("sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active", 1.0),
    ("sm__pipe_alu_cycles_active.avg.pct_of_peak_sustained_active", 1.0),
    ("sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active", 1.0),
    ("sm__pipe_fp64_cycles_active.avg.pct_of_peak_sustained_active", 1.0),
    ("smsp__issue_active.avg.per_cycle_active", 100.0),
    ("l1tex__t_sector_hit_rate.pct", 1.0),
    ("lts__t_sector_hit_rate.pct", 1.0),
    ("l1tex__throughput.avg.pct_of_peak_sustained_active", 1.0),
    ("lts__throughput.avg.pct_of_peak_sustained_elapsed", 1.0),
    ("dram__throughput.avg.pct_of_peak_sustained_elapsed", 1.0),
)
"""Metrics that are shares of a whole, and what makes per cent of them."""

CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{}.sum"
WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"


def stall_shares(metrics: Mapping[str, float]) -> dict[str, float]:
    """Of all cycles of warps, the share of each of :data:`.STALL_REASONS`; empty if ``metrics`` do not say. Exact sums are
    taken where they are there, else ratios to issues."""
    for form in ("smsp__warps_issue_stalled_{}.sum", "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"):
        found = {reason: metrics.get(form.format(reason), 0.0) for reason in STALL_REASONS}
        whole = sum(found.values())
        if whole:
            return {reason: value / whole for reason, value in found.items()}
    return {}


def misplaced(launch: Timed) -> float | None:
    """The share of its warps' cycles that a prediction gives to another reason than the hardware does."""
    predicted, recorded = stall_shares(launch.predicted), stall_shares(launch.recorded)
    if not predicted or not recorded:
        return None
    return sum(abs(predicted[reason] - recorded[reason]) for reason in STALL_REASONS) / 2


def noise(launches: Sequence[Timed], metric: str) -> list[float]:
    """Of each launch that was recorded several times: the mean distance of its runs from their median, relative to that."""
    found = []
    for launch in launches:
        runs = launch.runs.get(metric, [])
        middle = statistics.median(runs) if len(runs) > 1 else 0.0
        if middle:
            found.append(statistics.mean(abs(run / middle - 1) for run in runs))
    return found


def mechanisms(groups: Mapping[str, Sequence[Timed]]) -> Iterator[str]:
    """Lines of Markdown."""
    every = [launch for launches in groups.values() for launch in launches]
    for lines in (
        _noise_table(groups),
        _stall_table(every),
        _placed_table(groups),
        _points_table(groups),
        _conflict_table(groups),
    ):
        rows = list(lines)
        if len(rows) > 4:
            yield from rows


def _noise_table(groups: Mapping[str, Sequence[Timed]]) -> Iterator[str]:
    yield ""
    yield "How much one run of a launch differs from the median of several on the hardware itself: what no model can beat."
    yield ""
    yield "| group | metric | launches | mean | p90 | largest |"
    yield "|---|---|--:|--:|--:|--:|"
    for group, launches in groups.items():
        for metric in REPEATED:
            sizes = sorted(100 * size for size in noise(launches, metric))
            if sizes:
                yield f"| {group} | `{metric}` | {len(sizes)} | {_spread(sizes, '%')} |"


def _stall_table(launches: Sequence[Timed]) -> Iterator[str]:
    pairs = [(stall_shares(launch.predicted), stall_shares(launch.recorded)) for launch in launches]
    pairs = [pair for pair in pairs if all(pair)]
    yield ""
    yield f"Where warps' cycles go: shares of a launch's (mean of {len(pairs)} launches), and by how many points they are off."
    yield ""
    yield "| stall reason | recorded | predicted | mean difference | p90 | largest |"
    yield "|---|--:|--:|--:|--:|--:|"
    rows = []
    for reason in STALL_REASONS:
        if pairs and any(recorded[reason] or predicted[reason] for predicted, recorded in pairs):
            sizes = sorted(100 * abs(predicted[reason] - recorded[reason]) for predicted, recorded in pairs)
            means = [100 * statistics.mean(pair[side][reason] for pair in pairs) for side in (1, 0)]
            text = f"| {reason} | {means[0]:.1f} % | {means[1]:.1f} % | {_spread(sizes, 'points')} |"
            rows.append((statistics.mean(sizes), text))
    yield from (text for _, text in sorted(rows, reverse=True))


def _placed_table(groups: Mapping[str, Sequence[Timed]]) -> Iterator[str]:
    yield ""
    yield "The share of its warps' cycles that a launch's prediction gives to another reason than the hardware."
    yield ""
    yield "| group | launches | mean | p90 | largest |"
    yield "|---|--:|--:|--:|--:|"
    for group, launches in groups.items():
        sizes = sorted(100 * size for size in map(misplaced, launches) if size is not None)
        if sizes:
            yield f"| {group} | {len(sizes)} | {_spread(sizes, '%')} |"


def _points_table(groups: Mapping[str, Sequence[Timed]]) -> Iterator[str]:
    yield ""
    yield "Shares of a whole, and by how many points of a per cent they are off (launches where both are 0 are left out)."
    yield ""
    yield "| group | metric | launches | mean difference | p90 | largest |"
    yield "|---|---|--:|--:|--:|--:|"
    for group, launches in groups.items():
        for metric, scale in POINTS:
            pairs = [(launch.predicted.get(metric), launch.recorded.get(metric)) for launch in launches]
            sizes = sorted(scale * abs(p - r) for p, r in pairs if p is not None and r is not None and (p or r))
            if sizes:
                yield f"| {group} | `{metric}` | {len(sizes)} | {_spread(sizes, 'points')} |"


def _conflict_table(groups: Mapping[str, Sequence[Timed]]) -> Iterator[str]:
    yield ""
    yield (
        "Bank conflicts of shared memory, as a share of the recorded wavefronts of that kind. Where many SMs are busy the "
        "hardware counts some that no address causes, which differ from run to run."
    )
    yield ""
    yield "| group | access | launches | equal | within 1 % | largest difference |"
    yield "|---|---|--:|--:|--:|--:|"
    for group, launches in groups.items():
        for kind in ("ld", "st"):
            sizes = []
            for launch in launches:
                wavefronts, counted = launch.recorded.get(WAVEFRONTS.format(kind)), launch.recorded.get(CONFLICTS.format(kind))
                if wavefronts and counted is not None:
                    sizes.append(100 * abs(launch.predicted.get(CONFLICTS.format(kind), 0.0) - counted) / wavefronts)
            if sizes:
                equal, near = sum(not size for size in sizes), sum(size <= 1 for size in sizes)
                yield f"| {group} | {kind} | {len(sizes)} | {equal} | {near} | {max(sizes):.1f} % |"


def _spread(sizes: Sequence[float], unit: str) -> str:
    """Mean, 90th percentile and largest of sorted sizes, as cells."""
    values = (statistics.mean(sizes), sizes[min(len(sizes) - 1, int(0.9 * len(sizes)))], sizes[-1])
    return " | ".join(f"{value:.1f} {unit}" for value in values)
