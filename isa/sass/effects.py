"""Which registers an instruction reads and writes, and how many are live at each place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from isa.sass.operands import Constant, Label, Matrices, Memory, Operand, Register
from isa.sass.placed import Placed
from isa.spec.registry import ResolvedOperand

__all__ = ["Name", "effects", "live_registers"]

Name = tuple[str, int]
"""A register: its file (R, UR, P, UP, B) and number."""


def effects(item: Placed) -> tuple[set[Name], set[Name]]:
    """Registers that a bound instruction reads (its guard included) and writes. RZ, PT and their like are left out."""
    instruction, form = item.instruction, item.form
    assert form is not None
    reads = set(_names(instruction.guard, 1)) if instruction.guard is not None else set()
    writes: set[Name] = set()
    for spec in form.operands:
        operand = item.operands.get(spec.name)
        target = writes if spec.is_destination and not spec.is_address else reads
        target.update(_names(operand, _span(spec, operand)))
    if form.instruction.control in ("converge", "break") or form.instruction.pattern.base == "P2R":
        reads.update(_names(item.operands.get("members"), 1))
    base = form.instruction.pattern.base
    for moved, reading, writing in (("P", "P2R", "R2P"), ("UP", "UP2UR", "UR2UP")):
        if base == reading:
            reads.update((moved, index) for index in range(7))
        elif base == writing:
            writes.update((moved, index) for index in range(7))
    return reads, writes


def _span(spec: ResolvedOperand, operand: Operand | None) -> int:
    """Registers that an operand takes."""
    if isinstance(operand, Memory):
        return 2 if operand.wide else 1
    return max(1, spec.type.planes) * spec.count


def _names(operand: Operand | None, span: int) -> Iterator[Name]:
    if isinstance(operand, Register):
        if operand.index >= 0:
            yield from ((operand.file, operand.index + step) for step in range(span))
    elif isinstance(operand, Memory):
        yield from _names(operand.register, span)
        yield from _names(operand.uniform, 1)
        yield from _names(operand.descriptor, 2)
    elif isinstance(operand, Matrices):
        yield from _names(operand.register, 4)
    elif isinstance(operand, Constant):
        yield from _names(operand.register, 1)


def live_registers(placed: list[Placed], targets: Mapping[int, int]) -> list[set[Name]]:
    """The registers that hold a value somebody will read, before each instruction.

    ``targets``: instruction that a branch, by number, goes to. A return goes to whatever follows a call; a write that a guard
    may skip keeps the old value alive.
    """
    count = len(placed)
    successors = _successors(placed, targets)
    predecessors: list[list[int]] = [[] for _ in range(count)]
    for number, following in enumerate(successors):
        for after in following:
            predecessors[after].append(number)
    sides = [effects(item) for item in placed]
    live: list[set[Name]] = [set() for _ in range(count)]
    work = list(range(count))
    queued = set(work)
    while work:
        number = work.pop()
        queued.discard(number)
        reads, writes = sides[number]
        before = set().union(*(live[after] for after in successors[number])) if successors[number] else set()
        if placed[number].instruction.guard is None:
            before -= writes
        before |= reads
        if before != live[number]:
            live[number] = before
            for earlier in predecessors[number]:
                if earlier not in queued:
                    queued.add(earlier)
                    work.append(earlier)
    return live


def _successors(placed: list[Placed], targets: Mapping[int, int]) -> list[list[int]]:
    count = len(placed)
    returns = [n + 1 for n, item in enumerate(placed) if item.instruction.base == "CALL" and n + 1 < count]
    out: list[list[int]] = []
    for number, item in enumerate(placed):
        instruction = item.instruction
        following = [targets[number]] if number in targets else []
        if instruction.base == "RET":
            following += returns
        elif instruction.base in ("BRX", "BRXU"):
            start = number - instruction.address // 16
            following += [start + item.section.labels[name] // 16 for name in instruction.targets]
        stops = instruction.base in ("BRA", "EXIT", "RET", "BRX", "BRXU") and instruction.guard is None
        conditional = instruction.base == "BRA" and not isinstance(instruction.operands[0], Label)
        if number + 1 < count and (not stops or conditional):
            following.append(number + 1)
        out.append(following)
    return out
