"""The barrier of a cluster in time (PTX ISA 9.7.13.4): arriving and waiting are two instructions.

The rule is that of the executor (:mod:`isa.instructions.cluster`), applied in the order of time: a phase ends when all threads
of the cluster that have not exited have arrived, and a warp waits for the phase in which it arrived.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tcsim.timing.warp import Warp

__all__ = ["ClusterBarrier"]


class ClusterBarrier:
    """``live``: live lanes by rank and warp, lists that their CTAs keep up to date. ``phase``: phases that have ended, the last
    of them for everyone to see in cycle ``opened``.
    """

    __slots__ = ("_arrived", "_phases", "_release", "_waiting", "live", "opened", "phase")

    def __init__(self, live: list[list[int]], release: int) -> None:
        """``release``: cycles from the last arrival until the others can go on."""
        self.live, self._release = live, release
        self._arrived = [[0] * len(warps) for warps in live]
        self._phases = [[0] * len(warps) for warps in live]
        self._waiting: dict[tuple[int, int], Warp] = {}
        self.phase = self.opened = 0

    def arrive(self, rank: int, warp: Warp, lanes: int) -> bool:
        """Lanes of a warp arrive. Returns whether the phase ends now (:meth:`open`)."""
        self._arrived[rank][warp.number] |= lanes
        self._phases[rank][warp.number] = self.phase + 1
        return self.is_complete()

    def waits(self, rank: int, warp: Warp) -> bool:
        """Whether a warp must wait for the phase in which it arrived; it is then noted."""
        if self._phases[rank][warp.number] <= self.phase:
            return False
        self._waiting[rank, warp.number] = warp
        return True

    def is_complete(self) -> bool:
        """Whether all lanes that have not ended have arrived, and any has."""
        pairs = [pair for live, here in zip(self.live, self._arrived, strict=True) for pair in zip(live, here, strict=True)]
        return all(not live & ~here for live, here in pairs) and any(here for _, here in pairs)

    def open(self, now: int) -> list[Warp]:
        """Begin the next phase in cycle ``now``. Returns the warps that go on, by rank and number."""
        self.phase += 1
        self.opened = now + self._release
        self._arrived = [[0] * len(warps) for warps in self.live]
        through = [warp for _, warp in sorted(self._waiting.items())]
        self._waiting = {}
        return through
