"""``wgmma`` against an H200: every recorded register, digests of a thousand times as many, and the addresses it reads.

Recorded by ``python -m gpu_ref.tensor.wgmma_record`` and ``python -m gpu_ref.tensor.wgmma_addresses``; operands are made anew
from their seeds.
"""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from msgspec.structs import replace
from numpy.typing import NDArray

import tcsim
from gpu_ref.tensor import wgmma_addresses, wgmma_fuzz, wgmma_record
from gpu_ref.tensor.record import digest
from gpu_ref.tensor.wgmma_addresses import PROBES, Probe, digest_of
from gpu_ref.tensor.wgmma_inputs import Problems, problems, wgmma_classes
from gpu_ref.tensor.wgmma_kernels import ENTRY, numbers_of, wgmma_ptx
from gpu_ref.tensor.wgmma_record import FEW, INSTANCES, SEED, VERSION, Instance, instance_of
from gpu_ref.tensor.wgmma_replay import replay_wgmma
from isa.tensor import RULES, find_rule, wgmma_plans
from isa.tensor.forms import element_bits
from isa.tensor.matrix_descriptor import chunk_address, chunk_view, element_addresses
from isa.tensor.wgmma_forms import WGMMA_FORMS

FOLDER = Path(__file__).resolve().parents[1] / "traces" / "vectors"
WHOLE = [x for x in INSTANCES if x.form.n == 8]
HASHED = [x for x in INSTANCES if x.form.n != 8]


@cache
def recording(name: str) -> dict[str, NDArray[np.unsignedinteger]]:
    with np.load(FOLDER / f"{name}.npz") as arrays:
        return dict(arrays)


def test_the_recording_is_of_these_forms_and_operands() -> None:
    provenance = json.loads((FOLDER / "wgmma_provenance.json").read_text())
    assert (provenance["compute_capability"], provenance["seed"], provenance["operands"]) == ("9.0", SEED, VERSION)
    assert "H200" in provenance["gpu"] and provenance["outputs"] > 5e8
    assert {*recording("wgmma")} == {x.name for x in WHOLE}
    assert {*recording("wgmma_digests")} == {x.name for x in INSTANCES}
    kinds = {(f.instruction, f.k, f.d, f.a, f.b, f.satfinite) for f in WGMMA_FORMS}
    assert len(WHOLE) == 2 * len(kinds) == 82


@pytest.mark.parametrize("instance", WHOLE, ids=lambda x: x.name)
def test_registers(instance: Instance) -> None:
    """Batch 0, stored whole: one problem of each class."""
    form, registers = instance
    recorded = recording("wgmma")[instance.name]
    assert len(recorded) == len(wgmma_classes(form))
    for case, got in zip(wgmma_classes(form), recorded, strict=True):
        given = problems(form, registers, case, SEED, 0, 1)
        differing = np.argwhere(replay_wgmma(form, given)[0] != got)
        assert len(differing) == 0, (case, given.setting, f"[warp, register, lane] {differing[0].tolist()}")


@pytest.mark.parametrize("instance", HASHED, ids=lambda x: x.name)
def test_digests(instance: Instance) -> None:
    """Batch 1, of which a hash for each class is stored."""
    form, registers = instance
    recorded = recording("wgmma_digests")[instance.name][0].tolist()
    got = [digest(replay_wgmma(form, problems(form, registers, case, SEED, 1, FEW))) for case in wgmma_classes(form)]
    assert dict(zip(wgmma_classes(form), got, strict=True)) == dict(zip(wgmma_classes(form), recorded, strict=True))


def test_rules_said_to_be_verified_by_this_recording_are() -> None:
    used = {wgmma_plans.wgmma_rule(form, 90) for form in WGMMA_FORMS}
    assert used == {rule for rule in RULES.values() if rule.instruction.startswith("wgmma")}
    assert {(rule.status, "H200" in rule.source) for rule in used} == {("verified", True)}


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("m64n8k16.f32.f16.f16 ss", {"fraction_bits": 24}),
        ("m64n8k16.f32.f16.f16 ss", {"fraction_bits": 26}),
        ("m64n8k16.f16.f16.f16 rs", {"fraction_bits": 24}),
        ("m64n8k16.f16.f16.f16 ss", {"fraction_bits": 26}),
        ("m64n8k16.f16.f16.f16 ss", {"emax_floor": -20}),
        ("m64n8k16.f16.f16.f16 ss", {"emax_floor": -22}),
        ("m64n8k16.f32.bf16.bf16 ss", {"emax_floor": -132}),
        ("m64n8k16.f32.bf16.bf16 ss", {"emax_floor": -134}),
        ("m64n8k16.f32.bf16.bf16 rs", {"products": 8}),
        ("m64n8k8.f32.tf32.tf32 ss", {"emax_floor": -132}),
        ("m64n8k8.f32.tf32.tf32 ss", {"emax_floor": -134}),
        ("m64n8k8.f32.tf32.tf32 ss", {"products": 4}),
        ("m64n8k32.f32.e4m3.e5m2 ss", {"fraction_bits": 12}),
        ("m64n8k32.f32.e5m2.e4m3 ss", {"fraction_bits": 14}),
        ("m64n8k32.f32.e4m3.e4m3 ss", {"products": 16}),
        ("m64n8k32.f32.e4m3.e4m3 ss", {"output": "f32"}),
        ("m64n8k32.f16.e4m3.e4m3 ss", {"fraction_bits": 12}),
        ("m64n8k32.f16.e5m2.e5m2 ss", {"fraction_bits": 14}),
        ("m64n8k32.f16.e5m2.e5m2 ss", {"emax_floor": -18}),
        ("sp m64n8k32.f32.f16.f16 ss", {"products": 8}),
        ("sp m64n8k32.f16.f16.f16 ss", {"emax_floor": -22}),
        ("sp m64n8k32.f32.bf16.bf16 ss", {"emax_floor": -132}),
        ("sp m64n8k16.f32.tf32.tf32 ss", {"emax_floor": -134}),
        ("sp m64n8k64.f32.e4m3.e4m3 ss", {"products": 16}),
        ("sp m64n8k64.f16.e5m2.e4m3 rs", {"fraction_bits": 14}),
    ],
)
def test_the_recording_tells_neighbouring_rules_apart(
    kind: str, change: dict[str, int | str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one number of the rule changed, the recording is not reproduced."""
    sparse, _, shape = kind.rpartition("sp ")
    form, registers = instance = instance_of(f"wgmma.mma_async{'.sp' if sparse or kind != shape else ''}.sync.aligned.{shape}")
    rule = replace(find_rule(90, form.instruction, form.family, form.d), **change)
    monkeypatch.setattr(wgmma_plans, "wgmma_rule", lambda form, sm: rule)
    plan = wgmma_plans.make_wgmma_plan.__wrapped__(form, 90, registers)
    for batch, count in ((0, 1), (2, 16)):
        for index, case in enumerate(wgmma_classes(form)):
            d = replay_wgmma(form, problems(form, registers, case, SEED, batch, count), plan)
            if batch == 0 and not np.array_equal(d[0], recording("wgmma")[instance.name][index]):
                return
            if batch == 2 and digest(d) != int(recording("wgmma_digests")[instance.name][1, index]):
                return
    pytest.fail(f"{kind}: {change} is as good")


# ----------------------------------------------------------------------------------------------------------- addresses


@pytest.mark.parametrize("probe", PROBES, ids=lambda x: x.name)
def test_addresses(probe: Probe) -> None:
    """Every element of random descriptors, canonical or not, is read where the H200 reads it."""
    bits = element_bits(probe.form.a)
    for descriptor, expected in recording("wgmma_addresses")[probe.name].tolist():
        addresses = element_addresses(descriptor, *probe.shape, bits, probe.mn_major)
        assert digest_of(addresses) == expected, hex(descriptor)


def test_compiled_addresses_are_these() -> None:
    """What the kernels call, chunk by chunk."""
    for probe in PROBES:
        for descriptor in recording("wgmma_addresses")[probe.name][:4, 0]:
            per_chunk = 128 // element_bits(probe.form.a)
            addresses = element_addresses(int(descriptor), *probe.shape, element_bits(probe.form.a), probe.mn_major)
            view = chunk_view(descriptor, probe.mn_major)
            if probe.mn_major:
                assert chunk_address(view, 9, 3) == addresses[3 * per_chunk, 9]
            else:
                assert chunk_address(view, 13, 1) == addresses[13 % len(addresses), per_chunk] if probe.shape[0] > 13 else True


# ------------------------------------------------------------------------------------------------------- whole kernels


def run_kernel(instance: Instance, given: Problems) -> NDArray[np.uint32]:
    """D by the PTX kernel that was recorded, on tcsim."""
    arguments = [given.image, given.a, given.c, given.e, numbers_of(instance.form, given.setting), np.zeros_like(given.c)]
    arrays = [tcsim.asarray(np.ascontiguousarray(x)) for x in arguments]
    function = tcsim.RawModule(code=wgmma_ptx(*instance)).get_function(ENTRY)
    function((len(given.image),), (128,), tuple(arrays))
    return np.asarray(tcsim.asnumpy(arrays[-1]))


@pytest.mark.parametrize("name", [
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 ss", "wgmma.mma_async.sync.aligned.m64n96k16.f16.f16.f16 rs",
    "wgmma.mma_async.sp.sync.aligned.m64n64k16.f32.tf32.tf32 ss", "wgmma.mma_async.sync.aligned.m64n256k32.f32.e4m3.e5m2 ss",
    "wgmma.mma_async.sp.sync.aligned.m64n96k64.satfinite.s32.s8.u8 rs",
    "wgmma.mma_async.sync.aligned.m64n64k256.s32.b1.b1.and.popc ss",
])  # fmt: skip
def test_ptx(name: str) -> None:
    """The kernel whose results were recorded, executed from its PTX."""
    instance = instance_of(name)
    for index, case in enumerate(wgmma_classes(instance.form)):
        d = run_kernel(instance, problems(*instance, case, SEED, 1, FEW))
        assert digest(d) == int(recording("wgmma_digests")[name][0, index]), case


# ------------------------------------------------------------------------------------------------------- the tool


@pytest.mark.parametrize("name", ["wgmma.mma_async.sync.aligned.m64n24k16.f32.f16.f16 rs",
                                  "wgmma.mma_async.sp.sync.aligned.m64n24k64.f32.e4m3.e5m2 rs"])  # fmt: skip
def test_fuzzing_explains_a_difference(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The "GPU" here keeps a bit less; the exact reference sides with the kernel."""
    instance = instance_of(name)
    form = instance.form
    rule = find_rule(90, form.instruction, form.family, form.d)
    monkeypatch.setattr(wgmma_plans, "wgmma_rule", lambda form, sm: replace(rule, fraction_bits=rule.fraction_bits - 1))
    other = wgmma_plans.make_wgmma_plan.__wrapped__(form, 90, instance.a_in_registers)
    monkeypatch.undo()
    monkeypatch.setattr(wgmma_fuzz, "load_kernel", lambda ptx, entry: None)
    monkeypatch.setattr(wgmma_fuzz, "run_problems", lambda handle, form, given: replay_wgmma(form, given, other))
    tally = wgmma_fuzz.Tally([instance])
    tally.check(*wgmma_fuzz._expect(wgmma_fuzz._Task(instance, "edge", 1, 0, 2)))
    shown = capsys.readouterr().out
    assert tally.outputs[name] == 2 * 64 * 24 > tally.wrong[name] > 0
    bits = {line.split()[0]: line.split()[1] for line in shown.split("  class")[0].splitlines()[1:] if line.strip()}
    assert bits["kernel"] == bits["exact"] != bits["GPU"]
    assert f"{tally.wrong[name]:>12,}" in tally.table()


@pytest.mark.parametrize("tool", [wgmma_record, wgmma_addresses], ids=["record", "addresses"])
def test_recording_without_a_gpu_says_what_is_missing(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert tool.main([str(tmp_path / "new")]) == 2
    assert "needs CuPy" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_fuzzing_chooses_forms_of_any_size() -> None:
    found = wgmma_fuzz.matching(["m64n136k16.f32.bf16.bf16"])
    assert [x.name.split()[1] for x in found] == ["ss", "rs"] and found[0].form.n == 136
    assert wgmma_fuzz.matching([]) == list(INSTANCES)
