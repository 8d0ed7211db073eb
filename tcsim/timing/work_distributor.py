"""The work distributor: hands out clusters (most are of one CTA) in launch order to where there is room.

At the start every site gets one in turn until all are full, as fast as SMs can set up their CTAs. A cluster that ends is
retired before what it held is given to the next one, wherever that is; they retire one at a time. (An empty kernel of 132 CTAs
keeps all 132 SMs of an H200 busy under Nsight Compute, so the first wave goes breadth first.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tcsim.arch.timing_spec import LaunchCosts
from tcsim.timing.placement import Placement
from tcsim.timing.units import TICKS, cycles_of_ns

__all__ = ["WorkDistributor"]


class WorkDistributor:
    """``clusters`` for the sites of a ``placement`` on ``sms`` SMs that run at ``sm_hz``; CTAs have ``warps`` warps.
    ``progress`` is told how many CTAs have ended, of how many. ``retired``: the cycle in which the last cluster was.
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
        self._clusters, self._sites = placement.coming(clusters), len(placement.sites)
        self._progress = progress
        self._ended = self._next = self.retired = 0
        self._overhead = cycles_of_ns(costs.overhead_ns, sm_hz)
        self._interval = max(self._size * costs.dispatch_interval, at_least)
        self._sm_interval = max(costs.sm_interval + warps, costs.warp_interval * warps)
        # Of a sample each retires with as many others as the chip has sites for each of its own.
        crowd = placement.whole / len(placement.sites)
        self._retire_interval = round(max(self._size * costs.retire_interval, at_least) * crowd * TICKS)
        self._free = 0  # the tick from which another cluster can be retired

    def first_wave(self) -> Iterator[tuple[int, int, int]]:
        """(site, cluster, cycle of dispatch) until every site is full or no cluster is left."""
        for site in range(min(self._sites, self._clusters)):
            number = self._placement.numbers[site]
            layer = number * self._size // self._sms  # CTAs that its SMs have already got
            yield site, self._take(), self._overhead + max(layer * self._sm_interval, round(number * self._interval))

    def replace(self, now: int) -> tuple[int, int] | None:
        """A cluster has ended in cycle ``now``: (cluster, cycle of dispatch) of the one that takes its place, or None if there
        is none left.
        """
        self._ended += self._size
        if self._progress is not None:
            self._progress(self._ended, self._clusters * self._size)
        self._free = max(self._free, now * TICKS) + self._retire_interval
        self.retired = -(-self._free // TICKS)
        return (self._take(), self.retired) if self._next < self._clusters else None

    def _take(self) -> int:
        self._next += 1
        return self._placement.cluster(self._next - 1)
