"""Runs the compiled loop, and does in between what only Python can: the executor's part, and the work distributor's."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tcsim.errors import DeadlockError
from tcsim.execute.start import start_and_run_address
from tcsim.timing.compiled.loop import ENDED, FEED, FINISHED, REPORT, STARTED, STUCK, TIME, run_chip
from tcsim.timing.compiled.state import (
    C_NUMBER,
    G_CTAS,
    G_DRY,
    G_NOW,
    G_PLACE,
    G_QUICK,
    G_ROW,
    G_SM,
    G_SPARE,
    G_STATUS,
    G_WARP_CYCLES,
    G_WARPS,
    M_ACTIVE,
    M_AGENDA,
    M_FINISHED,
    O_BEGIN,
    O_REPORT,
    O_RETIRE,
    START,
    W_BASE,
    ChipState,
)
from tcsim.timing.counters import Counters
from tcsim.timing.scoreboard import REASON, SHIFT
from tcsim.timing.stream import Streams
from tcsim.timing.work_distributor import WorkDistributor

__all__ = ["CompiledChip"]

_BARRIER = REASON["barrier"]


class CompiledChip:
    """A chip for one launch."""

    def __init__(
        self,
        state: ChipState,
        streams: Streams,
        distributor: WorkDistributor,
        members: Callable[[int], Sequence[int]],
        launch_cycles: int,
    ) -> None:
        """``members``: the CTAs of a cluster, by rank. ``launch_cycles``: from a CTA's dispatch to its start."""
        self.state, self.streams, self._distributor = state, streams, distributor
        self._members, self._launch_cycles = members, launch_cycles
        self._items = len(state.agendas) // len(state.sms)
        self._starved: dict[int, list[int]] = {}  # rows, by site
        if streams.quick:
            state.options[O_BEGIN], state.options[O_RETIRE] = start_and_run_address(), distributor.address
            state.options[O_REPORT] = distributor.report_every
            state.signals[G_SPARE] = streams.spare()

    def expect(self, site: int, cluster: int, dispatched: int) -> None:
        """The work distributor sends a cluster, dispatched in that cycle."""
        c, time = self.state, dispatched + self._launch_cycles
        self.streams.expect(site, cluster)
        for place, cta in zip(self.streams.placement.sites[site], self._members(cluster), strict=True):
            sm = self.streams.placement.sm_of(place)
            c.agendas[sm * self._items + c.sms[sm, M_AGENDA]] = time, START, cta, place
            c.sms[sm, M_AGENDA] += 1
            c.next[sm] = min(c.next[sm], time)

    def run(self, kernel: str) -> None:
        """Run until no CTA is left. Raises DeadlockError, and what the executor raises."""
        c, signals, streams = self.state, self.state.signals, self.streams
        rows, bases = np.zeros(len(c.warps), np.int64), np.zeros(len(c.warps), np.int64)
        count = 0
        while True:
            why = run_chip(c.address, rows, bases, count, len(c.sms))
            count = 0
            if why in (FINISHED, REPORT) and streams.quick:
                self._distributor.report()
            if why == FINISHED:
                return
            if why == STUCK:
                raise stuck(kernel, int(signals[G_SM]))
            if why == STARTED:
                self._started(int(signals[G_PLACE]))
            elif why == ENDED:
                place = int(signals[G_PLACE])
                following = self._distributor.replace(int(signals[G_NOW])) if self.streams.end(place) else None
                if following is not None:
                    self.expect(self.streams.placement.site_of[place], *following)
            elif why == TIME:
                row = int(signals[G_ROW])
                self.streams.tell_time(row, int(signals[G_NOW]))
                rows[0], bases[0] = row, c.warps[row, W_BASE]
                count = self._feed_starved(row, rows, bases, 1)
            if why in (STARTED, FEED):
                count = self._feed(rows, bases)

    def _started(self, place: int) -> None:
        """A CTA occupies a place; where compiled code starts them, it has also run, but not to its end."""
        if not self.streams.quick:
            self.streams.start(place)
            return
        self._note_others()
        self.streams.adopt(place, int(self.state.ctas[place, C_NUMBER]), int(self.state.signals[G_STATUS]))
        self.state.signals[G_SPARE] = self.streams.spare()

    def _note_others(self) -> None:
        signals = self.state.signals
        self.streams.note_others(int(signals[G_QUICK]), int(signals[G_CTAS]))

    def _feed(self, rows: np.ndarray, bases: np.ndarray) -> int:
        """Pull more instructions for the warps that have none left. Returns how many go on, in ``rows`` from ``bases``."""
        c, signals, streams, buffers = self.state, self.state.signals, self.streams, self.streams.buffers
        settled, at, site_of, warps = buffers.settled, buffers.at, streams.placement.site_of, streams.warps
        count = 0
        if streams.quick:
            self._note_others()
        dry = streams.asking = c.dry[: signals[G_DRY]].tolist()
        signals[G_DRY] = 0
        while dry:
            row = dry.pop()
            base = c.warps[row, W_BASE]
            if settled[row] > at[row] + 1 or streams.feed(row):
                rows[count], bases[count] = row, base
                count += 1
            else:
                self._starved.setdefault(site_of[row // warps], []).append(row)
            if self._starved:
                count = self._feed_starved(row, rows, bases, count)
        return count

    def _feed_starved(self, row: int, rows: np.ndarray, bases: np.ndarray, count: int) -> int:
        """A warp has got instructions: see which of its cluster can go on, too, after ``count`` others."""
        c, now = self.state, int(self.state.signals[G_NOW])
        starved = self._starved.get(self.streams.placement.site_of[row // self.streams.warps], [])
        for other in tuple(starved):
            if self.streams.has(other):
                starved.remove(other)
                since = max(now, int(c.warps[other, W_BASE]) >> SHIFT)
                rows[count], bases[count] = other, (since << SHIFT) + _BARRIER
                count += 1
        return count

    def count(self, counters: Counters) -> int:
        """Add up what was counted; returns the cycle in which the last CTA ended."""
        c = self.state
        counters.stalls = c.stalls.tolist()
        counters.sm_active[: len(c.sms)] = c.sms[:, M_ACTIVE].tolist()
        counters.ctas, counters.warps = int(c.signals[G_CTAS]), int(c.signals[G_WARPS])
        counters.warp_cycles = int(c.signals[G_WARP_CYCLES])
        return int(c.sms[:, M_FINISHED].max())


def stuck(kernel: str, sm: int) -> DeadlockError:
    """The error for barriers that never open."""
    return DeadlockError(
        f"DEADLOCK  kernel {kernel}: barriers of the CTAs on SM {sm} do not open in the order of time, though they did in "
        "another order. Threads arrive at a barrier that others still use (PTX ISA 9.7.13.1). Try a barrier number of its own "
        "for each purpose"
    )
