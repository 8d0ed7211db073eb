"""The hardware side: imports anywhere, says what is missing, and records, rehearsed on a fake GPU (``tests/fake_gpu``)."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest

import gpu_ref
from gpu_ref.__main__ import main
from gpu_ref.device import require_cupy
from gpu_ref.metrics import METRICS, STALL_REASONS
from gpu_ref.profiling import parse_raw_csv, refused_metrics, select_known
from gpu_ref.toolchain import assemble, find_ptxas
from isa.errors import TcsimError
from isa.sass.toolchain import find_nvdisasm
from tcsim.bundle import Metric, load_bundle, load_suite

ROOT = Path(__file__).parent.parent
FAKE = Path(__file__).parent / "fake_gpu"


def _has_gpu() -> bool:
    try:
        require_cupy()
    except gpu_ref.GpuUnavailable:
        return False
    return True


on_gpu = [pytest.mark.gpu, pytest.mark.skipif(not _has_gpu(), reason="no GPU with CuPy here")]

# -------------------------------------------------------------------------------------------------- without a GPU


def test_import_brings_in_no_gpu_package() -> None:
    program = (
        "import sys, gpu_ref, gpu_ref.__main__; print([m for m in sys.modules if m in ('cupy', 'torch', 'pynvml')])"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert answer.stdout.strip() == "[]"


def test_missing_cupy_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(gpu_ref.GpuUnavailable, match="pip install cupy-cuda13x"):
        gpu_ref.launch(".version 9.0\n", "k", (1, 1, 1), (1, 1, 1), [])
    assert issubclass(gpu_ref.GpuUnavailable, TcsimError)


def test_missing_device_is_explained(fake_gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_GPU_COUNT", "0")
    with pytest.raises(gpu_ref.GpuUnavailable, match="no CUDA device"):
        require_cupy()


def test_command_line_without_a_gpu(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert main(["record", str(ROOT / "traces" / "suite.toml"), "--out", "unused"]) == 2
    assert "needs CuPy" in capsys.readouterr().err


@pytest.mark.skipif(find_ptxas() is None, reason="ptxas is not installed")
def test_ptxas_errors_are_shown(tmp_path: Path) -> None:
    (tmp_path / "k.ptx").write_text(".version 9.0\n.target sm_80\n.address_size 64\nnonsense\n")
    with pytest.raises(gpu_ref.AssemblerError, match=r"ptxas refuses k\.ptx for sm_90"):
        assemble(tmp_path / "k.ptx", tmp_path / "k.cubin", "sm_90")


# ------------------------------------------------------------------------------------------------ a fake GPU

SUITE = """
[good]
ptx = "kernels/k.ptx"
entry = "double"
grid = [1]
block = [32]
shared_mem = 65536
[good.arguments]
x = "f32[4,5]:normal"
y = "out f32[4,5]"
n = "i32:20"

[unstable]
ptx = "kernels/k.ptx"
grid = [1]
block = [32]
[unstable.arguments]
x = "f32[4]:normal"
y = "out f32[4]"
n = "i32:4"

[partial]
ptx = "kernels/k.ptx"
entry = "double"
grid = [1]
block = [32]
[partial.arguments]
x = "f32[4]:normal"
y = "out f32[4]"
n = "i32:3"

[partial_inout]
ptx = "kernels/k.ptx"
entry = "double"
grid = [1]
block = [32]
[partial_inout.arguments]
x = "f32[4]:normal"
y = "inout f32[4]:normal"
n = "i32:3"

[die]
ptx = "kernels/k.ptx"
grid = [1]
block = [32]
[die.arguments]
x = "f32[4]:normal"
y = "out f32[4]"
n = "i32:4"

[fault]
ptx = "kernels/k.ptx"
grid = [1]
block = [32]
[fault.arguments]
x = "f32[4]:normal"
y = "out f32[4]"
n = "i32:4"

[last]
ptx = "kernels/k.ptx"
entry = "double"
grid = [1]
block = [32]
[last.arguments]
x = "f32[4]:normal"
y = "out f32[4]"
n = "i32:4"
"""


PTX = ".version 8.0\n.target sm_80\n.address_size 64\n" + "".join(
    f".visible .entry {name}() {{ ret; }}\n" for name in ("double", "unstable", "die", "fault")
)
"""Valid, so that a ptxas that is installed assembles it; what the kernels do is in the fake CuPy."""


@pytest.fixture
def fake_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine with the fake CuPy, here and in child processes, and without ncu."""
    monkeypatch.syspath_prepend(str(FAKE))
    monkeypatch.setitem(sys.modules, "cupy", None)  # so that what is imported now is forgotten behind the test
    del sys.modules["cupy"]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(FAKE), str(ROOT)]))
    monkeypatch.setattr("gpu_ref.recording.find_ncu", lambda: None)
    monkeypatch.setattr("gpu_ref.suites.find_ncu", lambda: None)
    monkeypatch.setenv("FAKE_NCU_LOG", str(tmp_path / "ncu.log"))


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    (tmp_path / "in" / "kernels").mkdir(parents=True)
    (tmp_path / "in" / "kernels" / "k.ptx").write_text(PTX)
    (tmp_path / "in" / "suite.toml").write_text(SUITE)
    return tmp_path / "in" / "suite.toml"


def test_launch_returns_every_array(fake_gpu: None) -> None:
    x, y = np.arange(6, dtype=np.float32), np.zeros(6, np.float32)
    result = gpu_ref.launch("// double\n", "double", (1, 1, 1), (32, 1, 1), [x, y, np.int32(4)])
    assert result.arrays[0].tolist() == x.tolist() and result.arrays[1].tolist() == [0, 2, 4, 6, 0, 0]
    assert not y.any() and result.assembler == "driver" and result.resources["registers"] == 24


def test_launch_errors(fake_gpu: None) -> None:
    x = np.zeros(1, np.float32)
    with pytest.raises(gpu_ref.LaunchError, match="cannot load kernel 'other'"):
        gpu_ref.launch("// double\n", "other", (1, 1, 1), (1, 1, 1), [])
    with pytest.raises(gpu_ref.LaunchError, match="illegal memory access"):
        gpu_ref.launch("// fault\n", "fault", (1, 1, 1), (1, 1, 1), [x, x, np.int32(1)])
    with pytest.raises(gpu_ref.LaunchError, match="needs assembler"):
        gpu_ref.launch("// double\n", "double", (1, 1, 1), (1, 1, 1), [], fmad=False)


def test_record_and_compare(fake_gpu: None, suite: Path, tmp_path: Path) -> None:
    good = load_suite(suite)[0]
    recorded = gpu_ref.record(good, tmp_path / "out", metrics=False)
    loaded = load_bundle(tmp_path / "out" / "good")
    assert loaded.outputs["y"].raw == (2 * good.arguments[0].array()).tobytes() == recorded.outputs["y"].raw
    assert loaded.ptx_text() == good.ptx_text() and loaded.device == "h200"
    assert loaded.provenance["gpu"] == "NVIDIA H200" and loaded.provenance["registers"] == 24
    assert loaded.provenance["cuda_runtime"] == "13.2"
    assert bool(loaded.listings) == bool(find_ptxas() and find_nvdisasm())
    assert all(path.is_file() for path in loaded.listing_paths)
    assert find_ptxas() is None or "identical when assembled by ptxas" in loaded.provenance["cross_check"]
    assert [c.equal for c in gpu_ref.compare(tmp_path / "out" / "good")] == [True]
    assert main(["verify", str(tmp_path / "out" / "good")]) == 0


def test_verify_reports_a_mismatch(
    fake_gpu: None, suite: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu_ref.record(load_suite(suite)[0], tmp_path / "out", metrics=False)
    cupy = require_cupy()
    monkeypatch.setitem(cupy._KERNELS, "double", lambda x, y, n: y.set(3 * x.host))
    assert main(["verify", str(tmp_path / "out" / "good")]) == 1
    assert "20 of 20 elements differ" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["unstable", "partial"])
def test_unfit_launches_are_refused(fake_gpu: None, suite: Path, tmp_path: Path, name: str) -> None:
    (launch,) = [bundle for bundle in load_suite(suite) if bundle.name == name]
    with pytest.raises(gpu_ref.RecordingError, match="declare it inout"):
        gpu_ref.record(launch, tmp_path / "out", metrics=False)


def test_a_suite_survives_its_worst_kernels(fake_gpu: None, suite: Path, tmp_path: Path) -> None:
    archive = tmp_path / "all.tar.gz"
    failures = gpu_ref.record_suite(suite, tmp_path / "out", metrics=False, archive=archive)
    assert [failure.partition(":")[0] for failure in failures] == ["unstable", "partial", "die", "fault"]
    assert "exit code 7" in failures[2] and "illegal memory access" in failures[3]
    with tarfile.open(archive) as tar:
        names = {name.partition("/")[0] for name in tar.getnames()}
    assert names == {"good", "partial_inout", "last", "kernels"}


def test_hopeless_suites_are_given_up(
    fake_gpu: None, suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpu_ref.suites.MAX_USELESS", 1)
    failures = gpu_ref.record_suite(suite, tmp_path / "out", names=["die", "last"], metrics=False)
    assert "exit code 7" in failures[0] and "not tried" in failures[1]


def test_unknown_names_are_refused(fake_gpu: None, suite: Path, tmp_path: Path) -> None:
    with pytest.raises(TcsimError, match="has no launch 'gone'; it has die, fault, good"):
        gpu_ref.record_suite(suite, tmp_path / "out", names=["gone"])


def test_metrics_are_matched_by_launch_order(
    fake_gpu: None, suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpu_ref.recording.find_ncu", lambda: str(FAKE / "ncu"))
    monkeypatch.setattr("gpu_ref.suites.find_ncu", lambda: str(FAKE / "ncu"))
    failures = gpu_ref.record_suite(suite, tmp_path / "out", names=["good", "last"])
    assert failures == []
    for name in ("good", "last"):
        bundle = load_bundle(tmp_path / "out" / name)
        assert bundle.metrics["sm__cycles_elapsed.max"] == Metric(1003112, "cycle")
        assert "gpu__time_duration.sum" not in bundle.metrics  # "n/a" is no number
        assert "dram__bytes_read.sum" not in bundle.metrics  # not in ncu's list
        assert "launch__registers_per_thread" in bundle.metrics  # ncu's own
        assert "launch__waves_per_multiprocessor" not in bundle.metrics  # turned down
        assert bundle.provenance["ncu"] == "2025.3.1.0" and bundle.provenance["sm_clock_hz"] == 1003112


# ------------------------------------------------------------------------------------------------ ncu's answers


def test_raw_csv() -> None:
    output = """==PROF== Profiling "k" - 0: 0%....50%....100% - 3 passes
hello from the program
"ID","Process Name","Kernel Name","CC","sm__cycles_elapsed.max","l1tex__t_sector_hit_rate.pct","launch__func"
"","","","","cycle","%",""
"0","python3","void k<int, 3>(T1 *, int)","9.0","1,234","12.5","x"
"1","python3","other","9.0","7","n/a",""
==PROF== Disconnected
"""
    first, second = parse_raw_csv(output)
    assert first.kernel == "void k<int, 3>" and second.kernel == "other"
    assert first.metrics == {
        "sm__cycles_elapsed.max": Metric(1234, "cycle"),
        "l1tex__t_sector_hit_rate.pct": Metric(12.5, "%"),
    }
    assert second.metrics == {"sm__cycles_elapsed.max": Metric(7, "cycle")}
    assert parse_raw_csv("==ERROR== The application returned an error code (1).\n") == []


def test_metric_selection() -> None:
    wanted = ["a__b.sum", "a__c.avg.per_second", "launch__registers_per_thread"]
    assert select_known(wanted, "Metric Name\na__b   Counter\n") == ["a__b.sum", "launch__registers_per_thread"]
    assert select_known(wanted, "==ERROR== no GPU\n") == wanted
    assert refused_metrics("==ERROR== Failed to find metric a__c.avg.per_second\nok a__b\n", wanted) == {
        "a__c.avg.per_second"
    }


def test_metric_names_are_distinct_and_complete() -> None:
    assert len(set(METRICS)) == len(METRICS)
    stalls = [name for name in METRICS if "issue_stalled" in name]
    assert len(stalls) == 2 * len(STALL_REASONS) == 38


# --------------------------------------------------------------------------------------------- with a GPU


class TestOnGpu:
    pytestmark = on_gpu

    def test_vector_add(self) -> None:
        a, b = (np.random.default_rng(seed).normal(size=1000).astype(np.float32) for seed in (1, 2))
        ptx = ROOT / "traces" / "kernels" / "vector_add.ptx"
        result = gpu_ref.launch(ptx, "vector_add", (4, 1, 1), (256, 1, 1), [a, b, np.zeros_like(a), np.int32(1000)])
        assert np.array_equal(result.arrays[2], a + b)

    @pytest.mark.parametrize("name", ["vector_add", "softmax_rows", "gemm_f16_small", "locks"])
    def test_recorded_bundles_repeat(self, name: str) -> None:
        if not (ROOT / "traces" / name).is_dir():
            pytest.skip("not recorded")
        assert all(comparison.equal for comparison in gpu_ref.compare(ROOT / "traces" / name))
