"""The instructions that warps execute, pulled from the executor a piece at a time.

The executor runs ahead of time by at most a buffer per warp, so a grid of any size needs the same memory. Values are settled
there; here they are only asked for: when a warp has issued all that its buffer holds, its CTA runs on until the buffers of its
warps are full again. Where an instruction's result depends on when it executes, the executor stands before it until the timing
model says what time it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa.compiled import compiled
from isa.program import GUARD, KIND, Kind, Program
from tcsim.execute.accesses import MAX_WORDS, PEERS
from tcsim.execute.cluster import Cluster
from tcsim.execute.convergence import YIELDED
from tcsim.execute.cta import CtaSlot
from tcsim.execute.faults import deadlock, fault
from tcsim.execute.groups import RUNS, USED
from tcsim.execute.interpreter import Outcome
from tcsim.execute.recorder import Recorder, record, recorded
from tcsim.execute.state import GroupState
from tcsim.timing.placement import Placement
from tcsim.timing.schedule import Segment, arrange
from tcsim.timing.watch import SpinWatch

__all__ = ["Buffers", "Streams", "new_buffers", "records_per_warp"]

_RECORDS = 1 << 21
_FEWEST, _MOST = 128, 1024
_NO_LIMIT = 1 << 40
_WORDS_PER_RECORD = 4
PATIENCE = 64
"""Instructions that depend on time and that a group of machine code may execute before another group of its warp has its turn:
assumed; loops that wait have a YIELD of ptxas's."""


def records_per_warp(resident_warps: int) -> int:
    """Buffer length with which all warps resident on the chip have two million records (about 100 MB)."""
    return max(_FEWEST, min(_MOST, _RECORDS // max(1, resident_warps)))


class Buffers(NamedTuple):
    """What warps will issue, by row (a warp's place on the chip): arrays [row, record] and ``words`` [row, word] as of a
    :class:`~tcsim.execute.recorder.Recorder`.

    ``used``: int64 [row, 2], records and words written. ``settled``: how many of the records are in the order in which they
    issue. ``at``: the record that the warp stands before or has issued last; -1 before the first.
    """

    pcs: NDArray[np.int32]
    executing: NDArray[np.uint32]
    payload: NDArray[np.int32]
    words: NDArray[np.int64]
    used: NDArray[np.int64]
    settled: NDArray[np.int64]
    at: NDArray[np.int64]


def new_buffers(rows: int, records: int) -> Buffers:
    """Empty buffers of ``records`` for ``rows`` warps."""
    shape = (rows, records)
    return Buffers(
        pcs=np.zeros(shape, np.int32),
        executing=np.zeros(shape, np.uint32),
        payload=np.zeros(shape, np.int32),
        words=np.zeros((rows, 2 * MAX_WORDS + _WORDS_PER_RECORD * records), np.int64),
        used=np.zeros((rows, 2), np.int64),
        settled=np.zeros(rows, np.int64),
        at=np.zeros(rows, np.int64),
    )


@compiled
def _compact(b, first, count):
    """Move what is still needed to the start of the buffers of ``count`` warps from row ``first`` on."""
    for row in range(first, first + count):
        shift = b.at[row]
        if shift <= 0:
            continue
        records = max(b.used[row, 0], b.settled[row])  # the last may be one that the executor stands before
        end = b.used[row, 1] if records == b.used[row, 0] else min(b.used[row, 1] + MAX_WORDS, b.words.shape[1])
        words = end
        for index in range(shift, records):
            at = b.payload[row, index]
            if 0 <= at < words:
                words = np.int64(at)
        for index in range(shift, records):
            to = index - shift
            b.pcs[row, to] = b.pcs[row, index]
            b.executing[row, to] = b.executing[row, index]
            at = b.payload[row, index]
            b.payload[row, to] = at - words if at >= 0 else at
        for index in range(words, end):
            b.words[row, index - words] = b.words[row, index]
        b.used[row, 0] -= shift
        b.used[row, 1] = max(0, b.used[row, 1] - words)
        b.settled[row] -= shift
        b.at[row] = 0


class Streams:
    """The CTA slots of a launch, by place, and the buffers of their warps: warp w of place p has row ``p * warps + w``.
    ``make_slot``: an executor's slot for an SM and a rank, with a recorder. ``starved``: by site, warps (whatever an engine
    calls them) without instructions until others of their cluster have gone on. ``quick``: whether compiled code may start CTAs
    and run them (:mod:`tcsim.timing.compiled.starting`).
    """

    def __init__(
        self,
        program: Program,
        warps: int,
        placement: Placement,
        records: int,
        make_slot: Callable[[int, int, Recorder], CtaSlot],
        pool: int,
        counts: NDArray[np.int64],
        starts: Sequence[Segment | None],
        clock_ns: Callable[[int], int],
        watch: SpinWatch,
        timed: NDArray[np.bool_],
    ) -> None:
        """``timed``: instructions that must not execute before their time, besides those that read it. ``is_dry``, ``asking``
        (engines set one of them): whether some warp is about to ask for more instructions, or those that are."""
        self.is_dry: Callable[[], bool] = lambda: False
        self.asking: Sequence[int] = ()
        self.warps, self.placement, self.buffers = warps, placement, new_buffers(placement.places * warps, records)
        self.counts = counts
        self._program, self._make_slot, self._watch, self._clock_ns = program, make_slot, watch, clock_ns
        self._starts = starts if any(start is not None for start in starts) else None
        calls = bool((program.code[:, KIND] == Kind.HOST_CALL).any())
        pattern = recorded(program, pool, counts)
        self._pattern = pattern._replace(timed=pattern.timed | timed)
        self._any_timed = bool(self._pattern.timed.any())
        self.quick = placement.size == 1 and self._starts is None and not self._any_timed and not calls
        self._spare: Cluster | None = None
        self._passing = self._arrived = 0  # CTAs that compiled code has executed, and that have not ended; that have started
        self._held: dict[tuple[int, int], int] = {}  # of a slot's warp, how often the group whose turn it is has had it
        self._told = np.zeros(placement.places * warps, bool)  # warps that have executed one of these since the last round
        self._peers = np.array(placement.sites, np.int64) // placement.per_sm
        self._clusters: list[Cluster | None] = [None] * len(placement.sites)  # that execute; None if all is executed
        self._free: list[Cluster] = []  # for others: what is left to do is in the buffers
        self._number = [-1] * len(placement.sites)  # of the cluster that comes to each site, or has come
        self._running: list[dict[int, int]] = [{} for _ in placement.sites]  # numbers of its CTAs that have not ended, by place

    def _slot(self, place: int) -> CtaSlot:
        cluster = self._clusters[self.placement.site_of[place]]
        assert cluster is not None
        return cluster.slots[self.placement.rank_of[place]]

    def peers(self, place: int) -> int:
        """The address of the SMs of a cluster's CTAs, by rank; 0 if it is the only one."""
        return int(self._peers[self.placement.site_of[place]].ctypes.data) if self.placement.size > 1 else 0

    def _rows(self, place: int) -> slice:
        return slice(place * self.warps, (place + 1) * self.warps)

    def _parts(self, place: int) -> tuple[NDArray[Any], ...]:
        """The buffers of a place."""
        rows, b = self._rows(place), self.buffers
        return b.pcs[rows], b.executing[rows], b.payload[rows], b.words[rows], b.used[rows]

    def _new_cluster(self, places: Sequence[int]) -> Cluster:
        def slot(rank: int) -> CtaSlot:
            recorder = Recorder(self._pattern, *self._parts(places[rank]))
            return self._make_slot(self.placement.sm_of(places[rank]), rank, recorder)

        return Cluster(slot, len(places))

    def expect(self, site: int, number: int) -> None:
        """Cluster ``number`` is next to come to a site."""
        self._number[site] = number

    def start(self, place: int) -> None:
        """A CTA of the cluster that was expected occupies its place; with the first of them all get empty buffers."""
        site = self.placement.site_of[place]
        if self._running[site]:
            return
        places = self.placement.sites[site]
        cluster = self._free.pop() if self._free else self._new_cluster(places)
        self._clusters[site] = cluster
        for slot, each in zip(cluster.slots, places, strict=True):
            assert slot.recorder is not None
            slot.recorder.write_to(*self._parts(each))
            slot.recorder.permits[...] = 0
            slot.recorder.last[...] = 31
            slot.sm, slot.ctx[PEERS] = self.placement.sm_of(each), self.peers(each)
            rows = self._rows(each)
            self.buffers.used[rows] = 0
            self.buffers.settled[rows] = 0
            self.buffers.at[rows] = -1
        cluster.start(self._number[site])
        for slot in cluster.slots:
            self._watch.started(slot)
        self._running[site] = {each: slot.number for slot, each in zip(cluster.slots, places, strict=True)}

    def spare(self) -> int:
        """The address of the table of a slot in which compiled code may run CTAs, until one of them is adopted."""
        self._spare = self._free.pop() if self._free else self._new_cluster(self.placement.sites[0])
        return self._spare.slots[0].address

    def adopt(self, place: int, number: int, status: int) -> None:
        """Compiled code has started CTA ``number`` in a place, in the spare slot, and executed it until this outcome. Raises
        KernelFault or DeadlockError."""
        cluster = self._spare
        assert cluster is not None
        slot, site = cluster.slots[0], self.placement.site_of[place]
        assert slot.recorder is not None
        slot.recorder.write_to(*self._parts(place))
        slot.number = cluster.number = number
        slot.sm, cluster.unfinished = self.placement.sm_of(place), [slot]
        self._clusters[site], self._running[site] = cluster, {place: number}
        self._watch.started(slot)
        if status == Outcome.DEADLOCK:
            raise deadlock(cluster.unfinished)
        if status not in (Outcome.PAUSED, Outcome.WAITING):
            raise fault(slot, status)
        self._watch.ran(slot, self._all_told)
        if status == Outcome.WAITING:
            self._run(site)

    def note_others(self, passing: int, arrived: int) -> None:
        """How many CTAs compiled code has executed that have not ended, and how many CTAs have started so far."""
        self._passing = passing
        if arrived != self._arrived:
            self._arrived = arrived
            self._watch.forget()

    def end(self, place: int) -> bool:
        """The CTA in a place has ended in time. Returns whether it was the last of its cluster."""
        site = self.placement.site_of[place]
        self._watch.ended(self._running[site].pop(place))
        return not self._running[site]

    def feed(self, row: int) -> bool:
        """See that a warp that has issued all its records gets more. False if it waits for others of its CTA that have
        instructions to issue first.

        Where the next instruction depends on time, it comes alone and before it is executed: :meth:`tell_time` does that.
        Raises KernelFault or DeadlockError.
        """
        b = self.buffers
        place = row // self.warps
        while b.settled[row] <= b.at[row] + 1:
            rows = self._rows(place)
            if b.at[rows].max() > 0:
                _compact(b, rows.start, self.warps)
            if self._stand(place, row):
                return True
            before = int(b.used[row, 0])
            self._run(self.placement.site_of[place])
            if int(b.used[row, 0]) == before:
                return self._stand(place, row)
        return True

    def has(self, row: int) -> bool:
        """Whether a warp has something to issue, without running the executor."""
        return bool(self.buffers.settled[row] > self.buffers.at[row] + 1)

    def _stand(self, place: int, row: int) -> bool:
        """Write down the instruction that depends on time, if that is what a warp stands before."""
        if not self._any_timed or self._clusters[self.placement.site_of[place]] is None:
            return False
        slot = self._slot(place)
        assert slot.recorder is not None
        arrays, recorder = slot.arrays, slot.recorder
        warp = row % self.warps
        group = self._next_group(slot, warp)
        if group < 0 or not recorder.timed[arrays.pc[warp, group]]:
            return False
        pc = int(arrays.pc[warp, group])
        active = int(arrays.mask[warp, group])
        executing, guard = active, int(self._program.code[pc, GUARD])
        if guard >= 0:
            word = int(arrays.blocks[warp, guard >> 1])
            executing &= ~word if guard & 1 else word
        used, counts = self.buffers.used[row].copy(), self.counts[pc].copy()
        recorder.permits[warp] = 1
        base = arrays.blocks[warp].ctypes.data
        written = record(recorder, warp, pc, active, executing, base, slot.ctx.ctypes.data)
        recorder.permits[warp] = 0
        self.buffers.used[row], self.counts[pc] = used, counts  # it is written again when it executes
        if written:
            self.buffers.settled[row] = int(used[0]) + 1
        return written

    def tell_time(self, row: int, cycle: int) -> None:
        """Let a warp execute, in this cycle, the instruction that depends on time, and go on."""
        place, warp = divmod(row, self.warps)
        slot = self._slot(place)
        assert slot.recorder is not None
        recorder = slot.recorder
        recorder.now[warp] = cycle, self._clock_ns(cycle)
        recorder.permits[warp] = 1
        self._told[row] = True
        turn = self._next_group(slot, warp)
        self._run(self.placement.site_of[place])
        recorder.permits[warp] = 0
        self._end_turn(slot, warp, turn)

    def _end_turn(self, slot: CtaSlot, warp: int, turn: int) -> None:
        """Say whose turn is next, now that the group whose turn it was has executed an instruction that depends on time. Groups
        of PTX take turns. Those of machine code go on until they yield or wait, as on an H200, and for PATIENCE such
        instructions at most: while one holds a lock others need not try."""
        assert slot.recorder is not None
        last, arrays = slot.recorder.last, slot.arrays
        if self._program.image is None:
            last[warp] = turn
            return
        ready = [group for group in range(32) if arrays.mask[warp, group] and arrays.state[warp, group] == GroupState.READY]
        meet, place = arrays.meet[warp], (id(slot), warp)
        self._held[place] = self._held.get(place, 0) + 1
        if self._held[place] >= PATIENCE and turn in ready:
            meet[turn] = YIELDED
        staying = [group for group in ready if meet[group] != YIELDED]
        if not staying:
            meet[ready] = -1
            staying = ready
        following = next((group for group in staying if group >= turn), min(staying, default=turn))
        if following != turn:
            self._held[place] = 0
        last[warp] = following - 1 & 31
        arrays.turns[warp, RUNS], arrays.turns[warp, USED] = following, 0  # what the interpreter goes by where ``last`` is 31

    @staticmethod
    def _next_group(slot: CtaSlot, warp: int) -> int:
        """The group of a warp whose turn it is; -1 if none is ready."""
        assert slot.recorder is not None
        mask, state, last = slot.arrays.mask[warp], slot.arrays.state[warp], int(slot.recorder.last[warp])
        runs = int(slot.arrays.turns[warp, RUNS])
        if last == 31 and runs >= 0 and mask[runs] and state[runs] == GroupState.READY:
            return runs  # as the interpreter has it
        turns = ((last + step) & 31 for step in range(1, 33))
        return next((group for group in turns if mask[group] and state[group] == GroupState.READY), -1)

    def _all_told(self) -> bool:
        """Whether no warp has anything to issue without having executed something that depends on time since the last round: if
        any has, it may yet do what others wait for."""
        b = self.buffers
        if self._passing:
            return False
        if self.asking or self.is_dry() or (~self._told & ((b.settled > b.at + 1) | (b.settled > b.used[:, 0]))).any():
            return False
        self._told[:] = False
        return True

    def _settle(self, row: int) -> None:
        """Put new records in the order in which they issue; the start of a segment that the buffer's end cut off is kept for
        later."""
        b = self.buffers
        count, words = b.used[row].tolist()
        first = int(b.settled[row])
        if self._starts is None or first >= count:
            b.settled[row] = count
            return
        cut = first > 1 and (count == b.pcs.shape[1] or words + MAX_WORDS > b.words.shape[1])
        pcs, payload = b.pcs[row, first:count].tolist(), b.payload[row, first:count].tolist()
        b.settled[row] = first + arrange(pcs, payload, self._starts, cut)
        b.pcs[row, first:count], b.payload[row, first:count] = pcs, payload

    def _run(self, site: int) -> None:
        """Let the cluster at a site run as far as it can, and settle what it has recorded."""
        cluster, places = self._clusters[site], self.placement.sites[site]
        assert cluster is not None
        before = [slot.instructions for slot in cluster.slots]
        held = [self.buffers.settled[self._rows(place)].copy() for place in places]
        status, stopped = cluster.run(_NO_LIMIT)
        if status == Outcome.DEADLOCK:
            raise deadlock(cluster.unfinished)
        if status not in (Outcome.DONE, Outcome.PAUSED):
            raise fault(stopped, status)
        for slot, place, count, settled in zip(cluster.slots, places, before, held, strict=True):
            if slot.instructions != count:  # not if all its warps only stand before the clock, or have full buffers
                self._watch.ran(slot, self._all_told)
            self._settle_place(place, settled)
        if status == Outcome.DONE:
            self._clusters[site] = None
            self._free.append(cluster)

    def _settle_place(self, place: int, held: NDArray[np.int64]) -> None:
        rows, b = self._rows(place), self.buffers
        if self._starts is None:
            standing = held > b.used[rows, 0]
            b.settled[rows] = b.used[rows, 0] + standing
            return
        for row in range(rows.start, rows.stop):
            if b.settled[row] <= b.used[row, 0]:
                self._settle(row)
