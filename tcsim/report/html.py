"""One offline HTML file of a profile: summary, sections, source with heat, timeline, bank maps. It needs no other file and no
network, can be used from the keyboard, and is legible on light and dark screens."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib import resources
from pathlib import Path

from tcsim.profile import LaunchProfile
from tcsim.report.advice import Advice, advise
from tcsim.report.charts import account_chart, colour_of, stall_chart
from tcsim.report.derived import with_derived
from tcsim.report.roofline import roofline_chart
from tcsim.report.sections import SECTIONS
from tcsim.report.source_view import Line, View, reasons_text, source_lines
from tcsim.report.text import format_number
from tcsim.timeline import Track

__all__ = ["profile_html", "summary_html"]

MOST_SLICES = 60_000
"""Slices of a timeline that a page takes; tracks beyond are left out."""

MOST_LINES = 4_000
"""Lines of a source view that a page takes; of more, those that warps waited at the longest."""

_VIEWS: tuple[tuple[View, str], ...] = (("cuda", "CUDA lines"), ("ptx", "PTX lines"), ("instruction", "instructions"))


def profile_html(
    profiles: Sequence[LaunchProfile],
    *,
    sources: Iterable[Path] = (),
    timelines: Mapping[int, Sequence[Track]] | None = None,
    banks: Mapping[int, Sequence[tuple[str, str]]] | None = None,
) -> str:
    """The page. sources: folders with CUDA files, to show their lines. timelines, banks: tracks, and (title, SVG) pictures of
    accesses to shared memory, by launch."""
    folders = list(sources)
    parts = [
        _launch(number, profile, folders, (timelines or {}).get(number, ()), (banks or {}).get(number, ()))
        for number, profile in enumerate(profiles)
    ]
    title = profiles[0].name if len({p.name for p in profiles}) == 1 else f"{len(profiles)} launches"
    head = [f"<h1>{escape(title)} <span class=soft>tcsim profile</span></h1>"]
    if len(profiles) > 1:
        options = "".join(
            f'<option value="{n}">{n}: {escape(p.name)}, {p.cycles:,} cycles</option>' for n, p in enumerate(profiles)
        )
        head.append(f'<label>Launch <select id="launch">{options}</select></label>')
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}: tcsim profile</title><style>{_page('style.css')}</style></head>\n<body>"
        f"<header>{''.join(head)}</header>\n<main>{''.join(parts)}</main>\n<script>{_page('script.js')}</script></body></html>\n"
    )


def summary_html(profile: LaunchProfile) -> str:
    """A launch as part of a notebook: the facts, where the cycles went, and what to do. Needs no script."""
    style = "<style>.tc-facts{display:flex;gap:1.5em;flex-wrap:wrap}.tc-facts b{display:block}</style>"
    facts = "".join(f"<span>{escape(name)}<b>{escape(value)}</b></span>" for name, value in _facts(profile))
    said = "".join(f"<li>{escape(advice.text)}</li>" for advice in _ranked(profile)[:3])
    title = f"<b>{escape(profile.name)}</b> on {escape(profile.device_name)}"
    return f'{style}<div>{title}<div class="tc-facts">{facts}</div>{account_chart(profile)}<ul>{said}</ul></div>'


def _page(name: str) -> str:
    return (resources.files("tcsim.report") / "page" / name).read_text(encoding="utf-8")


def _launch(
    number: int,
    profile: LaunchProfile,
    sources: Sequence[Path],
    tracks: Sequence[Track],
    banks: Sequence[tuple[str, str]],
) -> str:
    tabs = [("summary", "Summary", _summary(profile)), ("sections", "Sections", _sections(profile))]
    tabs.append(("source", "Source", _source(number, profile, sources)))
    if tracks:
        tabs.append(("timeline", "Timeline", _timeline(number, tracks)))
    if banks:
        pictures = "".join(f"<h3>{escape(title)}</h3><div class=scroll>{svg}</div>" for title, svg in banks)
        tabs.append(("banks", "Banks", f"<p class=soft>Lane by bank; the number is the wavefront.</p>{pictures}"))
    buttons = "".join(
        f'<button role="tab" id="t{number}-{key}" aria-controls="p{number}-{key}">{title}</button>' for key, title, _ in tabs
    )
    panels = "".join(
        f'<section role="tabpanel" id="p{number}-{key}" aria-labelledby="t{number}-{key}">{content}</section>'
        for key, _, content in tabs
    )
    facts = "".join(f"<li>{escape(name)}<b>{escape(value)}</b></li>" for name, value in _facts(profile))
    shape = f"grid {profile.grid}, block {profile.block}, {profile.device_name}; timed: {profile.timed}"
    return (
        f'<article data-launch="{number}"><p class=soft>{escape(shape)}</p><ul class="facts">{facts}</ul>'
        f'<div role="tablist" aria-label="Parts of the report">{buttons}</div>{panels}</article>'
    )


def _facts(profile: LaunchProfile) -> list[tuple[str, str]]:
    metrics = with_derived(profile.metrics)
    facts = [("cycles", f"{profile.cycles:,}"), ("time", f"{profile.seconds * 1e6:,.2f} µs")]
    for label, name, form in (
        ("tensor pipe", "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active", "{:.1f} %"),
        ("issue slots", "smsp__issue_active.avg.pct_of_peak_sustained_active", "{:.1f} %"),
        ("DRAM", "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", "{:.1f} %"),
        ("occupancy", "sm__warps_active.avg.pct_of_peak_sustained_active", "{:.1f} %"),
        ("waves", "launch__waves_per_multiprocessor", "{:.2f}"),
    ):
        if metrics.get(name):
            facts.append((label, form.format(metrics[name])))
    return facts


def _ranked(profile: LaunchProfile) -> list[Advice]:
    return sorted(advise(profile), key=lambda advice: -(advice.speedup or 0))


def _summary(profile: LaunchProfile) -> str:
    said = []
    for advice in _ranked(profile):
        gain = f"<b>up to {advice.speedup:.1f} %</b> " if advice.speedup is not None else ""
        rule = f"<span class=soft>({advice.rule})</span>"
        said.append(f'<div class="advice {advice.kind}">{gain}{escape(advice.text)} {rule}</div>')
    pictures = (account_chart(profile), stall_chart(profile), roofline_chart([profile]))
    shown = "".join(f"<div class=scroll>{svg}</div>" for svg in pictures if svg)
    notes = "".join(f"<li>{escape(note)}</li>" for note in profile.notes)
    return f"<h2>What to do</h2>{''.join(said)}<h2>Where the time went</h2><div class=pictures>{shown}</div><ul>{notes}</ul>"


def _sections(profile: LaunchProfile) -> str:
    metrics, advice = with_derived(profile.metrics), advise(profile)
    out = []
    for section in SECTIONS:
        rows = [
            f"<tr><td>{escape(row.label)}</td><td "
            f"class=num>{format_number(row.value(metrics))}</td><td>{escape(row.unit)}</td>"
            f"<td class=soft><code>{escape(row.metric)}</code></td></tr>"
            for row in section.rows
            if row.metric in metrics
        ]
        if not rows:
            continue
        said = "".join(
            f'<div class="advice {each.kind}">{escape(each.text)}</div>'
            for each in advice
            if each.section == section.identifier
        )
        head = "<thead><tr><th>Metric</th><th class=num>Value</th><th>Unit</th><th>Name</th></tr></thead>"
        out.append(f"<h2>{escape(section.title)}</h2><div class=scroll><table>{head}{''.join(rows)}</table></div>{said}")
    return "".join(out)


def _source(number: int, profile: LaunchProfile, sources: Sequence[Path]) -> str:
    views = [(view, title, source_lines(profile, view, sources)) for view, title in _VIEWS]
    views = [each for each in views if each[2]]
    radios = "".join(
        f'<label><input type="radio" name="v{number}" value="s{number}-{view}"{" checked" if at == 0 else ""}> {title}</label>'
        for at, (view, title, _) in enumerate(views)
    )
    tables = "".join(
        f'<div class=scroll id="s{number}-{view}"{"" if at == 0 else " hidden"}>{_lines(lines)}</div>'
        for at, (view, _, lines) in enumerate(views)
    )
    every = '<label><input type="checkbox" class="every"> every stall reason, in warp-cycles</label>'
    return f'<div class="views"><span role="radiogroup" aria-label="Lines of">{radios}</span>{every}</div>{tables}'


_COLUMNS = (
    "Source", "Text", "Executed", "Stall %", "of these, %", "Sectors", "Ideal", "Wavefronts", "Ideal", "Live registers",
)  # fmt: skip


def _lines(lines: Sequence[Line]) -> str:
    total = sum(line.stall_cycles for line in lines) or 1
    most = max((line.stall_cycles for line in lines), default=0) or 1
    sums: Counter[str] = Counter()
    for line in lines:
        sums.update(line.stalls)
    reasons = [reason for reason, cycles in sums.most_common() if cycles]
    head = "".join(f'<th scope="col"><button>{name}</button></th>' for name in _COLUMNS)
    head += "".join(f'<th scope="col" class=why><button>{reason}</button></th>' for reason in reasons)
    shown, left = list(enumerate(lines)), ""
    if len(lines) > MOST_LINES:
        shown = sorted(sorted(shown, key=lambda each: -each[1].stall_cycles)[:MOST_LINES])
        left = f"<p class=soft>The {MOST_LINES:,} of {len(lines):,} lines that warps waited at the longest.</p>"
    rows = []
    for at, line in shown:
        heat = f'class="num heat" style="--share:{line.stall_cycles / most:.3f}"'
        numbers = (line.sectors, line.ideal_sectors, line.wavefronts, line.ideal_wavefronts, line.live)
        cells = "".join(_number(n) for n in numbers)
        cells += "".join(_number(line.stalls.get(reason, 0), "num why") for reason in reasons)
        rows.append(
            f'<tr><td data-value="{at}">{escape(line.where)}</td><td class=text>{escape(line.text)}</td>'
            f'<td class=num data-value="{line.executed}">{line.executed:,}</td>'
            f'<td {heat} data-value="{line.stall_cycles}">{100 * line.stall_cycles / total:.1f}</td>'
            f"<td class=reasons>{reasons_text(line)}</td>{cells}</tr>"
        )
    return f'{left}<table class="source sortable"><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'


def _number(value: int, classes: str = "num") -> str:
    """A cell that sorts by its value and is empty for 0."""
    return f'<td class="{classes}" data-value="{value}">{f"{value:,}" if value else ""}</td>'


def _timeline(number: int, tracks: Sequence[Track]) -> str:
    names: dict[str, int] = {}
    shown, count = [], 0
    for track in tracks:
        count += len(track.slices)
        if count > MOST_SLICES:
            break
        slices = [[s.start, max(s.end, s.start + 1), names.setdefault(s.name, len(names))] for s in track.slices]
        group = track.group.replace("sub-partition", "·").replace("SM ", "SM")
        shown.append({"name": f"{group} {track.name}", "slices": slices})
    data = {"tracks": shown, "names": list(names), "colours": {name: _colour(name) for name in names}}
    text = json.dumps(data, separators=(",", ":")).replace("</", "<\\/")
    left = f" The first {len(shown)} of {len(tracks)} tracks." if len(shown) < len(tracks) else ""
    keys = "<kbd>←</kbd> <kbd>→</kbd> move, <kbd>+</kbd> <kbd>-</kbd> zoom, "
    keys += "<kbd>↑</kbd> <kbd>↓</kbd> scroll, <kbd>Home</kbd> shows all"
    return (
        f"<p class=soft>{keys}; drag, or Ctrl and wheel.{left}</p>"
        f'<canvas class="timeline" style="height:560px" tabindex="0" role="application" aria-label="Timeline" '
        f'data-tracks="d{number}" data-tip="i{number}"></canvas><p class="tip num" id="i{number}" aria-live="polite"></p>'
        f'<script type="application/json" id="d{number}">{text}</script>'
    )


def _colour(name: str) -> str:
    first = name.partition(" ")[0]
    if first.startswith(("mma", "wmma", "wgmma", "HMMA", "IMMA", "DMMA", "QMMA", "HGMMA", "IGMMA", "QGMMA")):
        return "#2da44e"
    if first.startswith(("cp.async", "LDGSTS", "UBLKCP", "UTMA")):
        return "#7fb2dd"
    if first.startswith(("ld", "LD")):
        return "#d99a6c"
    if first.startswith(("st", "ST")):
        return "#c7b299"
    if name.startswith("CTA "):
        return "#9fc5a8"
    known = colour_of(name)
    return known if known != "#8c959f" else "#a8b6c8"
