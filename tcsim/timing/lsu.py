"""The load/store unit of an SM, and what it leads to: shared memory, the L1 and the L2.

An instruction issues into the queue of its sub-partition, has its addresses generated there, and goes through the data
port that all four share: a wavefront a cycle, whether it reads shared memory, the L1 or other lanes' registers
(shuffles).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tcsim.arch.timing_spec import Chip
from tcsim.timing.counters import Counters
from tcsim.timing.issue import Entry
from tcsim.timing.l1 import L1, port_cycles
from tcsim.timing.scoreboard import REASON, SHIFT
from tcsim.timing.shared_memory import SharedMemory

if TYPE_CHECKING:
    from tcsim.timing.sub_partition import SubPartition
    from tcsim.timing.warp import Warp

__all__ = ["Lsu"]

_SHORT = REASON["short_scoreboard"]
_LONG = REASON["long_scoreboard"]


class Lsu:
    """Executes memory instructions: each method takes one that ``warp`` issues from ``sub`` in cycle ``now``."""

    __slots__ = ("_address_interval", "_copy_latency", "_line_tags", "_port_free", "counters", "l1", "shared")

    def __init__(self, chip: Chip, shared: SharedMemory, l1: L1, counters: Counters) -> None:
        self.shared, self.l1, self.counters = shared, l1, counters
        self._address_interval = chip.lsu.address_interval
        self._line_tags = chip.l1.line_tags
        self._copy_latency = chip.l1.copy_latency
        self._port_free = 0

    def _enter(self, sub: SubPartition, warp: Warp, now: int, cycles: int) -> int:
        """Through the queue and onto the data port for ``cycles``; returns the cycle in which it gets there."""
        start = sub.address_free
        if start < now:
            start = now
        sub.address_free = start + self._address_interval
        if start < self._port_free:
            start = self._port_free
        self._port_free = start + cycles
        self.counters.port_cycles += cycles
        warp.pipe.take(now, start, 1)
        return start

    # --------------------------------------------------------------------------------------- shared memory, shuffles

    def exchange(self, sub: SubPartition, warp: Warp, entry: Entry, now: int) -> None:
        """A shuffle or the like: the data port, but no memory."""
        start = self._enter(sub, warp, now, entry.port)
        value = (start << SHIFT) + entry.result
        for place in entry.writes:
            warp.scoreboard[place] = value

    def _shared(self, sub: SubPartition, warp: Warp, entry: Entry, now: int, wavefronts: int) -> int:
        """An access to shared memory; returns the cycle in which it is done."""
        start = self._enter(sub, warp, now, wavefronts)
        self._count_shared(entry, wavefronts)
        return start + self.shared.latency_of(wavefronts)

    def _count_shared(self, entry: Entry, wavefronts: int) -> None:
        counters, pc = self.counters, entry.pc
        counters.shared_requests[pc] += 1
        counters.wavefronts[pc] += wavefronts
        if wavefronts > entry.fewest_wavefronts:
            counters.conflicts[pc] += wavefronts - entry.fewest_wavefronts

    # ------------------------------------------------------------------------------------- memory of any state space

    def load(self, sub: SubPartition, warp: Warp, entry: Entry, now: int) -> None:
        """A load: of a register per lane, a matrix, or a tile (a part of its payload per register)."""
        at = warp.payload[warp.index]
        if at < 0:
            warp.pipe.take(now, now, 1)  # no lane executes it
            return
        words = warp.words
        value = 0
        for _ in range(entry.parts):
            count = words[at]
            if words[at + 1] < 0:
                done = (self._shared(sub, warp, entry, now, count) << SHIFT) + _SHORT
                at += 2
            else:
                start = self._enter(sub, warp, now, self._port_cycles(entry, words, at + 1, count))
                ready, hits = self.l1.load(words, at + 1, count, now, start, entry.cached)
                self.counters.l1_hits[entry.pc] += hits
                done = (ready << SHIFT) + _LONG
                at += 1 + count
            if done > value:
                value = done
        for place in entry.writes:
            warp.scoreboard[place] = value

    def store(self, sub: SubPartition, warp: Warp, entry: Entry, now: int) -> None:
        """A store, in the same forms."""
        at = warp.payload[warp.index]
        if at < 0:
            warp.pipe.take(now, now, 1)
            return
        words = warp.words
        for _ in range(entry.parts):
            count = words[at]
            if words[at + 1] < 0:
                self._shared(sub, warp, entry, now, count)
                at += 2
            else:
                start = self._enter(sub, warp, now, self._port_cycles(entry, words, at + 1, count))
                left, done, hits = self.l1.store(words, at + 1, count, now, start)
                self.counters.l1_hits[entry.pc] += hits
                warp.stores_left = max(warp.stores_left, left)
                warp.stores_done = max(warp.stores_done, done)
                at += 1 + count

    def atomic(self, sub: SubPartition, warp: Warp, entry: Entry, now: int) -> None:
        """An atomic: on shared memory in place, on global memory at the L2."""
        at = warp.payload[warp.index]
        if at < 0:
            warp.pipe.take(now, now, 1)
            return
        words = warp.words
        count = words[at]
        if words[at + 1] < 0:
            ready = self._shared(sub, warp, entry, now, count) + self.shared.atomic_latency
            value = (ready << SHIFT) + _SHORT
        else:
            start = self._enter(sub, warp, now, self._port_cycles(entry, words, at + 1, count))
            ready = self.l1.atomic(words, at + 1, count, now, start)
            warp.stores_done = max(warp.stores_done, ready)
            value = (ready << SHIFT) + _LONG
        for place in entry.writes:
            warp.scoreboard[place] = value

    def copy(self, sub: SubPartition, warp: Warp, entry: Entry, now: int) -> None:
        """cp.async: a load whose data goes to shared memory when it comes."""
        at = warp.payload[warp.index]
        if at < 0:
            warp.pipe.take(now, now, 1)
            return
        words = warp.words
        wavefronts, count = words[at], words[at + 2]
        self._count_shared(entry, wavefronts)
        # Its data passes later, by a way of its own to the banks; the port only sees the tags.
        start = self._enter(sub, warp, now, self._tag_cycles(entry, words, at + 3, count))
        ready, hits = self.l1.load(words, at + 3, count, now, start, entry.cached)
        self.counters.l1_hits[entry.pc] += hits
        warp.copies = max(warp.copies, ready + self._copy_latency)

    def _tag_cycles(self, entry: Entry, words: list[int], first: int, count: int) -> int:
        """Cycles in the tag stage of an access to sectors."""
        self.counters.requests[entry.pc] += 1
        self.counters.sectors[entry.pc] += count
        lines = len({sector >> 2 for sector in words[first : first + count]})
        return max(1, round(self._line_tags * lines))

    def _port_cycles(self, entry: Entry, words: list[int], first: int, count: int) -> int:
        """Cycles on the data port of an access to sectors."""
        self.counters.requests[entry.pc] += 1
        self.counters.sectors[entry.pc] += count
        return port_cycles(words, first, count, self._line_tags)
