"""What each line of the source cost: by CUDA line, by PTX line, or by instruction."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tcsim.profile import InstructionProfile, LaunchProfile
from tcsim.report.widths import access_bytes, ideal_wavefronts, space_of

__all__ = ["Line", "View", "source_lines", "source_text", "to_source_csv"]

View = Literal["cuda", "ptx", "instruction"]


@dataclass
class Line:
    """What instructions of one line did in all. ``where``: ``k.cu:41`` or ``ptx:118``. ``text``: the opcodes, or the line of
    the source where that can be read. ``stalls``: warp-cycles by reason, without those in which they issued.
    ``ideal_sectors`` and ``ideal_wavefronts``: with perfect coalescing, and without bank conflicts."""

    where: str
    text: str
    file: str = ""
    line: int = 0
    executed: int = 0
    threads: int = 0
    issued: int = 0
    stalls: dict[str, int] = field(default_factory=dict)
    sectors: int = 0
    ideal_sectors: int = 0
    wavefronts: int = 0
    ideal_wavefronts: int = 0

    @property
    def stall_cycles(self) -> int:
        """Warp-cycles waited here."""
        return sum(self.stalls.values())

    @property
    def excess_wavefronts(self) -> int:
        """Those that bank conflicts add; 0 where the ideal is not known."""
        return max(0, self.wavefronts - self.ideal_wavefronts) if self.ideal_wavefronts else 0

    @property
    def main_stall(self) -> str:
        """The reason for most of them."""
        return max(self.stalls, key=lambda reason: self.stalls[reason]) if self.stalls else ""

    def add(self, i: InstructionProfile) -> None:
        """Count an instruction in."""
        self.executed += i.executed
        self.threads += i.threads
        self.issued += i.issued
        for reason, cycles in i.stalls.items():
            if reason != "selected":
                self.stalls[reason] = self.stalls.get(reason, 0) + cycles
        self.sectors += i.sectors
        self.wavefronts += i.wavefronts
        if i.sectors and space_of(i.opcode) in ("global", "local"):
            self.ideal_sectors += -(-i.threads * access_bytes(i.opcode) // 32)
        if i.wavefronts:
            self.ideal_wavefronts += ideal_wavefronts(i.opcode, i.executed, i.threads)


def source_lines(profile: LaunchProfile, view: View, sources: Iterable[Path] = ()) -> list[Line]:
    """The lines of a launch in the order of the source. ``sources``: folders in which to look for CUDA files, to show their
    text; instructions without a CUDA line are left out of the view by CUDA line."""
    lines: dict[tuple[str, int], Line] = {}
    texts: dict[str, list[str]] = {}
    for i in profile.instructions:
        name = i.file.rsplit("/", 1)[-1]
        if view == "cuda":
            if not i.file:
                continue
            key, where = (i.file, i.line), f"{name}:{i.line}"
        elif view == "ptx":
            key, where = ("", i.ptx_line), f"ptx:{i.ptx_line}"
        else:
            key, where = ("", i.pc), f"{name}:{i.line} ptx:{i.ptx_line}" if i.file else f"ptx:{i.ptx_line}"
        line = lines.get(key)
        if line is None:
            text = i.opcode
            if view == "cuda":
                found = texts.setdefault(i.file, _read(i.file, sources))
                text = found[i.line - 1].strip() if 0 < i.line <= len(found) else ""
            line = lines[key] = Line(where, text, i.file, i.line)
        line.add(i)
    return [lines[key] for key in sorted(lines)] if view != "instruction" else list(lines.values())


def _read(name: str, folders: Iterable[Path]) -> list[str]:
    for folder in folders:
        for path in (folder / name, folder / name.rsplit("/", 1)[-1]):
            if path.is_file():
                return path.read_text(encoding="utf-8", errors="replace").splitlines()
    return []


_HEAD = (
    "Source", "Text", "Executed", "Threads", "Issued", "Stall Cycles", "Main Stall", "Sectors", "Ideal Sectors", "Wavefronts",
    "Ideal Wavefronts",
)  # fmt: skip


def _cells(line: Line) -> tuple[str | int, ...]:
    return (
        line.where, line.text, line.executed, line.threads, line.issued, line.stall_cycles, line.main_stall, line.sectors,
        line.ideal_sectors, line.wavefronts, line.ideal_wavefronts,
    )  # fmt: skip


def source_text(profile: LaunchProfile, view: View, sources: Iterable[Path] = ()) -> str:
    """The view as a table; stalls as shares of all of the launch."""
    lines = source_lines(profile, view, sources)
    total = sum(line.stall_cycles for line in lines) or 1
    head = ("Source", "Executed", "Stall %", "Main Stall", "Sectors", "Ideal", "Wavefr.", "Ideal", "Text")
    table = [
        (
            line.where, f"{line.executed:,}", f"{100 * line.stall_cycles / total:.1f}", line.main_stall,
            _or_blank(line.sectors), _or_blank(line.ideal_sectors), _or_blank(line.wavefronts),
            _or_blank(line.ideal_wavefronts), line.text,
        )
        for line in lines
    ]  # fmt: skip
    widths = [max(len(row[column]) for row in (head, *table)) for column in range(len(head) - 1)]
    out = []
    for row in (head, *table):
        left, *middle = (cell.rjust(width) for cell, width in zip(row, widths, strict=False))
        out.append("  ".join([left.strip().ljust(widths[0]), *middle, row[-1]]).rstrip())
    return "\n".join(out) + "\n"


def _or_blank(number: int) -> str:
    return f"{number:,}" if number else ""


def to_source_csv(profiles: Sequence[LaunchProfile], view: View, sources: Iterable[Path] = ()) -> str:
    """The view as CSV, a column per stall reason that occurs."""
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
    folders = list(sources)
    views = [(number, p, source_lines(p, view, folders)) for number, p in enumerate(profiles)]
    reasons = sorted({reason for _, _, lines in views for line in lines for reason in line.stalls})
    writer.writerow(("ID", "Kernel Name", *_HEAD, *(f"stall_{reason}" for reason in reasons)))
    for number, profile, lines in views:
        for line in lines:
            writer.writerow((number, profile.name, *_cells(line), *(line.stalls.get(reason, 0) for reason in reasons)))
    return out.getvalue()
