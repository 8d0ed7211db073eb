"""The pieces of the timing model by themselves: pipes, queues, servers, barriers, caches, translation, distributor."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from timing_support import H200

from isa.kernels.planes import PLANE_BYTES
from tcsim.arch import find_arch
from tcsim.arch.timing_spec import L1 as L1Spec
from tcsim.arch.timing_spec import L2Capacity
from tcsim.errors import DeviceError
from tcsim.profile import STALL_REASONS
from tcsim.timing.arrays import ArrayTable
from tcsim.timing.barriers import CtaBarriers
from tcsim.timing.constant_cache import fixed_constants, indexed_constants, operand_constants
from tcsim.timing.ending import ending_cycles
from tcsim.timing.hierarchy import (
    DRAM_READ,
    DRAM_WRITTEN,
    FABRIC_SECTORS,
    IN_T,
    L1_HITS,
    LAST_SERVED,
    LOCATIONS,
    READ_HITS,
    READ_SECTORS,
    SLICE_BUSY,
    UP,
    WAY_IN,
    WAY_OUT,
    WAYS_IN,
    WRITE_SECTORS,
    Hierarchy,
    Share,
    new_hierarchy,
    serve,
)
from tcsim.timing.instruction_cache import fetch
from tcsim.timing.l2 import TOLD, l2_read, l2_write
from tcsim.timing.l2_atomics import l2_atomic
from tcsim.timing.l2_places import home_partition, slice_of
from tcsim.timing.lru import LRU_ARRAYS, find, new_lru, put, touch
from tcsim.timing.lsu import atomic_part, load_part, store_part
from tcsim.timing.pipes import Pipe, Queue
from tcsim.timing.placement import Placement
from tcsim.timing.scoreboard import REASON, REASONS, SHIFT
from tcsim.timing.shared_memory import carve_out
from tcsim.timing.stream import new_buffers
from tcsim.timing.tensor_core import operand_wavefronts, tensor_kind
from tcsim.timing.translation import translation_wait
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
    servers = np.zeros(1, np.int64)
    assert [serve(servers, 0, asked, 10) - asked for asked in (100, 100, 105, 1000)] == [10, 20, 25, 10]


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


def cold(*, l1_lines: int = 64, l2_lines: int = 1 << 13, merging: int = 1) -> Hierarchy:
    """Cold memories for 32 SMs: L1s of so many lines, L2 partitions of so many; ``merging``: requests of a GPC made one."""
    chip = msgspec.structs.replace(H200.chip, l2=msgspec.structs.replace(H200.chip.l2, merging_requests=merging))
    capacity = L2Capacity(bytes=2 * 128 * l2_lines, source="test")
    timing = msgspec.structs.replace(H200, chip=chip, l2_capacity=capacity)
    return new_hierarchy(find_arch("h200"), timing, 4, l1_lines * 128, 32)


NEAR, FAR = (find_arch("h200").limits.gpcs[n][0] for n in (0, 1))  # SMs next to the first and to the second partition


def lines_at_home(h: Hierarchy, partition: int) -> Iterator[int]:
    return (line for line in range(1 << 20) if int(home_partition(h.address, line)) == partition)


def read(h: Hierarchy, line: int, mask: int, now: int, sm: int = NEAR) -> int:
    """Cycles until sectors are there."""
    return int(l2_read(h.address, sm, line, mask, now, now)) - now


def test_l2_hits_are_faster_than_misses_and_dirty_lines_are_written_back() -> None:
    h = cold(l2_lines=8)
    line, *others = itertools.islice(lines_at_home(h, 0), 41)
    miss, hit = read(h, line, 15, 0), read(h, line, 15, 100_000)
    assert miss - hit >= cycles_of_ns(H200.dram.latency_ns, HZ)
    assert hit == pytest.approx(cycles_of_ns(H200.chip.l2.hit_ns, HZ), abs=6)
    assert [h.totals[n] for n in (READ_SECTORS, READ_HITS, DRAM_READ)] == [8, 4, 128]
    l2_write(h.address, NEAR, line, 3, 0, 0, 200_000, 200_000)
    assert h.totals[DRAM_WRITTEN] == 0
    for other in others:
        l2_write(h.address, NEAR, other, 0, 0, 0, 300_000, 300_000)
    assert h.totals[DRAM_WRITTEN] == 64


def test_dram_fills_two_sectors_at_a_time() -> None:
    h = cold()
    read(h, 5, 1, 0)
    assert h.totals[DRAM_READ] == 64
    read(h, 5, 2, 100_000)  # came along
    assert h.totals[DRAM_READ] == 64
    read(h, 5, 4, 100_000)
    assert h.totals[DRAM_READ] == 128


def test_a_line_on_its_way_is_waited_for() -> None:
    h = cold()
    first, second = read(h, 7, 15, 0), read(h, 7, 15, 10)
    assert second >= first - 10 - 4  # less the transfer to the first SM


def test_far_lines_are_copied_to_the_near_partition_until_someone_stores() -> None:
    h = cold()
    line = next(lines_at_home(h, 1))
    read(h, line, 15, 0, FAR)
    read(h, next(lines_at_home(h, 0)), 15, 0)  # translates addresses
    first, again = read(h, line, 15, 100_000), read(h, line, 15, 200_000)
    assert first - again == pytest.approx(cycles_of_ns(H200.chip.l2.far_ns, HZ), abs=4)
    assert h.totals[FABRIC_SECTORS] == 4
    l2_write(h.address, FAR, line, 15, 0, 0, 300_000, 300_000)
    read(h, line, 15, 400_000)
    assert h.totals[FABRIC_SECTORS] == 8


def test_a_slice_is_busy_with_a_store_by_sectors_and_longer_if_bytes_are_left_alone() -> None:
    h, l2, clock = cold(), H200.chip.l2, TICKS * HZ / H200.chip.l2.clock_hz
    line = next(lines_at_home(h, 0))

    def clocks(mask: int, partial: int, joined: int) -> float:
        before = int(h.totals[SLICE_BUSY])
        l2_write(h.address, NEAR, line, mask, partial, joined, 0, 0)
        return (int(h.totals[SLICE_BUSY]) - before) / clock

    assert clocks(1, 0, 0) == pytest.approx(l2.least_write_clocks, rel=0.01)
    assert clocks(1, TOLD, 0) == pytest.approx(l2.part_write_clocks, rel=0.01)
    assert clocks(15, 0, 0) == pytest.approx(4 * l2.write_clocks, rel=0.01)
    # The second of two sectors that go together.
    assert clocks(2, 0, 1) == pytest.approx(2 * l2.write_clocks - l2.least_write_clocks, rel=0.02)


def test_reads_of_neighbouring_sms_are_merged_while_the_line_is_under_way() -> None:
    h = cold(merging=4)
    first = read(h, 7, 15, 0, 0)
    assert read(h, 7, 15, 100, 1) == first - 100 and h.totals[READ_SECTORS] == 4
    read(h, 7, 15, 100, FAR)  # of another GPC
    assert h.totals[READ_SECTORS] == 8
    read(h, 7, 3, 100, 1)  # other sectors
    assert h.totals[READ_SECTORS] == 10
    read(h, 7, 3, 100_000, 1)  # it has arrived long ago
    assert h.totals[READ_SECTORS] == 12


def test_the_ways_to_and_from_an_sm_have_their_rates() -> None:
    """128 bytes in at 122 a cycle, a sector out in a cycle and one more for a line written in part, as measured on an H200."""
    h = cold()
    for line in range(200):
        read(h, line, 15, 0)
    last = [read(h, line, 15, 100_000) for line in range(200)]
    assert last[-1] - last[0] == pytest.approx(199 * 128 / 122, rel=0.03)
    for partial, cycles in ((0, 4), (1, 5)):
        left = [int(l2_write(h.address, 1 + partial, line, 15, partial, 0, 200_000, 200_000)[0]) for line in range(100)]
        assert left[-1] - left[0] == 99 * cycles


def load_hits(h: Hierarchy, sectors: Sequence[int], now: int, cached: bool = True) -> int:
    words = np.array([len(sectors), 1, *sectors], np.int64)
    before = int(h.events[0, L1_HITS])
    load_part(h.address, NEAR, 0, 0, 1, cached, words.ctypes.data, 0, now)
    return int(h.events[0, L1_HITS]) - before


def test_l1_replaces_the_least_recently_used_line() -> None:
    h = cold(l1_lines=2)
    assert [load_hits(h, [4 * line], 10_000 * n) for n, line in enumerate((10, 11, 10, 12, 10, 11))] == [0, 0, 1, 0, 1, 0]


def test_l1_sectors_are_valid_one_by_one_and_stores_do_not_fill() -> None:
    h = cold(l1_lines=8)
    assert load_hits(h, [40, 41], 0) == 0
    assert load_hits(h, [40, 42], 10_000) == 1
    assert load_hits(h, [40], 20_000, cached=False) == 0  # .cg
    for n, (sector, hits) in enumerate(((80, 0), (81, 1))):
        words = np.array([1, 0, sector], np.int64)
        before = int(h.events[1, L1_HITS])
        store_part(h.address, NEAR, 0, 1, 1, 4, words.ctypes.data, 0, 30_000 + 10_000 * n)
        assert int(h.events[1, L1_HITS]) - before == hits
    assert load_hits(h, [80], 50_000) == 0
    words = np.array([1, 1, 40, 1], np.int64)
    atomic_part(h.address, NEAR, 0, 2, 1, 10, words.ctypes.data, 0, 60_000)
    assert load_hits(h, [40], 70_000) == 0


def test_stores_to_a_line_that_still_waits_are_put_together() -> None:
    """As the probes pairs, eights, rows and twice count on an H200."""
    h = cold()

    def sent(line: int, now: int, sub: int = 0, lines: int = 1) -> int:
        """Sectors that go to the L2 for a store to half of all bytes of some lines."""
        words = np.array([4 * lines, 64 * lines, *range(4 * line, 4 * (line + lines))], np.int64)
        before = int(h.totals[WRITE_SECTORS])
        store_part(h.address, NEAR, sub, 1, 1, 4, words.ctypes.data, 0, now)
        return int(h.totals[WRITE_SECTORS]) - before

    assert [sent(40, 1000), sent(40, 1020), sent(40, 1040), sent(40, 1100)] == [4, 0, 0, 4]  # then it has left
    assert [sent(41, 2000), sent(60, 2000, 1), sent(41, 2004, 1)] == [4, 4, 0]  # of another sub-partition
    assert [sent(200, 4000, 0, 8), sent(200, 4001, 0, 8)] == [32, 0]
    for sub in range(4):  # others have stores waiting: what comes between are lines of all four
        sent(300 + 100 * sub, 5000, sub, 8)
    assert [sent(300 + 100 * sub, 5001, sub, 8) for sub in range(4)] == [32] * 4


@settings(deadline=None)  # the first example compiles
@given(st.lists(st.integers(0, 30), max_size=200), st.integers(1, 9))
def test_caches_replace_the_least_recently_used_line(lines: list[int], slots: int) -> None:
    table = ArrayTable(LRU_ARRAYS)
    new_lru(table, 0, 1, slots)
    kept: list[int] = []
    for line in lines:
        slot = find(table.address, 0, 0, line)
        assert (slot >= 0) == (line in kept)
        if slot >= 0:
            touch(table.address, 0, 0, slot)
            kept.remove(line)
        else:
            put(table.address, 0, 0, line)
        kept = [*kept, line][-slots:]


def test_shared_memory_latency_grows_with_wavefronts() -> None:
    took = []
    for wavefronts in (1, 2, 4):
        words = np.array([wavefronts, -1], np.int64)
        h = cold()
        took.append(int(load_part(h.address, NEAR, 0, 0, 1, True, words.ctypes.data, 0, 0)[1]))
    assert took == [23, 25, 29]


def test_the_carve_out_is_the_smallest_that_holds_the_ctas() -> None:
    limits = find_arch("h200").limits
    assert carve_out(H200.chip.l1, limits, 65536, 2) == 132 * 1024  # as Nsight Compute reports for that launch
    assert carve_out(H200.chip.l1, limits, 1024, 1) == 8 * 1024
    with pytest.raises(DeviceError, match="do not fit"):
        carve_out(H200.chip.l1, limits, 120 * 1024, 2)


@pytest.mark.parametrize(
    "shared, ctas, kib",  # launches of 32 to 768 threads on an H200, as Nsight Compute reports them
    [
        (1024, 8, 32), (1025, 8, 64), (16384, 8, 164), (6144, 8, 132), (128, 16, 32), (256, 16, 64), (1280, 16, 64),
        (1536, 16, 100), (1, 21, 64), (1025, 21, 64), (1280, 21, 100), (1024, 32, 64), (768, 5, 32), (512, 5, 16),
        (40960, 2, 132), (73728, 2, 164), (65536, 3, 196), (2056, 16, 100), (24576, 7, 196),
    ],
)  # fmt: skip
def test_the_carve_out_has_room_for_more_ctas(shared: int, ctas: int, kib: int) -> None:
    assert carve_out(H200.chip.l1, find_arch("h200").limits, shared, ctas, spare=True) == kib * 1024


def test_an_sm_waits_for_translation_once() -> None:
    h = cold()
    first = cycles_of_ns(H200.chip.translation.first_touch_ns, HZ)
    assert translation_wait(h.address, 5, 100) == first
    assert translation_wait(h.address, 5, 150) == first - 50
    assert translation_wait(h.address, 5, 100 + first) == 0
    assert translation_wait(h.address, 6, 1000) == first


def test_code_comes_in_blocks_that_are_fetched_ahead_and_replaced() -> None:
    h = new_hierarchy(find_arch("h200"), H200, 4, 64 * 128, 2, blocks=200)
    spec = H200.chip.instruction_cache
    first, miss, apart = (cycles_of_ns(each, HZ) for each in (spec.first_miss_ns, spec.miss_ns, spec.block_ns))
    assert fetch(h.address, 0, 0, 100) == 100 + first
    # Asked for with the first one: one after another.
    assert [fetch(h.address, 0, n, 100) for n in (1, 2)] == [100 + first + apart, 100 + first + 2 * apart]
    assert fetch(h.address, 0, 20, 5000) == 5000 + miss
    assert fetch(h.address, 1, 0, 200) == 200 + first  # the other SM has a cache of its own
    crowded, gpc = new_hierarchy(find_arch("h200"), H200, 4, 64 * 128, 132, busy=100), find_arch("h200").limits.gpcs[1]
    waits = [int(fetch(crowded.address, sm, 0, 0)) for sm in gpc]
    assert waits == sorted(waits)
    assert waits[0] == first
    assert waits[-1] == first + cycles_of_ns(200 * spec.shared_ns, HZ)
    for block in range(spec.blocks + 8):
        fetch(h.address, 0, block, 10_000 + 1000 * block)
    assert fetch(h.address, 0, 0, 500_000) == 500_000 + miss  # used least recently


def test_cp_async_groups_land_in_order() -> None:
    warp = Warp(None, 0, 0, None, 1, 0, new_buffers(1, 4), 0)  # type: ignore[arg-type]
    for landing in (100, 300, 200):
        warp.copies = landing
        warp.commit_copies()
    assert warp.copies_done(2) == 100
    assert warp.copies_done(1) == 300
    assert warp.copies_done(5) == 0  # there are not so many
    warp.copies = 900
    assert warp.copies_done(0) == 300  # not committed
    warp.copies = 900
    assert warp.copies_done(ALL_COPIES) == 900


COSTS = msgspec.structs.replace(
    H200.chip.launch, overhead_ns=10e9 / HZ, dispatch_interval=2.0, sm_interval=8, warp_interval=3, retire_interval=3.0
)


def test_ctas_go_to_the_sms_in_turn_then_where_one_ends() -> None:
    ended = []
    placement = Placement(2, (), 2, 1, 7)
    distributor = WorkDistributor(COSTS, 7, placement, 4, 2, HZ, progress=lambda done, total: ended.append((done, total)))
    # The chip sends one every two cycles, an SM takes one every twelve.
    assert list(distributor.first_wave()) == [(0, 0, 10), (1, 1, 12), (2, 2, 22), (3, 3, 22)]
    assert placement.sites == [(0,), (2,), (1,), (3,)]
    assert distributor.replace(100) == (4, 103)
    assert distributor.replace(100) == (5, 106)
    assert distributor.replace(500) == (6, 503)
    assert distributor.replace(501) is None
    assert ended == [(1, 7), (2, 7), (3, 7), (4, 7)]
    assert distributor.retired == 506
    assert Placement(8, (), 2, 1, 3).sites == [(0,), (2,), (4,)]  # one SM of each TPC


def test_ctas_of_a_unit_have_numbers_in_a_row() -> None:
    """As %smid of the CTAs of small grids says on an H200, whose SMs 128, 129, 130, 131, 124 ... are 0, 1, 2, 3, 4 ... here."""
    units = find_arch("h200").limits.units

    def first(ctas: int) -> list[int]:
        return [sm for (sm,) in Placement(132, units, 1, 1, ctas).sites]

    assert first(4) == [0, 2, 4, 6] and first(8) == list(range(8)) and first(132) == list(range(132))
    assert first(12) == [*range(8), 8, 24, 40, 124]
    assert first(17) == [*range(8), 8, 24, 40, 56, 72, 88, 106, 124, 126]
    # One for each TPC (66 of them, of which the last has four), but the first eight SMs are full.
    assert first(66) == [*range(8), *range(8, 88, 2), *range(88, 102, 2), *range(106, 120, 2), *range(124, 132, 2)]
    assert first(100)[8:20] == [8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 20, 22]
    assert [site for (site,) in Placement(132, units, 2, 1, 133).sites] == [*range(0, 264, 2), 1]


def test_clusters_go_to_units_in_turn_and_leave_no_cta_behind() -> None:
    limits = find_arch("h200").limits
    gpcs = limits.clusters
    for groups in (limits.gpcs, limits.units, gpcs):
        assert sorted(sm for group in groups for sm in group) == list(range(132))
    sites = {size: Placement(132, gpcs, 1, size, 10**6).sites for size in (2, 4, 8)}
    # CTAs of clusters of 2, 4 and 8 that an H200 holds at once if each takes an SM: 132, 120 and 120.
    assert {size: size * len(found) for size, found in sites.items()} == {2: 132, 4: 120, 8: 120}
    assert sites[4][:2] == [(0, 1, 2, 3), (8, 9, 10, 11)]
    placement = Placement(132, gpcs, 2, 8, 3)
    assert len(placement.sites) == 3 and [placement.rank_of[place] for place in placement.sites[1]] == list(range(8))
    pairs = Placement(132, gpcs, 1, 2, 2)
    assert [cycle for _, _, cycle in WorkDistributor(COSTS, 2, pairs, 1, 132, HZ).first_wave()] == [10, 14]
    assert [cycle for _, _, cycle in WorkDistributor(COSTS, 2, pairs, 1, 132, HZ, 5.0).first_wave()] == [10, 15]


def test_tensor_operations_have_ncus_names() -> None:
    assert [tensor_kind(f"mma.m16n8k16.{t}") for t in ("f16", "tf32", "e4m3", "s8", "b1", "f64")] == [
        "hmma",
        "hmma",
        "hmma",
        "imma",
        "imma",
        "dmma",
    ]


def test_a_warpgroups_operands_count_as_wavefronts() -> None:
    """A quarter of them for each warp: 64 rows of A and N of B, of 32 bytes each."""
    result, a = range(1, 65), range(65, 69)  # planes of registers
    program = SimpleNamespace(
        opcodes=["HGMMA.64x128x16.F32", "HGMMA.64x64x16.F32.BF16", "IGMMA.SP.64x128x64.S8.S8", "HMMA.16816.F32"],
        reads=[places(result), places(result, a), places(result, a[:1]), places(result, a)],
        writes=[places(result)] * 4,
        registers_per_thread=90,
    )
    counted = [4 * operand_wavefronts(program, pc) for pc in range(4)]  # type: ignore[arg-type]
    assert counted == [16 + 32, 16, 16 + 64, 0]


def places(*planes: Iterable[int]) -> tuple[int, ...]:
    return tuple(PLANE_BYTES * plane for plane in itertools.chain(*planes))


def test_specs_are_frozen() -> None:
    with pytest.raises(AttributeError):
        H200.chip.l1.latency = 1  # type: ignore[misc]
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        msgspec.convert({**msgspec.to_builtins(H200.chip.l1), "ways": 4}, L1Spec)


def test_constants_come_by_lines_and_blocks_and_addresses_one_after_another() -> None:
    spec = H200.chip.constant_cache
    memories = new_hierarchy(find_arch("h200"), H200, 4, 64 * 128, 2, constants=(64 << 10, 0))
    m, cold = memories.address, cycles_of_ns(spec.line_ns, H200.clocks.sm_hz)
    blocks, fits = spec.line_bytes // 64, spec.operand_bytes // 64
    assert operand_constants(m, 0, blocks, 100) == 100 + cold + spec.operand_miss
    assert operand_constants(m, 0, blocks + 1, 5000) == 5000 + spec.operand_miss  # its line is there
    assert operand_constants(m, 0, blocks, 6000) == 6000
    assert operand_constants(m, 1, blocks, 6000) == 6000 + cold + spec.operand_miss  # another SM
    for block in range(fits):
        operand_constants(m, 0, 100 + block, 10000)
    assert operand_constants(m, 0, blocks, 90000) == 90000 + spec.operand_miss  # replaced, but its line is still there
    words = np.array([3, 5, 2 * 100, 2 * 100 + 1, 2 * 101], np.int64)  # three sectors of two blocks, five addresses
    assert indexed_constants(m, 0, words.ctypes.data, 0, 90000) == (2 * spec.indexed_miss + 4 * spec.way, 4 * spec.way)
    assert indexed_constants(m, 0, words.ctypes.data, 0, 95000) == (4 * spec.way, 4 * spec.way)


def test_the_parameters_are_in_the_constant_caches_behind_the_first() -> None:
    spec = H200.chip.constant_cache
    memories = new_hierarchy(find_arch("h200"), H200, 4, 64 * 128, 1, constants=(4096, 552))
    m, words = memories.address, np.array([1, 1, 528 >> 5], np.int64)
    assert indexed_constants(m, 0, words.ctypes.data, 0, 10) == (spec.indexed_miss, 0)
    assert fixed_constants(m, 0, 512 // 64, 20) == spec.indexed_miss - 10  # on its way
    assert fixed_constants(m, 0, 0, 20) == spec.indexed_miss  # each block of 64 bytes is missed once
    assert fixed_constants(m, 0, 512 // 64, 200) == 0
    assert operand_constants(m, 0, 512 // 64, 200) == 200 + spec.operand_miss  # operands have a cache of their own
    crowded = new_hierarchy(find_arch("h200"), H200, 4, 64 * 128, 1, constants=(4096, 552), busy=100)
    assert operand_constants(crowded.address, 0, 0, 0) > spec.operand_miss


def test_a_launch_ends_later_with_more_sms_and_more_read_from_memory() -> None:
    costs = H200.chip.launch
    assert ending_cycles(costs, 0, 0, HZ) == 0
    assert ending_cycles(costs, 100, 0, HZ) == cycles_of_ns(100 * costs.busy_sm_ns, HZ)
    some, more, most = (ending_cycles(costs, 1, read, HZ) for read in (1 << 20, 16 << 20, 1 << 30))
    assert some < more < most <= cycles_of_ns(costs.busy_sm_ns + costs.drain_ns, HZ)


def atomics(h: Hierarchy, requests: list[tuple[int, int, int]], lane_ticks: int = 0, sms: int = 32) -> float:
    """Cycles until the L2 has served all of (line, sectors, lanes on each) that SMs ask for in turn at the same time."""
    for number, (line, mask, lanes) in enumerate(requests):
        counts = sum(lanes << 16 * sector for sector in range(4) if mask >> sector & 1)
        l2_atomic(h.address, number % sms, line, mask, counts, lane_ticks, 0, 0)
    return float(h.totals[LAST_SERVED]) / TICKS


@pytest.mark.parametrize(
    "sectors, lanes, cycles",
    [(1, 32, 46.5), (15, 1, 4.9)],
    ids=["32 lanes on a word", "32 words in a row"],
)
def test_a_slice_takes_a_clock_for_each_sector_and_lane_of_an_atomic(sectors: int, lanes: int, cycles: float) -> None:
    """As red.add.u32 of all SMs on one word and on one line take on an H200 (786 718 cycles of 16 896 requests, 82 957)."""
    h = cold()
    assert atomics(h, [(8, sectors, lanes)] * 400) / 400 == pytest.approx(cycles, rel=0.05)


def test_sums_of_floats_in_a_sector_wait_for_each_other() -> None:
    """As red.add.f32 on an H200: 3.48 cycles a lane on one sector, as fast as integers on four."""
    ticks = round(1.75 * HZ / 1e9 * TICKS)
    assert atomics(cold(), [(8, 1, 32)] * 400, ticks) / 400 / 32 == pytest.approx(3.47, rel=0.02)
    mixed = [(8, 1 << number % 4, 1) for number in range(400)]
    assert atomics(cold(), mixed, ticks) == pytest.approx(atomics(cold(), mixed), rel=0.02)


def test_an_sm_waits_when_too_many_of_its_atomics_are_under_way() -> None:
    """Of 512 lanes, and 256 to one slice, as the times at which warps end on an H200 tell."""

    def left(lines: Sequence[int], requests: int) -> int:
        """When the last has left an SM whose requests others have come before."""
        h = cold()
        for _ in range(1000):
            for line in lines:
                l2_atomic(h.address, FAR, line, 1, 32, 0, 0, 0)
        for number in range(requests):
            l2_atomic(h.address, NEAR, lines[number % len(lines)], 1, 32, 0, 0, 0)
        return int(h.ports[NEAR, UP]) // TICKS

    assert left([0], 8) == 256 and left([0], 9) > 40_000  # what the first have sent, a lane a cycle
    apart = [64 * number for number in range(8)]
    assert left(apart, 16) == 512 and left(apart, 17) > 40_000


def test_a_block_of_a_kibibyte_lies_on_two_slices_and_blocks_are_spread_evenly() -> None:
    """What bounds atomics on lines in a row on an H200: 8 are on 2 slices, 32 on 8, the busiest has 8 of 256, 25 of 2 048."""
    h = cold()

    def slices(lines: int) -> Counter[int]:
        return Counter(
            int(slice_of(h.address, int(home_partition(h.address, line)), line)) for line in range(1024, 1024 + lines)
        )

    assert sorted(slices(8).values()) == [4, 4] and sorted(slices(32).values()) == [4] * 8
    assert max(slices(256).values()) == 8 and max(slices(2048).values()) <= 28
    assert [int(home_partition(h.address, 32 * page)) for page in range(8)] == [1, 0, 0, 1, 1, 0, 0, 1]


def test_sms_of_a_gpc_share_what_comes_in_and_those_of_a_cpc_what_goes_out() -> None:
    arch, spec = find_arch("h200"), H200.chip.l2
    gpc = arch.limits.gpcs[1]
    h = new_hierarchy(arch, H200, 4, 64 * 128, arch.limits.sms)
    ways = h.table[LOCATIONS]
    assert [int(np.sum(ways[list(gpc), WAY_OUT] == 3 + number)) for number in range(3)] == [6, 6, 4]
    assert ways[gpc[0], WAY_OUT] == ways[gpc[1], WAY_OUT] != ways[gpc[2], WAY_OUT]
    rounds, lines = 64, iter(range(1 << 20))
    for sm in gpc:
        for _ in range(rounds):
            l2_read(h.address, sm, next(lines), 15, 0, 0)
    assert h.table[WAYS_IN].tolist() == [0, len(gpc) * rounds * 4 * h.costs[IN_T], 0, 0, 0, 0, 0, 0]
    assert 4 * h.costs[IN_T] == pytest.approx(TICKS * 128 / spec.gpc_bytes, rel=0.02)
    out = {sm: max(int(l2_write(h.address, sm, next(lines), 15, 0, 0, 0, 0)[0]) for _ in range(rounds)) for sm in gpc}
    small = [sm for sm in gpc if ways[sm, WAY_OUT] == 5]
    assert max(out[sm] for sm in small) < max(out.values())
    assert max(out.values()) >= 6 * rounds * 128 // spec.cpc_bytes
    sample = new_hierarchy(arch, H200, 4, 64 * 128, arch.limits.sms, share=Share(1 / 132, 1 / 132))
    assert sample.costs[IN_T] > 10 * h.costs[IN_T]
    assert set(sample.table[LOCATIONS][:, WAY_IN].tolist()) == {0}
