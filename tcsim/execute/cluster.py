"""A cluster: CTAs that run at the same time and reach each other's shared memory (PTX ISA 2.2.2). Most have only one CTA."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from isa import machine
from tcsim.execute.cta import INSISTING, CtaSlot
from tcsim.execute.interpreter import Outcome

__all__ = ["Cluster"]


class Cluster:
    """Slots for the CTAs of one cluster at a time, by rank. ``number``: the cluster that occupies them, in launch order.

    ``make_slot`` is called with the rank of each.
    """

    def __init__(self, make_slot: Callable[[int], CtaSlot], size: int) -> None:
        self.slots = [make_slot(rank) for rank in range(size)]
        self.number = -1
        self.table = np.zeros(machine.CLUSTER_WORDS, np.int64)
        self.table[machine.CLUSTER_SIZE] = size
        for rank, slot in enumerate(self.slots):
            at = machine.CLUSTER_ROWS + machine.CLUSTER_ROW * rank
            self.table[at + machine.ROW_SHARED] = slot.ctx[machine.SHARED_HOST]
            self.table[at + machine.ROW_SHARED_SIZE] = slot.ctx[machine.SHARED_SIZE]
            self.table[at + machine.ROW_LIVE] = slot.arrays.live.ctypes.data
            self.table[at + machine.ROW_WARPS] = len(slot.arrays.live)
            self.table[at + machine.ROW_ARRIVED] = slot.arrived.ctypes.data
            self.table[at + machine.ROW_PHASES] = slot.phases.ctypes.data
            slot.ctx[machine.CLUSTER] = self.table.ctypes.data

    def start(self, number: int) -> None:
        """Put cluster ``number`` into the slots."""
        self.number = number
        for slot, cta in zip(self.slots, self.slots[0].geometry.members(number), strict=True):
            slot.start(cta)
        self.unfinished: list[CtaSlot] = list(self.slots)

    def run(self, budget: int) -> tuple[int, CtaSlot]:
        """Run every CTA for about ``budget`` warp instructions.

        Returns DONE when all have ended, PAUSED, DEADLOCK, or a fault code; and the CTA that it is of. Raises KernelFault.
        """
        status, slot = self._round(budget)
        level = 0
        while status == Outcome.WAITING:  # nobody can go on
            level += 1
            if level > 2:
                return Outcome.DEADLOCK, slot
            status, slot = self._insist(level)
        return status, slot

    def settle(self) -> None:
        """Let every thread go on to the wait at which it stands, for a report."""
        self._each(lambda slot: slot.run(INSISTING))

    def _round(self, budget: int) -> tuple[int, CtaSlot]:
        """Let each CTA run, again and again while one waits for what another has just done."""
        while True:
            went_on, status, slot = self._each(lambda slot: slot.run(budget))
            if status != Outcome.WAITING or not went_on:
                return status, slot

    def _insist(self, level: int) -> tuple[int, CtaSlot]:
        went_on, status, slot = self._each(lambda slot: slot.insist(level))
        return (Outcome.PAUSED if went_on and status == Outcome.WAITING else status), slot

    def _each(self, run: Callable[[CtaSlot], int]) -> tuple[bool, int, CtaSlot]:
        """Let each CTA run once: whether any went on; DONE, PAUSED if any is, WAITING, or what stopped one; and that one."""
        went_on, result, last = False, Outcome.WAITING, self.unfinished[0]
        for slot in list(self.unfinished):
            before = slot.instructions
            status = run(slot)
            went_on = went_on or slot.instructions != before
            if status == Outcome.DONE:
                self.unfinished.remove(slot)
            elif status not in (Outcome.PAUSED, Outcome.WAITING):
                return went_on, status, slot
            elif status == Outcome.PAUSED:
                result, last = status, slot
        return went_on, result if self.unfinished else Outcome.DONE, last

    @property
    def instructions(self) -> int:
        """Warp instructions executed by the CTAs of the cluster."""
        return sum(slot.instructions for slot in self.slots)
