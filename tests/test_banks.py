"""Shared-memory banks: the known cases, expressions, remedies that do what they say, pictures, and the command line."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isa.machine import SHARED
from isa.program import MemoryAccess
from tcsim.cli import main
from tcsim.execute.banks import BANKS, wavefronts
from tcsim.lanes.bank_access import BankAccess, BankError, banks, fewest_wavefronts
from tcsim.lanes.bank_picture import access_svg, banks_html
from tcsim.lanes.bank_text import access_text, wavefront_of
from tcsim.lanes.expression import Expression, ExpressionError
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
