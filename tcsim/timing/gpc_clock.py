"""Clocks of the GPCs: those whose tensor cores work run slower, and a launch's cycles are counted by those that do not.

``sm__cycles_elapsed.max`` is the largest count over all SMs. On an H200 an SM that runs ``mma.sync`` alone is active for as
many cycles as in a full launch, but idle GPCs count a tenth more in the same time; with all GPCs at work all are slow alike.
"""

from __future__ import annotations

from tcsim.arch.timing_spec import Clocks

__all__ = ["covers_all_gpcs", "elapsed_cycles"]

_GPCS = 8


def covers_all_gpcs(ctas: int) -> bool:
    """Whether so many CTAs leave no GPC without one: launches of one to four count a tenth more, one of 32 does not."""
    return ctas >= 2 * _GPCS


def elapsed_cycles(cycles: int, overhead: int, duty: float, covered: bool, clocks: Clocks) -> int:
    """What the SMs that count fastest count of a launch of ``cycles``, ``overhead`` of them before any CTA.

    ``duty``: the part of its active time for which a tensor core is busy; from ``clocks.tensor_duty`` on its GPC is slow, and
    counts less than others unless all are (``covered``).
    """
    if covered or not clocks.tensor_duty:
        return cycles
    slow = min(1.0, duty / clocks.tensor_duty) * clocks.tensor_slowdown
    return overhead + round((cycles - overhead) * (1.0 + slow))
