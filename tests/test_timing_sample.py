"""A few SMs simulated for all: cycles near the whole chip's, sums that stand for it, and what cannot be sampled."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from timing_support import H200, empty_memory

import tcsim
from gpu_ref.correlation import samples
from tcsim.cli import main
from tcsim.cli.launches import LaunchOptions, prepare
from tcsim.errors import DeviceError
from tcsim.profile import LaunchProfile
from tcsim.timing.placement import Placement
from tcsim.timing.sample import sample_error
from tcsim.timing.work_distributor import WorkDistributor

TRACES = Path(__file__).parents[1] / "traces"


def timed(name: str, sample: bool | int, engine: str = "compiled") -> tuple[LaunchProfile, dict[str, np.ndarray]]:
    empty_memory()
    launch = prepare(str(TRACES / name), LaunchOptions())
    with launch.device, tcsim.Profiler(sample=sample, engine=engine) as profiler:  # type: ignore[arg-type]
        launch.run()
    return profiler.launches[-1], launch.outputs()


@pytest.mark.parametrize("name, share", [("vector_add_large", 1.0), ("gemm_f16_wide", 0.5), ("triton_softmax", 1.0)])
def test_a_sample_stands_for_the_chip(name: str, share: float) -> None:
    """``share``: lines of memory that all CTAs touch for each of the sample's, at most, over CTAs for each of the sample's."""
    (whole, _), (part, _) = timed(name, False), timed(name, True)
    assert whole.sample is None and part.sample is not None
    assert part.cycles == pytest.approx(whole.cycles, rel=max(0.01, sample_error().mean))
    assert 0 < 4 * part.sample.ctas <= part.sample.of and len(part.sample.sms) <= sample_error().sms
    assert 1 <= part.sample.footprint <= 1.05 * share * part.sample.of / part.sample.ctas
    stores = "smsp__inst_executed_op_global_st.sum"
    for metric in ("smsp__inst_executed.sum", "sm__cycles_active.avg", "dram__bytes_read.sum", stores):
        assert part.metrics[metric] == pytest.approx(whole.metrics[metric], rel=0.02)
    for metric in ("sm__ctas_launched.sum", "sm__warps_launched.sum", "launch__grid_size"):
        assert part.metrics[metric] == whole.metrics[metric]
    assert sum(part.stalls.values()) == part.warp_cycles
    assert any(note.startswith("a sample:") for note in part.notes)


def test_both_engines_sample_alike_and_leave_the_rest_out() -> None:
    (one, first), (other, second) = timed("vector_add", 16), timed("vector_add", 16, "simpy")
    assert (one.cycles, one.metrics, one.stalls) == (other.cycles, other.metrics, other.stalls)
    (_, full) = timed("vector_add", False)
    assert np.array_equal(first["c"], second["c"])
    written = first["c"] != 0
    assert np.array_equal(first["c"][written], full["c"][written]) and 0.05 < written.mean() < 0.25


def test_clusters_are_sampled_by_gpc() -> None:
    part, _ = timed("tensor_multicast", 2)
    assert part.sample is not None and 0 < part.sample.ctas < part.sample.of


def test_a_sample_may_be_all() -> None:
    (whole, out), (part, same) = timed("contraction", False), timed("contraction", 132)
    assert part.cycles == whole.cycles and part.metrics == whole.metrics
    assert part.sample is not None and part.sample.ctas == part.sample.of and part.sample.error == 0
    assert all(np.array_equal(out[name], same[name]) for name in out)


def test_turns_of_the_chip() -> None:
    placement = Placement(8, (), 2, 1, 35)
    loads = placement.loads(35)
    assert sum(loads.values()) == 35 and loads[0] == 5 and loads[7] == 4
    placement.keep({1, 2})
    assert placement.numbers == [1, 2, 9, 10] and placement.whole == 16
    assert placement.coming(35) == 10
    distributor = WorkDistributor(H200.chip.launch, 35, placement, 1, 8, 10**9)
    taken = [cluster for _, cluster, _ in distributor.first_wave()]
    taken += [following[0] for _ in range(10) if (following := distributor.replace(0)) is not None]
    assert taken == [1, 2, 9, 10, 17, 18, 25, 26, 33, 34]


def test_what_cannot_be_sampled() -> None:
    with pytest.raises(DeviceError, match="its CTAs wait for one another"):
        timed("locks", True)
    with pytest.raises(DeviceError, match="a sample of 133 SMs: NVIDIA H200 has 132"):
        timed("vector_add_bits", 133)


def test_from_the_command_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["profile", str(TRACES / "vector_add"), "--sample", "--sample-sms", "16", "--json"]) == 0
    (launch,) = json.loads(capsys.readouterr().out)["launches"]
    assert launch["sample"]["ctas"] == 48 and launch["sample"]["of"] == 391
    assert launch["sample"]["error"] == sample_error().mean and "correlate" in launch["sample"]["error_source"]
    assert main(["profile", str(TRACES / "vector_add"), "--sample"]) == 0
    text = capsys.readouterr().out
    assert "Note: a sample: 48 of 391 CTAs were simulated, on 16 SMs (0-15)" in text and "do not use them" in text
    for words in (["--sample", "--save", str(tmp_path / "x.npz")], ["--sample-sms", "8"]):
        assert main(["profile", str(TRACES / "vector_add"), *words]) != 0
        assert "--sample" in capsys.readouterr().err


def test_the_error_is_measured_from_bundles(tmp_path: Path) -> None:
    with tcsim.Device("h200"):
        samples.write(TRACES, tmp_path / "sample_error.toml", 16, ["vector_add", "locks", "pointer_chase"])
    text = (tmp_path / "sample_error.toml").read_text()
    assert "sms = 16\n" in text and "launches = 1\n" in text and 'worst_launch = "vector_add"' in text
    assert 0 < float(text.partition("worst = ")[2].split()[0]) <= sample_error().worst
