"""A resident warp and the CTA it belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tcsim.timing.barriers import CtaBarriers
from tcsim.timing.stream import CtaStream, Piece

if TYPE_CHECKING:
    from tcsim.timing.issue import Entry
    from tcsim.timing.pipes import Pipe
    from tcsim.timing.sub_partition import SubPartition

__all__ = ["ALL_COPIES", "ResidentCta", "Warp"]

ALL_COPIES = -2
"""In place of a number of groups: cp.async.wait_all."""


class ResidentCta:
    """A CTA on an SM. ``place``: which of the SM's CTA slots it has. ``alive``: warps that have not ended. ``end``:
    cycle in which the last that has ended gave up its resources. ``starved``: warps without instructions until others
    of the CTA have gone on.
    """

    __slots__ = ("alive", "barriers", "end", "number", "place", "starved", "stream", "warps")

    def __init__(self, number: int, place: int, stream: CtaStream, live: list[int]) -> None:
        self.number, self.place, self.stream = number, place, stream
        self.barriers = CtaBarriers(live)
        self.warps: list[Warp] = []
        self.alive = len(live)
        self.end = 0
        self.starved: list[Warp] = []


class Warp:
    """A warp between launch and end.

    ``number`` in its CTA; ``age``: launch order on its SM, larger is younger; ``sub``: its sub-partition. ``pcs``,
    ``payload``, ``words``, ``executing``: the piece of its stream that is issuing, ``index`` where in it; ``block``: of
    the instruction cache it is in.

    ``entry``: the instruction that is next. It can issue from cycle ``ready_at`` on for all the warp knows; until then
    it is stalled by ``reason``. ``pipe`` is where it goes, ``refused`` what that pipe had refused when the warp was
    ready. ``base``: earliest next issue and why not earlier, as in the scoreboard, for a warp without instructions.
    ``first``, ``last``: the first cycle of its life, and the last that is accounted for.

    ``stores_left``, ``stores_done``: when its stores have left the SM, and are acknowledged. ``copies``,
    ``copy_groups``, ``copies_landed``: when its uncommitted cp.async, each committed group, and all those waited for
    land.
    """

    __slots__ = (
        "age", "base", "block", "copies", "copies_landed", "copy_groups", "cta", "entry", "executing", "first",
        "index", "last", "number", "payload", "pcs", "pipe", "ready_at", "reason", "refused", "scoreboard",
        "stores_done", "stores_left", "sub", "words",
    )  # fmt: skip

    entry: Entry
    pipe: Pipe
    pcs: list[int]
    payload: list[int]
    words: list[int]
    executing: NDArray[np.uint32]

    def __init__(self, cta: ResidentCta, number: int, age: int, sub: SubPartition, places: int, start: int) -> None:
        self.cta, self.number, self.age, self.sub = cta, number, age, sub
        self.scoreboard = [0] * places
        self.first = start
        self.last = start - 1
        self.base = self.ready_at = self.reason = self.refused = 0
        self.block = self.index = -1
        self.pcs = []
        self.stores_left = self.stores_done = 0
        self.copies = self.copies_landed = 0
        self.copy_groups: list[int] = []

    def load(self, piece: Piece) -> None:
        """Go on with the next piece of the stream; the warp stands before its first instruction."""
        self.pcs, self.payload, self.words, self.executing = piece
        self.index = -1

    def lanes(self) -> int:
        """Lanes that execute the current instruction."""
        return int(self.executing[self.index])

    def commit_copies(self) -> None:
        """cp.async.commit_group: what was copied since the last one is a group."""
        self.copy_groups.append(self.copies)
        self.copies = 0

    def copies_done(self, keep: int) -> int:
        """The cycle in which all but the ``keep`` youngest groups have landed, or everything for ALL_COPIES."""
        if keep == ALL_COPIES:
            self.commit_copies()
            keep = 0
        waited_for = max(0, len(self.copy_groups) - keep)
        self.copies_landed = max(self.copies_landed, *self.copy_groups[:waited_for], 0)
        del self.copy_groups[:waited_for]
        return self.copies_landed
