"""The pieces of the timing model by themselves: pipes, queues, servers, barriers, caches, translation, distributor."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from timing_support import H200

from isa.kernels.planes import PLANE_BYTES
from tcsim.arch import find_arch
from tcsim.arch.timing_spec import L1 as L1Spec
from tcsim.errors import DeviceError
from tcsim.profile import STALL_REASONS
from tcsim.timing.barriers import CtaBarriers
from tcsim.timing.constant_cache import fixed_constants, indexed_constants, operand_constants
from tcsim.timing.ending import ending_cycles
from tcsim.timing.hierarchy import (
    new_hierarchy,
    serve,
)
from tcsim.timing.instruction_cache import fetch
from tcsim.timing.pipes import Pipe, Queue
from tcsim.timing.placement import Placement
from tcsim.timing.scoreboard import REASON, REASONS, SHIFT
from tcsim.timing.shared_memory import carve_out
from tcsim.timing.stream import new_buffers
from tcsim.timing.tensor_core import operand_wavefronts, tensor_kind
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
    program: Any = SimpleNamespace(
        opcodes=["HGMMA.64x128x16.F32", "HGMMA.64x64x16.F32.BF16", "IGMMA.SP.64x128x64.S8.S8", "HMMA.16816.F32"],
        reads=[places(result), places(result, a), places(result, a[:1]), places(result, a)],
        writes=[places(result)] * 4,
        registers_per_thread=90,
    )
    counted = [4 * operand_wavefronts(program, pc) for pc in range(4)]
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
