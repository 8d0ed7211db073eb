"""What a machine instruction costs on a chip: the entry of its table that fits the opcode best."""

from __future__ import annotations

from functools import cache

from tcsim.arch.timing_spec import Chip, MachineOperation
from tcsim.errors import DeviceError

__all__ = ["MachineOperations"]


class MachineOperations:
    """The table of one chip. Raises DeviceError for an opcode that is listed twice, or for a pipe that the chip lacks."""

    def __init__(self, chip: Chip) -> None:
        self.chip = chip
        self._by_base: dict[str, list[tuple[frozenset[str], MachineOperation]]] = {}
        self._defaults: dict[str, MachineOperation] = {}
        seen = set()
        for operation in chip.machine:
            for pipe in filter(None, (operation.pipe, operation.other)):
                if pipe not in chip.pipes:
                    raise DeviceError(f"chip {chip.name}: {operation.opcodes[0]} runs on pipe {pipe!r}, which it does not have")
            for opcode in operation.opcodes:
                if opcode in seen:
                    raise DeviceError(f"chip {chip.name}: opcode {opcode!r} is listed twice")
                seen.add(opcode)
                if opcode.startswith("@"):
                    self._defaults[opcode[1:]] = operation
                else:
                    base, *modifiers = opcode.split(".")
                    self._by_base.setdefault(base, []).append((frozenset(modifiers), operation))
        self.of = cache(self._of)

    def _of(self, opcode: str, pipe: str) -> MachineOperation:
        """The cost of an opcode with its modifiers, of a pipe as the instruction set names it. Raises DeviceError if nothing
        fits."""
        base, *modifiers = opcode.split(".")
        fitting = [(len(named), op) for named, op in self._by_base.get(base, ()) if named <= set(modifiers)]
        if fitting:
            return max(fitting, key=lambda pair: pair[0])[1]
        if pipe not in self._defaults:
            raise DeviceError(f"chip {self.chip.name} has no timing for {opcode} of pipe {pipe!r}; add it to its machine table")
        return self._defaults[pipe]
