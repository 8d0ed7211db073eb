"""What ``tcsim run`` says about how its results are known."""

from __future__ import annotations

from pathlib import Path

import pytest

from isa.ptx import parse
from tcsim.cli.app import main
from tcsim.numerics.badge import badge

KERNEL = """.version 8.7
.target sm_100a
.address_size 64
.func helper(.param .b32 x)
{
    .reg .b32 %r<3>; .reg .f32 %f<3>;
    redux.sync.max.f32 %f0, %f1, -1;
    ret;
}
.visible .entry k()
{
    .reg .b32 %r<9>; .reg .f32 %f<4>; .reg .b16 %h<2>;
    cvt.rs.f16x2.f32 %r0, %f0, %f1, %r1;
    min.f32 %f0, %f1, %f2, %f3;
    mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
        {%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%f0, %f1, %f2, %f3};
    add.f32 %f0, %f0, %f1;
    {
        .param .b32 p;
        st.param.b32 [p], %r0;
        call helper, (p);
    }
    ret;
}
"""


def test_every_kind_of_evidence_is_told() -> None:
    lines = badge(parse(KERNEL), "k", 100)
    assert lines[0].startswith("how this is known: ") and lines[0].endswith("instructions are verified on hardware")
    rest = "\n".join(lines[1:])
    assert "hypothesis: cvt.rs.f16x2.f32" in rest
    assert "by specification: " in rest and "redux.sync.max.f32" in rest  # of the function that it calls
    assert "mma.sync" not in rest  # sm_100 is verified, by others' recordings of a B200
    assert "published, not checked here: mma.sync.aligned" in "\n".join(badge(parse(KERNEL), "k", 120))
    assert "hypothesis: cvt.rs.f16x2.f32, mma.sync.aligned" in "\n".join(badge(parse(KERNEL), "k", 60))


@pytest.mark.parametrize(("device", "line"), [("h200", "32 of 32"), ("rtx5090", "31 of 32")])
def test_a_run_says_how_its_results_are_known(device: str, line: str, capsys: pytest.CaptureFixture[str], traces: Path) -> None:
    assert main(["run", str(traces / "gemm_f16_small"), "--device", device]) == 0
    shown = capsys.readouterr().out
    assert f"how this is known: {line} instructions are verified on hardware" in shown
    assert ("published, not checked here: mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32" in shown) == (device == "rtx5090")
