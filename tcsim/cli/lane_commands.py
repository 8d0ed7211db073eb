"""``tcsim layout`` and ``tcsim banks``: what the lanes of a warp hold, and what they touch."""

from __future__ import annotations

import json as json_module
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from tcsim.cli.launches import prepare
from tcsim.cli.options import Args, Block, DeviceName, Grid, InOuts, Kernel, Outs, Shared, launch_options
from tcsim.errors import TcsimError

__all__ = ["add_to"]


def add_to(app: typer.Typer, ordered: type[TyperCommand]) -> None:
    """Register both commands. ``ordered``: the command class that keeps the order of a kernel's arguments."""
    app.command()(layout)
    app.command(cls=ordered)(banks)


def _numbers(text: str, option: str, most: int) -> list[int]:
    try:
        numbers = [int(piece) for piece in text.split(",")]
    except ValueError:
        numbers = []
    if not 2 <= len(numbers) <= most:
        raise TcsimError(f"{option} {text!r}: row,column such as 3,5{' (or matrix,row,column)' if most == 3 else ''}")
    return numbers


_SUFFIXES = {
    ".csv": "csv", ".md": "markdown", ".svg": "svg", ".png": "png", ".html": "html", ".htm": "html", ".json": "json",
    ".txt": "text",
}  # fmt: skip


def _format(given: str, json: bool, to: Path | None, known: Sequence[str]) -> str:
    """The format asked for, or the one that the file's name says."""
    chosen = given or ("json" if json else _SUFFIXES.get(to.suffix.lower(), "") if to is not None else "") or "text"
    if chosen not in known:
        raise TcsimError(f"no format {chosen!r} here; there are {', '.join(known)}")
    if json and chosen != "json":
        raise TcsimError(f"--json or --format {chosen}, not both")
    return chosen


def _deliver(text: str, to: Path | None, *, is_png: bool = False) -> None:
    """Print, or write to a file. is_png: the text is SVG, and its picture is wanted."""
    from tcsim.report.png import to_png

    if to is None:
        typer.echo(to_png(text) if is_png else text, nl=not (is_png or text.endswith("\n")))
        return
    try:
        to.write_bytes(to_png(text) if is_png else (text if text.endswith("\n") else text + "\n").encode())
    except OSError as problem:
        raise TcsimError(f"cannot write {to}: {problem.strerror}") from None
    typer.echo(f"written to {to}")


Format = Annotated[str, typer.Option("--format", "-f", help="text, csv, markdown, svg, png, html or json", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="print JSON (versioned schema)")]
To = Annotated[Path | None, typer.Option("--to", help="write to this file; its name chooses the format if none is given")]


# -------------------------------------------------------------------------------------------------------------- layout


def layout(
    form: Annotated[str, typer.Argument(help="mma.m16n8k16.f16, ldmatrix.x4.trans, ... or the full PTX opcode")] = "",
    operand: Annotated[str, typer.Option("--operand", "-o", help="only a, b, c, d or metadata")] = "",
    element: Annotated[str, typer.Option("--element", "-e", help="where this element is: row,column")] = "",
    lane: Annotated[int | None, typer.Option("--lane", "-l", help="what this lane holds")] = None,
    register: Annotated[int | None, typer.Option("--register", "-r", help="with --lane: what this register holds")] = None,
    output: Annotated[str, typer.Option("--output", help="the operands that feed this element of d: row,column")] = "",
    selector: Annotated[int, typer.Option("--selector", help="the sparsity selector of mma.sp")] = 0,
    each: Annotated[bool, typer.Option("--each", help="one cell for every element, also where several share one")] = False,
    verify: Annotated[bool, typer.Option("--verify", help="check every table of every form")] = False,
    descriptor: Annotated[str, typer.Option("--descriptor", help="of wgmma: what this matrix descriptor makes it read")] = "",
    swizzle: Annotated[int | None, typer.Option("--swizzle", help="the same, tightly packed: 0, 32, 64 or 128 bytes")] = None,
    transposed: Annotated[bool, typer.Option("--transposed", help="the same, MN-major (imm-trans 1)")] = False,
    format: Format = "",
    json: Json = False,
    to: To = None,
) -> None:
    """Which lane, register and bits hold each element of a matrix instruction, and the other way round.

    Of wgmma, --swizzle or --descriptor shows where in shared memory operand b (or -o a) is.
    """
    from tcsim.lanes import layout_text as text
    from tcsim.lanes.layout_picture import layout_html, layout_svg
    from tcsim.lanes.layouts import layout as find_layout

    if verify:
        _verify()
        return
    if not form:
        raise TcsimError("name an instruction, such as mma.m16n8k16.f16 or ldmatrix.x4; 'tcsim isa list mma' shows all")
    if descriptor or swizzle is not None or transposed:
        chosen = _format(format, json, to, ("text", "csv", "json"))
        _deliver(_in_shared_memory(form, operand.lower() or "b", descriptor, swizzle or 0, transposed, chosen), to)
        return
    chosen = _format(format, json, to, ("text", "csv", "markdown", "svg", "png", "html", "json"))
    found = find_layout(form, selector=selector)
    operands = [operand.lower()] if operand else []
    for name in operands:
        found[name]
    if output and (element or lane is not None or operand):
        raise TcsimError("--output shows all operands of one output; leave out --operand, --element and --lane")
    if register is not None and lane is None and not element:
        raise TcsimError("--register says which register of a lane; give --lane too")
    asked = bool(output or element or lane is not None)
    feeds = None
    if output:
        feeds = found.feeds(*_output(output))
        rows = text.feeds_rows(found, feeds)
    elif asked:
        rows = _asked(found, operands, element, lane, register)
    else:
        rows = []
    names = operands or text.shown_operands(found)
    if chosen == "csv":
        made = text.rows_csv(rows if asked else text.rows_of(found, operands or list(found.operands)))
    elif chosen == "json":
        made = text.rows_json(found, rows) if asked else text.whole_json(found, operands or list(found.operands))
    elif chosen in ("svg", "png"):
        made = layout_svg(found, operands, rows, each)
    elif chosen == "html":
        made = layout_html(found, operands, rows, each)
    elif chosen == "markdown":
        made = text.rows_markdown(rows) if asked else "\n\n".join(text.grid_markdown(found[name], each) for name in names)
    elif feeds is not None:
        made = text.feeds_text(found, feeds)
    else:
        made = f"{found.instruction.ptx}\n\n{text.rows_text(rows)}" if asked else text.whole_text(found, operands, each)
    _deliver(made, to, is_png=chosen == "png")


def _in_shared_memory(form: str, operand: str, descriptor: str, swizzle: int, transposed: bool, chosen: str) -> str:
    from tcsim.lanes.names import find_matrix_instruction
    from tcsim.lanes.shared_matrix import shared_matrix

    found = find_matrix_instruction(form).form
    if found is None:
        raise TcsimError(f"{form}: only operands of wgmma are read through matrix descriptors (PTX ISA 9.7.15.5.1.2)")
    try:
        bits = int(descriptor, 0) if descriptor else None
    except ValueError:
        raise TcsimError(f"--descriptor {descriptor}: it is a 64-bit number, such as 0x4000004000010000") from None
    if bits is not None and not 0 <= bits < 1 << 64:
        raise TcsimError(f"--descriptor {descriptor}: it has more than 64 bits, or is negative")
    matrix = shared_matrix(found, operand, descriptor=bits, swizzle=swizzle, mn_major=transposed)
    return {"text": matrix.text, "csv": matrix.csv, "json": matrix.json}[chosen]()


def _output(text: str) -> tuple[int, int, int]:
    numbers = _numbers(text, "--output", 3)
    matrix = numbers.pop(0) if len(numbers) == 3 else 0
    return numbers[0], numbers[1], matrix


def _asked(found: Any, operands: list[str], element: str, lane: int | None, register: int | None) -> list[Any]:
    """The rows of a question; without --operand, those of the operands that have what is asked for."""
    from tcsim.lanes.layout_text import rows_of
    from tcsim.lanes.layouts import LayoutError

    where = None
    if element:
        numbers = _numbers(element, "--element", 3)
        where = (numbers[-2], numbers[-1], numbers[0] if len(numbers) == 3 else None)
    rows, problems = [], []
    for name in operands or list(found.operands):
        try:
            rows += rows_of(found, [name], where, lane, register)
        except LayoutError as problem:
            problems.append(problem)
    if not rows and problems:
        raise LayoutError("; ".join(dict.fromkeys(map(str, problems))))
    if not rows:
        what = f"operand {' or '.join(operands)}" if operands else "any operand"
        asked = [f"lane {lane}"] if lane is not None else []
        asked += [f"register {register}"] if register is not None else []
        raise LayoutError(
            f"{found.name}: {', '.join(asked) or 'this place'} holds no element of {what}; leave out --lane and --register to "
            "see the whole table (of sparsity metadata, --selector says which lanes hold any)"
        )
    return rows


def _verify() -> None:
    from isa.tensor.metadata import metadata_layout
    from tcsim.lanes.layouts import layout as find_layout
    from tcsim.lanes.names import all_names

    tables = 0
    for name in all_names():
        first = find_layout(name)
        selectors = metadata_layout(first.form).selectors if first.form is not None and first.form.is_sparse else 1
        for found in (first, *(find_layout(name, selector=s) for s in range(1, selectors))):
            for one in found.operands.values():
                problems = one.problems()
                if problems:
                    raise TcsimError(f"{name}, operand {one.operand}: {'; '.join(problems[:3])}")
                tables += 1
    typer.echo(f"{len(all_names())} instructions, {tables} tables: every element has a place of its own (or copies)")


# --------------------------------------------------------------------------------------------------------------- banks


Expr = Annotated[
    list[str] | None,
    typer.Option("--expr", "-e", help="byte address over lane: '(lane%8)*80 + (lane//8)*16'; several for one buffer"),
]
Width = Annotated[
    list[int] | None,
    typer.Option("--width", "-w", help="bytes a lane: 1 to 16 (default 4); one for all or one per --expr"),
]


def banks(
    ctx: typer.Context,
    target: Annotated[str, typer.Argument(help="a bundle folder, a .ptx or a .cu file, whose launch is executed")] = "",
    expr: Expr = None,
    width: Width = None,
    rows: Annotated[int | None, typer.Option("--rows", help="ldmatrix: 8, 16 or 32 lanes give rows of 16 bytes")] = None,
    let: Annotated[list[str] | None, typer.Option("--let", help="a name in expressions: stride=80, row='lane % 8'")] = None,
    warp: Annotated[int, typer.Option("--warp", help="value of warp in the expressions")] = 0,
    line: Annotated[list[str] | None, typer.Option("--line", help="an access: ptx:118 or transpose.cu:21")] = None,
    kernel: Kernel = "",
    grid: Grid = "",
    block: Block = "",
    shared: Shared = 0,
    arg: Args = None,
    out: Outs = None,
    inout: InOuts = None,
    device: DeviceName = "",
    format: Annotated[str, typer.Option("--format", "-f", help="text, svg, png, html or json", show_default=False)] = "",
    json: Json = False,
    to: To = None,
) -> None:
    """Shared-memory bank conflicts of an address expression or of a kernel's accesses, and what would remove them.

    Wavefronts are counted as the timing model and Nsight Compute count them: those above the ideal are conflicts.
    """
    from tcsim.lanes import bank_report

    chosen = _format(format, json, to, ("text", "svg", "png", "html", "json"))
    if bool(expr) == bool(target):
        raise TcsimError("give either --expr with an address, or a kernel to execute; for example --expr 'lane * 128'")
    if expr:
        if line:
            raise TcsimError("--line is an access of a kernel; leave it out with --expr")
        report: bank_report.Report = bank_report.of_expressions(expr, width or [], rows, warp, _lets(let or []))
    else:
        if width or rows or let or warp:
            raise TcsimError("--width, --rows, --let and --warp belong to --expr; a kernel's accesses have their own")
        options = launch_options(ctx, kernel, grid, block, "", shared, device)
        report = bank_report.of_launch(prepare(target, options), line or [])
    if chosen == "json":
        made = json_module.dumps(report.data(), indent=1) + "\n"
    else:
        made = {"text": report.text, "svg": report.svg, "png": report.svg, "html": report.html}[chosen]()
    _deliver(made, to, is_png=chosen == "png")


def _lets(texts: Sequence[str]) -> dict[str, str]:
    lets = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not value.strip():
            raise TcsimError(f"--let {text!r}: a name and a value, such as stride=80")
        lets[name.strip()] = value.strip()
    return lets
