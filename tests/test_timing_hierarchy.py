"""The levels of memory in time, one by one: L1 and its write buffer, L2 and its slices, atomics, the ways between them."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from timing_support import H200

from tcsim.arch import find_arch
from tcsim.arch.timing_spec import L2Capacity
from tcsim.timing.arrays import ArrayTable
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
)
from tcsim.timing.l2 import TOLD, l2_read, l2_write
from tcsim.timing.l2_atomics import l2_atomic
from tcsim.timing.l2_places import home_partition, slice_of
from tcsim.timing.lru import LRU_ARRAYS, find, new_lru, put, touch
from tcsim.timing.lsu import atomic_part, load_part, store_part
from tcsim.timing.translation import translation_wait
from tcsim.timing.units import TICKS, cycles_of_ns

HZ = H200.clocks.sm_hz


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


def test_shared_memory_latency_grows_with_wavefronts() -> None:
    took = []
    for wavefronts in (1, 2, 4):
        words = np.array([wavefronts, -1], np.int64)
        h = cold()
        took.append(int(load_part(h.address, NEAR, 0, 0, 1, True, words.ctypes.data, 0, 0)[1]))
    assert took == [23, 25, 29]


def test_an_sm_waits_for_translation_once() -> None:
    h = cold()
    first = cycles_of_ns(H200.chip.translation.first_touch_ns, HZ)
    assert translation_wait(h.address, 5, 100) == first
    assert translation_wait(h.address, 5, 150) == first - 50
    assert translation_wait(h.address, 5, 100 + first) == 0
    assert translation_wait(h.address, 6, 1000) == first
