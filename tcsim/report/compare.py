"""Two reports side by side: two profiles, a profile and ``ncu --csv`` of real hardware, a recording, or one kernel on two
GPUs."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tcsim.errors import TcsimError
from tcsim.profile import LaunchProfile
from tcsim.report.data import load_profiles
from tcsim.report.derived import with_derived
from tcsim.report.sections import SECTIONS
from tcsim.report.text import format_number
from tcsim.report.units import UNIT_FACTORS

__all__ = ["Difference", "Measured", "compare", "compare_text", "of_profile", "pairs", "read_measured"]


@dataclass(frozen=True)
class Measured:
    """Metrics of one launch, wherever they come from. ``source``: what to call them."""

    source: str
    kernel: str
    metrics: Mapping[str, float]


@dataclass(frozen=True)
class Difference:
    """A metric of two launches. ``section`` and ``label``: where Nsight Compute shows it, or "" and its name."""

    section: str
    label: str
    metric: str
    one: float
    two: float

    @property
    def ratio(self) -> float | None:
        """The second relative to the first; None where the first is 0."""
        return self.two / self.one if self.one else (1.0 if not self.two else None)


def read_measured(path: str | Path) -> list[Measured]:
    """The launches of a file: JSON of ``tcsim profile --json``, or CSV of ``ncu --csv`` or ``tcsim profile --csv`` with the
    page details or raw. Raises TcsimError for anything else."""
    path = Path(path)
    if path.suffix.lower() == ".json":
        return [of_profile(profile, f"{path.name}: {profile.device}") for profile in load_profiles(path)]
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as problem:
        raise TcsimError(f"cannot read {path}: {problem.strerror}") from None
    lines = [line for line in text.splitlines() if line.startswith('"')]  # ncu's own messages stand before the table
    if not lines or '"Kernel Name"' not in lines[0]:
        raise TcsimError(f"{path} is neither a profile (.json) nor the output of ncu --csv (no column 'Kernel Name')")
    head, *rows = list(csv.reader(lines))
    found = _details(head, rows) if "Metric Name" in head else _raw(head, rows)
    return [Measured(path.name, kernel, metrics) for kernel, metrics in found]


def of_profile(profile: LaunchProfile, source: str) -> Measured:
    """A profile as measured metrics."""
    return Measured(source, profile.name, {name: float(value) for name, value in with_derived(profile.metrics).items()})


_LABELS = {
    (section.title, row.label): (row.metric, row.scale) for section in SECTIONS for row in section.rows
}  # ncu writes the labels of its sections, unless told to print metric names


def _details(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[tuple[str, dict[str, float]]]:
    launches: dict[str, tuple[str, dict[str, float]]] = {}
    for row in rows:
        cells = dict(zip(head, row, strict=False))
        value = _number(cells.get("Metric Value", ""))
        if value is None:
            continue
        _, metrics = launches.setdefault(cells.get("ID", ""), (cells.get("Kernel Name", ""), {}))
        label, unit = cells["Metric Name"], cells.get("Metric Unit", "")
        name, _ = _LABELS.get((cells.get("Section Name", ""), label), (label, 1.0))
        metrics.setdefault(name, value * UNIT_FACTORS.get(unit.lower(), 1.0))
    return list(launches.values())


def _raw(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[tuple[str, dict[str, float]]]:
    units: Mapping[str, str] = dict(zip(head, rows[0], strict=False)) if rows else {}
    launches = []
    for row in rows[1:]:
        cells = dict(zip(head, row, strict=False))
        metrics = {}
        for name, text in cells.items():
            value = _number(text) if "__" in name else None
            if value is not None:
                metrics[name] = value * UNIT_FACTORS.get(units.get(name, "").lower(), 1.0)
        launches.append((cells.get("Kernel Name", ""), metrics))
    return launches


def _number(text: str) -> float | None:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def pairs(first: Sequence[Measured], second: Sequence[Measured]) -> list[tuple[Measured, Measured]]:
    """Which launches of two reports belong together: the first of a kernel with the first of the same kernel, and so on; by
    their order where no kernel is in both."""
    waiting: dict[str, list[Measured]] = {}
    for launch in second:
        waiting.setdefault(_function(launch.kernel), []).append(launch)
    found = []
    for launch in first:
        same = waiting.get(_function(launch.kernel))
        if same:
            found.append((launch, same.pop(0)))
    return found or list(zip(first, second, strict=False))


def _function(kernel: str) -> str:
    """Its name without parameters, of which ncu may tell the types."""
    return kernel.partition("(")[0].strip()


def compare(one: Measured, two: Measured, metrics: Sequence[str] = ()) -> list[Difference]:
    """The metrics that both have, in the order of the sections; others only if asked for by name."""
    rows = [
        Difference(section.title, row.label, row.metric, one.metrics[row.metric], two.metrics[row.metric])
        for section in SECTIONS
        for row in section.rows
        if row.metric in one.metrics and row.metric in two.metrics and (not metrics or row.metric in metrics)
    ]
    shown = {row.metric for row in rows}
    for name in metrics:
        if name not in shown:
            if name not in one.metrics or name not in two.metrics:
                raise TcsimError(f"--metrics {name}: not in both reports")
            rows.append(Difference("", name, name, one.metrics[name], two.metrics[name]))
    return rows


def compare_text(one: Measured, two: Measured, metrics: Sequence[str] = ()) -> str:
    """A table by section: both values, and the second relative to the first."""
    rows = compare(one, two, metrics)
    if not rows:
        raise TcsimError(f"{one.source} and {two.source} have no metric in common")
    width = max(len(row.label) for row in rows)
    lines = [f"  {one.kernel}" if one.kernel == two.kernel else f"  {one.kernel} | {two.kernel}"]
    lines.append(f"    {'':{width}}  {_clip(one.source):>18}  {_clip(two.source):>18}  {'change':>9}")
    section = None
    for row in rows:
        if row.section != section:
            section = row.section
            lines.append(f"    {section or 'Metrics'}")
        change = "-" if row.ratio is None else f"{100 * (row.ratio - 1):+.1f} %"
        lines.append(f"      {row.label:{width - 2}}  {format_number(row.one):>18}  {format_number(row.two):>18}  {change:>9}")
    return "\n".join(lines) + "\n"


def _clip(text: str) -> str:
    return text if len(text) <= 18 else "…" + text[-17:]
