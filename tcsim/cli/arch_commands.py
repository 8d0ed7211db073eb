"""``tcsim arch list`` and ``tcsim arch show``."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import typer

from tcsim.arch import arch_names, find_arch

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True)


@app.command("list")
def list_() -> None:
    """The GPUs that can be simulated, with what they are also called."""
    typer.echo(f"{'name':10} {'sm':>4} {'SMs':>5} {'timing':>7}  product (also called)")
    for name in arch_names():
        arch = find_arch(name)
        also = f" ({', '.join(arch.aliases)})" if arch.aliases else ""
        timed = "yes" if getattr(arch, "timing", None) is not None else "no"
        typer.echo(f"{name:10} {arch.sm:>4} {arch.limits.sms:>5} {timed:>7}  {arch.full_name}{also}")


@app.command()
def show(name: Annotated[str, typer.Argument(help="a GPU, such as h200 or sm_90")]) -> None:
    """Every number that tcsim has about a GPU, and where it comes from."""
    arch = find_arch(name)
    _print(msgspec.to_builtins(arch), "")


def _print(table: dict[str, Any], path: str) -> None:
    plain = {key: value for key, value in table.items() if not isinstance(value, dict) and value is not None}
    if path:
        typer.echo(f"\n[{path}]")
    for key, value in plain.items():
        if key != "source":
            typer.echo(f"{key} = {value}")
    if "source" in plain:
        typer.echo(f"  source: {plain['source']}")
    for key, value in table.items():
        if isinstance(value, dict):
            _print(value, f"{path}.{key}" if path else key)
