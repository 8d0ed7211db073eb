"""Tables and a scatter plot of predicted against recorded metrics."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from gpu_ref.correlation.launches import Timed
from gpu_ref.correlation.mechanisms import mechanisms
from gpu_ref.correlation.statistics import COMPARED, JUDGED, agreement

__all__ = ["report", "scatter"]

CYCLES, ACTIVE = "sm__cycles_elapsed.max", "sm__cycles_active.avg"
_COLOURS = ("#d9534a", "#4a90d9", "#5a9e4b", "#b07cc6", "#d8a43a")


def report(groups: Mapping[str, Sequence[Timed]]) -> Iterator[str]:
    """Lines of Markdown: agreement by group and by metric, then every launch."""
    yield "| group | metric | launches | equal | MAPE | median | p90 | largest | correlation of logarithms |"
    yield "|---|---|--:|--:|--:|--:|--:|--:|--:|"
    for group, launches in groups.items():
        yield from _agreements(group, launches, JUDGED)
        tensor = [each for each in launches if each.tensor]
        if 0 < len(tensor) < len(launches):
            yield from _agreements(f"{group}, tensor cores", tensor, (CYCLES, ACTIVE))
    yield ""
    yield "Error: predicted / recorded - 1 of each launch; MAPE: the mean of its size. Launches that recorded 0 are left out."
    yield ""
    yield "All launches together, by metric."
    yield ""
    yield "| launches of | metric | launches | equal | MAPE | median | p90 | largest | correlation of logarithms |"
    yield "|---|---|--:|--:|--:|--:|--:|--:|--:|"
    yield from _agreements("all groups", [each for launches in groups.values() for each in launches], COMPARED)
    yield from mechanisms(groups)
    yield ""
    yield "Every launch. Runs: of how many the recorded cycles are the median, and how far apart they are (largest - smallest)."
    yield ""
    yield "| launch | group | cycles | recorded | error | runs | active cycles | recorded | error |"
    yield "|---|---|--:|--:|--:|--:|--:|--:|--:|"
    for group, launches in groups.items():
        for each in launches:
            cells = [each.name, group]
            for metric in (CYCLES, ACTIVE):
                predicted, recorded = each.predicted[metric], each.recorded.get(metric, 0.0)
                error = f"{100 * (predicted / recorded - 1):+.1f} %" if recorded else ""
                cells += [f"{predicted:,.0f}", f"{recorded:,.0f}", error]
            runs = each.runs.get(CYCLES, [])
            spread = f"{len(runs)}: {100 * (max(runs) - min(runs)) / each.recorded[CYCLES]:.1f} %" if len(runs) > 1 else "1"
            yield f"| {' | '.join([*cells[:5], spread, *cells[5:]])} |"
    what = sorted({each.what.partition(",")[0] for launches in groups.values() for each in launches})
    yield ""
    yield f"Timed: {', '.join(what)}."


def _agreements(group: str, launches: Sequence[Timed], metrics: Sequence[str]) -> Iterator[str]:
    for metric in metrics:
        found = agreement(launches, metric)
        if found is not None:
            sizes = " | ".join(f"{size:.1f} %" for size in (found.mape, found.median, found.p90, found.largest))
            yield f"| {group} | `{metric}` | {found.count} | {found.equal} | {sizes} | {found.correlation:.3f} |"


def scatter(groups: Mapping[str, Sequence[Timed]], metric: str = CYCLES) -> str:
    """An SVG of one metric on logarithmic axes with a band of 20 % around equality, legible in light and dark."""
    points = [
        (each.recorded[metric], each.predicted[metric], each.name, number)
        for number, launches in enumerate(groups.values())
        for each in launches
        if each.recorded.get(metric) and each.predicted.get(metric)
    ]
    values = [value for point in points for value in point[:2]] or [1.0, 10.0]
    low, high = 10 ** math.floor(math.log10(min(values))), 10 ** math.ceil(math.log10(max(values)))
    size, left, top = 420, 70, 20
    legend = 18 * -(-len(groups) // 2)
    scale = size / math.log10(high / low)

    def at(value: float) -> float:
        return math.log10(value / low) * scale

    def place(x: float, y: float) -> str:
        return f"{left + at(x):.1f},{top + size - at(y):.1f}"

    band = [place(low, low * 0.8), place(high, high * 0.8), place(high, high * 1.2), place(low, low * 1.2)]
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + size + 50} {top + size + 66 + legend}" '
        'font-family="sans-serif" font-size="12"><style>text{fill:#444}line,rect{stroke:#999}'
        "@media(prefers-color-scheme:dark){text{fill:#ccc}line,rect{stroke:#777}}</style>",
        f'<rect x="{left}" y="{top}" width="{size}" height="{size}" fill="none"/>',
        f'<clipPath id="c"><rect x="{left}" y="{top}" width="{size}" height="{size}"/></clipPath>',
        f'<polygon points="{" ".join(band)}" fill="#4a90d9" opacity="0.18" clip-path="url(#c)"/>',
    ]
    for step in range(round(math.log10(high / low)) + 1):
        value, offset = low * 10**step, at(low * 10**step)
        x, y = left + offset, top + size - offset
        out.append(f'<line x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{top + size}" opacity="0.4"/>')
        out.append(f'<line x1="{left}" y1="{y:.1f}" x2="{left + size}" y2="{y:.1f}" opacity="0.4"/>')
        out.append(f'<text x="{x:.1f}" y="{top + size + 16}" text-anchor="middle">{value:,.0f}</text>')
        out.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{value:,.0f}</text>')
    for recorded, predicted, name, number in points:
        cx, cy = place(recorded, predicted).split(",")
        title = f"{name}: {predicted:,.0f} predicted, {recorded:,.0f} recorded"
        colour = _COLOURS[number % len(_COLOURS)]
        out.append(f'<circle cx="{cx}" cy="{cy}" r="3.5" fill="{colour}" opacity="0.8"><title>{title}</title></circle>')
    for number, (group, launches) in enumerate(groups.items()):
        y = top + size + 58 + 18 * (number // 2)
        x = left + 230 * (number % 2)
        out.append(f'<circle cx="{x}" cy="{y - 4}" r="4" fill="{_COLOURS[number % len(_COLOURS)]}"/>')
        out.append(f'<text x="{x + 10}" y="{y}">{group} ({len(launches)})</text>')
    middle = left + size / 2
    out.append(f'<text x="{middle}" y="{top + size + 38}" text-anchor="middle">{metric}, recorded by Nsight Compute</text>')
    turned = f"translate(14,{top + size / 2}) rotate(-90)"
    out.append(f'<text transform="{turned}" text-anchor="middle">predicted by tcsim</text>')
    return "\n".join([*out, "</svg>", ""])
