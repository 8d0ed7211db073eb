"""The load/store unit as the SimPy engine sees it: issues instructions to the rules of :mod:`tcsim.timing.lsu` and notes in the
warp when their results are there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tcsim.timing.constant_cache import fixed_constants, indexed_constants, operand_constants
from tcsim.timing.hierarchy import (
    ARRIVALS,
    BARRIER_INTERVAL,
    BARRIER_OPEN,
    BARRIER_RELEASE,
    L1_LATENCY,
    L2_HIT,
    MBARRIER_WAKE,
    REMOTE,
    Hierarchy,
)
from tcsim.timing.issue import Entry
from tcsim.timing.lsu import atomic_part, copy_part, enter, load_part, store_part
from tcsim.timing.scoreboard import REASON, SHIFT

if TYPE_CHECKING:
    from tcsim.timing.sub_partition import SubPartition
    from tcsim.timing.warp import Warp

__all__ = ["MemoryUnit"]

_SHORT = REASON["short_scoreboard"]
_LONG = REASON["long_scoreboard"]


class MemoryUnit:
    """That of SM ``number``. ``release``: cycles that opening a CTA barrier takes; ``remote``: cycles to another SM's shared
    memory; ``wake``: cycles until who waits for an mbarrier notices. ``started``: when the last exchange reached the data port.
    Each method executes an instruction that ``warp`` issues from ``sub`` in cycle ``now``."""

    __slots__ = ("_costs", "_ports", "acknowledged", "address", "number", "release", "remote", "started", "wake")

    def __init__(self, number: int, hierarchy: Hierarchy) -> None:
        self.number, self.address = number, hierarchy.address
        self._ports, self._costs = hierarchy.ports, hierarchy.costs
        self.release = int(hierarchy.costs[BARRIER_RELEASE])
        # After a load or an atomic has left: a fence asks the L2 about them, be they answered or not.
        self.acknowledged = int(hierarchy.costs[L2_HIT] + hierarchy.costs[L1_LATENCY])
        self.remote, self.wake = int(hierarchy.costs[REMOTE]), int(hierarchy.costs[MBARRIER_WAKE])
        self.started = 0

    def enter(self, sub: SubPartition, entry: Entry, now: int) -> int:
        """When an instruction without an access gets to the data port."""
        return int(enter(self.address, self.number, sub.number, now, entry.port, entry.stage))

    def exchange(self, sub: SubPartition, warp: Warp, entry: Entry, now: int) -> None:
        """A shuffle or the like: the data port, but no memory."""
        start = self.started = self.enter(sub, entry, now)
        warp.pipe.take(now, start, 1)
        warp.deliver((start << SHIFT) + entry.result)
        warp.read(start, _SHORT)

    def load(self, sub: SubPartition, warp: Warp, entry: Entry, now: int) -> None:
        """A load: of a register per lane, a matrix, or a tile (a part of its payload per register)."""
        at = warp.payload()
        if at < 0:
            warp.pipe.take(now, now, 1)  # no lane executes it
            return
        words = warp.words
        value, reason = 0, _LONG
        for _ in range(entry.parts):
            start, done, shared, at = load_part(
                self.address, self.number, sub.number, entry.pc, entry.fewest_wavefronts, entry.cached, words, at, now
            )
            warp.pipe.take(now, int(start), 1)
            reason = _SHORT if shared else _LONG
            value = max(value, (int(done) << SHIFT) + reason)
            if not shared:
                warp.stores_done = max(warp.stores_done, int(start) + self.acknowledged)
        warp.deliver(value)
        warp.read(int(start), reason)

    def store(self, sub: SubPartition, warp: Warp, entry: Entry, now: int) -> None:
        """A store, in the same forms."""
        at = warp.payload()
        if at < 0:
            warp.pipe.take(now, now, 1)
            return
        words = warp.words
        for _ in range(entry.parts):
            start, left, done, shared, at = store_part(
                self.address, self.number, sub.number, entry.pc, entry.fewest_wavefronts, entry.stage, words, at, now
            )
            warp.pipe.take(now, int(start), 1)
            if not shared:
                warp.stores_left = max(warp.stores_left, int(left))
                warp.stores_done = max(warp.stores_done, int(done))
        warp.read(int(start), _SHORT if shared else _LONG)

    def async_store(self, sub: SubPartition, warp: Warp, entry: Entry, now: int) -> tuple[int, int]:
        """A store or reduction in shared memory of the cluster that signals an mbarrier object: (cycle in which it is done,
        where the payload says what to signal, or -1)."""
        at = warp.payload()
        start = done = now
        if at >= 0:
            start, _, done, _, at = store_part(
                self.address, self.number, sub.number, entry.pc, entry.fewest_wavefronts, entry.stage, warp.words, at, now
            )
        warp.pipe.take(now, int(start), 1)
        warp.read(int(start), _SHORT)
        return int(done), int(at)

    def atomic(self, sub: SubPartition, warp: Warp, entry: Entry, now: int) -> None:
        """An atomic: on shared memory in place, on global memory at the L2."""
        at = warp.payload()
        if at < 0:
            warp.pipe.take(now, now, 1)
            return
        start, left, done, shared, _ = atomic_part(
            self.address, self.number, sub.number, entry.pc, entry.fewest_wavefronts, entry.lane_ticks,
            warp.words, at, now,
        )  # fmt: skip
        warp.pipe.take(now, int(start), 1)
        done = int(done) + (entry.result >> SHIFT)
        if not shared:
            warp.stores_left = max(warp.stores_left, int(left))
            warp.stores_done = max(warp.stores_done, int(left) + self.acknowledged)
        reason = _SHORT if shared else _LONG
        warp.deliver((done << SHIFT) + reason)
        warp.read(int(start), reason)

    def copy(self, sub: SubPartition, warp: Warp, entry: Entry, now: int) -> None:
        """cp.async: a load whose data goes to shared memory when it comes."""
        at = warp.payload()
        if at < 0:
            warp.pipe.take(now, now, 1)
            return
        start, landed, _ = copy_part(
            self.address, self.number, sub.number, entry.pc, entry.fewest_wavefronts, entry.cached, entry.port,
            warp.words, at, now,
        )  # fmt: skip
        warp.pipe.take(now, int(start), 1)
        warp.copies = max(warp.copies, int(landed))
        warp.read(int(start), _LONG)

    def constants(self, block: int, now: int) -> int:
        """The cycle in which a block of constants is there for an instruction that is next in cycle ``now``."""
        return int(operand_constants(self.address, self.number, block, now))

    def indexed(self, warp: Warp, at: int, now: int) -> tuple[int, int]:
        """How much longer than at least an indexed load of constants takes, and how much longer it holds its pipe."""
        later, longer = indexed_constants(self.address, self.number, warp.words, at, now)
        return int(later), int(longer)

    def fixed(self, block: int, now: int) -> int:
        """How much longer than at least a load of constants takes whose address is in the code."""
        return int(fixed_constants(self.address, self.number, block, now))

    def opened(self) -> None:
        """A CTA barrier opens: it takes the unit that counts arrivals for a while."""
        self._ports[self.number, ARRIVALS] += self._costs[BARRIER_OPEN]

    def arrival(self, now: int) -> int:
        """A warp arrives at a CTA barrier: the cycle in which those who waited only for it can issue."""
        ports, costs = self._ports, self._costs
        counted = max(now, int(ports[self.number, ARRIVALS])) + int(costs[BARRIER_INTERVAL])
        ports[self.number, ARRIVALS] = counted
        return counted + self.release
