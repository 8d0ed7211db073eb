"""Threads of a warp that go different ways: values, meeting again, independent progress, barriers, deadlocks."""

from __future__ import annotations

import numpy as np
import pytest

import tcsim
from tcsim.errors import DeadlockError, KernelFault
from tests.kernels import kernel, run

LANES = np.arange(32)


def test_branches_of_a_warp_compute_their_own_values() -> None:
    got = run(
        """
        setp.lt.u32 %p1, lane, 10;
        @%p1 bra LOW;
        add.u32 result, lane, 1000;
        bra.uni JOIN;
    LOW:
        mad.lo.u32 result, lane, 3, 7;
    JOIN:
        add.u32 result, result, 1;
        """
    )
    np.testing.assert_array_equal(got, np.where(LANES < 10, LANES * 3 + 8, LANES + 1001))


def test_lanes_meet_again_after_a_branch() -> None:
    """All 32 lanes are active again at the join."""
    got = run(
        """
        setp.lt.u32 %p1, lane, 5;
        @%p1 bra A;
        add.u32 result, result, 1;
    A:
        activemask.b32 result;
        """
    )
    np.testing.assert_array_equal(got, 0xFFFFFFFF)


def test_loops_of_different_length() -> None:
    """Lane i goes round i + 1 times and all meet behind the loop."""
    got = run(
        """
        mov.u32 %r1, 0;
    L:
        add.u32 %r1, %r1, 1;
        add.u32 result, result, %r1;
        setp.le.u32 %p1, %r1, lane;
        @%p1 bra L;
        activemask.b32 %r2;
        setp.ne.s32 %p2, %r2, -1;
        @%p2 mov.u32 result, 77777;
        """
    )
    np.testing.assert_array_equal(got, (LANES + 1) * (LANES + 2) // 2)


def test_nested_branches_and_early_exit() -> None:
    got = run(
        """
        setp.ge.u32 %p1, lane, 24;
        @%p1 st.global.u32 [slot], lane;
        @%p1 ret;
        setp.lt.u32 %p2, lane, 12;
        @%p2 bra A;
        setp.lt.u32 %p3, lane, 18;
        @%p3 bra B;
        mov.u32 result, 300;
        bra J2;
    B:
        mov.u32 result, 200;
    J2:
        add.u32 result, result, 5;
        bra J1;
    A:
        mov.u32 result, 100;
    J1:
        activemask.b32 %r1;
        add.u32 result, result, lane;
        setp.ne.u32 %p4, %r1, 0xffffff;
        @%p4 mov.u32 result, 99999;
        """
    )
    want = np.select([LANES >= 24, LANES < 12, LANES < 18], [LANES, 100 + LANES, 205 + LANES], 305 + LANES)
    np.testing.assert_array_equal(got, want)


def test_shuffle_waits_for_members_on_another_path() -> None:
    """The lower half meets the upper half at the shuffle of the other branch: same qualifiers, same mask, two places."""
    got = run(
        """
        setp.lt.u32 %p1, lane, 16;
        @%p1 bra LOW;
        mul.lo.u32 %r1, lane, 10;
        shfl.sync.bfly.b32 result, %r1, 16, 31, -1;
        bra.uni JOIN;
    LOW:
        mul.lo.u32 %r2, lane, 1000;
        add.u32 %r3, lane, 0;
        shfl.sync.bfly.b32 result, %r2, 16, 31, -1;
    JOIN:
        """
    )
    np.testing.assert_array_equal(got, np.where(LANES < 16, (LANES + 16) * 10, (LANES - 16) * 1000))


def test_shuffle_in_one_branch_with_its_own_mask() -> None:
    got = run(
        """
        setp.ge.u32 %p1, lane, 8;
        @%p1 bra OUT;
        shfl.sync.up.b32 result|%p2, lane, 1, 0, 0xff;
        @!%p2 mov.u32 result, 500;
    OUT:
        """
    )
    np.testing.assert_array_equal(got, np.where(LANES >= 8, 0, np.where(LANES == 0, 500, LANES - 1)))


def test_lanes_with_different_masks_at_one_instruction() -> None:
    """Groups of equal keys, as match.any gives them, each vote among themselves."""
    got = run(
        """
        setp.lt.u32 %p1, lane, 20;
        selp.b32 %r1, 0x000fffff, 0xfff00000, %p1;
        setp.eq.u32 %p2, lane, 25;
        vote.sync.any.pred %p3, %p2, %r1;
        selp.b32 result, 1, 0, %p3;
        """
    )
    np.testing.assert_array_equal(got, LANES >= 20)


def test_threads_of_a_warp_can_wait_for_each_other() -> None:
    """Lane 0 spins on a flag that lane 1 sets after the branch: only independent thread scheduling gets past it."""
    got = run(
        """
        setp.ne.u32 %p1, lane, 0;
        @%p1 bra SETTER;
    SPIN:
        ld.volatile.global.u32 %r1, [pin];
        setp.eq.u32 %p2, %r1, 0;
        @%p2 bra SPIN;
        bra JOIN;
    SETTER:
        mov.u32 %r1, 5;
    JOIN:
        st.volatile.global.u32 [pin], 1;
        add.u32 result, %r1, 1;
        """
    )
    np.testing.assert_array_equal(got, np.where(LANES == 0, 2, 6))


def test_spin_lock_between_the_lanes_of_a_warp() -> None:
    got = run(
        """
    TRY:
        atom.global.cas.b32 %r1, [pin], 0, 1;
        setp.ne.u32 %p1, %r1, 0;
        @%p1 bra TRY;
        ld.volatile.global.u32 result, [pin+4];
        add.u32 %r2, result, 1;
        st.volatile.global.u32 [pin+4], %r2;
        atom.global.exch.b32 %r3, [pin], 0;
        """,
        64,
    )
    assert sorted(got) == list(range(64))


def test_the_holder_of_a_lock_need_not_wait_long_for_those_who_spin() -> None:
    """The others spin; what they read does not change before the holder, who waits to go on with them, goes on alone."""
    text = """
    TRY:
        atom.global.cas.b32 %r1, [pin], 0, 1;
        setp.ne.u32 %p1, %r1, 0;
        @%p1 bra TRY;
        ld.volatile.global.u32 result, [pin+4];
        add.u32 %r2, result, 1;
        st.volatile.global.u32 [pin+4], %r2;
        atom.global.exch.b32 %r3, [pin], 0;
    """
    function = tcsim.RawModule(code=kernel(text)).get_function("k")
    out, buffer = tcsim.zeros(32, np.uint32), tcsim.zeros(2, np.uint32)
    function((1,), (32,), (out, buffer))
    assert buffer.get()[1] == 32
    assert function.instructions < 32 * 20_000


def test_barrier_in_both_branches_counts_threads() -> None:
    got = run(
        """
        setp.lt.u32 %p1, lane, 16;
        @%p1 bra A;
        bar.sync 0;
        bra J;
    A:
        bar.sync 0;
    J:
        mov.u32 result, 1;
        """,
        96,
    )
    assert got.all()


def test_barrier_orders_warps() -> None:
    """Each warp reads what the next one wrote before the barrier."""
    got = run(
        """
        mul.lo.u32 %r1, tid, 4;
        mov.u32 %r2, buffer;
        add.u32 %r3, %r2, %r1;
        st.shared.u32 [%r3], tid;
        bar.sync 0;
        add.u32 %r4, tid, 32;
        setp.ge.u32 %p1, %r4, 128;
        @%p1 sub.u32 %r4, %r4, 128;
        mad.lo.u32 %r5, %r4, 4, %r2;
        ld.shared.u32 result, [%r5];
        """,
        128,
        declarations=".shared .align 4 .b8 buffer[512];",
    )
    np.testing.assert_array_equal(got, (np.arange(128) + 32) % 128)


def test_named_barrier_with_a_thread_count() -> None:
    """Warps 0 and 1 meet at barrier 3 while warps 2 and 3 never come."""
    got = run(
        """
        setp.ge.u32 %p1, tid, 64;
        @%p1 bra OUT;
        bar.sync 3, 64;
        mov.u32 result, 9;
    OUT:
        """,
        128,
    )
    np.testing.assert_array_equal(got, np.where(np.arange(128) < 64, 9, 0))


def test_arrive_and_sync() -> None:
    """A producer arrives without waiting; the consumer waits for it."""
    got = run(
        """
        mov.u32 %r2, buffer;
        setp.ge.u32 %p1, tid, 32;
        @%p1 bra CONSUMER;
        st.shared.u32 [%r2], 42;
        bar.arrive 1, 64;
        bra OUT;
    CONSUMER:
        bar.sync 1, 64;
        ld.shared.u32 result, [%r2];
    OUT:
        """,
        64,
        declarations=".shared .align 4 .b8 buffer[16];",
    )
    np.testing.assert_array_equal(got, np.where(np.arange(64) >= 32, 42, 0))


def test_barrier_reductions() -> None:
    got = run(
        """
        setp.lt.u32 %p1, tid, 37;
        bar.red.popc.u32 %r1, 0, %p1;
        bar.red.and.pred %p2, 1, %p1;
        bar.red.or.pred %p3, 2, !%p1;
        selp.b32 %r2, 1000, 0, %p2;
        selp.b32 %r3, 2000, 0, %p3;
        add.u32 result, %r1, %r2;
        add.u32 result, result, %r3;
        """,
        96,
    )
    np.testing.assert_array_equal(got, 2037)


def test_exited_threads_do_not_hold_a_barrier() -> None:
    got = run(
        """
        setp.lt.u32 %p1, tid, 40;
        @%p1 ret;
        bar.sync 0;
        mov.u32 result, 3;
        """,
        100,
    )
    np.testing.assert_array_equal(got, np.where(np.arange(100) < 40, 0, 3))


def test_deadlock_is_found_and_explained() -> None:
    with pytest.raises(DeadlockError) as caught:
        run(
            """
            setp.lt.u32 %p1, tid, 32;
            @%p1 bra A;
            bar.sync 1;
            bra J;
        A:
            bar.sync 2;
        J:
            """,
            64,
        )
    text = str(caught.value)
    assert "warp 0 lanes 0-31: wait at barrier 2" in text
    assert "for warp 1 lanes 0-31" in text
    assert "warp 1 lanes 0-31: wait at barrier 1" in text


def test_shuffle_with_a_lane_that_never_comes() -> None:
    with pytest.raises(DeadlockError, match=r"wait at shfl\.sync\.idx\.b32 .* for lanes 16-31"):
        run(
            """
            setp.ge.u32 %p1, lane, 16;
            @%p1 bra SPIN;
            shfl.sync.idx.b32 result, lane, 0, 31, -1;
        SPIN:
            bar.sync 0;
            """
        )


def test_endless_loop_is_found() -> None:
    """Both lanes spin on a flag that nobody sets."""
    with pytest.raises(DeadlockError, match="wait in loops"):
        run(
            """
        SPIN:
            ld.volatile.global.u32 %r1, [pin];
            setp.eq.u32 %p2, %r1, 0;
            @%p2 bra SPIN;
            """
        )


def test_ctas_can_wait_for_each_other() -> None:
    """Every CTA waits until all eight have counted themselves in: they must be resident together."""
    got = run(
        """
        setp.ne.u32 %p1, tid, 0;
        @%p1 bra WAIT;
        atom.global.add.u32 %r1, [pin], 1;
    WAIT:
        ld.volatile.global.u32 %r2, [pin];
        setp.lt.u32 %p2, %r2, 8;
        @%p2 bra WAIT;
        mov.u32 result, %r2;
        """,
        64,
        grid=8,
    )
    np.testing.assert_array_equal(got, 8)


def test_mask_without_the_executing_lane() -> None:
    with pytest.raises(KernelFault, match="NOT A MEMBER"):
        run("shfl.sync.idx.b32 result, lane, 0, 31, 0xffff;")


def test_partial_last_warp() -> None:
    """A CTA of 50 threads: lanes 18 to 31 of warp 1 do not exist."""
    got = run("activemask.b32 result;", 50)
    np.testing.assert_array_equal(got, np.where(np.arange(50) < 32, 0xFFFFFFFF, 0x3FFFF))


def test_a_kernel_error_leaves_the_device_usable() -> None:
    function = tcsim.RawModule(code=kernel("trap;")).get_function("k")
    out, buffer = tcsim.zeros(32, np.uint32), tcsim.zeros(4, np.uint32)
    with pytest.raises(KernelFault, match="TRAP"):
        function((1,), (32,), (out, buffer))
    np.testing.assert_array_equal(run("mov.u32 result, 4;"), 4)
