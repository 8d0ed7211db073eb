"""The instructions that the warps of a CTA execute, pulled from the executor a piece at a time.

The executor runs ahead of time by at most a buffer per warp, so a grid of any size needs the same memory. Values are
settled there; here they are only asked for: when a warp's buffer is used up, its CTA runs on until the buffers are full
again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tcsim.execute.accesses import MAX_WORDS
from tcsim.execute.cluster import Cluster
from tcsim.execute.cta import CtaSlot
from tcsim.execute.faults import deadlock, fault
from tcsim.execute.interpreter import Outcome
from tcsim.execute.state import GroupState
from tcsim.timing.schedule import Segment, arrange
from tcsim.timing.watch import SpinWatch

__all__ = ["CtaStream", "Piece", "records_per_warp"]

_RECORDS = 1 << 19
_FEWEST, _MOST = 64, 1024
_NO_LIMIT = 1 << 40


def records_per_warp(resident_warps: int) -> int:
    """Buffer length with which all warps resident on the chip have half a million records (about 100 MB)."""
    return max(_FEWEST, min(_MOST, _RECORDS // max(1, resident_warps)))


class Piece(NamedTuple):
    """A piece of a warp's stream: instructions, position of each one's payload in ``words`` (-1 for none), and lanes
    that execute it (uint32 [n]).
    """

    pcs: list[int]
    payload: list[int]
    words: list[int]
    executing: NDArray[np.uint32]

    def followed_by(self, later: Piece) -> Piece:
        """This piece and the one behind it as one."""
        shift = len(self.words)
        payload = self.payload + [at + shift if at >= 0 else at for at in later.payload]
        executing = np.concatenate((self.executing, later.executing))
        return Piece(self.pcs + later.pcs, payload, self.words + later.words, executing)

    def split(self, at: int) -> tuple[Piece, Piece]:
        """The first ``at`` instructions, and the rest. Payload words are in the order of the text, as the rest's
        instructions are.
        """
        first = min((position for position in self.payload[at:] if position >= 0), default=len(self.words))
        payload = [position - first if position >= 0 else position for position in self.payload[at:]]
        rest = Piece(self.pcs[at:], payload, self.words[first:], self.executing[at:])
        return Piece(self.pcs[:at], self.payload[:at], self.words[:first], self.executing[:at]), rest


class CtaStream:
    """A CTA slot of the executor with its recorder. ``slot``: the executor's state."""

    def __init__(
        self, slot: CtaSlot, starts: Sequence[Segment | None], clock_ns: Callable[[int], int], watch: SpinWatch
    ) -> None:
        self.slot, self._watch = slot, watch
        self._cluster = Cluster(lambda rank: slot, 1)
        self._starts, self._clock_ns = starts, clock_ns
        assert slot.recorder is not None
        self._recorder = slot.recorder
        self._held: dict[int, Piece] = {}  # by warp: the start of a segment whose end is not here yet

    def start(self, number: int) -> None:
        """Put CTA ``number`` in, with empty buffers."""
        self._cluster.start(number)
        self._recorder.used[...] = 0
        self._recorder.permits[...] = 0
        self._held.clear()
        self._watch.started(self.slot)

    def end(self) -> None:
        """The CTA has ended in time."""
        self._watch.ended(self.slot)

    def pull(self, warp: int) -> Piece | None:
        """The next piece of a warp, or None if the warp waits for others of its CTA that have instructions to issue
        first.

        Where the next instruction reads the clock, it comes alone and before it is executed: :meth:`tell_time` does
        that. Raises KernelFault or DeadlockError.
        """
        while True:
            if not self._recorder.used[warp, 0]:
                self._run()
            if not self._recorder.used[warp, 0]:
                return self._clock_read(warp)
            piece = self._take(warp)
            if piece.pcs:
                return piece

    def _clock_read(self, warp: int) -> Piece | None:
        """The instruction that reads the clock, if that is what a warp stands before."""
        arrays = self.slot.arrays
        for group in range(32):
            if arrays.mask[warp, group] and arrays.state[warp, group] == GroupState.READY:
                pc = int(arrays.pc[warp, group])
                return Piece([pc], [-1], [], arrays.mask[warp, group : group + 1]) if self._recorder.timed[pc] else None
        return None

    def tell_time(self, warp: int, cycle: int) -> Piece:
        """Let a warp execute the instruction that reads the clock, in this cycle, and go on; returns what comes behind
        it.
        """
        self._recorder.now[warp] = cycle, self._clock_ns(cycle)
        self._recorder.permits[warp] = 1
        self._run()
        self._recorder.permits[warp] = 0
        return self._take(warp).split(1)[1]

    def take(self, warp: int) -> Piece | None:
        """What a warp's buffer holds, without running the executor."""
        if not self._recorder.used[warp, 0]:
            return None
        piece = self._take(warp)
        return piece if piece.pcs else None

    def _take(self, warp: int) -> Piece:
        """Empty a warp's buffer. Segments are put in order; the start of one that the buffer's end cut off is held
        back.
        """
        recorder = self._recorder
        count, used = recorder.used[warp].tolist()
        cut = count == recorder.pcs.shape[1] or used + MAX_WORDS > recorder.words.shape[1]
        piece = Piece(
            recorder.pcs[warp, :count].tolist(),
            recorder.payload[warp, :count].tolist(),
            recorder.words[warp, :used].tolist(),
            recorder.executing[warp, :count].copy(),
        )
        recorder.used[warp] = 0
        held = self._held.pop(warp, None)
        if held is not None:
            piece = held.followed_by(piece)
        ordered = arrange(piece.pcs, piece.payload, self._starts, cut)
        if ordered < len(piece.pcs):
            piece, self._held[warp] = piece.split(ordered)
        return piece

    def _run(self) -> None:
        before = self.slot.instructions
        status, _ = self._cluster.run(_NO_LIMIT)
        if status == Outcome.DEADLOCK:
            raise deadlock([self.slot])
        if status not in (Outcome.DONE, Outcome.PAUSED):
            raise fault(self.slot, status)
        if self.slot.instructions != before:  # not if all its warps only stand before the clock, or have full buffers
            self._watch.ran(self.slot)
