"""``tcsim step``: one warp through a kernel, an instruction at a time."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from isa.program import Program
from tcsim.cli.launches import PreparedLaunch, prepare
from tcsim.cli.options import Args, Block, Cluster, DeviceName, Grid, InOuts, Kernel, Outs, Shared, launch_options
from tcsim.code_source import code_source
from tcsim.errors import TcsimError
from tcsim.step.cursor import Cursor, step_text
from tcsim.step.recording import Recorder, Recording
from tcsim.step.registers import Names, machine_names, register_names

__all__ = ["add_to"]


def step(
    ctx: typer.Context,
    target: Annotated[str, typer.Argument(help="a bundle folder, a .ptx or a .cu file (needs NVRTC)", show_default=False)],
    kernel: Kernel = "",
    grid: Grid = "",
    block: Block = "",
    cluster: Cluster = "",
    shared: Shared = 0,
    arg: Args = None,
    out: Outs = None,
    inout: InOuts = None,
    device: DeviceName = "",
    cta: Annotated[int, typer.Option("--cta", help="the CTA, by its number in launch order")] = 0,
    warp: Annotated[int, typer.Option("--warp", help="its warp")] = 0,
    most: Annotated[int, typer.Option("--most", min=1, help="steps to record")] = 20_000,
    machine: Annotated[
        bool, typer.Option("--machine", help="step through the machine code that ptxas makes (or that a bundle holds)")
    ] = False,
    breakpoint_: Annotated[
        list[str] | None, typer.Option("--break", help="stop at a line of what is shown, ptx:LINE or FILE.cu:LINE")
    ] = None,
    watch: Annotated[
        list[str] | None, typer.Option("--watch", help="stop where this register changes, such as %r3 or R3")
    ] = None,
    text: Annotated[int, typer.Option("--print", min=0, help="no viewer: print this many steps from the first stop on")] = 0,
    lanes: Annotated[int, typer.Option("--lanes", min=1, max=32, help="lanes to print")] = 8,
    tiles: Annotated[bool, typer.Option("--tiles", help="print matrices, too")] = False,
) -> None:
    """Step a warp through a kernel in the terminal: registers, predicates, active lanes, memory touched, matrices as tiles;
    forward, back, to breakpoints, to where a register changes. The CTA runs alone."""
    options = launch_options(ctx, kernel, grid, block, cluster, shared, device, machine=machine)
    launch = prepare(target, options)
    with launch.device:
        program = launch.function.program
    if machine and program.image is None:
        raise TcsimError(f"--machine: some of the machine code of {launch.function.name} cannot be executed; it runs as PTX")
    with Recorder(lambda: _names(launch, program), cta=cta, warp=warp, most=most) as recorder:
        launch.run()
    recording = recorder.recording
    assert recording is not None
    cursor = Cursor(recording, by_instruction=program.image is not None)
    for each in breakpoint_ or ():
        cursor.stop_at(each)
    for each in watch or ():
        cursor.watch(each)
    source = _instructions(launch, program) if cursor.by_instruction else launch.function.module.ptx.splitlines()
    if text:
        _print(cursor, source, text, lanes, stops=bool(breakpoint_ or watch), tiles=tiles)
    else:
        _view(cursor, source)


def _names(launch: PreparedLaunch, program: Program) -> Names:
    module, name = launch.function.module, launch.function.name
    if program.image is None:
        return register_names(module.tree, name, fmad=bool(module.fmad))
    code = module.machine_code(program.target_sm)
    assert code is not None
    return machine_names(code.source(name), program)


def _instructions(launch: PreparedLaunch, program: Program) -> list[str]:
    """The machine code, an instruction a line."""
    text = code_source(launch.function.module, launch.function.name, program).text
    return [f"/*{16 * pc:04x}*/ {each}" for pc, each in enumerate(text)]


def _print(cursor: Cursor, source: list[str], count: int, lanes: int, *, stops: bool, tiles: bool) -> None:
    recording: Recording = cursor.recording
    if stops:
        typer.echo(cursor.run())
    typer.echo(f"{recording.program.name}  CTA {recording.cta} warp {recording.warp}: {len(recording.steps):,} steps")
    for _ in range(count):
        typer.echo(step_text(cursor, source, lanes, matrices=tiles))
        if cursor.step is None:
            return
        cursor.move(1)


def _view(cursor: Cursor, source: list[str]) -> None:
    try:
        from tcsim.step.app import StepApp
    except ImportError:
        raise TcsimError("the viewer needs textual: pip install 'tcsim[step]'; or print steps with --print 20") from None
    StepApp(cursor, source).run()


def add_to(app: typer.Typer, ordered: Any) -> None:
    """Register the command; ``ordered`` keeps the order of ``--arg``, ``--out`` and ``--inout``."""
    app.command(cls=ordered)(step)
