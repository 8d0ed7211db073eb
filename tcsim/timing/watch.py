"""Finds kernels that spin for ever: threads that wait in loops for something no running thread will do.

A *round* is over when every resident CTA has run since the last one, and no warp has anything left to issue that may change
what the others see. If after a round without any CTA coming or going, all their registers and memories and all of device memory
are byte for byte what they were after an earlier one, nothing will ever change (Brent's cycle detection, as in
:mod:`tcsim.execute.grid`).
"""

from __future__ import annotations

from collections.abc import Callable

from tcsim.execute.cta import CtaSlot
from tcsim.execute.faults import deadlock
from tcsim.memory import DeviceMemory

__all__ = ["SpinWatch"]

PATIENT_ROUNDS = 4
"""Rounds before looking: few kernels run that long without a CTA ending."""
SAME_ROUNDS = 256
"""Rounds after which nothing may have changed: somebody may wait for memory for the time of several."""


class SpinWatch:
    """Told of every CTA that starts, runs and ends on the chip."""

    def __init__(self, memory: DeviceMemory) -> None:
        self._memory = memory
        self._resident: dict[int, CtaSlot] = {}
        self.forget()

    def forget(self) -> None:
        """Begin anew: a CTA has come or gone."""
        self._ran: set[int] = set()
        self._rounds = 0
        self._power = 1
        self._kept: tuple[int, int] | None = None  # hashes of where all threads were, and of everything

    def started(self, slot: CtaSlot) -> None:
        """A CTA occupies a slot."""
        self._resident[slot.number] = slot
        self.forget()

    def ended(self, number: int) -> None:
        """It has ended, in time; what it did it had done before."""
        del self._resident[number]
        self.forget()

    def ran(self, slot: CtaSlot, is_round: Callable[[], bool]) -> None:
        """A CTA has executed some instructions. ``is_round``: whether a round may be over if all have. Raises DeadlockError if
        all that are resident will spin for ever."""
        self._ran.add(slot.number)
        if len(self._ran) < len(self._resident) or not is_round():
            return
        self._ran.clear()
        self._rounds += 1
        if self._rounds <= PATIENT_ROUNDS:
            return
        places = hash(tuple(map(_place, self._resident.values())))
        is_kept = self._kept is not None and self._rounds >= self._power + SAME_ROUNDS and self._kept[0] == places
        if is_kept and self._kept is not None and self._kept[1] == self._everything():
            raise deadlock([slot], spinning=True)
        if self._kept is None or self._rounds >= max(2 * self._power, self._power + 2 * SAME_ROUNDS):
            self._power = self._rounds
            self._kept = places, self._everything()

    def _everything(self) -> int:
        states = []
        for slot in self._resident.values():
            arrays = slot.arrays
            parts = (
                arrays.blocks,
                arrays.pc,
                arrays.mask,
                arrays.state,
                arrays.awaits,
                arrays.arrived,
                slot.shared,
                slot.local,
            )
            states.append(hash(tuple(part.tobytes() for part in parts)))
        return hash((tuple(states), self._memory.fingerprint()))


def _place(slot: CtaSlot) -> tuple[bytes, bytes]:
    """Where the threads of a CTA are, and which group of each warp has had its turn: lanes of one warp that wait for each other
    take turns, and one that fails changes nothing but that."""
    last = slot.recorder.last.tobytes() if slot.recorder is not None else b""
    return slot.arrays.pc.tobytes(), last
