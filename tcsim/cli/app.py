"""The command line: ``tcsim run | profile | compare | check | step | verify | record``, and ``explain | eval | layout | banks |
isa | arch | sass``.

Exit codes: 0 well, 1 a mismatch with recorded hardware outputs or a hazard found, 2 a user's error (told in one message on
standard error).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from tcsim.cli import (
    arch_commands,
    check_command,
    compare_command,
    eval_command,
    explain_command,
    isa_commands,
    lane_commands,
    profile_command,
    sass_commands,
    step_command,
)
from tcsim.cli.launches import LaunchOptions, PreparedLaunch, outputs_summary, prepare, target_bundle
from tcsim.cli.options import (
    Args,
    Block,
    Cluster,
    DeviceName,
    Fmad,
    Grid,
    InOuts,
    Kernel,
    Outs,
    Shared,
    launch_options,
)
from tcsim.cli.outputs import check_outputs
from tcsim.errors import TcsimError
from tcsim.numerics.badge import badge

__all__ = ["app", "main"]

app = typer.Typer(
    name="tcsim",
    help="Run NVIDIA GPU kernels without a GPU: bit for bit, with cycles and a profile.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(isa_commands.app, name="isa", help="The instructions that tcsim executes.")
app.command()(explain_command.explain)
app.command("eval", context_settings={"ignore_unknown_options": True})(eval_command.eval_)
app.add_typer(arch_commands.app, name="arch", help="The GPUs that tcsim knows.")
app.command()(sass_commands.sass)

_ROLES = {"--arg": "arg", "-a": "arg", "--out": "out", "-o": "out", "--inout": "inout"}


class _OrderedCommand(TyperCommand):
    """Keeps the order in which ``--arg``, ``--out`` and ``--inout`` were typed: it is the kernel's parameter order."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ordered: list[tuple[str, str]] = []
        for index, word in enumerate(args):
            name, equals, value = word.partition("=")
            if name in _ROLES and (equals or index + 1 < len(args)):
                ordered.append((_ROLES[name], value if equals else args[index + 1]))
        ctx.meta["arguments"] = tuple(ordered)
        return super().parse_args(ctx, args)


Target = Annotated[str, typer.Argument(help="a bundle folder, a .ptx file, or a .cu file (needs NVRTC)", show_default=False)]
Machine = Annotated[bool, typer.Option("--machine", help="run the machine code that an installed ptxas makes of the PTX")]
Save = Annotated[Path | None, typer.Option("--save", help="write the outputs to this .npz file")]


def _save(launch: PreparedLaunch, outputs: Any, path: Path) -> None:
    import numpy as np

    np.savez_compressed(path, **outputs)
    typer.echo(f"outputs written to {path}")


@app.command(cls=_OrderedCommand)
def run(
    ctx: typer.Context,
    target: Target,
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
    machine: Machine = False,
    save: Save = None,
) -> None:
    """Run a kernel and show its outputs. A bundle needs nothing else; a file takes its launch from the options.

    Arguments are given in the kernel's parameter order, inputs and outputs mixed as they come.
    """
    check_outputs({"--save": save})
    options = launch_options(ctx, kernel, grid, block, cluster, shared, device, fmad, machine=machine)
    launch = prepare(target, options)
    launch.run()
    outputs = launch.outputs()
    typer.echo(f"{launch.function.name} on {launch.device.name}: done")
    for line in outputs_summary(launch, outputs):
        typer.echo(f"  {line}")
    if not launch.function.module.is_machine_code:
        for line in badge(launch.function.module.tree, launch.function.name, launch.device.arch.sm):
            typer.echo(f"  {line}")
    if save is not None:
        _save(launch, outputs, save)


@app.command()
def verify(
    bundles: Annotated[list[str], typer.Argument(help="bundle folders, or folders of them")],
    device: DeviceName = "",
    machine: Annotated[bool, typer.Option("--machine", help="also run the machine code, and compare all three")] = False,
) -> None:
    """Run recorded bundles and compare every output byte with the hardware's. Exit code 1 on a mismatch."""
    equal = True
    for target in _bundles_of(bundles):
        for as_machine in (False, True) if machine else (False,):
            equal = _verify(target, LaunchOptions(device=device, machine=as_machine)) and equal
    if not equal:
        raise typer.Exit(1)


def _bundles_of(targets: list[str]) -> Iterator[str]:
    """The bundles that targets are or hold. Among several, as ``traces/*/`` gives, a folder without any is passed over."""
    for target in targets:
        folder = Path(target)
        inside = sorted(str(path.parent) for path in folder.glob("*/bundle.json")) if folder.is_dir() else []
        if inside:
            yield from inside
        elif len(targets) > 1 and folder.is_dir() and not (folder / "bundle.json").exists():
            typer.echo(f"{target}: no bundle here, passed over", err=True)
        else:
            yield target


def _verify(target: str, options: LaunchOptions) -> bool:
    launch = prepare(target, options)
    launch.run()
    name = f"{launch.bundle.name} (machine code)" if options.machine else launch.bundle.name
    with launch.device:
        ran_as_machine_code = launch.function.program.image is not None
    if options.machine and not ran_as_machine_code:
        typer.echo(f"{name}: not run, since not all of it can be executed; it ran as PTX", err=True)
        return False
    comparisons = launch.bundle.compare(launch.outputs())
    for comparison in comparisons:
        typer.echo(f"{name}: {comparison}")
    recorded = launch.bundle.metrics.get("smsp__inst_executed.sum")
    if options.machine and recorded is not None:
        count, hardware = launch.function.instructions, int(recorded.value)
        typer.echo(f"{name}: {count:,} instructions, hardware {hardware:,} ({100 * (count / hardware - 1):+.3f} %)")
    return all(comparison.equal for comparison in comparisons)


@app.command(cls=_OrderedCommand)
def record(
    ctx: typer.Context,
    target: Annotated[str, typer.Argument(help="a suite (.toml), a bundle to record again, a .ptx or a .cu file")],
    to: Annotated[Path, typer.Option("--to", help="folder that gets a bundle folder per launch")] = Path("traces"),
    kernel: Kernel = "",
    grid: Grid = "",
    block: Block = "",
    cluster: Cluster = "",
    shared: Shared = 0,
    arg: Args = None,
    out: Outs = None,
    inout: InOuts = None,
    fmad: Fmad = True,
    only: Annotated[list[str] | None, typer.Option("--only", help="launches of a suite to record (default: all)")] = None,
    metrics: Annotated[bool, typer.Option("--metrics/--no-metrics", help="also collect Nsight Compute metrics")] = True,
) -> None:
    """Launch on a real GPU through CuPy and save a bundle: outputs, Nsight Compute metrics, provenance."""
    import gpu_ref

    if target.endswith(".toml"):
        failures = gpu_ref.record_suite(target, to, only or [], metrics)
        for failure in failures:
            typer.echo(f"FAILED {failure}", err=True)
        if failures:
            raise typer.Exit(1)
        return
    bundle = target_bundle(target, launch_options(ctx, kernel, grid, block, cluster, shared, "", fmad))
    recorded = gpu_ref.record(bundle, to, metrics)
    typer.echo(f"recorded {recorded.folder}")


lane_commands.add_to(app, _OrderedCommand)
check_command.add_to(app, _OrderedCommand)
profile_command.add_to(app, _OrderedCommand)
compare_command.add_to(app)
step_command.add_to(app, _OrderedCommand)


def main(arguments: Iterable[str] | None = None) -> int:
    """Entry point: run a command and return its exit code."""
    try:
        app(args=list(arguments) if arguments is not None else None)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except TcsimError as problem:
        print(f"tcsim: {problem}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of a pipe has gone, as `| head` does
        sys.stdout = None
        return 0
    return 0
