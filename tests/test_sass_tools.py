"""With NVIDIA's tools: assembling, the command line, and random kernels as PTX and as machine code."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tcsim
from isa.sass import toolchain
from isa.sass.assemble import assemble
from isa.sass.toolchain import AssemblerError, find_nvdisasm, find_ptxas
from tcsim.cli.app import main
from tests import test_calls as calls
from tests import test_contract_fuzz as floats
from tests.sass_programs import RESULTS, THREADS, inputs, mixed_module, same

KERNELS = Path(__file__).parents[1] / "traces" / "kernels"
HAVE_TOOLS = find_ptxas() is not None and find_nvdisasm() is not None
needs_tools = pytest.mark.skipif(not HAVE_TOOLS, reason="ptxas and nvdisasm are not installed")

# ------------------------------------------------------------------------------------------------------------- assembling


@needs_tools
def test_assembling_is_kept_by_the_hash_of_the_ptx(monkeypatch: pytest.MonkeyPatch) -> None:
    ptx = (KERNELS / "vector_add.ptx").read_text()
    first = assemble(ptx, "sm_90")
    monkeypatch.setattr("isa.sass.assemble.run_ptxas", lambda *_: pytest.fail("assembled again"))
    assert assemble(ptx, "sm_90") == first
    with pytest.raises(pytest.fail.Exception):
        assemble(ptx + "\n", "sm_90")


@needs_tools
def test_the_oracle_and_the_recorder_find_the_same_tools() -> None:
    from gpu_ref import contraction_oracle
    from gpu_ref import toolchain as recorder

    assert contraction_oracle.find_nvdisasm is find_nvdisasm
    assert recorder.find_ptxas is find_ptxas


@needs_tools
def test_ptxas_speaks_for_itself() -> None:
    with pytest.raises(AssemblerError, match=r"line 1; fatal\s*: Unsupported \.version 99\.0"):
        assemble(".version 99.0\n.target sm_90\n.address_size 64\n", "sm_90")


def test_without_tools_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(tool: str) -> Iterator[Path]:
        return iter(())

    monkeypatch.setattr(toolchain, "_candidates", nowhere)
    with pytest.raises(AssemblerError, match="pip install nvidia-cuda-nvcc brings it") as told:
        assemble("", "sm_90")
    assert "running PTX (without --machine) needs neither" in str(told.value)
    assert "\n" not in str(told.value)


# ------------------------------------------------------------------------------------------------------------ command line


@needs_tools
def test_sass_shows_a_listing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sass", str(KERNELS / "vector_add.ptx"), "--kernel", "saxpy", "--arch", "sm_90"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("saxpy  for sm_90, ptxas ")
    (ffma,) = (line for line in lines if "FFMA" in line)
    for part in ("/*0100*/", "stall 5  yield  wait 2", "fma", "R 4 UR 3", "ptx:102 fma.rn.f32", "vector_add.cu:12"):
        assert part in ffma
    assert not any("NOP" in line for line in lines)  # padding


@needs_tools
def test_sass_for_another_architecture_and_all_kernels(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sass", str(KERNELS / "vector_add.ptx"), "--arch", "sm_80"]) == 0
    out = capsys.readouterr().out
    assert out.count("for sm_80, ptxas") == 2


def test_sass_tells_users_mistakes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sass", "nowhere.ptx"]) == 2
    assert "cannot read nowhere.ptx" in capsys.readouterr().err
    assert main(["sass", str(KERNELS / "vector_add.ptx"), "--arch", "hopper!"]) == 2
    assert "an architecture such as sm_90" in capsys.readouterr().err


@needs_tools
def test_verify_compares_all_three(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "--machine", str(KERNELS.parent / "saxpy")]) == 0
    out = capsys.readouterr().out
    assert out.count("every byte equals the hardware's") == 2
    assert "saxpy (machine code): 9,596 instructions, hardware 9,596 (+0.000 %)" in out


# ------------------------------------------------------------------------------------------------------------------- calls


@needs_tools
@pytest.mark.parametrize("name", sorted(calls.RECORDED))
def test_calls_and_what_the_machine_provides(name: str) -> None:
    """Recursion, function pointers in memory and in registers, printf, malloc, assert: as machine code, too."""
    outputs = calls.launch(calls.LAUNCHES[name], execute="machine")
    assert {output: hashlib.sha256(data).hexdigest() for output, data in outputs.items()} == calls.RECORDED[name]


# -------------------------------------------------------------------------------------------------------------------- fuzz


def _both(text: str, kernel: str, words: np.ndarray, results: int, *more: object) -> list[np.ndarray]:
    """The results, uint32 [threads, results], of a kernel ``(in, out)`` as PTX and as machine code."""
    module = tcsim.RawModule(text)
    found = []
    for execute in ("ptx", "machine"):
        with tcsim.Device("h200", execute=execute):  # type: ignore[arg-type]
            out = tcsim.zeros((len(words), results), np.uint32)
            threads = min(len(words), THREADS)
            module.get_function(kernel)(len(words) // threads, threads, (tcsim.asarray(words), out, *more))
            found.append(out.get())
    return found


@needs_tools
@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_random_kernels_of_mixed_types_agree(target: str) -> None:
    text = mixed_module(7, 6, target)
    for number in range(6):
        ptx, machine = _both(text, f"k{number}", inputs(number), RESULTS)
        assert same(ptx, machine), f"k{number}"


@needs_tools
@pytest.mark.parametrize("kind", ["f32", "f64", "f16x2", "bf16x2"])
def test_random_floating_point_kernels_agree(kind: str) -> None:
    size = floats.KINDS[kind].size
    text = floats.module(11, kind, [*floats.SHAPES.values(), floats.Shape(branches=True)], "sm_90")
    rng = np.random.default_rng(5)
    numbers = rng.normal(0, 4, (32, floats.INPUTS * size // 4))
    for number in range(len(floats.SHAPES) + 1):
        words = (numbers.astype(np.float32) if kind == "f32" else numbers).astype(np.float32).view(np.uint32)
        if kind == "f64":
            words = rng.normal(0, 4, (32, floats.INPUTS)).view(np.uint32)
        ptx, machine = _both(text, f"k{number}", words, floats.OUTPUTS * size // 4, np.int32(9))
        np.testing.assert_array_equal(ptx, machine)
