"""The report: Nsight Compute's words, options and files, and rules that add up."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tcsim
from tcsim.cli import main
from tcsim.errors import TcsimError
from tcsim.profile import STALL_REASONS, InstructionProfile, LaunchProfile
from tcsim.report.account import account
from tcsim.report.advice import advise
from tcsim.report.data import json_schema, load_profiles, to_csv, to_json, to_raw_csv
from tcsim.report.derived import with_derived
from tcsim.report.sections import SECTIONS
from tcsim.report.stall_advice import STALL_ADVICE
from tcsim.report.text import render
from tcsim.report.units import UNIT_FACTORS, unit_of

ROOT = Path(__file__).parents[1]


def instruction(pc: int, opcode: str, **counts: Any) -> InstructionProfile:
    fields: dict[str, Any] = {
        "pc": pc, "opcode": opcode, "ptx_line": 10 + pc, "file": "k.cu", "line": 3 + pc // 2, "timing": "alu", "free": False,
        "executed": 64, "threads": 2048, "issued": 64, "stalls": {"selected": 64}, "sectors": 0, "l1_hits": 0, "wavefronts": 0,
    }  # fmt: skip
    return InstructionProfile(**(fields | counts))


def made(**changes: Any) -> LaunchProfile:
    """A launch whose numbers are easy to follow: 2 CTAs on 4 SMs, half of the time waiting for memory."""
    metrics = {
        "sm__cycles_elapsed.max": 1000, "sm__cycles_active.avg": 400.0, "sm__cycles_active.max": 800,
        "sm__cycles_active.sum": 1600, "smsp__inst_executed.sum": 640, "smsp__inst_issued.sum": 640,
        "smsp__issue_active.sum": 640, "smsp__issue_active.avg.per_cycle_active": 0.1,
        "smsp__warps_active.avg.per_cycle_active": 2.0, "smsp__warps_eligible.avg.per_cycle_active": 0.2,
        "smsp__thread_inst_executed_per_inst_executed.ratio": 32.0,
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active": 25.0, "sm__inst_executed_pipe_tensor.sum": 64,
        "sm__throughput.avg.pct_of_peak_sustained_elapsed": 10.0,
        "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": 20.0,
        "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum": 100, "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum": 75,
        "launch__grid_size": 2, "launch__block_size": 128, "launch__sm_count": 4, "gpu__time_duration.sum": 505.05,
        "launch__waves_per_multiprocessor": 0.25, "sm__maximum_warps_per_active_cycle_pct": 100.0,
        "sm__warps_active.avg.pct_of_peak_sustained_active": 12.5,
    }  # fmt: skip
    stalls = {"selected": 640, "long_scoreboard": 3200, "mio_throttle": 1920, "barrier": 640}
    instructions = (
        instruction(0, "ld.global.f32", sectors=2048, stalls={"selected": 64}),
        instruction(1, "mul.f32", stalls={"selected": 64, "long_scoreboard": 3200}),
        instruction(2, "st.shared.f32", wavefronts=100, stalls={"selected": 64, "mio_throttle": 1920}),
        instruction(3, "bar.sync", stalls={"selected": 448, "barrier": 640}),
        instruction(4, "HMMA.16816.F32", stalls={}),
    )
    fields: dict[str, Any] = {
        "name": "k", "device": "h200", "device_name": "NVIDIA H200", "sm": 90, "grid": (2, 1, 1), "block": (128, 1, 1),
        "cycles": 1000, "sm_clock_hz": 1_980_000_000, "metrics": metrics, "stalls": stalls, "warp_cycles": 6400,
        "instructions": instructions, "timed": "PTX",
    }  # fmt: skip
    return LaunchProfile(**(fields | changes))


# ------------------------------------------------------------------------------------------------------------- numbers


def test_the_account_has_no_remainder() -> None:
    found = account(made())
    assert found is not None and found.resource == "tensor cores"
    assert found.reached == pytest.approx(10.0)  # 25 % of the 40 % of cycles in which an SM has work
    shares = {loss.name: loss.percent for loss in found.losses}
    assert shares["launch"] == pytest.approx(20.0) and shares["no CTA"] == pytest.approx(40.0)
    assert shares["long_scoreboard"] == pytest.approx(15.0)  # half of the 30 % that are left
    assert abs(found.remainder()) < 1e-9


def test_without_tensor_cores_the_account_is_of_issue_slots() -> None:
    metrics = {k: v for k, v in made().metrics.items() if "tensor" not in k}
    found = account(made(metrics=metrics))
    assert found is not None and found.resource == "issue slots"
    assert found.reached == pytest.approx(0.4 * 10.0)
    assert "selected" not in {loss.name for loss in found.losses}
    assert abs(found.remainder()) < 1e-9


def test_derived_metrics_follow_from_their_parts_and_are_never_made_up() -> None:
    metrics = with_derived(made().metrics)
    assert metrics["sm__inst_executed.avg.per_cycle_active"] == 640 / 1600
    assert metrics["smsp__inst_executed.avg"] == 640 / 16
    assert "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio" not in metrics
    assert with_derived({}) == {}


def test_waiting_for_an_mbarrier_is_called_that() -> None:
    wait = instruction(1, "SYNCS.PHASECHK.TRANS64.TRYWAIT", stalls={"selected": 64})
    branch = instruction(2, "BRA", stalls={"selected": 64, "short_scoreboard": 3200})
    stalls = {"selected": 640, "short_scoreboard": 3200}
    (said,) = (a for a in advise(made(instructions=(wait, branch), stalls=stalls)) if a.rule == "CPIStall")
    assert "waits for an mbarrier" in said.text and "more stages" in said.text
    (other,) = (a for a in advise(made(instructions=(branch,), stalls=stalls)) if a.rule == "CPIStall")
    assert "waits for shared memory" in other.text


def test_every_stall_reason_is_explained() -> None:
    assert set(STALL_ADVICE) <= set(STALL_REASONS)
    rare = {"selected", "imc_miss", "sleeping", "dispatch_stall"}
    assert set(STALL_REASONS) - set(STALL_ADVICE) <= rare


def test_rules() -> None:
    said = {advice.rule: advice for advice in advise(made())}
    grid = said["LaunchConfiguration"]
    assert grid.speedup == pytest.approx(50.0) and "2 CTAs leave 2 of 4 SMs" in grid.text
    sectors = said["UncoalescedGlobalAccess"]  # 2048 lanes x 4 bytes are 256 sectors; 2048 were moved
    assert "1,792 of 2,048 sectors" in sectors.text and "ld.global.f32 at k.cu:3  ptx:10" in sectors.text
    conflicts = said["SharedMemoryConflicts"]
    assert "75 of 100 wavefronts" in conflicts.text and conflicts.speedup == pytest.approx(80 * 0.3)
    assert said["CPIStall"].speedup == pytest.approx(80 * 0.5)
    assert "mul.f32 at k.cu:3" in said["CPIStall"].text
    sections = {section.identifier for section in SECTIONS}
    for advice in said.values():
        assert advice.section in sections and advice.kind in ("INF", "OPT")
        assert advice.speedup is None or 0 <= advice.speedup <= 100
    assert advise(made(metrics={}, stalls={}, instructions=())) == []


# --------------------------------------------------------------------------------------------------------------- files


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_details_csv_is_that_of_ncu() -> None:
    text = to_csv([made()])
    assert text.startswith('"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size"')
    found = rows(text)
    cycles = next(row for row in found if row["Metric Name"] == "Elapsed Cycles")
    assert (cycles["Section Name"], cycles["Metric Unit"], cycles["Metric Value"]) == (
        "GPU Speed Of Light Throughput", "cycle", "1000",
    )  # fmt: skip
    assert (cycles["Kernel Name"], cycles["Block Size"], cycles["Grid Size"], cycles["CC"]) == (
        "k", "(128, 1, 1)", "(2, 1, 1)", "9.0",
    )  # fmt: skip
    rule = next(row for row in found if row["Rule Name"] == "LaunchConfiguration")
    assert rule["Metric Name"] == "" and float(rule["Estimated Speedup"]) == 50.0 and rule["Rule Type"] == "OPT"
    assert rule["Section Name"] == "LaunchStats"  # ncu names the section there, and its title in rows of metrics
    assert '"Elapsed Cycles","cycle","1000",\n' in text and '"Duration","ns","505.05",\n' in text
    assert "e+" not in to_csv([made(metrics={"dram__cycles_elapsed.avg.per_second": 3197368421.05})])
    only = rows(to_csv([made()], ["Occupancy"]))
    assert {row["Section Name"] for row in only} == {"Occupancy"}


def test_metrics_by_name_are_rows_of_the_command_line_section() -> None:
    found = rows(to_csv([made(), made()], metrics=["sm__cycles_elapsed", "regex:^launch__(grid|block)_size$"]))
    assert {row["Section Name"] for row in found} == {"Command line profiler metrics"}
    names = [row["Metric Name"] for row in found if row["ID"] == "1"]
    assert names == [f"sm__cycles_elapsed.{r}" for r in ("avg", "max", "sum")] + ["launch__block_size", "launch__grid_size"]
    for wrong, said in (("nothing", "not modelled"), ("regex:(", "regex:"), ("regex:^zz", "not modelled")):
        with pytest.raises(TcsimError, match=said):
            to_csv([made()], metrics=[wrong])


def public_readers(text: str) -> list[dict[str, float]]:
    """Ways in which public scripts read ``ncu --csv --metrics``: by column, and by the place of fields; metrics by launch."""
    by_column: dict[str, dict[str, float]] = {}
    by_place: dict[str, dict[str, float]] = {}
    for row in rows(text):
        by_column.setdefault(row["ID"], {})[row["Metric Name"]] = float(row["Metric Value"].replace(",", ""))
    for line in text.splitlines()[1:]:
        fields = [field.strip('"') for field in line.rstrip(",").split('","')]
        by_place.setdefault(fields[0].strip('"'), {})[fields[12]] = float(fields[14])
    assert by_column == by_place
    return list(by_column.values())


def test_public_readers_of_such_files_agree() -> None:
    launch = {name: pytest.approx(float(value)) for name, value in with_derived(made().metrics).items()}
    assert public_readers(to_csv([made(), made()], metrics=list(launch))) == [launch, launch]


def test_raw_csv_is_wide_with_units_in_its_second_line() -> None:
    text = to_raw_csv([made()], ["sm__cycles_elapsed.max", "gpu__time_duration.sum"])
    names, units, values = list(csv.reader(io.StringIO(text)))
    assert names[-2:] == ["sm__cycles_elapsed.max", "gpu__time_duration.sum"]
    assert units[-2:] == ["cycle", "ns"] and values[-2:] == ["1000", "505.05"]
    every = next(csv.reader(io.StringIO(to_raw_csv([made()]))))
    assert set(made().metrics) <= set(every)
    with pytest.raises(TcsimError, match=r"sm__cycles_elapsed.min: .*there is gpc__cycles_elapsed.max, l1tex__cycles"):
        to_raw_csv([made()], ["sm__cycles_elapsed.min"])


def test_units() -> None:
    assert unit_of("dram__bytes.sum.per_second") == "byte/s"
    assert unit_of("sm__warps_active.avg.pct_of_peak_sustained_active") == "%"
    assert unit_of("smsp__inst_executed.sum") == "inst" and unit_of("launch__grid_size") == ""
    assert all(unit.lower() == unit for unit in UNIT_FACTORS)


def test_json_round_trip_and_schema(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text(to_json([made()]))
    (back,) = load_profiles(path)
    assert back == made()
    content = json.loads(path.read_text())
    assert content["schema"] == 1 and content["tcsim"] == tcsim.__version__
    stored = json.loads((ROOT / "docs" / "profile.schema.json").read_text())
    assert plain(stored) == plain(json_schema())
    for broken in ("{}", "[1]", path.read_text().replace('"schema": 1', '"schema": 99')):
        path.write_text(broken)
        with pytest.raises(TcsimError, match=r"p\.json"):
            load_profiles(path)
    with pytest.raises(TcsimError, match="cannot read"):
        load_profiles(tmp_path / "none.json")


def plain(schema: Any) -> str:
    """The schema as text, however Python indents docstrings."""
    return " ".join(json.dumps(schema, sort_keys=True).replace("\\n", " ").split())


def test_text() -> None:
    text = render(made())
    assert "Section: Where the cycles went: tensor cores" in text
    assert "OPT   Est. Speedup: 50.0%  2 CTAs leave" in text
    assert max(len(line) for line in text.splitlines()) <= 124
    only = render(made(), ["Occupancy"])
    assert "Achieved Occupancy" in only and "Speed Of Light" not in only


# ------------------------------------------------------------------------------------------------------------- command

SCRIPT = """
import sys, numpy as np, tcsim
module = tcsim.RawModule(path={ptx!r})
x = tcsim.asarray(np.ones(512, np.float32))
for n in range(int(sys.argv[1])):
    module.get_function("vector_add")((2,), (256,), (x, x, tcsim.zeros(512, np.float32), np.int32(512)))
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("script") / "script.py"
    path.write_text(SCRIPT.format(ptx=str(ROOT / "traces" / "kernels" / "vector_add.ptx")))
    return str(path)


def test_a_script_is_profiled(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["profile", script, "3", "--csv", "--page", "raw", "--metrics", "launch__grid_size,sm__cycles_elapsed.max"]
    assert main(words) == 0
    found = rows(capsys.readouterr().out)[1:]
    assert [row["launch__grid_size"] for row in found] == ["2"] * 3
    assert main([*words, "--launch-skip", "1", "--launch-count", "1", "--kernel-name", "regex:^vector"]) == 0
    assert len(rows(capsys.readouterr().out)) == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--kernel-name", "nothing"], "no launch is left of 1 (of vector_add)"),
        (["--kernel-name", "regex:("], "--kernel-name 'regex:('"),
        (["--page", "other"], "details, raw or source"),
        (["--section", "Nothing"], "one of SpeedOfLight"),
        (["--metrics", "nothing"], "--metrics nothing"),
        (["--metrics", "regex:[", "--csv"], "--metrics regex:["),
    ],
)
def test_mistakes_are_told(script: str, words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", script, "1", *words]) == 2
    assert said in capsys.readouterr().err


def test_a_real_profile_accounts_for_all(capsys: pytest.CaptureFixture[str]) -> None:
    module = tcsim.RawModule(path=ROOT / "traces" / "kernels" / "vector_add.ptx")
    x = tcsim.asarray(np.ones(512, np.float32))
    with tcsim.Profiler() as profiler:
        module.get_function("vector_add")((2,), (256,), (x, x, tcsim.zeros(512, np.float32), np.int32(512)))
    found = account(profiler.launches[0])
    assert found is not None and abs(found.remainder()) < 1e-9
    assert load_profiles_of(to_json(profiler.launches)) == profiler.launches


def load_profiles_of(text: str) -> list[LaunchProfile]:
    import msgspec

    from tcsim.report.data import ProfileFile

    return msgspec.json.decode(text, type=ProfileFile).launches


def test_uneven_work_and_contended_atomics_are_told() -> None:
    metrics = dict(made().metrics) | {"launch__grid_size": 40, "launch__waves_per_multiprocessor": 1.25}
    said = {advice.rule: advice for advice in advise(made(metrics=metrics))}
    assert said["WorkloadImbalance"].speedup == pytest.approx(40.0)  # 800 cycles, 400 on average, of 1000
    assert "WorkloadImbalance" not in {advice.rule for advice in advise(made())}  # that grid is too small for all SMs
    atomic = instruction(2, "ATOMS.ADD", wavefronts=100, stalls={"selected": 64, "mio_throttle": 1920})
    conflicts = next(a for a in advise(made(instructions=(atomic,))) if a.rule == "SharedMemoryConflicts")
    assert "own copy" in conflicts.text and "tcsim banks" not in conflicts.text


def test_spilled_registers_are_told() -> None:
    metrics = dict(made().metrics) | {
        "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum": 300, "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum": 300,
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": 400,
    }  # fmt: skip
    load = instruction(0, "LDL", sectors=300, stalls={"selected": 64})
    (said,) = (a for a in advise(made(metrics=metrics, instructions=(load,))) if a.rule == "LocalMemory")
    assert said.speedup == pytest.approx(80 * 0.5 * 0.6) and "600 sectors of local memory, 60 %" in said.text
    assert "LDL at k.cu:3" in said.text
    assert "LocalMemory" not in {a.rule for a in advise(made())}
