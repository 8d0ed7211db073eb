"""The command line, typed as a user types it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tcsim.cli import main

ROOT = Path(__file__).parents[1]
TRACES = ROOT / "traces"
KERNELS = TRACES / "kernels"


def type_in(*words: str) -> subprocess.CompletedProcess[str]:
    """Run ``tcsim`` in a process of its own."""
    environment = dict(os.environ, PYTHONPATH=str(ROOT))
    return subprocess.run(
        [sys.executable, "-m", "tcsim", *words], capture_output=True, text=True, env=environment, cwd=ROOT, check=False
    )


def test_run_a_bundle() -> None:
    done = type_in("run", "traces/vector_add")
    assert done.returncode == 0, done.stderr
    assert "vector_add on h200: done" in done.stdout
    assert "c f32[100003]  sha256 " in done.stdout
    assert done.stderr == ""  # no progress when not on a terminal


def test_verify_says_every_byte(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(TRACES / "vector_add"), str(TRACES / "reduce_sum_s32")]) == 0
    assert capsys.readouterr().out.count("every byte equals the hardware's") >= 2


def test_verify_takes_folders_of_bundles_and_passes_over_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "all").mkdir()
    (tmp_path / "all" / "vector_add").symlink_to(TRACES / "vector_add")
    (tmp_path / "all" / "kernels").symlink_to(TRACES / "kernels")
    (tmp_path / "empty").mkdir()
    assert main(["verify", str(tmp_path / "all"), str(tmp_path / "empty")]) == 0
    shown = capsys.readouterr()
    assert shown.out.count("every byte equals the hardware's") == 1
    assert "empty: no bundle here, passed over" in shown.err


def test_verify_finds_a_difference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A bundle whose recorded output has one bit changed: exit code 1 and the place."""
    source = TRACES / "vector_add_bits"
    (tmp_path / "b").mkdir()
    text = (source / "bundle.json").read_text().replace("../kernels/", f"{KERNELS}/")
    arrays = dict(np.load(source / "outputs.npz"))
    (key,) = (name for name, array in arrays.items() if array.nbytes == 4096 * 4)
    changed = arrays[key].copy()
    changed.view(np.uint8).reshape(-1)[4 * 17] ^= 1
    arrays[key] = changed
    described = json.loads(text)
    import hashlib

    described["outputs"]["c"]["sha256"] = hashlib.sha256(changed.tobytes()).hexdigest()
    (tmp_path / "b" / "bundle.json").write_text(json.dumps(described))
    np.savez_compressed(tmp_path / "b" / "outputs.npz", **arrays)
    assert main(["verify", str(tmp_path / "b")]) == 1
    assert "1 of 4096 elements differ (1 bytes); first at [17]" in capsys.readouterr().out


def test_run_a_file_with_arguments_in_the_kernels_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.npz"
    words = ["run", str(KERNELS / "vector_add.ptx"), "--kernel", "vector_add", "--grid", "4", "--block", "256"]
    words += ["--arg", "f32[1000]:normal", "--arg=f32[1000]:const(2)", "--out", "f32[1000]", "-a", "i32:1000"]
    assert main([*words, "--save", str(out)]) == 0
    assert "arg2 f32[1000]" in capsys.readouterr().out
    from tcsim.bundle import parse_argument

    first = parse_argument("f32[1000]:normal", 0).array()
    np.testing.assert_array_equal(np.load(out)["arg2"], first + np.float32(2))


def test_profile(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", str(TRACES / "vector_add")]) == 0
    text = capsys.readouterr().out
    for title in (
        "GPU Speed Of Light Throughput",
        "Warp State Statistics",
        "Launch Statistics",
        "Occupancy",
        "Source Counters",
    ):
        assert f"Section: {title}" in text
    assert "Beside the hardware" in text and "sm__cycles_elapsed.max" in text


def test_profile_as_json_and_csv(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", str(TRACES / "vector_add"), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["schema"] == 1
    (launch,) = data["launches"]
    assert launch["metrics"]["sm__cycles_elapsed.max"] == launch["cycles"]
    assert sum(launch["stalls"].values()) == launch["warp_cycles"]
    assert main(["profile", str(TRACES / "vector_add"), "--csv"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith('"ID","Process ID","Process Name","Host Name","Kernel Name"')
    assert any('"Elapsed Cycles","cycle"' in line for line in lines)


def test_profile_on_another_device_and_only_a_section(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", str(TRACES / "vector_add"), "--device", "a100", "--section", "LaunchStats"]) == 0
    text = capsys.readouterr().out
    assert "A100" in text and "Section: Launch Statistics" in text and "Speed Of Light" not in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "nothing"], "nothing: no such file or bundle"),
        (["run", "k.ptx"], "k.ptx: no such file"),
        (["verify", "traces/kernels"], "there is no bundle at traces/kernels"),
        (["run", "traces/kernels/vector_add.ptx", "--grid", "1"], "needs --block"),
        (["run", "traces/kernels/vector_add.ptx", "-g", "1", "-b", "x"], "one to three numbers"),
        (
            ["run", "traces/kernels/vector_add.ptx", "-g", "1", "-b", "32"],
            "2 kernels; choose one with --kernel: vector_add, saxpy",
        ),
        (["run", "traces/kernels/vector_add.ptx", "-k", "vector_add", "-g", "1", "-b", "32", "-a", "f31[4]:normal"], "f31"),
        (["run", "traces/kernels/vector_add.ptx", "-k", "saxpy", "-g", "1", "-b", "32"], "takes 4 arguments"),
        (["run", "traces/vector_add", "--device", "h9"], "unknown device 'h9'"),
        (["run", "traces/vector_add", "--grid", "3"], "says its own launch"),
        (["profile", "traces/vector_add", "--section", "Nothing"], "one of SpeedOfLight"),
        (["profile", "traces/vector_add", "--device", "b200"], "b200"),
        (["isa", "show", "frobnicate"], "unknown instruction 'frobnicate'"),
        (["isa", "list", "frobnicate"], "no instruction form contains"),
        (["arch", "show", "gtx1080"], "unknown device"),
        (["record", "traces/vector_add", "--to", "somewhere"], "CuPy"),
        (["run", "traces/vector_add", "--save", "nowhere/x.npz"], "--save nowhere/x.npz: there is no folder nowhere"),
        (["profile", "traces/vector_add", "--html", "traces"], "--html traces: this is a folder"),
        (["profile", "traces/vector_add", "--svg", "README.md"], "--svg README.md: this is a file"),
        (["profile", "traces/vector_add", "--timeline", "x.pftrace"], "pip install 'tcsim[perfetto]'"),
        (["compare", "traces/vector_add", "traces/vector_add", "--plot", "nowhere/x.svg"], "there is no folder nowhere"),
    ],
)
def test_a_users_mistake_is_one_message_and_exit_code_2(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setitem(sys.modules, "cupy", None)  # on a machine with a GPU, too
    monkeypatch.setattr("tcsim.cli.outputs.find_spec", lambda module: None)  # and with all extras
    assert main(words) == 2
    told = capsys.readouterr()
    assert message in told.err
    assert told.err.startswith("tcsim: ") and "Traceback" not in told.err


def test_a_timeline_of_nothing_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("perfetto")
    words = ["profile", str(TRACES / "vector_add_bits"), "--sm", "500", "--timeline", str(tmp_path / "x.pftrace")]
    assert main(words) == 2
    assert "--sm, --cta and --cycles leave nothing" in capsys.readouterr().err


def test_usage_errors(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run"]) == 2
    assert main(["run", "x", "--no-such-option"]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_isa_and_arch(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["isa", "list", "mma.sync"]) == 0
    assert "mma.sync.aligned" in capsys.readouterr().out
    assert main(["isa", "show", "shfl.sync.bfly.b32"]) == 0
    assert "PTX ISA 9.7.9.6" in capsys.readouterr().out
    assert main(["arch", "list"]) == 0
    listed = capsys.readouterr().out
    assert "h200" in listed and "NVIDIA A100" in listed
    assert main(["arch", "show", "sm_80"]) == 0
    shown = capsys.readouterr().out
    assert "name = a100" in shown and shown.count("source: ") >= 2
