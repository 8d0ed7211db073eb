"""``tcsim eval``: what a scalar instruction returns for given operands."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["eval_"]


def eval_(
    opcode: Annotated[str, typer.Argument(help="a scalar instruction, such as fma.rn.ftz.f32", show_default=False)],
    operands: Annotated[
        list[str], typer.Argument(help="numbers, or bits such as 0x7f800001; of packed types 1,2", show_default=False)
    ],
    carry: Annotated[bool, typer.Option("--carry", help="CC.CF is set, for addc and the like")] = False,
    device: Annotated[str, typer.Option("--device", "-d", help="GPU: h200, a100, sm_89, ...")] = "h200",
    json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Show what a scalar instruction returns, to the bit, and how that is known. (Matrix instructions: tcsim explain.)"""
    import tcsim

    given = [text.split(",") if "," in text else text for text in operands]
    found = tcsim.evaluate(opcode, *given, carry=carry, device=device)
    typer.echo(found.to_json() if json else str(found))
