"""A streaming multiprocessor: resident CTAs, four sub-partitions, and what they share.

An SM is one SimPy process. It runs ahead of the chip's clock on its own, since nothing that other SMs do reaches into
it, and waits for that clock only before it does something that they can notice: an access to the L2, the end of a CTA,
or pulling more instructions from the executor. So the event queue sees a few events per hundred instructions, and
accesses to the L2 come in the order of time, ties in the order of SM numbers. In clusters SMs do reach into each other; there
one process lets them take their turns in that order (:func:`take_turns`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

import simpy

from tcsim.errors import DeadlockError
from tcsim.timing.clock import At
from tcsim.timing.compiled.run import stuck
from tcsim.timing.counters import Counters
from tcsim.timing.instruction_cache import fetch
from tcsim.timing.issue import Entry, IssueTable, Unit
from tcsim.timing.machine_table import MachineTable
from tcsim.timing.memory_unit import MemoryUnit
from tcsim.timing.scoreboard import CONSTANT_BANK, REASON, SHIFT
from tcsim.timing.signalling_unit import SignallingUnit
from tcsim.timing.stream import Streams
from tcsim.timing.sub_partition import SubPartition
from tcsim.timing.units import NEVER
from tcsim.timing.warp import ResidentCluster, ResidentCta, Warp
from tcsim.timing.work_distributor import WorkDistributor

__all__ = ["LaunchContext", "Sm", "take_turns"]

_BARRIER = REASON["barrier"]
_DRAIN = REASON["drain"]
_WAIT = REASON["wait"]
_SHORT = REASON["short_scoreboard"]
_LONG = REASON["long_scoreboard"]
_CONSTANT_MISS = REASON["imc_miss"]
_START, _END = 0, 1  # kinds of agenda items; a CTA starts before another ends in the same cycle


@dataclass(frozen=True)
class LaunchContext:
    """What all SMs of a launch share. ``members``: the CTAs of a cluster, by rank. ``threads``: per CTA. ``constant_cycles``:
    of a miss of the constant cache. ``sms``: by number. ``clusters``: resident, by site. ``dry``: of clusters of more than one
    CTA, warps of all SMs that have used up their pieces of the stream; ``touched``: SMs on which something has happened.
    """

    env: simpy.Environment
    table: IssueTable | MachineTable
    counters: Counters
    distributor: WorkDistributor
    streams: Streams
    members: Callable[[int], Sequence[int]]
    threads: int
    constant_cycles: int
    sms: dict[int, Sm] = field(default_factory=dict)
    clusters: dict[int, ResidentCluster] = field(default_factory=dict)
    dry: list[Warp] = field(default_factory=list)
    touched: set[Sm] = field(default_factory=set)

    def expect(self, site: int, cluster: int, dispatched: int) -> None:
        """The work distributor sends a cluster, dispatched in that cycle."""
        placement = self.streams.placement
        self.streams.expect(site, cluster)
        for place, cta in zip(placement.sites[site], self.members(cluster), strict=True):
            self.sms[placement.sm_of(place)].expect(cta, place, dispatched)


class Sm(SignallingUnit):
    """``number`` on the chip. ``resident``: CTAs. ``dry``: warps that have used up their piece of the stream."""

    sub_partition_class: type[SubPartition] = SubPartition

    def __init__(self, number: int, memory: MemoryUnit, launch: LaunchContext) -> None:
        self.number, self.memory = number, memory
        self.env, self.counters, self.table = launch.env, launch.counters, launch.table
        self._launch, self.streams = launch, launch.streams
        table, counters, threads = launch.table, launch.counters, launch.threads
        chip = table.chip
        self._launch_cycles, self._exit_cycles = chip.launch.cta, chip.launch.exit
        self._live = [(1 << min(32, threads - first)) - 1 for first in range(0, threads, 32)]
        numbers = range(chip.scheduler.sub_partitions)
        self.subs = [self.sub_partition_class(self, n, chip, table, counters) for n in numbers]
        for sub in self.subs:
            sub.execute = self._executors(memory)
        self.dry: list[Warp] = launch.dry if launch.streams.placement.size > 1 else []
        self._constant_cycles = launch.constant_cycles
        self._constants_ready = 0  # as in the scoreboard; 0: not asked for yet
        self._agenda: list[tuple[int, int, int, Any]] = []
        self._age = 0
        self.resident = 0
        self._active_since = 0
        self.finished = 0

    def _executors(self, memory: MemoryUnit) -> list[Callable[[SubPartition, Warp, Entry, int], None]]:
        """By :class:`~tcsim.timing.issue.Unit`."""
        return [
            self._unreachable,
            self._then(memory.exchange),
            self._then(memory.load),
            self._then(memory.store),
            self._then(memory.atomic),
            self._then(memory.copy),
            self._then(self._commit),
            self._barrier,
            self._barrier,
            self._exit,
            self._clock,
            self._arrive_at_cluster,
            self._wait_for_cluster,
            self._signal,
            self._await,
            self._bulk,
            self._async_store,
            self._indexed_constants,
        ]

    @staticmethod
    def _unreachable(sub: SubPartition, warp: Warp, entry: Entry, now: int) -> None:
        raise AssertionError("instructions of a pipe are executed where they issue")

    def _then(
        self, execute: Callable[[SubPartition, Warp, Entry, int], None]
    ) -> Callable[[SubPartition, Warp, Entry, int], None]:
        """Execute, then go on to the next instruction."""

        def both(sub: SubPartition, warp: Warp, entry: Entry, now: int) -> None:
            execute(sub, warp, entry, now)
            if entry.timed:
                self._tell_time(warp, now)
            else:
                sub.advance(warp, (now << SHIFT) + entry.after)

        return both

    # ----------------------------------------------------------------------------------------------------- the process

    def expect(self, cta: int, place: int, dispatched: int) -> None:
        """A CTA will come to a place, dispatched in that cycle."""
        heappush(self._agenda, (dispatched + self._launch_cycles, _START, cta, place))
        self._launch.touched.add(self)

    @property
    def next(self) -> int:
        """The next cycle in which something may happen."""
        return min(self._agenda[0][0] if self._agenda else NEVER, *(sub.next for sub in self.subs))

    def run(self) -> Generator[simpy.Event, None, None]:
        """The SimPy process: issue in the order of time until no CTA is left."""
        env = self.env
        while (now := self.next) < NEVER:
            chosen = self._sub(now)
            if chosen is not None:
                warp = chosen.choose(now)
                if warp is None:
                    continue
                if warp.entry.leaves_sm and now > env.now:
                    yield At(env, now, self.number)
                chosen.issue(warp, now)
            else:
                if now > env.now:
                    yield At(env, now, self.number)
                self._appointment(now)
            if self.dry:
                if now > env.now:
                    yield At(env, now, self.number)
                self.refill()
        if self.resident:
            raise self.stuck()

    def turn(self, now: int) -> None:
        """Do one thing in cycle ``now``, which must be :attr:`next`."""
        chosen = self._sub(now)
        if chosen is None:
            self._appointment(now)
        elif (warp := chosen.choose(now)) is not None:
            chosen.issue(warp, now)
        if self.dry:
            self.refill()

    def _sub(self, now: int) -> SubPartition | None:
        """The first sub-partition where something may issue in cycle ``now``, if nothing is on the agenda then."""
        if self._agenda and self._agenda[0][0] == now:
            return None
        return next(sub for sub in self.subs if sub.next == now)

    def _appointment(self, now: int) -> None:
        _, kind, cta, what = heappop(self._agenda)
        if kind == _START:
            self._start(cta, what, now)
        else:
            self._end(what, now)

    def refill(self) -> None:
        """Pull more instructions for the warps that have none left."""
        while self.dry:
            warp = self.dry.pop()
            if self.streams.feed(warp.row):
                self._go_on(warp, warp.base)
            else:
                warp.cta.cluster.starved.append(warp)
            self._feed_starved(warp.cta.cluster)

    def _feed_starved(self, cluster: ResidentCluster) -> None:
        """Others of the cluster have gone on: see whether the warps that waited for that can."""
        for warp in tuple(cluster.starved):
            if self.streams.has(warp.row):
                cluster.starved.remove(warp)
                now = max(int(self.env.now), warp.base >> SHIFT)
                self._go_on(warp, (now << SHIFT) + _BARRIER)

    def _go_on(self, warp: Warp, base: int) -> None:
        """A warp, maybe of another SM, goes on from ``base``."""
        warp.sub.advance(warp, base)
        self._launch.touched.add(warp.sub.sm)

    def stuck(self) -> DeadlockError:
        """The error for barriers that never open."""
        return stuck(self.table.program.name, self.number)

    # ------------------------------------------------------------------------------------------------ CTAs come and go

    def _start(self, number: int, place: int, now: int) -> None:
        self.streams.start(place)
        cluster = self._cluster(place)
        cluster.started += 1
        if not self._constants_ready:
            self._constants_ready = (now + self._constant_cycles << SHIFT) + _CONSTANT_MISS
        cta = ResidentCta(number, place, self.streams.placement.rank_of[place], cluster)
        cluster.ctas[cta.rank] = cta
        if not self.resident:
            self._active_since = now - self._launch_cycles
        self.resident += 1
        self.counters.ctas += 1
        self.counters.warps += len(self._live)
        first = min(range(len(self.subs)), key=lambda n: (self.subs[n].warps, n))
        base = (now << SHIFT) + _WAIT
        for index in range(len(self._live)):
            sub = self.subs[(first + index) % len(self.subs)]
            sub.warps += 1
            row = place * len(self._live) + index
            warp = Warp(cta, index, self._age, sub, self.table.scoreboard, now, self.streams.buffers, row)
            warp.scoreboard[CONSTANT_BANK] = self._constants_ready
            self._age += 1
            cta.warps.append(warp)
            warp.base = base
            self.dry.append(warp)
        self.dry.reverse()

    def _cluster(self, place: int) -> ResidentCluster:
        """The cluster that comes to a place: a new one with its first CTA."""
        placement, resident = self.streams.placement, self._launch.clusters
        site, chip = placement.site_of[place], self.table.chip
        if site not in resident or resident[site].started == placement.size:
            release = chip.clusters.barrier_release if chip.clusters is not None else 0
            resident[site] = ResidentCluster(placement.size, self._live, release)
        return resident[site]

    def _end(self, cta: ResidentCta, now: int) -> None:
        self.resident -= 1
        self.finished = now
        if self.streams.end(cta.place):
            following = self._launch.distributor.replace(now)
            if following is not None:
                self._launch.expect(self.streams.placement.site_of[cta.place], *following)
        if not self.resident:
            self.counters.sm_active[self.number] += now - self._active_since

    def fetch(self, block: int, now: int) -> int:
        """When a block of instructions that a warp enters in cycle ``now`` is there."""
        return int(fetch(self.memory.address, self.number, block, now))

    # ------------------------------------------------------------------------- instructions that concern the whole CTA

    def charge(self, warp: Warp, entry: Entry, reason: int, cycles: int) -> None:
        """Account for cycles in which a warp did not compete for issue."""
        self.counters.stalls[entry.row + reason] += cycles
        warp.last += cycles

    @staticmethod
    def _commit(sub: SubPartition, warp: Warp, entry: Entry, now: int) -> None:
        warp.pipe.take(now, now, 1)
        warp.commit_copies()
        if entry.writes:
            warp.deliver((warp.copies_landed << SHIFT) + _LONG)
        warp.read(warp.copies_landed, _LONG)

    def _clock(self, sub: SubPartition, warp: Warp, entry: Entry, now: int) -> None:
        """Do something whose result depends on time: only now does the executor get to know what time it is."""
        warp.pipe.take(now, now, entry.busy)
        warp.deliver((now << SHIFT) + entry.result)
        warp.read(now, _SHORT)
        self._tell_time(warp, now)

    def _tell_time(self, warp: Warp, now: int) -> None:
        """Have a warp execute, in this cycle, what it has issued, and go on; others may have waited for that."""
        self.streams.tell_time(warp.row, now)
        warp.sub.advance(warp, (now << SHIFT) + warp.entry.after)
        self._feed_starved(warp.cta.cluster)

    def _barrier(self, sub: SubPartition, warp: Warp, entry: Entry, now: int) -> None:
        """Arrive at a CTA barrier; whoever is let through goes on when the release has reached it."""
        warp.pipe.take(now, now, entry.busy)
        warp.read(now, _SHORT)
        base = (now << SHIFT) + entry.after
        at = warp.payload()
        if at < 0:
            sub.advance(warp, base)
            return
        number, needed = warp.buffers.words[warp.row, at : at + 2].tolist()
        released = self.memory.arrival(now)
        stops, through = warp.cta.barriers.arrive(number, needed, warp, warp.lanes(), entry.unit == Unit.BARRIER)
        if not stops:
            sub.advance(warp, base)
        if through:
            self.memory.opened()
            self._release(through, released)

    def _release(self, warps: list[Warp], released: int) -> None:
        for warp in warps:
            entry = warp.entry
            first = max(released, warp.last + 1)
            self.charge(warp, entry, _BARRIER, first - warp.last - 1)
            warp.deliver((first << SHIFT) + _WAIT)
            self._go_on(warp, (first << SHIFT) + _WAIT)

    def _arrive_at_cluster(self, sub: SubPartition, warp: Warp, entry: Entry, now: int) -> None:
        """Arrive at the cluster's barrier, and go on."""
        warp.pipe.take(now, now, entry.busy)
        warp.read(now, _SHORT)
        barrier = warp.cta.cluster.barrier
        opens = barrier.arrive(warp.cta.rank, warp, warp.lanes())
        sub.advance(warp, (now << SHIFT) + entry.after)
        if opens:
            through = barrier.open(now)
            self._release(through, barrier.opened)

    def _wait_for_cluster(self, sub: SubPartition, warp: Warp, entry: Entry, now: int) -> None:
        """Wait until all of the cluster have arrived."""
        warp.pipe.take(now, now, entry.busy)
        warp.read(now, _SHORT)
        barrier = warp.cta.cluster.barrier
        if not barrier.waits(warp.cta.rank, warp):
            sub.advance(warp, max((now << SHIFT) + entry.after, (barrier.opened << SHIFT) + _BARRIER))

    def _indexed_constants(self, sub: SubPartition, warp: Warp, entry: Entry, now: int) -> None:
        """Load from a constant bank, one address after another."""
        at, later, longer = -1, 0, 0
        if entry.constants >= 0:
            later = self.memory.fixed(entry.constants, now)
        else:
            at = warp.payload()
        if at >= 0:
            later, longer = self.memory.indexed(warp, at, now)
        warp.pipe.take(now, now, entry.busy + longer)
        warp.deliver((now + later << SHIFT) + entry.result)
        warp.read(now, _SHORT)
        sub.advance(warp, (now << SHIFT) + entry.after)

    def _exit(self, sub: SubPartition, warp: Warp, entry: Entry, now: int) -> None:
        """Lanes end; with its last lane the warp ends, when its stores have left."""
        warp.pipe.take(now, now, entry.busy)
        cta = warp.cta
        live = cta.barriers.live
        live[warp.number] &= ~warp.lanes()
        through = cta.barriers.after_exit()
        if live[warp.number]:
            sub.advance(warp, (now << SHIFT) + entry.after)
        else:
            end = max(warp.last + self._exit_cycles, warp.stores_left)
            self.charge(warp, entry, _DRAIN, end - warp.last - 1)
            self.counters.warp_cycles += end - warp.first
            sub.warps -= 1
            cta.end = max(cta.end, end)
            cta.alive -= 1
            if not cta.alive:
                heappush(self._agenda, (cta.end, _END, cta.number, cta))
        if through:
            self._release(through, now + self.memory.release)
        barrier = cta.cluster.barrier
        if self.streams.placement.size > 1 and barrier.is_complete():
            through = barrier.open(now)
            self._release(through, barrier.opened)


def take_turns(context: LaunchContext) -> Generator[simpy.Event, None, None]:
    """The SimPy process for all SMs of a launch together: the one with the earliest next cycle does one thing, ties in the
    order of numbers."""
    env, touched = context.env, context.touched
    sms = [sm for _, sm in sorted(context.sms.items())]
    position = {sm: at for at, sm in enumerate(sms)}
    following = [sm.next for sm in sms]
    touched.clear()
    while (now := min(following)) < NEVER:
        at = following.index(now)
        if now > env.now:
            yield At(env, now, sms[at].number)
        touched.add(sms[at])
        sms[at].turn(now)
        for sm in touched:
            following[position[sm]] = sm.next
        touched.clear()
    for sm in sms:
        if sm.resident:
            raise sm.stuck()
