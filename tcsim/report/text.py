"""A profile as text, in Nsight Compute's sections."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tcsim.profile import InstructionProfile, LaunchProfile
from tcsim.report.sections import SECTIONS, Section

__all__ = ["format_number", "render"]

_HOT_SPOTS = 8


def render(profile: LaunchProfile, sections: Sequence[str] = ()) -> str:
    """The report of one launch. sections: identifiers to show (all if empty)."""
    grid, block = profile.grid, profile.block
    head = f"{profile.name} {grid}x{block}, Device {profile.device_name}, CC {profile.sm // 10}.{profile.sm % 10}"
    lines = [f"  {head}", f"    Timed: {profile.timed}; SM clock assumed {profile.sm_clock_hz / 1e9:.3f} GHz"]
    for section in SECTIONS:
        if sections and section.identifier not in sections:
            continue
        lines += _section(section, profile)
        if section.identifier == "WarpStateStats":
            lines += _stalls(profile)
    if not sections or "SourceCounters" in sections:
        lines += _hot_spots(profile)
    lines += [f"    Note: {note}" for note in profile.notes]
    return "\n".join(lines) + "\n"


def format_number(value: int | float) -> str:
    """As Nsight Compute prints: thousands separated, two decimals for what is not whole."""
    if isinstance(value, int) or (float(value).is_integer() and abs(value) >= 1000):
        return f"{int(value):,}"
    return f"{value:,.2f}"


def _section(section: Section, profile: LaunchProfile) -> Iterable[str]:
    rows = [
        (row.label, row.unit, format_number(row.value(profile.metrics)))
        for row in section.rows
        if row.metric in profile.metrics
    ]
    return _table(section.title, ("Metric Name", "Metric Unit", "Metric Value"), rows)


def _table(title: str, head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    if not rows:
        return []
    widths = [max(len(line[column]) for line in (head, *rows)) for column in range(len(head))]
    rule = "    " + " ".join("-" * width for width in widths)

    def line(cells: tuple[str, ...]) -> str:
        first, *rest = (cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
        return "    " + " ".join([first.strip().ljust(widths[0]), *rest])

    return ["", f"    Section: {title}", rule, line(head), rule, *(line(row) for row in rows), rule]


def _stalls(profile: LaunchProfile) -> list[str]:
    """Where resident warps spent their cycles; the shares add up to all of them."""
    total = sum(profile.stalls.values())
    if not total:
        return []
    issued = profile.metrics.get("smsp__inst_issued.sum", 0) or 1
    rows = [
        (reason, f"{cycles / issued:.2f}", f"{100 * cycles / total:.1f}")
        for reason, cycles in sorted(profile.stalls.items(), key=lambda item: -item[1])
        if cycles
    ]
    return _table("Warp States", ("Warp State", "Cycles Per Issue", "% of Warp Cycles"), rows)


def _hot_spots(profile: LaunchProfile) -> list[str]:
    """The instructions that warps wait at the longest."""
    hot = sorted(profile.instructions, key=lambda i: -i.stall_cycles)[:_HOT_SPOTS]
    total = sum(i.stall_cycles for i in profile.instructions) or 1
    rows = [
        (_place(i), i.opcode, f"{i.executed:,}", _main_reason(i), f"{100 * i.stall_cycles / total:.1f}")
        for i in hot
        if i.stall_cycles
    ]
    head = ("Source", "Instruction", "Executed", "Main Stall", "% of Stall Cycles")
    return _table("Source Counters", head, rows)


def _place(instruction: InstructionProfile) -> str:
    cuda = f"{instruction.file.rsplit('/', 1)[-1]}:{instruction.line} " if instruction.file else ""
    return f"{cuda}ptx:{instruction.ptx_line}"


def _main_reason(instruction: InstructionProfile) -> str:
    reasons = {name: cycles for name, cycles in instruction.stalls.items() if name != "selected"}
    return max(reasons, key=lambda name: reasons[name]) if reasons else ""
