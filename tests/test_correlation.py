"""``python -m gpu_ref correlate``: errors by their formula, tables and plots from timed launches."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_ref.__main__ import main
from gpu_ref.correlation.launches import Job, Timed, on_tensor_cores, timed
from gpu_ref.correlation.mechanisms import mechanisms, misplaced, noise, stall_shares
from gpu_ref.correlation.report import report, scatter
from gpu_ref.correlation.statistics import agreement, errors

CYCLES, ACTIVE = "sm__cycles_elapsed.max", "sm__cycles_active.avg"


def made_up(name: str, predicted: float, recorded: float) -> Timed:
    return Timed(name, {CYCLES: predicted, ACTIVE: predicted}, {CYCLES: recorded, ACTIVE: 0.0}, "machine code, made up")


LAUNCHES = [made_up("a", 110, 100), made_up("b", 900, 1000), made_up("c", 13_000, 10_000)]


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
    assert "| looked at | `sm__cycles_elapsed.max` | 2 | 0 | 10.0 % |" in text
    assert "| all groups | `sm__cycles_elapsed.max` | 3 | 0 | 16.7 % | 10.0 % | 30.0 % | 30.0 % |" in text
    tensor = replace(LAUNCHES[0], tensor=True)
    assert "| g, tensor cores | `sm__cycles_elapsed.max` | 1 | 0 | 10.0 % |" in "\n".join(report({"g": [tensor, LAUNCHES[1]]}))
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


def test_warps_cycles_are_compared_as_shares() -> None:
    sums = {"smsp__warps_issue_stalled_wait.sum": 30.0, "smsp__warps_issue_stalled_barrier.sum": 10.0}
    ratios = {
        "smsp__average_warps_issue_stalled_wait_per_issue_active.ratio": 2.0,
        "smsp__average_warps_issue_stalled_drain_per_issue_active.ratio": 2.0,
    }
    assert stall_shares(sums)["wait"] == 0.75 and stall_shares(ratios)["drain"] == 0.5 and stall_shares({}) == {}
    assert misplaced(Timed("a", ratios, sums, "")) == pytest.approx(0.5)  # a quarter of wait and all of barrier, now drain
    assert misplaced(Timed("b", {}, sums, "")) is None
    lines = "\n".join(mechanisms({"looked at": [Timed("a", ratios, sums, "")]}))
    assert "| drain | 0.0 % | 50.0 % | 50.0 points | 50.0 points | 50.0 points |" in lines
    assert "| looked at | 1 | 50.0 % | 50.0 % | 50.0 % |" in lines


def test_noise_is_the_distance_of_runs_from_their_median() -> None:
    runs = {CYCLES: [100.0, 110.0, 90.0], ACTIVE: [5.0]}
    assert noise([Timed("a", {}, {}, "", runs)], CYCLES) == [pytest.approx(0.2 / 3)]
    assert noise([Timed("a", {}, {}, "", runs)], ACTIVE) == []
    launch = Timed("a", {CYCLES: 99.0, ACTIVE: 1.0}, {CYCLES: 100.0}, "", runs)
    assert "| a | held out | 99 | 100 | -1.0 % | 3: 20.0 % |" in "\n".join(report({"held out": [launch]}))


def test_conflicts_are_measured_in_wavefronts() -> None:
    conflicts = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"
    recorded = {conflicts: 5.0, "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum": 1000.0}
    lines = "\n".join(mechanisms({"g": [Timed("a", {conflicts: 0.0}, recorded, "")]}))
    assert "| g | ld | 1 | 0 | 1 | 0.5 % |" in lines


def test_a_launch_that_cannot_be_timed_does_not_end_the_others(tmp_path: Path) -> None:
    (gone,) = timed([Job("gone", tmp_path, True, "h200", True)])
    assert gone.name == "gone" and str(tmp_path) in gone.problem and not gone.predicted


def test_tensor_cores_are_told_by_the_kernel_itself() -> None:
    ptx = ".visible .entry a() { fma.rn.f32 x; }\n.visible .entry ab() { wgmma.mma_async.sync.aligned.m64n8k16 x; }\n"
    assert not on_tensor_cores(ptx, "a") and on_tensor_cores(ptx, "ab")
    assert on_tensor_cores(".entry k() { mma.sp::ordered_metadata.sync.aligned.m16n8k32 d; }", "k")
    assert not on_tensor_cores(".entry k() { wgmma.wait_group.sync.aligned 0; fma.rn.f16x2 d; }", "k")
