"""What a module's target does not have is refused when it is loaded, with what comes nearest."""

from __future__ import annotations

import pytest

import tcsim
from isa.tensor import SPARSE_FORMS
from isa.tensor.forms import nearest_forms
from tcsim.errors import UnsupportedError

FRAME = """.version 8.7
.target {target}
.address_size 64
.visible .entry k()
{{
    .reg .b32 %r<16>; .reg .f32 %f<8>; .reg .f64 %d<4>; .reg .b16 %h<4>; .reg .b64 %rd<4>;
    {body}
    ret;
}}
"""
FLOATS, FOUR, TWO = "{%f0, %f1, %f2, %f3}", "{%r0, %r1, %r2, %r3}", "{%r4, %r5}"


@pytest.mark.parametrize(
    ("target", "body", "message"),
    [
        ("sm_80", f"mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {FLOATS}, {FOUR}, {TWO}, {FLOATS};",
         "needs sm_89 or later, this is sm_80.*nearest there: mma.sync.m16n8k16.row.col.f32.f16.f16.f32"),
        ("sm_75", "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%d0, %d1}, {%d2}, {%d3}, {%d0, %d1};",
         "needs sm_80 or later, this is sm_75"),
        ("sm_90a", f"mma.sync.aligned.m16n8k12.row.col.f32.f16.f16.f32 {FLOATS}, {FOUR}, {TWO}, {FLOATS};",
         "not with .m16n8k12; nearest: .m16n8k16 .m16n8k8"),
        ("sm_90a", "wgmma.mma_async.sync.aligned.m64n12k16.f32.f16.f16 {%f0, %f1}, %rd0, %rd1, 1, 1, 1, 0, 0;",
         "not with .m64n12k16; nearest: .m64n16k16 .m64n8k16"),
        ("sm_90a", f"wmma.load.a.sync.aligned.row.m16n16k16.tf32 {FOUR}, [%rd0];", "of .tf32 has shape m16n16k8"),
        ("sm_75", "cvt.rn.bf16.f32 %h0, %f0;", "needs sm_80 or later, and the module is for sm_75.*Try compiling for sm_80"),
        ("sm_80", "cvt.rn.satfinite.e4m3x2.f32 %h0, %f0, %f1;", "needs sm_89 or later"),
        ("sm_90", "add.rn.f32.f16x %f0, %h0, %f1;", "nearest: .f16x2 .f16"),
    ],
)  # fmt: skip
def test_what_a_target_lacks(target: str, body: str, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        tcsim.RawModule(code=FRAME.format(target=target, body=body))


def test_what_it_has_is_taken() -> None:
    for target in ("sm_80", "sm_89", "sm_90a", "sm_120"):
        tcsim.RawModule(code=FRAME.format(target=target, body="cvt.rn.bf16.f32 %h0, %f0;"))


def test_an_architecture_without_any() -> None:
    assert nearest_forms(SPARSE_FORMS[0], 75) == "none, sm_75 has no mma.sp"
