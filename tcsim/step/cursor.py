"""Where someone stands in a recording, and ways to move: forward, back, to a breakpoint, to where a register changes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tcsim.errors import TcsimError
from tcsim.execute.faults import lanes_text
from tcsim.step.fragments import Tile, tile_text, tiles
from tcsim.step.recording import Recording, Step, Touch
from tcsim.step.registers import Register, lane_text

__all__ = ["Cursor", "natural", "step_text"]


@dataclass
class Cursor:
    """``at``: how many steps are done; the instruction shown is the one to come. ``breakpoints``: lines of what is shown, which
    is the PTX, or with ``by_instruction`` the program, one instruction a line. ``watched``: names of registers."""

    recording: Recording
    at: int = 0
    breakpoints: set[int] = field(default_factory=set)
    watched: list[str] = field(default_factory=list)
    by_instruction: bool = False

    @property
    def step(self) -> Step | None:
        """The step to come; None at the end."""
        steps = self.recording.steps
        return steps[self.at] if self.at < len(steps) else None

    @property
    def line(self) -> int:
        """Its line; that of the last step at the end."""
        steps = self.recording.steps
        return self.line_of(steps[min(self.at, len(steps) - 1)].pc if steps else 0)

    def line_of(self, pc: int) -> int:
        """The line of an instruction in what is shown, from 1."""
        return pc + 1 if self.by_instruction else int(self.recording.program.lines[pc])

    def stop_at(self, place: str) -> None:
        """Set breakpoints: at a line of what is shown (``118``), at a PTX line (``ptx:118``) or a CUDA line (``k.cu:41``).
        Raises TcsimError for a place where the kernel has no instruction."""
        program = self.recording.program
        found = {self.line_of(pc) for pc in range(len(program)) if self._is_at(pc, place)}
        if not found:
            raise TcsimError(f"--break {place}: {program.name} has no instruction there. A line, ptx:LINE or FILE.cu:LINE")
        self.breakpoints |= found

    def _is_at(self, pc: int, place: str) -> bool:
        if place.isdigit():
            return self.line_of(pc) == int(place)
        program, (file, _, line) = self.recording.program, place.rpartition(":")
        if file == "ptx":
            return str(program.lines[pc]) == line
        loc = program.locs[pc]
        return loc is not None and str(loc.line) == line and f"/{program.files.get(loc.file, '')}".endswith(f"/{file}")

    @property
    def block(self) -> NDArray[np.uint32]:
        """The registers now."""
        return self.recording.registers(self.at)

    def move(self, count: int) -> None:
        """Steps forward, or back."""
        self.at = max(0, min(len(self.recording.steps), self.at + count))

    def run(self, direction: int = 1) -> str:
        """Go on (or back, -1) to the next breakpoint, or to where a watched register changes; returns why it stopped there."""
        before = self._watched_values()
        end = len(self.recording.steps)
        while 0 <= self.at + direction <= end:
            self.move(direction)
            if self.step is not None and self.line in self.breakpoints:
                where = f"instruction {self.line}" if self.by_instruction else f"ptx:{self.line}"
                return f"breakpoint at {where}"
            now = self._watched_values()
            for name, value in now.items():
                if name in before and not np.array_equal(value, before[name]):
                    return f"{name} changed"
            before = now
        return self.recording.ended if direction > 0 else "the start of the kernel"

    def _watched_values(self) -> dict[str, NDArray[np.uint64]]:
        if not self.watched:
            return {}
        seen = self.registers()
        return {name: seen[name].read(self.block).copy() for name in self.watched if name in seen}

    def registers(self) -> dict[str, Register]:
        """The registers written so far, by name. Where several share a place in the register block, the last one written."""
        names, steps = self.recording.names, self.recording.steps
        owner: dict[int, Register] = {}
        for step in steps[: self.at]:
            for register in names.writes[step.pc]:
                owner[register.place] = register
        return {register.name: register for register in sorted(owner.values(), key=lambda r: natural(r.name))}

    def watch(self, name: str) -> None:
        """Stop where a register changes; again, to forget it. Raises TcsimError for a name that the kernel does not have."""
        names = self.recording.names
        known = {register.name for each in (*names.writes, *names.reads) for register in each}
        if name not in known and f"%{name}" in known:
            name = f"%{name}"
        if name not in known:
            raise TcsimError(f"no register {name} in {self.recording.program.name}")
        if name in self.watched:
            self.watched.remove(name)
        else:
            self.watched.append(name)

    def operands(self) -> list[tuple[str, Register]]:
        """The registers that the step to come reads and writes."""
        step = self.step
        if step is None:
            return []
        names = self.recording.names
        return [("reads", r) for r in names.reads[step.pc]] + [("writes", r) for r in names.writes[step.pc]]

    def tiles(self) -> list[Tile]:
        """The matrices of the step to come, if it multiplies some; D as it will be."""
        step = self.step
        if step is None:
            return []
        found = tiles(self.recording.program, step.pc, self.block, step.shared)
        if not found:
            return []
        results = tiles(self.recording.program, step.pc, self.recording.registers(self.at + 1))
        return [tile for tile in found if tile.operand != "D"] + [tile for tile in results if tile.operand == "D"]

    def results(self) -> list[tuple[Register, NDArray[np.uint64]]]:
        """What the step to come writes: the registers with the values they will have."""
        step = self.step
        if step is None:
            return []
        after = self.recording.registers(self.at + 1)
        return [(r, r.read(after).copy()) for r in self.recording.names.writes[step.pc]]


def natural(name: str) -> tuple[str, int, str]:
    """Sorts R2 before R10."""
    match = re.match(r"(\D*)(\d*)", name)
    assert match is not None
    return match[1], int(match[2] or 0), name


def touched_text(touched: tuple[Touch, ...]) -> list[str]:
    """Memory that lanes touch, runs of equal strides as one line."""
    out: list[str] = []
    at = 0
    while at < len(touched):
        first = touched[at]
        end = at + 1
        stride = touched[end].address - first.address if end < len(touched) else 0
        while (
            end < len(touched)
            and (touched[end].what, touched[end].space) == (first.what, first.space)
            and touched[end].lane == touched[end - 1].lane + 1
            and touched[end].address - touched[end - 1].address == stride
        ):
            end += 1
        lanes = f"lane {first.lane}" if end == at + 1 else f"lanes {first.lane}-{touched[end - 1].lane}"
        step = f", {stride:+} a lane" if end > at + 1 else ""
        out.append(f"{first.what} {first.space} {first.address:#x} ({first.size} B{step})  {lanes}")
        at = end
    return out


def step_text(cursor: Cursor, source: list[str], lanes: int = 8, style: str = "", *, matrices: bool = False) -> str:
    """The step to come as text: its place and line, lanes, what it touches and what it will have written; its matrices, too."""
    step, program = cursor.step, cursor.recording.program
    if step is None:
        return f"end: {cursor.recording.ended}"
    line = cursor.line
    text = source[line - 1].strip() if 0 < line <= len(source) else program.opcodes[step.pc]
    out = [f"{cursor.at:6}  {program.where(step.pc):24}  {text}"]
    if step.active != step.executing or step.active != 0xFFFF_FFFF:
        off = f"; {lanes_text(step.active & ~step.executing)} predicated off" if step.active != step.executing else ""
        out.append(f"        lanes {lanes_text(step.executing)}{off}")
    out += [f"        {each}" for each in touched_text(step.touched)]
    for register, values in cursor.results():
        shown = " ".join(lane_text(int(value), register.type, style) for value in values[:lanes])
        more = " ..." if lanes < 32 else ""
        out.append(f"        {register.name} = {shown}{more}")
    for tile in cursor.tiles() if matrices else ():
        out += [f"        {row}" for row in tile_text(tile).splitlines()]
    return "\n".join(out)
