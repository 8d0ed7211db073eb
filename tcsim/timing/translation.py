"""Address translation: an SM's first access to memory waits for it.

A launch starts with no translations, as under Nsight Compute. What pages are touched later makes no difference on hardware:
chains of loads 2 and 32 MiB apart take as long as those 4 KiB apart.
"""

from __future__ import annotations

from isa.compiled import compiled
from tcsim.timing.arrays import row
from tcsim.timing.hierarchy import COSTS, FIRST_TOUCH, PORTS, TRANSLATED

__all__ = ["translation_wait"]


@compiled
def translation_wait(m, sm, now):
    """Cycles until an SM can translate addresses, for a request made in cycle ``now``."""
    ports = row(m, PORTS, sm)
    if ports[TRANSLATED] == 0:
        ports[TRANSLATED] = now + row(m, COSTS, 0)[FIRST_TOUCH]
    return max(0, ports[TRANSLATED] - now)
