"""The HTML report, pictures and timelines: complete, offline, usable from the keyboard in a browser."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import sys
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import tcsim
from isa.program import Program
from tcsim.cli import main
from tcsim.errors import TcsimError
from tcsim.lanes.bank_picture import access_svg
from tcsim.profile import LaunchProfile
from tcsim.report.charts import account_chart, scatter_chart, stall_chart
from tcsim.report.html import profile_html, summary_html
from tcsim.report.png import to_png
from tcsim.report.roofline import roofline, roofline_chart
from tcsim.report.source_view import source_lines, source_text, to_source_csv, to_source_json
from tcsim.report.widths import access_bytes, ideal_sectors, ideal_wavefronts, space_of
from tcsim.report.work import has_matrices, operations, peak, work
from tcsim.timeline import Timeline, Track
from tests.test_report import made

ROOT = Path(__file__).parents[1]
BUNDLE = ROOT / "traces" / "transpose_conflicts"


@pytest.fixture(scope="module")
def observed() -> tuple[LaunchProfile, list[Track], Timeline]:
    from tcsim.cli.launches import LaunchOptions, prepare

    launch = prepare(str(BUNDLE), LaunchOptions())
    timeline = Timeline(cycles=(3000, 6000))
    with tcsim.Profiler([timeline], code="ptx") as profiler:
        launch.run()
    return profiler.launches[0], timeline.tracks(profiler.launches[0]), timeline


@pytest.fixture(scope="module")
def page(observed: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    profile, tracks, _ = observed
    path = tmp_path_factory.mktemp("html") / "report.html"
    banks = [("ptx:120: ld.shared.f32", access_svg(tcsim.banks("lane*128")))]
    text = profile_html([profile, profile], sources=[ROOT / "traces" / "kernels"], timelines={0: tracks}, banks={0: banks})
    path.write_text(text, encoding="utf-8")
    return path


# ------------------------------------------------------------------------------------------------------- what opcodes say


@pytest.mark.parametrize(
    ("opcode", "space", "width"),
    [
        ("ld.global.v4.f32", "global", 16), ("st.shared.u8", "shared", 1), ("ld.shared::cluster.u32", "shared", 4),
        ("ld.f64", "generic", 8), ("LDG.E.128", "global", 16), ("STS.U16", "shared", 2), ("LDS", "shared", 4),
        ("ldmatrix.sync.aligned.m8n8.x4.shared.b16", "shared", 0), ("add.f32", "", 0), ("REDG.E.ADD.STRONG.GPU", "global", 4),
        ("atom.global.add.noftz.bf16x2", "global", 4), ("red.global.add.f64", "global", 8), ("atom.shared.add.u32", "", 4),
    ],
)  # fmt: skip
def test_widths(opcode: str, space: str, width: int) -> None:
    assert (space_of(opcode), access_bytes(opcode)) == (space, width)


def test_an_access_by_one_lane_takes_a_sector_each_time() -> None:
    assert ideal_sectors("ld.global.f32", 10, 320) == 40 and ideal_sectors("ld.global.u8", 10, 320) == 10
    assert ideal_sectors("ATOMG.E.ADD.STRONG.GPU", 10, 10) == 10 and ideal_sectors("STG.E", 10, 3) == 3
    assert ideal_sectors("FADD", 10, 320) == 0


@pytest.mark.parametrize(
    ("opcode", "kind", "size"),
    [
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "f16", 2048), ("HMMA.16816.F32", "f16", 2048),
        ("HMMA.1688.F32.TF32", "tf32", 1024), ("HMMA.SP.16832.F32.BF16", "sparse bf16", 4096),
        ("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32", "sparse f16", 4096),
        ("IMMA.8816.S8.S8", "int8", 1024), ("IMMA.16864.U4.S4", "int4", 8192), ("BMMA.168256.AND.POPC", "b1", 32768),
        ("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32", "f16", 4096), ("DMMA.8x8x4", "f64", 256),
        ("wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.s8.s32", "int8", 4096),
        ("HGMMA.64x128x16.F32", "f16", 16 * 128 * 16), ("QGMMA.64x64x32.F32.E4M3.E5M2", "fp8", 16 * 64 * 32),
        ("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16", "bf16", 16 * 128 * 16),
    ],
)  # fmt: skip
def test_work_of_matrix_instructions(opcode: str, kind: str, size: int) -> None:
    assert operations(opcode, 10, 320) == (f"tensor {kind}", 10 * 2 * size)  # of a warp, a product and a sum


def test_work_of_opcodes() -> None:
    assert operations("fma.rn.f32", 2, 64) == ("fp32", 128) and operations("FADD", 2, 64) == ("fp32", 64)
    assert operations("fma.rn.f16x2", 2, 64) == ("fp16", 256) and operations("add.f64", 1, 32) == ("fp64", 32)
    for opcode in ("add.s32", "HADD2.F32", "wmma.load.a.m16n16k16.f16", "LDSM.16.M88.4"):
        assert operations(opcode, 1, 32) == ("", 0)
    assert ideal_wavefronts("ld.shared.f32", 10, 320) == 10 and ideal_wavefronts("ld.shared.v4.f32", 10, 320) == 40
    assert ideal_wavefronts("ldmatrix.sync.aligned.m8n8.x4.shared.b16", 10, 320) == 40
    assert ideal_wavefronts("ld.global.f32", 10, 320) == 0 and ideal_wavefronts("LDGSTS.E.BYPASS.128", 10, 320) == 40


# ------------------------------------------------------------------------------------------------------------ source view


def test_source_view_adds_up(observed: Any) -> None:
    profile = observed[0]
    for view in ("cuda", "ptx", "instruction"):
        lines = source_lines(profile, view, [ROOT / "traces" / "kernels"])
        assert sum(line.executed for line in lines) <= sum(i.executed for i in profile.instructions)
        if view != "cuda":
            assert sum(line.stall_cycles for line in lines) == sum(i.stall_cycles for i in profile.instructions)
    line = next(line for line in source_lines(profile, "cuda", [ROOT / "traces" / "kernels"]) if line.excess_wavefronts)
    assert "tile[threadIdx.x][threadIdx.y + j]" in line.text  # a column of a 32 x 32 tile: 32 wavefronts for one
    assert line.wavefronts == 32 * line.ideal_wavefronts and line.sectors == line.ideal_sectors
    text = source_text(profile, "cuda", [ROOT / "traces" / "kernels"])
    assert re.search(r"short_scoreboard \d+", text) and line.where in text
    head, *rows = csv.reader(io.StringIO(to_source_csv([profile], "ptx")))
    assert {"stall_short_scoreboard", "Live Registers", "Ideal Wavefronts"} <= set(head)
    lines = json.loads(to_source_json([profile], "ptx"))["launches"][0]["lines"]
    assert len(lines) == len(rows) and sum(line["stalls"].get("wait", 0) for line in lines) == profile.stalls["wait"]
    at = next(line for line in lines if line["text"].startswith("ld.shared.f32"))
    assert at["wavefronts"] == 32 * at["ideal_wavefronts"] and 4 < at["live"] <= max(line["live"] for line in lines)


def test_the_most_live_registers_are_the_estimate_of_the_launch(observed: Any) -> None:
    profile = observed[0]  # timed as PTX
    assert max(i.live for i in profile.instructions) == profile.metrics["launch__registers_per_thread"]
    assert any(i.text.startswith("@%p") for i in profile.instructions)


# ---------------------------------------------------------------------------------------------------------------- pictures


def test_pictures_are_xml_that_names_what_it_shows(observed: Any) -> None:
    profile = observed[0]
    charts = [stall_chart(profile), account_chart(profile), scatter_chart([("a", 1000, 1200), ("b", 30_000, 25_000)])]
    for svg in charts:
        root = ET.fromstring(svg)
        assert root.tag.endswith("svg") and root.get("aria-label")
    assert "short_scoreboard" in charts[0] and "reached" in charts[1] and "a: 1,000 measured" in charts[2]


def test_roofline() -> None:
    moved = {"dram__bytes_read.sum": 3000, "dram__bytes_write.sum": 1000}
    share = {"gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": 50.0}
    metrics = dict(made().metrics) | moved | share
    mma = replace(made().instructions[0], opcode="HMMA.16816.F32", interval=8.0)
    fma = replace(mma, pc=9, opcode="FFMA", interval=1.0, executed=10, threads=320)
    launch = made(metrics=metrics, instructions=(mma, fma))
    found = roofline(launch)
    assert found is not None and found.kind == "tensor f16" and work(launch)["fp32"] == 640
    assert found.intensity == pytest.approx(64 * 4096 / 4000)
    assert found.bandwidth == pytest.approx(2 * 4000 / made().seconds)
    assert found.peak == pytest.approx(4096 / 8 * 4 * 4 * 1.98e9)  # of 4 sub-partitions of 4 SMs
    other = replace(launch, name="f", instructions=(replace(fma, opcode="FADD"),))
    assert peak(other, "fp32") == peak(launch, "fp32") == 64 * 4 * 4 * 1.98e9  # an FFMA is two operations
    chart = roofline_chart([launch, other])
    assert "of the roof" in chart and "tensor f16: " in chart and "fp32: " in chart
    assert roofline(made()) is None and roofline_chart([made()]) == ""


def test_constants_moved_by_arithmetic_are_no_work() -> None:
    """ptxas moves constants as 0 * 0 + x on the tensor pipe; Nsight Compute counts these as tensor instructions."""
    move = replace(made().instructions[0], opcode="HFMA2.MMA", text="HFMA2.MMA R5, -RZ, RZ, 0, 5.9604644775390625e-08")
    assert not work(made(instructions=(move,))) and not has_matrices(made(instructions=(move,)))
    assert work(made(instructions=(replace(move, text="HFMA2.MMA R5, R6, R7, R8"),)))["fp16"] == 2048 * 4


def test_png_is_the_picture(observed: Any) -> None:
    pytest.importorskip("resvg_py")
    try:
        made_png = to_png(stall_chart(observed[0]))
    except TcsimError as told:  # a bare machine has no fonts
        pytest.skip(str(told))
    assert made_png[:8] == b"\x89PNG\r\n\x1a\n" and int.from_bytes(made_png[16:20], "big") == 2 * 640


def test_png_without_its_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    with pytest.raises(TcsimError, match=r"pip install 'tcsim\[png\]'"):
        to_png("<svg/>")


# ---------------------------------------------------------------------------------------------------------------- timeline


def test_tracks_are_disjoint_and_inside_the_window(observed: Any) -> None:
    _, tracks, timeline = observed
    names = {track.name for track in tracks}
    assert {"issue", "alu pipe", "lsu pipe", "shared-memory port", "CTA slot 0", "CTA 0 warp 0"} <= names
    assert {"memory in flight 0"} <= names
    assert {track.group for track in tracks} == {"SM 0", *(f"SM 0 sub-partition {n}" for n in range(4))}
    for track in tracks:
        for one, two in zip(track.slices, track.slices[1:], strict=False):
            assert one.end <= two.start
        assert track.slices[0].end > 3000 and track.slices[-1].start < 6000
    assert timeline.dropped == 0


def test_pipes_execute_one_instruction_after_another() -> None:
    """A matrix product of a warpgroup starts when the tensor core has finished the one before it."""
    from tcsim.timing.observer import Place

    timeline = Timeline()
    for cycle in (10, 12, 100):
        timeline.issue(cycle, Place(0, 1, 0, 1), 0)
    timeline.barrier(50, [Place(0, 1, 3, 1), Place(0, 2, 3, 2)])
    product = replace(made().instructions[0], opcode="HGMMA.64x128x16.F32", pipe="tensor", interval=64.0)
    tracks = {track.name: track for track in timeline.tracks(made(instructions=(product,)))}
    assert [(s.start, s.end) for s in tracks["tensor core"].slices] == [(10, 74), (74, 138), (138, 202)]
    assert [s.start for s in tracks["issue"].slices] == [10, 12, 100]
    assert [s.name for s in tracks["barriers"].slices] == ["barrier of CTA 3 opens"]


def test_arrows_lead_from_loads_to_their_first_use() -> None:
    """Also where no warp waited; not to a register that was written again, nor out of the window."""
    from tcsim.timing.observer import Place

    timeline, place = Timeline(), Place(0, 0, 0, 0)
    registers = [((), (1,)), ((), (2,)), ((), (2,)), ((1, 2), (3,)), ((1,), ()), ((), (4,))]  # read and written by pc
    timeline.program = cast(Program, SimpleNamespace(reads=[r for r, _ in registers], writes=[w for _, w in registers]))
    for pc, cycle in enumerate((10, 20, 30, 60, 70, 80)):
        timeline.issue(cycle, place, pc)
        if pc in (0, 1, 5):
            timeline.access(cycle, place, pc, (1,), 0, cycle + 40)
    tracks = timeline.tracks(made())
    arrows = {(s.start, s.out) for track in tracks if track.name.startswith("memory") for s in track.slices if s.out}
    users = {(s.start, s.into) for track in tracks if track.name.startswith("CTA 0 warp") for s in track.slices if s.into}
    assert arrows == {(10, (1,))} and users == {(60, (1,))}


def test_arrows_lead_from_bulk_copies_to_those_who_waited_for_them() -> None:
    """To what a warp issues once it knows that the phase has ended of which the copy was part; one arrow from each copy."""
    from tcsim.timing.observer import Mbarrier, Place

    timeline, producer, consumer = Timeline(), Place(0, 0, 0, 0), Place(0, 1, 0, 1)
    timeline.task_start(0, 0, 0)
    barrier = Mbarrier(0, 0x40)
    for cycle, landed, objects in ((10, 300, [barrier]), (12, 320, [barrier]), (500, 700, [barrier]), (15, 90, [])):
        timeline.copy(cycle, producer, 0, 2048, landed, objects)
    for started, ended, ready in ((5, 320, 330), (340, 320, 345), (600, 700, 710)):
        timeline.wait(started, consumer, 1, barrier, ended, ready)
    for cycle in (5, 331, 340, 350, 600):
        timeline.issue(cycle, consumer, 1)
    timeline.stall(16, producer, 2, "long_scoreboard", 74)  # until the store has been read
    tracks = timeline.tracks(made())
    out = {s.start: s.out for track in tracks if track.name.startswith("bulk") for s in track.slices}
    into = {(s.start, s.name): s.into for track in tracks if "warp" in track.name for s in track.slices if s.into}
    assert {start: len(numbers) for start, numbers in out.items()} == {10: 1, 12: 1, 500: 0, 15: 1}
    assert into == {(331, "mul.f32"): out[10] + out[12], (16, "long_scoreboard"): out[15]}
    ends = {s.name for track in tracks if track.name == "barriers" for s in track.slices}
    assert ends == {"mbarrier 0x40 of CTA 0: phase ends"}
    assert "2,048 B" in next(track for track in tracks if track.name == "bulk copies 0").slices[0].name


def test_perfetto_file(observed: Any, tmp_path: Path) -> None:
    trace_pb2 = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    profile, tracks, timeline = observed
    path = tmp_path / "t.pftrace"
    assert timeline.write(str(path), profile) == sum(len(track.slices) for track in tracks)
    trace = trace_pb2.Trace()
    trace.ParseFromString(path.read_bytes())
    described, depth, last = {}, defaultdict(int), 0
    starts, ends = [], []
    for packet in trace.packet:
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            assert track.uuid not in described and (not track.parent_uuid or track.parent_uuid in described)
            described[track.uuid] = track.name
            continue
        event = packet.track_event
        assert packet.timestamp >= last and event.track_uuid in described
        last = packet.timestamp
        depth[event.track_uuid] += {1: 1, 2: -1}.get(event.type, 0)
        assert depth[event.track_uuid] in (0, 1)  # slices of a track never overlap
        starts += event.flow_ids
        assert set(event.terminating_flow_ids) <= set(starts)  # an arrow ends behind its start, and has one of each
        ends += event.terminating_flow_ids
    assert not any(depth.values())
    assert sorted(starts) == sorted(ends) == sorted(set(starts)) and starts
    assert "1 ns = 1 SM cycle" in described[1]


def test_the_command_writes_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    html, trace, pictures = tmp_path / "r.html", tmp_path / "t.pftrace", tmp_path / "svg"
    bundle = str(BUNDLE.parent / "gemm_f16_small")
    words = ["profile", bundle, "--html", str(html), "--timeline", str(trace), "--cycles", "3000,5500"]
    pytest.importorskip("perfetto")
    assert main([*words, "--svg", str(pictures), "--page", "source", "--csv"]) == 0
    assert capsys.readouterr().out.startswith('"ID","Kernel Name","Source"')
    text = html.read_text()
    assert "Timeline" in text and ("ldmatrix" in text or "LDSM" in text)
    assert 'id="p0-banks"' not in text  # it has no conflicts to show
    assert trace.stat().st_size > 1000 and {p.suffix for p in pictures.iterdir()} == {".svg"}
    assert main(["profile", bundle, "--cycles", "9,1"]) == 2
    assert "first,end such as" in capsys.readouterr().err


def test_bank_maps_of_the_worst_lines(observed: Any) -> None:
    from tcsim.cli.launches import LaunchOptions, prepare
    from tcsim.cli.profile_command import bank_maps

    maps = bank_maps(observed[0], prepare(str(BUNDLE), LaunchOptions()))
    assert len(maps) == 2 and all(": ld.shared.f32 %f" in title and svg.startswith("<svg") for title, svg in maps)


# ------------------------------------------------------------------------------------------------------------------- page


def test_the_page_is_one_file(page: Path) -> None:
    text = page.read_text()
    assert not re.search(r'(src|href)\s*=\s*"(?!#)', text) and "url(" not in text and "@import" not in text
    identifiers = re.findall(r'\bid="([^"]+)"', text)
    assert len(identifiers) == len(set(identifiers))
    assert set(re.findall(r'aria-controls="([^"]+)"', text)) <= set(identifiers)


def test_the_page_of_a_large_kernel_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tcsim.report.html.MOST_LINES", 2)
    text = profile_html([made()])
    assert text.count("The 2 of 5 lines that warps waited at the longest.") == 2  # of the PTX and of the instructions
    assert "mul.f32" in text and "ld.global.f32</td>" not in text


def test_notebooks_show_a_summary(observed: Any) -> None:
    text = observed[0]._repr_html_()
    assert text == summary_html(observed[0])
    assert "<svg" in text and "transpose_conflicts" in text and "<script" not in text


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api")
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("no Chromium")
    with sync_api.sync_playwright() as play:
        started = play.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_in_a_browser_by_keyboard(browser: Any, page: Path, scheme: str) -> None:
    tab = browser.new_page(viewport={"width": 1100, "height": 800}, color_scheme=scheme)
    problems: list[str] = []
    tab.on("pageerror", lambda error: problems.append(str(error)))
    tab.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    tab.on("request", lambda request: None if request.url.startswith("file:") else problems.append(request.url))
    tab.goto(page.as_uri())
    dark = tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(22, 25, 29)"
    assert dark == (scheme == "dark")
    tab.focus("#t0-summary")
    for name in ("sections", "source", "timeline", "banks"):
        tab.keyboard.press("ArrowRight")
        assert tab.locator(f"#p0-{name}").is_visible() and not tab.locator("#p0-summary").is_visible()
    tab.keyboard.press("Home")
    assert tab.locator("#p0-summary").is_visible()
    tab.click("#t0-source")
    cells = tab.locator("#s0-cuda tbody tr td:nth-child(4)")
    tab.click("#s0-cuda thead th:nth-child(4) button")
    first = [float(text) for text in cells.all_text_contents()]
    assert first == sorted(first, reverse=True) and first[0] > 10
    tab.check("input[value=s0-ptx]")
    assert tab.locator("#s0-ptx").is_visible() and not tab.locator("#s0-cuda").is_visible()
    tab.click("#t0-timeline")
    before = tab.locator("canvas").screenshot()
    tab.focus("canvas")
    tab.keyboard.press("+")
    tab.keyboard.press("ArrowDown")
    assert tab.locator("canvas").screenshot() != before
    tab.select_option("#launch", "1")
    assert tab.locator("[data-launch='1']").is_visible() and not tab.locator("[data-launch='0']").is_visible()
    assert not problems
    tab.close()
