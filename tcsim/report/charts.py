"""Pictures of a profile as SVG: roofline, stalls, where the cycles went, scatter. Legible on light and on dark pages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from tcsim.lanes.drawing import Drawing
from tcsim.profile import LaunchProfile
from tcsim.report.account import account
from tcsim.report.derived import with_derived
from tcsim.report.widths import operations

__all__ = ["Roofline", "account_chart", "colour_of", "roofline", "roofline_chart", "scatter_chart", "stall_chart"]

COLOURS = {
    "selected": "#2da44e", "reached": "#2da44e", "long_scoreboard": "#d1603d", "short_scoreboard": "#e39b4b",
    "mio_throttle": "#c9a227", "lg_throttle": "#b5651d", "barrier": "#7c5cbf", "math_pipe_throttle": "#3b82b8",
    "wait": "#8aa4b8", "not_selected": "#9fc5a8", "no_instruction": "#b0a8c9", "branch_resolving": "#d48fb4",
    "membar": "#a06060", "drain": "#c7b299", "launch": "#6e7781", "no CTA": "#afb8c1",
}  # fmt: skip
_OTHER = "#8c959f"


def colour_of(name: str) -> str:
    """The colour of a stall reason, the same in every picture."""
    return COLOURS.get(name, _OTHER)


class _Chart(Drawing):
    """A drawing with lines and dots besides."""

    def line(self, x1: float, y1: float, x2: float, y2: float, *, soft: bool = False, dashed: bool = False) -> None:
        """A straight line."""
        dash = ' stroke-dasharray="4 3"' if dashed else ""
        colour, width = ("#8c959f", 0.6) if soft else ("#4078c0", 2)
        self._parts.append(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width}"{dash}/>'
        )

    def dot(self, x: float, y: float, tip: str, *, fill: str = "#d1603d", radius: float = 5) -> None:
        """A point with a tooltip."""
        self._parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" fill="{fill}" stroke="#7d8894" stroke-width="0.6">'
            f"<title>{escape(tip)}</title></circle>"
        )


class _Log:
    """A logarithmic axis of whole decades."""

    def __init__(self, values: Sequence[float], start: float, end: float) -> None:
        low, high = min(values), max(values)
        self.first, self.last = math.floor(math.log10(low)), math.ceil(math.log10(high) + 1e-9)
        self.last = max(self.last, self.first + 1)
        self.start, self.end = start, end

    def at(self, value: float) -> float:
        share = (math.log10(value) - self.first) / (self.last - self.first)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[tuple[float, str]]:
        return [(self.at(10.0**power), _power(power)) for power in range(self.first, self.last + 1)]


def _power(power: int) -> str:
    return f"{10**power:g}" if -3 <= power <= 3 else f"1e{power}"


@dataclass(frozen=True)
class Roofline:
    """``intensity``: operations per byte of DRAM; ``rate``: operations a second; ``pipe``: which does them. ``peak``
    operations and ``bandwidth`` bytes a second of the GPU, None where the profile does not tell."""

    kernel: str
    pipe: str
    intensity: float
    rate: float
    peak: float | None
    bandwidth: float | None


def roofline(profile: LaunchProfile) -> Roofline | None:
    """Where a launch stands; None if it does no floating or tensor operations, or moves no bytes."""
    work: dict[str, int] = {}
    for i in profile.instructions:
        pipe, count = operations(i.opcode, i.executed, i.threads)
        if count:
            work[pipe] = work.get(pipe, 0) + count
    metrics = with_derived(profile.metrics)
    moved = float(metrics.get("dram__bytes_read.sum", 0) + metrics.get("dram__bytes_write.sum", 0))
    if not work or not moved or not profile.seconds:
        return None
    pipe = max(work, key=lambda name: work[name])
    rate = work[pipe] / profile.seconds
    return Roofline(profile.name, pipe, work[pipe] / moved, rate, _peak(profile, pipe, rate), _bandwidth(profile, moved))


def _peak(profile: LaunchProfile, pipe: str, rate: float) -> float | None:
    """The peak follows from how busy the launch kept the pipe."""
    names = {"tensor": "tensor", "fp32": "fma", "fp16": "fma", "fp64": "fp64"}
    busy = float(profile.metrics.get(f"sm__pipe_{names[pipe]}_cycles_active.avg.pct_of_peak_sustained_active", 0))
    inside = float(profile.metrics.get("sm__cycles_active.avg", 0)) / max(1, profile.cycles)
    return rate / (busy / 100 * inside) if busy and inside else None


def _bandwidth(profile: LaunchProfile, moved: float) -> float | None:
    share = float(profile.metrics.get("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", 0))
    return moved / profile.seconds / (share / 100) if share else None


def roofline_chart(profiles: Sequence[LaunchProfile]) -> str:
    """Operations a second over operations per byte, with the roofs of the GPU; "" if no launch has a place on it."""
    points = [point for profile in profiles if (point := roofline(profile)) is not None]
    if not points:
        return ""
    peak = max((p.peak for p in points if p.peak), default=0.0)
    bandwidth = max((p.bandwidth for p in points if p.bandwidth), default=0.0)
    ridge = peak / bandwidth if bandwidth and peak else 0.0
    xs = [p.intensity for p in points] + ([ridge, ridge / 100, ridge * 10] if ridge else [])
    ys = [p.rate for p in points] + ([peak] if peak else [])
    chart = _Chart(640, 400, "Roofline: operations a second over operations per byte of DRAM")
    x, y = _Log(xs, 70, 610), _Log(ys, 345, 40)
    _axes(chart, x, y, "operations per byte of DRAM", "operations a second")
    if ridge:
        left = 10.0**x.first
        chart.line(x.at(ridge), y.at(peak), x.at(10.0**x.last), y.at(peak))
        low = max(bandwidth * left, 10.0**y.first)
        chart.line(x.at(low / bandwidth), y.at(low), x.at(ridge), y.at(peak))
        chart.words(x.end, y.at(peak) - 6, f"{peak / 1e12:,.1f} T operations/s", size=11, anchor="end", soft=True)
        chart.words(x.at(low / bandwidth) + 10, y.at(low) - 14, f"{bandwidth / 1e9:,.0f} GB/s", size=11, soft=True)
    for point in points:
        of_roof = f", {100 * point.rate / min(peak, bandwidth * point.intensity):.0f} % of the roof" if ridge else ""
        tip = f"{point.kernel} ({point.pipe}): {point.rate / 1e12:.3g} T/s at {point.intensity:.3g}/byte{of_roof}"
        chart.dot(x.at(point.intensity), y.at(point.rate), tip)
        chart.words(x.at(point.intensity) + 8, y.at(point.rate) + 4, point.kernel, size=11)
    return chart.svg()


def _axes(chart: _Chart, x: _Log, y: _Log, under: str, beside: str) -> None:
    for place, label in x.ticks():
        chart.line(place, y.start, place, y.end, soft=True)
        chart.words(place, y.start + 16, label, size=11, anchor="middle", soft=True)
    for place, label in y.ticks():
        chart.line(x.start, place, x.end, place, soft=True)
        chart.words(x.start - 6, place + 4, label, size=11, anchor="end", soft=True)
    chart.words((x.start + x.end) / 2, y.start + 36, under, size=12, anchor="middle")
    chart.words(x.start, y.end - 14, beside, size=12)


def _bars(title: str, rows: Sequence[tuple[str, float, str]]) -> str:
    """A bar per row: name, per cent, tooltip."""
    chart = _Chart(640, 24 * len(rows) + 44, title)
    chart.words(10, 22, title, size=13, bold=True)
    most = max((percent for _, percent, _ in rows), default=0.0) or 1.0
    for number, (name, percent, tip) in enumerate(rows):
        top = 34 + 24 * number
        chart.words(170, top + 14, name, size=12, anchor="end")
        chart.box(178, top, max(0.5, 380 * percent / most), 18, colour_of(name), tip=tip)
        chart.words(184 + 380 * percent / most, top + 14, f"{percent:.1f} %", size=12, soft=True)
    return chart.svg()


def stall_chart(profile: LaunchProfile) -> str:
    """What resident warps did, in per cent of their cycles."""
    total = sum(profile.stalls.values()) or 1
    rows = [
        (name, 100 * cycles / total, f"{name}: {cycles:,} warp-cycles")
        for name, cycles in sorted(profile.stalls.items(), key=lambda item: -item[1])
        if 1000 * cycles >= total
    ]
    return _bars("Warp states, % of resident warp-cycles", rows)


def account_chart(profile: LaunchProfile) -> str:
    """From the peak to what was reached; "" where the profile lacks what that needs."""
    found = account(profile)
    if found is None:
        return ""
    rows = [("reached", found.reached, f"{found.resource} in use")]
    rows += [(loss.name, loss.percent, loss.text) for loss in found.losses if loss.percent >= 0.05]
    return _bars(f"Where the cycles went: {found.resource}, % of their peak", rows)


def scatter_chart(points: Sequence[tuple[str, float, float]], under: str = "measured", beside: str = "predicted") -> str:
    """Pairs of numbers on logarithmic axes, with the line on which they are equal. points: (name, x, y), both positive."""
    chart = _Chart(640, 420, f"{beside} over {under}")
    every = [value for _, a, b in points for value in (a, b)]
    x, y = _Log(every, 70, 610), _Log(every, 365, 40)
    _axes(chart, x, y, under, beside)
    chart.line(x.start, y.start, x.end, y.end, dashed=True)
    for name, a, b in points:
        chart.dot(x.at(a), y.at(b), f"{name}: {a:,.4g} {under}, {b:,.4g} {beside} ({100 * (b / a - 1):+.1f} %)", radius=4)
    return chart.svg()
