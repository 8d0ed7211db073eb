"""Pictures by hand: boxes and words as SVG, and an HTML page around them. Legible on light and on dark pages."""

from __future__ import annotations

from html import escape

__all__ = ["FONT", "HEAT", "PASTELS", "Drawing", "html_page", "inner_svg"]

PASTELS = ("#cfe3f7", "#fbe0c3", "#d3ecd0", "#f6d0d6", "#e3d7f2", "#fdf3b8", "#cdeeea", "#e4dfd6")
"""Backgrounds that tell registers apart; words on them are dark in either theme."""

HEAT = ("#cfe3f7", "#fdf3b8", "#fbd49a", "#f6b27a", "#f09a78", "#ea8678", "#e37a86", "#dc7aa0")
"""From the first wavefront to the eighth and later, light enough for dark words."""

_STYLE = """
.tc-page{fill:#ffffff}.tc-word{fill:#24292f}.tc-soft{fill:#6a737d}
.tc-cell{stroke:#7d8894;stroke-width:0.6}.tc-strong{stroke:#111111;stroke-width:2.5}
.tc-empty{fill:#f2f4f6;stroke:#dde1e6;stroke-width:0.6}.tc-label{fill:#111111;text-anchor:middle}
@media (prefers-color-scheme:dark){
.tc-page{fill:#16191d}.tc-word{fill:#e6e8eb}.tc-soft{fill:#9aa4af}.tc-empty{fill:#22272e;stroke:#343b44}}
"""

FONT = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"


class Drawing:
    """A picture of ``width`` x ``height`` pixels. ``title``: read out by screen readers."""

    def __init__(self, width: float, height: float, title: str) -> None:
        self.width, self.height, self.title = width, height, title
        self._parts: list[str] = []

    def box(
        self, x: float, y: float, width: float, height: float, fill: str = "", *, label: str = "", size: float = 11,
        tip: str = "", lane: int | None = None, strong: bool = False,
    ) -> None:  # fmt: skip
        """A cell: a filled rectangle (without a fill an empty one) with a centred label and a tooltip.

        ``lane`` marks it so that a page can show what belongs together; ``strong`` gives it a thick edge.
        """
        edge = "tc-strong" if strong else "tc-cell"
        look = f'fill="{fill}" class="{edge}"' if fill else 'class="tc-empty"'
        mark = f' data-lane="{lane}"' if lane is not None else ""
        told = f"<title>{escape(tip)}</title>" if tip else ""
        self._parts.append(f'<g{mark}>{told}<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" {look}/>')
        if label:
            middle = f'x="{x + width / 2:g}" y="{y + height / 2 + size * 0.36:g}"'
            self._parts.append(f'<text {middle} font-size="{size:g}" class="tc-label">{escape(label)}</text>')
        self._parts.append("</g>")

    def words(
        self, x: float, y: float, text: str, *, size: float = 12, anchor: str = "start", soft: bool = False, bold: bool = False
    ) -> None:
        """A line of text with its baseline at ``y``. ``anchor``: start, middle or end."""
        weight = ' font-weight="bold"' if bold else ""
        style = f'class="{"tc-soft" if soft else "tc-word"}" font-size="{size:g}" text-anchor="{anchor}"{weight}'
        self._parts.append(f'<text x="{x:g}" y="{y:g}" {style} xml:space="preserve">{escape(text)}</text>')

    def svg(self) -> str:
        """The document."""
        size = f'width="{self.width:g}" height="{self.height:g}" viewBox="0 0 {self.width:g} {self.height:g}"'
        told = f'font-family="{FONT}" role="img" aria-label="{escape(self.title)}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {told}>'
        page = f'<rect class="tc-page" width="{self.width:g}" height="{self.height:g}"/>'
        return "\n".join([head, f"<style>{_STYLE}</style>", page, *self._parts, "</svg>"]) + "\n"


_PAGE_STYLE = """
:root{color-scheme:light dark}
body{font:15px/1.5 system-ui,sans-serif;margin:2rem;background:#ffffff;color:#24292f}
pre,code{font-family:ui-monospace,Menlo,Consolas,monospace;font-size:13px}
pre{overflow-x:auto}.scroll{overflow-x:auto}
g.on rect{stroke:#d1242f;stroke-width:2.5}
@media (prefers-color-scheme:dark){body{background:#16191d;color:#e6e8eb}}
"""

# Pointing at a cell marks every cell of the same lane.
_SCRIPT = """
for (const svg of document.querySelectorAll('svg')) {
  const mark = (lane, on) => { for (const g of svg.querySelectorAll(`g[data-lane="${lane}"]`)) g.classList.toggle('on', on); };
  svg.addEventListener('pointerover', e => { const g = e.target.closest('g[data-lane]'); if (g) mark(g.dataset.lane, true); });
  svg.addEventListener('pointerout', e => { const g = e.target.closest('g[data-lane]'); if (g) mark(g.dataset.lane, false); });
}
"""


def inner_svg(svg: str) -> str:
    """An SVG document as part of a page, which can be scrolled where it is wider."""
    return f'<div class="scroll">{svg}</div>'


def html_page(title: str, *parts: str) -> str:
    """A page of its own: no other file and no network is needed. ``parts``: HTML."""
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
    body = "\n".join((f"<h1>{escape(title)}</h1>", *parts))
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}<style>{_PAGE_STYLE}</style></head>\n<body>\n{body}\n'
        f"<script>{_SCRIPT}</script>\n</body></html>\n"
    )
