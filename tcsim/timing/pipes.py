"""Execution pipes of a sub-partition, as timestamped reservations: a pipe is the cycle from which it takes another
instruction.

``reserved`` counts the cycles for which the pipe turned instructions away, up to the last reservation. Its value at two
moments tells how many of the cycles between them a waiting warp was throttled, without anyone looking every cycle.
"""

from __future__ import annotations

from tcsim.arch.timing_spec import Pipe as PipeSpec
from tcsim.timing.scoreboard import REASON

__all__ = ["Pipe", "Queue", "make_pipe"]


class Pipe:
    """A pipe that takes an instruction when it can start it. ``throttle``: code of the stall reason meanwhile, for
    other warps than ``user``, the last to use it: in machine code a warp's own next instruction is kept off by its
    stall count, and that is ``wait``.
    """

    __slots__ = ("free", "reserved", "throttle", "user")

    def __init__(self, throttle: int) -> None:
        self.throttle = throttle
        self.free = 0
        self.reserved = 0
        self.user: object = None

    def take(self, now: int, start: int, busy: int) -> None:
        """Take an instruction that issues at cycle ``now``, starts at ``start`` and is ``busy`` cycles in the first
        stage.
        """
        self.free = start + busy
        self.reserved += self.free - now - 1

    def refused_before(self, cycle: int) -> int:
        """Cycles before ``cycle`` in which the pipe took nothing, if nothing has been reserved since ``cycle``."""
        rest = self.free - cycle
        return self.reserved - rest if rest > 0 else self.reserved


class Queue(Pipe):
    """A pipe with a queue in front: it takes instructions until ``depth`` of them wait to start. ``next``: the first cycle in
    which one that needs no other unit can start.
    """

    __slots__ = ("_oldest", "_starts", "next")

    def __init__(self, throttle: int, depth: int) -> None:
        super().__init__(throttle)
        self._starts = [0] * depth
        self._oldest = self.next = 0

    def take(self, now: int, start: int, busy: int) -> None:
        """Take an instruction that leaves the queue at cycle ``start``."""
        starts = self._starts
        starts[self._oldest] = start
        self._oldest = (self._oldest + 1) % len(starts)
        refuses_from = max(self.free, now + 1)  # later than now + 1 only for further parts of one instruction
        self.free = max(refuses_from, starts[self._oldest])
        self.reserved += self.free - refuses_from


def make_pipe(spec: PipeSpec) -> Pipe:
    """A pipe as a chip's table describes it."""
    throttle = REASON[spec.throttle]
    return Queue(throttle, spec.queue) if spec.queue else Pipe(throttle)
