"""What machine code leans on where threads of a warp are apart: yielding, uniform registers under a guard, packed barriers.

Seen in kernels of libcu++ and cooperative groups, whose outputs on an H200 the rules reproduce.
"""

from __future__ import annotations

import numpy as np
import pytest

import tcsim
from isa.sass.toolchain import find_nvdisasm, find_ptxas

pytestmark = pytest.mark.skipif(not (find_ptxas() and find_nvdisasm()), reason="ptxas and nvdisasm are not installed")

HEAD = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out)
{
.reg .b64 l<9>; .reg .b32 r<9>; .reg .pred p<4>;
.shared .align 8 .b64 bars[4]; .shared .align 4 .b32 lock; .shared .align 4 .b32 sum;
ld.param.u64 l0, [out]; mov.u32 r0, %tid.x; mul.wide.u32 l1, r0, 4; add.u64 l1, l0, l1;
setp.eq.u32 p0, r0, 0;
"""

LOCK = """
@p0 st.shared.u32 [lock], 0; @p0 st.shared.u32 [sum], 0;
bar.sync 0;
atom.shared.cas.b32 r1, [lock], 0, 1; setp.eq.u32 p1, r1, 0;
@p1 bra HAVE;
SPIN: nanosleep.u32 20;
atom.shared.cas.b32 r1, [lock], 0, 1; setp.ne.u32 p1, r1, 0;
@p1 bra SPIN;
HAVE: membar.cta;
ld.volatile.shared.u32 r2, [sum]; add.u32 r2, r2, 1; st.volatile.shared.u32 [sum], r2;
membar.cta;
atom.shared.exch.b32 r3, [lock], 0;
bar.sync 0;
ld.shared.u32 r4, [sum]; st.global.u32 [l1], r4;
ret; }
"""
"""The thread that has the lock waits to converge with those that spin for it: it is their yielding that lets it go on."""

OBJECTS = """
setp.lt.u32 p1, r0, 4; mov.u32 r1, bars; shl.b32 r2, r0, 3; add.u32 r1, r1, r2; add.u32 r3, r0, 32;
@!p1 bra MADE;
mbarrier.init.shared.b64 [r1], 7;
MADE: bar.sync 0;
and.b32 r2, r0, 3; shl.b32 r2, r2, 3; mov.u32 r1, bars; add.u32 r1, r1, r2;
setp.lt.u32 p1, r0, 4;
@p1 mbarrier.arrive.shared.b64 l2, [r1];
@p1 mbarrier.pending_count.b64 r4, l2;
@!p1 mov.u32 r4, 0;
st.global.u32 [l1], r4;
ret; }
"""
"""A loop takes the address of one lane after another to a uniform register, under the guard of those that are left."""

BARRIERS = """
ld.global.u32 r1, [l0]; ld.global.u32 r2, [l0+4]; bar.sync 0;
barrier.sync r1, r2;
setp.lt.u32 p1, r0, 5;
barrier.red.popc.u32 r3, r1, r2, p1;
st.global.u32 [l1], r3;
ret; }
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [(LOCK, [64] * 64), (OBJECTS, [7] * 4 + [0] * 60), (BARRIERS, [5] * 64)],
    ids=["lock", "objects", "barriers"],
)
def test_machine_code_gives_what_ptx_gives(body: str, expected: list[int]) -> None:
    module = tcsim.RawModule(HEAD + body)
    for execute in ("ptx", "machine"):
        with tcsim.Device("h200", execute=execute):
            out = tcsim.asarray(np.array([5, 64] + [0] * 62, np.uint32))
            function = module.get_function("k")
            assert (function.program.image is not None) == (execute == "machine")
            function((1,), (64,), (out,))
            assert out.get().tolist() == expected, execute
