"""Pictures of a profile as SVG: stalls, where the cycles went, scatter. Legible on light and on dark pages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from tcsim.lanes.drawing import Drawing
from tcsim.profile import LaunchProfile
from tcsim.report.account import account

__all__ = ["Chart", "LogAxis", "account_chart", "axes", "colour_of", "scatter_chart", "stall_chart"]

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


class Chart(Drawing):
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


class LogAxis:
    """A logarithmic axis of whole decades."""

    def __init__(self, values: Sequence[float], start: float, end: float) -> None:
        low, high = min(values), max(values)
        self.first, self.last = math.floor(math.log10(low)), math.ceil(math.log10(high) + 1e-9)
        self.last = max(self.last, self.first + 1)
        self.start, self.end = start, end

    def at(self, value: float) -> float:
        """Where a value is."""
        share = (math.log10(value) - self.first) / (self.last - self.first)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[tuple[float, str]]:
        """Places and labels."""
        return [(self.at(10.0**power), _power(power)) for power in range(self.first, self.last + 1)]


def _power(power: int) -> str:
    return f"{10**power:g}" if -3 <= power <= 3 else f"1e{power}"


def axes(chart: Chart, x: LogAxis, y: LogAxis, under: str, beside: str) -> None:
    """Grid lines, their numbers, and what the axes mean."""
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
    chart = Chart(640, 24 * len(rows) + 44, title)
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
    chart = Chart(640, 420, f"{beside} over {under}")
    every = [value for _, a, b in points for value in (a, b)]
    x, y = LogAxis(every, 70, 610), LogAxis(every, 365, 40)
    axes(chart, x, y, under, beside)
    chart.line(x.start, y.start, x.end, y.end, dashed=True)
    for name, a, b in points:
        chart.dot(x.at(a), y.at(b), f"{name}: {a:,.4g} {under}, {b:,.4g} {beside} ({100 * (b / a - 1):+.1f} %)", radius=4)
    return chart.svg()
