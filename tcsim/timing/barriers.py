"""CTA barriers in time (PTX ISA 9.7.13.1): which warps have arrived, and who is let through when the last one does.

The rule is that of the executor (:mod:`tcsim.execute.barriers`), applied in the order of time. A barrier without a
thread count opens when all live threads of the CTA have arrived, one with a count when that many have, counting 32 for
a warp all of whose live threads have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tcsim.timing.warp import Warp

__all__ = ["CtaBarriers"]


class _Barrier:
    __slots__ = ("arrived", "needed", "waiting")

    def __init__(self, warps: int) -> None:
        self.arrived = [0] * warps
        self.needed = 0
        self.waiting: list[Warp] = []


class CtaBarriers:
    """The barriers of one CTA. ``live``: live lanes of each warp, by its number; the owner keeps it up to date."""

    __slots__ = ("_barriers", "live")

    def __init__(self, live: list[int]) -> None:
        self.live = live
        self._barriers: dict[int, _Barrier] = {}

    def arrive(self, number: int, needed: int, warp: Warp, lanes: int, waits: bool) -> tuple[bool, list[Warp] | None]:
        """Lanes of a warp arrive at a barrier, to wait there or not.

        Returns whether the warp must wait, and the warps that go on if the barrier opens (this one included if it
        waits), else None. A warp waits once all its live lanes are there: its lanes may come in parts, which the stream
        of a diverged warp shows one after another.
        """
        barrier = self._barriers.get(number)
        if barrier is None:
            barrier = self._barriers[number] = _Barrier(len(self.live))
        barrier.arrived[warp.number] |= lanes
        if needed:
            barrier.needed = needed
        stops = waits and not self.live[warp.number] & ~barrier.arrived[warp.number]
        if stops:
            barrier.waiting.append(warp)
        return stops, self._open(barrier) if self._complete(barrier) else None

    def after_exit(self) -> list[Warp]:
        """Some lanes have exited: the warps let through by barriers that waited only for them."""
        through: list[Warp] = []
        for _, barrier in sorted(self._barriers.items()):
            if any(barrier.arrived) and self._complete(barrier):
                through += self._open(barrier)
        return through

    def _complete(self, barrier: _Barrier) -> bool:
        if not barrier.needed:
            return all(not live & ~here for live, here in zip(self.live, barrier.arrived, strict=True))
        threads = 0
        for live, here in zip(self.live, barrier.arrived, strict=True):
            threads += here.bit_count() if live & ~here else 32 * bool(here)
        return threads >= barrier.needed

    @staticmethod
    def _open(barrier: _Barrier) -> list[Warp]:
        through, barrier.waiting = barrier.waiting, []
        barrier.arrived = [0] * len(barrier.arrived)
        barrier.needed = 0
        return through
