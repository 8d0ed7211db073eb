"""Where a machine-code program keeps things in the register block: registers as they are numbered (R0, R1, ..., then the
uniform registers, the convergence barriers and RPC), predicates as words, and behind them planes for each constant, special
value and word of a constant bank that is read."""

from __future__ import annotations

from collections.abc import Mapping

from isa.kernels.planes import PLANE_BYTES
from isa.lower.ir import SymbolRef
from isa.sass.bank import BankLayout
from isa.sass.host import RETURN_REGISTER
from isa.sass.operands import Register
from isa.sass.placed import Placed

__all__ = ["RESULT_WORD", "SINK_WORD", "Planes", "first_planes", "register_place"]

UNIFORM_PREDICATES, SINK_WORD, RESULT_WORD = 7, 14, 15
"""Predicate words: P0-P6, UP0-UP6, the sink, the result of a barrier."""


class Planes:
    """Hands out planes. placed: the program's instructions. banks: what their constants are read from."""

    def __init__(self, placed: list[Placed], banks: BankLayout) -> None:
        self.banks = banks
        self.first = first_planes(placed)
        self.sink_plane = self.first["behind"]
        self.result_plane = self.sink_plane + 4
        self.next_plane = self.result_plane + 1
        self.constants: list[tuple[int, int | SymbolRef, int]] = []
        self.constant_at: dict[tuple[int, int], int] = {}
        self.specials: dict[str, int] = {}
        self.bank_planes: dict[tuple[int, int], int] = {}

    def new(self, count: int) -> int:
        """Byte offset of planes that nothing else uses."""
        at = self.next_plane * PLANE_BYTES
        self.next_plane += count
        return at

    def constant(self, value: int, planes: int) -> int:
        """The plane(s) of a constant: its low word, and its high one if there are two."""
        at = self.constant_at.get((value, planes))
        if at is None:
            at = self.constant_at[value, planes] = self.new(planes)
            for half in range(planes):
                self.constants.append((at + half * PLANE_BYTES, (value >> (32 * half)) & 0xFFFF_FFFF, half))
        return at

    def special(self, name: str) -> int:
        """The planes of a special value, such as ``%tid.x``."""
        at = self.specials.get(name)
        if at is None:
            at = self.specials[name] = self.new(2)
        return at

    def bank(self, place: int, planes: int) -> int:
        """The plane(s) of one or two words of the constant banks."""
        at = self.bank_planes.get((place, planes))
        if at is None:
            at = self.bank_planes[place, planes] = self.new(planes)
            self.banks.image.planes.extend((place + 4 * half, at + half * PLANE_BYTES) for half in range(planes))
        return at

    def register(self, register: Register, step: int, planes: int, destination: bool) -> int:
        """Byte offset of a register's place; ``step`` registers further for an element of a vector."""
        if register.index >= 0:
            return register_place(self.first, register.file, register.index + (0 if register.is_predicate else step))
        if register.is_predicate:
            return 4 * SINK_WORD if destination else self.constant(0xFFFF_FFFF, 1)
        return self.sink_plane * PLANE_BYTES if destination else self.constant(0, planes)

    def guard(self, guard: Register | None) -> int:
        """A guard as programs spell it: twice its word, plus 1 if it is negated; -1 for none."""
        if guard is None or (guard.index < 0 and not guard.negated):
            return -1
        if guard.index < 0:
            return 2 * (self.constant(0, 1) // 4)
        return 2 * (self.register(guard, 0, 1, False) // 4) + int(guard.negated)


def first_planes(placed: list[Placed]) -> dict[str, int]:
    """The plane of the first register of each file, and under ``behind`` the one after the last."""
    highest = _highest_registers(placed)
    first, plane = {}, 1
    for file in ("R", "UR", "B", "RPC"):
        first[file] = plane
        plane += highest[file]
    return first | {"behind": plane}


def register_place(first: Mapping[str, int], file: str, index: int) -> int:
    """Byte offset of a register's plane in the register block, or of a predicate's word. first: :func:`first_planes`."""
    if file in ("P", "UP"):
        return 4 * (index + (UNIFORM_PREDICATES if file == "UP" else 0))
    return (first[file] + index) * PLANE_BYTES


def _highest_registers(placed: list[Placed]) -> dict[str, int]:
    """How many registers of each file the code uses, vectors and pairs included."""
    highest = {"R": RETURN_REGISTER + 2, "UR": 1, "B": 1, "RPC": 2}
    for item in placed:
        assert item.form is not None
        wide = max((o.count * max(1, o.type.planes) for o in item.form.operands), default=1)
        for operand in item.instruction.operands:
            inner = getattr(operand, "register", None), getattr(operand, "uniform", None)
            for register in (operand, *inner):
                if isinstance(register, Register) and register.file in highest and register.index >= 0:
                    highest[register.file] = max(highest[register.file], register.index + max(2, wide))
    return highest
