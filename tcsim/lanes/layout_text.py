"""Layouts as text: the aligned grid of the PTX ISA's figures, tables of places, CSV, Markdown, JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tcsim.lanes.layouts import Element, Feeds, Layout, OperandLayout, Place
from tcsim.lanes.words import span

__all__ = [
    "Cell", "Row", "feeds_rows", "feeds_text", "grid", "grid_markdown", "grid_text", "rows_csv", "rows_json", "rows_markdown",
    "rows_of", "rows_text", "whole_json", "whole_text",
]  # fmt: skip

SCHEMA = 1
_LETTERS = {"metadata": "e"}
_MOST_SINGLE = 2
"""Elements of a register that a grid shows one by one; more share a cell."""


class Cell(NamedTuple):
    """Neighbouring elements of one register: ``rows`` x ``columns`` of them from (row, column) on."""

    matrix: int
    row: int
    column: int
    rows: int
    columns: int
    lane: int
    register: int
    label: str


class Row(NamedTuple):
    """One line of a table: an element of an operand and its place."""

    operand: str
    matrix: int
    row: int
    column: int
    lane: int
    register: int
    bits: str
    name: str


def element_name(operand: str, place: Place) -> str:
    """``a3``, as in the figures of the PTX ISA: the fourth element that a lane holds."""
    return f"{_LETTERS.get(operand, operand)}{place.number}"


# ---------------------------------------------------------------------------------------------------------------- grids


def _run(operand: OperandLayout, along_columns: bool) -> int:
    """How many neighbours always share a register, in order."""
    length = 1
    while length * 2 <= operand.per_register and _together(operand, length * 2, along_columns):
        length *= 2
    return length


def _together(operand: OperandLayout, length: int, along_columns: bool) -> bool:
    lane, register, bit = operand.lane, operand.register, operand.bit
    if not along_columns:
        lane, register, bit = (x.swapaxes(-1, -2) for x in (lane, register, bit))
    if lane.shape[-1] % length:
        return False
    lane, register, bit = (x.reshape(*x.shape[:-1], -1, length) for x in (lane, register, bit))
    steps = bit - bit[..., :1] == [operand.bits * i for i in range(length)]
    return bool((lane == lane[..., :1]).all() and (register == register[..., :1]).all() and steps.all())


def grid(operand: OperandLayout, each: bool = False) -> list[list[list[Cell]]]:
    """Cells by matrix, row and column of the grid. ``each``: one for every element, else more than two that share a register
    share a cell."""
    along = _run(operand, True), _run(operand, False)
    columns = along[0] if along[0] > _MOST_SINGLE and not each else 1
    rows = along[1] if along[1] > _MOST_SINGLE and not each and columns == 1 else 1
    down, across = range(0, operand.rows, rows), range(0, operand.columns, columns)
    return [[[_cell(operand, m, r, c, rows, columns) for c in across] for r in down] for m in range(operand.matrices)]


def _cell(operand: OperandLayout, matrix: int, row: int, column: int, rows: int, columns: int) -> Cell:
    place = operand.first_place(row, column, matrix)
    last = f"-{place.number + rows * columns - 1}" if rows * columns > 1 else ""
    label = f"T{place.lane}:{element_name(operand.operand, place)}{last}"
    return Cell(matrix, row, column, rows, columns, place.lane, place.register, label)


def _table(cells: list[list[Cell]]) -> tuple[list[str], list[list[str]]]:
    """Head and body of one matrix's grid, row numbers first."""
    head = ["", *(span(cell.column, cell.columns) for cell in cells[0])]
    return head, [[span(line[0].row, line[0].rows), *(cell.label for cell in line)] for line in cells]


def grid_text(operand: OperandLayout, each: bool = False) -> str:
    """The grid with its title: rows down, columns across, ``T12:a3`` is element a3 of lane 12."""
    lines = [operand.title]
    if operand.note:
        lines.append(f"  {operand.note}")
    for matrix, cells in enumerate(grid(operand, each)):
        if operand.matrices > 1:
            lines.append(f"  matrix {matrix}")
        head, body = _table(cells)
        lines += [f"  {line}" for line in _aligned([head, *body])]
    return "\n".join(lines)


def _aligned(table: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = []
    for words in table:
        first = words[0].rjust(widths[0])
        rest = (word.ljust(width) for word, width in zip(words[1:], widths[1:], strict=True))
        lines.append("  ".join((first, *rest)).rstrip())
    return lines


def _markdown(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *body]
    return "\n".join(f"| {' | '.join(words)} |" for words in lines)


def grid_markdown(operand: OperandLayout, each: bool = False) -> str:
    """The same as Markdown tables."""
    parts = [f"**{operand.title}**", *([operand.note] if operand.note else [])]
    for matrix, cells in enumerate(grid(operand, each)):
        if operand.matrices > 1:
            parts.append(f"matrix {matrix}")
        parts.append(_markdown(*_table(cells)))
    return "\n\n".join(parts)


def whole_text(layout: Layout, operands: Sequence[str] = (), each: bool = False) -> str:
    """Everything: the name, what to know, and the grid of each operand (C only if it differs from D)."""
    lines = [f"{layout.instruction.ptx}", *layout.notes]
    chosen = list(operands) or shown_operands(layout)
    if not operands and "c" in layout.operands and "c" not in chosen:
        lines.append("c lies as d does")
    return "\n\n".join(["\n".join(lines), *(grid_text(layout[name], each) for name in chosen)])


def shown_operands(layout: Layout) -> list[str]:
    """The operands without a C that lies as D does."""
    names = list(layout.operands)
    if {"c", "d"} <= set(names):
        c, d = layout["c"], layout["d"]
        if c.bits == d.bits and (c.lane == d.lane).all() and (c.register == d.register).all() and (c.bit == d.bit).all():
            names.remove("c")
    return names


# --------------------------------------------------------------------------------------------------------------- tables


def _row(operand: str, element: Element) -> Row:
    place = element.place
    name = element_name(operand, place)
    return Row(operand, element.matrix, element.row, element.column, place.lane, place.register, place.bit_range, name)


def rows_of(
    layout: Layout,
    operands: Sequence[str],
    element: tuple[int, int, int | None] | None = None,
    lane: int | None = None,
    register: int | None = None,
) -> list[Row]:
    """Elements and places: all, or those of ``element`` (row, column, matrix or None for every matrix), or of a lane and
    register; of a lane alone from operands that have the register. Raises LayoutError."""
    rows = []
    for name in operands:
        one = layout[name]
        if element is not None:
            row, column, matrix = element
            matrices = range(one.matrices) if matrix is None else (matrix,)
            found = [Element(m, row, column, place) for m in matrices for place in one.places(row, column, m)]
            found = [e for e in found if lane in (None, e.place.lane) and register in (None, e.place.register)]
        elif lane is not None:
            found = one.held_by(lane, register)
        else:
            found = list(one.elements())
        rows += [_row(name, each) for each in found]
    return rows


_HEAD = ("operand", "matrix", "row", "column", "lane", "register", "bits", "name")


def _strings(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Head and body without the column of matrices where there is only one."""
    several = any(row.matrix for row in rows)
    keep = [i for i, name in enumerate(_HEAD) if several or name != "matrix"]
    return [_HEAD[i] for i in keep], [[str(row[i]) for i in keep] for row in rows]


def rows_text(rows: Sequence[Row]) -> str:
    """An aligned table."""
    head, body = _strings(rows)
    return "\n".join(_aligned([head, *body]))


def rows_markdown(rows: Sequence[Row]) -> str:
    """A Markdown table."""
    return _markdown(*_strings(rows))


def rows_csv(rows: Sequence[Row]) -> str:
    """All columns, whatever the instruction."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_HEAD)
    writer.writerows(rows)
    return out.getvalue()


def _json_rows(rows: Sequence[Row]) -> list[dict[str, Any]]:
    found = []
    for row in rows:
        first, _, last = row.bits.partition("-")
        found.append(row._asdict() | {"bits": [int(first), int(last or first)]})
    return found


def rows_json(layout: Layout, rows: Sequence[Row]) -> str:
    """``bits``: first and last, both included."""
    return json.dumps(_head(layout) | {"elements": _json_rows(rows)}, indent=1) + "\n"


def _head(layout: Layout) -> dict[str, Any]:
    return {"schema": SCHEMA, "name": layout.name, "ptx": layout.instruction.ptx, "notes": list(layout.notes)}


_SIZES = ("type", "bits", "rows", "columns", "matrices", "registers", "register_bits", "copies")


def whole_json(layout: Layout, operands: Sequence[str]) -> str:
    """Shapes, and for every element lane, register and lowest bit, as nested lists ``[row][column]`` or
    ``[matrix][row][column]``."""
    data = {}
    for name in operands:
        one = layout[name]
        sizes = {key: getattr(one, key) for key in _SIZES}
        data[name] = sizes | {key: getattr(one, key).tolist() for key in ("lane", "register", "bit")}
    return json.dumps(_head(layout) | {"operands": data}) + "\n"


# ------------------------------------------------------------------------------------------------- what feeds an output


def feeds_rows(layout: Layout, feeds: Feeds) -> list[Row]:
    """The elements as lines of a table: D, C, then A, B and metadata."""
    groups = {"d": (feeds.d,), "c": (feeds.c,), "a": feeds.a, "b": feeds.b, "metadata": feeds.metadata}
    return [_row(name, element) for name, group in groups.items() for element in group]


def feeds_text(layout: Layout, feeds: Feeds) -> str:
    """``d = c + sum of a * b``, each with its place."""
    d = feeds.d
    at = f"({d.row},{d.column})"
    lines = [layout.instruction.ptx, "", f"d{at} {_where('d', d)}  =  c{at} {_where('c', feeds.c)}"]
    if not feeds.metadata:
        pairs = zip(feeds.a, feeds.b, strict=True)
        table = [[f"+ a({a.row},{a.column})", _where("a", a), f"* b({b.row},{b.column})", _where("b", b)] for a, b in pairs]
        lines += [f"    {line}" for line in _left(table)]
    else:
        lines.append(f"    + the stored elements of row {d.row} of a, each times the element of b that its code names")
        table = [[f"a({e.row}, stored {e.column})", _where("a", e)] for e in feeds.a]
        table += [[f"code {e.column} of row {e.row}", _where("metadata", e)] for e in feeds.metadata]
        table += [[f"b({e.row},{e.column})", _where("b", e)] for e in feeds.b]
        lines += [f"    {line}" for line in _left(table)]
    lanes = {name: sorted({e.place.lane for e in group}) for name, group in (("a", feeds.a), ("b", feeds.b))}
    words = " and ".join(f"{name} in lanes {', '.join(map(str, numbers))}" for name, numbers in lanes.items())
    return "\n".join([*lines, "", f"in lane {d.place.lane}; it needs {words}"])


def _where(operand: str, element: Element) -> str:
    place = element.place
    return f"T{place.lane}:{element_name(operand, place)} (register {place.register}, bits {place.bit_range})"


def _left(table: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return ["  ".join(word.ljust(width) for word, width in zip(words, widths, strict=True)).rstrip() for words in table]
