"""Observers of a timed launch: timelines, race checkers, step viewers. All attach through one protocol.

With none attached the model pays nothing: the classes here replace the SM and its sub-partitions by ones that also
tell.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from tcsim.execute.signals import COPY_WORDS, Signal
from tcsim.profile import STALL_REASONS
from tcsim.timing.issue import Entry, Unit
from tcsim.timing.mbarriers import OFFSET
from tcsim.timing.memory_unit import MemoryUnit
from tcsim.timing.scoreboard import REASONS, SHIFT
from tcsim.timing.sm import LaunchContext, Sm
from tcsim.timing.sub_partition import SubPartition
from tcsim.timing.warp import ResidentCta, Warp

__all__ = ["Mbarrier", "ObservedSm", "Observer", "Place", "SilentObserver"]


class Place(NamedTuple):
    """A warp: the SM and sub-partition it is on, its CTA (number in launch order) and its number in the CTA."""

    sm: int
    sub_partition: int
    cta: int
    warp: int


class Mbarrier(NamedTuple):
    """An mbarrier object: the CTA in whose shared memory it is, and its address there."""

    cta: int
    address: int


class Observer(Protocol):
    """What can be observed. Cycles are SM cycles since the launch; ``pc`` is the index of an instruction in the
    program. Calls of one SM come in the order of time, those of different SMs interleave.
    """

    def issue(self, cycle: int, place: Place, pc: int) -> None:
        """A warp issues an instruction."""

    def stall(self, cycle: int, place: Place, pc: int, reason: str, cycles: int) -> None:
        """Before that, from ``cycle`` on, it was stalled for ``cycles``; several reasons follow one another."""

    def access(self, cycle: int, place: Place, pc: int, sectors: tuple[int, ...], wavefronts: int, ready: int) -> None:
        """It accesses memory: 32-byte sectors of device memory (address / 32), or wavefronts of shared memory; done in
        cycle ``ready``.
        """

    def barrier(self, cycle: int, places: Sequence[Place]) -> None:
        """A CTA's or cluster's barrier opens, and lets these warps go on."""

    def copy(self, cycle: int, place: Place, pc: int, size: int, landed: int, barriers: Sequence[Mbarrier]) -> None:
        """It hands a bulk or tensor copy of ``size`` bytes to the TMA (0: it stores to shared memory of the cluster). In cycle
        ``landed`` that has landed, or its source has been read if it goes to device memory; these objects are then told."""

    def wait(self, cycle: int, place: Place, pc: int, barrier: Mbarrier, ended: int, ready: int) -> None:
        """It asked in ``cycle`` whether a phase of an mbarrier object has ended. It did in cycle ``ended``; the answer is there
        in cycle ``ready``."""

    def task_start(self, cycle: int, sm: int, cta: int) -> None:
        """A CTA starts on an SM."""

    def task_end(self, cycle: int, sm: int, cta: int) -> None:
        """A CTA has ended."""

    def watches(self, sm: int) -> bool:
        """Whether it wants to be told of an SM. It may be told of others nevertheless."""


class SilentObserver:
    """Takes every call and does nothing: a base for observers that want only some."""

    def issue(self, cycle: int, place: Place, pc: int) -> None: ...

    def stall(self, cycle: int, place: Place, pc: int, reason: str, cycles: int) -> None: ...

    def access(self, cycle: int, place: Place, pc: int, sectors: tuple[int, ...], wavefronts: int, ready: int) -> None: ...

    def barrier(self, cycle: int, places: Sequence[Place]) -> None: ...

    def copy(self, cycle: int, place: Place, pc: int, size: int, landed: int, barriers: Sequence[Mbarrier]) -> None: ...

    def wait(self, cycle: int, place: Place, pc: int, barrier: Mbarrier, ended: int, ready: int) -> None: ...

    def task_start(self, cycle: int, sm: int, cta: int) -> None: ...

    def task_end(self, cycle: int, sm: int, cta: int) -> None: ...

    def watches(self, sm: int) -> bool:
        """All of them."""
        return True


def _place(warp: Warp) -> Place:
    return Place(warp.sub.sm.number, warp.sub.number, warp.cta.number, warp.number)


class _ObservedSubPartition(SubPartition):
    sm: ObservedSm

    def issue(self, warp: Warp, now: int) -> None:
        entry, touches = warp.entry, None
        if Unit.LOAD <= entry.unit <= Unit.COPY and warp.payload() >= 0:
            touches = _payload(entry, warp.buffers.words[warp.row].tolist(), warp.payload())
        super().issue(warp, now)
        place = _place(warp)
        for observer in self.sm.observers:
            observer.issue(now, place, entry.pc)
        if touches is not None:
            sectors, wavefronts = touches
            ready = max((warp.scoreboard[at] >> SHIFT for at in entry.writes), default=max(warp.copies, warp.stores_done, now))
            for observer in self.sm.observers:
                observer.access(now, place, entry.pc, sectors, wavefronts, ready)

    def _account(self, warp: Warp, entry: Entry, now: int) -> None:
        row = slice(entry.row + 1, entry.row + REASONS)
        before = self._stalls[row]
        cycle = warp.last + 1
        super()._account(warp, entry, now)
        for reason, old, new in zip(STALL_REASONS[1:], before, self._stalls[row], strict=True):
            if new > old:
                for observer in self.sm.observers:
                    observer.stall(cycle, _place(warp), entry.pc, reason, new - old)
                cycle += new - old


def _payload(entry: Entry, words: list[int], at: int) -> tuple[tuple[int, ...], int]:
    sectors: list[int] = []
    wavefronts = 0
    for _ in range(entry.parts + (entry.unit == Unit.COPY)):
        count = words[at]
        if words[at + 1] < 0:
            wavefronts += count
            at += 2
        else:
            sectors += words[at + 2 : at + 2 + count]
            at += 2 + count
    return tuple(sectors), wavefronts


class ObservedSm(Sm):
    """An SM that tells its observers what happens. Times are those of an :class:`~tcsim.timing.sm.Sm`."""

    sub_partition_class = _ObservedSubPartition

    def __init__(self, number: int, memory: MemoryUnit, launch: LaunchContext, observers: Sequence[Observer]) -> None:
        super().__init__(number, memory, launch)
        self.observers = tuple(observers)
        self._asked: dict[Warp, int] = {}  # of warps that wait for an mbarrier: its address

    def charge(self, warp: Warp, entry: Entry, reason: int, cycles: int) -> None:
        if cycles:
            for observer in self.observers:
                observer.stall(warp.last + 1, _place(warp), entry.pc, STALL_REASONS[reason], cycles)
        super().charge(warp, entry, reason, cycles)

    def _release(self, warps: list[Warp], released: int) -> None:
        places = [_place(warp) for warp in warps]
        super()._release(warps, released)
        for observer in self.observers:
            observer.barrier(released, places)

    def _hand_over(self, warp: Warp, entry: Entry, at: int, now: int) -> int:
        landed = super()._hand_over(warp, entry, at, now)
        words = warp.buffers.words[warp.row, at : at + COPY_WORDS].tolist()
        barriers = self._told(warp, words[1], words[3]) if words[0] in (Signal.LOAD, Signal.MOVE) else []
        for observer in self.observers:
            observer.copy(now, _place(warp), entry.pc, math.prod(words[6:11]), landed, barriers)
        return landed

    def _told(self, warp: Warp, ranks: int, address: int) -> list[Mbarrier]:
        """The objects at an address in the shared memory of CTAs of a warp's cluster."""
        members = [self._member(warp.cta, rank) for rank in range(ranks.bit_length()) if ranks >> rank & 1]
        return [Mbarrier(cta.number, address & OFFSET) for cta in members]

    def _stored(self, warp: Warp, entry: Entry, at: int, done: int, now: int) -> None:
        count = int(warp.buffers.words[warp.row, at + 1])
        addresses = warp.buffers.words[warp.row, at + 2 : at + 2 + 2 * count : 2].tolist()
        barriers = [Mbarrier(self._member(warp.cta, a >> 24).number, a & OFFSET) for a in addresses]
        for observer in self.observers:
            observer.copy(now, _place(warp), entry.pc, 0, done, barriers)
        super()._stored(warp, entry, at, done, now)

    def _await(self, sub: SubPartition, warp: Warp, entry: Entry, now: int) -> None:
        at = warp.payload()
        if at >= 0:
            self._asked[warp] = int(warp.buffers.words[warp.row, at + 2]) & OFFSET
        super()._await(sub, warp, entry, now)

    def _answer(self, warp: Warp, done: int) -> int:
        ready = super()._answer(warp, done)
        asked = warp.sub.sm._asked if isinstance(warp.sub.sm, ObservedSm) else self._asked
        barrier = Mbarrier(warp.cta.number, asked.pop(warp))
        for observer in self.observers:
            observer.wait(warp.started, _place(warp), warp.entry.pc, barrier, done, ready)
        return ready

    def _start(self, number: int, place: int, now: int) -> None:
        super()._start(number, place, now)
        for observer in self.observers:
            observer.task_start(now, self.number, number)

    def _end(self, cta: ResidentCta, now: int) -> None:
        super()._end(cta, now)
        for observer in self.observers:
            observer.task_end(now, self.number, cta.number)
