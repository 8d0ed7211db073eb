"""A streaming multiprocessor: resident CTAs, four sub-partitions, and what they share.

An SM is one SimPy process. It runs ahead of the chip's clock on its own, since nothing that other SMs do reaches into
it, and waits for that clock only before it does something that they can notice: an access to the L2, the end of a CTA,
or pulling more instructions from the executor. So the event queue sees a few events per hundred instructions, and
accesses to the L2 come in the order of time, ties in the order of SM numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any

import simpy

from tcsim.errors import DeadlockError
from tcsim.timing.clock import At
from tcsim.timing.compiled.run import stuck
from tcsim.timing.counters import Counters
from tcsim.timing.issue import Entry, IssueTable, Unit
from tcsim.timing.machine_table import MachineTable
from tcsim.timing.memory_unit import MemoryUnit
from tcsim.timing.scoreboard import CONSTANT_BANK, REASON, SHIFT
from tcsim.timing.stream import Streams
from tcsim.timing.sub_partition import SubPartition
from tcsim.timing.units import NEVER
from tcsim.timing.warp import ResidentCta, Warp
from tcsim.timing.work_distributor import WorkDistributor

__all__ = ["LaunchContext", "Sm"]

_BARRIER = REASON["barrier"]
_DRAIN = REASON["drain"]
_WAIT = REASON["wait"]
_SHORT = REASON["short_scoreboard"]
_LONG = REASON["long_scoreboard"]
_CONSTANT_MISS = REASON["imc_miss"]
_NO_INSTRUCTION = REASON["no_instruction"]
_START, _END = 0, 1  # kinds of agenda items; a CTA starts before another ends in the same cycle


@dataclass(frozen=True)
class LaunchContext:
    """What all SMs of a launch share. ``per_sm``: CTA slots of each. ``threads``: per CTA. ``fetch_cycles``,
    ``constant_cycles``: of a miss of the instruction and of the constant cache.
    """

    env: simpy.Environment
    table: IssueTable | MachineTable
    counters: Counters
    distributor: WorkDistributor
    streams: Streams
    per_sm: int
    threads: int
    fetch_cycles: int
    constant_cycles: int


class Sm:
    """``number`` on the chip. ``dry``: warps that have used up their piece of the stream."""

    sub_partition_class: type[SubPartition] = SubPartition

    def __init__(self, number: int, memory: MemoryUnit, launch: LaunchContext) -> None:
        self.number, self.memory = number, memory
        self.env, self.counters, self.table = launch.env, launch.counters, launch.table
        self._distributor, self.streams = launch.distributor, launch.streams
        self._fetch_cycles = launch.fetch_cycles
        table, counters, threads = launch.table, launch.counters, launch.threads
        chip = table.chip
        self._launch_cycles = chip.launch.cta
        self._live = [(1 << min(32, threads - first)) - 1 for first in range(0, threads, 32)]
        numbers = range(chip.scheduler.sub_partitions)
        self.subs = [self.sub_partition_class(self, n, chip, table, counters) for n in numbers]
        for sub in self.subs:
            sub.execute = self._executors(memory)
        self.dry: list[Warp] = []
        self._constant_cycles = launch.constant_cycles
        self._constants_ready = 0  # as in the scoreboard; 0: not asked for yet
        self._code_ready = [-1] * table.blocks
        self._agenda: list[tuple[int, int, int, Any]] = []
        self._free_places = [number * launch.per_sm + n for n in reversed(range(launch.per_sm))]
        self._age = 0
        self._resident = 0
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
        ]

    @staticmethod
    def _unreachable(sub: SubPartition, warp: Warp, entry: Entry, now: int) -> None:
        raise AssertionError("instructions of a pipe are executed where they issue")

    @staticmethod
    def _then(
        execute: Callable[[SubPartition, Warp, Entry, int], None],
    ) -> Callable[[SubPartition, Warp, Entry, int], None]:
        """Execute, then go on to the next instruction."""

        def both(sub: SubPartition, warp: Warp, entry: Entry, now: int) -> None:
            execute(sub, warp, entry, now)
            sub.advance(warp, (now << SHIFT) + entry.after)

        return both

    # ----------------------------------------------------------------------------------------------------- the process

    def expect(self, cta: int, dispatched: int) -> None:
        """The work distributor sends a CTA, dispatched in that cycle."""
        heappush(self._agenda, (dispatched + self._launch_cycles, _START, cta, dispatched))

    def run(self) -> Generator[simpy.Event, None, None]:
        """The SimPy process: issue in the order of time until no CTA is left."""
        env, subs, agenda = self.env, self.subs, self._agenda
        while True:
            now = agenda[0][0] if agenda else NEVER
            chosen = None
            for sub in subs:
                if sub.next < now:
                    now = sub.next
                    chosen = sub
            if chosen is not None:
                warp = chosen.choose(now)
                if warp is None:
                    continue
                if warp.entry.leaves_sm and now > env.now:
                    yield At(env, now, self.number)
                chosen.issue(warp, now)
            elif now == NEVER:
                if self._resident:
                    raise self._stuck()
                return
            else:
                if now > env.now:
                    yield At(env, now, self.number)
                _, kind, _, what = item = heappop(agenda)
                if kind == _START:
                    self._start(item[2], what, now)
                else:
                    self._end(what, now)
            if self.dry:
                if now > env.now:
                    yield At(env, now, self.number)
                self._refill()

    def _refill(self) -> None:
        """Pull more instructions for the warps that have none left."""
        while self.dry:
            warp = self.dry.pop()
            if self.streams.feed(warp.row):
                warp.sub.advance(warp, warp.base)
            else:
                warp.cta.starved.append(warp)
            self._feed_starved(warp.cta)

    def _feed_starved(self, cta: ResidentCta) -> None:
        """Others of the CTA have gone on: see whether the warps that waited for that can."""
        for warp in tuple(cta.starved):
            if self.streams.has(warp.row):
                cta.starved.remove(warp)
                now = max(int(self.env.now), warp.base >> SHIFT)
                warp.sub.advance(warp, (now << SHIFT) + _BARRIER)

    def _stuck(self) -> DeadlockError:
        return stuck(self.table.program.name, self.number)

    # ------------------------------------------------------------------------------------------------ CTAs come and go

    def _start(self, number: int, dispatched: int, now: int) -> None:
        place = self._free_places.pop()
        self.streams.start(place, self.number, number)
        if not self._constants_ready:
            self._constants_ready = (now + self._constant_cycles << SHIFT) + _CONSTANT_MISS
        cta = ResidentCta(number, place, list(self._live))
        if not self._resident:
            self._active_since = dispatched
        self._resident += 1
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

    def _end(self, cta: ResidentCta, now: int) -> None:
        self.streams.end(cta.place)
        self._free_places.append(cta.place)
        self._resident -= 1
        self.finished = now
        following = self._distributor.replace(now)
        if following is not None:
            self.expect(*following)
        if not self._resident:
            self.counters.sm_active[self.number] += now - self._active_since

    def fetch(self, block: int, now: int) -> int:
        """When a block of instructions asked for in cycle ``now`` is there, as in the scoreboard."""
        code = self._code_ready
        ready = code[block]
        if ready < 0:
            ready = code[block] = now + self._fetch_cycles
        if block + 1 < len(code) and code[block + 1] < 0:
            code[block + 1] = now + self._fetch_cycles  # prefetched
        return (ready << SHIFT) + _NO_INSTRUCTION

    # ------------------------------------------------------------------------- instructions that concern the whole CTA

    def _charge(self, warp: Warp, entry: Entry, reason: int, cycles: int) -> None:
        """Account for cycles in which a warp did not compete for issue."""
        self.counters.stalls[entry.row + reason] += cycles
        warp.last += cycles

    @staticmethod
    def _commit(sub: SubPartition, warp: Warp, entry: Entry, now: int) -> None:
        warp.pipe.take(now, now, 1)
        warp.commit_copies()
        if entry.writes:
            warp.deliver((warp.copies_landed << SHIFT) + _LONG)

    def _clock(self, sub: SubPartition, warp: Warp, entry: Entry, now: int) -> None:
        """Do something whose result depends on time: only now does the executor get to know what time it is."""
        warp.pipe.take(now, now, entry.busy)
        warp.deliver((now << SHIFT) + entry.result)
        warp.read(now, _SHORT)
        self.streams.tell_time(warp.row, now)
        sub.advance(warp, (now << SHIFT) + entry.after)

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
            self._release(through, released)

    def _release(self, warps: list[Warp], released: int) -> None:
        for warp in warps:
            entry = warp.entry
            first = max(released, warp.last + 1)
            self._charge(warp, entry, _BARRIER, first - warp.last - 1)
            warp.deliver((first << SHIFT) + _WAIT)
            warp.sub.advance(warp, (first << SHIFT) + _WAIT)

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
            end = max(warp.last + 1, warp.stores_left)
            self._charge(warp, entry, _DRAIN, end - warp.last - 1)
            self.counters.warp_cycles += end - warp.first
            sub.warps -= 1
            cta.end = max(cta.end, end)
            cta.alive -= 1
            if not cta.alive:
                heappush(self._agenda, (cta.end, _END, cta.number, cta))
        if through:
            self._release(through, now + self.memory.release)
