"""Two reports side by side, wherever they come from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tcsim.cli import main
from tcsim.errors import TcsimError
from tcsim.report.compare import Measured, compare, compare_text, of_profile, pairs, read_measured
from tcsim.report.data import to_csv, to_json, to_raw_csv
from tests.test_report import made

TRACES = Path(__file__).parents[1] / "traces"

_HEAD = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC",'
    '"Section Name","Metric Name","Metric Unit","Metric Value","Rule Name","Rule Type","Rule Description"'
)
_ROW = '"0","1","app","127.0.0.1","k(float *)","1","7","(128, 1, 1)","(2, 1, 1)","0","9.0",'
_LIGHT = '"GPU Speed Of Light Throughput",'

NCU = "\n".join(
    (
        "==PROF== Connected to process 4242 (/usr/bin/app)",
        _HEAD,
        f'{_ROW}{_LIGHT}"Elapsed Cycles","cycle","1,250","","",""',
        f'{_ROW}{_LIGHT}"Duration","usecond","0.6","","",""',
        f'{_ROW}{_LIGHT}"","","","SOLBottleneck","WRN","some text"',
        f'{_ROW}"Command line profiler metrics","dram__bytes_read.sum","Kbyte","73.73","","",""',
    )
)


def test_ncu_s_details_are_read_in_its_units(tmp_path: Path) -> None:
    path = tmp_path / "ncu.csv"
    path.write_text(NCU)
    (found,) = read_measured(path)
    assert found.kernel == "k(float *)"
    assert found.metrics == {
        "gpc__cycles_elapsed.max": 1250.0, "gpu__time_duration.sum": 600.0, "dram__bytes_read.sum": 73730.0,
    }  # fmt: skip
    rows = {row.metric: row for row in compare(of_profile(made(), "tcsim"), found)}
    assert rows["gpc__cycles_elapsed.max"].ratio == 1.25 and rows["gpc__cycles_elapsed.max"].label == "Elapsed Cycles"
    assert "+25.0 %" in compare_text(of_profile(made(), "tcsim"), found)


def test_launches_are_paired_by_kernel() -> None:
    one, two = ([Measured(source, kernel, {}) for kernel in kernels] for source, kernels in (
        ("a", ("k", "f", "k")), ("b", ("g(int)", "k(float *)", "k(float *)", "k(float *)"))
    ))  # fmt: skip
    assert [(a.kernel, b.kernel) for a, b in pairs(one, two)] == [("k", "k(float *)")] * 2
    assert [(a.kernel, b.kernel) for a, b in pairs(one[1:2], two)] == [("f", "g(int)")]  # of no kernel in both, in order


@pytest.mark.parametrize("kind", ["json", "details", "raw"])
def test_what_profile_writes_compares_equal(kind: str, tmp_path: Path) -> None:
    path = tmp_path / ("p.json" if kind == "json" else "p.csv")
    path.write_text({"json": to_json, "details": to_csv, "raw": to_raw_csv}[kind]([made(), made(name="other")]))
    found = read_measured(path)
    assert [each.kernel for each in found] == ["k", "other"]
    rows = compare(of_profile(made(), "one"), found[0])
    assert len(rows) > 10 and all(row.ratio == pytest.approx(1.0, rel=1e-5) for row in rows)


def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.json"
    path.write_text(to_json([made()]))
    assert main(["compare", str(path), str(TRACES / "vector_add")]) == 0
    assert "h200, recorded" in capsys.readouterr().out
    vectors = str(TRACES / "vector_add")
    metrics = "smsp__inst_executed.sum,sm__cycles_elapsed.max"
    plot = tmp_path / "cycles.svg"
    assert main(["compare", str(path), vectors, "--plot", str(plot)]) == 0
    assert "sm__cycles_elapsed.max" in plot.read_text() and "h200, recorded" in plot.read_text()
    assert main(["compare", str(path), vectors, "--plot", str(plot), "--metrics", "launch__block_size"]) == 2
    capsys.readouterr()
    assert main(["compare", f"{vectors}@a100", vectors, "--json", "--metrics", metrics]) == 0
    (pair,) = json.loads(capsys.readouterr().out)
    assert pair["one"] == "tcsim a100" and pair["two"] == "h200, recorded"
    ratios = {row["metric"]: row["ratio"] for row in pair["metrics"]}
    assert ratios["smsp__inst_executed.sum"] > 1 and 0.3 < ratios["sm__cycles_elapsed.max"] < 3


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [("a.csv", "no table\n", "neither a profile"), ("a.json", "{}", "is no profile"), ("none.csv", None, "cannot read")],
)
def test_other_files_are_refused(name: str, content: str | None, said: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(TcsimError, match=said):
        read_measured(tmp_path / name)
