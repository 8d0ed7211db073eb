"""In which order the sides of a divergence run as machine code: as clocks on an H200 said, of 2,048 warps of each kind, however
many warps ran beside them."""

from __future__ import annotations

import numpy as np
import pytest

import tcsim
from isa.sass.toolchain import find_nvdisasm, find_ptxas

pytestmark = pytest.mark.skipif(not (find_ptxas() and find_nvdisasm()), reason="ptxas and nvdisasm are not installed")

# Each side takes a ticket: its lanes write down how many lanes took one before.
KERNEL = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 sides, .param .u64 out)
{{
.reg .b32 r<12>; .reg .b64 l<5>; .reg .pred p<20>; .shared .b32 tickets;
mov.u32 r0, %tid.x; mul.wide.u32 l1, r0, 4; ld.param.u64 l0, [sides]; add.u64 l0, l0, l1; ld.global.u32 r1, [l0];
ld.param.u64 l2, [out]; add.u64 l2, l2, l1; mov.u32 r2, tickets; st.shared.u32 [r2], 0; mov.u32 r9, r0; bar.sync 0;
{body}
}}
"""
TICKET = "atom.shared.add.u32 r3, [r2], 32; shr.u32 r4, r3, 5; st.global.u32 [l2], r4; add.u32 r9, r9, {number}; "
TICKET += "st.global.u32 [l2+128], r9; ret;"
SIDES = f"setp.ne.u32 p0, r1, 0; @p0 bra B; {TICKET.format(number=1)} B: {TICKET.format(number=2)}"
INDEXED = "ts: .branchtargets {}; brx.idx r1, ts; {}".format(
    ", ".join(f"L{n}" for n in range(6)), " ".join(f"L{n}: {TICKET.format(number=n)}" for n in range(6))
)

# The target of each lane, and the targets in the order in which an H200 (driver 580.159.04, 2026-11-30) took them.
RECORDED = [
    ("12525500554505332055505530234505", "120435"),
    ("01202210245022022201244312220110", "014532"),
    ("54455545434543554505550005332440", "54320"),
    ("54044405444444444544043344344404", "5034"),
    ("20202252222320225225233320222300", "0532"),
    ("40111010402200111014405411101001", "40251"),
]


def order(body: str, sides: list[int]) -> str:
    """The sides as they took their tickets."""
    with tcsim.Device("h200", execute="machine"):
        function = tcsim.RawModule(KERNEL.format(body=body)).get_function("k")
        assert function.program.image is not None
        out = tcsim.zeros(64, np.uint32)
        function((1,), (32,), (tcsim.asarray(np.array(sides, np.uint32)), out))
    first: dict[int, int] = {}
    for side, ticket in zip(sides, out.get()[:32].tolist(), strict=True):
        first[side] = min(ticket, first.get(side, ticket))
    return "".join(str(side) for side in sorted(first, key=first.__getitem__))


@pytest.mark.parametrize(("taken", "expected"), [(1, "10"), (15, "10"), (16, "01"), (17, "01"), (31, "01")])
def test_the_smaller_side_of_a_branch_runs_first_and_of_equal_ones_that_which_falls_through(taken: int, expected: str) -> None:
    sides = np.random.default_rng(taken).permutation(32) < taken
    assert order(SIDES, sides.astype(int).tolist()) == expected


@pytest.mark.parametrize(("sides", "expected"), RECORDED)
def test_an_indexed_branch_takes_its_targets_in_the_hardware_s_order(sides: str, expected: str) -> None:
    assert order(INDEXED, [int(side) for side in sides]) == expected


# The target of all lanes, from a parameter: ptxas makes it a BRXU, a jump by a uniform register.
ALIKE = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out, .param .u32 way)
{
.reg .b32 r<4>; .reg .b64 l<3>;
ld.param.u64 l0, [out]; ld.param.u32 r0, [way]; min.u32 r0, r0, 3;
mov.u32 r1, %tid.x; mul.wide.u32 l1, r1, 4; add.u64 l0, l0, l1;
ts: .branchtargets A, B, C, D;
brx.idx r0, ts;
A: mul.lo.u32 r2, r1, 7; bra E;
B: xor.b32 r2, r1, 99; bra E;
C: ld.global.u32 r2, [l0]; add.u32 r2, r2, 1000; bra E;
D: shl.b32 r2, r1, 4;
E: st.global.u32 [l0], r2; ret;
}
"""


def test_all_lanes_of_a_warp_jump_by_a_uniform_register() -> None:
    lane = np.arange(32, dtype=np.uint32)
    with tcsim.Device("h200", execute="machine"):
        function = tcsim.RawModule(ALIKE).get_function("k")
        assert "BRXU" in function.program.opcodes
        for way, expected in enumerate((7 * lane, lane ^ 99, 0 * lane + 1000, lane << 4)):
            out = tcsim.zeros(32, np.uint32)
            function((1,), (32,), (out, np.uint32(way)))
            assert out.get().tolist() == expected.tolist()
