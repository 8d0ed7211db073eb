"""Address translation: the first touch of a page costs a walk of the page tables, which everyone who needs the page waits for.

A launch starts with no translations, as under Nsight Compute.
"""

from __future__ import annotations

from isa.compiled import compiled
from tcsim.timing.arrays import row
from tcsim.timing.hierarchy import (
    COSTS,
    PAGE_LINES,
    PAGES,
    WALK,
    WALKED,
)
from tcsim.timing.lru import find, put

__all__ = ["translation_wait"]


@compiled
def translation_wait(m, line, now):
    """Cycles until the page of a line is known, for a request made in cycle ``now``."""
    page = line // row(m, COSTS, 0)[PAGE_LINES]
    slot = find(m, PAGES, 0, page)
    if slot < 0:
        slot = put(m, PAGES, 0, page)
        row(m, WALKED, 0)[slot] = now + row(m, COSTS, 0)[WALK]
    known = row(m, WALKED, 0)[slot]
    return known - now if known > now else 0
