"""Contraction beside an installed ptxas, as a user asks for it, and what is said where PTX does not determine the bits."""

from __future__ import annotations

import hashlib
import json
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import gpu_ref.contraction_oracle as oracle
import tcsim
from gpu_ref.__main__ import main as gpu_ref_main
from gpu_ref.contraction_oracle import check
from isa.lower.contract.products import Candidates
from isa.lower.contract.select import choose
from isa.lower.ir import Instr
from tcsim.cli import main
from tcsim.module import RoundingWarning

HAVE_TOOLS = oracle.find_ptxas() is not None and oracle.find_nvdisasm() is not None
needs_ptxas = pytest.mark.skipif(not HAVE_TOOLS, reason="ptxas and nvdisasm are not installed")

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
AXPY = """\
.visible .entry axpy(.param .u64 x, .param .u64 y)
{
    .reg .b64 %rd<4>;
    .reg .b32 %r<2>;
    .reg .f32 %f<8>;
    ld.param.u64 %rd1, [x];
    ld.param.u64 %rd2, [y];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd1, %rd1, %rd3;
    add.s64 %rd2, %rd2, %rd3;
    ld.global.f32 %f1, [%rd1];
    ld.global.f32 %f2, [%rd2];
    mul.f32 %f3, %f1, %f2;
    add.f32 %f4, %f3, %f2;
    sub.f32 %f5, %f4, %f1;
    add.f32 %f6, %f5, 0fBF800000;
    st.global.f32 [%rd2], %f6;
    ret;
}
"""
# The product made in one iteration is added in the next: fused between the copies of the unrolled body, not around the loop.
CARRIED = """\
.visible .entry carried(.param .u64 x, .param .u64 y, .param .u32 n)
{
    .reg .b64 %rd<4>;
    .reg .b32 %r<4>;
    .reg .f32 %f<8>;
    .reg .pred %p<2>;
    ld.param.u64 %rd1, [x];
    ld.param.u64 %rd2, [y];
    ld.param.u32 %r1, [n];
    ld.global.f32 %f1, [%rd2];
    mov.f32 %f2, 0f00000000;
    mov.u32 %r2, 0;
LOOP:
    ld.global.f32 %f3, [%rd1];
    add.f32 %f4, %f2, %f3;
    mul.f32 %f2, %f4, %f1;
    st.global.f32 [%rd1], %f4;
    add.s64 %rd1, %rd1, 4;
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p1, %r2, %r1;
    @%p1 bra LOOP;
    ret;
}
"""
CARRIED_LINE = 3 + CARRIED.split("\n").index("    add.f32 %f4, %f2, %f3;") + 1


# ------------------------------------------------------------------------------------------------------------- ptxas


@needs_ptxas
@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_rows_say_what_ptxas_did(target: str) -> None:
    rows = check(HEAD + AXPY, arch=target).rows
    assert [(row.opcode, row.expected, row.actual) for row in rows] == [
        ("add.f32", "fused", "fused"),
        ("sub.f32", "plain", "plain"),
        ("add.f32", "plain", "plain"),
    ]


@needs_ptxas
def test_an_addend_of_one_does_not_make_a_multiply_add_a_sum() -> None:
    """``a * b - 1`` is one multiply-add; ``a * 1 + b`` is how a half-precision unit adds."""
    text = AXPY.replace("add.f32 %f4, %f3, %f2", "add.f32 %f4, %f3, 0fBF800000")
    (row,) = check(HEAD + text.replace("sub.f32", "sub.rn.f32").replace("add.f32 %f6", "add.rn.f32 %f6")).rows
    assert (row.expected, row.actual) == ("fused", "fused")


@needs_ptxas
def test_several_statements_on_a_line_keep_their_line() -> None:
    text = HEAD + AXPY.replace(";\n    add.f32 %f4", "; add.f32 %f4").replace(";\n    sub.f32", "; sub.f32")
    line = next(number for number, each in enumerate(text.split("\n"), 1) if "sub.f32" in each)
    rows = check(text).rows
    assert [row.line for row in rows[:2]] == [line, line]
    assert [row.actual for row in rows[:2]] == ["fused", "plain"]


@needs_ptxas
def test_agreement_passes_silently() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tcsim.RawModule(code=HEAD + AXPY, fmad="oracle").get_function("axpy")


@needs_ptxas
def test_disagreement_is_one_error_with_the_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a rule switched off (nothing is ever chosen), the sum that ptxas fuses is named with its line."""

    def choose_nothing(instructions: list[Instr], candidates: Candidates) -> None:
        assert candidates.sums

    package = sys.modules["isa.lower.contract"]
    monkeypatch.setattr(package, "choose", choose_nothing)
    line = (HEAD + AXPY).split("\n").index("    add.f32 %f4, %f3, %f2;") + 1
    with pytest.raises(tcsim.TcsimError) as problem:
        tcsim.RawModule(code=HEAD + AXPY, fmad="oracle").get_function("axpy")
    message = str(problem.value)
    assert f"axpy: line {line}: add.f32 is fused in machine code, plain here" in message
    assert "in 1 sum" in message and message.count("line ") == 1 and "fmad=True" in message
    monkeypatch.setattr(package, "choose", choose)
    tcsim.RawModule(code=HEAD + AXPY, fmad="oracle").get_function("axpy")


@needs_ptxas
def test_unrolled_copies_that_differ_are_a_warning(recwarn: pytest.WarningsRecorder) -> None:
    agreement = check(HEAD + CARRIED)
    assert [(row.line, row.actual) for row in agreement.ambiguous] == [(CARRIED_LINE, "both")]
    assert agreement.ambiguous[0].undecided and not agreement.disagreements
    tcsim.RawModule(code=HEAD + CARRIED, fmad="oracle").get_function("carried")
    told = [str(warning.message) for warning in recwarn]
    assert any(f"line {CARRIED_LINE}" in each and "copies of an unrolled loop differ" in each for each in told)


@needs_ptxas
def test_command_line_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "k.ptx").write_text(HEAD + AXPY + CARRIED)
    assert gpu_ref_main(["contraction", str(tmp_path / "k.ptx"), "--arch", "sm_90"]) == 0
    assert "4 sums (1 fused, 2 plain, 1 both), 0 disagree" in capsys.readouterr().out


@pytest.mark.parametrize("tool", ["ptxas", "nvdisasm"])
def test_missing_tools_are_one_clear_error(tool: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Found nowhere: neither on the PATH, nor in a CUDA folder, nor in the pip packages."""
    present = tmp_path / "bin" / ("nvdisasm" if tool == "ptxas" else "ptxas")
    present.parent.mkdir()
    present.touch(0o755)
    monkeypatch.setattr(oracle, f"find_{tool}", lambda: None)
    monkeypatch.setattr(oracle, f"find_{present.name}", lambda: present)
    with pytest.raises(tcsim.TcsimError, match=rf"{tool} is not installed.*pip install nvidia-cuda-nv"):
        tcsim.RawModule(code=HEAD + AXPY, fmad="oracle").get_function("axpy")


def test_fmad_is_checked() -> None:
    with pytest.raises(tcsim.TcsimError, match=r"fmad='ptxas'.*True, False or 'oracle'"):
        tcsim.RawModule(code=HEAD + AXPY, fmad="ptxas")  # type: ignore[arg-type]


# -------------------------------------------------------------------------------------------------- what is undecided


def test_guesses_are_told_when_a_kernel_is_fetched() -> None:
    module = tcsim.RawModule(code=HEAD + CARRIED + AXPY)
    words = rf"carried: bits of 1 addition depend on how ptxas unrolls(.|\n)*ptx:{CARRIED_LINE}"
    with pytest.warns(RoundingWarning, match=words):
        function = module.get_function("carried")
    assert len(function.notes) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert module.get_function("axpy").notes == ()
        tcsim.RawModule(code=HEAD + CARRIED, fmad=False).get_function("carried")
        nounroll = CARRIED.replace("LOOP:", 'LOOP:\n    .pragma "nounroll";')
        tcsim.RawModule(code=HEAD + nounroll).get_function("carried")


@pytest.mark.parametrize("command", ["run", "profile"])
def test_guesses_are_told_once_on_standard_error(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "k.ptx").write_text(HEAD + CARRIED)
    launch = ["--grid", "1", "--block", "32", "--inout", "f32[8]:normal", "--arg", "f32[1]:normal", "--arg", "u32:8"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert main([command, str(tmp_path / "k.ptx"), *launch]) == 0
    told = capsys.readouterr()
    guesses = "Timed: machine code" not in told.out  # a profile runs machine code where it can, and that leaves nothing open
    assert told.err.count("bits of 1 addition depend on") == guesses
    assert told.err.count(f"ptx:{CARRIED_LINE}") == guesses
    assert "addition" not in told.out


def test_verify_tells_guesses_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = HEAD + CARRIED
    (tmp_path / "k.ptx").write_text(text)
    numbers, factor = np.arange(8, dtype=np.float32), np.full(1, 0.5, np.float32)
    outputs = tcsim.asarray(numbers)
    with pytest.warns(RoundingWarning):
        function = tcsim.RawModule(code=text).get_function("carried")
    function((1,), (1,), (outputs, tcsim.asarray(factor), np.uint32(8)))
    result = tcsim.asnumpy(outputs)
    digest = hashlib.sha256(result.tobytes()).hexdigest()
    np.savez_compressed(tmp_path / "outputs.npz", **{"x.raw": result})
    np.save(tmp_path / "x.npy", numbers)
    described = {
        "schema": 1,
        "name": "carried",
        "description": "",
        "kernel": {"ptx": "k.ptx", "sha256": hashlib.sha256(text.encode()).hexdigest(), "entry": "carried"},
        "launch": {"grid": [1, 1, 1], "block": [1, 1, 1], "shared_mem": 0},
        "device": "h200",
        "options": {"fmad": True},
        "arguments": [
            {"name": "x", "role": "inout", "spec": "f32[8]:file(x.npy)"},
            {"name": "y", "role": "in", "spec": "f32[1]:const(0.5)"},
            {"name": "n", "role": "in", "spec": "u32:8"},
        ],
        "outputs": {"x": {"dtype": "f32", "shape": [8], "sha256": digest, "stored": "raw"}},
        "metrics": {},
        "provenance": {},
    }
    (tmp_path / "bundle.json").write_text(json.dumps(described))
    assert main(["verify", str(tmp_path)]) == 0
    told = capsys.readouterr()
    assert "every byte equals" in told.out
    assert told.err.count("bits of 1 addition depend on") == 1
