"""What each line of the source cost: by CUDA line, by PTX line, or by instruction, as text, CSV and JSON."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec

from tcsim.profile import InstructionProfile, LaunchProfile
from tcsim.report.widths import ideal_sectors, ideal_wavefronts, space_of

__all__ = ["Line", "View", "reasons_text", "source_lines", "source_text", "to_source_csv", "to_source_json"]

View = Literal["cuda", "ptx", "instruction"]


@dataclass
class Line:
    """What instructions of one line did in all. ``where``: ``k.cu:41`` or ``ptx:118``. ``text``: the line, where it is known,
    or the instruction. ``stalls``: warp-cycles by reason, without those in which they issued. ``ideal_sectors`` and
    ``ideal_wavefronts``: if every lane had bytes of its own, with perfect coalescing and without bank conflicts; at most what
    there was, as lanes that read the same need less. ``live``: the most registers of a thread that hold a value at one of the
    instructions."""

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
    live: int = 0

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
        self.live = max(self.live, i.live)
        self.executed += i.executed
        self.threads += i.threads
        self.issued += i.issued
        for reason, cycles in i.stalls.items():
            if reason != "selected":
                self.stalls[reason] = self.stalls.get(reason, 0) + cycles
        self.sectors += i.sectors
        self.wavefronts += i.wavefronts
        if i.sectors and space_of(i.opcode):
            self.ideal_sectors += min(i.sectors, ideal_sectors(i.opcode, i.executed, i.threads))
        if i.wavefronts:
            self.ideal_wavefronts += min(i.wavefronts, ideal_wavefronts(i.opcode, i.executed, i.threads))


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
            text = i.text or i.opcode
            if view == "ptx":
                text = profile.ptx.get(i.ptx_line, text)
            elif view == "cuda":
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
    "Ideal Wavefronts", "Live Registers",
)  # fmt: skip


def _cells(line: Line) -> tuple[str | int, ...]:
    return (
        line.where, line.text, line.executed, line.threads, line.issued, line.stall_cycles, line.main_stall, line.sectors,
        line.ideal_sectors, line.wavefronts, line.ideal_wavefronts, line.live,
    )  # fmt: skip


def source_text(profile: LaunchProfile, view: View, sources: Iterable[Path] = ()) -> str:
    """The view as a table; stalls as shares of all of the launch, and their reasons as shares of the line's, the three largest
    (CSV and JSON have all)."""
    lines = source_lines(profile, view, sources)
    total = sum(line.stall_cycles for line in lines) or 1
    head = ("Source", "Executed", "Stall %", "of these, %", "Sectors", "Ideal", "Wavefr.", "Ideal", "Live", "Text")
    table = [
        (
            line.where, f"{line.executed:,}", f"{100 * line.stall_cycles / total:.1f}", reasons_text(line),
            _or_blank(line.sectors), _or_blank(line.ideal_sectors), _or_blank(line.wavefronts),
            _or_blank(line.ideal_wavefronts), _or_blank(line.live), line.text,
        )
        for line in lines
    ]  # fmt: skip
    widths = [max(len(row[column]) for row in (head, *table)) for column in range(len(head) - 1)]
    out = []
    for row in (head, *table):
        cells = [
            cell.ljust(width) if column in _WORDS else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=False))
        ]
        out.append("  ".join([*cells, row[-1]]).rstrip())
    return "\n".join(out) + "\n"


def reasons_text(line: Line) -> str:
    """The reasons for most of a line's stalls, with their shares: ``long_scoreboard 81, wait 12``."""
    total = line.stall_cycles or 1
    shares = [(reason, 100 * cycles / total) for reason, cycles in Counter(line.stalls).most_common(_REASONS)]
    return ", ".join(f"{reason} {share:.0f}" for reason, share in shares if share >= 1)


_REASONS = 3
_WORDS = (0, 3)  # columns that are words


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


def to_source_json(profiles: Sequence[LaunchProfile], view: View, sources: Iterable[Path] = ()) -> str:
    """The view as JSON: per launch its number, name, and the fields of its :class:`Line` s."""
    folders = list(sources)
    launches: list[dict[str, Any]] = [
        {"id": number, "name": profile.name, "view": view, "lines": source_lines(profile, view, folders)}
        for number, profile in enumerate(profiles)
    ]
    return msgspec.json.format(msgspec.json.encode({"launches": launches}), indent=1).decode() + "\n"
