"""What ``tcsim banks`` tells: of address expressions, or of the accesses of an executed launch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from isa.program import Program
from tcsim.errors import TcsimError
from tcsim.lanes.bank_access import BankAccess, BankError, access_of_expression
from tcsim.lanes.bank_picture import accesses_svg, banks_html
from tcsim.lanes.bank_text import access_data, access_text, remedies_data, remedies_text, summary
from tcsim.lanes.expression import Expression
from tcsim.lanes.kernel_accesses import Occurrence, SharedAccesses, SharedInstruction, may_access_shared
from tcsim.lanes.remedies import Remedies, find_remedies
from tcsim.lanes.words import count

if TYPE_CHECKING:
    from tcsim.cli.launches import PreparedLaunch

__all__ = ["Report", "of_expressions", "of_launch", "totals"]

SCHEMA = 1


class Report(Protocol):
    """One report in every format. ``data``: for JSON."""

    def text(self) -> str: ...

    def svg(self) -> str: ...

    def html(self) -> str: ...

    def data(self) -> dict[str, Any]: ...


# --------------------------------------------------------------------------------------------------------- expressions


def of_expressions(
    texts: Sequence[str], widths: Sequence[int], rows: int | None, warp: int, lets: Mapping[str, str]
) -> ExpressionReport:
    """Accesses to one buffer. ``widths``: none, one for all, or one each. Raises ExpressionError, BankError."""
    each = list(widths) or [16 if rows else 4]
    if len(each) == 1:
        each *= len(texts)
    if len(each) != len(texts):
        raise BankError(f"{len(each)} widths for {len(texts)} expressions; give one for all or one for each")
    pairs = zip(texts, each, strict=True)
    accesses = [access_of_expression(Expression(text, lets), width, rows or 32, warp) for text, width in pairs]
    return ExpressionReport(accesses, find_remedies(accesses))


@dataclass(frozen=True)
class ExpressionReport:
    """Accesses given by expressions, all to one buffer."""

    accesses: list[BankAccess]
    remedies: Remedies

    @property
    def expressions(self) -> list[str]:
        return [access.expression.text for access in self.accesses if access.expression is not None]

    def text(self) -> str:
        parts = [f"{text}\n{access_text(access)}" for text, access in zip(self.expressions, self.accesses, strict=True)]
        return "\n\n".join([*parts, self._remedies()])

    def _remedies(self) -> str:
        return remedies_text(self.remedies, self.expressions)

    def svg(self) -> str:
        return accesses_svg(list(zip(self.expressions, self.accesses, strict=True)))

    def html(self) -> str:
        pairs = list(zip(self.expressions, self.accesses, strict=True))
        return banks_html("Shared-memory banks", pairs, [self._remedies()])

    def data(self) -> dict[str, Any]:
        accesses = [access_data(access) for access in self.accesses]
        return {"schema": SCHEMA, "accesses": accesses, "remedies": remedies_data(self.remedies, self.expressions)}


# -------------------------------------------------------------------------------------------------------------- kernels


def of_launch(launch: PreparedLaunch, lines: Sequence[str]) -> LaunchReport:
    """Execute a launch and report on the accesses at ``lines`` (``ptx:118``, ``118``, ``transpose.cu:21``), or, without any, on
    all of them in a table. Raises what a launch raises, and TcsimError for a line without an access to shared memory."""
    program = _program(launch)
    wanted = [_at_line(program, line) for line in lines]
    chosen = {pc for pcs in wanted for pc in pcs}
    watched = SharedAccesses(lambda _, pc: pc in chosen)
    with watched:
        launch.run()
    found = [entry for entry in watched.found if not chosen or entry.pc in chosen]
    if chosen and not found:
        raise TcsimError(f"{launch.function.name}: no warp accessed shared memory at {', '.join(lines)} in this launch")
    patterns = [access for entry in found for access in entry.patterns.values()]
    remedies = find_remedies(patterns) if patterns else None
    return LaunchReport(launch.function.name, launch.device.name, found, remedies, bool(chosen))


def _program(launch: PreparedLaunch) -> Program:
    with launch.device:
        return launch.function.program


def _at_line(program: Program, text: str) -> list[int]:
    """The instructions at a line that may access shared memory."""
    file, _, number = text.rpartition(":")
    if not number.isdigit():
        raise TcsimError(f"--line {text!r}: a line of the PTX such as ptx:118, or of the source such as transpose.cu:21")
    accesses = [pc for pc in range(len(program)) if may_access_shared(program.memory[pc])]
    if file in ("", "ptx"):
        pcs = [pc for pc in accesses if int(program.lines[pc]) == int(number)]
    else:
        pcs = [pc for pc in accesses if _is_at(program, pc, file, int(number))]
    if not pcs:
        there = "\n".join(f"  {program.where(pc)}  {program.opcodes[pc]}" for pc in accesses[:40]) or "  none"
        raise TcsimError(f"--line {text}: {program.name} has no access to shared memory there; it has\n{there}")
    return pcs


def _is_at(program: Program, pc: int, file: str, line: int) -> bool:
    loc = program.locs[pc]
    return loc is not None and loc.line == line and program.files.get(loc.file, "").endswith(file)


@dataclass(frozen=True)
class LaunchReport:
    """Accesses of an executed launch. ``detailed``: with addresses and remedies, else a table only."""

    kernel: str
    device: str
    found: list[SharedInstruction]
    remedies: Remedies | None
    detailed: bool

    def text(self) -> str:
        head = f"{self.kernel} on {self.device}"
        if not self.found:
            return f"{head}: no access to shared memory"
        if not self.detailed:
            ending = "--line shows one of them, and what would remove its conflicts."
            title = f"{head}: accesses to shared memory over the launch"
            return "\n\n".join([title, _table(self.found), _totals(self.found), ending])
        parts = [head, *(_instruction_text(entry) for entry in self.found)]
        if self.remedies is not None:
            parts.append(self._remedies())
        return "\n\n".join(parts)

    def _remedies(self) -> str:
        assert self.remedies is not None
        tried = sum(len(entry.patterns) for entry in self.found)
        told = f"(tried on {count(tried, 'different set')} of addresses of this launch; a is the offset in shared memory)"
        return f"{remedies_text(self.remedies)}\n{told}"

    def _pictures(self) -> list[tuple[str, BankAccess]]:
        if not self.detailed:
            raise TcsimError("a picture shows one access; choose it with --line")
        return [(f"{e.opcode}  {e.where}  {_who(e.worst)}", e.worst.access) for e in self.found if e.worst is not None]

    def svg(self) -> str:
        return accesses_svg(self._pictures())

    def html(self) -> str:
        texts = [_table(self.found), *([self._remedies()] if self.remedies is not None else [])]
        return banks_html(f"Shared-memory banks: {self.kernel}", self._pictures(), texts)

    def data(self) -> dict[str, Any]:
        data: dict[str, Any] = {"schema": SCHEMA, "kernel": self.kernel, "device": self.device}
        data["accesses"] = [_instruction_data(entry) for entry in self.found]
        if self.remedies is not None:
            data["remedies"] = remedies_data(self.remedies)
        return data


_COLUMNS = ("where", "instruction", "bytes", "requests", "wavefronts", "ideal", "conflicts", "each")


def _table(found: Sequence[SharedInstruction]) -> str:
    lines = [list(_COLUMNS)]
    for e in found:
        numbers = (e.requests, e.wavefronts, e.ideal, e.conflicts)
        lines.append([e.where, e.opcode, str(e.width), *(f"{n:,}" for n in numbers), f"{e.wavefronts / e.requests:.1f}"])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]

    def line(words: Sequence[str]) -> str:
        left = [word.ljust(width) for word, width in zip(words[:2], widths[:2], strict=True)]
        right = [word.rjust(width) for word, width in zip(words[2:], widths[2:], strict=True)]
        return "  ".join(left + right)

    return "\n".join(map(line, lines))


def totals(found: Sequence[SharedInstruction]) -> dict[str, tuple[int, int, int]]:
    """Requests, wavefronts and conflicts of loads, stores, copies and atomics, as Nsight Compute tells them apart."""
    sums: dict[str, tuple[int, int, int]] = {}
    for each in found:
        kind = next((word for word in ("load", "store", "copy") if word in each.kind), "atomic")
        requests, wavefronts, conflicts = sums.get(kind, (0, 0, 0))
        sums[kind] = requests + each.requests, wavefronts + each.wavefronts, conflicts + each.conflicts
    return sums


_PLURALS = {"load": "loads", "store": "stores", "copy": "asynchronous copies", "atomic": "atomics"}


def _totals(found: Sequence[SharedInstruction]) -> str:
    lines = []
    for kind, (requests, wavefronts, conflicts) in totals(found).items():
        numbers = (count(requests, "request"), count(wavefronts, "wavefront"), count(conflicts, "bank conflict"))
        lines.append(f"{_PLURALS[kind]}: {', '.join(numbers)}")
    return "\n".join(lines)


def _who(seen: Occurrence | None) -> str:
    return f"CTA {seen.cta} warp {seen.warp}, access {seen.number}" if seen is not None else ""


def _instruction_text(entry: SharedInstruction) -> str:
    requests, wavefronts = count(entry.requests, "request"), count(entry.wavefronts, "wavefront")
    each = f"{entry.wavefronts / entry.requests:.1f} each, ideal {entry.ideal_each}"
    totals = f"  over the launch: {requests}, {wavefronts} ({each}), {count(entry.conflicts, 'bank conflict')}"
    lines = [f"{entry.opcode}  {entry.where}", totals]
    if entry.first is not None and entry.worst is not None:
        if entry.first is not entry.worst:
            lines.append(f"  the first: {_who(entry.first)}: {summary(entry.first.access)}")
        lines += [f"  the worst: {_who(entry.worst)}", "", access_text(entry.worst.access)]
    return "\n".join(lines)


def _instruction_data(entry: SharedInstruction) -> dict[str, Any]:
    data: dict[str, Any] = {
        key: getattr(entry, key)
        for key in ("pc", "opcode", "ptx_line", "file", "line", "kind", "width", "requests", "wavefronts", "ideal", "conflicts")
    }
    for name, seen in (("first", entry.first), ("worst", entry.worst)):
        if seen is not None:
            data[name] = {"cta": list(seen.cta), "warp": seen.warp, "number": seen.number} | access_data(seen.access)
    return data
