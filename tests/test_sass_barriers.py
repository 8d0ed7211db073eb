"""mbarriers, parameters in memory and uniform predicates, as ptxas spells them for each architecture, against PTX.

Up to sm_89 an mbarrier is an agreement of ptxas's programs about 64 bits of shared memory; sm_90 has instructions.
"""

from __future__ import annotations

import numpy as np
import pytest

import tcsim
from isa.sass.toolchain import find_nvdisasm, find_ptxas

pytestmark = pytest.mark.skipif(not (find_ptxas() and find_nvdisasm()), reason="ptxas and nvdisasm are not installed")

HEAD = ".version 8.7\n.target {target}\n.address_size 64\n"
START = """{
.reg .b64 l<9>; .reg .b32 r<9>; .reg .pred p<4>;
.shared .align 8 .b64 bar;
ld.param.u64 l0, [out]; mov.u32 r0, %tid.x; mul.wide.u32 l1, r0, 32; add.u64 l0, l0, l1;
"""

PHASES = """.visible .entry k(.param .u64 out)
{
setp.eq.u32 p0, r0, 0;
@p0 mbarrier.init.shared.b64 [bar], 64;
bar.sync 0;
mbarrier.arrive.shared.b64 l1, [bar];
W1: mbarrier.test_wait.shared.b64 p1, [bar], l1;
@!p1 bra W1;
setp.lt.u32 p2, r0, 32;
@p2 bra DROP;
mbarrier.arrive.shared.b64 l2, [bar];
bra W2;
DROP: mbarrier.arrive_drop.shared.b64 l2, [bar];
W2: mbarrier.test_wait.shared.b64 p1, [bar], l2;
@!p1 bra W2;
bar.sync 0;
@p2 bra END;
setp.lt.u32 p3, r0, 48;
mov.u64 l6, bar; cvta.shared.u64 l6, l6;
cp.async.mbarrier.arrive.shared.b64 [bar];
mov.u32 r5, 7;
@!p3 mbarrier.arrive.noComplete.shared.b64 l4, [bar], 1;
@!p3 mbarrier.pending_count.b64 r5, l4;
st.global.u32 [l0+8], r5;
bar.warp.sync -1;
@p3 mbarrier.arrive.b64 l3, [l6];
@!p3 bra END;
W3: mbarrier.test_wait.shared.b64 p1, [bar], l3;
@!p1 bra W3;
END:
bar.sync 0;
mbarrier.pending_count.b64 r1, l2;
st.global.u32 [l0], r1;
mbarrier.arrive.shared.b64 l5, [bar];
mbarrier.pending_count.b64 r1, l5;
st.global.u32 [l0+4], r1;
ret;
}
"""

PLACES = """.visible .entry k(.param .u64 out, .param .u32 given)
{
mov.b64 l2, given; cvta.param.u64 l2, l2;
isspacep.param p0, l2; selp.u32 r1, 1, 0, p0;
isspacep.param p1, l0; selp.u32 r2, 1, 0, p1;
fence.proxy.alias;
ld.u32 r3, [l2];
st.global.v2.u32 [l0], {r1, r2}; st.global.u32 [l0+8], r3;
ret;
}
"""


@pytest.mark.parametrize(("target", "device"), [("sm_80", "a100"), ("sm_90", "h200")])
@pytest.mark.parametrize(("text", "arguments"), [(PHASES, ()), (PLACES, (np.uint32(77),))], ids=["phases", "places"])
def test_machine_code_agrees_with_ptx(target: str, device: str, text: str, arguments: tuple[np.uint32, ...]) -> None:
    module = tcsim.RawModule(HEAD.format(target=target) + text.replace("{\n", START, 1))
    found = []
    for execute in ("ptx", "machine"):
        with tcsim.Device(device, execute=execute):
            out = tcsim.zeros((64, 8), np.uint32)
            module.get_function("k")((1,), (64,), (out, *arguments))
            found.append(out.get())
    np.testing.assert_array_equal(found[0], found[1])
    assert found[0][:, :2].any()


STATES = """.visible .entry k(.param .u64 out)
{
.shared .align 8 .b64 two[2];
mov.u32 r8, two; and.b32 r1, r0, 1; shl.b32 r2, r1, 3; add.u32 r3, r8, r2; and.b32 r5, r0, 3; add.u32 r5, r5, 1;
setp.eq.u32 p0, r0, 0;
@p0 mbarrier.init.shared.b64 [two], 1000;
@p0 mbarrier.init.shared.b64 [two+8], 500;
bar.sync 0;
mbarrier.arrive.noComplete.shared.b64 l5, [two], 2;
mbarrier.arrive.noComplete.shared.b64 l6, [r3], r5;
st.global.v2.b64 [l0], {l5, l6};
ret;
}
"""


def test_states_of_lanes_that_arrive_together() -> None:
    module = tcsim.RawModule(HEAD.format(target="sm_90") + STATES.replace("{\n", START, 1))
    found = []
    for execute in ("ptx", "machine"):
        with tcsim.Device("h200", execute=execute):
            out = tcsim.zeros((32, 4), np.uint64)
            module.get_function("k")((1,), (32,), (out,))
            found.append(out.get())
    np.testing.assert_array_equal(found[0], found[1])
    # What an H200 returned (driver 580.159): an object that expects 1,000, and 2 arrivals of each lane.
    expected = 0x7FE0_C000_FFFF_FFFF + (np.arange(32, dtype=np.uint64) << np.uint64(44))
    np.testing.assert_array_equal(found[0][:, 0], expected)
