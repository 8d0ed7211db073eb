"""With NVIDIA's tools: assembling, the command line, and random kernels as PTX and as machine code."""

from __future__ import annotations

import hashlib
import lzma
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tcsim
from isa.sass import toolchain
from isa.sass.assemble import assemble, ptx_digest, read_kept
from isa.sass.listing import ListingError
from isa.sass.toolchain import AssemblerError, find_nvdisasm, find_ptxas
from tcsim.bundle import load_bundle
from tcsim.cli.app import main
from tcsim.errors import TcsimError, UnsupportedWarning
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


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("no program", "cannot run .*ptxas: Exec format error"),
        ("#!/bin/sh\necho hello\n", "does not look like ptxas: 'hello'"),
        ("#!/bin/sh\necho V13.0.88\n", "says that it assembled module.ptx for sm_90, but wrote nothing"),
        ("#!/bin/sh\necho V13.0.88\ncase $1 in -arch*) echo no $4; exit 3;; esac\n", "refuses module.ptx for sm_90:\n"),
    ],
)
@pytest.mark.skipif(os.name == "nt", reason="stands in for ptxas with a shell script")
def test_what_is_no_ptxas_is_told(program: str, said: str, tmp_path: Path) -> None:
    stand_in = tmp_path / "ptxas"
    stand_in.write_text(program)
    stand_in.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(AssemblerError, match=said) as told:
        patch.setattr("isa.sass.assemble.required", lambda tool: tmp_path / tool)
        assemble("// assembled by none\n", "sm_90", ptxas=stand_in)
    assert "/module" not in str(told.value)


def test_without_tools_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(tool: str) -> Iterator[Path]:
        return iter(())

    monkeypatch.setattr(toolchain, "_candidates", nowhere)
    with pytest.raises(AssemblerError, match="pip install nvidia-cuda-nvcc brings it") as told:
        assemble("", "sm_90")
    assert "running PTX (without --machine) needs neither" in str(told.value)
    assert "\n" not in str(told.value)


@needs_tools
def test_kept_listings_are_what_ptxas_makes() -> None:
    """The listing that a bundle holds has the code that the same ptxas makes of its PTX today. (Disassemblers spell some
    operands differently; the words of the code are the same.)"""
    bundle = load_bundle(KERNELS.parent / "contraction_off")
    (path,) = bundle.listing_paths
    kept = read_kept(path)
    assert (kept.target, kept.fmad, kept.ptx) == ("sm_90", False, ptx_digest(bundle.ptx_text()))
    ptxas = find_ptxas()
    assert ptxas is not None
    if toolchain.ptxas_version(ptxas) == kept.assembler:
        made = assemble(bundle.ptx_text(), "sm_90", fmad=False, ptxas=ptxas)
        assert (made.target, made.fmad, made.ptx, made.assembler) == (kept.target, kept.fmad, kept.ptx, kept.assembler)
        words = [re.findall(r"/\* (0x[0-9a-f]{16}) \*/", listing.text) for listing in (made, kept)]
        assert words[0] == words[1] and len(words[0]) > 20


def test_a_listing_of_other_ptx_or_options_is_refused() -> None:
    module = tcsim.RawModule(path=KERNELS / "vector_add.ptx")
    with pytest.raises(TcsimError, match="is the machine code of other PTX than this module's"):
        module.attach_listing(KERNELS / "collatz.sm_90.sass.xz")
    with pytest.raises(TcsimError, match="assembled with fmad=False, this module asks for fmad=True"):
        tcsim.RawModule(path=KERNELS / "contraction.ptx").attach_listing(KERNELS / "contraction.sm_90.nofmad.sass.xz")
    with pytest.raises(ListingError, match="cannot read the listing"):
        module.attach_listing(KERNELS / "vector_add.ptx.xz")


@pytest.mark.parametrize(
    ("version", "newest"),
    [("11.8.89", (7, 8)), ("12.4.131", (8, 4)), ("12.6.85", (8, 5)), ("12.9.86", (8, 8)), ("13.0.1", (9, 0))],
)
def test_which_ptx_a_ptxas_takes(version: str, newest: tuple[int, int]) -> None:
    assert toolchain.newest_ptx(version) == newest


def test_the_ptxas_of_the_ptx_s_compiler_is_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"cuda/ptxas": "13.0.88", "triton/ptxas": "12.9.86", "triton/ptxas-blackwell": "13.4.59"}
    paths = [tmp_path / name for name in versions]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.touch()
    monkeypatch.setattr(toolchain, "_candidates", lambda tool: iter(paths))
    monkeypatch.setattr(toolchain, "_triton", lambda tool: iter(paths[1:]))
    monkeypatch.setattr(toolchain, "ptxas_version", lambda path: versions[str(path.relative_to(tmp_path))])
    triton = "//\n// Generated by LLVM NVPTX Back-End\n//\n"
    assert toolchain.choose_ptxas(".version 9.0\n") == paths[0]
    assert toolchain.choose_ptxas(f"{triton}.version 8.8\n") == paths[1]
    assert toolchain.choose_ptxas(f"{triton}.version 9.4\n") == paths[2]
    assert toolchain.choose_ptxas(".version 99.0\n") == paths[0]  # which will refuse it


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


def test_machine_instructions_are_listed_and_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["isa", "list", "--sass", "HMMA"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2  # dense and sparse
    assert all(line.startswith("tensor   HMMA") for line in lines)
    assert main(["isa", "show", "IMAD.WIDE.U32"]) == 0
    shown = capsys.readouterr().out
    assert "Multiply and add the whole product to a pair of registers" in shown
    assert "pipe: fma (multiply-add unit)" in shown
    assert main(["isa", "show", "LDG"]) == 0
    assert "memory: load (global)" in capsys.readouterr().out


def test_unknown_machine_instructions_are_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["isa", "show", "HMMX"]) == 2
    assert "unknown machine instruction 'HMMX'; nearest: " in capsys.readouterr().err
    assert main(["isa", "show", "IADD3.SAT"]) == 2
    assert "IADD3 is known, but not with these modifiers. It is executed as" in capsys.readouterr().err


def test_verify_compares_all_three(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """With the listing that the bundle holds: NVIDIA's tools are not needed."""
    monkeypatch.setattr(toolchain, "_candidates", lambda tool: iter(()))
    assert main(["verify", "--machine", str(KERNELS.parent / "saxpy")]) == 0
    out = capsys.readouterr().out
    assert out.count("every byte equals the hardware's") == 2
    assert "saxpy (machine code): 9,596 instructions, hardware 9,596 (+0.000 %)" in out


def test_verify_passes_nothing_off_as_machine_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(KERNELS.parent / "saxpy", tmp_path / "saxpy")
    (tmp_path / "kernels").mkdir()
    shutil.copy(KERNELS / "vector_add.ptx", tmp_path / "kernels")
    kept = "vector_add.sm_90.sass.xz"
    edited = lzma.decompress((KERNELS / kept).read_bytes()).replace(b"FFMA", b"FQUX")
    (tmp_path / "kernels" / kept).write_bytes(lzma.compress(edited))
    with pytest.warns(UnsupportedWarning, match="FQUX"):
        assert main(["verify", "--machine", str(tmp_path / "saxpy")]) == 1
    assert "saxpy (machine code): not run" in capsys.readouterr().err


def test_a_file_that_is_neither_text_nor_machine_code(tmp_path: Path) -> None:
    (tmp_path / "k.cubin").write_bytes(bytes(range(256)))
    with pytest.raises(TcsimError, match="is no text, so neither PTX nor CUDA C, and it does not begin as a cubin"):
        tcsim.RawModule(path=tmp_path / "k.cubin")


# ------------------------------------------------------------------------------------------------------------------- calls


@needs_tools
@pytest.mark.parametrize("name", sorted(calls.RECORDED))
def test_calls_and_what_the_machine_provides(name: str) -> None:
    """Recursion, function pointers in memory and in registers, printf, malloc, assert: as machine code, too."""
    outputs = calls.launch(calls.LAUNCHES[name], execute="machine")
    assert {output: hashlib.sha256(data).hexdigest() for output, data in outputs.items()} == calls.RECORDED[name]


PRINTING = """.version 8.0
.target sm_80
.address_size 64
.extern .func (.param .b32 r) vprintf (.param .b64 format, .param .b64 arguments);
.extern .func (.param .b64 r) malloc (.param .b64 size);
.global .align 1 .b8 text[10] = {{111, 102, 32, 37, 100, 10, 0}};
.visible .entry k(.param .u64 out)
{{
.local .align 8 .b8 own[8];
.reg .b64 l<9>; .reg .b32 r<9>; .reg .pred p<2>;
ld.param.u64 l0, [out]; mov.u32 r0, %tid.x;
st.local.u32 [own], r0; mov.u64 l1, text; cvta.global.u64 l1, l1; mov.u64 l2, own; cvta.local.u64 l2, l2;
{{ .param .b64 p0; .param .b64 p1; .param .b32 r; st.param.b64 [p0], l1; st.param.b64 [p1], l2;
call (r), vprintf, (p0, p1); ld.param.b32 r1, [r]; }}
{{ .param .b64 p0; .param .b64 r; st.param.b64 [p0], 16; call (r), malloc, (p0); ld.param.b64 l3, [r]; }}
setp.ne.u64 p0, l3, 0; selp.u32 r2, 1, 0, p0;
mul.wide.u32 l4, r0, 8; add.u64 l0, l0, l4; st.global.v2.u32 [l0], {{r1, r2}};
ret;
}}
"""


@needs_tools
@pytest.mark.parametrize(("target", "device"), [("sm_80", "a100"), ("sm_90", "h200")])
def test_calls_of_the_machine_by_address(target: str, device: str, capfd: pytest.CaptureFixture[str]) -> None:
    """``CALL.ABS.NOINC R8`` of what a bank holds at a place that a register says."""
    module = tcsim.RawModule(PRINTING.format().replace("sm_80", target))
    with tcsim.Device(device, execute="machine"):
        out = tcsim.zeros((2, 2), np.uint32)
        module.get_function("k")((1,), (2,), (out,))
    assert out.get().tolist() == [[1, 1], [1, 1]]
    assert capfd.readouterr().out == "of 0\nof 1\n"


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
