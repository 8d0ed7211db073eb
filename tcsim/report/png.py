"""Pictures as PNG: what the SVG shows on a light page, drawn by resvg (``pip install 'tcsim[png]'``)."""

from __future__ import annotations

from functools import cache

from tcsim.errors import TcsimError
from tcsim.lanes.drawing import FONT

__all__ = ["to_png"]

ZOOM = 2
"""Pixels of the PNG for each of the SVG."""

_FAMILIES = ("DejaVu Sans Mono", "Liberation Mono", "Noto Sans Mono", "Ubuntu Mono", "Courier New", "Menlo", "Consolas")
"""What to try for ``monospace``, which resvg does not look up itself."""

_LETTER = f'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9" font-family="{FONT}">%s</svg>'


def to_png(svg: str) -> bytes:
    """An SVG picture as PNG, twice its size in pixels. Raises TcsimError without the ``resvg-py`` package, or if there is no
    font for the words."""
    try:
        import resvg_py
    except ImportError:
        raise TcsimError("PNG needs the resvg-py package: pip install 'tcsim[png]'. SVG needs nothing") from None
    if "<text" in svg and not _family():
        raise TcsimError("PNG: no font for the words was found, such as DejaVu Sans Mono. Install one, or take SVG")
    return bytes(resvg_py.svg_to_bytes(svg_string=svg, zoom=ZOOM, background="white", monospace_family=_family()))


@cache
def _family() -> str:
    """The first family of which a letter leaves a mark; "" if none does."""
    import resvg_py

    nothing = resvg_py.svg_to_bytes(svg_string=_LETTER % "")
    letter = _LETTER % '<text y="9">X</text>'
    return next((f for f in _FAMILIES if resvg_py.svg_to_bytes(svg_string=letter, monospace_family=f) != nothing), "")
