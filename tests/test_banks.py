"""Shared-memory banks: the known cases, the hardware's counts, and remedies that do what they say."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tcsim
from isa.machine import SHARED
from isa.program import MemoryAccess
from tcsim.cli import main
from tcsim.cli.launches import LaunchOptions, prepare
from tcsim.execute.banks import BANKS, wavefronts
from tcsim.lanes import bank_report
from tcsim.lanes.bank_access import BankAccess, BankError, banks, fewest_wavefronts
from tcsim.lanes.bank_picture import access_svg, banks_html
from tcsim.lanes.bank_text import access_text, wavefront_of
from tcsim.lanes.expression import Expression, ExpressionError
from tcsim.lanes.kernel_accesses import SharedAccesses, SharedInstruction
from tcsim.lanes.remedies import RowPadding, Swizzle, find_remedies
from tcsim.timing.issue import fewest_wavefronts as timing_fewest

TRACES = Path(__file__).parents[1] / "traces"
WIDTHS = (1, 2, 4, 8, 16)


# ----------------------------------------------------------------------------------------------------------- expressions

OPERATORS = ("+", "-", "*", "&", "|", "^", "<", "<=", ">", ">=", "==", "!=")
numbers = st.integers(0, 40).map(str)
leaves = numbers | st.sampled_from(("lane", "warp", "stride"))


def combined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    two = st.tuples(inner, st.sampled_from(OPERATORS), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})")
    by_number = st.tuples(inner, st.sampled_from(("//", "%", "<<", ">>")), st.integers(1, 7))
    calls = st.tuples(inner, inner).map(lambda t: f"max({t[0]}, min({t[1]}, 9))")
    return two | by_number.map(lambda t: f"({t[0]} {t[1]} {t[2]})") | inner.map(lambda x: f"~{x}") | calls


@given(st.recursive(leaves, combined, max_leaves=8), st.integers(0, 31), st.integers(0, 7))
@settings(deadline=None)
def test_expressions_are_pythons(text: str, lane: int, warp: int) -> None:
    try:
        value = Expression(text, {"stride": 80}).value(lane, warp)
    except ExpressionError as problem:
        assert "64 bits" in str(problem)
        return
    assert value == int(eval(text, {"lane": lane, "warp": warp, "stride": 80}))


def test_parts_may_use_those_before_them() -> None:
    made = Expression("row * stride + half", {"stride": 80, "row": "lane % 8", "half": "(lane // 8) * 16"})
    assert made.values() == [lane % 8 * 80 + lane // 8 * 16 for lane in range(32)]


@pytest.mark.parametrize(
    "text, said",
    [
        ("lane ** 2", "'lane ** 2': not allowed; use * or <<"),
        ("4 + lane / 2", "'lane / 2' in '4 + lane / 2': not allowed; use //"),
        ("tid * 4", "'tid' in 'tid * 4': unknown name; there are lane, warp"),
        ("threadIdx.x * 4", "'threadIdx.x' in"),
        ("lane && 4", "cannot be read from column 7"),
        ("lane and 4", "use & and |"),
        ("not lane", "use == 0"),
        ("lane % (lane - 3)", "divides by zero in lane 3"),
        ("1 << lane * 40", "shifts by 80 in lane 2"),
        ("1 << -lane", "shifts by -1 in lane 1"),
        ("4611686018427387904 * lane", "does not fit 64 bits"),
        ("99999999999999999999", "does not fit 64 bits"),
        ("lane * 4.5", "'4.5' in"),
        ("True", "'True': not allowed"),
        ("'lane'", "not allowed"),
        ("min(lane)", "min takes two or more values"),
        ("abs(lane, 2)", "abs takes one value"),
        ("min(*lane, 2)", "min takes two or more values"),
        ("min(a=1, b=2)", "not allowed"),
        ("pow(lane, 2)", "not allowed"),
        ("__import__('os').system('true')", "not allowed"),
        ("(lambda: 0)()", "not allowed"),
        ("[lane][0]", "not allowed"),
        ("lane if lane else 2", "not allowed"),
        ("lane in lane", "not allowed"),
        ("(y := 2)", "not allowed"),
        ("lane; lane", "cannot be read"),
        ("lane\x00", "cannot be read"),
        ("", "the expression is empty"),
        ("   ", "the expression is empty"),
        ("(" * 300 + "lane" + ")" * 300, "cannot be read"),
        ("-" * 150 + "lane", "nested more than 100 deep"),
        ("lane + " * 400 + "lane", "characters is too long"),
    ],
)
def test_everything_else_is_refused_with_the_part_that_is_wrong(text: str, said: str) -> None:
    with pytest.raises(ExpressionError, match=re.escape(said)) as caught:
        Expression(text).values()
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 350


@pytest.mark.parametrize("name", ["lane", "min", "2x", "a b", ""])
def test_names_of_parts(name: str) -> None:
    with pytest.raises(ExpressionError, match="cannot be the name"):
        Expression("4", {name: 4})


# ----------------------------------------------------------------------------------------------------------- known cases


@pytest.mark.parametrize(
    "text, width, rows, taken, ideal",
    [
        ("lane * 4", 4, None, 1, 1),
        ("lane * 8", 4, None, 2, 1),
        ("lane * 132", 4, None, 1, 1),  # a column of a padded 32 x 32 tile
        ("lane * 128", 4, None, 32, 1),  # and of one that is not
        ("0", 4, None, 1, 1),  # all lanes read one word
        ("lane // 2 * 2", 2, None, 1, 1),  # halves of one word
        ("lane % 16 * 4", 4, None, 1, 1),
        ("lane * 8", 8, None, 2, 2),  # 64 bits a lane: half-warps
        ("lane * 16", 16, None, 4, 4),  # 128 bits: quarters
        ("lane * 16", 8, None, 4, 2),
        ("lane * 32", 16, None, 8, 4),
        ("(lane % 8) * 80 + (lane // 8) * 16", 16, None, 4, 4),
        ("lane * 128", None, 8, 8, 1),  # ldmatrix.x1 from rows of 128 bytes: 8-way
        ("(lane % 16) * 128 + lane // 16 * 16", None, 32, 32, 4),
        ("(lane % 16) * 128 + ((lane // 16) ^ (lane % 8)) * 16", None, 32, 4, 4),  # chunk of a row XOR row, as CUTLASS has it
        ("lane * 64", None, 16, 8, 2),
        ("lane * 144", None, 32, 4, 4),  # padded rows
    ],
)
def test_known_cases(text: str, width: int | None, rows: int | None, taken: int, ideal: int) -> None:
    access = banks(text, width=width, rows=rows)
    assert (access.wavefronts, access.ideal, access.conflicts) == (taken, ideal, taken - ideal)


def test_phases_of_wide_accesses() -> None:
    assert [p.lanes for p in banks("lane*8", width=8).phases] == [tuple(range(16)), tuple(range(16, 32))]
    assert [p.lanes for p in banks("lane*16", width=16).phases] == [tuple(range(n, n + 8)) for n in range(0, 32, 8)]
    assert [p.lanes for p in banks("lane*16", rows=16).phases] == [tuple(range(8)), tuple(range(8, 16))]
    (phase,) = banks("lane*128", rows=8).phases
    assert set(phase.banks) == {0, 1, 2, 3} and phase.degree == 8


@pytest.mark.parametrize("kind, width, rows", [("load", w, 32) for w in WIDTHS] + [("matrix_load", 16, r) for r in (8, 16, 32)])
def test_the_ideal_is_the_timing_models(kind: str, width: int, rows: int) -> None:
    access = MemoryAccess(kind, SHARED, width, 1, 1, rows=rows)
    assert fewest_wavefronts(width, rows) == timing_fewest(access)


@st.composite
def accesses(draw: st.DrawFn) -> BankAccess:
    width = draw(st.sampled_from(WIDTHS))
    high = draw(st.sampled_from((40, 400, 8000))) // width + 1
    places = draw(st.lists(st.integers(0, high), min_size=32, max_size=32))
    lanes = draw(st.one_of(st.just(0xFFFFFFFF), st.integers(1, 0xFFFFFFFF)))
    return BankAccess(np.array(places, np.int64) * width, lanes, width, fewest_wavefronts(width))


@given(accesses())
@settings(max_examples=200, deadline=None)
def test_phases_explain_the_wavefronts(access: BankAccess) -> None:
    assert sum(phase.wavefronts for phase in access.phases) == access.wavefronts
    assert access.wavefronts == wavefronts(access.addresses, np.uint32(access.lanes), np.int64(access.width))
    assert sorted(lane for phase in access.phases for lane in phase.lanes) == list(access.active)
    for phase in access.phases:
        assert phase.degree == phase.wavefronts
        delivered: dict[tuple[int, int], int] = {}  # (wavefront, bank) -> word
        for lane in phase.lanes:
            for word in access.words_of(lane):
                number = wavefront_of(access, phase, lane)[word % BANKS]
                assert 1 <= number <= phase.wavefronts
                assert delivered.setdefault((number, word % BANKS), word) == word


@pytest.mark.parametrize(
    "arguments, said",
    [
        ({"width": 3}, "no access has 3 bytes"),
        ({"rows": 7}, "7 rows"),
        ({"rows": 8, "width": 4}, "those of ldmatrix have 16"),
        ({"width": 8}, "lane 1: address 4 is 4 mod 8; a 8-byte access needs a multiple of 8"),
    ],
)
def test_accesses_that_cannot_be(arguments: dict[str, int], said: str) -> None:
    with pytest.raises(BankError, match=re.escape(said)):
        banks("lane * 4", **arguments)  # type: ignore[arg-type]


def test_negative_addresses() -> None:
    with pytest.raises(BankError, match="lane 0: address -8 is negative"):
        banks("lane * 4 - 8")


# ------------------------------------------------------------------------------------------------------------- remedies


def test_swizzle_of_128_byte_rows_is_cutlass_3_4_3() -> None:
    found = find_remedies([banks("(lane % 16) * 128 + lane // 16 * 16", rows=32)])
    assert (found.wavefronts, found.ideal) == (32, 4)
    assert found.swizzle is not None and found.swizzle.change == Swizzle(bits=3, base=4, source=7)
    assert str(found.swizzle.change) == "Swizzle<3,4,3> on byte addresses"
    assert found.padding is not None and found.padding.change == RowPadding(row=128, pad=16)
    assert found.swizzle.wavefronts == found.padding.wavefronts == 4


def test_transpose_is_repaired_for_rows_and_columns_together() -> None:
    both = [banks("warp * 128 + lane * 4"), banks("lane * 128 + warp * 4")]
    found = find_remedies(both)
    assert (found.wavefronts, found.ideal) == (33, 2)
    assert found.swizzle is not None and found.swizzle.change == Swizzle(5, 2, 7) and found.swizzle.wavefronts == 2
    assert found.padding is not None and found.padding.change == RowPadding(128, 4) and found.padding.wavefronts == 2


def test_rows_that_are_no_power_of_two_are_padded() -> None:
    found = find_remedies([banks("lane * 192", rows=8)])
    assert found.padding is not None and found.padding.wavefronts == found.ideal == 1
    assert found.padding.change == RowPadding(384, 16)  # behind every second row is enough


def test_nothing_to_remove() -> None:
    found = find_remedies([banks("lane * 4"), banks("0")])
    assert not found.needed and found.swizzle is None and found.padding is None


@pytest.mark.parametrize("text, rows", [("lane * 128", None), ("lane * 256 + 64", None), ("lane * 128", 32), ("lane * 96", 16)])
def test_resulting_expressions_do_what_is_promised(text: str, rows: int | None) -> None:
    found = find_remedies([banks(text, rows=rows)])
    for remedy in (found.swizzle, found.padding):
        assert remedy is not None
        assert banks(remedy.change.spell(f"({text})"), rows=rows).wavefronts == remedy.wavefronts < found.wavefronts


@given(st.integers(2, 6), st.data())
def test_swizzles_are_permutations_that_keep_pieces_whole(base: int, data: st.DataObject) -> None:
    bits = data.draw(st.integers(1, 7 - base))
    change = Swizzle(bits, base, data.draw(st.integers(base + bits, 14 - bits)))
    every = np.arange(1 << 14)
    moved = change(every)
    np.testing.assert_array_equal(np.sort(moved), every)
    np.testing.assert_array_equal(change(moved), every)
    np.testing.assert_array_equal(moved % (1 << base), every % (1 << base))
    assert Expression(change.spell("lane")).values() == moved[:32].tolist()


# -------------------------------------------------------------------------------------------------------------- launches


@cache
def watched(name: str) -> tuple[SharedInstruction, ...]:
    """The accesses of a recorded launch, all with addresses."""
    launch = prepare(str(TRACES / name), LaunchOptions())
    observer = SharedAccesses(lambda program, pc: True)
    with observer:
        launch.run()
    for comparison in launch.bundle.compare(launch.outputs()):
        assert comparison.equal  # watching changes nothing
    return tuple(observer.found)


def recorded(name: str, metric: str) -> float:
    metrics = json.loads((TRACES / name / "bundle.json").read_text())["metrics"]
    return float(metrics[f"l1tex__data_{metric}.sum"]["value"])


@pytest.mark.parametrize("name", ["transpose_conflicts", "transpose_padded", "gemm_f16_small", "triton_softmax"])
def test_totals_are_the_hardwares(name: str) -> None:
    """Recorded on an H200 with Nsight Compute 2025.3."""
    sums = bank_report.totals(watched(name))
    for kind, op in (("load", "ld"), ("store", "st"), ("copy", "ldgsts")):
        _, taken, conflicts = sums.get(kind, (0, 0, 0))
        assert conflicts == recorded(name, f"bank_conflicts_pipe_lsu_mem_shared_op_{op}")
        if kind != "copy":
            assert taken == recorded(name, f"pipe_lsu_wavefronts_mem_shared_op_{op}")


def test_totals_are_the_profiles() -> None:
    launch = prepare(str(TRACES / "gemm_f16_small"), LaunchOptions())
    with tcsim.Profiler(code="ptx") as profiler:
        launch.run()
    timed = {each.pc: each.wavefronts for each in profiler.launches[-1].instructions}
    for each in watched("gemm_f16_small"):
        assert each.wavefronts == timed[each.pc]
    metrics = profiler.launches[-1].metrics
    requests, taken, _ = bank_report.totals(watched("gemm_f16_small"))["load"]
    assert taken == metrics["l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"]
    assert requests == metrics["smsp__inst_executed_op_ldsm.sum"]


def test_the_worst_access_of_a_transpose() -> None:
    loads = [each for each in watched("transpose_conflicts") if each.kind == "load"]
    assert [each.ptx_line for each in loads] == [120, 132, 144, 156]
    for each in loads:
        assert each.worst is not None and each.worst.access.wavefronts == 32
        assert each.wavefronts == 32 * each.requests
        assert len(each.patterns) == 8  # one for each warp of a block
    first = loads[0].first
    assert first is not None and (first.cta, first.warp, first.number) == ((0, 0, 0), 0, 1)
    np.testing.assert_array_equal(first.access.addresses, 128 * np.arange(32))


EVERYTHING = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry all(.param .u64 data) {
  .reg .b32 %r<30>; .reg .b64 %rd<8>; .reg .pred %p, %q, %odd;
  .shared .align 128 .b8 tile[8192];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, tile;
  ld.param.u64 %rd1, [data];
  and.b32 %r3, %r1, 1;
  setp.eq.u32 %odd, %r3, 1;
  mov.u32 %r4, 0;
LOOP:
  shl.b32 %r5, %r4, 2;
  mul.lo.u32 %r6, %r1, %r5;
  add.u32 %r6, %r6, %r2;
  @%odd st.shared.u32 [%r6+4], %r1;
  setp.lt.u32 %p, %r1, %r4;
  @%p bra LOW;
  mad.lo.u32 %r7, %r1, 128, %r5;
  add.u32 %r7, %r7, %r2;
  ld.shared.u32 %r8, [%r7];
  bra JOIN;
LOW:
  mad.lo.u32 %r7, %r1, 64, %r5;
  add.u32 %r7, %r7, %r2;
  ld.shared.u32 %r8, [%r7];
JOIN:
  bar.warp.sync -1;
  cvt.u64.u32 %rd2, %r7;
  cvta.shared.u64 %rd3, %rd2;
  ld.u32 %r9, [%rd3+64];
  and.b32 %r10, %r1, 7;
  mul.lo.u32 %r10, %r10, 128;
  mad.lo.u32 %r10, %r4, 16, %r10;
  add.u32 %r10, %r10, %r2;
  ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r11, %r12}, [%r10];
  mad.lo.u32 %r13, %r4, 16, 32;
  wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%r14, %r15, %r16, %r17, %r18, %r19, %r20, %r21}, [%r2], %r13;
  mad.lo.u32 %r22, %r1, 32, %r2;
  mad.lo.u32 %r22, %r4, 16, %r22;
  mad.wide.u32 %rd4, %r1, 16, %rd1;
  cp.async.cg.shared.global [%r22], [%rd4], 16;
  cp.async.wait_all;
  atom.shared.add.u32 %r23, [%r7], %r9;
  ld.u32 %r24, [%rd4];
  add.u32 %r4, %r4, 1;
  setp.lt.u32 %q, %r4, 7;
  @%q bra LOOP;
  ret;
}
"""


def test_addresses_of_every_kind_of_access() -> None:
    """With one warp and different addresses each time, the addresses read make up all of the counted wavefronts: guarded,
    divergent, generic, matrix, tile, copy and atomic accesses alike."""
    kernel = tcsim.RawModule(code=EVERYTHING).get_function("all")
    observer = SharedAccesses(lambda program, pc: True)
    with observer:
        kernel((1,), (32,), (tcsim.zeros(512, np.uint8),))
    found = {each.opcode.split(".")[0] + "." + each.kind: each for each in observer.found}
    assert len(observer.found) == 8  # the last ld reaches global memory only
    requests = {"st.store": 7, "ld.load": 7, "ldmatrix.matrix_load": 7, "wmma.tile_load": 56, "cp.copy": 7, "atom.atomic": 7}
    for name, number in requests.items():
        assert found[name].requests == number, name
    for each in observer.found:
        if each.kind == "tile_load":  # registers may touch the same words
            assert each.first is not None and each.first.access.wavefronts <= each.wavefronts
        else:
            assert len(each.patterns) == each.requests, each.opcode
            assert sum(access.wavefronts for access in each.patterns.values()) == each.wavefronts
            assert sum(access.conflicts for access in each.patterns.values()) == each.conflicts
    store = found["st.store"]
    assert store.first is not None and store.first.access.lanes == 0xAAAAAAAA
    low = [each for each in observer.found if each.opcode == "ld.shared.u32"]
    assert sorted(access.lanes for access in low[1].patterns.values()) == [(1 << n) - 1 for n in range(1, 7)]
    tile = found["wmma.tile_load"]
    register_two = list(tile.patterns.values())[2].addresses - store.first.access.addresses[1] + 4
    np.testing.assert_array_equal(register_two, [lane // 4 * 64 + lane % 4 * 4 + 16 for lane in range(32)])


CLOCKS = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry clocks() {
  .reg .b32 %r<9>; .reg .pred %p;
  .shared .align 4 .b8 tile[512];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, tile;
  and.b32 %r3, %r1, 31;
  shl.b32 %r3, %r3, 3;
  add.u32 %r3, %r3, %r2;
  mov.u32 %r4, 0;
LOOP:
  mov.u32 %r5, %clock;
  st.shared.u32 [%r3], %r5;
  bar.sync 0;
  mov.u32 %r6, %clock;
  sub.u32 %r7, %r6, %r5;
  add.u32 %r4, %r4, 1;
  setp.lt.u32 %p, %r4, 5;
  @%p bra LOOP;
  ret;
}
"""


@pytest.mark.parametrize("addresses", [False, True])
def test_kernels_that_read_the_clock_are_watched_too(addresses: bool) -> None:
    kernel = tcsim.RawModule(code=CLOCKS).get_function("clocks")
    observer = SharedAccesses(lambda program, pc: addresses)
    with observer:
        kernel((3,), (64,), ())
    (store,) = observer.found
    assert (store.requests, store.wavefronts, store.conflicts) == (30, 60, 30)
    assert len(store.patterns) == addresses


# ----------------------------------------------------------------------------------------------- pictures, command line


def test_the_picture_in_text() -> None:
    lines = access_text(banks("lane * 128", rows=8)).splitlines()
    assert lines[0] == "8 lanes, 16 bytes each: 8 wavefronts, ideal 1: 7 bank conflicts"
    assert lines[1] == "  phase 0  lanes 0-7     8 wavefronts  (8 different words in banks 0-3)"
    cells = [line.split()[2:] for line in lines if re.match(r" +\d+ +0x", line)]
    assert cells == [[str(n + 1)] * 4 + ["."] * 28 for n in range(8)]
    assert len({len(line) for line in lines if re.match(r" +\d+ +0x", line)}) == 1


def test_pictures_are_whole_and_pages_need_nothing_else() -> None:
    access = banks("(lane % 8) * 80 + (lane // 8) * 16", width=16)
    root = ElementTree.fromstring(access_svg(access))
    namespace = "{http://www.w3.org/2000/svg}"
    assert sum(g.get("data-lane") is not None for g in root.iter(f"{namespace}g")) == 32 * 4
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for box in root.iter(f"{namespace}rect"):
        x, y = float(box.attrib.get("x", 0)), float(box.attrib.get("y", 0))
        assert x + float(box.attrib["width"]) <= width and y + float(box.attrib["height"]) <= height
    page = banks_html("banks", [("a", access)], ["text"])
    assert "color-scheme:light dark" in page
    assert not re.search(r"(src|href)=|url\(|@import|https?://(?!www\.w3\.org/2000/svg)", page)
    assert access._repr_html_().startswith("<svg")


def test_command_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["banks", "--expr", "(lane%8)*stride", "--rows", "8", "--let", "stride=128"]) == 0
    shown = capsys.readouterr().out
    assert "8 wavefronts, ideal 1: 7 bank conflicts" in shown
    assert "((lane%8)*stride) ^ ((((lane%8)*stride) >> 7) & 7) << 4" in shown
    assert main(["banks", "-e", "lane*128", "-e", "lane*4", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["schema"] == 1 and [a["wavefronts"] for a in data["accesses"]] == [32, 1]
    assert data["remedies"]["padding"]["formula"] == "a + a // 128 * 4"
    page = tmp_path / "page.html"
    assert main(["banks", "-e", "lane*128", "--to", str(page)]) == 0
    assert page.read_text().startswith("<!doctype html>")


def test_command_line_of_a_launch(capsys: pytest.CaptureFixture[str]) -> None:
    bundle = str(TRACES / "transpose_conflicts")
    assert main(["banks", bundle]) == 0
    assert "loads: 16,384 requests, 524,288 wavefronts, 507,904 bank conflicts" in capsys.readouterr().out
    assert main(["banks", bundle, "--line", "ptx:120"]) == 0
    shown = capsys.readouterr().out
    assert "4,096 requests, 131,072 wavefronts (32.0 each, ideal 1), 126,976 bank conflicts" in shown
    assert "Swizzle<5,2,5>" in shown and "4 bytes of padding behind each 128 bytes" in shown
    assert main(["banks", bundle, "--line", "transpose.cu:21", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [each["ptx_line"] for each in data["accesses"]] == [120, 132, 144, 156]
    assert data["accesses"][0]["worst"]["wavefronts"] == 32


@pytest.mark.parametrize(
    "words, said",
    [
        ((), "give either --expr"),
        (("-e", "lane", str(TRACES / "saxpy")), "give either --expr"),
        (("-e", "lane*4", "--line", "ptx:1"), "--line is an access of a kernel"),
        (("-e", "lane*4", "--let", "x"), "a name and a value"),
        (("-e", "lane*4", "-w", "4", "-w", "8"), "2 widths for 1 expressions"),
        (("-e", "lane*4", "-f", "csv"), "no format 'csv'"),
        ((str(TRACES / "saxpy"), "--width", "4"), "belong to --expr"),
        ((str(TRACES / "nothing"),), "no such file"),
        ((str(TRACES / "transpose_padded"), "--line", "x"), "such as ptx:118"),
        ((str(TRACES / "transpose_padded"), "-f", "svg"), "choose it with --line"),
    ],
)
def test_mistakes_are_told_in_one_message(words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["banks", *words]) == 2
    printed = capsys.readouterr()
    assert said in printed.err and printed.err.count("\n") == 1 and not printed.out


def test_a_line_without_an_access_says_where_there_are_some(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["banks", str(TRACES / "transpose_padded"), "--line", "ptx:1"]) == 2
    said = capsys.readouterr().err
    assert re.search(r"no access to shared memory there; it has\n  transpose.cu:16  ptx:\d+  st.shared.f32", said)


def test_totals_of_the_large_gemm_are_the_hardwares() -> None:
    """gemm_f16 itself: 196,608 ldmatrix.x4, 65,536 cp.async, counted without addresses."""
    launch = prepare(str(TRACES / "gemm_f16"), LaunchOptions())
    observer = SharedAccesses()
    with observer:
        launch.run()
    sums = bank_report.totals(observer.found)
    assert sums["load"][0] == 196_608 and sums["copy"][0] == 65_536
    assert sums["load"][1] == recorded("gemm_f16", "pipe_lsu_wavefronts_mem_shared_op_ld")
    for kind, op in (("load", "ld"), ("copy", "ldgsts")):
        assert sums[kind][2] == recorded("gemm_f16", f"bank_conflicts_pipe_lsu_mem_shared_op_{op}") == 0
