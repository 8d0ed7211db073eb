"""The pieces of the timing model by themselves: pipes, queues, servers, barriers, caches, translation, distributor."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from timing_support import H200

from tcsim.arch import find_arch
from tcsim.arch.timing_spec import L1 as L1Spec
from tcsim.arch.timing_spec import LaunchCosts
from tcsim.errors import DeviceError
from tcsim.profile import STALL_REASONS
from tcsim.timing.barriers import CtaBarriers
from tcsim.timing.dram import Dram
from tcsim.timing.l1 import L1, lines_of, port_cycles
from tcsim.timing.l2 import L2, SmPort
from tcsim.timing.pipes import Pipe, Queue
from tcsim.timing.queueing import Server
from tcsim.timing.scoreboard import REASON, REASONS, SHIFT
from tcsim.timing.shared_memory import SharedMemory, carve_out
from tcsim.timing.stream import Piece
from tcsim.timing.tensor_core import tensor_kind
from tcsim.timing.translation import Translation
from tcsim.timing.units import TICKS, cycles_of_ns, ns_of_cycles, ticks_of_bytes, ticks_of_rate
from tcsim.timing.warp import ALL_COPIES, Warp
from tcsim.timing.work_distributor import WorkDistributor

HZ = H200.clocks.sm_hz


def test_units_convert_with_the_sm_clock() -> None:
    assert cycles_of_ns(100, 1_980_000_000) == 198
    assert ns_of_cycles(198, 1_980_000_000) == 100
    assert ticks_of_bytes(64, 64 * 1e9, 1_000_000_000) == TICKS
    assert ticks_of_rate(2e9, 1_000_000_000) == TICKS // 2


def test_reasons_fit_the_scoreboard() -> None:
    assert REASONS == len(STALL_REASONS) <= 1 << SHIFT
    assert REASON["selected"] == 0


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 9)), min_size=1, max_size=20), st.integers(0, 40))
def test_a_pipe_counts_the_cycles_in_which_it_refuses(work: list[tuple[int, int]], watch: int) -> None:
    """``refused_before`` at two moments against looking at the pipe every cycle."""
    pipe = Pipe(0)
    refused = []  # cycles in which another instruction would have been refused
    now = 0
    for gap, busy in work:
        now = max(now, pipe.free) + gap
        pipe.take(now, now, busy)
        refused += range(now + 1, now + busy)
    for cycle in (now + 1, now + 1 + watch):
        assert pipe.refused_before(cycle) == sum(1 for c in refused if c < cycle)


@given(st.integers(1, 4), st.lists(st.integers(0, 12), min_size=1, max_size=20))
def test_a_queue_holds_its_depth(depth: int, services: list[int]) -> None:
    """An instruction can issue once fewer than ``depth`` earlier ones are still waiting to start."""
    queue = Queue(0, depth)
    starts: list[int] = []
    now = server = 0
    for service in services:
        now = max(now + 1, queue.free)
        waiting = [start for start in starts if start > now]
        assert len(waiting) < depth
        start = max(now, server)
        server = start + service
        queue.take(now, start, 1)
        starts.append(start)


def test_a_server_serves_in_order_and_idles() -> None:
    server = Server()
    assert server.serve(100, 10) == 10
    assert server.serve(100, 10) == 20
    assert server.serve(105, 10) == 25
    assert server.serve(1000, 10) == 10
    assert server.busy == 40


class _Place:
    """As much of a warp as barriers look at."""

    def __init__(self, number: int) -> None:
        self.number = number


def test_barriers_wait_for_all_live_threads() -> None:
    barriers = CtaBarriers([0xFFFFFFFF, 0xFFFFFFFF, 0xF])
    warps = [_Place(n) for n in range(3)]
    assert barriers.arrive(0, 0, warps[0], 0xFFFFFFFF, True) == (True, None)  # type: ignore[arg-type]
    assert barriers.arrive(0, 0, warps[1], 0xFFFF, True) == (False, None)  # type: ignore[arg-type]  # half of it: goes on
    assert barriers.arrive(0, 0, warps[2], 0xF, True) == (True, None)  # type: ignore[arg-type]
    stops, through = barriers.arrive(0, 0, warps[1], 0xFFFF0000, True)  # type: ignore[arg-type]
    assert stops and through == [warps[0], warps[2], warps[1]]
    assert barriers.arrive(0, 0, warps[0], 0xFFFFFFFF, True) == (True, None)  # type: ignore[arg-type]  # and again


def test_an_exit_can_open_a_barrier() -> None:
    barriers = CtaBarriers([0xFFFFFFFF, 0xFFFFFFFF])
    first = _Place(0)
    barriers.arrive(0, 0, first, 0xFFFFFFFF, True)  # type: ignore[arg-type]
    assert barriers.after_exit() == []
    barriers.live[1] = 0
    assert barriers.after_exit() == [first]


def test_counted_barriers_count_whole_warps() -> None:
    barriers = CtaBarriers([0xF, 0xFFFFFFFF, 0xFFFFFFFF])
    small, second = _Place(0), _Place(1)
    assert barriers.arrive(3, 64, small, 0xF, False) == (False, None)  # type: ignore[arg-type]
    assert barriers.arrive(3, 64, second, 0xFFFFFFFF, True) == (True, [second])  # type: ignore[arg-type]


def new_l2(capacity: int = 1 << 20) -> tuple[L2, Dram]:
    dram = Dram(H200.dram, HZ)
    return L2(H200.chip.l2, capacity, dram, Translation(H200.chip.translation, HZ), HZ), dram


def test_l2_hits_are_faster_than_misses_and_dirty_lines_are_written_back() -> None:
    l2, dram = new_l2(capacity=2 * 8 * 128)  # 8 lines a partition
    port = SmPort(0)
    miss = l2.read(port, 1000, 15, 0)
    hit = l2.read(port, 1000, 15, 100_000)
    assert miss - hit >= cycles_of_ns(H200.dram.latency_ns, HZ)
    assert hit == pytest.approx(cycles_of_ns(H200.chip.l2.hit_ns, HZ), abs=6)
    assert (l2.read_sectors, l2.read_hits, dram.bytes_read) == (8, 4, 128)
    l2.write(port, 1000, 3, 200_000)
    assert dram.bytes_written == 0
    for line in range(2000, 2040):
        l2.write(port, line, 0, 300_000)
    assert dram.bytes_written == 64


def test_dram_fills_two_sectors_at_a_time() -> None:
    l2, dram = new_l2()
    l2.read(SmPort(0), 5, 1, 0)
    assert dram.bytes_read == 64
    l2.read(SmPort(0), 5, 2, 100_000)  # came along
    assert dram.bytes_read == 64
    l2.read(SmPort(0), 5, 4, 100_000)
    assert dram.bytes_read == 128


def test_a_line_on_its_way_is_waited_for() -> None:
    l2, _ = new_l2()
    first = l2.read(SmPort(0), 7, 15, 0)
    second = l2.read(SmPort(0), 7, 15, 10)
    assert second >= first - 10 - 4  # less the transfer to the first SM


def test_far_lines_are_copied_to_the_near_partition_until_someone_stores() -> None:
    l2, _ = new_l2()
    line = next(n for n in range(100) if l2._place(n)[0] == 1)
    near, far = SmPort(1), SmPort(0)
    l2.read(near, line, 15, 0)
    first = l2.read(far, line, 15, 100_000)
    again = l2.read(far, line, 15, 200_000)
    assert first - again == pytest.approx(cycles_of_ns(H200.chip.l2.far_ns, HZ), abs=4)
    assert l2.fabric_sectors == 4
    l2.write(near, line, 15, 300_000)
    l2.read(far, line, 15, 400_000)
    assert l2.fabric_sectors == 8


def new_l1(lines: int) -> L1:
    return L1(H200.chip.l1.latency, lines * 128, new_l2()[0], SmPort(0))


def test_l1_replaces_the_least_recently_used_line() -> None:
    l1 = new_l1(2)
    words = [4 * line for line in (10, 11, 10, 12, 10, 11)]
    hits = [l1.load(words, at, 1, 10_000 * at, 10_000 * at, True)[1] for at in range(len(words))]
    assert hits == [0, 0, 1, 0, 1, 0]


def test_l1_sectors_are_valid_one_by_one_and_stores_do_not_fill() -> None:
    l1 = new_l1(8)
    assert l1.load([40, 41], 0, 2, 0, 0, True)[1] == 0
    assert l1.load([40, 42], 0, 2, 10_000, 10_000, True)[1] == 1
    assert l1.load([40], 0, 1, 20_000, 20_000, False)[1] == 0  # .cg
    assert l1.store([80], 0, 1, 30_000, 30_000)[2] == 0
    assert l1.store([81], 0, 1, 40_000, 40_000)[2] == 1
    assert l1.load([80], 0, 1, 50_000, 50_000, True)[1] == 0
    l1.atomic([40], 0, 1, 60_000, 60_000)
    assert l1.load([40], 0, 1, 70_000, 70_000, True)[1] == 0


@pytest.mark.parametrize(("stride", "cycles"), [(1, 1), (2, 2), (4, 4), (8, 8)])
def test_strided_loads_take_the_cycles_measured_on_an_h200(stride: int, cycles: int) -> None:
    sectors = list(dict.fromkeys(lane * stride * 4 // 32 for lane in range(32)))
    assert port_cycles(sectors, 0, len(sectors), H200.chip.l1.line_tags) == cycles


def test_sectors_are_grouped_by_line() -> None:
    assert lines_of([0, 1, 3, 8, 9, 2], 0, 6) == [(0, 0b1011), (2, 0b0011), (0, 0b0100)]


def test_shared_memory_latency_grows_with_wavefronts() -> None:
    shared = SharedMemory(H200.chip.shared_memory)
    assert [shared.latency_of(n) for n in (1, 2, 4)] == [23, 25, 29]


def test_the_carve_out_is_the_smallest_that_holds_the_ctas() -> None:
    limits = find_arch("h200").limits
    assert carve_out(H200.chip.l1, limits, 65536, 2) == 132 * 1024  # as Nsight Compute reports for that launch
    assert carve_out(H200.chip.l1, limits, 1024, 1) == 8 * 1024
    with pytest.raises(DeviceError, match="do not fit"):
        carve_out(H200.chip.l1, limits, 120 * 1024, 2)


def test_the_first_touch_of_a_page_is_paid_once() -> None:
    translation = Translation(H200.chip.translation, HZ)
    walk = cycles_of_ns(H200.chip.translation.first_touch_ns, HZ)
    assert translation.wait(5, 100) == walk
    assert translation.wait(6, 150) == walk - 50  # waits for the same walk
    assert translation.wait(5, 100 + walk) == 0
    assert translation.wait(5 + (2 << 20) // 128, 1000) == walk


def test_cp_async_groups_land_in_order() -> None:
    warp = Warp(None, 0, 0, None, 1, 0)  # type: ignore[arg-type]
    for landing in (100, 300, 200):
        warp.copies = landing
        warp.commit_copies()
    assert warp.copies_done(2) == 100
    assert warp.copies_done(1) == 300
    assert warp.copies_done(5) == 300
    warp.copies = 900
    assert warp.copies_done(0) == 300  # not committed
    warp.copies = 900
    assert warp.copies_done(ALL_COPIES) == 900


def test_pieces_join_and_split_with_their_payload() -> None:
    import numpy as np

    first = Piece([1, 2], [-1, 0], [7, -1], np.array([1, 2]))
    second = Piece([3, 4], [0, 2], [8, -1, 9, -1], np.array([3, 4]))
    both = first.followed_by(second)
    assert [both.words[at] for at in both.payload if at >= 0] == [7, 8, 9]
    start, rest = both.split(3)
    assert (start.pcs, rest.pcs) == ([1, 2, 3], [4])
    assert rest.words[rest.payload[0]] == 9
    assert rest.executing.tolist() == [4]


def test_ctas_go_to_the_sms_in_turn_then_where_one_ends() -> None:
    costs = LaunchCosts(overhead=10, dispatch_interval=2.0, cta=5, source="test")
    ended = []
    distributor = WorkDistributor(costs, 7, 2, 2, lambda done, total: ended.append((done, total)))
    assert list(distributor.first_wave()) == [(0, 0, 10), (1, 1, 12), (0, 2, 14), (1, 3, 16)]
    assert distributor.replace(100) == (4, 100)
    assert distributor.replace(100) == (5, 102)
    assert distributor.replace(500) == (6, 500)
    assert distributor.replace(501) is None
    assert ended == [(1, 7), (2, 7), (3, 7), (4, 7)]


def test_tensor_operations_have_ncus_names() -> None:
    assert [tensor_kind(f"mma.m16n8k16.{t}") for t in ("f16", "tf32", "e4m3", "s8", "b1", "f64")] == [
        "hmma",
        "hmma",
        "hmma",
        "imma",
        "imma",
        "dmma",
    ]


def test_specs_are_frozen() -> None:
    with pytest.raises(AttributeError):
        H200.chip.l1.latency = 1  # type: ignore[misc]
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        msgspec.convert({**msgspec.to_builtins(H200.chip.l1), "ways": 4}, L1Spec)
