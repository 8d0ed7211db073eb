"""The scoreboard: when each register of a warp will be ready, and what whoever waits for it is waiting for.

There is one entry per place (register plane or predicate) that the program uses. An entry holds cycle and stall reason
in one integer, ``cycle << 4 | reason``, so that the latest of several operands and its reason are one ``max``. Any
number of instructions may wait for a place (Huerta et al., MICRO'25: an unlimited scoreboard costs 1.3 points of
accuracy against the control bits of the machine code; one consumer each costs 7).
"""

from __future__ import annotations

from collections.abc import Iterable

from isa.program import Program
from tcsim.profile import STALL_REASONS

__all__ = ["CONSTANT_BANK", "REASON", "REASONS", "SHIFT", "Places"]

CONSTANT_BANK = 1
"""The entry that says when an SM has the kernel's parameters; what is read from there depends on it."""

SHIFT = 4
REASONS = len(STALL_REASONS)
REASON = {name: code for code, name in enumerate(STALL_REASONS)}
assert REASONS <= 1 << SHIFT


class Places:
    """Numbers the places of a program; entry 0 stands for "no operand" and is always ready, entry 1 for the constant
    bank.

    Places are byte offsets into the register block, as a program gives them; negative numbers are temporary results
    (:mod:`tcsim.timing.schedule`), of which any two segments may share entries.
    """

    def __init__(self, program: Program) -> None:
        used = {place for places in (*program.reads, *program.writes) for place in places}
        self._number = {place: number for number, place in enumerate(sorted(used), start=CONSTANT_BANK + 1)}

    def add_temporaries(self, count: int) -> None:
        """Make entries for the temporary results -1 to -``count``."""
        for name in range(1, count + 1):
            self._number[-name] = len(self)

    def __len__(self) -> int:
        """Entries that a warp's scoreboard needs."""
        return len(self._number) + CONSTANT_BANK + 1

    def of(self, places: Iterable[int]) -> tuple[int, ...]:
        """Entries of some places."""
        return tuple(self._number[place] for place in places)
