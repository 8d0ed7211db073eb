"""Every matrix instruction against an H200: each recorded register, and digests of ten times as many, bit for bit.

The recording is made by ``python -m gpu_ref.tensor.record``; operands are made anew from its seed.
"""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from numpy.typing import NDArray

from gpu_ref.tensor import fuzz, record
from gpu_ref.tensor.explain import differing, explain, find_dot
from gpu_ref.tensor.inputs import FORMS, VERSION, Operands, Registers, SparseOperands, classes, operands
from gpu_ref.tensor.record import DIGESTED_WARPS, SEED, UNDEFINED_WARPS, digest, recorded_warps, undefined_operands
from gpu_ref.tensor.replay import replay
from gpu_ref.tensor.shrink import Place, shrink
from gpu_ref.tensor.sparse_inputs import variant
from isa.tensor import MMA_FORMS, RULES, SPARSE_FORMS, WMMA_FORMS, MmaForm, find_rule, make_plan, plans
from isa.tensor.metadata import codes_of

FOLDER = Path(__file__).resolve().parents[1] / "traces" / "vectors"
SM = 90


@cache
def recording(name: str) -> dict[str, NDArray[np.unsignedinteger]]:
    with np.load(FOLDER / f"{name}.npz") as arrays:
        return dict(arrays)


def test_the_recording_is_of_these_forms_and_operands() -> None:
    provenance = json.loads((FOLDER / "provenance.json").read_text())
    assert (provenance["compute_capability"], provenance["seed"], provenance["operands"]) == ("9.0", SEED, VERSION)
    assert "H200" in provenance["gpu"]
    recorded = {*recording("mma"), *recording("mma.sp"), *recording("wmma")}
    assert recorded == {*recording("digests")} == {str(form) for form in FORMS}
    assert len(FORMS) == len(MMA_FORMS) + len(SPARSE_FORMS) + len(WMMA_FORMS) == 188
    assert {*recording("undefined")} == {str(form) for form in SPARSE_FORMS}


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_registers(form: MmaForm) -> None:
    """Batch 0, stored whole: 64 warps or more. A word that differs is shown as the dot product that it is."""
    recorded = recording(form.instruction)[str(form)]
    assert len(recorded) == len(classes(form))
    assert recorded.shape[0] * recorded.shape[1] >= 64
    for case, got in zip(classes(form), recorded, strict=True):
        inputs = operands(form, case, SEED, 0, recorded_warps(form))
        expected = replay(make_plan(form, SM), inputs)
        if np.array_equal(got, expected):
            continue
        warp, register, lane = np.argwhere(got != expected)[0].tolist()
        upper = int(form.d == "f16" and (int(got[warp, register, lane]) ^ int(expected[warp, register, lane])) & 0xFFFF == 0)
        dots = [find_dot(form, inputs, d, warp, register, lane, upper) for d in (got, expected)]
        pytest.fail(
            f"{differing(form, got, expected)} outputs of class {case} differ: {explain(form, SM, dots[0], dots[1].got)}"
        )


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_digests(form: MmaForm) -> None:
    """Batch 1, of which a hash for each class is stored."""
    got = [digest(replay(make_plan(form, SM), operands(form, case, SEED, 1, DIGESTED_WARPS))) for case in classes(form)]
    assert dict(zip(classes(form), got, strict=True)) == dict(
        zip(classes(form), recording("digests")[str(form)].tolist(), strict=True)
    )


@pytest.mark.parametrize("form", SPARSE_FORMS, ids=str)
def test_metadata_without_a_meaning(form: MmaForm) -> None:
    """Every bit of the metadata random: each code chooses for itself, ordered or not."""
    inputs = undefined_operands(form)
    recorded = recording("undefined")[str(form)]
    assert len(recorded) == UNDEFINED_WARPS
    np.testing.assert_array_equal(replay(make_plan(form, SM), inputs), recorded)
    codes = np.stack([codes_of(form, e[0], variant(form, warp).selector) for warp, e in enumerate(inputs.e)])
    assert set((codes[..., ::2] | codes[..., 1::2] << 2).ravel().tolist()) == set(range(16))


def test_a_row_that_is_said_to_be_verified_by_this_recording_is() -> None:
    """Each sm_90 row of the rule table that ``mma``, ``mma.sp`` and ``wmma`` use is marked so, and its source is the H200."""
    used = {make_plan(form, SM).rule for form in FORMS}
    assert {(rule.status, "H200" in rule.source) for rule in used} == {("verified", True)}
    others = {rule for rule in RULES.values() if rule.sm == SM} - used
    assert {rule.instruction for rule in others} == {"wgmma", "wgmma.sp"}  # test_wgmma_hardware.py


@pytest.mark.parametrize(
    ("form", "change"),
    [
        ("mma.sync.m16n8k16.row.col.f32.f16.f16.f32", {"fraction_bits": 24}),
        ("mma.sync.m16n8k16.row.col.f32.f16.f16.f32", {"fraction_bits": 26}),
        ("mma.sync.m16n8k16.row.col.f16.f16.f16.f16", {"fraction_bits": 24}),
        ("mma.sync.m16n8k16.row.col.f16.f16.f16.f16", {"fraction_bits": 26}),
        ("mma.sync.m16n8k16.row.col.f32.bf16.bf16.f32", {"emax_floor": -132}),
        ("mma.sync.m16n8k16.row.col.f32.bf16.bf16.f32", {"emax_floor": -134}),
        ("mma.sync.m16n8k16.row.col.f16.f16.f16.f16", {"emax_floor": -20}),
        ("mma.sync.m16n8k16.row.col.f16.f16.f16.f16", {"emax_floor": -22}),
        ("mma.sync.m16n8k8.row.col.f32.tf32.tf32.f32", {"emax_floor": -132}),
        ("mma.sync.m16n8k8.row.col.f32.tf32.tf32.f32", {"emax_floor": -134}),
        ("mma.sync.m16n8k32.row.col.f32.e4m3.e4m3.f32", {"fraction_bits": 24}),
        ("mma.sync.m16n8k32.row.col.f32.e4m3.e4m3.f32", {"fraction_bits": 26}),
        ("mma.sync.m16n8k32.row.col.f16.e5m2.e5m2.f16", {"fraction_bits": 24}),
        ("mma.sync.m16n8k32.row.col.f16.e5m2.e5m2.f16", {"fraction_bits": 26}),
        ("mma.sync.m16n8k16.row.col.f32.bf16.bf16.f32", {"products": 8}),
        ("mma.sync.m16n8k16.row.col.f16.f16.f16.f16", {"products": 8}),
        ("mma.sync.m16n8k8.row.col.f32.tf32.tf32.f32", {"products": 4}),
        ("wmma.sync.m16n16k8.row.col.f32.tf32.tf32.f32", {"products": 8}),
        ("mma.sp.sync.m16n8k16.row.col.f32.f16.f16.f32", {"products": 4}),
        ("mma.sp.sync.m16n8k32.row.col.f32.f16.f16.f32", {"products": 8}),
        ("mma.sp.sync.m16n8k32.row.col.f16.f16.f16.f16", {"products": 8}),
        ("mma.sp.sync.m16n8k16.row.col.f32.tf32.tf32.f32", {"products": 4}),
        ("mma.sp.sync.m16n8k32.row.col.f32.f16.f16.f32", {"fraction_bits": 24}),
        ("mma.sp.sync.m16n8k32.row.col.f32.f16.f16.f32", {"fraction_bits": 26}),
        ("mma.sp.sync.m16n8k16.row.col.f16.f16.f16.f16", {"fraction_bits": 24}),
        ("mma.sp.sync.m16n8k16.row.col.f16.f16.f16.f16", {"fraction_bits": 26}),
        ("mma.sp.sync.m16n8k64.row.col.f32.e5m2.e4m3.f32", {"fraction_bits": 24}),
        ("mma.sp.sync.m16n8k64.row.col.f32.e5m2.e4m3.f32", {"fraction_bits": 26}),
        ("mma.sp.sync.m16n8k16.row.col.f16.f16.f16.f16", {"emax_floor": -20}),
        ("mma.sp.sync.m16n8k16.row.col.f16.f16.f16.f16", {"emax_floor": -22}),
        ("mma.sp.sync.m16n8k32.row.col.f32.bf16.bf16.f32", {"emax_floor": -132}),
        ("mma.sp.sync.m16n8k32.row.col.f32.bf16.bf16.f32", {"emax_floor": -134}),
        ("mma.sp.sync.m16n8k16.row.col.f32.tf32.tf32.f32", {"emax_floor": -132}),
        ("mma.sp.sync.m16n8k16.row.col.f32.tf32.tf32.f32", {"emax_floor": -134}),
    ],
)
def test_the_recording_tells_neighbouring_rules_apart(
    form: str, change: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one number of the rule changed, the recording is not reproduced."""
    chosen = next(f for f in FORMS if str(f) == form)
    monkeypatch.setattr(plans, "find_rule", lambda *row: replace(find_rule(*row), **change))
    plan = make_plan.__wrapped__(chosen, SM)
    assert plan.rule != make_plan(chosen, SM).rule
    registers = [replay(plan, operands(chosen, c, SEED, 0, recorded_warps(chosen))) for c in classes(chosen)]
    digests = [digest(replay(plan, operands(chosen, c, SEED, 1, DIGESTED_WARPS))) for c in classes(chosen)]
    same_registers = np.array_equal(recording(chosen.instruction)[form], np.stack(registers))
    assert not (same_registers and recording("digests")[form].tolist() == digests)


# ------------------------------------------------------------------------------------------- the tools, without a GPU


def test_recording_without_a_gpu_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert record.main([str(tmp_path / "new")]) == 2
    assert "needs CuPy" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_fuzzing_an_unknown_form_says_how_forms_are_spelled(capsys: pytest.CaptureFixture[str]) -> None:
    assert fuzz.main(["--form", "m17n8k16"]) == 2
    assert "spelled like mma.sync.m8n8k4" in capsys.readouterr().err


def test_fuzzing_explains_a_difference(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The "GPU" here computes as an A100 does; the exact reference sides with the kernel of the H200."""
    index = next(i for i, form in enumerate(FORMS) if str(form) == "mma.sync.m16n8k16.row.col.f32.f16.f16.f32")
    monkeypatch.setattr(fuzz, "load_kernel", lambda ptx, entry: None)
    monkeypatch.setattr(fuzz, "run_form", lambda handle, form, inputs: replay(make_plan(form, 80), inputs))
    tally = fuzz.Tally([index])
    tally.check(*fuzz._expect(fuzz._Task(index, "edge", 1, 0, 4)))
    shown = capsys.readouterr().out
    assert tally.outputs[index] == 4 * 128 > tally.wrong[index] > 0
    bits = {line.split()[0]: line.split()[1] for line in shown.split("  class")[0].splitlines()[1:] if line.strip()}
    assert bits["kernel"] == bits["exact"] != bits["GPU"]
    assert "class edge, seed 1, batch 0, warp 0 of 4" in shown
    assert f"{tally.wrong[index]:>12,}" in tally.table()
    assert 1 <= shown.split("  class")[0].count("  k=") < 16  # what does not matter has been left out


SHRUNK = ["mma.sync.m16n8k16.row.col.f16.f16.f16.f16", "mma.sp.sync.m16n8k32.row.col.f32.bf16.bf16.f32"]


@pytest.mark.parametrize("name", SHRUNK)
def test_a_mismatch_is_made_small(name: str) -> None:
    form = next(form for form in FORMS if str(form) == name)
    inputs = operands(form, "near_one", 3, 0, 16)

    def both(given: Operands | SparseOperands) -> tuple[Registers, Registers]:
        return replay(make_plan(form, 80), given), replay(make_plan(form, 90), given)

    got, expected = both(inputs)
    warp, register, lane = np.argwhere(got != expected)[-1].tolist()
    difference = int(got[warp, register, lane]) ^ int(expected[warp, register, lane])
    found = Place(warp, register, lane, int(form.d == "f16" and difference & 0xFFFF == 0))
    small, place = shrink(form, inputs, found, both)
    a, b = both(small)
    assert len(small.a) <= 8 and int(a[place[:3]]) != int(b[place[:3]])
    dot = find_dot(form, small, a, *place)
    assert sum(1 for x, y in zip(dot.a, dot.b, strict=True) if x and y) <= form.stored_k // 2
