"""HGMMA, QGMMA, IGMMA and BGMMA: machine code of ``wgmma`` gives what the PTX gives, however ptxas spells the operands."""

from __future__ import annotations

import numpy as np
import pytest

import tcsim
from isa.sass.operands import Matrices, Register, parse_operands
from isa.sass.registry import find_opcode, match_operands
from isa.sass.toolchain import find_nvdisasm, find_ptxas

needs_tools = pytest.mark.skipif(not (find_ptxas() and find_nvdisasm()), reason="ptxas and nvdisasm are not installed")

HEADER = ".version 8.7\n.target sm_90a\n.address_size 64\n"
KERNEL = """.visible .entry {name}(.param .u64 in, .param .u64 out)
{{
.reg .b32 %r<300>; .reg .b32 d<16>; .reg .b32 a<4>; .reg .b64 %l<20>; .reg .pred p1;
.shared .align 1024 .b8 sh[16384];
ld.param.u64 %l0, [in]; ld.param.u64 %l1, [out];
mov.u32 %r1, %tid.x; mul.wide.u32 %l5, %r1, 128; add.u64 %l6, %l0, %l5; add.u64 %l7, %l1, %l5;
mov.u32 %r2, sh; shl.b32 %r3, %r1, 7; add.u32 %r4, %r2, %r3;
{fill}
bar.sync 0;
shr.u32 %r6, %r2, 4; cvt.u64.u32 %l8, %r6; mov.u64 %l9, {descriptor}; or.b64 %l2, %l8, %l9; add.u64 %l3, %l2, 512;
ld.global.u32 %r7, [%l0+16]; and.b32 %r7, %r7, 1; setp.ne.u32 p1, %r7, 0;
{loads}
fence.proxy.async;
wgmma.fence.sync.aligned;
wgmma.mma_async.{line};
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
{stores}
ret;
}}
"""
D4, D8, A = ("{" + ", ".join(f"{letter}{i}" for i in range(n)) + "}" for letter, n in (("d", 4), ("d", 8), ("a", 4)))
LINES = {
    "shared": (f"sync.aligned.m64n16k16.f32.f16.f16 {D8}, %l2, %l3, p1, 1, 1, 0, 0", 8),
    "negated_transposed": (f"sync.aligned.m64n16k16.f32.f16.f16 {D8}, %l2, %l3, 1, -1, 1, 0, 1", 8),
    "without_d": (f"sync.aligned.m64n16k16.f32.bf16.bf16 {D8}, %l2, %l3, 0, 1, -1, 1, 0", 8),
    "registers": (f"sync.aligned.m64n16k16.f16.f16.f16 {D4}, {A}, %l3, p1, -1, 1, 1", 4),
    "tf32": (f"sync.aligned.m64n16k8.f32.tf32.tf32 {D8}, %l2, %l3, p1, 1, 1", 8),
    "fp8": (f"sync.aligned.m64n16k32.f16.e5m2.e5m2 {D4}, {A}, %l3, p1, 1, -1", 4),
    "sparse": (f"sp.sync.aligned.m64n16k32.f32.f16.f16 {D8}, %l2, %l3, 0x44444444, 1, p1, 1, 1, 0, 1", 8),
}


def kernel(name: str) -> str:
    line, count = LINES[name]
    return KERNEL.format(
        name=name,
        line=line.replace("0x44444444", "%r8"),
        descriptor=8 << 16 | 16 << 32,
        fill=" ".join(f"ld.global.u32 %r5, [%l6+{4 * i}]; st.shared.u32 [%r4+{4 * i}], %r5;" for i in range(32)),
        loads="mov.u32 %r8, 0x44444444; "
        + " ".join(f"ld.global.u32 d{i}, [%l6+{64 + 4 * i}];" for i in range(count))
        + " ".join(f"ld.global.u32 a{i}, [%l6+{20 + 4 * i}];" for i in range(4)),
        stores=" ".join(f"st.global.u32 [%l7+{4 * i}], d{i};" for i in range(count)),
    )


@needs_tools
@pytest.mark.parametrize("name", LINES)
def test_machine_code_gives_what_ptx_gives(name: str) -> None:
    module = tcsim.RawModule(HEADER + kernel(name))
    halves = np.random.default_rng(1).normal(0, 1, (128, 64)).astype(np.float16).view(np.uint32)
    results = []
    for execute in ("ptx", "machine"):
        with tcsim.Device("h200", execute=execute):
            out = tcsim.zeros((128, 32), np.uint32)
            function = module.get_function(name)
            function(1, 128, (tcsim.asarray(halves), out))
            results.append(out.get())
            opcodes = function.program.opcodes
    assert any("GMMA" in opcode for opcode in opcodes)
    assert results[0].any()
    assert np.array_equal(results[0], results[1])


@pytest.mark.parametrize(
    ("opcode", "operands", "names"),
    [
        ("HGMMA.64x16x16.F32", "R24, gdesc[UR4], R24, UP0", "d descriptors c scale_d"),
        ("HGMMA.64x256x16.F32.BF16", "R24, gdesc[UR4].negA.tnspB, RZ, !UPT", "d descriptors c scale_d"),
        ("HGMMA.64x16x16.F16", "R24, -R28, gdesc[UR4].tnspB, R24", "d a descriptors c"),
        ("QGMMA.64x16x32.F32.E4M3.E5M2", "R24, gdesc[UR4], R24, UP0", "d descriptors c scale_d"),
        ("IGMMA.64x16x32.U8.U8.SAT", "R24, R32, gdesc[UR4], R24, UP0", "d a descriptors c scale_d"),
        ("BGMMA.64x16x256.AND.POPC", "R24, gdesc[UR4], R24, UP0", "d descriptors c scale_d"),
        ("HGMMA.SP.64x16x32.F32", "R24, gdesc[UR4].tnspB, R24, UP0, R32, 0x1", "d descriptors c scale_d metadata selector"),
        ("IGMMA.SP.64x16x64.S8.S8", "R24, R32, gdesc[UR4], R24, UP0, R37", "d a descriptors c scale_d metadata"),
    ],
)
def test_operands_of_a_warpgroup_s_instructions(opcode: str, operands: str, names: str) -> None:
    forms, why = find_opcode(opcode)
    assert why == ""
    matched = match_operands(forms[0], parse_operands(operands))
    assert matched is not None
    assert [name for name, value in matched.items() if value is not None] == names.split()


def test_matrix_descriptors_are_read() -> None:
    assert parse_operands("gdesc[UR4].negA.tnspB") == (Matrices(Register("UR", 4), ("negA", "tnspB")),)
