"""``tcsim isa list`` and ``tcsim isa show``: generated from the instruction registry."""

from __future__ import annotations

from typing import Annotated

import typer

from isa import instructions as _instructions  # noqa: F401  (fills the registry)
from isa.spec.registry import Instruction, all_instructions, by_base, find
from tcsim.errors import TcsimError

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True)


@app.command("list")
def list_(
    text: Annotated[str, typer.Argument(help="only instructions whose form contains this")] = "",
) -> None:
    """Every instruction form that tcsim executes: {..} may be left out, <..> is a choice."""
    shown = 0
    for entry in sorted(all_instructions(), key=lambda e: (e.section_key, e.pattern.base)):
        spelling = entry.pattern.spell()
        if text in spelling:
            typer.echo(f"{entry.section:14} sm_{entry.sm:<4} {spelling}")
            shown += 1
    if not shown:
        raise TcsimError(f"no instruction form contains {text!r}; 'tcsim isa list' shows all")


@app.command()
def show(opcode: Annotated[str, typer.Argument(help="a base opcode (mma) or a full one (add.rn.ftz.f32)")]) -> None:
    """What an instruction does, and its forms."""
    base = opcode.partition(".")[0]
    entries = by_base(base)
    if not entries:
        raise TcsimError(f"unknown instruction {base!r}; 'tcsim isa list' shows all")
    if "." in opcode:
        forms, reason = find(opcode)
        if not forms:
            raise TcsimError(f"{opcode}: {reason}")
        entries = [form.instruction for form in forms]
    for entry in entries:
        _show(entry)


def _show(entry: Instruction) -> None:
    typer.echo(entry.pattern.spell())
    operands = ", ".join(
        f"[{o.name}]" if o.is_address else o.name + ("?" if o.is_optional else "") for o in entry.pattern.operands
    )
    typer.echo(f"  operands: {operands or 'none'}")
    typer.echo(f"  PTX ISA {entry.section}, PTX {entry.ptx}, sm_{entry.sm} and later")
    for line in entry.note.splitlines():
        typer.echo(f"  {line}")
    typer.echo("")
