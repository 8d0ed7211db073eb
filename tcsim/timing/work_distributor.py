"""The work distributor: hands out CTAs in launch order to the SMs that have room.

At the start every SM gets one CTA in turn until all are full; from then on the next CTA goes wherever one has ended.
CTAs leave one at a time, at the interval the tables give. (An empty kernel of 132 CTAs keeps all 132 SMs of an H200
busy under Nsight Compute, so the first wave goes breadth first.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tcsim.arch.timing_spec import LaunchCosts
from tcsim.timing.units import TICKS

__all__ = ["WorkDistributor"]


class WorkDistributor:
    """``ctas`` CTAs for ``sms`` SMs, each of which holds ``per_sm`` at once. ``progress`` is told how many have ended,
    of how many.
    """

    def __init__(
        self, costs: LaunchCosts, ctas: int, sms: int, per_sm: int, progress: Callable[[int, int], None] | None = None
    ) -> None:
        self._ctas, self._sms, self._per_sm, self._progress = ctas, sms, per_sm, progress
        self._ended = 0
        self._interval = round(costs.dispatch_interval * TICKS)
        self._next_cta = 0
        self._free = costs.overhead * TICKS  # the tick from which another CTA can be dispatched

    def first_wave(self) -> Iterator[tuple[int, int, int]]:
        """(SM, CTA, cycle of dispatch) until every SM is full or no CTA is left."""
        for _ in range(self._per_sm):
            for sm in range(self._sms):
                if self._next_cta == self._ctas:
                    return
                yield sm, *self._dispatch(0)

    def replace(self, now: int) -> tuple[int, int] | None:
        """A CTA has ended in cycle ``now``: (CTA, cycle of dispatch) of the one that takes its place, or None if there
        is none left.
        """
        self._ended += 1
        if self._progress is not None:
            self._progress(self._ended, self._ctas)
        return self._dispatch(now) if self._next_cta < self._ctas else None

    def _dispatch(self, now: int) -> tuple[int, int]:
        cta = self._next_cta
        self._next_cta += 1
        start = max(self._free, now * TICKS)
        self._free = start + self._interval
        return cta, -(-start // TICKS)
