"""The work distributor: hands out clusters (most are of one CTA) in launch order to where there is room.

At the start every site gets one in turn until all are full; from then on the next cluster goes wherever one has ended.
Clusters leave one at a time, their CTAs together, at the interval the tables give. (An empty kernel of 132 CTAs keeps all 132
SMs of an H200 busy under Nsight Compute, so the first wave goes breadth first.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tcsim.arch.timing_spec import LaunchCosts
from tcsim.timing.units import TICKS

__all__ = ["WorkDistributor"]


class WorkDistributor:
    """``clusters`` of ``size`` CTAs for ``sites``, each of which holds one at a time. ``progress`` is told how many CTAs have
    ended, of how many.
    """

    def __init__(
        self,
        costs: LaunchCosts,
        clusters: int,
        sites: int,
        size: int = 1,
        at_least: float = 0.0,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """``at_least``: cycles from one cluster to the next, however few CTAs it has."""
        self._clusters, self._sites, self._size, self._progress = clusters, sites, size, progress
        self._ended = 0
        self._interval = round(max(size * costs.dispatch_interval, at_least) * TICKS)
        self._next = 0
        self._free = costs.overhead * TICKS  # the tick from which another CTA can be dispatched

    def first_wave(self) -> Iterator[tuple[int, int, int]]:
        """(site, cluster, cycle of dispatch) until every site is full or no cluster is left."""
        for site in range(min(self._sites, self._clusters)):
            yield site, *self._dispatch(0)

    def replace(self, now: int) -> tuple[int, int] | None:
        """A cluster has ended in cycle ``now``: (cluster, cycle of dispatch) of the one that takes its place, or None if there
        is none left.
        """
        self._ended += self._size
        if self._progress is not None:
            self._progress(self._ended, self._clusters * self._size)
        return self._dispatch(now) if self._next < self._clusters else None

    def _dispatch(self, now: int) -> tuple[int, int]:
        cluster = self._next
        self._next += 1
        start = max(self._free, now * TICKS)
        self._free = start + self._interval
        return cluster, -(-start // TICKS)
