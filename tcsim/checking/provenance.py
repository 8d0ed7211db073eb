"""Are the registers of a matrix instruction in order? Where their elements come from says so.

A CTA runs on memory that holds, in place of numbers, where each element is (:mod:`tcsim.checking.numbered`). Operands that do
not go through k together, but would with registers of A or B exchanged, have them exchanged; operands of which two registers
hold the same elements use one twice (:mod:`tcsim.checking.tile_order`). Sums handed on as A of a next product are followed
through the registers (:mod:`tcsim.checking.handed_on`). Anything else (numbers computed on the way, gathers) says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tcsim.checking.confirm import Snapshot
from tcsim.checking.handed_on import HandedOn
from tcsim.checking.numbered import UNITS, Unit
from tcsim.checking.report import Access, Hazard
from tcsim.checking.tile_order import Operand, Pair, disorder

if TYPE_CHECKING:
    from isa.program import Program
    from isa.tensor import MmaForm
    from tcsim.execute.cta import Geometry
    from tcsim.launch.launch import Launch
    from tcsim.step.recording import Recording, Step

__all__ = ["check_fragments", "matrix_instructions"]

STEPS = 4000
"""Steps of a warp that are looked at: a few turns of a loop over k."""

MOST_WARPS = 4
"""Warps that are followed, as many as it takes for every matrix instruction to be executed by one."""

TRIES = 8
"""Executions of an instruction that are looked at until one has only elements of which it is known where they are."""

_SKIPPED = {32: (1, 2), 16: (2, 4), 8: (2, 4), 4: (4, 8)}
"""Of sparse products, by the bits of an element: columns of a stored A, and the rows of B that they are chosen from
(PTX ISA 9.7.14.6.1)."""

_APART = 1009
"""Rows and columns of sums often have the same step in memory. So that they are not taken for each other, that of rows is made
longer by a factor that none is by itself."""

Ints = NDArray[np.int64]


def matrix_instructions(program: Program) -> list[int]:
    """The instructions that are looked at."""
    return [pc for pc, opcode in enumerate(program.opcodes) if opcode.startswith(("mma.s", "wgmma.mma_async"))]


def check_fragments(
    launch: Launch, geometry: Geometry, parameters: NDArray[np.uint8], before: Snapshot, warps: Sequence[tuple[int, int]]
) -> list[Hazard]:
    """Look at the matrix instructions of some warps, (number of the CTA, warp). before: memory at the start of the launch.
    Memory is left as it is."""
    from tcsim.lanes import layout

    program = launch.loaded.program
    forms: dict[int, MmaForm] = {}
    for pc in matrix_instructions(program):
        form = layout(program.opcodes[pc]).form
        if form is not None and not form.is_884:
            forms[pc] = form
    after = Snapshot(launch.device.memory)
    found: dict[int, Hazard] = {}
    try:
        for cta, warp in warps[:MOST_WARPS]:
            for bits in sorted({_unit_bits(form) for form in forms.values()}):
                chosen = {pc: form for pc, form in forms.items() if _unit_bits(form) == bits and pc not in found}
                run = _Run(launch, geometry, UNITS[bits], (cta, warp), chosen)
                run.record(parameters, before)
                found.update(run.look())
    finally:
        after.restore()
    return [found[pc] for pc in sorted(found)]


def _unit_bits(form: MmaForm) -> int:
    return {32: 32, 16: 16, 64: 16}.get(form.operand_bits, 8)


@dataclass
class _Run:
    """One warp of the launch, on memory whose units are numbered; ``forms``: of the instructions that are looked at."""

    launch: Launch
    geometry: Geometry
    unit: Unit
    warp: tuple[int, int]
    forms: dict[int, MmaForm]
    recordings: list[Recording] = field(default_factory=list)
    units: int = 0

    def record(self, parameters: NDArray[np.uint8], before: Snapshot) -> None:
        """Run the CTA as often as it takes."""
        from tcsim.step.recording import Recorder
        from tcsim.step.registers import Names

        for number in range(self.unit.runs):
            before.restore()
            self.units = self.unit.number(self.launch.device.memory, number)
            recorder = Recorder(Names, cta=self.warp[0], warp=self.warp[1], most=STEPS)
            recorder.run(self.launch, self.geometry, parameters, 1, None)
            assert recorder.recording is not None
            self.recordings.append(recorder.recording)

    def look(self) -> Iterator[tuple[int, Hazard]]:
        """(instruction, what is wrong with it), each once."""
        program = self.recordings[0].program
        handed_on = HandedOn(program)
        left = dict.fromkeys(self.forms, TRIES)
        for at, steps in enumerate(zip(*(recording.steps for recording in self.recordings), strict=False)):
            pc = steps[0].pc
            if any(step.pc != pc for step in steps):
                return
            if pc not in self.forms:
                handed_on.step(pc, steps[0].executing, self.recordings[0].registers(at))
                continue
            pair = self._pair(pc, at, steps, handed_on)
            if pair is not None and left[pc] and pair.is_known:
                left[pc] = 0
                said = None if pair.is_regular else disorder(pair)
                if said is not None:
                    yield pc, self._hazard(pc, *said)
            left[pc] = max(0, left[pc] - 1)

    def _pair(self, pc: int, at: int, steps: Sequence[Step], handed_on: HandedOn) -> Pair | None:
        """A and B of a product; what it adds to D is noted."""
        from tcsim.step.fragments import operand_bits
        from tcsim.step.shared_operands import operand_slots_of

        program, form = self.recordings[0].program, self.forms[pc]
        words = [operand_bits(program, pc, recording.registers(at)) for recording in self.recordings]
        places = operand_slots_of(program, pc)
        rows: Ints | None = None
        operands: dict[str, Operand] = {}
        for name in "ab":
            if name in words[0]:
                one = words[0][name][0]
                bit = np.arange(one.per_register) * one.bits
                runs = [each[name][1][:, :, None] for each in words]
                operands[name] = Operand(name, self.unit.positions(runs, bit, self.units), one)
                known = handed_on.operand(one, places[name]) if name == "a" else None
                if known is not None:
                    operands[name] = Operand(name, _APART * (known[0] - known[0].min()) + known[1], one)
                    rows = Operand(name, known[0], one).tile.min(axis=1)
            elif form.operand_bits >= 8 and all(name in step.shared for step in steps):
                shared = [step.shared[name].elements for step in steps]
                operands[name] = Operand(name, self.unit.positions(shared, 0, self.units))
        pair = None
        if len(operands) == 2:
            stored, whole = _SKIPPED[form.operand_bits] if form.is_sparse else (1, 1)
            pair = Pair(operands["a"], operands["b"], stored, whole)
        if pair is not None and pair.is_known and pair.is_regular:
            of_rows = pair.a.tile.min(axis=1) if rows is None else rows
            sums = of_rows, pair.b.tile.min(axis=0)
        else:
            sums = None
        if "d" in words[0]:
            handed_on.multiplied(words[0]["d"][0], places["c"], places["d"], sums)
        return pair

    def _hazard(self, pc: int, what: str, suggestion: str) -> Hazard:
        program = self.recordings[0].program
        loc = program.locs[pc]
        file, line = (program.files.get(loc.file, ""), loc.line) if loc is not None else ("", 0)
        cta, warp = self.geometry.cta_index(self.warp[0]), self.warp[1]
        access = Access("", program.opcodes[pc], pc, int(program.lines[pc]), file, line, cta, warp, tuple(range(32)))
        section = "9.7.15.5.1.1" if program.opcodes[pc].startswith("wgmma") else "9.7.14.5"
        why = f"where its elements come from in memory, A and B do not go through k together (PTX ISA {section})"
        return Hazard("FRAGMENT", what, (access,), why, suggestion, self.launch.loaded.program.name)
