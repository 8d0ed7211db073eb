"""What the timing model must know of an instruction that accesses memory."""

from __future__ import annotations

from dataclasses import replace

from isa.lower.copies import CLEAR, SET, CopyAccess
from isa.machine import SPACES
from isa.program import MemoryAccess
from isa.sass.placed import Placed

__all__ = ["memory_access"]


def memory_access(item: Placed, readings: list[tuple[str, ...]], planes: list[int]) -> MemoryAccess | None:
    """What the timing model must know of an access."""
    assert item.form is not None
    entry = item.form.instruction
    if not entry.memory:
        return None
    size = entry.width(item.form.params) if entry.width is not None else 4
    places, position, predicate, how = [], 0, -1, SET
    for spec, width, reading in zip(item.form.operands, planes, readings, strict=True):
        if spec.is_address:
            places.append((position, width, reading))
            position += 2 + ("uniform" in reading)
        else:
            if spec.type.kind == "p":
                predicate, how = position, CLEAR if "not" in reading else SET
            position += spec.count
    space = SPACES[entry.state]
    at, width, reading = places[0]
    if entry.memory == "copy":
        (target, target_planes, _), (at, width, reading) = places
        copy = CopyAccess("copy", space, size, at, width, target, target_planes, reading=predicate, how=how)
        return replace(copy, scale=_scale(reading), uniform="uniform" in reading)
    rows = 8 * size // 4 if entry.memory.startswith("matrix") else 32
    size = 16 if entry.memory.startswith("matrix") else size
    access = MemoryAccess(entry.memory, space, size, at, width, rows=rows)
    return replace(access, scale=_scale(reading), uniform="uniform" in reading)


def _scale(reading: tuple[str, ...]) -> int:
    """What an address's register is multiplied by."""
    return next((int(step[5:]) for step in reading if step.startswith("scale")), 1)
