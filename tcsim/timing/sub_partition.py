"""A sub-partition of an SM: a warp scheduler with its pipes, issuing at most one instruction a cycle.

Nothing is done for cycles in which nothing happens. A warp that has issued works out from the scoreboard when its next
instruction can issue; until then it is *pending*, afterwards *ready* and only waits for its pipe and its turn. The
scheduler goes from one cycle in which something can issue to the next (``next``).
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from tcsim.arch.timing_spec import Chip
from tcsim.timing.counters import Counters
from tcsim.timing.issue import NO_WAIT, Entry, IssueTable, Unit
from tcsim.timing.machine_table import MachineTable
from tcsim.timing.pipes import Queue, make_pipe
from tcsim.timing.scoreboard import REASON, SHIFT
from tcsim.timing.units import NEVER
from tcsim.timing.warp import Warp

if TYPE_CHECKING:
    from tcsim.timing.sm import Sm

__all__ = ["SubPartition"]

_SELECTED = REASON["selected"]
_NOT_SELECTED = REASON["not_selected"]
_LONG = REASON["long_scoreboard"]
_WAIT = REASON["wait"]
_MEMBAR = REASON["membar"]
_NO_INSTRUCTION = REASON["no_instruction"]
_CONSTANT_MISS = REASON["imc_miss"]
_SHORT = REASON["short_scoreboard"]
_RESOLVING = REASON["branch_resolving"]
_DISPATCH = REASON["dispatch_stall"]
_MASK = (1 << SHIFT) - 1
_AGES = 1 << 24
_CYCLES = 1 << 48
assert _SELECTED == 0
_RANKS: dict[str, Callable[[Warp], int]] = {
    "least_recent": lambda warp: warp.issued * _AGES + warp.age,
    "oldest": lambda warp: warp.age,
    "youngest": lambda warp: -warp.age,
    "oldest_cta": lambda warp: ((warp.age - warp.number) * _CYCLES + warp.issued) * _AGES + warp.age,
}
"""By order of the scheduler: the warp with the smallest number is chosen."""


class SubPartition:
    """``next``: the first cycle in which something may issue. ``warps``: how many are resident. ``execute``: for each
    :class:`~tcsim.timing.issue.Unit`, what does the instruction once it has issued.
    """

    def __init__(self, sm: Sm, number: int, chip: Chip, table: IssueTable | MachineTable, counters: Counters) -> None:
        self.sm, self.number = sm, number
        self.pipes = [make_pipe(chip.pipes[name]) for name in table.pipes]
        self.execute: list[Callable[[SubPartition, Warp, Entry, int], None]] = []
        self.next = NEVER
        self.warps = 0
        self._entries = table.entries
        self._stalls = counters.stalls
        self._greedy = chip.scheduler.greedy
        self._rank = _RANKS[chip.scheduler.order]
        self._jump_interval, self._jump_apart = chip.scheduler.jump_interval, chip.scheduler.jump_apart
        self._fetch_free = 0
        self._even = self._odd = 0  # cycles from which the banks of the register file are free
        self._collecting = chip.scheduler.operand_cycles
        self._guard_delay = chip.scheduler.guard_delay << SHIFT
        self._pending: list[tuple[int, int, Warp]] = []  # a heap by the cycle in which they become ready
        self._ready: list[Warp] = []  # in the order in which they are to be chosen
        self._last: Warp | None = None
        self._earliest = 0  # the first cycle after the last issue

    # ------------------------------------------------------------------------------------------------------ choosing

    def choose(self, now: int) -> Warp | None:
        """The warp that issues in cycle ``now``, which must be ``next``; None if none can, after which ``next`` is
        later.
        """
        pending = self._pending
        while pending and pending[0][0] <= now:
            self._make_ready(heappop(pending)[2])
        ready = self._ready
        last = self._last
        if self._greedy and last in ready and self._free(last) <= now:
            return last
        soonest = pending[0][0] if pending else NEVER
        for warp in ready:
            free = self._free(warp)
            if free <= now:
                return warp
            if free < soonest:
                soonest = free
        self.next = soonest
        return None

    def _free(self, warp: Warp) -> int:
        """When a pipe takes the next instruction of a warp."""
        return min(warp.pipe.free, self.pipes[warp.entry.other].free)

    def _make_ready(self, warp: Warp) -> None:
        """All operands are there: the warp competes for its pipe and for the issue slot."""
        warp.refused = warp.pipe.refused_before(warp.ready_at)
        ready = self._ready
        if ready:
            rank = self._rank(warp)
            for position, other in enumerate(ready):
                if rank < self._rank(other):
                    ready.insert(position, warp)
                    return
        ready.append(warp)

    # ------------------------------------------------------------------------------------------------------- issuing

    def issue(self, warp: Warp, now: int) -> None:
        """Issue the next instruction of a warp that :meth:`choose` gave for cycle ``now``."""
        entry = warp.entry
        self._account(warp, entry, now)
        self._ready.remove(warp)
        self._last = warp
        held = entry.dispatch + (self._read_registers(entry, now) if entry.even or entry.odd else 0)
        self._earliest = now + entry.slots + held
        warp.last = now + entry.extra_slots
        if entry.jump:
            warp.behind = entry.pc + 1
        else:
            warp.behind = -1
        warp.issued = now
        if self._ready:
            self.next = self._earliest
        elif self._pending:
            self.next = max(self._pending[0][0], self._earliest)
        else:
            self.next = NEVER
        if entry.unit == Unit.PIPE:
            pipe = warp.pipe if warp.pipe.free <= now else self.pipes[entry.other]
            start = now
            if isinstance(pipe, Queue):
                start = max(now, pipe.next)
                pipe.next = start + entry.busy
                pipe.take(now, start, entry.busy)
            else:
                pipe.free = now + entry.busy
                pipe.reserved += entry.busy - 1
            pipe.user = warp
            if entry.writes or entry.order:
                warp.deliver((start << SHIFT) + entry.result)
            if entry.source:
                warp.read(start, _SHORT)
            base = (now << SHIFT) + entry.after
            self.advance(warp, max(base, (now + 1 + held << SHIFT) + _DISPATCH) if held else base)
        else:
            self.execute[entry.unit](self, warp, entry, now)

    def _read_registers(self, entry: Entry, now: int) -> int:
        """Take the registers of an instruction; returns for how many cycles nothing can issue because of that."""
        self._even, self._odd = max(self._even, now) + entry.even, max(self._odd, now) + entry.odd
        return max(0, max(self._even, self._odd) - now - self._collecting)

    def _account(self, warp: Warp, entry: Entry, now: int) -> None:
        """Give each cycle since the last issue its reason: not ready, then refused by the pipe or not selected."""
        stalls = self._stalls
        row = entry.row
        ready_at = warp.ready_at
        stalls[row] += entry.slots
        stalled = ready_at - warp.last - 1
        if stalled > 0:
            stalls[row + warp.reason] += stalled
        waited = now - ready_at
        if waited > 0:
            pipe = warp.pipe
            refused = pipe.reserved - warp.refused
            if refused > waited:
                refused = waited
            if refused:
                stalls[row + (_WAIT if pipe.user is warp else pipe.throttle)] += refused
            stalls[row + _NOT_SELECTED] += waited - refused

    # ------------------------------------------------------------------------------------------------- going on to next

    def advance(self, warp: Warp, base: int) -> None:
        """Move a warp on to its next instruction that takes an issue slot, and work out when that can issue.

        ``base``: the earliest cycle for it and why not earlier, as in the scoreboard.
        """
        buffers, row = warp.buffers, warp.row
        index = int(buffers.at[row]) + 1
        count = int(buffers.settled[row])
        pcs = buffers.pcs[row]
        scoreboard = warp.scoreboard
        while index < count:
            entry = self._entries[pcs[index]]
            latest = max(entry.operands(scoreboard))
            if entry.free:  # its result is ready when its operands are
                for place in entry.writes:
                    scoreboard[place] = latest
                index += 1
                continue
            buffers.at[row] = index
            warp.entry = entry
            warp.pipe = self.pipes[entry.pipe]
            held = (base >> SHIFT) - warp.last - 1
            if held > 0:  # the stall count comes first, as Nsight Compute counts
                self.sm.charge(warp, entry, base & _MASK, held)
            if warp.behind >= 0 and entry.pc != warp.behind:
                base = max(base, self._jump(warp, entry.pc, index))
            if latest < base:
                latest = base
            if entry.guard:
                guard = scoreboard[entry.guard] + self._guard_delay
                if latest < guard:
                    latest = guard
            if entry.block != warp.block:
                warp.block = entry.block
                held = self.sm.fetch(entry.block, base >> SHIFT) - warp.last - 1
                if held > 0:  # so does the instruction itself
                    self.sm.charge(warp, entry, _NO_INSTRUCTION, held)
                latest = max(latest, warp.last + 1 << SHIFT)
            if entry.constants >= 0 and entry.unit != Unit.CONSTANT:
                latest = max(latest, (self.sm.memory.constants(entry.constants, latest >> SHIFT) << SHIFT) + _CONSTANT_MISS)
            if entry.special:
                latest = max(latest, self._special(warp, entry, latest >> SHIFT))
            warp.ready_at = ready_at = latest >> SHIFT
            warp.reason = latest & _MASK
            if ready_at <= self._earliest:
                self._make_ready(warp)
                if self._earliest < self.next:
                    self.next = self._earliest
            else:
                heappush(self._pending, (ready_at, warp.age, warp))
                if ready_at < self.next:
                    self.next = ready_at
            return
        buffers.at[row] = count - 1
        warp.base = base
        self.sm.dry.append(warp)

    def _jump(self, warp: Warp, target: int, index: int) -> int:
        """When a warp that goes elsewhere, to record ``index``, can go on, as in the scoreboard: the fetch unit takes one such
        after another."""
        branch = self._entries[warp.behind - 1]
        there = warp.issued + (branch.jump if target > warp.behind else branch.jump_back)
        if index > 1 and self._leaves_a_loop(warp, index):
            there += self._jump_apart
        there = max(there, self._fetch_free)
        self._fetch_free = there + self._jump_interval
        return (there << SHIFT) + _RESOLVING

    def _leaves_a_loop(self, warp: Warp, index: int) -> bool:
        """Whether some lanes have just come to wait behind a branch by which record ``index``, of others, goes back."""
        pcs, executing = warp.buffers.pcs[warp.row], warp.buffers.executing[warp.row]
        branch, waiting = int(pcs[index - 2]), int(pcs[index - 1])
        if waiting != branch + 1 or pcs[index] > branch or not self._entries[branch].jump:
            return False
        return bool(executing[index - 2] and executing[index - 1] and not executing[index - 2] & executing[index - 1])

    def _special(self, warp: Warp, entry: Entry, now: int) -> int:
        """What an instruction that could issue in cycle ``now`` waits for: earlier copies, or, a fence, the L2's word that all
        accesses since the last one are done, which it asks for even if they have been answered."""
        if entry.keep_groups != NO_WAIT:
            return (warp.copies_done(entry.keep_groups) << SHIFT) + _LONG
        if warp.stores_done == 0:
            return 0
        done = max(warp.stores_done, now + self.sm.memory.acknowledged)
        warp.stores_done = 0
        return (done << SHIFT) + _MEMBAR
