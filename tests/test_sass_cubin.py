"""Cubins and fatbins: machine code that has no PTX."""

from __future__ import annotations

import hashlib
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

import tcsim
from isa.sass.cubin import CubinError, listing_of, runs_on
from isa.sass.toolchain import AssemblerError, find_nvdisasm, find_ptxas
from tcsim.bundle import load_bundle
from tcsim.cli.app import main
from tcsim.errors import LaunchError, UnsupportedError
from tests import test_calls as calls

TRACES = Path(__file__).parents[1] / "traces"
needs_tools = pytest.mark.skipif(not (find_ptxas() and find_nvdisasm()), reason="ptxas and nvdisasm are not installed")


def cubin(ptx: Path, sm: int, folder: Path, *options: str) -> Path:
    """The file that ptxas makes of a module."""
    out = folder / f"{ptx.stem}.sm_{sm}.cubin"
    subprocess.run([str(find_ptxas()), f"-arch=sm_{sm}", *options, str(ptx), "-o", str(out)], check=True)
    return out


def fatbin(cubins: dict[int, bytes], compressed: int = 0) -> bytes:
    """A fatbin as fatbinary writes it: a header, then each part with a header of its own."""
    parts = b""
    for sm, data in cubins.items():
        parts += struct.pack("<HHIQIIHHI", 2, 0x101, 64, len(data), compressed, 0, 0, 8, sm) + bytes(32) + data
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(parts)) + parts


@needs_tools
def test_a_cubin_runs_as_it_is(tmp_path: Path) -> None:
    bundle = load_bundle(TRACES / "polynomial")  # reads a .const variable
    module = tcsim.RawModule(path=cubin(bundle.ptx_path, 90, tmp_path))
    assert module.is_machine_code
    assert "polynomial" in module.kernels
    kernel = module.get_function("polynomial")
    values = [tcsim.asarray(v) if isinstance(v, np.ndarray) else v for v in bundle.values()]
    kernel(bundle.grid, bundle.block, tuple(values))
    outputs = {a.name: v.get() for a, v in zip(bundle.arguments, values, strict=True) if a.is_output}
    assert all(comparison.equal for comparison in bundle.compare(outputs))
    assert kernel.instructions == bundle.metrics["smsp__inst_executed.sum"].value


@needs_tools
def test_a_cubin_with_line_information_has_the_cuda_lines_of_its_ptx(tmp_path: Path) -> None:
    bundle = load_bundle(TRACES / "histogram_u8")
    own = tcsim.RawModule(path=bundle.ptx_path)
    read = tcsim.RawModule(path=cubin(bundle.ptx_path, 90, tmp_path, "-lineinfo"))
    wanted, found = (module.program("histogram_u8", 90) for module in (own, read))
    placed = [(int(n), loc) for n, loc in zip(wanted.lines, wanted.locs, strict=True) if loc]
    by_line = {n: (wanted.files[loc.file], loc.line) for n, loc in placed}
    listed = [(int(n), loc) for n, loc in zip(found.lines, found.locs, strict=True) if loc and int(n) in by_line]
    assert len({loc.line for _, loc in listed}) > 5
    assert all((found.files[loc.file], loc.line) == by_line[number] for number, loc in listed)


@needs_tools
@pytest.mark.parametrize("name", ["i_table", "i_virtual", "h_forms"])
def test_variables_have_the_values_that_the_cubin_gives_them(name: str, tmp_path: Path) -> None:
    """Tables of functions hold ptxas's numbers for them, and indirect calls find the functions by these."""
    launch = calls.LAUNCHES[name]
    module = tcsim.RawModule(path=cubin(launch.ptx_path, 90, tmp_path))
    values = [tcsim.asarray(v) if isinstance(v, np.ndarray) else v for v in launch.values()]
    module.get_function(launch.entry)(launch.grid, launch.block, tuple(values))
    pairs = zip(launch.arguments, values, strict=True)
    outputs = {a.name: hashlib.sha256(tcsim.asnumpy(v).tobytes()).hexdigest() for a, v in pairs if a.is_output}
    assert outputs == calls.RECORDED[name]


POINTERS = """
.version 8.0
.target sm_80
.address_size 64
.global .align 1 .b8 text[4] = {7, 8, 9, 0};
.global .align 8 .u64 behind[2] = {generic(text), generic(text)+1};
.visible .entry k(.param .u64 out)
{
.reg .b64 l<4>; .reg .b32 r<3>;
ld.param.u64 l0, [out]; mov.u32 r0, %tid.x; mul.wide.u32 l1, r0, 8; mov.u64 l2, behind; add.u64 l1, l1, l2;
ld.global.u64 l2, [l1]; ld.u8 r1, [l2]; mul.wide.u32 l3, r0, 4; add.u64 l0, l0, l3; st.global.u32 [l0], r1; ret;
}
"""


@needs_tools
@pytest.mark.parametrize("sm", [80, 90])
def test_variables_that_point_at_others(sm: int, tmp_path: Path) -> None:
    (tmp_path / "pointers.ptx").write_text(POINTERS)
    with tcsim.Device(f"sm_{sm}"):
        out = tcsim.zeros(2, np.uint32)
        tcsim.RawModule(path=cubin(tmp_path / "pointers.ptx", sm, tmp_path)).get_function("k")((1,), (2,), (out,))
        assert out.get().tolist() == [7, 8]


CLUSTER = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out) .explicitcluster .reqnctapercluster 2, 1, 1
{
.reg .b32 r<6>; .reg .b64 l<3>; .shared .b32 mine;
ld.param.u64 l0, [out]; mov.u32 r0, %ctaid.x; mul.wide.u32 l1, r0, 4; add.u64 l0, l0, l1;
mov.u32 r1, mine; st.shared.u32 [r1], r0; barrier.cluster.arrive; barrier.cluster.wait;
mov.u32 r2, %cluster_ctarank; xor.b32 r2, r2, 1; mapa.shared::cluster.u32 r3, r1, r2; ld.shared::cluster.u32 r4, [r3];
st.global.u32 [l0], r4; barrier.cluster.arrive; barrier.cluster.wait; ret;
}
"""


@needs_tools
def test_clusters_are_those_that_the_cubin_asks_for(tmp_path: Path) -> None:
    (tmp_path / "k.ptx").write_text(CLUSTER)
    out = tcsim.zeros(4, np.uint32)
    tcsim.RawModule(path=cubin(tmp_path / "k.ptx", 90, tmp_path)).get_function("k")((4,), (32,), (out,))
    assert out.get().tolist() == [1, 0, 3, 2]


CLUSTERED = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out) .explicitcluster .reqnctapercluster 2, 1, 1
{
.reg .b64 l<3>; .reg .b32 r<3>;
ld.param.u64 l0, [out]; mov.u32 r0, %ctaid.x; mul.wide.u32 l1, r0, 4; add.u64 l0, l0, l1;
mov.u32 r1, %cluster_nctarank; st.global.u32 [l0], r1; ret;
}
"""


@needs_tools
def test_a_cubin_says_how_large_its_clusters_are(tmp_path: Path) -> None:
    (tmp_path / "clustered.ptx").write_text(CLUSTERED)
    out = tcsim.zeros(4, np.uint32)
    tcsim.RawModule(path=cubin(tmp_path / "clustered.ptx", 90, tmp_path)).get_function("k")((4,), (1,), (out,))
    assert out.get().tolist() == [2, 2, 2, 2]


@needs_tools
def test_the_command_line_takes_cubins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = cubin(TRACES / "kernels" / "vector_add.ptx", 90, tmp_path)
    words = ["run", str(file), "--kernel", "vector_add", "--grid", "1", "--block", "32"]
    words += ["--arg", "f32[32]:ones", "--arg", "f32[32]:ones", "--out", "f32[32]", "--arg", "s32:32"]
    assert main(words) == 0
    assert "[2, 2, 2, 2, 2, 2, ...]" in capsys.readouterr().out


@needs_tools
def test_a_fatbin_gives_the_best_code_for_the_device(tmp_path: Path) -> None:
    ptx = TRACES / "kernels" / "vector_add.ptx"
    parts = {sm: cubin(ptx, sm, tmp_path).read_bytes() for sm in (80, 86, 90)}
    assert [listing_of(fatbin(parts), sm, "k").target for sm in (80, 86, 89, 90)] == ["sm_80", "sm_86", "sm_86", "sm_90"]
    with pytest.raises(CubinError, match=r"k holds no machine code that runs on sm_75\. It has: sm_80, sm_86, sm_90"):
        listing_of(fatbin(parts), 75, "k")
    with pytest.raises(CubinError, match=r"its code is compressed\. Extract it with cuobjdump"):
        listing_of(fatbin(parts, compressed=100), 90, "k")
    with pytest.raises(CubinError, match="the fatbin ends in the middle"):
        listing_of(fatbin(parts)[:20], 90, "k")


@needs_tools
def test_what_cannot_run_is_told(tmp_path: Path) -> None:
    file = cubin(TRACES / "kernels" / "vector_add.ptx", 90, tmp_path)
    with tcsim.Device("a100"), pytest.raises(LaunchError, match="is machine code for sm_90, which does not run on sm_80"):
        tcsim.RawModule(path=file).get_function("saxpy")
    broken = tmp_path / "broken.cubin"
    broken.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(AssemblerError, match="nvdisasm refuses"):
        tcsim.RawModule(path=broken)
    texture = tmp_path / "texture.ptx"
    texture.write_text(
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 t, .param .u64 o) {\n"
        ".reg .u64 l<3>; .reg .f32 f<5>; .reg .s32 i; ld.param.u64 l1, [t]; ld.param.u64 l2, [o]; mov.s32 i, 3;\n"
        "tex.1d.v4.f32.s32 {f1, f2, f3, f4}, [l1, {i}]; st.global.f32 [l2], f1; ret; }\n"
    )
    with pytest.raises(UnsupportedError, match=r"T(EX|LD)"):
        tcsim.RawModule(path=cubin(texture, 90, tmp_path)).get_function("k")


@pytest.mark.parametrize(
    ("target", "sm", "runs"),
    [("sm_80", 80, True), ("sm_80", 86, True), ("sm_86", 80, False), ("sm_80", 90, False), ("sm_90a", 90, True)],
)
def test_where_machine_code_runs(target: str, sm: int, runs: bool) -> None:
    assert runs_on(target, sm) == runs
