"""``python -m gpu_ref correlate``: errors by their formula, tables and plots from timed launches."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from gpu_ref.__main__ import main
from gpu_ref.correlation.launches import Timed
from gpu_ref.correlation.report import report, scatter
from gpu_ref.correlation.statistics import agreement, errors

CYCLES, ACTIVE = "sm__cycles_elapsed.max", "sm__cycles_active.avg"


def timed(name: str, predicted: float, recorded: float) -> Timed:
    return Timed(name, {CYCLES: predicted, ACTIVE: predicted}, {CYCLES: recorded, ACTIVE: 0.0}, "machine code, made up")


LAUNCHES = [timed("a", 110, 100), timed("b", 900, 1000), timed("c", 13_000, 10_000)]


def test_errors_are_relative_to_what_was_recorded() -> None:
    assert [round(error, 6) for _, error in errors(LAUNCHES, CYCLES)] == [0.1, -0.1, 0.3]
    found = agreement(LAUNCHES, CYCLES)
    assert found is not None
    assert found.mape == pytest.approx(50 / 3) and found.median == pytest.approx(10) and found.largest == pytest.approx(30)
    assert 0.99 < found.correlation <= 1
    assert agreement(LAUNCHES, ACTIVE) is None  # recorded as 0
    alone = agreement(LAUNCHES[:1], CYCLES)
    assert alone is not None and math.isnan(alone.correlation)


def test_every_launch_is_in_the_table_and_in_the_picture() -> None:
    groups = {"looked at": LAUNCHES[:2], "held out": LAUNCHES[2:]}
    text = "\n".join(report(groups))
    assert "| a | looked at | 110 | 100 | +10.0 % | 1 |" in text and "| c | held out |" in text
    tree = ElementTree.fromstring(scatter(groups))
    titles = [element.text for element in tree.iter("{http://www.w3.org/2000/svg}title")]
    assert titles == [f"{x.name}: {x.predicted[CYCLES]:,.0f} predicted, {x.recorded[CYCLES]:,.0f} recorded" for x in LAUNCHES]


def test_the_command_times_recorded_bundles(traces: Path, tmp_path: Path) -> None:
    table, plot = tmp_path / "table.md", tmp_path / "plot.svg"
    assert main(["correlate", str(traces), "--only", "vector_add_bits", "--out", str(table), "--plot", str(plot)]) == 0
    assert "| vector_add_bits | looked at |" in table.read_text()
    ElementTree.parse(plot)


def test_nothing_to_compare_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["correlate", str(tmp_path)]) == 2
    assert "gpu_ref record" in capsys.readouterr().err
