"""Machine code as people read it: the text of each instruction, and how many registers hold something there."""

from __future__ import annotations

from dataclasses import dataclass

from isa.sass.effects import Name, effects, live_registers
from isa.sass.listing import MachineCode
from isa.sass.operands import Label
from isa.sass.placed import Placed, owners_of
from isa.sass.planes import first_planes, register_place

__all__ = ["MachineSource", "source_of", "targets_of"]

_FILES = ("R", "UR", "P", "UP", "B")
_STACK_POINTER: set[Name] = {("R", 1)}


@dataclass(frozen=True, slots=True)
class MachineSource:
    """``text``: an instruction as nvdisasm prints it, with its guard. ``live``: the R registers that hold a value before it or
    get one by it, and R1, the stack pointer, as ``nvdisasm --print-life-ranges`` counts them. ``reads``, ``writes``: the
    registers of each instruction. ``places``: byte offset of each register in the register block of a warp."""

    text: list[str]
    live: list[int]
    reads: list[list[Name]]
    writes: list[list[Name]]
    places: dict[Name, int]


def source_of(machine: MachineCode, placed: list[Placed]) -> MachineSource:
    """The source of a kernel whose instructions have been bound."""
    before = live_registers(placed, targets_of(machine, placed))
    sides = [effects(item) for item in placed]
    live = [
        sum(file == "R" for file, _ in alive | writes | _STACK_POINTER)
        for alive, (_, writes) in zip(before, sides, strict=True)
    ]
    first = first_planes(placed)
    names = {name for side in sides for each in side for name in each if name[0] in _FILES}
    places = {name: register_place(first, *name) for name in names}
    reads, writes = ([sorted(each & names) for each in side] for side in zip(*sides, strict=True))
    return MachineSource([item.instruction.text.strip("{} ") for item in placed], live, reads, writes, places)


def targets_of(machine: MachineCode, placed: list[Placed]) -> dict[int, int]:
    """Where branches and calls go, by number."""
    owners = owners_of(machine)
    starts: dict[str, int] = {}
    for item in placed:
        starts.setdefault(item.section.name, item.number)
    found = {}
    for item in placed:
        if item.instruction.base not in ("BRA", "CALL"):
            continue
        for operand in item.instruction.operands:
            if isinstance(operand, Label):
                section = item.section if operand.name in item.section.labels else owners[operand.name]
                found[item.number] = starts[section.name] + section.labels[operand.name] // 16
    return found
