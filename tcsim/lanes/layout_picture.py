"""Layouts as pictures: B above D, A beside it, so that rows and columns meet at the output that they feed."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from tcsim.lanes.drawing import PASTELS, Drawing, html_page, inner_svg
from tcsim.lanes.layout_text import Cell, Row, grid, grid_text, shown_operands
from tcsim.lanes.layouts import Layout, OperandLayout
from tcsim.lanes.words import span

__all__ = ["layout_html", "layout_svg"]

_SIDE, _HEIGHT = 58, 22  # pixels of a cell with one element
_SHARED = 92  # and of one with several, across
_MARGIN, _NUMBERS, _TITLE = 24, 34, 40
_LEGEND = 40
_LETTER = 8.2

Marks = set[tuple[str, int, int, int]]


class _Panel(NamedTuple):
    """One matrix of an operand, ready to be put somewhere."""

    operand: OperandLayout
    cells: list[list[Cell]]
    caption: str
    cell_width: float

    @property
    def width(self) -> float:
        return _NUMBERS + max(len(self.cells[0]) * self.cell_width, _LETTER * len(self.caption))

    @property
    def height(self) -> float:
        return _TITLE + len(self.cells) * _HEIGHT


def _panels(operand: OperandLayout, each: bool) -> list[_Panel]:
    panels = []
    for matrix, cells in enumerate(grid(operand, each)):
        name = operand.operand.upper() if len(operand.operand) == 1 else operand.operand
        which = f" matrix {matrix}" if operand.matrices > 1 else ""
        caption = f"{name}{which}: {operand.rows} x {operand.columns} {operand.type}"
        several = cells[0][0].rows * cells[0][0].columns > 1
        panels.append(_Panel(operand, cells, caption, _SHARED if several else _SIDE))
    return panels


def layout_svg(layout: Layout, operands: Sequence[str] = (), marked: Sequence[Row] = (), each: bool = False) -> str:
    """The picture of some operands (all if none is named); ``marked`` elements have a thick edge."""
    names = list(operands) or shown_operands(layout)
    panels = {name: _panels(layout[name], each) for name in names}
    crossed = {"a", "b", "d"} <= set(names) and all(len(p) == 1 for p in panels.values())
    places = _crossed(panels) if crossed else _stacked(panels)
    width = max(x + panel.width for panel, x, _ in places) + _MARGIN
    height = max(y + panel.height for panel, _, y in places) + _MARGIN + _LEGEND
    drawing = Drawing(max(width, 9 * len(layout.instruction.ptx) + 2 * _MARGIN), height, f"Fragments of {layout.name}")
    drawing.words(_MARGIN, 30, layout.instruction.ptx, size=15, bold=True)
    marks = {(row.operand, row.matrix, row.row, row.column) for row in marked}
    for panel, x, y in places:
        _draw(drawing, panel, x, y, marks)
    _legend(drawing, max(layout[name].registers for name in names), height - _MARGIN - 6)
    return drawing.svg()


_Placed = list[tuple[_Panel, float, float]]


def _crossed(panels: dict[str, list[_Panel]]) -> _Placed:
    """A left, B above, D where they cross; what is left below."""
    a, b, d = (panels[name][0] for name in "abd")
    wide = max(b.cell_width, d.cell_width)  # of both, so that their columns meet
    b, d = b._replace(cell_width=wide), d._replace(cell_width=wide)
    left, top = _MARGIN + a.width + _MARGIN, 44.0
    middle = top + b.height + 12
    placed = [(b, left, top), (a, float(_MARGIN), middle), (d, left, middle)]
    y = middle + max(a.height, d.height) + 12
    for name, (panel,) in panels.items():
        if name not in "abd":
            placed.append((panel, float(_MARGIN), y))
            y += panel.height + 12
    return placed


def _stacked(panels: dict[str, list[_Panel]]) -> _Placed:
    """One operand below the other, its matrices side by side two by two."""
    placed: _Placed = []
    y = 44.0
    for several in panels.values():
        for first in range(0, len(several), 2):
            x = float(_MARGIN)
            for panel in several[first : first + 2]:
                placed.append((panel, x, y))
                x += panel.width + _MARGIN
            y += several[first].height + 12
    return placed


def _draw(drawing: Drawing, panel: _Panel, x: float, y: float, marks: Marks) -> None:
    drawing.words(x + _NUMBERS, y + 14, panel.caption, bold=True)
    left, top, wide = x + _NUMBERS, y + _TITLE, panel.cell_width
    for number, cell in enumerate(panel.cells[0]):
        at = left + (number + 0.5) * wide
        drawing.words(at, top - 6, span(cell.column, cell.columns), size=10, anchor="middle", soft=True)
    for line, cells in enumerate(panel.cells):
        at = top + (line + 0.68) * _HEIGHT
        drawing.words(left - 6, at, span(cells[0].row, cells[0].rows), size=10, anchor="end", soft=True)
    placed = [(cell, left + x * wide, top + y * _HEIGHT) for y, cells in enumerate(panel.cells) for x, cell in enumerate(cells)]
    marked = [_is_marked(panel.operand.operand, cell, marks) for cell, _, _ in placed]
    for strong in (False, True):  # thick edges over thin ones
        for (cell, at, down), mine in zip(placed, marked, strict=True):
            if mine == strong:
                fill, tip = PASTELS[cell.register % len(PASTELS)], _tip(panel.operand, cell)
                drawing.box(at, down, wide, _HEIGHT, fill, label=cell.label, lane=cell.lane, tip=tip, strong=strong)


def _is_marked(operand: str, cell: Cell, marks: Marks) -> bool:
    rows, columns = range(cell.row, cell.row + cell.rows), range(cell.column, cell.column + cell.columns)
    return bool(marks) and any((operand, cell.matrix, r, c) in marks for r in rows for c in columns)


def _tip(operand: OperandLayout, cell: Cell) -> str:
    first = operand.first_place(cell.row, cell.column, cell.matrix)
    last = first.bit + cell.rows * cell.columns * operand.bits - 1
    rows, columns = span(cell.row, cell.rows), span(cell.column, cell.columns)
    bits = f"bit {first.bit}" if first.bit == last else f"bits {first.bit}-{last}"
    return f"{operand.operand}({rows},{columns}): lane {cell.lane}, register {cell.register}, {bits}"


def _legend(drawing: Drawing, registers: int, y: float) -> None:
    """Which colour is which register."""
    drawing.words(_MARGIN, y, "register", size=11, soft=True)
    for register in range(min(registers, len(PASTELS))):
        drawing.box(_MARGIN + 64 + register * 26, y - 13, 24, 18, PASTELS[register], label=str(register))


def layout_html(layout: Layout, operands: Sequence[str] = (), marked: Sequence[Row] = (), each: bool = False) -> str:
    """A page with the picture, and the same as text for those who search or cannot see it."""
    names = list(operands) or shown_operands(layout)
    notes = "".join(f"<p>{escape(note)}.</p>" for note in layout.notes)
    reading = (
        "<p>T12:a3 is element a3 of lane 12, counted register by register. Colours are registers. "
        "Point at a cell to see everything that its lane holds.</p>"
    )
    texts = "\n\n".join(grid_text(layout[name], each) for name in names)
    picture = inner_svg(layout_svg(layout, operands, marked, each))
    as_text = f"<details><summary>As text</summary><pre>{escape(texts)}</pre></details>"
    return html_page(layout.name, reading, notes, picture, as_text)
