"""Loads whose value decides something, as that of a flag does: a branch, or whether an instruction is executed.

Who polls a word may read old values of it; a word that is only calculated with must be the new one."""

from __future__ import annotations

from collections.abc import Iterator

from isa.lower.ir import Instr, Kernel, VReg

__all__ = ["deciding_loads"]


def deciding_loads(kernel: Kernel) -> set[int]:
    """The instructions of a kernel, its calls expanded, that load what a guard depends on."""
    defined: dict[int, list[int]] = {}
    for pc, instr in enumerate(kernel.instructions):
        for register in instr.destinations():
            defined.setdefault(register.index, []).append(pc)
    found: set[int] = set()
    todo = list(_guards(kernel.instructions))
    seen: set[int] = set()
    while todo:
        register = todo.pop()
        if register.index in seen:
            continue
        seen.add(register.index)
        for pc in defined.get(register.index, ()):
            instr = kernel.instructions[pc]
            if instr.form.instruction.memory is not None:
                found.add(pc)
            else:
                todo += instr.sources()
    return found


def _guards(instructions: list[Instr]) -> Iterator[VReg]:
    for instr in instructions:
        if instr.guard is not None:
            yield instr.guard.register
        elif instr.form.instruction.control:  # an indirect branch or call
            yield from instr.sources()
