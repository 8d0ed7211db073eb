"""``tcsim compare``: two reports side by side."""

from __future__ import annotations

import json as json_module
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from tcsim.cli.launches import LaunchOptions, prepare, target_bundle
from tcsim.cli.outputs import check_outputs
from tcsim.errors import TcsimError
from tcsim.profiler import Profiler
from tcsim.report.compare import Measured, compare, compare_text, of_profile, pairs, read_measured

__all__ = ["add_to"]

_HELP = (
    "a profile (.json), a file of ncu --csv (.csv), a bundle folder (what the hardware measured), or FOLDER@DEVICE: the "
    "bundle, "
    "profiled now for that GPU"
)


def compare_reports(
    one: Annotated[str, typer.Argument(help=_HELP, show_default=False)],
    two: Annotated[str, typer.Argument(help="the other", show_default=False)],
    metrics: Annotated[list[str] | None, typer.Option("--metrics", help="only these metrics, separated by commas")] = None,
    json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="also a scatter plot of the launches' cycles (or first metric): .svg or .png")
    ] = None,
) -> None:
    """Compare two reports: metric by metric, launch by launch, in Nsight Compute's sections."""
    names = [name for each in metrics or [] for name in each.split(",") if name]
    check_outputs({"--plot": plot})
    first, second = _read(one), _read(two)
    both = pairs(first, second)
    if json:
        typer.echo(json_module.dumps([_data(a, b, names) for a, b in both], indent=1))
    else:
        for a, b in both:
            typer.echo(compare_text(a, b, names))
    if plot is not None:
        _plot(both, names[0] if names else "sm__cycles_elapsed.max", plot)
    if len(both) < max(len(first), len(second)):
        typer.echo(f"tcsim: {one} has {len(first)} launches, {two} has {len(second)}; compared {len(both)}", err=True)


def _plot(both: Sequence[tuple[Measured, Measured]], metric: str, path: Path) -> None:
    from tcsim.report.charts import scatter_chart
    from tcsim.report.png import to_png

    values = [(a.kernel, a.metrics.get(metric, 0.0), b.metrics.get(metric, 0.0)) for a, b in both]
    points = [point for point in values if point[1] > 0 and point[2] > 0]
    if not points:
        raise TcsimError(f"--plot: no launch has {metric} in both reports")
    svg = scatter_chart(points, f"{both[0][0].source}: {metric}", both[0][1].source)
    path.write_bytes(to_png(svg) if path.suffix.lower() == ".png" else svg.encode())


def _data(one: Measured, two: Measured, names: list[str]) -> dict[str, object]:
    rows = [
        {"section": d.section, "label": d.label, "metric": d.metric, "one": d.one, "two": d.two, "ratio": d.ratio}
        for d in compare(one, two, names)
    ]
    return {"kernel": one.kernel, "one": one.source, "two": two.source, "metrics": rows}


def _read(target: str) -> list[Measured]:
    path, at, device = target.partition("@")
    if at:
        launch = prepare(path, LaunchOptions(device=device))
        with Profiler() as profiler:
            launch.run()
        return [of_profile(profile, f"tcsim {profile.device}") for profile in profiler.launches]
    if Path(target).is_dir():
        bundle = target_bundle(target, LaunchOptions())
        if not bundle.metrics:
            raise TcsimError(f"{target} has no recorded metrics; {target}@h200 profiles it now")
        values = {name: float(metric.value) for name, metric in bundle.metrics.items()}
        return [Measured(f"{bundle.device}, recorded", bundle.entry or bundle.name, values)]
    return read_measured(target)


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(name="compare")(compare_reports)
