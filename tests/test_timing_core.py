"""Closed forms of the core: dependent and independent chains, pipes, warps that hide latency, barriers, clocks."""

from __future__ import annotations

import numpy as np
import pytest
from timing_support import H200, IN_STEP, Timed, apart, changed, empty_memory

import tcsim
from tcsim.profile import STALL_REASONS

N = 20


def lines(text: str, count: int = N) -> str:
    """``text`` once for each i, by itself."""
    return apart("\n".join(text.format(i=i, next=i + 1) for i in range(count)))


def test_a_chain_of_ffma_takes_its_latency_each() -> None:
    timed = Timed(lines("fma.rn.f32 %f1, %f1, %f2, %f3;"))
    assert timed.gaps("fma") == [4] * (N - 1)


def test_independent_ffma_issue_every_cycle_and_alu_every_other() -> None:
    assert Timed(lines("fma.rn.f32 %f{next}, %f0, %f0, %f0;")).gaps("fma") == [1] * (N - 1)
    assert Timed(lines("min.s32 %r{next}, lane, {i};")).gaps("min") == [2] * (N - 1)


def test_alu_and_fma_pipes_work_side_by_side() -> None:
    timed = Timed(lines("min.s32 %r{next}, lane, {i}; fma.rn.f32 %f{next}, %f0, %f0, %f0;"))
    cycles = sorted(timed.cycles("min") + timed.cycles("fma"))
    assert cycles[-1] - cycles[1] == 2 * N - 2  # the first fma may wait for the address arithmetic before it


def test_multi_instruction_operations_take_their_issue_slots() -> None:
    timed = Timed("cvt.u64.u32 %rd2, lane;" + lines("min.u64 %rd3, %rd2, {next};", 6))
    assert timed.gaps("min.u64") == [4] * 5  # two ALU instructions each
    rows = [row for row in timed.profile.instructions if row.opcode == "min.u64"]
    assert {(row.executed, row.issued) for row in rows} == {(1, 2)}


MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {d}, {{%r1, %r2, %r3, %r4}}, {{%r5, %r6}}, {c};"
ZERO = "".join(f"mov.b32 %r{i}, 0;" for i in range(1, 7)) + "mov.f32 %f0, 0f00000000;"


def mma(accumulator: int, source: int) -> str:
    """An mma into %f[accumulator:accumulator+4] from %f[source:source+4]."""
    d, c = ("{" + ", ".join(f"%f{first + i}" for i in range(4)) + "}" for first in (accumulator, source))
    return MMA.format(d=d, c=c)


def test_independent_mma_issue_at_their_interval_and_chained_ones_at_their_latency() -> None:
    independent = Timed(ZERO + apart("\n".join(mma(4 * i, 36) for i in range(8))))
    assert independent.gaps("mma") == [6] * 7
    chained = Timed(ZERO + apart("\n".join(mma(0, 0) for _ in range(8))))
    assert chained.gaps("mma") == [24] * 7


def test_two_warps_of_a_sub_partition_hide_each_others_latency() -> None:
    """Warps 0 and 4 share sub-partition 0: two chains take as long as one."""
    body = lines("fma.rn.f32 %f1, %f1, %f2, %f3;")
    alone, both = Timed(body), Timed(body, threads=160)
    assert {place.sub_partition for _, place, _ in both.log.issues if place.warp in (0, 4)} == {0}
    spans = [max(both.cycles("fma", w)) - min(both.cycles("fma", w)) for w in (0, 4)]
    assert max(spans) <= alone.cycles("fma")[-1] - alone.cycles("fma")[0] + 2


def test_warps_of_a_sub_partition_share_its_pipe() -> None:
    body = "mov.f32 %f0, 0f00000000;" + lines("ex2.approx.ftz.f32 %f{next}, %f0;", 10)
    timed = Timed(body, threads=32 * 5)
    cycles = sorted(timed.cycles("ex2", 0) + timed.cycles("ex2", 4))
    assert cycles[-1] - cycles[0] == 8 * (19 - H200.chip.pipes["xu"].queue)  # the last of them wait in the queue
    assert timed.profile.stalls["mio_throttle"] > 8 * 9


@pytest.mark.parametrize(
    ("order", "expected"),
    [("youngest", [0, 8, 4]), ("oldest", [8, 0, 4]), ("least_recent", [8, 0, 4]), ("oldest_cta", [8, 0, 4])],
)
def test_the_scheduler_is_greedy_then_takes_its_order(order: str, expected: list[int]) -> None:
    """Warps 0, 4 and 8 share a sub-partition and have independent work: one, the last to have read its special registers, runs
    until it stalls, then ``order`` decides.
    """
    timing = changed(IN_STEP, "scheduler", order=order)
    timed = Timed(lines("fma.rn.f32 %f{next}, %f0, %f0, %f0;"), threads=32 * 9, timing=timing)
    issued = [
        (cycle, place.warp)
        for cycle, place, pc in timed.log.issues
        if place.sub_partition == 0 and timed.program.opcodes[pc].startswith("fma")
    ]
    warps = [warp for _, warp in sorted(issued)]
    runs = [warp for position, warp in enumerate(warps) if position == 0 or warps[position - 1] != warp]
    assert runs == expected  # greedy: each warp's 20 in one go


def test_the_cta_that_came_first_is_done_first() -> None:
    """Two CTAs of an SM contend for the ALU; the warps of each share it evenly and end together."""
    body = lines("min.s32 %r1, %r1, lane;", 200)  # two warps of a CTA are enough to keep a sub-partition's ALU busy
    gaps = {}
    for order in ("least_recent", "oldest_cta"):
        timed = Timed(body, threads=256, grid=264, timing=changed(IN_STEP, "scheduler", order=order))
        ends: dict[int, dict[int, int]] = {}
        for cycle, place, pc in timed.log.issues:
            if place.sm == 0 and place.sub_partition == 0 and timed.program.opcodes[pc].startswith("min"):
                ends.setdefault(place.cta, {})[place.warp] = cycle
        first, second = sorted((sorted(each.values()) for each in ends.values()), key=max)
        gaps[order] = second[0] - first[-1]
    assert gaps["oldest_cta"] > 400 and gaps["least_recent"] < gaps["oldest_cta"] / 2


def test_a_predicate_guards_later_than_it_is_read() -> None:
    guarded = Timed(apart("setp.eq.u32 %p1, lane, 3; @%p1 add.u32 result, result, 1;"))
    read = Timed(apart("setp.eq.u32 %p1, lane, 3; selp.u32 result, 1, 0, %p1;"))
    assert guarded.cycles("add.u32")[-1] - guarded.cycles("setp")[0] == 13
    assert read.cycles("selp")[0] - read.cycles("setp")[0] == 4


def test_a_branch_holds_its_warp() -> None:
    timed = Timed("bra NEXT; NEXT: min.u32 result, lane, 7;")
    assert timed.cycles("min")[0] - timed.cycles("bra")[0] == 4
    assert timed.profile.stalls["branch_resolving"] == 3


def test_a_barrier_opens_when_the_last_warp_has_arrived() -> None:
    """Warp 1 arrives late; warp 0 waits for it and then for the release."""
    body = (
        "setp.lt.u32 %p1, tid, 32; @%p1 bra MEET;"
        + lines("fma.rn.f32 %f1, %f1, %f2, %f3;")
        + "MEET: bar.sync 0; min.u32 %r1, tid, 5;"
    )
    timed = Timed(body, threads=64)
    last = timed.cycles("bar", 1)[0]
    assert last > timed.cycles("bar", 0)[0] + 4 * N - 8
    release = last + H200.chip.shared_memory.barrier_interval + H200.chip.shared_memory.barrier_release
    assert timed.cycles("min", 0)[0] == timed.cycles("min", 1)[0] == release
    assert [(cycle, {place.warp for place in places}) for cycle, places in timed.log.barriers] == [(release, {0, 1})]
    assert timed.profile.stalls["barrier"] == (release - timed.cycles("bar", 0)[0] - 1) + (release - last - 1)


def test_named_barriers_count_threads_and_arrivals_do_not_wait() -> None:
    """Warp 0 produces for warp 1: it arrives at barrier 1 and goes on; warp 1 waits there."""
    body = """
        setp.lt.u32 %p1, tid, 32;
        @!%p1 bra CONSUMER;
        bar.arrive 1, 64;
        min.u32 %r1, tid, 5;
        bra DONE;
    CONSUMER:
        bar.sync 1, 64;
        max.u32 %r1, tid, 5;
    DONE:"""
    timed = Timed(body, threads=64)
    arrived = max(timed.cycles("bar.arrive", 0)[0], timed.cycles("bar.sync", 1)[0])
    shared = H200.chip.shared_memory
    counted = (shared.barrier_interval, 2 * shared.barrier_interval)  # the two may arrive at the same time
    assert timed.cycles("max", 1)[0] - arrived - shared.barrier_release in counted
    assert timed.cycles("min", 0)[0] < timed.cycles("bar.arrive", 0)[0] + 5


def test_lanes_that_come_to_a_barrier_apart_are_one_arrival() -> None:
    """Both halves of warp 0 come to the barrier from different places."""
    body = """
        setp.lt.u32 %p1, lane, 16;
        @%p1 bra LOW;
        barrier.sync 0;
        bra DONE;
    LOW:
        barrier.sync 0;
    DONE:"""
    timed = Timed(body, threads=64)
    assert len(timed.log.barriers) == 1
    assert {place.warp for place in timed.log.barriers[0][1]} == {0, 1}


def test_the_clock_reads_the_cycle_of_its_issue() -> None:
    body = (
        "mov.u32 %r1, %clock;"
        + lines("fma.rn.f32 %f1, %f1, %f2, %f3;")
        + "mov.u32 %r2, %clock; sub.u32 result, %r2, %r1;"
    )
    timed = Timed(body)
    first, second = timed.cycles("read_clock")
    assert (timed.out == second - first).all()
    chain = timed.cycles("fma")
    assert first < chain[0] and second == chain[-1] + 1  # in order: it does not wait for the chain's result


def test_the_global_timer_is_in_nanoseconds() -> None:
    body = "mov.u64 %rd2, %globaltimer; cvt.u32.u64 result, %rd2;"
    timed = Timed(body)
    assert int(timed.out[0]) == timed.cycles("read_clock")[0] * 1_000_000_000 // H200.clocks.sm_hz


MIXED = """
    .shared .u32 box[64];
    mov.u32 %r9, box;
    mul.lo.u32 %r8, lane, 4;
    add.u32 %r9, %r9, %r8;
    mov.u32 %r7, 0;
    LOOP:
    st.shared.u32 [%r9], tid;
    bar.sync 0;
    ld.shared.u32 %r6, [%r9];
    add.u32 result, result, %r6;
    atom.global.add.u32 %r5, [pin], 1;
    shfl.sync.bfly.b32 %r4, result, 1, 31, -1;
    xor.b32 result, result, %r4;
    add.u32 %r7, %r7, 1;
    setp.lt.u32 %p1, %r7, 5;
    @%p1 bra LOOP;
    membar.gl;
"""


def test_every_cycle_of_every_warp_has_exactly_one_reason() -> None:
    timed = Timed(MIXED, threads=256, grid=20)
    profile = timed.profile
    assert set(profile.stalls) == set(STALL_REASONS)
    assert sum(profile.stalls.values()) == profile.warp_cycles
    assert (
        profile.stalls["selected"]
        == profile.metrics["smsp__inst_issued.sum"]
        == sum(r.issued for r in profile.instructions)
    )
    # Observers see the same: what was told of each warp fills its time from start to end without a gap.
    busy: dict[tuple[int, int], int] = {}
    for _, place, _, _, cycles in timed.log.stalls:
        busy[place.cta, place.warp] = busy.get((place.cta, place.warp), 0) + cycles
    for _, place, pc in timed.log.issues:
        slots = timed.profile.instructions[pc]
        busy[place.cta, place.warp] = busy.get((place.cta, place.warp), 0) + slots.issued // slots.executed
    assert sum(busy.values()) == profile.warp_cycles
    assert len(busy) == 20 * 8


def test_two_runs_are_the_same_to_the_last_digit_and_observers_change_nothing() -> None:
    first, second = (Timed(MIXED, threads=256, grid=300).profile for _ in range(2))
    assert (first.cycles, first.metrics, first.stalls, first.instructions) == (
        second.cycles,
        second.metrics,
        second.stalls,
        second.instructions,
    )


def test_without_observers_the_same() -> None:
    watched = Timed(MIXED, threads=128, grid=10)
    empty_memory()
    out, buffer = tcsim.zeros(128, np.uint32), tcsim.zeros(64, np.uint32)
    with tcsim.Profiler(code="ptx") as profiler:
        watched.function((10,), (128,), (out, buffer))
    assert profiler.launches[0].metrics == watched.profile.metrics
    assert profiler.launches[0].stalls == watched.profile.stalls
