"""``tcsim check``: what is wrong with a kernel, or with every launch of a Python script."""

from __future__ import annotations

import json as json_module
from typing import Annotated, Any

import typer

from tcsim.checking import Checker, CheckReport
from tcsim.cli.launches import prepare
from tcsim.cli.options import Args, Block, Cluster, DeviceName, Grid, InOuts, Kernel, Outs, Shared, launch_options
from tcsim.cli.scripts import is_script, run_script
from tcsim.device import Device

__all__ = ["add_to"]

_TARGET = typer.Argument(
    help="a bundle folder, a .ptx or .cu file (needs NVRTC), or a Python script with its arguments after --", show_default=False
)


def check(
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
    seed: Annotated[
        int | None, typer.Option("--seed", help="run CTAs and warps in a random order made from this number")
    ] = None,
    numerics: Annotated[
        bool, typer.Option("--numerics/--no-numerics", help="watch accumulators of matrix instructions: overflow, cancellation")
    ] = True,
    fragments: Annotated[
        bool, typer.Option("--fragments", help="follow elements from memory to mma: registers exchanged or used twice")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Run a kernel and say what is wrong with it: races, barriers, copies waited for too late, memory out of bounds or never
    written, bad masks, overflowing accumulators. Exit code 1 if there is anything.
    """
    with Checker(seed=seed, numerics=numerics, fragments=fragments) as checker:
        if is_script(targets[0]):
            with Device(device or "h200"):
                run_script(targets[0], targets[1:])
        else:
            options = launch_options(ctx, kernel, grid, block, cluster, shared, device)
            for target in targets:
                prepare(target, options).run()
    _print(checker.report, json)
    if not checker.report.ok:
        raise typer.Exit(1)


def _print(report: CheckReport, json: bool) -> None:
    typer.echo(json_module.dumps(report.data(), indent=1) if json else report.text())


def add_to(app: typer.Typer, ordered: Any) -> None:
    """Register the command; ``ordered`` keeps the order of ``--arg``, ``--out`` and ``--inout``."""
    app.command(cls=ordered)(check)
