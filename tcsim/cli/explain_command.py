"""``tcsim explain``: one output element of a tensor-core instruction, step by step."""

from __future__ import annotations

from typing import Annotated

import typer

from tcsim.errors import TcsimError

__all__ = ["explain"]

Numbers = Annotated[str, typer.Option(help="K numbers with commas between: 1,0.5,-2e3; 0x3c00 is bits", show_default=False)]


def explain(
    form: Annotated[str, typer.Argument(help="an instruction, such as mma.m16n8k16.f32.f16.f16.f32", show_default=False)],
    a: Numbers,
    b: Numbers,
    c: Annotated[str, typer.Option(help="the accumulator: a number, or bits such as 0x3f800000")] = "0",
    scale_a: Annotated[str, typer.Option(help="of a form with .block_scale: the scales of A's row, one a block")] = "",
    scale_b: Annotated[str, typer.Option(help="those of B's column")] = "",
    device: Annotated[str, typer.Option("--device", "-d", help="GPU: h200, a100, sm_89, ...")] = "h200",
    json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Show how one output element comes about: products, alignment, what is cut off, sums, roundings.

    Beside it the exact sum, and what IEEE fused multiply-adds make of it. Numbers are rounded to the operand's type.
    """
    import tcsim

    scales = {name: _split(text, name) if text else None for name, text in (("scale_a", scale_a), ("scale_b", scale_b))}
    explanation = tcsim.explain(form, _split(a, "--a"), _split(b, "--b"), c, device=device, **scales)
    typer.echo(explanation.to_json() if json else str(explanation))


def _split(text: str, option: str) -> list[str]:
    numbers = text.replace(",", " ").split()
    if not numbers:
        raise TcsimError(f"{option} has no numbers; give K of them, with commas between")
    return numbers
