"""A profile as text, in Nsight Compute's sections."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence

from tcsim.profile import InstructionProfile, LaunchProfile
from tcsim.report.account import account
from tcsim.report.advice import Advice, advise
from tcsim.report.derived import with_derived
from tcsim.report.sections import SECTIONS, Section
from tcsim.report.units import chosen_metrics, unit_of

__all__ = ["format_number", "render", "render_metrics", "table"]

_HOT_SPOTS = 8


def render(profile: LaunchProfile, sections: Sequence[str] = ()) -> str:
    """The report of one launch. sections: identifiers to show (all if empty)."""
    lines = [f"  {_title(profile)}", f"    Timed: {profile.timed}; SM clock assumed {profile.sm_clock_hz / 1e9:.3f} GHz"]
    metrics, advice = with_derived(profile.metrics), advise(profile)
    for section in SECTIONS:
        if sections and section.identifier not in sections:
            continue
        lines += _section(section, metrics)
        if section.identifier == "WarpStateStats":
            lines += _stalls(profile)
        if section.identifier == "SourceCounters":
            lines += _hot_spots(profile)
        lines += _advice([said for said in advice if said.section == section.identifier])
    if not sections or "Account" in sections:
        lines += _account(profile)
    lines += [f"    Note: {note}" for note in profile.notes]
    return "\n".join(lines) + "\n"


def render_metrics(profile: LaunchProfile, names: Sequence[str] = ()) -> str:
    """Every metric of a launch by its name, or those that are asked for (:func:`tcsim.report.units.chosen_metrics`). Raises
    TcsimError for a name it does not have."""
    metrics = with_derived(profile.metrics)
    rows = [(name, unit_of(name), format_number(metrics[name])) for name in chosen_metrics(metrics, names)]
    head = ("Metric Name", "Metric Unit", "Metric Value")
    return "\n".join([f"  {_title(profile)}", *table("Command line profiler metrics", head, rows)]) + "\n"


def _title(profile: LaunchProfile) -> str:
    cc = f"{profile.sm // 10}.{profile.sm % 10}"
    return f"{profile.name} {profile.grid}x{profile.block}, Device {profile.device_name}, CC {cc}"


def format_number(value: int | float) -> str:
    """As Nsight Compute prints: thousands separated, two decimals for what is not whole."""
    if isinstance(value, int) or (float(value).is_integer() and abs(value) >= 1000):
        return f"{int(value):,}"
    return f"{value:,.2f}"


def _section(section: Section, metrics: Mapping[str, int | float]) -> Iterable[str]:
    rows = [
        (row.label, row.unit, format_number(row.value(metrics))) for row in section.rows if row.metric in metrics
    ]
    return table(section.title, ("Metric Name", "Metric Unit", "Metric Value"), rows)


def _advice(said: Sequence[Advice]) -> list[str]:
    lines: list[str] = []
    for advice in said:
        gain = f"Est. Speedup: {advice.speedup:.1f}%  " if advice.speedup is not None else ""
        text = f"{advice.kind}   {gain}{advice.text}"
        lines += textwrap.wrap(text, 118, initial_indent="    ", subsequent_indent="          ", break_on_hyphens=False)
    return lines


def _account(profile: LaunchProfile) -> list[str]:
    """From the peak down to what was reached; the shares add up to 100."""
    found = account(profile)
    if found is None:
        return []
    rows = [("reached", f"{found.reached:.1f}", found.resource)]
    rows += [(loss.name, f"{loss.percent:.1f}", loss.text) for loss in found.losses if loss.percent >= 0.05]
    small = sum(loss.percent for loss in found.losses if loss.percent < 0.05)
    rows += [("others", f"{small:.1f}", "")] if small else []
    title = f"Where the cycles went: {found.resource}, % of their peak over the launch"
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    rule = "    " + "-" * 100
    lines = [f"    {name.ljust(widths[0])}  {percent.rjust(widths[1])}  {text}".rstrip() for name, percent, text in rows]
    return ["", f"    Section: {title}", rule, *lines, rule]


def table(title: str, head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    """A titled table: first column to the left, others to the right; nothing without rows."""
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
    return table("Warp States", ("Warp State", "Cycles Per Issue", "% of Warp Cycles"), rows)


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
    return table("Source Counters: where warps wait the longest", head, rows)


def _place(instruction: InstructionProfile) -> str:
    cuda = f"{instruction.file.rsplit('/', 1)[-1]}:{instruction.line} " if instruction.file else ""
    return f"{cuda}ptx:{instruction.ptx_line}"


def _main_reason(instruction: InstructionProfile) -> str:
    reasons = {name: cycles for name, cycles in instruction.stalls.items() if name != "selected"}
    return max(reasons, key=lambda name: reasons[name]) if reasons else ""
