"""Every scalar form that sm_90 has, against hashes of an H200's results, and the commands that record and check them.

The default run takes forms whose kernels other tests compile too; ``TCSIM_ALL_FORMS=1`` takes all 5,869 (half an hour).
"""

from __future__ import annotations

import argparse
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from gpu_ref import fuzz as fuzz_command
from gpu_ref.scalar import digests, fuzz, sweep
from gpu_ref.scalar.every import FORMS, Words, kernels_ptx, key_of, operand_columns, run_model
from isa.errors import TcsimError
from isa.spec import Form
from tests.reference.ptxas import PTXAS
from tests.test_instructions_registry import BASES, chosen_forms

EVERY = Path(__file__).parents[1] / "traces" / "scalar" / "every.npz"
STORED = digests.read(EVERY)


def chosen() -> list[str]:
    if os.environ.get("TCSIM_ALL_FORMS"):
        return list(STORED)
    forms = [form for base in BASES for form in chosen_forms(base)]
    return [key for form in forms if (key := key_of(form)) in STORED][::3]


def test_every_form_was_recorded() -> None:
    assert set(STORED) == set(FORMS)
    assert len(STORED) > 5800


@pytest.mark.parametrize("key", chosen())
def test_results_equal_the_hardware(key: str) -> None:
    assert digests.digest_of_model(key) == STORED[key]


@pytest.mark.parametrize("name", ["div.full.f32 under 7f000001", "rsqrt.approx.ftz.f64", "sqrt.rm.ftz.f32", "tanh.approx.bf16",
                                  "cvt.rn.satfinite.e5m2x2.f16x2", "rcp.rp.f32"])  # fmt: skip
def test_a_block_of_every_operand(name: str) -> None:
    stored = sweep._stored(sweep.FOLDERS)
    one = next(s for s in sweep.SWEEPS if s.name == name)
    block = sum(name.encode()) % 256
    assert sweep.block_hash(one, block) == tuple(int(x) for x in stored[name][block])


def test_every_sweep_was_recorded() -> None:
    stored = sweep._stored(sweep.FOLDERS)
    assert {s.name for s in sweep.SWEEPS} == set(stored)
    assert all(f"{one.opcode} d, a;" in sweep.source() for one in sweep.MORE)


def test_a_wrong_hash_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = next(s for s in sweep.SWEEPS if s.name == "ex2.approx.ftz.f32")
    hashes = np.zeros((256, 2), np.uint64)
    np.savez(tmp_path / "hashes.npz", **{one.name: hashes})  # type: ignore[arg-type]
    parser = argparse.ArgumentParser()
    sweep.add_arguments(parser)
    report = tmp_path / "report.json"
    options = ["--hashes", str(tmp_path), "--only", "ex2.approx.ftz.f32", "--blocks", "1", "--report", str(report)]
    assert sweep.run(parser.parse_args(options)) == 1
    assert "0 of 1 blocks agree; first wrong" in capsys.readouterr().out
    assert '"wrong"' in report.read_text()
    with pytest.raises(TcsimError, match="they are called like"):
        sweep.run(parser.parse_args(["--only", "nosuch"]))


# --------------------------------------------------------------------------------------------------------------- fuzzing


def test_fuzzing_shows_the_simplest_mismatch(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A "GPU" that returns the larger of two infinities as NaN."""
    key = next(key for key, form in FORMS.items() if form.name == "max.f32")

    def run(handle: Form, columns: list[Words], results: int) -> list[Words]:
        (expected,) = run_model(handle, columns)
        return [np.where(expected == 0x7F800000, np.uint64(0x7FFFFFFF), expected)]

    monkeypatch.setattr(fuzz, "load_all", lambda keys: {one: FORMS[one] for one in keys})
    monkeypatch.setattr(fuzz, "run_on_gpu", run)
    tally = fuzz.fuzz([key], 0.0, 1, 1, rounds=1)
    assert tally.wrong[key] > 0 and "mismatches" in tally.table()
    shown = capsys.readouterr().out
    assert "max.f32" in shown and "GPU    d = 7FFFFFFF=NaN" in shown and "tcsim  d = 7F800000=Inf" in shown


def test_forms_are_found_by_opcode_or_by_part() -> None:
    assert [FORMS[key].name for key in fuzz.matching(["max.f32"])] == ["max.f32"]
    assert len(fuzz.matching(["setp.lt"])) > 20
    assert len(fuzz.matching([])) == len(FORMS)
    parser = argparse.ArgumentParser()
    fuzz_command.add_arguments(parser)
    with pytest.raises(TcsimError, match="spelled like"):
        fuzz_command.run(parser.parse_args(["--form", "nosuch"]))


def test_every_form_has_operands() -> None:
    for key in list(FORMS)[::97]:
        columns = operand_columns(FORMS[key], 1, 256)
        assert len(columns) == sum(o.name != "lut" for o in FORMS[key].sources)


@pytest.mark.skipif(PTXAS is None, reason="ptxas is not on the PATH")
def test_ptxas_takes_the_kernels(tmp_path: Path) -> None:
    (tmp_path / "k.ptx").write_text(kernels_ptx([FORMS[key] for key in list(FORMS)[::37]]))
    command = [str(PTXAS), "-arch", "sm_90", "-o", str(tmp_path / "k.cubin"), str(tmp_path / "k.ptx")]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
