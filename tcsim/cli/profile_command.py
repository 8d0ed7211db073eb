"""``tcsim profile``: a kernel's predicted time, in Nsight Compute's words and with its options."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from tcsim.cli.launches import LaunchOptions, PreparedLaunch, prepare
from tcsim.cli.scripts import is_script, run_script
from tcsim.device import Device
from tcsim.errors import TcsimError
from tcsim.profile import LaunchProfile
from tcsim.profiler import Profiler

__all__ = ["add_to"]

_TARGET = typer.Argument(
    help="a bundle folder, a .ptx or .cu file (needs NVRTC), or a Python script with its arguments after --", show_default=False
)


def profile(
    ctx: typer.Context,
    targets: Annotated[list[str], _TARGET],
    kernel: Annotated[str, typer.Option("--kernel", "-k", help="entry function (needed if the file has several)")] = "",
    grid: Annotated[str, typer.Option("--grid", "-g", help="CTAs: x[,y[,z]]")] = "",
    block: Annotated[str, typer.Option("--block", "-b", help="threads per CTA: x[,y[,z]]")] = "",
    cluster: Annotated[str, typer.Option("--cluster", help="CTAs of a cluster: x[,y[,z]]")] = "",
    shared: Annotated[int, typer.Option("--shared", help="dynamic shared memory in bytes")] = 0,
    arg: Annotated[list[str] | None, typer.Option("--arg", "-a", help="an input, as for run")] = None,
    out: Annotated[list[str] | None, typer.Option("--out", "-o", help="an output array")] = None,
    inout: Annotated[list[str] | None, typer.Option("--inout", help="an array that the kernel reads and writes")] = None,
    device: Annotated[str, typer.Option("--device", "-d", help="GPU to simulate: h200, a100, ...")] = "",
    fmad: Annotated[bool, typer.Option("--fmad/--no-fmad", help="contract multiplies and adds as ptxas does")] = True,
    save: Annotated[Path | None, typer.Option("--save", help="write the outputs to this .npz file")] = None,
    json: Annotated[bool, typer.Option("--json", help="print JSON (versioned schema)")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="print CSV as ncu --csv does")] = False,
    page: Annotated[str, typer.Option("--page", help="details (sections) or raw (every metric)")] = "details",
    section: Annotated[list[str] | None, typer.Option("--section", help="only this section, such as SpeedOfLight")] = None,
    metrics: Annotated[
        list[str] | None, typer.Option("--metrics", help="only these metrics, separated by commas; implies --page raw")
    ] = None,
    kernel_name: Annotated[
        str, typer.Option("--kernel-name", help="only launches of this kernel; regex:EXPRESSION matches part of a name")
    ] = "",
    launch_skip: Annotated[int, typer.Option("--launch-skip", min=0, help="launches to pass over first")] = 0,
    launch_count: Annotated[int | None, typer.Option("--launch-count", min=1, help="launches to show then")] = None,
) -> None:
    """Run a kernel, or all kernels of a script, with the time predicted, and print the report in Nsight Compute's sections."""
    sections, names = _sections(section or []), [name for each in metrics or [] for name in each.split(",") if name]
    if page not in ("details", "raw"):
        raise TcsimError(f"--page {page!r}: details or raw")
    launch = None
    with Profiler() as profiler:
        if is_script(targets[0]):
            with Device(device or "h200"):
                run_script(targets[0], targets[1:])
        elif len(targets) == 1:
            options = LaunchOptions(kernel, grid, block, shared, device, fmad, ctx.meta.get("arguments", ()), cluster=cluster)
            launch = prepare(targets[0], options)
            launch.run()
        else:
            raise TcsimError("one bundle or file at a time")
    chosen = _chosen(profiler.launches, kernel_name, launch_skip, launch_count)
    _print(chosen, json=json, csv=csv, raw=page == "raw" or bool(names), sections=sections, metrics=names)
    if launch is not None:
        if chosen and not (json or csv or names or page == "raw"):
            _beside_hardware(launch, chosen[-1])
        if save is not None:
            _save(launch, save)


def _sections(wanted: Sequence[str]) -> list[str]:
    from tcsim.report.sections import SECTIONS

    known = [s.identifier for s in SECTIONS] + ["Account", "SourceCounters"]
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
        typer.echo(to_raw_csv(profiles, metrics) if raw else to_csv(profiles, sections), nl=False)
    else:
        for each in profiles:
            typer.echo(render_metrics(each, metrics) if raw else render(each, sections))


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
