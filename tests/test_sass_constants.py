"""Generic addresses of ``.const`` variables in machine code, as clang's ``-O0`` uses them: bank 0 says where bank 3 lies."""

from __future__ import annotations

import numpy as np
import pytest

import tcsim
from isa.sass.toolchain import find_nvdisasm, find_ptxas

pytestmark = pytest.mark.skipif(not (find_ptxas() and find_nvdisasm()), reason="ptxas and nvdisasm are not installed")

# ``table`` is reached through cvta.const, and through its address as another constant holds it.
SOURCE = """.version 7.8
.target sm_80
.address_size 64
.const .align 4 .b8 before[1024];
.const .align 4 .b32 table[4] = {11, 22, 33, 44};
.const .align 8 .u64 place = generic(table)+4;
.visible .entry k(.param .u64 out)
{
.reg .b64 l<9>; .reg .b32 r<9>; .reg .pred p;
ld.param.u64 l0, [out]; mov.u32 r0, %tid.x; mul.wide.u32 l1, r0, 4; add.u64 l0, l0, l1;
mov.u64 l2, table; cvta.const.u64 l2, l2; and.b32 r1, r0, 3; mul.wide.u32 l3, r1, 4; add.u64 l2, l2, l3;
ld.u32 r2, [l2];
cvta.to.const.u64 l4, l2; ld.const.u32 r3, [l4]; mad.lo.u32 r2, r3, 100, r2;
ld.const.u64 l5, [place]; ld.u32 r4, [l5]; mad.lo.u32 r2, r4, 10000, r2;
isspacep.const p, l2; selp.u32 r5, 1000000, 0, p; add.u32 r2, r2, r5;
ld.param.u64 l6, [out]; isspacep.global p, l6; selp.u32 r6, 2000000, 0, p; add.u32 r2, r2, r6;  // [RZ.U32+UR4] on sm_90
st.global.u32 [l0], r2;
ret;
}
"""


@pytest.mark.filterwarnings("error::tcsim.errors.UnsupportedWarning")
@pytest.mark.parametrize("device", ["a100", "h200"])
@pytest.mark.parametrize("execute", ["ptx", "machine"])
def test_constants_are_found_at_generic_addresses(device: str, execute: str) -> None:
    with tcsim.Device(device, execute=execute):
        out = tcsim.zeros(32, np.uint32)
        tcsim.RawModule(code=SOURCE).get_function("k")((1,), (32,), (out,))
        got = out.get()
    table = np.array([11, 22, 33, 44])[np.arange(32) % 4]
    assert got.tolist() == (table * 101 + 220_000 + 3_000_000).tolist()


SIZES = """
.version 8.0
.target sm_80
.address_size 64
.const .align 2 .b8 odd[6] = {1, 0, 2, 0, 3, 0};
.const .align 8 .u64 next = 40;
.const .align 1 .b8 last[3] = {5, 6, 7};
.visible .entry k(.param .u64 out)
{
.reg .b64 l<3>; .reg .b32 r<5>;
ld.param.u64 l0, [out]; mov.u32 r0, %tid.x; mul.wide.u32 l1, r0, 2; mov.u64 l2, odd; add.u64 l2, l2, l1;
ld.const.u16 r1, [l2]; ld.const.u32 r2, [next]; ld.const.u8 r3, [last+2]; add.u32 r1, r1, r2; add.u32 r1, r1, r3;
mul.wide.u32 l1, r0, 4; add.u64 l0, l0, l1; st.global.u32 [l0], r1; ret;
}
"""


@pytest.mark.parametrize("device", ["a100", "h200"])
def test_variables_end_before_their_padding(device: str) -> None:
    """A listing gives the distance to the next variable, which is more than the bytes of one whose size is no multiple of its
    neighbour's alignment."""
    with tcsim.Device(device, execute="machine"):
        out = tcsim.zeros(3, np.uint32)
        tcsim.RawModule(code=SIZES).get_function("k")((1,), (3,), (out,))
        assert out.get().tolist() == [48, 49, 50]


FAR = """
.version 8.0
.target sm_80
.address_size 64
.const .align 4 .b32 table[16384];
.visible .entry k(.param .u64 out)
{
.reg .b64 l<4>; .reg .b32 r<8>;
ld.param.u64 l0, [out]; mov.u32 r0, %tid.x; mul.wide.u32 l1, r0, 4; add.u64 l0, l0, l1; mov.u64 l2, table; add.u64 l2, l2, l1;
ld.const.u32 r1, [table+32768]; ld.const.v2.u32 {r2, r3}, [table+65528]; ld.const.u32 r4, [l2+40000];
mad.lo.u32 r1, r1, 3, r2; mad.lo.u32 r1, r1, 5, r3; mad.lo.u32 r1, r1, 7, r4; st.global.u32 [l0], r1; ret;
}
"""


@pytest.mark.parametrize("device", ["a100", "h200"])
def test_banks_of_more_than_32_kilobytes_are_read_to_their_end(device: str) -> None:
    """Listings show offsets from 0x8000 on as negative ones; beside a register ptxas means them so."""
    values = 7 * np.arange(16384, dtype=np.uint32) + 1
    with tcsim.Device(device, execute="machine"):
        module, out = tcsim.RawModule(code=FAR), tcsim.zeros(32, np.uint32)
        module.get_global("table").set(values)
        module.get_function("k")((1,), (32,), (out,))
        first = (values[8192] * 3 + values[16382]) * 5 + values[16383]
        assert out.get().tolist() == (first * 7 + values[10000:10032]).tolist()


@pytest.mark.parametrize("device", ["a100", "h200"])
def test_a_kernel_without_parameters_has_the_banks_of_its_architecture(device: str) -> None:
    """ptxas says where parameters start only if there are any; what a launch writes of itself lies before that."""
    source = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\nret;\n}\n"
    with tcsim.Device(device, execute="machine"):
        function = tcsim.RawModule(code=source).get_function("k")
        function((2,), (32,), ())
        assert function.instructions >= 2
