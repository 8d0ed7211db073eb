"""A resident warp, and the CTA and the cluster it belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tcsim.timing.barriers import CtaBarriers
from tcsim.timing.clusters import ClusterBarrier
from tcsim.timing.scoreboard import SHIFT

if TYPE_CHECKING:
    from tcsim.timing.issue import Entry
    from tcsim.timing.pipes import Pipe
    from tcsim.timing.stream import Buffers
    from tcsim.timing.sub_partition import SubPartition

__all__ = ["ALL_COPIES", "MOST_GROUPS", "ResidentCluster", "ResidentCta", "Warp"]

ALL_COPIES = -2
"""In place of a number of groups: cp.async.wait_all."""

MOST_GROUPS = 64
"""Groups of copies that are told apart; older ones count as one, which has landed when the youngest of them has."""


class ResidentCluster:
    """A cluster on the chip. ``live``: live lanes by rank and warp. ``starved``: warps without instructions until others of the
    cluster have gone on. ``started``: CTAs that have.
    """

    __slots__ = ("barrier", "ctas", "live", "started", "starved")

    def __init__(self, size: int, live: list[int], release: int) -> None:
        """``live``: of each CTA at its start; ``release``: cycles that opening the cluster's barrier takes."""
        self.live = [list(live) for _ in range(size)]
        self.barrier = ClusterBarrier(self.live, release)
        self.starved: list[Warp] = []
        self.started = 0
        self.ctas: dict[int, ResidentCta] = {}


class ResidentCta:
    """A CTA on an SM. ``place``: where it is; ``rank``: in its ``cluster``. ``alive``: warps that have not ended. ``end``:
    cycle in which the last that has ended gave up its resources.
    """

    __slots__ = ("alive", "barriers", "cluster", "end", "number", "place", "rank", "warps")

    def __init__(self, number: int, place: int, rank: int, cluster: ResidentCluster) -> None:
        self.number, self.place, self.rank, self.cluster = number, place, rank, cluster
        self.barriers = CtaBarriers(cluster.live[rank])
        self.warps: list[Warp] = []
        self.alive = len(cluster.live[rank])
        self.end = 0


class Warp:
    """A warp between launch and end.

    ``number`` in its CTA; ``row`` of its buffers, ``words``: address of its payloads; ``age``: launch order on its SM, larger
    is younger; ``sub``: its sub-partition. ``block``: of the instruction cache it is in.

    ``entry``: the instruction that is next. It can issue from cycle ``ready_at`` on for all the warp knows; until then it is
    stalled by ``reason``. ``pipe`` is where it goes, ``refused`` what that pipe had refused when the warp was ready. ``base``:
    earliest next issue and why not earlier, as in the scoreboard, for a warp without instructions. ``first``, ``last``: the
    first cycle of its life, and the last that is accounted for. ``issued``: the cycle of its last issue. ``behind``: the
    instruction behind that one, if going elsewhere takes time; else -1.

    ``awaits``: address and parity of the mbarrier phase that it waits for, ``started``: when the wait went out.

    ``stores_left``, ``stores_done``: when its stores have left the SM, and when what a fence waits for is acknowledged: they,
    and loads. ``copies``, ``copy_groups``, ``copies_landed``: when its uncommitted cp.async, each committed group, and all
    those waited for land.
    """

    __slots__ = (
        "age",
        "awaits",
        "base",
        "behind",
        "block",
        "buffers",
        "copies",
        "copies_landed",
        "copy_groups",
        "cta",
        "entry",
        "first",
        "issued",
        "last",
        "number",
        "pipe",
        "ready_at",
        "reason",
        "refused",
        "row",
        "scoreboard",
        "started",
        "stores_done",
        "stores_left",
        "sub",
        "words",
    )  # fmt: skip

    entry: Entry
    pipe: Pipe

    def __init__(
        self, cta: ResidentCta, number: int, age: int, sub: SubPartition, places: int, start: int, buffers: Buffers, row: int
    ) -> None:
        self.cta, self.number, self.age, self.sub, self.buffers, self.row = cta, number, age, sub, buffers, row
        self.words = int(buffers.words[row].ctypes.data)
        self.scoreboard = [0] * places
        self.first = start
        self.last = start - 1
        self.base = self.ready_at = self.reason = self.refused = self.issued = 0
        self.block = self.behind = -1
        self.awaits = (-1, 0)
        self.started = 0
        self.stores_left = self.stores_done = 0
        self.copies = self.copies_landed = 0
        self.copy_groups: list[int] = []

    def lanes(self) -> int:
        """Lanes that execute the current instruction."""
        return int(self.buffers.executing[self.row, self.buffers.at[self.row]])

    def payload(self) -> int:
        """Where the current instruction's payload starts in the words of its row; -1 if no lane executes it."""
        return int(self.buffers.payload[self.row, self.buffers.at[self.row]])

    def deliver(self, value: int) -> None:
        """Note when the result of the current instruction is there, as in the scoreboard."""
        entry, scoreboard = self.entry, self.scoreboard
        if entry.order:
            value = scoreboard[entry.order] = max(value, scoreboard[entry.order])
        for place in entry.writes:
            scoreboard[place] = max(value, scoreboard[place]) if entry.counts else value

    def read(self, start: int, reason: int) -> None:
        """Note when its operands have been read, if somebody waits for that: they are on their way in cycle ``start``."""
        source = self.entry.source
        if source:
            value = (start + self.entry.source_latency << SHIFT) + reason
            self.scoreboard[source] = max(value, self.scoreboard[source])

    def commit_copies(self) -> None:
        """cp.async.commit_group: what was copied since the last one is a group. Groups land in order."""
        self.copies_landed = max(self.copies_landed, self.copies)
        self.copy_groups.append(self.copies_landed)
        del self.copy_groups[:-MOST_GROUPS]
        self.copies = 0

    def copies_done(self, keep: int) -> int:
        """The cycle in which all but the ``keep`` youngest groups have landed, or everything for ALL_COPIES."""
        if keep == ALL_COPIES:
            self.commit_copies()
            keep = 0
        groups = self.copy_groups
        return groups[-1 - keep] if len(groups) > keep else 0
