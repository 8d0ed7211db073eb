"""Kernels whose threads wait for each other in loops: they execute when their time has come."""

from __future__ import annotations

import numpy as np
import pytest
from kernels import kernel
from timing_support import empty_memory

import tcsim
from tcsim.profile import LaunchProfile
from tcsim.timing.spinning import time_dependent

LOCKED = """
    setp.ne.u32 %p1, tid, 0;
    @%p1 bra DONE;
LOCK:
    atom.global.cas.b32 %r1, [pin], 0, 1;
    setp.ne.u32 %p2, %r1, 0;
    @%p2 bra LOCK;
    membar.gl;
    ld.volatile.global.u32 %r2, [pin+128];
    add.u32 %r2, %r2, 1;
    st.volatile.global.u32 [pin+128], %r2;
    membar.gl;
    atom.global.exch.b32 %r3, [pin], 0;
DONE:"""
COUNTED = "mov.u32 %r9, 0; L: atom.global.add.u32 %r1, [pin], 1; add.u32 %r9, %r9, 1; setp.lt.u32 %p1, %r9, 4; @%p1 bra L;"
CHASED = "mov.u64 %rd2, pin; L: ld.global.u64 %rd2, [%rd2]; setp.ne.u64 %p1, %rd2, 0; @%p1 bra L;"
STOLEN = "L: atom.global.add.u32 %r1, [pin], 1; mul.lo.u32 %r2, %r1, 3; setp.lt.u32 %p1, %r2, 64; @%p1 bra L;"


@pytest.mark.parametrize(
    "body, opcodes",
    [
        (LOCKED, ["atom.global.cas.b32", "ld.volatile.global.u32", "st.volatile.global.u32", "atom.global.exch.b32"]),
        (STOLEN, ["atom.global.add.u32"]),
        (COUNTED, []),
        (CHASED, []),
    ],
)
def test_only_loops_that_wait_for_others_depend_on_time(body: str, opcodes: list[str]) -> None:
    program = tcsim.RawModule(code=kernel(body)).get_function("k").program
    assert [program.opcodes[pc] for pc in np.flatnonzero(time_dependent(program))] == opcodes


def contended(grid: int) -> list[LaunchProfile]:
    """CTAs that take a lock once each, on both engines."""
    found = []
    for engine in ("compiled", "simpy"):
        empty_memory()
        function = tcsim.RawModule(code=kernel(LOCKED)).get_function("k")
        buffer = tcsim.zeros(64, np.uint32)
        with tcsim.Profiler(engine=engine, code="ptx") as profiler:  # type: ignore[arg-type]
            function((grid,), (32,), (tcsim.zeros(32, np.uint32), buffer))
        assert buffer.get()[[0, 32]].tolist() == [0, grid]
        found += profiler.launches
    return found


def test_those_who_wait_for_a_lock_get_it_one_after_another() -> None:
    alone, few, many = contended(1), contended(3), contended(9)
    for one, other in (alone, few, many):
        assert (one.cycles, one.metrics, one.stalls) == (other.cycles, other.metrics, other.stalls)
    # Asking, two fences, a load and giving back take about 2 000 cycles on an H200, however many wait.
    each = (many[0].cycles - few[0].cycles) / 6
    assert 1000 < each < 3000
    asked = [profile.metrics["smsp__inst_executed.sum"] for profile, _ in (alone, few, many)]
    assert asked[1] > 3 * asked[0] + 20 and asked[2] > 9 * asked[0] + 300  # and they ask all the time


def test_a_loop_spins_by_way_of_shared_memory() -> None:
    """One thread tries for a lock and tells the others through shared memory, as Triton's compiler has it."""
    loop = "L: atom.global.cas.b32 %r1, [pin], 0, 1; {}; ld.shared.u32 %r2, [box]; setp.eq.u32 %p1, %r2, 1; @%p1 bra L;"
    loop += "add.u32 result, %r1, %r2;"
    declarations = ".shared .align 16 .b8 box[64];"
    for spins, between in ((True, "st.shared.u32 [box], %r1"), (False, "st.shared.u32 [box], 7")):
        program = tcsim.RawModule(code=kernel(loop.format(between), declarations=declarations)).program("k", 90)
        assert time_dependent(program).any() == spins
