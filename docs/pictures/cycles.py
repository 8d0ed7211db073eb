"""Profile every recorded bundle and set the predicted cycles beside the hardware's: a picture and a table.

python docs/pictures/cycles.py            # writes cycles.svg beside this file and prints the table (Markdown)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import tcsim
from tcsim.cli.launches import LaunchOptions, prepare

HERE = Path(__file__).parent
TRACES = HERE.parents[1] / "traces"
CYCLES, INSTRUCTIONS = "sm__cycles_elapsed.max", "smsp__inst_executed.sum"
TIMING_DEPENDENT = {"locks"}  # how long threads spin depends on who wins: no fixed answer to compare with


@dataclass(frozen=True)
class Row:
    """One bundle: predicted and measured."""

    name: str
    cycles: float
    hardware_cycles: float
    instructions: float
    hardware_instructions: float

    @property
    def error(self) -> float:
        """Relative error of the cycles."""
        return self.cycles / self.hardware_cycles - 1


def measure() -> list[Row]:
    """Profile all bundles that have the hardware's cycles."""
    rows = []
    for path in sorted(TRACES.glob("*/bundle.json")):
        launch = prepare(str(path.parent), LaunchOptions())
        recorded = launch.bundle.metrics
        if CYCLES not in recorded or launch.bundle.name in TIMING_DEPENDENT:
            continue
        with tcsim.Profiler() as profiler:
            launch.run()
        metrics = profiler.launches[-1].metrics
        rows.append(
            Row(
                launch.bundle.name,
                metrics[CYCLES],
                float(recorded[CYCLES].value),
                metrics[INSTRUCTIONS],
                float(recorded[INSTRUCTIONS].value),
            )
        )
    return rows


def summary(rows: list[Row]) -> str:
    """Mean absolute percentage error of the cycles, median, largest, and correlation of the logarithms."""
    errors = sorted(abs(row.error) for row in rows)
    xs, ys = [math.log(r.hardware_cycles) for r in rows], [math.log(r.cycles) for r in rows]
    mx, my = sum(xs) / len(xs), sum(ys) / len(ys)
    covariance = sum((x - mx) * (y - my) for x, y in zip(xs, ys, strict=True))
    spread = math.sqrt(sum((x - mx) ** 2 for x in xs) * sum((y - my) ** 2 for y in ys))
    mean = sum(errors) / len(errors)
    return (
        f"{len(rows)} kernels: mean absolute error {100 * mean:.1f} %, median "
        f"{100 * errors[len(errors) // 2]:.1f} %, largest {100 * errors[-1]:.1f} %, correlation of the logarithms "
        f"{covariance / spread:.3f}"
    )


def table(rows: list[Row]) -> str:
    """All kernels, Markdown."""
    lines = ["| kernel | cycles, tcsim | cycles, H200 | error | warp instructions, PTX / H200 |", "|---|--:|--:|--:|--:|"]
    for row in rows:
        ratio = row.instructions / row.hardware_instructions
        lines.append(
            f"| {row.name} | {row.cycles:,.0f} | {row.hardware_cycles:,.0f} | {100 * row.error:+.1f} % | {ratio:.2f} |"
        )
    return "\n".join(lines)


def picture(rows: list[Row]) -> str:
    """A scatter plot on logarithmic axes, with the band of 20 % around equality, legible in light and dark."""
    low = 10 ** math.floor(math.log10(min(min(r.cycles, r.hardware_cycles) for r in rows)))
    high = 10 ** math.ceil(math.log10(max(max(r.cycles, r.hardware_cycles) for r in rows)))
    size, left, top = 420, 70, 20
    decades = math.log10(high / low)

    def at(value: float) -> float:
        return math.log10(value / low) / decades * size

    def point(x: float, y: float) -> str:
        return f"{left + at(x):.1f},{top + size - at(y):.1f}"

    band = [point(low, low * 0.8), point(high, high * 0.8), point(high, high), point(high / 1.2, high), point(low, low * 1.2)]
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + size + 50} {top + size + 60}" '
        'font-family="sans-serif" font-size="12">',
        "<style>text{fill:#444}line,rect{stroke:#999}@media(prefers-color-scheme:dark){text{fill:#ccc}line,rect{stroke:#777}}</style>",
        f'<rect x="{left}" y="{top}" width="{size}" height="{size}" fill="none"/>',
        f'<clipPath id="c"><rect x="{left}" y="{top}" width="{size}" height="{size}"/></clipPath>',
        f'<polygon points="{" ".join(band)}" fill="#4a90d9" opacity="0.18" clip-path="url(#c)"/>',
    ]
    for step in range(round(decades) + 1):
        value = low * 10**step
        place = at(value)
        label = f"{value:,.0f}"
        out.append(f'<line x1="{left + place:.1f}" y1="{top}" x2="{left + place:.1f}" y2="{top + size}" opacity="0.4"/>')
        out.append(
            f'<line x1="{left}" y1="{top + size - place:.1f}" x2="{left + size}" y2="{top + size - place:.1f}" opacity="0.4"/>'
        )
        out.append(f'<text x="{left + place:.1f}" y="{top + size + 16}" text-anchor="middle">{label}</text>')
        out.append(f'<text x="{left - 6}" y="{top + size - place + 4:.1f}" text-anchor="end">{label}</text>')
    for row in rows:
        x, y = left + at(row.hardware_cycles), top + size - at(row.cycles)
        out.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="#d9534a" opacity="0.85"><title>{row.name}: {row.cycles:,.0f} '
            f"predicted, {row.hardware_cycles:,.0f} on an H200</title></circle>"
        )
    middle = left + size / 2
    out.append(f'<text x="{middle}" y="{top + size + 40}" text-anchor="middle">cycles on an H200 (Nsight Compute)</text>')
    out.append(
        f'<text transform="translate(14,{top + size / 2}) rotate(-90)" text-anchor="middle">'
        "cycles predicted by tcsim from PTX</text>"
    )
    return "\n".join([*out, "</svg>", ""])


if __name__ == "__main__":
    measured = measure()
    (HERE / "cycles.svg").write_text(picture(measured))
    print(table(measured))
    print()
    print(summary(measured))
