"""Run a whole grid functionally.

Clusters (most are of one CTA) run one after another in launch order. One that does not finish within its turn (it waits in a
loop for another CTA, or is just long) stays resident while later ones start, as many as the device would hold at once, and all
get their turns. If everything that is resident comes back to a state it was in before, byte for byte, it will spin for ever:
that is reported as a deadlock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

import numpy as np

from tcsim.execute.cluster import Cluster
from tcsim.execute.cta import CtaSlot
from tcsim.execute.faults import deadlock, fault
from tcsim.execute.interpreter import Outcome

__all__ = ["SHORT_TURN", "TURN", "run_grid"]

TURN = 1 << 22
"""Warp instructions a CTA runs before another gets a turn."""

SHORT_TURN = 1 << 13
"""The same where all CTAs are resident anyway, because they wait for each other."""

PATIENT_ROUNDS = 4
"""Rounds of turns without a CTA finishing before looking for an endless loop."""

WATCHED_TURN = 1 << 18
"""The most that a CTA runs before another gets a turn from then on: a loop recurs at the end of some turn, however long."""


def run_grid(
    make_cluster: Callable[[], Cluster],
    clusters: int,
    resident: int,
    progress: Callable[[int, int], None] | None = None,
    turn: int = TURN,
) -> int:
    """Run all clusters. ``make_cluster`` provides slots for one, ``resident`` is how many the device holds at once,
    ``turn`` how many warp instructions one runs before another gets a turn.

    Returns the warp instructions executed. Raises KernelFault or DeadlockError.
    """
    return _Run(make_cluster, clusters, resident, progress, turn).run()


class _Run:
    def __init__(
        self,
        make_cluster: Callable[[], Cluster],
        clusters: int,
        resident: int,
        progress: Callable[[int, int], None] | None,
        turn: int,
    ) -> None:
        self.make_cluster, self.clusters, self.resident, self.progress = make_cluster, clusters, max(1, resident), progress
        self.turn = turn
        self.free: list[Cluster] = []
        self.running: deque[Cluster] = deque()
        self.numbers: Iterator[int] = iter(range(clusters))
        self.done = 0
        self.instructions = 0
        self.watch = _Watch()

    def run(self) -> int:
        pending = True
        while pending or self.running:
            if pending and len(self.running) < self.resident:
                number = next(self.numbers, None)
                if number is None:
                    pending = False
                    continue
                cluster = self.free.pop() if self.free else self.make_cluster()
                cluster.start(number)
            else:
                cluster = self.running.popleft()
                # Every resident cluster is waiting for its turn: the moment to see whether a whole round changed nothing.
                if (not pending or len(self.running) + 1 >= self.resident) and self.watch.stuck(cluster, self.running):
                    for one in (cluster, *self.running):
                        one.settle()
                    raise deadlock([slot for one in (cluster, *self.running) for slot in one.unfinished], spinning=True)
            self._turn(cluster)
        return self.instructions

    def _turn(self, cluster: Cluster) -> None:
        watching = self.watch.rounds > PATIENT_ROUNDS
        status, slot = cluster.run(min(self.turn, WATCHED_TURN) if watching else self.turn)
        if status == Outcome.PAUSED:
            self.running.append(cluster)
        elif status == Outcome.DONE:
            self.instructions += cluster.instructions
            self.done += 1
            self.free.append(cluster)
            self.watch.reset()
            if self.progress is not None:
                self.progress(self.done, self.clusters)
        elif status == Outcome.DEADLOCK:
            raise deadlock(cluster.unfinished)
        else:
            raise fault(slot, status)


class _Watch:
    """Finds an endless loop: the state of all resident clusters and of memory recurs (Brent's algorithm, a turn a step)."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.rounds = 0
        self.power = 1
        self.kept: tuple[int, int] | None = None
        self.first = -1

    def stuck(self, cluster: Cluster, others: deque[Cluster]) -> bool:
        """Called before a turn; counts a round each time the same cluster is up again."""
        if self.first < 0:
            self.first = cluster.number
        if cluster.number != self.first:
            return False
        self.rounds += 1
        if self.rounds <= PATIENT_ROUNDS:
            return False
        now = hash(tuple(_state(slot) for one in (cluster, *others) for slot in one.unfinished))
        memory = cluster.slots[0].memory
        if self.kept is not None and self.kept == (now, memory.fingerprint() if now == self.kept[0] else 0):
            return True
        if self.kept is None or self.rounds >= self.power * 2:
            self.power, self.kept = self.rounds, (now, memory.fingerprint())
        return False


def _state(slot: CtaSlot) -> int:
    arrays = slot.arrays
    parts = (arrays.blocks, arrays.pc, arrays.mask, arrays.state, arrays.awaits, arrays.arrived, slot.shared, slot.local)
    return hash((slot.number, *(np.ascontiguousarray(part).tobytes() for part in parts)))
