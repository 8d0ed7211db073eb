"""Address translation: the first touch of a page costs a walk of the page tables, which everyone who needs the page
waits for.
"""

from __future__ import annotations

from tcsim.arch.timing_spec import Translation as TranslationSpec
from tcsim.timing.units import cycles_of_ns

__all__ = ["Translation"]

_LINE_BYTES = 128


class Translation:
    """The pages known to the chip. A launch starts with none, as under Nsight Compute."""

    def __init__(self, spec: TranslationSpec, sm_hz: int) -> None:
        self._lines_per_page = spec.page_bytes // _LINE_BYTES
        self._walk = cycles_of_ns(spec.first_touch_ns, sm_hz)
        self._known: dict[int, int] = {}

    def wait(self, line: int, now: int) -> int:
        """Cycles until the page of a line is known, for a request made in cycle ``now``."""
        page = line // self._lines_per_page
        known = self._known.get(page)
        if known is None:
            known = self._known[page] = now + self._walk
        return known - now if known > now else 0
