"""From a timing class to what it costs on a chip.

An instruction names its class (``mma.m16n8k16.f16``, ``alu.64``), a chip's table says what the class costs
(:class:`tcsim.arch.timing_spec.Operation`). A class without an entry of its own takes that of the longest prefix that
has one: ``ldmatrix.x4`` that of ``ldmatrix``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from tcsim.arch.timing_spec import Chip, Operation
from tcsim.errors import DeviceError

__all__ = ["Cost", "Costs"]


@dataclass(frozen=True, slots=True)
class Cost:
    """What one instruction costs. ``slots``: issue slots, ``repeats`` of them in its pipe. ``busy``: cycles its pipe is
    taken, all its machine instructions together; ``active``: of these, cycles that count as pipe activity. ``latency``:
    from its first issue slot to a dependent instruction. The rest as in :class:`~tcsim.arch.timing_spec.Operation`.
    """

    pipe: str
    slots: int
    repeats: int
    busy: int
    active: int
    latency: int
    scoreboard: str
    port: int
    next_issue: int
    pause: str
    stage: int = 0


class Costs:
    """The costs on one chip. Raises DeviceError for tables that do not fit together."""

    def __init__(self, chip: Chip) -> None:
        self.chip = chip
        self._operations: dict[str, Operation] = {}
        for operation in chip.operations:
            for name in operation.classes:
                if name in self._operations:
                    raise DeviceError(f"chip {chip.name}: timing class {name!r} is listed twice")
                self._operations[name] = operation
        self.of = cache(self._of)
        for name in self._operations:
            self.of(name)

    def has(self, name: str) -> bool:
        """Whether a class, or a prefix of it, is in the tables."""
        return self._find(name) is not None

    def _find(self, name: str) -> Operation | None:
        prefix = name
        while prefix:
            if prefix in self._operations:
                return self._operations[prefix]
            prefix = prefix.rpartition(".")[0]
        return None

    def _of(self, name: str) -> Cost:
        """The cost of a timing class. Raises DeviceError for one that the chip's tables lack."""
        operation = self._find(name)
        if operation is None:
            raise DeviceError(
                f"chip {self.chip.name} has no timing for instructions of class {name!r}; add it to its operations"
            )
        if operation.pipe not in self.chip.pipes:
            raise DeviceError(
                f"chip {self.chip.name}: operation {name!r} runs on pipe {operation.pipe!r}, which it does not have"
            )
        slots, busy, latency = (
            operation.slots,
            operation.slots * operation.interval,
            operation.slots - 1 + operation.latency,
        )
        repeats, active = operation.slots, operation.slots * (operation.active or operation.interval)
        if operation.made_of:
            part = self.of(operation.made_of)
            times = operation.times
            slots, busy, active = operation.slots + times * part.slots, times * part.busy, times * part.active
            repeats = times * part.repeats
            latency = operation.latency + part.latency + (times - 1) * part.busy
        return Cost(
            operation.pipe,
            slots,
            repeats,
            busy,
            active,
            latency,
            part.scoreboard if operation.made_of else operation.scoreboard,
            operation.port,
            operation.next_issue,
            operation.pause,
            operation.stage,
        )
