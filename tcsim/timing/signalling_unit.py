"""What an SM does with mbarrier objects, its own and those of others in a cluster: signalling them, waiting for the end of a
phase, and copies of the TMA that tell them."""

from __future__ import annotations

from tcsim.execute.signals import Signal
from tcsim.timing.issue import Entry
from tcsim.timing.mbarriers import OFFSET, phase_end, signal
from tcsim.timing.memory_unit import MemoryUnit
from tcsim.timing.scoreboard import REASON, SHIFT
from tcsim.timing.stream import Streams
from tcsim.timing.sub_partition import SubPartition
from tcsim.timing.tma import tma_copy
from tcsim.timing.warp import ResidentCta, Warp

__all__ = ["SignallingUnit"]

_WAIT = REASON["wait"]
_SHORT = REASON["short_scoreboard"]
_LONG = REASON["long_scoreboard"]


class SignallingUnit:
    """The part of :class:`~tcsim.timing.sm.Sm` for mbarrier objects and bulk copies; the SM lets warps go on and counts."""

    number: int
    memory: MemoryUnit
    streams: Streams

    def charge(self, warp: Warp, entry: Entry, reason: int, cycles: int) -> None:
        """Count cycles in which a warp waits before an instruction."""
        raise NotImplementedError

    def _go_on(self, warp: Warp, base: int) -> None:
        """Let a warp issue its next instruction; ``base``: when at the earliest, as in the scoreboard."""
        raise NotImplementedError

    def _signal(self, sub: SubPartition, warp: Warp, entry: Entry, now: int) -> None:
        """Signal mbarrier objects, be they in another CTA's shared memory, and go on."""
        self.memory.exchange(sub, warp, entry, now)
        start, at = self.memory.started, warp.payload()
        sub.advance(warp, (now << SHIFT) + entry.after)
        if at >= 0:
            self._send(warp, at, start, now)

    def _async_store(self, sub: SubPartition, warp: Warp, entry: Entry, now: int) -> None:
        """Store to shared memory of a CTA of the cluster, and signal an object there when that has happened."""
        done, at = self.memory.async_store(sub, warp, entry, now)
        sub.advance(warp, (now << SHIFT) + entry.after)
        if at >= 0:
            self._stored(warp, entry, at, done, now)

    def _stored(self, warp: Warp, entry: Entry, at: int, done: int, now: int) -> None:
        """What an instruction has stored is there from cycle ``done`` on."""
        self._send(warp, at, done, now)

    def _send(self, warp: Warp, at: int, start: int, now: int) -> None:
        """Do what the payload at ``at`` says, in effect from cycle ``start`` on."""
        words = warp.buffers.words[warp.row]
        what, count = words[at : at + 2].tolist()
        for address, value in words[at + 2 : at + 2 + 2 * count].reshape(-1, 2).tolist():
            cta, time = self._member(warp.cta, address >> 24), start
            if cta is not warp.cta:
                time += self.memory.remote
            if what == Signal.COPIES:
                time = max(time, warp.copies, warp.copies_landed)
            self._tell(cta, what, address, value, time, now)

    def _member(self, cta: ResidentCta, rank: int) -> ResidentCta:
        return cta.cluster.ctas[rank] if len(cta.cluster.live) > 1 else cta

    def _tell(self, cta: ResidentCta, what: int, address: int, value: int, time: int, now: int) -> None:
        """Signal an object in a CTA's shared memory, and wake those who wait for the phase that this ends."""
        memory = self.memory.address
        if not signal(memory, cta.place, what, address, value, time):
            return
        for warp in cta.warps:
            if warp.awaits[0] == address & OFFSET:
                done = int(phase_end(memory, cta.place, *warp.awaits))
                if done >= 0:
                    warp.awaits = (-1, 0)
                    self._answer(warp, done)
                    first = max(warp.base >> SHIFT, now + 1)
                    self.charge(warp, warp.entry, _LONG, first - warp.last - 1)
                    self._go_on(warp, (first << SHIFT) + _WAIT)

    def _answer(self, warp: Warp, done: int) -> int:
        """The answer of a wait, to be there when the phase has ended in cycle ``done`` and been noticed; returns when."""
        there = max(warp.started + (warp.entry.result >> SHIFT), done + self.memory.wake)
        warp.deliver((there << SHIFT) + _LONG)
        return there

    def _await(self, sub: SubPartition, warp: Warp, entry: Entry, now: int) -> None:
        """Wait for the end of a phase: the warp goes on when it is known when that is."""
        start = warp.started = self.memory.enter(sub, entry, now)
        warp.pipe.take(now, start, 1)
        warp.read(start, _SHORT)
        at, base = warp.payload(), (now << SHIFT) + entry.after
        address, parity = warp.buffers.words[warp.row, at + 2 : at + 4].tolist() if at >= 0 else (0, -1)
        if parity < 0:
            warp.deliver((start << SHIFT) + entry.result)
            sub.advance(warp, base)
            return
        done = int(phase_end(self.memory.address, warp.cta.place, address, parity))
        if done >= 0:
            self._answer(warp, done)
            sub.advance(warp, base)
        else:
            warp.awaits, warp.base = (address & OFFSET, parity), base

    def _bulk(self, sub: SubPartition, warp: Warp, entry: Entry, now: int) -> None:
        """Hand a copy to the TMA, and go on. The objects it will tell are told now, with effect from when it lands."""
        warp.pipe.take(now, now, entry.busy)
        warp.read(now, _SHORT)
        at = warp.payload()
        sub.advance(warp, (now << SHIFT) + entry.after)
        if at < 0:
            return
        what, ranks, _, barrier, count = warp.buffers.words[warp.row, at : at + 5].tolist()
        landed = self._hand_over(warp, entry, at, now)
        if what not in (Signal.LOAD, Signal.MOVE):
            warp.copies = max(warp.copies, landed)
            return
        for rank in range(ranks.bit_length()):
            if ranks >> rank & 1:
                self._tell(self._member(warp.cta, rank), Signal.COMPLETE, barrier, count, landed, now)

    def _hand_over(self, warp: Warp, entry: Entry, at: int, now: int) -> int:
        """Have the TMA carry out the copy whose payload is at ``at``; returns the cycle in which it has landed."""
        return int(tma_copy(self.memory.address, self.number, warp.words, at, self.streams.peers(warp.cta.place), now))
