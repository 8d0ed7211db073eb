"""The options that all commands have that launch a kernel."""

from __future__ import annotations

from typing import Annotated

import typer

from tcsim.cli.launches import LaunchOptions

__all__ = [
    "Args", "Block", "Cluster", "DeviceName", "Fmad", "Grid", "InOuts", "Kernel", "Outs", "Shared", "launch_options",
]  # fmt: skip

Kernel = Annotated[str, typer.Option("--kernel", "-k", help="entry function (needed if the file has several)")]
Grid = Annotated[str, typer.Option("--grid", "-g", help="CTAs: x[,y[,z]]")]
Block = Annotated[str, typer.Option("--block", "-b", help="threads per CTA: x[,y[,z]]")]
Cluster = Annotated[str, typer.Option("--cluster", help="CTAs of a cluster: x[,y[,z]]")]
Shared = Annotated[int, typer.Option("--shared", help="dynamic shared memory in bytes")]
DeviceName = Annotated[str, typer.Option("--device", "-d", help="GPU to simulate: h200, ... (tcsim arch list), or a FILE.toml")]
Args = Annotated[
    list[str] | None,
    typer.Option("--arg", "-a", help="an input: f16[1024,1024]:normal, i32:1024, f32:0.5, u8[64]:file(data.bin)"),
]
Outs = Annotated[list[str] | None, typer.Option("--out", "-o", help="an output array: f32[1024,1024]")]
InOuts = Annotated[list[str] | None, typer.Option("--inout", help="an array that the kernel reads and writes")]
Fmad = Annotated[bool, typer.Option("--fmad/--no-fmad", help="contract multiplies and adds as ptxas does")]


def launch_options(
    ctx: typer.Context,
    kernel: str,
    grid: str,
    block: str,
    cluster: str,
    shared: int,
    device: str,
    fmad: bool = True,
    *,
    machine: bool = False,
) -> LaunchOptions:
    """What a command was told of its launch, the arguments in the order in which they were typed."""
    arguments = ctx.meta.get("arguments", ())
    return LaunchOptions(kernel, grid, block, shared, device, fmad, arguments, machine=machine, cluster=cluster)
