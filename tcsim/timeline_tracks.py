"""The tracks of a timeline: from what was seen of a launch to slices that do not overlap, with arrows between them.

Of an SM: its CTAs, barriers and bulk copies; of a sub-partition: issue slots, pipes, the port of shared memory, warps with what
they wait for, accesses and asynchronous copies under way, waits for mbarrier objects.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from tcsim.timing.observer import Mbarrier, Place

if TYPE_CHECKING:
    from isa.program import Program
    from tcsim.profile import InstructionProfile

__all__ = ["Access", "Copy", "Seen", "Slice", "Track", "Wait", "make_tracks"]

_WAITS_FOR_DATA = ("long_scoreboard", "short_scoreboard")
_COPIES = ("cp.async", "LDGSTS")
_HALVES = {"fma": 2}  # fmaheavy and fmalite
_PIPES = {"tensor": "tensor core"}


class Slice(NamedTuple):
    """Something that lasts from cycle ``start`` to ``end`` (exclusive; an instant if that is ``start``). ``pc``: the
    instruction, or -1. ``out``, ``into``: numbers of arrows that lead from and to it."""

    start: int
    end: int
    name: str
    pc: int = -1
    out: tuple[int, ...] = ()
    into: tuple[int, ...] = ()


@dataclass
class Track:
    """A line of the timeline: slices in the order of time, none overlapping. ``group``: what it stands under."""

    group: str
    name: str
    slices: list[Slice] = field(default_factory=list)


class Access(NamedTuple):
    """A memory instruction until its data is there, with what it needs: 32-byte sectors, or wavefronts of shared memory."""

    start: int
    ready: int
    place: Place
    pc: int
    sectors: int
    wavefronts: int


class Copy(NamedTuple):
    """A bulk copy of ``size`` bytes (0: unknown) until it has landed, and the objects that it then tells."""

    start: int
    landed: int
    place: Place
    pc: int
    size: int
    barriers: tuple[Mbarrier, ...]


class Wait(NamedTuple):
    """A wait for the phase of an object that ``ended`` in a cycle."""

    start: int
    ready: int
    place: Place
    pc: int
    barrier: Mbarrier
    ended: int


@dataclass
class Seen:
    """What was seen of a launch. ``issues``: (cycle, place, pc); ``stalls``: (start, end, place, pc, reason); ``barriers``:
    (cycle of opening, place let through); ``ctas``: [start, end] by SM and CTA."""

    issues: list[tuple[int, Place, int]] = field(default_factory=list)
    stalls: list[tuple[int, int, Place, int, str]] = field(default_factory=list)
    accesses: list[Access] = field(default_factory=list)
    barriers: list[tuple[int, Place]] = field(default_factory=list)
    copies: list[Copy] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)
    ctas: dict[tuple[int, int], list[int]] = field(default_factory=dict)

    def count(self) -> int:
        """How many events there are."""
        return len(self.issues) + len(self.stalls) + len(self.accesses) + len(self.copies) + len(self.waits)


def make_tracks(
    seen: Seen,
    instructions: Sequence[InstructionProfile],
    program: Program | None,
    clusters: Mapping[int, int],
    cycles: tuple[int, int] | None,
) -> list[Track]:
    """The tracks. instructions: their names and pipes. program: what reads and writes which registers, if known. clusters: the
    cluster of each CTA. cycles: the window that was kept."""
    made = _Maker(seen, instructions, program, clusters, cycles)
    return _paired([track for track in made.tracks() if track.slices])


class _Maker:
    def __init__(
        self,
        seen: Seen,
        instructions: Sequence[InstructionProfile],
        program: Program | None,
        clusters: Mapping[int, int],
        cycles: tuple[int, int] | None,
    ) -> None:
        self.seen, self.program, self.clusters, self.cycles = seen, program, clusters, cycles
        self.names = {i.pc: i.opcode for i in instructions}
        self.takes = {i.pc: (i.pipe, max(1, round(i.interval))) for i in instructions if i.pipe and _executes(i)}
        self.issued: dict[Place, list[tuple[int, int]]] = defaultdict(list)  # of each warp: (cycle, pc)
        for cycle, place, pc in sorted(seen.issues):
            self.issued[place].append((cycle, pc))
        self.arrows = count(1)
        self.from_access: dict[Access, tuple[int, ...]] = {}
        self.from_copy: dict[Copy, tuple[int, ...]] = {}
        self.to_issue: dict[tuple[Place, int], tuple[int, ...]] = defaultdict(tuple)
        self.to_stall: dict[tuple[Place, int], tuple[int, ...]] = defaultdict(tuple)
        self._draw_arrows()

    # ------------------------------------------------------------------------------------------------------ arrows

    def _draw_arrows(self) -> None:
        """From loads to their first use, from copies to what waits for them."""
        ends = {(place, end) for _, end, place, _, reason in self.seen.stalls if reason in _WAITS_FOR_DATA}
        uses = self._first_uses()
        for access in self.seen.accesses:
            use = uses.get((access.place, access.start))
            if use is not None:
                self.from_access[access] = (self._arrow(self.to_issue, access.place, use),)
            elif (access.place, access.ready) in ends and (self.program is None or not self.program.writes[access.pc]):
                self.from_access[access] = (self._arrow(self.to_stall, access.place, access.ready),)
        waits: dict[Mbarrier, list[Wait]] = defaultdict(list)
        for wait in sorted(self.seen.waits):
            waits[wait.barrier].append(wait)
        for copy in self.seen.copies:
            out = []
            if not copy.barriers and (copy.place, copy.landed) in ends:
                out.append(self._arrow(self.to_stall, copy.place, copy.landed))
            for barrier in copy.barriers:
                out += [self._arrow(self.to_issue, *goes_on) for goes_on in self._woken(copy, waits[barrier])]
            self.from_copy[copy] = tuple(out)

    def _arrow(self, to: dict[tuple[Place, int], tuple[int, ...]], place: Place, cycle: int) -> int:
        number = next(self.arrows)
        to[place, cycle] += (number,)
        return number

    def _woken(self, copy: Copy, waits: Sequence[Wait]) -> Iterator[tuple[Place, int]]:
        """Who waited for the phase of an object that a copy was part of, and when it went on."""
        phase = min((wait.ended for wait in waits if wait.ended >= copy.landed), default=-1)
        found: set[Place] = set()
        for wait in waits:
            if wait.ended == phase and wait.place not in found:
                issued = self.issued[wait.place]
                behind = bisect_left(issued, (max(wait.ready, copy.start + 1), -1))
                if behind < len(issued):
                    found.add(wait.place)
                    yield wait.place, issued[behind][0]

    def _first_uses(self) -> dict[tuple[Place, int], int]:
        """By place and cycle of a load: when its warp first issued an instruction that reads what it loads."""
        if self.program is None:
            return {}
        reads, writes = self.program.reads, self.program.writes
        loads = {(each.place, each.start) for each in self.seen.accesses}
        found: dict[tuple[Place, int], int] = {}
        for place, issued in self.issued.items():
            waiting: dict[int, int] = {}  # place of a register to the cycle of its load
            for cycle, pc in issued:
                for register in reads[pc]:
                    load = waiting.pop(register, -1)
                    if load >= 0:
                        found.setdefault((place, load), cycle)
                for register in writes[pc]:
                    waiting.pop(register, None)
                    if (place, cycle) in loads:
                        waiting[register] = cycle
        return found

    # ------------------------------------------------------------------------------------------------------ tracks

    def tracks(self) -> Iterator[Track]:
        """All of them, SM by SM."""
        parts = {(place.sm, place.sub_partition) for place in (*self.issued, *(stall[2] for stall in self.seen.stalls))}
        sms = {sm for sm, _ in parts} | {sm for sm, _ in self.seen.ctas} | {each.place.sm for each in self.seen.copies}
        for sm in sorted(sms):
            yield from self._cta_tracks(sm)
            yield self._barrier_track(sm)
            yield from self._bulk_tracks(sm)
            for part in sorted(part for at, part in parts if at == sm):
                yield from self._part_tracks(sm, part)

    def _cta_tracks(self, sm: int) -> Iterator[Track]:
        slots: list[Track] = []
        spans = sorted((start, end, cta) for (at, cta), (start, end) in self.seen.ctas.items() if at == sm)
        for start, end, cta in spans:
            first, last = self.cycles or (start, max(end, start + 1))
            if end > first and start < last:
                cluster = f" of cluster {self.clusters[cta]}" if cta in self.clusters else ""
                inside = Slice(max(start, first), max(min(end, last), max(start, first) + 1), f"CTA {cta}{cluster}")
                _fit(slots, f"SM {sm}", "CTA slot", inside)
        yield from slots

    def _barrier_track(self, sm: int) -> Track:
        """When barriers opened, and for which CTA; when phases of mbarrier objects that somebody waited for ended."""
        ctas: dict[int, set[int]] = defaultdict(set)
        for cycle, place in self.seen.barriers:
            if place.sm == sm:
                ctas[cycle].add(place.cta)
        opened = [Slice(cycle, cycle, f"barrier of CTA {cta} opens") for cycle, those in ctas.items() for cta in those]
        phases = {(wait.ended, wait.barrier) for wait in self.seen.waits if wait.place.sm == sm and self._inside(wait.ended)}
        opened += [Slice(cycle, cycle, f"mbarrier {at:#x} of CTA {cta}: phase ends") for cycle, (cta, at) in phases]
        return Track(f"SM {sm}", "barriers", sorted(opened))

    def _inside(self, cycle: int) -> bool:
        return self.cycles is None or self.cycles[0] <= cycle < self.cycles[1]

    def _bulk_tracks(self, sm: int) -> Iterator[Track]:
        """What the TMA has under way."""
        tracks: list[Track] = []
        for copy in sorted(each for each in self.seen.copies if each.place.sm == sm):
            size = f"  {copy.size:,} B" if copy.size else ""
            name = f"{self._name(copy.pc)}{size}  (CTA {copy.place.cta} warp {copy.place.warp})"
            _fit(tracks, f"SM {sm}", "bulk copies", Slice(copy.start, copy.landed, name, copy.pc, self.from_copy[copy]))
        yield from tracks

    def _name(self, pc: int) -> str:
        return self.names.get(pc, f"pc {pc}")

    def _part_tracks(self, sm: int, part: int) -> Iterator[Track]:
        group = f"SM {sm} sub-partition {part}"

        def here(place: Place) -> bool:
            return place.sm == sm and place.sub_partition == part

        issue = Track(group, "issue")
        pipes: dict[str, list[Track]] = {}
        mine = sorted((cycle, place, pc) for place in self.issued if here(place) for cycle, pc in self.issued[place])
        for cycle, place, pc in mine:
            name = self._name(pc)
            issue.slices.append(Slice(cycle, cycle + 1, f"{name}  (CTA {place.cta} warp {place.warp})", pc))
            if pc in self.takes:  # what costs nothing has no pipe
                pipe, cycles = self.takes[pc]
                _execute(pipes.setdefault(pipe, []), group, pipe, Slice(cycle, cycle + cycles, name, pc))
        yield _disjoint(issue)
        for pipe in sorted(pipes, key=lambda name: (name != "tensor", name)):
            yield from pipes[pipe]
        memory: list[Track] = []
        copies: list[Track] = []
        port = Track(group, "shared-memory port")
        for each in sorted(access for access in self.seen.accesses if here(access.place)):
            name = self._name(each.pc)
            detail = f"{each.sectors} sectors" if each.sectors else f"{each.wavefronts} wavefronts"
            event = Slice(each.start, each.ready, f"{name}  {detail}", each.pc, self.from_access.get(each, ()))
            is_copy = name.startswith(_COPIES)
            _fit(copies if is_copy else memory, group, "async copies" if is_copy else "memory in flight", event)
            if each.wavefronts:
                port.slices.append(Slice(each.start, each.start + each.wavefronts, name, each.pc))
        yield _disjoint(port)
        yield from self._warp_tracks(group, here)
        waits: list[Track] = []
        for wait in sorted(each for each in self.seen.waits if here(each.place)):
            where = f"mbarrier {wait.barrier.address:#x}  (CTA {wait.place.cta} warp {wait.place.warp})"
            _fit(waits, group, "mbarrier waits", Slice(wait.start, wait.ready, where, wait.pc))
        yield from (*memory, *copies, *waits)

    def _warp_tracks(self, group: str, here: Callable[[Place], bool]) -> Iterator[Track]:
        warps: dict[tuple[int, int], Track] = {}

        def track(place: Place) -> Track:
            key = (place.cta, place.warp)
            if key not in warps:
                warps[key] = Track(group, f"CTA {place.cta} warp {place.warp}")
            return warps[key]

        for start, end, place, pc, reason in self.seen.stalls:
            if here(place):
                into = self.to_stall.get((place, end), ()) if reason in _WAITS_FOR_DATA else ()
                track(place).slices.append(Slice(start, end, reason, pc, into=into))
        for place, issued in self.issued.items():
            if here(place):
                made = track(place).slices
                for cycle, pc in issued:
                    made.append(Slice(cycle, cycle + 1, self._name(pc), pc, into=self.to_issue.get((place, cycle), ())))
        for cycle, place in self.seen.barriers:
            if here(place):
                track(place).slices.append(Slice(cycle, cycle, "barrier opens"))
        for key in sorted(warps):
            yield _disjoint(warps[key])


def _executes(instruction: InstructionProfile) -> bool:
    """Whether an instruction keeps its pipe busy: those that only order the tensor core's work do not."""
    return instruction.pipe != "tensor" or "MMA" in instruction.opcode.upper()


def _paired(tracks: list[Track]) -> list[Track]:
    """The tracks, without arrows of which one end is outside the window or was cut away."""
    out = {arrow for track in tracks for one in track.slices for arrow in one.out}
    kept = out & {arrow for track in tracks for one in track.slices for arrow in one.into}
    for track in tracks:
        track.slices = [
            one._replace(out=tuple(a for a in one.out if a in kept), into=tuple(a for a in one.into if a in kept))
            if one.out or one.into
            else one
            for one in track.slices
        ]
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
