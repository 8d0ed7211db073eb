"""A timeline of a timed launch: what each SM did, cycle by cycle, for ui.perfetto.dev and for the HTML report.

:class:`Timeline` is an observer of a :class:`~tcsim.profiler.Profiler`; it keeps the events of chosen SMs, CTAs and cycles in
bounded memory. One nanosecond of the trace is one SM cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from tcsim.errors import TcsimError
from tcsim.timing.observer import SilentObserver

if TYPE_CHECKING:
    from isa.program import Program
    from tcsim.profile import LaunchProfile
    from tcsim.timing.observer import Place

__all__ = ["Slice", "Timeline", "Track"]

MOST_EVENTS = 2_000_000
"""Events kept; a launch with more says so."""

_WAITS_FOR_DATA = ("long_scoreboard", "short_scoreboard")


class Slice(NamedTuple):
    """Something that lasts from cycle ``start`` to ``end`` (exclusive). ``pc``: the instruction, or -1. ``flow``: a number
    shared by the ends of an arrow, or 0."""

    start: int
    end: int
    name: str
    pc: int = -1
    flow: int = 0


@dataclass
class Track:
    """A line of the timeline: slices in the order of time, none overlapping. ``group``: what it stands under."""

    group: str
    name: str
    slices: list[Slice] = field(default_factory=list)


class _Access(NamedTuple):
    start: int
    ready: int
    place: Place
    pc: int
    sectors: int
    wavefronts: int


class Timeline(SilentObserver):
    """Keeps what happens on SM ``sm`` (None: all), to CTAs ``ctas`` (None: all), in cycles ``cycles`` (first, end).
    ``dropped`` counts events for which there was no room. ``program``: what runs, if known; then arrows lead from each load to
    the first instruction that reads what it loads, else, as of copies, to the stalls that end with them."""

    def __init__(
        self, *, sm: int | None = 0, ctas: Collection[int] | None = None, cycles: tuple[int, int] | None = None
    ) -> None:
        self.sm, self.ctas, self.cycles = sm, ctas, cycles
        self.dropped = 0
        self.program: Program | None = None
        self._issues: list[tuple[int, Place, int]] = []
        self._stalls: list[tuple[int, int, Place, int, str]] = []
        self._accesses: list[_Access] = []
        self._barriers: list[tuple[int, Place]] = []
        self._ctas: dict[tuple[int, int], list[int]] = {}

    def _wanted(self, cycle: int, end: int, sm: int, cta: int) -> bool:
        if (self.sm is not None and sm != self.sm) or (self.ctas is not None and cta not in self.ctas):
            return False
        if self.cycles is not None and (end <= self.cycles[0] or cycle >= self.cycles[1]):
            return False
        if len(self._issues) + len(self._stalls) + len(self._accesses) >= MOST_EVENTS:
            self.dropped += 1
            return False
        return True

    def issue(self, cycle: int, place: Place, pc: int) -> None:
        """A warp issues."""
        if self._wanted(cycle, cycle + 1, place.sm, place.cta):
            self._issues.append((cycle, place, pc))

    def stall(self, cycle: int, place: Place, pc: int, reason: str, cycles: int) -> None:
        """A warp was stalled."""
        if self._wanted(cycle, cycle + cycles, place.sm, place.cta):
            self._stalls.append((cycle, cycle + cycles, place, pc, reason))

    def access(
        self, cycle: int, place: Place, pc: int, sectors: tuple[int, ...], wavefronts: int, ready: int
    ) -> None:
        """A warp accesses memory."""
        if self._wanted(cycle, ready, place.sm, place.cta):
            self._accesses.append(_Access(cycle, max(ready, cycle + 1), place, pc, len(sectors), wavefronts))

    def barrier(self, cycle: int, places: Sequence[Place]) -> None:
        """A CTA barrier opens."""
        self._barriers += [(cycle, p) for p in places if self._wanted(cycle, cycle + 1, p.sm, p.cta)]

    def task_start(self, cycle: int, sm: int, cta: int) -> None:
        """A CTA starts."""
        if self.sm in (None, sm) and (self.ctas is None or cta in self.ctas):
            self._ctas[sm, cta] = [cycle, cycle]

    def task_end(self, cycle: int, sm: int, cta: int) -> None:
        """A CTA has ended."""
        if (sm, cta) in self._ctas:
            self._ctas[sm, cta][1] = cycle

    # ------------------------------------------------------------------------------------------------------ tracks

    def tracks(self, profile: LaunchProfile) -> list[Track]:
        """The timeline of the launch that was observed, whose profile tells the instructions' names."""
        names = {i.pc: i.opcode for i in profile.instructions}
        uses = self._first_uses()
        takes = {i.pc: (i.pipe, max(1, round(i.interval))) for i in profile.instructions if i.pipe}
        out: list[Track] = []
        for sm in sorted({place.sm for _, place, _ in self._issues} | {sm for sm, _ in self._ctas}):
            out += self._cta_tracks(sm)
            out.append(self._barrier_track(sm))
            parts = sorted({place.sub_partition for _, place, _ in self._issues if place.sm == sm})
            for part in parts:
                out += self._part_tracks(sm, part, names, takes, uses)
        return _paired([track for track in out if track.slices])

    def _first_uses(self) -> dict[tuple[Place, int], int]:
        """By place and cycle of a load: when its warp first issued an instruction that reads what it loads."""
        if self.program is None:
            return {}
        reads, writes = self.program.reads, self.program.writes
        loads = {(each.place, each.start) for each in self._accesses}
        waiting: dict[Place, dict[int, int]] = {}  # of a warp: place of a register to the cycle of its load
        found: dict[tuple[Place, int], int] = {}
        for cycle, place, pc in sorted(self._issues):
            mine = waiting.setdefault(place, {})
            for register in reads[pc]:
                load = mine.pop(register, -1)
                if load >= 0:
                    found.setdefault((place, load), cycle)
            for register in writes[pc]:
                mine.pop(register, None)
                if (place, cycle) in loads:
                    mine[register] = cycle
        return found

    def _cta_tracks(self, sm: int) -> Iterator[Track]:
        slots: list[Track] = []
        spans = sorted((start, end, cta) for (at, cta), (start, end) in self._ctas.items() if at == sm)
        for start, end, cta in spans:
            if self._inside(start, end):
                first, last = self.cycles or (start, end)
                inside = Slice(max(start, first), min(max(end, start + 1), max(last, start + 1)), f"CTA {cta}")
                _fit(slots, f"SM {sm}", "CTA slot", inside)
        yield from slots

    def _barrier_track(self, sm: int) -> Track:
        """When barriers opened, and for which CTA."""
        opened = sorted({(cycle, place.cta) for cycle, place in self._barriers if place.sm == sm})
        return Track(f"SM {sm}", "barriers", [Slice(cycle, cycle, f"barrier of CTA {cta} opens") for cycle, cta in opened])

    def _part_tracks(
        self,
        sm: int,
        part: int,
        names: dict[int, str],
        takes: dict[int, tuple[str, int]],
        uses: dict[tuple[Place, int], int],
    ) -> Iterator[Track]:
        group = f"SM {sm} sub-partition {part}"

        def here(place: Place) -> bool:
            return place.sm == sm and place.sub_partition == part

        issue = Track(group, "issue")
        pipes: dict[str, list[Track]] = {}
        for cycle, place, pc in sorted(self._issues):
            if here(place):
                name = names.get(pc, f"pc {pc}")
                issue.slices.append(Slice(cycle, cycle + 1, f"{name}  (CTA {place.cta} warp {place.warp})", pc))
                if pc in takes:  # what costs nothing has no pipe
                    pipe, cycles = takes[pc]
                    _execute(pipes.setdefault(pipe, []), group, pipe, Slice(cycle, cycle + cycles, name, pc))
        yield _disjoint(issue)
        for pipe in sorted(pipes, key=lambda name: (name != "tensor", name)):
            yield from pipes[pipe]
        memory: list[Track] = []
        port = Track(group, "shared-memory port")
        copies: list[Track] = []
        ends = {(place, end) for _, end, place, _, reason in self._stalls if reason in _WAITS_FOR_DATA}
        sources: dict[tuple[Place, int], int] = {}
        users: dict[tuple[Place, int], int] = {}
        for number, each in enumerate(sorted(a for a in self._accesses if here(a.place)), 1):
            name = names.get(each.pc, f"pc {each.pc}")
            use = uses.get((each.place, each.start))
            flow = 0
            if use is not None:
                flow = users.setdefault((each.place, use), number)
            elif (each.place, each.ready) in ends and (self.program is None or not self.program.writes[each.pc]):
                flow = sources.setdefault((each.place, each.ready), number)
            detail = f"{each.sectors} sectors" if each.sectors else f"{each.wavefronts} wavefronts"
            event = Slice(each.start, each.ready, f"{name}  {detail}", each.pc, flow)
            is_copy = name.startswith(("cp.async", "LDGSTS", "UBLKCP", "UTMALDG"))
            _fit(copies if is_copy else memory, group, "async copies" if is_copy else "memory in flight", event)
            if each.wavefronts:
                port.slices.append(Slice(each.start, each.start + each.wavefronts, name, each.pc))
        yield _disjoint(port)
        yield from self._warp_tracks(group, here, names, sources, users)
        yield from (*memory, *copies)

    def _warp_tracks(
        self,
        group: str,
        here: Callable[[Place], bool],
        names: dict[int, str],
        sources: dict[tuple[Place, int], int],
        users: dict[tuple[Place, int], int],
    ) -> Iterator[Track]:
        warps: dict[tuple[int, int], Track] = {}

        def track(place: Place) -> Track:
            key = (place.cta, place.warp)
            if key not in warps:
                warps[key] = Track(group, f"CTA {place.cta} warp {place.warp}")
            return warps[key]

        for start, end, place, pc, reason in self._stalls:
            if here(place):
                flow = sources.get((place, end), 0) if reason in _WAITS_FOR_DATA else 0
                track(place).slices.append(Slice(start, end, reason, pc, flow))
        for cycle, place, pc in self._issues:
            if here(place):
                track(place).slices.append(Slice(cycle, cycle + 1, names.get(pc, f"pc {pc}"), pc, users.get((place, cycle), 0)))
        for cycle, place in self._barriers:
            if here(place):
                track(place).slices.append(Slice(cycle, cycle, "barrier opens"))
        for key in sorted(warps):
            yield _disjoint(warps[key])

    def _inside(self, start: int, end: int) -> bool:
        return self.cycles is None or (end > self.cycles[0] and start < self.cycles[1])

    # ------------------------------------------------------------------------------------------------------ file

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


def _paired(tracks: list[Track]) -> list[Track]:
    """The tracks, without arrows of which one end is outside the window or was cut away."""
    ends: dict[bool, set[tuple[str, int]]] = {False: set(), True: set()}
    for track in tracks:
        ends[track.name.startswith("CTA ")] |= {(track.group, one.flow) for one in track.slices if one.flow}
    kept = ends[False] & ends[True]
    for track in tracks:
        track.slices = [one if (track.group, one.flow) in kept else one._replace(flow=0) for one in track.slices]
    return tracks


def _execute(slots: list[Track], group: str, pipe: str, event: Slice) -> None:
    """Put an instruction where its pipe executes it: in one that is free, or else behind what that is busy with."""
    halves = _HALVES.get(pipe, 1)
    for slot in slots:
        if slot.slices[-1].end <= event.start:
            slot.slices.append(event)
            return
    if len(slots) < halves:
        name = _PIPES.get(pipe, f"{pipe} pipe")
        slots.append(Track(group, name if halves == 1 else f"{name} {len(slots)}", [event]))
        return
    slot = min(slots, key=lambda track: track.slices[-1].end)
    begin = slot.slices[-1].end
    slot.slices.append(event._replace(start=begin, end=begin + event.end - event.start))


_HALVES = {"fma": 2}  # fmaheavy and fmalite
_PIPES = {"tensor": "tensor core"}


def _fit(slots: list[Track], group: str, name: str, event: Slice) -> None:
    """Put an event into the first of some tracks that is free when it starts."""
    for slot in slots:
        if slot.slices[-1].end <= event.start:
            slot.slices.append(event)
            return
    slots.append(Track(group, f"{name} {len(slots)}", [event]))


def _disjoint(track: Track) -> Track:
    """The track's slices in order of time, each cut where the next one starts."""
    ordered = sorted(track.slices)
    starts = [*(one.start for one in ordered[1:]), 1 << 62][: len(ordered)]
    cut = [one._replace(end=min(one.end, start)) for one, start in zip(ordered, starts, strict=True)]
    return Track(track.group, track.name, [one for one in cut if one.end > one.start or one.name == "barrier opens"])
