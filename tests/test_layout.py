"""Layouts by name: every table a bijection, the same whichever way it is asked, in every format."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tcsim
from isa.spec.registry import find
from isa.tensor import MMA_FORMS, SPARSE_FORMS, WMMA_FORMS, MmaForm, NoFormError
from isa.tensor.metadata import codes_of, metadata_layout
from isa.tensor.wgmma_forms import WGMMA_FORMS
from tcsim.cli import main
from tcsim.lanes.layout_picture import layout_html, layout_svg
from tcsim.lanes.layout_text import feeds_rows, grid, grid_text, rows_csv, rows_of, whole_json
from tcsim.lanes.layouts import LayoutError, OperandLayout, layout
from tcsim.lanes.names import all_names, find_matrix_instruction, ptx_name, short_name

WGMMA = tuple(form for form in WGMMA_FORMS if form.n in (8, 96))
FORMS = (*MMA_FORMS, *SPARSE_FORMS, *WMMA_FORMS, *WGMMA)
SVG = "{http://www.w3.org/2000/svg}"


# ---------------------------------------------------------------------------------------------------------------- names


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_both_names_of_a_form_mean_it(form: MmaForm) -> None:
    assert find(ptx_name(form))[0], find(ptx_name(form))[1]
    for name in (short_name(form), ptx_name(form), ptx_name(form) + ";"):
        assert find_matrix_instruction(name).form == form


@pytest.mark.parametrize(
    "text, meant",
    [
        ("mma.m16n8k16.f16", "mma.m16n8k16.f32.f16.f16.f32"),
        ("mma.m16n8k16.f16.f16", "mma.m16n8k16.f16.f16.f16.f16"),
        ("mma.m16n8k32.s8", "mma.m16n8k32.s32.s8.s8.s32"),
        ("mma.m16n8k32.s32.s8.u8", "mma.m16n8k32.s32.s8.u8.s32"),
        ("mma.m16n8k256.b1", "mma.m16n8k256.s32.b1.b1.s32.xor.popc"),
        ("mma.m8n8k4.f16.col.row", "mma.m8n8k4.col.row.f32.f16.f16.f32"),
        ("mma.m16n8k16.f64.rz", "mma.m16n8k16.rz.f64.f64.f64.f64"),
        ("mma.sp.m16n8k32.f16", "mma.sp.m16n8k32.f32.f16.f16.f32"),
        ("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32", "mma.sp.m16n8k32.f32.f16.f16.f32"),
        ("wmma.m16n16k16.f16", "wmma.m16n16k16.f32.f16.f16.f32"),
        ("wgmma.m64n96k16.f16", "wgmma.m64n96k16.f32.f16.f16"),
        ("wgmma.mma_async.sp.sync.aligned.m64n8k64.satfinite.s32.s8.u8", "wgmma.sp.m64n8k64.satfinite.s32.s8.u8"),
        ("wmma.mma.sync.aligned.row.row.m16n16k16.f16.f32", "wmma.m16n16k16.f16.f16.f16.f32"),
        ("wmma.load.b.sync.aligned.row.m16n16k16.shared.f16", "wmma.load.b.m16n16k16.f16"),
        ("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16", "ldmatrix.x4.trans"),
        ("stmatrix.x2", "stmatrix.x2"),
        ("movmatrix.sync.aligned.m8n8.trans.b16", "movmatrix.trans"),
    ],
)
def test_what_names_mean(text: str, meant: str) -> None:
    assert find_matrix_instruction(text).name == meant


@pytest.mark.parametrize(
    "text, said",
    [
        ("mma.m16n8k16.f15", "f15"),
        ("mma.f16", "shape"),
        ("mma.m16n8k9.f16", "mma.m16n8k8.f32.f16.f16.f32"),
        ("mma.sync.aligned.m16n8k16.col.col.f32.f16.f16.f32", "takes .row.col only"),
        ("mma.m16n8k16.col.col.f16", "mma.m16n8k16"),
        ("wgmma.m64n12k16.f16", "there is no such form"),
        ("ldmatrix", "x1, .x2 or .x4"),
        ("ldmatrix.x8", ".x8"),
        ("movmatrix.x2", "movmatrix"),
        ("wmma.load.a.m16n16k16.s4", "no wmma operand a"),
        ("add.f32", "has no fragments"),
        ("", "has no fragments"),
    ],
)
def test_names_of_nothing_are_refused_with_neighbours(text: str, said: str) -> None:
    with pytest.raises(NoFormError, match=re.escape(said)):
        layout(text)


# --------------------------------------------------------------------------------------------------------------- tables


def selectors(name: str) -> range:
    form = find_matrix_instruction(name).form
    return range(metadata_layout(form).selectors if form is not None and form.is_sparse else 1)


@pytest.mark.parametrize("name", all_names())
def test_every_table_is_a_bijection(name: str) -> None:
    for selector in selectors(name):
        for one in layout(name, selector=selector).operands.values():
            assert one.problems() == []
            places = set(zip(one.lane.ravel().tolist(), one.register.ravel().tolist(), one.bit.ravel().tolist(), strict=True))
            assert len(places) == one.matrices * one.rows * one.columns == one.lane.size
            assert one.bits * len(places) * one.copies == 32 * one.registers * one.register_bits or one.operand == "metadata"
            assert (one.bit % one.bits == 0).all()
            there = (one.register, one.lane, one.bit // one.bits)
            matrix, row, column = np.indices((one.matrices, one.rows, one.columns)).reshape(3, *one.lane.shape)
            np.testing.assert_array_equal(one.element_row[there], row)
            np.testing.assert_array_equal(one.element_column[there], column)
            np.testing.assert_array_equal(one.element_matrix[there], matrix)


def test_a_table_that_is_no_bijection_is_noticed() -> None:
    b = layout("mma.m16n8k32.s4").operands["b"]
    wrong = b.element_row.copy()
    wrong[wrong == 31] = 30  # as in a published table that reaches 160 of 256 elements
    fields = {name: getattr(b, name) for name in b.__dataclass_fields__} | {"element_row": wrong}
    assert any("places" in problem for problem in OperandLayout(**fields).problems())


@given(st.sampled_from(all_names()), st.data())
@settings(max_examples=60, deadline=None)
def test_both_ways_agree(name: str, data: st.DataObject) -> None:
    found = layout(name)
    one = found[data.draw(st.sampled_from(list(found.operands)))]
    row, column = data.draw(st.integers(0, one.rows - 1)), data.draw(st.integers(0, one.columns - 1))
    matrix = data.draw(st.integers(0, one.matrices - 1))
    places = one.places(row, column, matrix)
    assert places[0] == one.first_place(row, column, matrix)
    assert len(places) == one.copies
    for place in places:
        held = {(e.matrix, e.row, e.column): e.place for e in one.held_by(place.lane, place.register)}
        assert held[matrix, row, column] == place


def test_m16n8k16_is_the_figure_of_the_ptx_isa() -> None:
    """PTX ISA 9.7.14.5.8: row groupID (+ 8), column threadID_in_group * 2 + (i & 1) (+ 8)."""
    a = layout("mma.m16n8k16.f16")["a"]
    for lane in range(32):
        for i in range(8):
            row = lane // 4 + (0 if i < 2 or 4 <= i < 6 else 8)
            column = lane % 4 * 2 + (i & 1) + (0 if i < 4 else 8)
            (place,) = a.places(row, column)
            assert place == (lane, i // 2, 16 * (i & 1), 16, i)


def ldmatrix_place(name: str, tile: tuple[int, int], row: int, column: int, bits: int) -> tuple[int, int, int]:
    """Where ``ldmatrix`` puts an element of a tile of 8x8 matrices (``tile``: how many down and across, numbered downwards)."""
    d = layout(name)["d"]
    half = column * bits // 16  # in 16-bit columns
    matrix = row // 8 + tile[0] * (half // 8)
    place = d.first_place(row % 8, half % 8, matrix)
    return place.lane, place.register, place.bit + column * bits % 16


@pytest.mark.parametrize("name, bits", [("mma.m16n8k16.f16", 16), ("mma.m16n8k16.bf16", 16), ("mma.m16n8k32.s8", 8),
                                        ("mma.m16n8k32.e4m3", 8), ("mma.m16n8k64.s4", 4), ("mma.m16n8k256.b1", 1)])  # fmt: skip
def test_ldmatrix_loads_what_mma_takes(name: str, bits: int) -> None:
    """A of 16 rows of 32 bytes with .x4, B of 8 columns of 32 bytes with .x2: exactly the fragments."""
    a, b = layout(name)["a"], layout(name)["b"]
    for e in a.elements():
        assert ldmatrix_place("ldmatrix.x4", (2, 2), e.row, e.column, bits) == e.place[:3]
    for e in b.elements():
        assert ldmatrix_place("ldmatrix.x2", (1, 2), e.column, e.row, bits) == e.place[:3]


def test_transposed_ldmatrix_loads_b_from_rows() -> None:
    b, d = layout("mma.m16n8k16.f16")["b"], layout("ldmatrix.x2.trans")["d"]
    for e in b.elements():
        assert d.first_place(e.row % 8, e.column, e.row // 8) == e.place


def test_ldmatrix_tf32_halves() -> None:
    """Rows of four tf32 are rows of eight halves: m16n8k8's A."""
    a = layout("mma.m16n8k8.tf32")["a"]
    for e in a.elements():
        lane, register, bit = ldmatrix_place("ldmatrix.x4", (2, 2), e.row, 2 * e.column, 16)
        assert (lane, register, bit) == e.place[:3]


def test_executed_ldmatrix_fills_the_registers_that_the_table_says() -> None:
    kernel = tcsim.RawModule(code=LDMATRIX).get_function("load")
    out = tcsim.zeros((4, 32, 2), np.uint16)
    kernel((1,), (32,), (out,))
    d = layout("ldmatrix.x4.trans")["d"]
    number = tcsim.asnumpy(out)  # element number in shared memory, [register, lane, half]
    for e in d.elements():
        assert number[e.place.register, e.place.lane, e.place.bit // 16] == 64 * e.matrix + 8 * e.row + e.column


LDMATRIX = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry load(.param .u64 out) {
  .reg .b32 %r<12>; .reg .b64 %rd<4>; .reg .b16 %h<2>; .reg .pred %p;
  .shared .align 16 .b8 tile[512];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, tile;
  mov.u32 %r3, %r1;
FILL:
  cvt.u16.u32 %h0, %r3;
  shl.b32 %r4, %r3, 1;
  add.u32 %r4, %r4, %r2;
  st.shared.u16 [%r4], %h0;
  add.u32 %r3, %r3, 32;
  setp.lt.u32 %p, %r3, 256;
  @%p bra FILL;
  bar.sync 0;
  shl.b32 %r5, %r1, 4;
  add.u32 %r5, %r5, %r2;
  ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r6, %r7, %r8, %r9}, [%r5];
  ld.param.u64 %rd1, [out];
  mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r6;
  st.global.u32 [%rd3+128], %r7;
  st.global.u32 [%rd3+256], %r8;
  st.global.u32 [%rd3+384], %r9;
  ret;
}
"""


@pytest.mark.parametrize("form", SPARSE_FORMS, ids=str)
def test_metadata_are_where_the_instruction_reads_them(form: MmaForm) -> None:
    for selector in range(metadata_layout(form).selectors):
        metadata = layout(short_name(form), selector=selector)["metadata"]
        for row, unit in ((0, 0), (3, metadata.columns - 1), (15, metadata.columns // 2)):
            (place,) = metadata.places(row, unit)
            words = np.zeros(32, np.uint32)
            words[place.lane] = np.uint32(3 << place.bit)
            codes = codes_of(form, words, selector)
            assert codes[row, unit] == 3 and codes.sum() == 3


def test_what_feeds_an_output() -> None:
    feeds = layout("mma.m16n8k16.f16").feeds(3, 5)
    assert feeds.d.place[:3] == (14, 1, 0) == feeds.c.place[:3]
    assert [(e.row, e.column) for e in feeds.a] == [(3, k) for k in range(16)]
    assert [(e.row, e.column) for e in feeds.b] == [(k, 5) for k in range(16)]
    assert {e.place.lane for e in feeds.a} == {12, 13, 14, 15}
    assert {e.place.lane for e in feeds.b} == {20, 21, 22, 23}
    quad = layout("mma.m8n8k4.f16").feeds(1, 2, 3)
    assert {e.place.lane for e in (*quad.a, *quad.b, quad.d)} <= {12, 13, 14, 15, 28, 29, 30, 31}
    sparse = layout("mma.sp.m16n8k32.f16", selector=1).feeds(2, 0)
    assert (len(sparse.a), len(sparse.b), len(sparse.metadata)) == (16, 32, 16)
    assert {e.place.lane for e in sparse.metadata} == {10, 11}
    with pytest.raises(LayoutError, match="multiplies nothing"):
        layout("ldmatrix.x4").feeds(0, 0)
    with pytest.raises(LayoutError, match="rows are 0 to 15"):
        layout("mma.m16n8k16.f16").feeds(16, 0)


def test_wmma_copies_are_last_and_said() -> None:
    a = layout("wmma.m8n32k16.f16")["a"]
    assert a.copies == 4 and [p.register for p in a.places(0, 0)] == [0, 2, 4, 6]
    assert "registers 2 to 7 hold copies" in grid_text(a)


# -------------------------------------------------------------------------------------------------------------- formats


def test_the_grid_is_aligned_and_reads_like_the_figure() -> None:
    a = layout("mma.m16n8k16.f16")["a"]
    lines = grid_text(a).splitlines()
    assert lines[0] == "A  16 x 16 f16: 4 registers of 32 bits a lane, 2 elements each"
    third = [f"T{lane}:a{first + i}" for first in (0, 4) for lane in range(12, 16) for i in (0, 1)]
    assert lines[5].split() == ["3", *third]
    starts = {tuple(m.start() for m in re.finditer(r"T\d+:a\d", line)) for line in lines[2:]}
    assert len(starts) == 1


@pytest.mark.parametrize("name", ["mma.m16n8k32.s8", "mma.m16n8k256.b1", "mma.sp.m16n8k64.e4m3", "wmma.m32n8k16.s8",
                                  "mma.m8n8k4.f16.col.row", "mma.m16n8k8.f64", "movmatrix.trans"])  # fmt: skip
@pytest.mark.parametrize("each", [False, True])
def test_grids_cover_every_element_once(name: str, each: bool) -> None:
    for one in layout(name).operands.values():
        seen = np.zeros((one.matrices, one.rows, one.columns), int)
        for cells in grid(one, each):
            for cell in (c for line in cells for c in line):
                part = np.s_[cell.matrix, cell.row : cell.row + cell.rows, cell.column : cell.column + cell.columns]
                seen[part] += 1
                lane, register = one.lane.reshape(seen.shape)[part], one.register.reshape(seen.shape)[part]
                assert (lane == cell.lane).all() and (register == cell.register).all()
        assert (seen == 1).all()


def test_csv_has_a_line_for_every_element() -> None:
    found = layout("mma.m16n8k16.f16")
    rows = list(csv.DictReader(io.StringIO(rows_csv(rows_of(found, ["a", "b", "c", "d"])))))
    assert len(rows) == 256 + 128 + 128 + 128
    (one,) = (r for r in rows if (r["operand"], r["row"], r["column"]) == ("a", "3", "5"))
    assert (one["lane"], one["register"], one["bits"], one["name"]) == ("14", "0", "16-31", "a1")


def test_json_holds_the_arrays() -> None:
    found = layout("ldmatrix.x4")
    data = json.loads(whole_json(found, ["d"]))
    assert data["schema"] == 1 and data["ptx"] == "ldmatrix.sync.aligned.m8n8.x4.shared.b16"
    np.testing.assert_array_equal(data["operands"]["d"]["lane"], found["d"].lane)
    np.testing.assert_array_equal(data["operands"]["d"]["bit"], found["d"].bit)


@pytest.mark.parametrize("name", ["mma.m16n8k16.f16", "mma.m16n8k32.s8", "mma.sp.m16n8k32.f16", "mma.m8n8k4.f16", "ldmatrix.x4",
                                  "wmma.m8n32k16.f16", "mma.m16n8k256.b1", "movmatrix.trans"])  # fmt: skip
def test_pictures_are_whole_and_inside_their_frame(name: str) -> None:
    found = layout(name)
    root = ElementTree.fromstring(found.svg())
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    labels = [text.text for text in root.iter(f"{SVG}text")]
    for operand in ("a", "b", "d", "metadata"):
        if operand in found.operands:
            for cells in grid(found[operand]):
                assert all(cell.label in labels for line in cells for cell in line)
    for box in root.iter(f"{SVG}rect"):
        x, y = float(box.attrib.get("x", 0)), float(box.attrib.get("y", 0))
        assert x + float(box.attrib["width"]) <= width and y + float(box.attrib["height"]) <= height
    assert found._repr_html_() == found.svg()


def test_pages_need_nothing_else_and_know_dark() -> None:
    found = layout("mma.m16n8k16.f16")
    page = layout_html(found, (), rows_of(found, ["d"], (3, 5, 0)))
    assert "prefers-color-scheme:dark" in page and "color-scheme:light dark" in page
    assert not re.search(r"(src|href)=|url\(|@import|https?://(?!www\.w3\.org/2000/svg)", page)
    assert page.count('class="tc-strong"') == 1


# --------------------------------------------------------------------------------------------------------- command line


def typed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["layout", *words]) == 0
    return capsys.readouterr().out


def test_command_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    whole = typed(capsys, "mma.m16n8k16.f16")
    assert whole.startswith("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32\n") and "c lies as d does" in whole
    assert "T14:d1 (register 1, bits 0-31)" in typed(capsys, "mma.m16n8k16.f16", "--output", "3,5")
    assert "      a  9    6       7     1         0-15   a2\n" in typed(capsys, "mma.m16n8k16.f16", "--lane", "7", "-r", "1")
    found = json.loads(typed(capsys, "mma.m16n8k16.f16", "--element", "3,5", "-o", "a", "--json"))
    assert [(e["lane"], e["register"], e["bits"]) for e in found["elements"]] == [(14, 0, [16, 31])]
    assert "| 3 | T1:b1 | T5:b1 |" in typed(capsys, "mma.m16n8k16.f16", "-o", "b", "-f", "markdown")
    picture = tmp_path / "a.svg"
    assert str(picture) in typed(capsys, "mma.m16n8k16.f16", "--to", str(picture))
    ElementTree.parse(picture)
    assert "every element has a place of its own" in typed(capsys, "--verify")


@pytest.mark.parametrize(
    "words, said",
    [
        (("mma.m16n8k16.f16", "--element", "99,0"), "rows are 0 to 15"),
        (("mma.m16n8k16.f16", "--element", "x"), "row,column"),
        (("mma.m16n8k16.f16", "--lane", "32"), "no lane 32"),
        (("mma.m16n8k16.f16", "--lane", "1", "--register", "4"), "registers are 0 to 3"),
        (("mma.m16n8k16.f16", "--register", "1"), "give --lane"),
        (("mma.m16n8k16.f16", "--operand", "metadata"), "no operand 'metadata'"),
        (("mma.sp.m16n8k32.f16", "--selector", "2"), "selector below 2"),
        (("mma.m16n8k16.f16", "--format", "pdf"), "no format 'pdf'"),
        (("mma.m16n8k16.f16", "--output", "0,8"), "columns 0 to 7"),
        (("mma.m16n8k16.f16", "--to", "/nonexistent/x.svg"), "cannot write"),
        ((), "name an instruction"),
    ],
)
def test_mistakes_are_told_in_one_message(words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["layout", *words]) == 2
    printed = capsys.readouterr()
    assert said in printed.err and printed.err.count("\n") == 1 and not printed.out


ROOT = Path(__file__).parents[1]


def examples() -> list[tuple[str, list[str]]]:
    """The commands shown in docs/layouts.md and the lines shown of their output; ``...`` stands for any number of lines."""
    text = (ROOT / "docs" / "layouts.md").read_text()
    blocks = re.findall(r"```console\n\$ tcsim (.*)\n((?:.*\n)*?)```", text)
    return [(command, output.splitlines()) for command, output in blocks]


@pytest.mark.parametrize("command, shown", examples(), ids=lambda x: x if isinstance(x, str) else "")
def test_the_page_shows_real_output(command: str, shown: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    words = [str(ROOT / word) if word.startswith("traces/") else word for word in shlex.split(command)]
    assert main(words) == 0
    pattern = "".join("(?:.*\n)*?" if line == "..." else re.escape(line) + "\n" for line in shown)
    assert re.fullmatch(pattern, capsys.readouterr().out)


def test_the_page_shows_this_picture() -> None:
    found = layout("mma.m16n8k16.f16")
    marked = feeds_rows(found, found.feeds(3, 5))
    assert (ROOT / "docs" / "pictures" / "mma_m16n8k16.svg").read_text() == layout_svg(found, (), marked)


# ------------------------------------------------------------------------------------------------ wgmma's shared memory


def test_a_descriptor_and_the_packed_layout_that_it_describes_are_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    """By hand: with 64 bytes of swizzle, rows are 64 bytes apart, and bits 4 and 5 are XORed with bits 7 and 8."""
    assert main(["layout", "wgmma.m64n16k16.f16", "--swizzle", "64", "--format", "csv"]) == 0
    packed = capsys.readouterr().out
    assert main(["layout", "wgmma.m64n16k16.f16", "--descriptor", "0x8000002000400000", "--format", "csv"]) == 0
    assert capsys.readouterr().out == packed
    rows = [tuple(map(int, row)) for row in list(csv.reader(io.StringIO(packed)))[1:]]
    expected = {(n, k): (at := 64 * n + 2 * k) ^ (at >> 7 & 3) << 4 for n in range(16) for k in range(16)}
    assert {(n, k): address for n, k, address, _ in rows} == expected


@pytest.mark.parametrize("swizzle", ["0", "32", "64", "128"])
@pytest.mark.parametrize("more", [[], ["--transposed"]], ids=["k-major", "mn-major"])
def test_packed_matrices_do_not_overlap(swizzle: str, more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    for operand, size in (("a", 64 * 16), ("b", 128 * 16)):
        args = ["layout", "wgmma.m64n128k16.bf16", "-o", operand, "--swizzle", swizzle, *more]
        assert main([*args, "--json"]) == 0
        data = json.loads(capsys.readouterr().out)
        addresses = np.array(data["addresses"])
        assert len(np.unique(addresses)) == addresses.size == size
        assert main(args) == 0
        text = capsys.readouterr().out
        assert data["descriptor"] in text and ("side by side" in text) == bool(more)


@pytest.mark.parametrize(
    "args, words",
    [
        (["mma.m16n8k16.f16", "--swizzle", "64"], "only operands a and b of wgmma"),
        (["ldmatrix.x4", "--swizzle", "64"], "only operands of wgmma"),
        (["wgmma.m64n8k16.f16", "-o", "d", "--swizzle", "64"], "only operands a and b of wgmma"),
        (["wgmma.m64n8k8.tf32", "--transposed"], "only operands of 16 bits can be transposed"),
        (["wgmma.m64n8k16.f16", "--swizzle", "16"], "0, 32, 64 or 128 bytes"),
        (["wgmma.m64n8k16.f16", "--descriptor", "here"], "a 64-bit number"),
        (["wgmma.m64n8k16.f16", "--descriptor", "0x10000000000000000"], "more than 64 bits"),
        (["wgmma.m64n12k16.f16"], "there is no such form"),
        (["wgmma.m64n8k16.f16", "--output", "0,0"], "has b in shared memory"),
    ],
)
def test_what_has_no_such_layout_is_refused(args: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["layout", *args]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "shapes", "per_register"),
    [
        ("mma.m16n8k32.kind::f8f6f4.f32.e2m1.e3m2.f32", ((16, 32), (32, 8)), 4),
        ("mma.sp.m16n8k64.kind::mxf8f6f4.f32.e4m3.e2m3.f32", ((16, 32), (64, 8)), 4),
        ("mma.m16n8k64.kind::mxf4nvf4.scale_vec::4X.f32.e2m1.e2m1.f32", ((16, 64), (64, 8)), 8),
    ],
)
def test_forms_with_a_kind(name: str, shapes: tuple[tuple[int, int], ...], per_register: int) -> None:
    """6- and 4-bit elements are in containers of 8 bits, but where the kind packs them; scales have no fragment."""
    found = layout(name)
    assert find(found.instruction.ptx)[0] and layout(found.instruction.ptx).name == found.name
    assert tuple((found[o].rows, found[o].columns) for o in "ab") == shapes
    assert found["a"].per_register == found["b"].per_register == per_register
    assert not any(operand.problems() for operand in found.operands.values())
    with pytest.raises(NoFormError, match=r"no such form with kind::mxf4 "):
        layout("mma.m16n8k32.kind::mxf4.f32.e2m1.e2m1.f32")
