"""Closed forms of the memories: shared-memory wavefronts, the latency of each level, bandwidth, copies, atomics,
fences.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from statistics import median

import numpy as np
import pytest
from kernels import HEADER
from timing_support import H200, Timed, apart, changed

import tcsim
from tcsim.timing.metrics import memory_throughput
from tcsim.timing.units import cycles_of_ns

CHIP, HZ = H200.chip, H200.clocks.sm_hz
L1_HIT = CHIP.l1.latency
L2_HIT = L1_HIT + cycles_of_ns(CHIP.l2.hit_ns, HZ)
DRAM_FAR = cycles_of_ns(H200.dram.far_latency_ns, HZ)
FAR = cycles_of_ns(CHIP.l2.far_ns, HZ)
DRAM = cycles_of_ns(H200.dram.latency_ns, HZ)
WALK = cycles_of_ns(CHIP.translation.first_touch_ns, HZ)

SHARED = ".shared .align 16 .b8 box[32768];"


def shared_load(stride: int) -> Timed:
    """Load a word per lane, ``stride`` words apart, and use it."""
    return Timed(
        f"{SHARED} mov.u32 %r1, box; mad.lo.u32 %r2, lane, {4 * stride}, %r1;"
        + apart("ld.shared.u32 %r3, [%r2]; min.u32 result, %r3, 7;")
    )


@pytest.mark.parametrize(("stride", "ways"), [(1, 1), (2, 2), (4, 4), (8, 8), (32, 32), (3, 1), (0, 1)])
def test_an_n_way_bank_conflict_takes_n_wavefronts(stride: int, ways: int) -> None:
    timed = shared_load(stride)
    metrics = timed.profile.metrics
    assert metrics["l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"] == ways
    assert metrics["l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"] == ways - 1
    latency = timed.cycles("min")[0] - timed.cycles("ld.shared")[0]
    assert latency == CHIP.shared_memory.latency + CHIP.shared_memory.wavefront_latency * (ways - 1)
    assert timed.profile.stalls["short_scoreboard"] >= latency - 1


def test_the_data_port_serves_one_wavefront_a_cycle_for_the_whole_sm() -> None:
    """16 warps each load with 8-way conflicts: 16 * 8 cycles of the port, whatever the sub-partition."""
    address = f"{SHARED} mov.u32 %r1, box; mad.lo.u32 %r2, lane, 32, %r1;"
    body = address + "bar.sync 0; ld.shared.u32 %r3, [%r2]; min.u32 result, %r3, 7;"
    timed = Timed(body, threads=512)
    done = max(max(timed.cycles("min", warp)) for warp in range(16))
    start = min(timed.cycles("ld.shared", warp)[0] for warp in range(16))
    last_wavefronts = CHIP.shared_memory.latency + CHIP.shared_memory.wavefront_latency * 7
    assert 16 * 8 - 8 <= done - start - last_wavefronts <= 16 * 8 + 4


def test_a_full_queue_throttles_the_warp() -> None:
    """32 independent loads of 32 wavefronts each: the queue holds some, then the address stage decides, which takes two cycles
    a wavefront as on an H200, and the reason is mio_throttle.
    """
    loads = "\n".join(f"ld.shared.u32 %r{4 + i}, [%r2+{4 * i}];" for i in range(32))
    timed = Timed(f"{SHARED} mov.u32 %r1, box; mad.lo.u32 %r2, lane, 128, %r1;" + apart(loads))
    issued = timed.cycles("ld.shared")
    depth = CHIP.pipes["mio"].queue
    assert [b - a for a, b in itertools.pairwise(issued)][depth + 1 :] == [64] * (31 - depth - 1)
    assert timed.profile.stalls["mio_throttle"] > 63 * (31 - depth - 1)


def test_ldmatrix_takes_a_wavefront_per_tile() -> None:
    for number, tiles in (("x1", 1), ("x2", 2), ("x4", 4)):
        registers = ", ".join(f"%r{4 + i}" for i in range(tiles))
        body = f"{SHARED} mov.u32 %r1, box; mad.lo.u32 %r2, lane, 16, %r1;" + apart(
            f"ldmatrix.sync.aligned.m8n8.{number}.shared.b16 {{{registers}}}, [%r2]; min.u32 result, %r4, 7;"
        )
        timed = Timed(body)
        assert timed.profile.metrics["l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"] == tiles
        assert timed.cycles("min")[0] - timed.cycles("ldmatrix")[0] == 23 + 2 * (tiles - 1)


def global_load(modifier: str, second: str) -> list[int]:
    """Latency of a first load of one line, and of a second one behind it."""
    body = apart(f"ld.global.{modifier}u32 %r1, [pin]; min.u32 %r2, %r1, 0;") + apart(
        f"cvt.u64.u32 %rd2, %r2; add.s64 %rd3, pin, %rd2; ld.global.{second}u32 %r3, [%rd3]; max.u32 result, %r3, 0;"
    )
    timed = Timed(body)
    loads = timed.cycles("ld.global")
    return [timed.cycles("min")[0] - loads[0], timed.cycles("max")[0] - loads[1]]


def test_the_levels_of_memory_have_their_latencies() -> None:
    first, again = global_load("", "")
    transfer = range(4)  # cycles on the SM's port and of the channel
    assert again == L1_HIT
    assert min(abs(first - (L2_HIT + WALK) - extra - rest) for extra in transfer for rest in (DRAM, DRAM_FAR + FAR)) <= 4
    _, second_level = global_load("", "cg.")
    assert second_level - L2_HIT in transfer


def test_near_and_far_partitions_differ() -> None:
    """Lines spread over both partitions: half of the first touches are farther away."""
    data = np.zeros(64 * 32, np.uint32)
    loads = "\n".join(f"ld.global.cg.u32 %r1, [pin+{128 * i}]; min.u32 %r2, %r1, 0;" + apart("") for i in range(60))
    timed = Timed(loads, data=data)
    metrics = timed.profile.metrics
    assert 40 <= metrics["lts__t_sectors_srcunit_ltcfabric.sum"] - CHIP.launch.fabric_sectors <= 80  # fills: two of a line
    waits = [ready - cycle for cycle, _, pc, sectors, _, ready in timed.log.accesses if len(sectors) == 1][1:60]
    assert max(waits) - min(waits) >= FAR


def test_sectors_and_requests_are_counted_as_hardware_does() -> None:
    body = "mul.wide.u32 %rd2, lane, 8; add.s64 %rd3, pin, %rd2; ld.global.u32 %r1, [%rd3]; min.u32 result, %r1, 0;"
    metrics = Timed(body, data=np.zeros(64, np.uint32)).profile.metrics
    assert metrics["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"] == 1
    assert metrics["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] == 8
    assert metrics["l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"] == 4
    shared = metrics["l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"]
    assert metrics["l1tex__data_pipe_lsu_wavefronts.sum"] - shared == 2 + 1  # two lines are read, a line is written
    assert metrics["lts__t_sectors_op_read.sum"] >= 8
    assert metrics["dram__bytes_read.sum"] == 256 + CHIP.launch.dram_bytes
    assert metrics["lts__d_sectors_fill_device.sum"] == 8 + CHIP.launch.dram_bytes // 32
    assert metrics["smsp__inst_executed_op_global_ld.sum"] == metrics["smsp__inst_executed_op_global_st.sum"] == 1


STREAM = (
    HEADER.format(target="sm_80")
    + """
.visible .entry stream(.param .u64 source, .param .u64 out)
{
    .reg .b32 %r<20>; .reg .b64 %rd<9>; .reg .pred %p1;
    ld.param.u64 %rd1, [source];
    mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x;
    mad.lo.u32 %r4, %r2, %r3, %r1;
    mul.wide.u32 %rd2, %r4, 16;
    add.s64 %rd3, %rd1, %rd2;
    ld.global.nc.v4.u32 {%r5, %r6, %r7, %r8}, [%rd3];
    xor.b32 %r9, %r5, %r6; xor.b32 %r10, %r7, %r8; xor.b32 %r11, %r9, %r10;
    setp.eq.u32 %p1, %r11, 12345;
    ld.param.u64 %rd4, [out];
    @%p1 st.global.u32 [%rd4], %r11;
    ret;
}
"""
)


def test_a_stream_reaches_the_bandwidth_of_dram_and_no_more() -> None:
    """16 MiB read once by a device with little bandwidth, so that a short stream is bound by it."""
    rate = 0.4e12
    slow = tcsim.arch.find_timing(tcsim.Device("h200").arch)
    slow = changed(slow, "translation", first_touch_ns=0.0)
    slow = type(slow)(
        slow.chip,
        slow.clocks,
        slow.l2_capacity,
        type(slow.dram)(
            **{**{name: getattr(slow.dram, name) for name in slow.dram.__struct_fields__}, "bytes_per_second": rate}
        ),
    )
    function = tcsim.RawModule(code=STREAM).get_function("stream")
    source, out = tcsim.zeros(1 << 22, np.uint32), tcsim.zeros(1, np.uint32)
    with tcsim.Profiler(timing=slow, code="ptx") as profiler:
        function((4096,), (256,), (source, out))
    profile = profiler.launches[0]
    assert profile.metrics["dram__bytes_read.sum"] == (1 << 24) + CHIP.launch.dram_bytes
    active = profile.metrics["sm__cycles_active.max"] / slow.clocks.sm_hz
    assert 0.8 * rate < (1 << 24) / active <= rate
    assert profile.metrics["l1tex__t_sector_hit_rate.pct"] == 0


def test_copies_are_waited_for_by_group() -> None:
    body = f"""{SHARED}
        mov.u32 %r1, box; shl.b32 %r3, lane, 4; add.u32 %r2, %r1, %r3; cvt.u64.u32 %rd1, %r3; add.s64 %rd2, pin, %rd1;
        cp.async.cg.shared.global [%r2], [%rd2], 16;
        and.b32 %r4, lane, 16; cp.async.cg.shared.global [%r2], [%rd2], 16, %r4;
        setp.lt.u32 %p1, lane, 30; cp.async.cg.shared.global [%r2], [%rd2], 16, %p1;
        cp.async.commit_group;
        cp.async.wait_all;
        min.u32 result, lane, 7;
    """
    timed = Timed(body, data=np.zeros(512, np.uint32))
    assert [len(sectors) for *_, sectors, wavefronts, _ in timed.log.accesses if wavefronts == 4] == [16, 8, 1]
    copied = timed.cycles("cp.async.cg")[-1]
    (waited,) = timed.cycles("cp.async.wait_all")
    ready = next(ready for _, _, pc, _, wavefronts, ready in timed.log.accesses if wavefronts == 4)
    assert waited == ready > copied + L2_HIT + CHIP.l1.copy_latency
    assert timed.profile.stalls["long_scoreboard"] >= waited - copied - 10
    assert timed.profile.metrics["smsp__inst_executed_op_ldgsts.sum"] == 3


@pytest.mark.parametrize(
    ("wide", "pitch", "offset", "counted", "sectors"),
    [(4, 64, 0, 16, 16), (4, 80, 0, 20, 20), (4, 96, 0, 16, 16), (8, 144, 0, 18, 24), (2, 48, 0, 24, 16), (4, 64, 16, 24, 24)],
)
def test_copies_to_places_not_aligned_ask_twice(wide: int, pitch: int, offset: int, counted: int, sectors: int) -> None:
    """Rows of so many lanes, 2 KiB apart in memory, as an H200 counts."""
    body = f"""{SHARED}
        mov.u32 %r1, box; and.b32 %r2, lane, {wide - 1}; shl.b32 %r2, %r2, 4; shr.u32 %r3, lane, {wide.bit_length() - 1};
        mad.lo.u32 %r4, %r3, {pitch}, %r1; add.u32 %r4, %r4, %r2; mad.lo.u32 %r5, %r3, 2048, %r2;
        cvt.u64.u32 %rd1, %r5; add.s64 %rd2, pin, %rd1;
        cp.async.cg.shared.global [%r4+{offset}], [%rd2], 16; cp.async.wait_all; min.u32 result, lane, 7;
    """
    timed = Timed(body, data=np.zeros(8192, np.uint32))
    assert timed.profile.metrics["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] == counted
    assert timed.profile.metrics["lts__t_sectors_srcunit_tex.sum"] == sectors + 4  # the results


def test_a_fence_waits_for_stores_and_an_atomic_goes_to_the_l2() -> None:
    body = apart("st.global.u32 [pin], tid; membar.gl; min.u32 %r1, lane, 1;")
    timed = Timed(body)
    assert timed.cycles("membar")[0] - timed.cycles("st.global")[0] >= L2_HIT - L1_HIT
    # Fences of an H200 stall for 507 cycles behind an access, answered or not, and for 220 behind another fence.
    answered = "ld.volatile.global.u32 %r1, [pin]; min.u32 %r2, %r1, 7; "
    timed = Timed(apart(answered + "membar.gl; ") + apart("membar.gl; min.u32 %r1, lane, 1;"))
    first, second = timed.cycles("membar")
    assert first - timed.cycles("min")[0] >= L2_HIT > second - first - 272
    assert timed.profile.stalls["membar"] > 0
    body = apart("atom.global.add.u32 %r1, [pin], 1; min.u32 result, %r1, 7;")
    timed = Timed(body)
    assert timed.cycles("min")[0] - timed.cycles("atom")[0] >= L2_HIT
    assert timed.buffer[0] == 32
    assert timed.profile.metrics["lts__t_sectors_srcunit_tex_lookup_hit.sum"] >= 1
    # As an H200 counts (probe atoms_add): a sector for each lane on the busiest word of a sector.
    assert timed.profile.metrics["lts__t_sectors_srcunit_tex.sum"] == 32 + 4


def test_local_memory_is_interleaved_and_counted_apart() -> None:
    body = """.local .align 4 .b8 mine[64];
        mov.u64 %rd1, mine; st.local.u32 [%rd1+8], tid; ld.local.u32 result, [%rd1+8];"""
    metrics = Timed(body).profile.metrics
    assert metrics["l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum"] == 4
    assert metrics["l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum"] == 4
    assert metrics["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] == 0


def test_wide_local_accesses_touch_a_line_for_each_word() -> None:
    """Stored whole, all four lines answer from the L1: ``STL.128`` and ``LDL`` as loops over a small array have them."""
    body = """.local .align 16 .b8 mine[64];
        mov.u64 %rd1, mine; st.local.v4.u32 [%rd1], {tid, tid, tid, tid}; ld.local.u32 result, [%rd1+12];"""
    metrics = Timed(body).profile.metrics
    assert metrics["l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum"] == 16
    assert metrics["l1tex__t_sectors_pipe_lsu_mem_local_op_ld_lookup_hit.sum"] == 4


def test_an_access_of_no_lane_and_a_barrier_behind_accesses_count_as_wavefronts_of_shared_memory() -> None:
    """As the probes exchange, tree and barriers count on an H200."""
    body = f"""{SHARED} mov.u32 %r1, box; shl.b32 %r2, tid, 2; add.u32 %r2, %r1, %r2; mov.u32 %r4, 0;
        setp.gt.u32 %p1, tid, 90; @%p1 ld.global.u32 %r3, [pin];
        st.shared.u32 [%r2], tid; bar.sync 0; bar.sync 0;
        again: add.u32 %r4, %r4, 1; bar.sync 0; setp.lt.u32 %p2, %r4, 3; @%p2 bra again;
        behind: ld.shared.u32 %r3, [%r2]; bar.sync 0; add.u32 %r4, %r4, 1; setp.lt.u32 %p2, %r4, 6; @%p2 bra behind;
        min.u32 result, %r3, 7;
    """
    metrics = Timed(body, threads=64).profile.metrics
    stores, loads, ignored, barriers = 2, 2 * 3, 2, 1 + 3
    assert metrics["l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"] == stores + loads + ignored + barriers


def test_memory_throughput_is_of_the_busiest_unit_without_the_fabric_between_the_l2_halves() -> None:
    """The rule applied to what Nsight Compute measured of the parts gives what it measured of the whole."""
    name = "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"
    errors = {}
    for path in (Path(__file__).parents[1] / "traces").glob("*/bundle.json"):
        recorded = {key: cell["value"] for key, cell in json.loads(path.read_text())["metrics"].items() if "value" in cell}
        if recorded.get(name, 0) < 2:
            continue
        sm_cycles = recorded["sm__cycles_elapsed.max"] * recorded["launch__sm_count"]
        seconds = recorded["gpu__time_duration.sum"] * 1e-9
        l2_cycles = CHIP.l2.slices * recorded["lts__cycles_elapsed.avg.per_second"] * seconds
        l1 = recorded["l1tex__throughput.avg.pct_of_peak_sustained_active"] * recorded["sm__cycles_active.sum"] / sm_cycles
        requests = 100 * recorded["lts__t_requests.sum"] / l2_cycles
        written = 100 * recorded["l1tex__m_l1tex2xbar_write_bytes.sum"] / 32 / l2_cycles
        dram = recorded["dram__throughput.avg.pct_of_peak_sustained_elapsed"]
        errors[path.parent.name] = abs(memory_throughput(l1, requests, written, dram) / recorded[name] - 1)
    assert len(errors) > 20
    assert median(errors.values()) < 0.02
    assert sum(error < 0.1 for error in errors.values()) > 0.85 * len(errors)
    assert errors["vector_add"] < 0.01 > errors["vector_add_large"]  # whose lts__throughput is 1.7 to 1.8 times as high
