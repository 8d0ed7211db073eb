"""The work distributor: hands out clusters (most are of one CTA) in launch order to where there is room.

At the start every site gets one in turn until all are full, as fast as SMs can set up their CTAs. A cluster that ends is
retired before what it held is given to the next one, wherever that is; they retire one at a time. (An empty kernel of 132 CTAs
keeps all 132 SMs of an H200 busy under Nsight Compute, so the first wave goes breadth first.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from isa.compiled import compiled
from isa.kernels.planes import as_i64
from tcsim.arch.timing_spec import LaunchCosts
from tcsim.timing.placement import Placement
from tcsim.timing.units import TICKS, cycles_of_ns

__all__ = ["ENDED_CTAS", "WorkDistributor", "retire"]

# Words of what a distributor knows: CTAs that have ended, the tick from which another cluster can be retired, how long that
# takes (ticks), the cycle in which the last was; the next cluster to take, of how many; sites, sites of the whole chip, CTAs of
# a cluster; then the sites' numbers.
ENDED_CTAS, FREE, RETIRE_INTERVAL, RETIRED, NEXT, CLUSTERS, SITES, WHOLE, SIZE, NUMBERS = range(10)


_REPORTS = 200
"""How often progress is reported where compiled code does the work."""


@compiled
def retire(address: int, now: int) -> Any:
    """A cluster has ended in cycle ``now``, so the words at an address say: the cluster that takes its place, dispatched in
    cycle RETIRED, or -1 if there is none left."""
    d: Any = as_i64(address)
    d[ENDED_CTAS] += d[SIZE]
    d[FREE] = max(d[FREE], now * TICKS) + d[RETIRE_INTERVAL]
    d[RETIRED] = -(-d[FREE] // TICKS)
    if d[NEXT] >= d[CLUSTERS]:
        return -1
    index = d[NEXT]
    d[NEXT] += 1
    return d[NUMBERS + index % d[SITES]] + index // d[SITES] * d[WHOLE]  # the sites of the whole chip take turns


class WorkDistributor:
    """``clusters`` for the sites of a ``placement`` on ``sms`` SMs that run at ``sm_hz``; CTAs have ``warps`` warps.
    ``progress`` is told how many CTAs have ended, of how many. ``address``: of its words, for :func:`retire`.
    ``report_every``: after how many CTAs to report progress where it does not hear of each.
    """

    def __init__(
        self,
        costs: LaunchCosts,
        clusters: int,
        placement: Placement,
        warps: int,
        sms: int,
        sm_hz: int,
        at_least: float = 0.0,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """``at_least``: cycles from one cluster to the next, however few CTAs it has."""
        self._placement, self._size, self._sms = placement, placement.size, sms
        self.progress = progress
        self._overhead = cycles_of_ns(costs.overhead_ns, sm_hz)
        self._interval = max(self._size * costs.dispatch_interval, at_least)
        self._sm_interval = max(costs.sm_interval + warps, costs.warp_interval * warps)
        # Of a sample each retires with as many others as the chip has sites for each of its own.
        crowd = placement.whole / len(placement.sites)
        self._words = np.zeros(NUMBERS + len(placement.sites), np.int64)
        self._words[RETIRE_INTERVAL] = round(max(self._size * costs.retire_interval, at_least) * crowd * TICKS)
        self._words[CLUSTERS], self._words[SITES] = placement.coming(clusters), len(placement.sites)
        self._words[WHOLE], self._words[SIZE] = placement.whole, self._size
        self._words[NUMBERS:] = placement.numbers
        self.address = int(self._words.ctypes.data)
        self.report_every = max(1, clusters // _REPORTS) if progress is not None else 0

    def first_wave(self) -> Iterator[tuple[int, int, int]]:
        """(site, cluster, cycle of dispatch) until every site is full or no cluster is left."""
        for site in range(min(int(self._words[SITES]), int(self._words[CLUSTERS]))):
            number = self._placement.numbers[site]
            layer = number * self._size // self._sms  # CTAs that its SMs have already got
            self._words[NEXT] += 1
            yield site, number, self._overhead + max(layer * self._sm_interval, round(number * self._interval))

    def replace(self, now: int) -> tuple[int, int] | None:
        """A cluster has ended in cycle ``now``: (cluster, cycle of dispatch) of the one that takes its place, or None if there
        is none left.
        """
        cluster = int(retire(self.address, now))
        self.report()
        return (cluster, self.retired) if cluster >= 0 else None

    def report(self) -> None:
        """Say how many CTAs have ended."""
        if self.progress is not None:
            self.progress(int(self._words[ENDED_CTAS]), int(self._words[CLUSTERS]) * self._size)

    @property
    def retired(self) -> int:
        """The cycle in which the last cluster was retired."""
        return int(self._words[RETIRED])
