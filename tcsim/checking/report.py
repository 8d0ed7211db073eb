"""What a check found, as data and as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tcsim.errors import TcsimError

__all__ = ["Access", "CheckReport", "Hazard", "HazardError", "merged"]


@dataclass(frozen=True)
class Access:
    """One side of a hazard: what an instruction did, and who executed it.

    ``role``: write, read, ... ``pc``: its index in the program; ``ptx_line`` 1-based; ``file`` and ``line`` of the CUDA
    source, or "" and 0. ``cta``: (x, y, z). ``lanes``: those concerned.
    """

    role: str
    opcode: str
    pc: int
    ptx_line: int
    file: str
    line: int
    cta: tuple[int, int, int]
    warp: int
    lanes: tuple[int, ...]

    @property
    def where(self) -> str:
        """``k.cu:41  ptx:118``."""
        cuda = f"{self.file.rsplit('/', 1)[-1]}:{self.line}  " if self.line else ""
        return f"{cuda}ptx:{self.ptx_line}"

    def text(self, width: int = 5) -> str:
        """A line of a message."""
        lanes = f"lane {self.lanes[0]}" if len(self.lanes) == 1 else f"lanes {_runs(self.lanes)}"
        role = f"{self.role:{width}}  " if self.role else ""
        return f"{role}{self.opcode}  {self.where}  CTA {self.cta} warp {self.warp} {lanes}"


@dataclass(frozen=True)
class Hazard:
    """Something wrong that a launch did.

    ``kind``: RACE, UNINITIALISED, ... ``what``: where in memory, or with which operand. ``accesses``: the one that showed it,
    after the one it collides with, if there are two. ``why``: the rule, with its section of the PTX ISA. ``suggestion``: what
    to try. ``count``: how often it happened at these instructions. ``kernel``: whose.
    """

    kind: str
    what: str
    accesses: tuple[Access, ...]
    why: str
    suggestion: str
    kernel: str
    count: int = 1
    detail: str = ""

    def text(self) -> str:
        """The message, over several lines."""
        if self.detail:
            return self.detail
        lines = [f"{self.kind}  {self.what}  in {self.kernel}".replace("    ", "  ")]
        width = max((len(a.role) for a in self.accesses), default=0)
        lines += [f"  {access.text(width)}" for access in self.accesses]
        lines.append(f"  {self.why}")
        if self.suggestion:
            lines.append(f"  Try: {self.suggestion}")
        if self.count > 1:
            lines.append(f"  {self.count:,} times at {'these lines' if len(self.accesses) > 1 else 'this line'}")
        return "\n".join(lines)

    def data(self) -> dict[str, Any]:
        """The same as plain values, for JSON."""
        return {
            "kind": self.kind,
            "what": self.what,
            "kernel": self.kernel,
            "count": self.count,
            "why": self.why,
            "suggestion": self.suggestion,
            "accesses": [
                {
                    "role": a.role,
                    "opcode": a.opcode,
                    "pc": a.pc,
                    "ptx_line": a.ptx_line,
                    "file": a.file,
                    "line": a.line,
                    "cta": list(a.cta),
                    "warp": a.warp,
                    "lanes": list(a.lanes),
                }
                for a in self.accesses
            ],
        }


class HazardError(TcsimError):
    """A checked launch has hazards. ``report`` is the :class:`CheckReport`."""

    def __init__(self, report: CheckReport) -> None:
        self.report = report
        super().__init__(report.text())


@dataclass
class CheckReport:
    """All hazards of the launches that were checked, in the order found. ``notes``: what is worth knowing and no hazard: sums
    that cancel, what was left out. ``launches``: how many were checked."""

    hazards: list[Hazard] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    launches: int = 0

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.hazards

    def kinds(self) -> Mapping[str, int]:
        """How many hazards of each kind."""
        counts: dict[str, int] = {}
        for hazard in self.hazards:
            counts[hazard.kind] = counts.get(hazard.kind, 0) + 1
        return counts

    def text(self) -> str:
        """For people."""
        parts = [hazard.text() for hazard in self.hazards]
        parts += [f"note: {note}" for note in self.notes]
        found = ", ".join(f"{count} {kind}" for kind, count in self.kinds().items()) or "no hazards"
        several = "" if self.launches == 1 else "es"
        parts.append(f"{found} in {self.launches} launch{several}")
        return "\n".join(parts)

    def data(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return {
            "schema": "tcsim-check-1",
            "launches": self.launches,
            "hazards": [hazard.data() for hazard in self.hazards],
            "notes": list(self.notes),
        }

    def require(self) -> None:
        """Raise HazardError if there are hazards."""
        if self.hazards:
            raise HazardError(self)

    def __str__(self) -> str:
        return self.text()


def _runs(lanes: tuple[int, ...]) -> str:
    runs: list[list[int]] = []
    for lane in lanes:
        if runs and lane == runs[-1][1] + 1:
            runs[-1][1] = lane
        else:
            runs.append([lane, lane])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs) or "none"


def merged(hazards: Sequence[Hazard]) -> list[Hazard]:
    """Hazards of one kind at the same lines of the source as one: an unrolled loop has many instructions on a line. Shown is
    the one between the threads that are farthest apart, as what orders those orders all."""
    found: dict[tuple[Any, ...], Hazard] = {}
    for hazard in hazards:
        key = (hazard.kind, hazard.kernel, *((a.role, a.file, a.line or a.ptx_line) for a in hazard.accesses))
        if hazard.detail or not hazard.accesses:
            key = (hazard.kind, hazard.kernel, hazard.detail or hazard.what)
        before = found.get(key)
        if before is None:
            found[key] = hazard
        else:
            shown = max(before, hazard, key=_distance)
            found[key] = replace(shown, count=before.count + hazard.count)
    return list(found.values())


def _distance(hazard: Hazard) -> int:
    if len(hazard.accesses) < 2:
        return 0
    one, two = hazard.accesses
    return 2 if one.cta != two.cta else int(one.warp != two.warp)
