"""Accesses to shared memory as pictures: lanes down, banks across, coloured by wavefront."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from tcsim.execute.banks import BANKS
from tcsim.lanes.bank_access import BankAccess
from tcsim.lanes.bank_text import summary, wavefront_of
from tcsim.lanes.drawing import HEAT, Drawing, html_page, inner_svg
from tcsim.lanes.words import count, spans

__all__ = ["access_svg", "accesses_svg", "banks_html"]

_SIDE = 20  # pixels of a cell
_MARGIN, _LEFT, _RIGHT = 24, 120, 132
_GAP = 12  # between phases


def access_svg(access: BankAccess, title: str = "") -> str:
    """The picture of one access."""
    return accesses_svg([(title or (access.expression.text if access.expression else "shared-memory access"), access)])


def accesses_svg(accesses: Sequence[tuple[str, BankAccess]]) -> str:
    """Pictures of several accesses, each with its title, one below the other."""
    heights = [_height(access) for _, access in accesses]
    widest = max(max(len(title), len(summary(access))) for title, access in accesses)
    width = max(_MARGIN + _LEFT + BANKS * _SIDE + _RIGHT, 2 * _MARGIN + 9 * widest)
    told = "Shared-memory banks: " + "; ".join(title for title, _ in accesses)
    drawing = Drawing(width, sum(heights) + 2 * _MARGIN + 24, told)
    y = float(_MARGIN)
    for (title, access), height in zip(accesses, heights, strict=True):
        _draw(drawing, title, access, y)
        y += height
    _legend(drawing, y + 8)
    return drawing.svg()


def _height(access: BankAccess) -> float:
    return 70 + len(access.active) * _SIDE + len(access.phases) * (_SIDE + 6 + _GAP)


def _draw(drawing: Drawing, title: str, access: BankAccess, y: float) -> None:
    drawing.words(_MARGIN, y + 8, title, size=14, bold=True)
    drawing.words(_MARGIN, y + 26, summary(access), size=12)
    left, at = _MARGIN + _LEFT, y + 62
    for bank in range(BANKS):
        drawing.words(left + (bank + 0.5) * _SIDE, at - 6, str(bank), size=9, anchor="middle", soft=True)
    drawing.words(left - 8, at - 6, "bank", size=10, anchor="end", soft=True)
    for number, phase in enumerate(access.phases):
        drawing.words(left + BANKS * _SIDE + 10, at + 14, f"phase {number}", bold=True)
        drawing.words(left + BANKS * _SIDE + 10, at + 30, count(phase.wavefronts, "wavefront"), size=11)
        for lane in phase.lanes:
            address = int(access.addresses[lane])
            drawing.words(left - 8, at + 14, f"lane {lane:2} {address:#8x}", size=10, anchor="end")
            served = wavefront_of(access, phase, lane)
            for bank in range(BANKS):
                wave = served.get(bank, 0)
                fill = HEAT[min(wave, len(HEAT)) - 1] if wave else ""
                tip = f"lane {lane}, address {address:#x}: bank {bank}, wavefront {wave} of its phase" if wave else ""
                x, whose = left + bank * _SIDE, lane if wave else None
                drawing.box(x, at, _SIDE, _SIDE, fill, label=str(wave or ""), size=10, tip=tip, lane=whose)
            at += _SIDE
        at += 6
        drawing.words(left - 8, at + 14, "words of bank", size=10, anchor="end", soft=True)
        for bank in range(BANKS):
            words = len(phase.banks.get(bank, ()))
            middle, many = left + (bank + 0.5) * _SIDE, words > 1
            drawing.words(middle, at + 14, str(words or "."), size=10, anchor="middle", soft=not many, bold=many)
        at += _SIDE + _GAP


def _legend(drawing: Drawing, y: float) -> None:
    drawing.words(_MARGIN, y + 14, "served in wavefront", size=11, soft=True)
    for number, colour in enumerate(HEAT):
        label = f"{number + 1}{'+' if number == len(HEAT) - 1 else ''}"
        drawing.box(_MARGIN + 136 + number * 30, y, 28, _SIDE, colour, label=label, size=10)


def banks_html(title: str, accesses: Sequence[tuple[str, BankAccess]], texts: Sequence[str]) -> str:
    """A page with the picture, a table of phases, and texts."""
    rows = [
        f"<tr><td>{escape(name)}</td><td>{n}</td><td>{spans(p.lanes)}</td><td>{p.wavefronts}</td><td>{p.degree}</td></tr>"
        for name, access in accesses
        for n, p in enumerate(access.phases)
    ]
    head = "<tr><th>access</th><th>phase</th><th>lanes</th><th>wavefronts</th><th>most words of a bank</th></tr>"
    table = f'<table border="1" cellpadding="4" style="border-collapse:collapse">{head}{"".join(rows)}</table>'
    explained = (
        "<p>Shared memory has 32 banks of 4 bytes. In a phase each bank delivers one word per wavefront, to all lanes that "
        "want that word; a cell's number is the wavefront that serves its lane. Point at a cell to see all of its lane.</p>"
    )
    told = (f"<pre>{escape(text)}</pre>" for text in texts)
    return html_page(title, explained, *told, inner_svg(accesses_svg(accesses)), table)
