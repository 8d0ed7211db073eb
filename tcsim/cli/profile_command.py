"""``tcsim profile``: a kernel's predicted time, in Nsight Compute's words and with its options."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from tcsim.cli.launches import PreparedLaunch, prepare
from tcsim.cli.options import Args, Block, Cluster, DeviceName, Fmad, Grid, InOuts, Kernel, Outs, Shared, launch_options
from tcsim.cli.outputs import check_outputs
from tcsim.cli.scripts import is_script, run_script
from tcsim.device import Device
from tcsim.errors import TcsimError
from tcsim.profile import LaunchProfile
from tcsim.profiler import Profiler
from tcsim.report.source_view import View
from tcsim.timelines import Timelines

__all__ = ["add_to", "bank_maps"]

_TARGET = typer.Argument(
    help="a bundle folder, a .ptx or .cu file (needs NVRTC), or a Python script with its arguments after --", show_default=False
)


def profile(
    ctx: typer.Context,
    targets: Annotated[list[str], _TARGET],
    kernel: Kernel = "",
    grid: Grid = "",
    block: Block = "",
    cluster: Cluster = "",
    shared: Shared = 0,
    arg: Args = None,
    out: Outs = None,
    inout: InOuts = None,
    device: DeviceName = "",
    fmad: Fmad = True,
    save: Annotated[Path | None, typer.Option("--save", help="write the outputs to this .npz file")] = None,
    json: Annotated[bool, typer.Option("--json", help="print JSON (versioned schema)")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="print CSV as ncu --csv does")] = False,
    page: Annotated[str, typer.Option("--page", help="details (sections), raw (every metric) or source (lines)")] = "details",
    view: Annotated[str, typer.Option("--view", help="of the page source: cuda, ptx or instruction")] = "cuda",
    section: Annotated[list[str] | None, typer.Option("--section", help="only this section, such as SpeedOfLight")] = None,
    metrics: Annotated[
        list[str] | None, typer.Option("--metrics", help="only these metrics, separated by commas; regex:EXPRESSION matches")
    ] = None,
    kernel_name: Annotated[
        str, typer.Option("--kernel-name", help="only launches of this kernel; regex:EXPRESSION matches part of a name")
    ] = "",
    launch_skip: Annotated[int, typer.Option("--launch-skip", "-s", min=0, help="launches to pass over first")] = 0,
    launch_count: Annotated[int | None, typer.Option("--launch-count", "-c", min=1, help="launches to show then")] = None,
    html: Annotated[
        Path | None, typer.Option("--html", help="also write one offline HTML file; with --timeline, that is in it")
    ] = None,
    svg: Annotated[Path | None, typer.Option("--svg", help="also write pictures as SVG to this folder")] = None,
    png: Annotated[Path | None, typer.Option("--png", help="also write them as PNG to this folder (tcsim[png])")] = None,
    timeline: Annotated[
        Path | None, typer.Option("--timeline", help="also write a trace of the last launch for ui.perfetto.dev")
    ] = None,
    sample: Annotated[
        bool, typer.Option("--sample", help="simulate only the CTAs of a few SMs, for all; outputs are then incomplete")
    ] = False,
    sample_sms: Annotated[
        int | None, typer.Option("--sample-sms", help="how many SMs to simulate; default: as the stated error was measured")
    ] = None,
    sm: Annotated[int, typer.Option("--sm", help="the SM of the timeline; -1: all")] = 0,
    cta: Annotated[list[int] | None, typer.Option("--cta", help="only these CTAs of the timeline")] = None,
    cycles: Annotated[str, typer.Option("--cycles", help="only these cycles of the timeline: first,end")] = "",
) -> None:
    """Run a kernel, or all kernels of a script, with the time predicted, and print the report in Nsight Compute's sections."""
    sections, names = _sections(section or []), [name for each in metrics or [] for name in each.split(",") if name]
    if page not in ("details", "raw", "source"):
        raise TcsimError(f"--page {page!r}: details, raw or source")
    if view not in ("cuda", "ptx", "instruction"):
        raise TcsimError(f"--view {view!r}: cuda, ptx or instruction")
    check_outputs({"--timeline": timeline, "--html": html, "--save": save}, {"--svg": svg, "--png": png})
    launch = None
    span = _span(cycles)
    part = _sample(sample, sample_sms, save)
    kept = Timelines(None if sm < 0 else sm, cta, span, sample=part) if timeline is not None else None
    with kept or Profiler(sample=part) as profiler:
        if is_script(targets[0]):
            with Device(device or "h200"):
                run_script(targets[0], targets[1:])
        elif len(targets) == 1:
            options = launch_options(ctx, kernel, grid, block, cluster, shared, device, fmad)
            launch = prepare(targets[0], options)
            launch.run()
        else:
            raise TcsimError("one bundle or file at a time")
    chosen = _chosen(profiler.launches, kernel_name, launch_skip, launch_count)
    folders = [Path(targets[0]).parent, *([launch.bundle.ptx_path.parent] if launch is not None else [])]
    if page == "source":
        _print_source(chosen, cast(View, view), folders, csv=csv, json=json)
    else:
        _print(chosen, json=json, csv=csv, raw=page == "raw", sections=sections, metrics=names)
    if kept is not None and chosen:
        _write_timeline(chosen[-1], kept, str(timeline))
    for folder, is_png in ((svg, False), (png, True)):
        if folder is not None:
            _write_pictures(chosen, folder, is_png)
    if launch is not None:
        if chosen and not (json or csv or names or page != "details"):
            _beside_hardware(launch, chosen[-1])
        if save is not None:
            _save(launch, save)
    if html is not None:
        _write_html(chosen, kept, html, folders, launch)


def _sample(sample: bool, sms: int | None, save: Path | None) -> bool | int:
    if sms is not None and not sample:
        raise TcsimError("--sample-sms says how large the sample is that --sample takes: give both")
    if sample and save is not None:
        raise TcsimError("--save: with --sample most CTAs are not executed, and outputs incomplete. Leave out one of the two")
    return sample if sms is None else sms


def _span(text: str) -> tuple[int, int] | None:
    if not text:
        return None
    first, _, end = text.partition(",")
    if not (first.isdigit() and end.isdigit() and int(first) < int(end)):
        raise TcsimError(f"--cycles {text!r}: first,end such as 2000,4000")
    return int(first), int(end)


def _print_source(profiles: Sequence[LaunchProfile], view: View, folders: Sequence[Path], *, csv: bool, json: bool) -> None:
    from tcsim.report.source_view import source_text, to_source_csv, to_source_json

    if csv or json:
        typer.echo((to_source_csv if csv else to_source_json)(profiles, view, folders), nl=False)
        return
    for each in profiles:
        typer.echo(source_text(each, view, folders), nl=False)


def _write_timeline(profile: LaunchProfile, kept: Timelines, path: str) -> None:
    observed = kept.timeline(profile)
    slices = observed.write(path, profile)
    if not slices:
        ctas, cycles = math.prod(profile.grid), profile.metrics["sm__cycles_elapsed.max"]
        raise TcsimError(
            f"--timeline {path}: --sm, --cta and --cycles leave nothing; {profile.name} has {ctas:,} CTAs and {cycles:,} cycles"
        )
    lost = f" ({observed.dropped:,} events left out: choose --sm, --cta or --cycles)" if observed.dropped else ""
    typer.echo(f"timeline of {slices:,} slices written to {path}{lost}; open it in ui.perfetto.dev", err=True)


def _write_html(
    profiles: Sequence[LaunchProfile],
    kept: Timelines | None,
    path: Path,
    folders: Sequence[Path],
    launch: PreparedLaunch | None,
) -> None:
    from tcsim.report.html import profile_html

    banks = {0: bank_maps(profiles[0], launch)} if launch is not None and profiles else {}
    tracks = {} if kept is None else {number: kept.timeline(each).tracks(each) for number, each in enumerate(profiles)}
    path.write_text(profile_html(profiles, sources=folders, timelines=tracks, banks=banks), encoding="utf-8")
    typer.echo(f"report written to {path}", err=True)


def bank_maps(profile: LaunchProfile, launch: PreparedLaunch) -> list[tuple[str, str]]:
    """Pictures of the PTX lines with the most bank conflicts, from running the launch once more, untimed."""
    from tcsim.lanes.bank_report import of_launch
    from tcsim.report.source_view import source_lines

    lines = source_lines(profile, "ptx")
    worst = sorted((line for line in lines if line.excess_wavefronts > 0), key=lambda line: -line.excess_wavefronts)
    shown = worst[:_BANK_MAPS]
    if not shown:
        return []
    report = of_launch(launch, [line.where for line in shown])
    maps = []
    for line in shown:
        found = [entry for entry in report.found if f"ptx:{entry.ptx_line}" == line.where]
        if found:
            maps.append((f"{line.where}: {line.text}", replace(report, found=found).svg()))
    return maps


_BANK_MAPS = 2


def _write_pictures(profiles: Sequence[LaunchProfile], folder: Path, is_png: bool) -> None:
    from tcsim.report.charts import account_chart, stall_chart
    from tcsim.report.png import to_png
    from tcsim.report.roofline import roofline_chart

    folder.mkdir(parents=True, exist_ok=True)
    pictures = {"roofline": roofline_chart(profiles)}
    for number, each in enumerate(profiles):
        name = each.name if len(profiles) == 1 else f"{number}_{each.name}"
        pictures |= {f"{name}_stalls": stall_chart(each), f"{name}_account": account_chart(each)}
    for name, svg in pictures.items():
        if svg and is_png:
            (folder / f"{name}.png").write_bytes(to_png(svg))
        elif svg:
            (folder / f"{name}.svg").write_text(svg, encoding="utf-8")
    typer.echo(f"pictures written to {folder}", err=True)


def _sections(wanted: Sequence[str]) -> list[str]:
    from tcsim.report.sections import SECTIONS

    known = [s.identifier for s in SECTIONS] + ["Account"]
    for name in wanted:
        if name not in known:
            raise TcsimError(f"--section {name!r}: one of {', '.join(known)}")
    return list(wanted)


def _chosen(launches: Sequence[LaunchProfile], name: str, skip: int, count: int | None) -> list[LaunchProfile]:
    """The launches that ``--kernel-name``, ``--launch-skip`` and ``--launch-count`` leave, as ncu counts them: those of other
    names are not counted."""
    if name.startswith("regex:"):
        try:
            pattern = re.compile(name.removeprefix("regex:"))
        except re.error as problem:
            raise TcsimError(f"--kernel-name {name!r}: {problem}") from None
        named = [each for each in launches if pattern.search(each.name)]
    else:
        named = [each for each in launches if name in ("", each.name)]
    chosen = named[skip:] if count is None else named[skip : skip + count]
    if launches and not chosen:
        there = ", ".join(sorted({each.name for each in launches}))
        raise TcsimError(
            f"no launch is left of {len(launches)} (of {there}) after --kernel-name, --launch-skip and --launch-count"
        )
    return chosen


def _print(
    profiles: Sequence[LaunchProfile], *, json: bool, csv: bool, raw: bool, sections: Sequence[str], metrics: Sequence[str]
) -> None:
    from tcsim.report.data import to_csv, to_json, to_raw_csv
    from tcsim.report.text import render, render_metrics

    if json:
        typer.echo(to_json(profiles), nl=False)
    elif csv:
        typer.echo(to_raw_csv(profiles, metrics) if raw else to_csv(profiles, sections, metrics), nl=False)
    else:
        for each in profiles:
            typer.echo(render_metrics(each, metrics) if raw or metrics else render(each, sections))


def _save(launch: PreparedLaunch, path: Path) -> None:
    import numpy as np

    arrays: Any = launch.outputs()
    np.savez_compressed(path, **arrays)
    typer.echo(f"outputs written to {path}", err=True)


def _beside_hardware(launch: PreparedLaunch, profile: LaunchProfile) -> None:
    """For a recorded bundle run on the device it was recorded on: the prediction beside Nsight Compute's measurement."""
    recorded = launch.bundle.metrics
    if not recorded or launch.bundle.device != launch.device.name:
        return
    names = [name for name in _BESIDE if name in recorded and name in profile.metrics]
    if not names:
        return
    typer.echo(f"    Beside the hardware ({launch.bundle.provenance.get('gpu', launch.device.name)}, Nsight Compute):")
    typer.echo(f"    {'Metric':52} {'tcsim':>14} {'hardware':>14} {'error':>8}")
    for name in names:
        predicted, measured = float(profile.metrics[name]), float(recorded[name].value)
        error = f"{100 * (predicted / measured - 1):+.1f} %" if measured else ("0.0 %" if predicted == 0 else "-")
        typer.echo(f"    {name:52} {predicted:14,.0f} {measured:14,.0f} {error:>8}")


_BESIDE = (
    "sm__cycles_elapsed.max",
    "sm__cycles_active.avg",
    "gpu__time_duration.sum",
    "smsp__inst_executed.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "dram__bytes_read.sum",
)


def add_to(app: typer.Typer, ordered: Any) -> None:
    """Register the command; ``ordered`` keeps the order of ``--arg``, ``--out`` and ``--inout``."""
    app.command(cls=ordered)(profile)
