"""Where launches stand under the roofs of a GPU: operations a second over operations per byte of DRAM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tcsim.profile import LaunchProfile
from tcsim.report.charts import Chart, LogAxis, axes
from tcsim.report.work import peak, work

__all__ = ["Roofline", "roofline", "roofline_chart"]


@dataclass(frozen=True)
class Roofline:
    """``intensity``: operations per byte of DRAM; ``rate``: operations a second; ``kind``: of which kind, as
    :func:`tcsim.report.work.operations` calls them. ``peak``: operations of that kind a second, ``bandwidth``: bytes a
    second of the GPU, None where the profile does not tell."""

    kernel: str
    kind: str
    intensity: float
    rate: float
    peak: float | None
    bandwidth: float | None

    @property
    def roof(self) -> float | None:
        """What is possible at this intensity."""
        return min(self.peak, self.bandwidth * self.intensity) if self.peak and self.bandwidth else None


def roofline(profile: LaunchProfile) -> Roofline | None:
    """Where a launch stands, with the kind of operation that would take longest at its peak; None if it does none, or moves no
    bytes."""
    done, metrics = work(profile), profile.metrics
    moved = float(metrics.get("dram__bytes_read.sum", 0) + metrics.get("dram__bytes_write.sum", 0))
    if not done or not moved or not profile.seconds:
        return None
    peaks = {kind: peak(profile, kind) for kind in done}
    kind = max(done, key=lambda name: (done[name] / (peaks[name] or 1e15), done[name]))
    share = float(metrics.get("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", 0))
    bandwidth = moved / profile.seconds / (share / 100) if share else None
    return Roofline(profile.name, kind, done[kind] / moved, done[kind] / profile.seconds, peaks[kind], bandwidth)


def roofline_chart(profiles: Sequence[LaunchProfile]) -> str:
    """The picture, with a roof for each kind of operation; "" if no launch has a place on it."""
    points = [point for profile in profiles if (point := roofline(profile)) is not None]
    if not points:
        return ""
    roofs = {point.kind: point.peak for point in points if point.peak}
    bandwidth = max((p.bandwidth for p in points if p.bandwidth), default=0.0)
    ridges = [top / bandwidth for top in roofs.values()] if bandwidth else []
    xs = [p.intensity for p in points] + [at for ridge in ridges for at in (ridge / 100, ridge * 10)]
    chart = Chart(640, 400, "Roofline: operations a second over operations per byte of DRAM")
    x, y = LogAxis(xs, 70, 610), LogAxis([p.rate for p in points] + list(roofs.values()), 345, 40)
    axes(chart, x, y, "operations per byte of DRAM", "operations a second")
    if ridges:
        _draw_roofs(chart, x, y, roofs, bandwidth)
    for point in points:
        of_roof = f", {100 * point.rate / point.roof:.0f} % of the roof" if point.roof else ""
        tip = f"{point.kernel} ({point.kind}): {point.rate / 1e12:.3g} T/s at {point.intensity:.3g}/byte{of_roof}"
        chart.dot(x.at(point.intensity), y.at(point.rate), tip)
        is_right = x.at(point.intensity) > 430
        chart.words(
            x.at(point.intensity) + (-8 if is_right else 8), y.at(point.rate) + 4, point.kernel, size=11,
            anchor="end" if is_right else "start",
        )  # fmt: skip
    return chart.svg()


def _draw_roofs(chart: Chart, x: LogAxis, y: LogAxis, roofs: dict[str, float], bandwidth: float) -> None:
    """A level line for each kind, and the slope of DRAM up to the highest."""
    highest = max(roofs.values())
    low = max(bandwidth * 10.0**x.first, 10.0**y.first)
    chart.line(x.at(low / bandwidth), y.at(low), x.at(highest / bandwidth), y.at(highest))
    chart.words(x.at(low / bandwidth) + 26, y.at(low) + 2, f"{bandwidth / 1e9:,.0f} GB/s", size=11, soft=True)
    for kind, top in roofs.items():
        chart.line(x.at(top / bandwidth), y.at(top), x.at(10.0**x.last), y.at(top))
        chart.words(x.end, y.at(top) - 6, f"{kind}: {top / 1e12:,.1f} T operations/s", size=11, anchor="end", soft=True)
