"""A timeline of a timed launch: what each SM did, cycle by cycle, for ui.perfetto.dev and for the HTML report.

:class:`Timeline` is an observer of a :class:`~tcsim.profiler.Profiler`; it keeps the events of chosen SMs, CTAs and cycles in
bounded memory. One nanosecond of the trace is one SM cycle.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from tcsim.errors import TcsimError
from tcsim.timeline_tracks import Access, Copy, Seen, Slice, Track, Wait, make_tracks
from tcsim.timing.observer import SilentObserver

if TYPE_CHECKING:
    from isa.program import Program
    from tcsim.profile import LaunchProfile
    from tcsim.timing.observer import Mbarrier, Place

__all__ = ["Slice", "Timeline", "Track"]

MOST_EVENTS = 2_000_000
"""Events kept; a launch with more says so."""


class Timeline(SilentObserver):
    """Keeps what happens on SM ``sm`` (None: all), to CTAs ``ctas`` (None: all), in cycles ``cycles`` (first, end).
    ``dropped`` counts events for which there was no room. ``program``: what runs, if known; then arrows lead from each load to
    the first instruction that reads what it loads, else, as of copies, to the stalls that end with them. ``clusters``: the
    number of the cluster of each CTA, if there are any."""

    def __init__(
        self, *, sm: int | None = 0, ctas: Collection[int] | None = None, cycles: tuple[int, int] | None = None
    ) -> None:
        self.sm, self.ctas, self.cycles = sm, ctas, cycles
        self.dropped = 0
        self.program: Program | None = None
        self.clusters: dict[int, int] = {}
        self._seen = Seen()

    def watches(self, sm: int) -> bool:
        """Whether it keeps what happens on an SM."""
        return self.sm is None or sm == self.sm

    def _wanted(self, cycle: int, end: int, sm: int, cta: int) -> bool:
        if not self.watches(sm) or (self.ctas is not None and cta not in self.ctas):
            return False
        if self.cycles is not None and (end <= self.cycles[0] or cycle >= self.cycles[1]):
            return False
        if self._seen.count() >= MOST_EVENTS:
            self.dropped += 1
            return False
        return True

    def issue(self, cycle: int, place: Place, pc: int) -> None:
        """A warp issues."""
        if self._wanted(cycle, cycle + 1, place.sm, place.cta):
            self._seen.issues.append((cycle, place, pc))

    def stall(self, cycle: int, place: Place, pc: int, reason: str, cycles: int) -> None:
        """A warp was stalled."""
        if self._wanted(cycle, cycle + cycles, place.sm, place.cta):
            self._seen.stalls.append((cycle, cycle + cycles, place, pc, reason))

    def access(
        self, cycle: int, place: Place, pc: int, sectors: tuple[int, ...], wavefronts: int, ready: int
    ) -> None:
        """A warp accesses memory."""
        if self._wanted(cycle, ready, place.sm, place.cta):
            self._seen.accesses.append(Access(cycle, max(ready, cycle + 1), place, pc, len(sectors), wavefronts))

    def barrier(self, cycle: int, places: Sequence[Place]) -> None:
        """A barrier opens."""
        self._seen.barriers += [(cycle, p) for p in places if self._wanted(cycle, cycle + 1, p.sm, p.cta)]

    def copy(self, cycle: int, place: Place, pc: int, size: int, landed: int, barriers: Sequence[Mbarrier]) -> None:
        """A warp hands a copy to the TMA. Kept if it comes from or goes to CTAs that are wanted."""
        here = (place.sm, place.cta) in self._seen.ctas or self._wanted(cycle, landed, place.sm, place.cta)
        there = {cta for _, cta in self._seen.ctas}
        if (here or any(each.cta in there for each in barriers)) and self._inside(cycle, landed):
            self._seen.copies.append(Copy(cycle, max(landed, cycle + 1), place, pc, size, tuple(barriers)))

    def wait(self, cycle: int, place: Place, pc: int, barrier: Mbarrier, ended: int, ready: int) -> None:
        """A warp has waited for a phase of an mbarrier object."""
        if self._wanted(cycle, ready, place.sm, place.cta):
            self._seen.waits.append(Wait(cycle, max(ready, cycle + 1), place, pc, barrier, ended))

    def task_start(self, cycle: int, sm: int, cta: int) -> None:
        """A CTA starts."""
        if self.watches(sm) and (self.ctas is None or cta in self.ctas):
            self._seen.ctas[sm, cta] = [cycle, cycle]

    def task_end(self, cycle: int, sm: int, cta: int) -> None:
        """A CTA has ended."""
        if (sm, cta) in self._seen.ctas:
            self._seen.ctas[sm, cta][1] = cycle

    def _inside(self, start: int, end: int) -> bool:
        return self.cycles is None or (end > self.cycles[0] and start < self.cycles[1])

    def tracks(self, profile: LaunchProfile) -> list[Track]:
        """The timeline of the launch that was observed, whose profile tells the instructions' names."""
        return make_tracks(self._seen, profile.instructions, self.program, self.clusters, self.cycles)

    def write(self, path: str, profile: LaunchProfile) -> int:
        """Write a trace that ui.perfetto.dev opens; returns its number of slices. Raises TcsimError without the ``perfetto``
        package."""
        try:
            from tcsim.perfetto_file import write_tracks
        except ImportError:
            raise TcsimError("timelines need the perfetto package: pip install 'tcsim[perfetto]'") from None
        tracks = self.tracks(profile)
        write_tracks(path, f"{profile.name} on {profile.device_name}, 1 ns = 1 SM cycle", tracks)
        return sum(len(track.slices) for track in tracks)
