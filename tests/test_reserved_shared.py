"""Shared memory that the system reserves: kernels find it (as cooperative groups do for tiles of several warps) and their own
memory does not overlap it, as PTX and as machine code, where it stands before that (sm_90) or behind it."""

from __future__ import annotations

import numpy as np
import pytest

import tcsim
from isa.reserved import all_shared, reserved_behind
from isa.sass.toolchain import find_nvdisasm, find_ptxas

KERNEL = """.version 8.0
.target sm_80
.address_size 64
.extern .shared .align 16 .b32 more[];
.visible .entry k(.param .u64 out)
{
.reg .b32 x<12>; .reg .b64 l<3>; .shared .b32 mine[40];
mov.u32 x0, %tid.x; ld.param.u64 l0, [out]; mul.wide.u32 l1, x0, 4; add.u64 l0, l0, l1;
shl.b32 x1, x0, 2;
mov.u32 x2, mine; add.u32 x2, x2, x1; mov.u32 x3, more; add.u32 x3, x3, x1;
mov.u32 x4, %reserved_smem_offset_1; add.u32 x4, x4, x1;
st.shared.u32 [x2], x0; add.u32 x5, x0, 100; st.shared.u32 [x3], x5; add.u32 x5, x0, 1000; st.shared.u32 [x4], x5;
bar.sync 0;
xor.b32 x6, x1, 4; sub.u32 x2, x2, x1; add.u32 x2, x2, x6; sub.u32 x3, x3, x1; add.u32 x3, x3, x6;
sub.u32 x4, x4, x1; add.u32 x4, x4, x6;
ld.shared.u32 x7, [x2]; ld.shared.u32 x8, [x3]; ld.shared.u32 x9, [x4];
mad.lo.u32 x8, x8, 10000, x7; mad.lo.u32 x9, x9, 100000, x8;
st.global.u32 [l0], x9;
mov.u32 x10, %reserved_smem_offset_end; mov.u32 x11, %reserved_smem_offset_1; sub.u32 x10, x10, x11;
st.global.u32 [l0+128], x10;
ret;
}
"""


@pytest.mark.parametrize("execute", ["ptx", "machine"])
@pytest.mark.parametrize("device", ["a100", "h200"])
def test_a_kernel_finds_it_away_from_its_own(device: str, execute: str) -> None:
    if execute == "machine" and not (find_ptxas() and find_nvdisasm()):
        pytest.skip("ptxas and nvdisasm are not installed")
    with tcsim.Device(device, execute=execute):
        function = tcsim.RawModule(KERNEL).get_function("k")
        assert function.shared_size_bytes == 160
        out = tcsim.zeros(64, np.uint32)
        function((1,), (32,), (out,), shared_mem=128)
        other = np.arange(32, dtype=np.uint32) ^ 1
        assert out.get()[:32].tolist() == (other + 10000 * (other + 100) + 100000 * (other + 1000)).tolist()
        assert (out.get()[32:] == 0x120).all()


def test_it_stands_behind_whole_units_up_to_sm_89() -> None:
    assert (all_shared(0), reserved_behind(0)) == (1024, 0)
    assert (all_shared(160), reserved_behind(160)) == (1280, 256)
