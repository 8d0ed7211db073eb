"""``python -m gpu_ref correlate --measure`` on a fake GPU (``tests/fake_gpu``): archives, repeats, launches that trap."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from gpu_ref.__main__ import main
from gpu_ref.correlation.archives import opened, pack, read, recorded, suite_launches, values, write
from gpu_ref.correlation.measure import measure
from gpu_ref.metrics import REPEATED
from isa.errors import TcsimError
from tcsim.bundle.tensor_maps import MapOf

FAKE = Path(__file__).parent / "fake_gpu"
ROOT = FAKE.parents[1]
PTX = ".version 8.0\n.target sm_80\n.address_size 64\n" + "".join(
    f".visible .entry {name}(.param .u64 x, .param .u64 y, .param .u32 n) {{ ret; }}\n" for name in ("double", "fault")
)
TABLE = """
[{name}]
ptx = "k.ptx"
entry = "{entry}"
grid = [1]
block = [32]
[{name}.arguments]
x = "f32[4]:normal@3"
y = "out f32[4]"
n = "i32:4"
"""


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    suite = tmp_path / "suite.toml"
    names = {"a": "double", "b": "fault"}
    suite.write_text("".join(TABLE.format(name=name, entry=entry) for name, entry in names.items()))
    (tmp_path / "in" / "ptx").mkdir(parents=True)
    (tmp_path / "in" / "ptx" / "k.ptx").write_text(PTX)
    write(tmp_path / "in", {}, suite_launches(suite))
    pack(tmp_path / "in", tmp_path / "suite.tar.xz")
    return tmp_path / "suite.tar.xz"


@pytest.fixture
def fake_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(FAKE))
    monkeypatch.setitem(sys.modules, "cupy", None)  # so that what is imported now is forgotten behind the test
    del sys.modules["cupy"]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(FAKE), str(ROOT)]))
    monkeypatch.setattr("gpu_ref.correlation.measure.find_ncu", lambda: str(FAKE / "ncu"))
    monkeypatch.setenv("FAKE_NCU_LOG", str(tmp_path / "ncu.log"))


def test_one_command_measures_times_and_compares(
    fake_gpu: None, archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "table.md"
    options = ["--measure", str(archive), "--repeats", "3", "--keep", str(tmp_path / "kept"), "--out", str(table)]
    assert main(["correlate", *options]) == 1  # one launch traps; the others are counted
    assert "FAILED b: " in (errors := capsys.readouterr().err) and "illegal memory access" in errors
    with opened(tmp_path / "kept" / archive.name) as folder:
        provenance, launches = read(folder)
        assert not (folder / "cubin").exists()
    assert provenance["gpu"] == "NVIDIA H200" and provenance["ncu"] == "2025.3.1.0"
    assert launches["a"]["metrics"]["sm__cycles_elapsed.max"] == 1_003_112
    assert launches["a"]["repeats"]["sm__cycles_elapsed.max"] == [1_003_112] * 4  # the first run's among them
    assert set(launches["a"]["repeats"]) <= set(REPEATED) and "metrics" not in launches["b"]
    assert "| a | held out: suite |" in table.read_text() and "| 1,003,112 |" in table.read_text()


def test_more_runs_of_some_launches_leave_the_rest_alone(fake_gpu: None, archive: Path) -> None:
    with opened(archive) as folder:
        measure(folder, names=["a"], repeats=2, full=False)
        provenance, launches = read(folder)
        assert launches["a"]["repeats"]["sm__cycles_elapsed.max"] == [1_003_112] * 2 and "repeats" not in launches["b"]
        assert provenance["more"]["gpu"] == "NVIDIA H200"
        assert measure(folder, seconds=1e-9).failed.keys() == launches.keys()
        with pytest.raises(TcsimError, match="no launch x in this archive; it has a, b"):
            measure(folder, names=["x"])


def test_what_was_counted_several_times_is_compared_by_its_median() -> None:
    launch = {"metrics": {"one": 1, "two": 9}, "repeats": {"two": [9, 2, 4]}}
    assert recorded(launch) == {"one": 1, "two": 4}
    assert recorded({}) == {}


def test_arguments_may_be_maps_of_tensors(tmp_path: Path) -> None:
    suite = tmp_path / "suite.toml"
    suite.write_text(TABLE.format(name="a", entry="double").replace("\nx = ", '\nmap = "tensor_map(x,box=4)"\nx = '))
    assert "cluster" not in suite_launches(suite)["a"]
    described = values(suite_launches(suite)["a"])[0]
    assert isinstance(described, MapOf) and described.position == 1 and described.tensor.dims == described.tensor.box == (4,)


def test_the_same_contents_pack_to_the_same_bytes(archive: Path, tmp_path: Path) -> None:
    pack(tmp_path / "in", tmp_path / "again.tar.xz")
    assert (tmp_path / "again.tar.xz").read_bytes() == archive.read_bytes()


@pytest.mark.parametrize("name", ["fresh", "held_out"])
def test_an_archive_holds_the_suite_and_sources_of_the_repository(name: str) -> None:
    cycles = ROOT / "traces" / "cycles"
    with opened(ROOT / "traces" / f"{name}.tar.xz") as folder:
        provenance, launches = read(folder)
        suite = suite_launches(cycles / f"{name}.toml")
        assert {name: {key: launches[name][key] for key in each} for name, each in suite.items()} == suite
        wanted = {launch["ptx"] for launch in suite.values()}
        sources = {path.name for path in (folder / "source").iterdir()}
        assert sources >= {f"{name}.toml", *(each.replace(".ptx", ".cu") for each in wanted if each.count(".") == 1)}
        for source in sources:
            assert (folder / "source" / source).read_text() == (cycles / source).read_text(), source
        assert wanted == {path.name for path in (folder / "ptx").iterdir()}
    assert len(launches) >= 100 and provenance["gpu"] == "NVIDIA H200"
    assert all(len(launch["repeats"]["sm__cycles_elapsed.max"]) >= 3 for launch in launches.values())
    assert all(launch["metrics"].get("smsp__inst_executed.sum") for launch in launches.values())
