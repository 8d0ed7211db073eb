"""Launches in time: waves and occupancy, what a profile holds, errors, and that values are those of an untimed run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from kernels import kernel
from timing_support import H200, IN_STEP, Timed, apart, changed

import tcsim
from tcsim.arch import find_arch
from tcsim.errors import DeadlockError, DeviceError, KernelFault
from tcsim.timing.stream import records_per_warp
from tcsim.timing.units import cycles_of_ns

SMS = find_arch("h200").limits.sms
WORK = "\n".join("fma.rn.f32 %f1, %f1, %f2, %f3;" for _ in range(50))


def test_ctas_start_one_per_sm_first_then_fill_up() -> None:
    timed = Timed(WORK, grid=SMS + 3, threads=64)
    started = [(cta, sm) for kind, _, sm, cta in timed.log.tasks if kind == "start"]
    assert [sm for _, sm in sorted(started)] == [*range(SMS), 0, 2, 4]
    assert timed.profile.metrics["sm__ctas_launched.sum"] == SMS + 3
    assert timed.profile.metrics["sm__warps_launched.sum"] == 2 * (SMS + 3)


def test_dispatch_takes_its_interval_and_a_launch_its_overhead() -> None:
    costs = H200.chip.launch
    timed = Timed(WORK, grid=100)
    starts = sorted((cta, cycle) for kind, cycle, _, cta in timed.log.tasks if kind == "start")
    assert starts[0][1] == cycles_of_ns(costs.overhead_ns, H200.clocks.sm_hz) + costs.cta
    assert starts[99][1] - starts[0][1] == pytest.approx(99 * costs.dispatch_interval, abs=1)


def test_an_sm_takes_ctas_one_after_another() -> None:
    costs = H200.chip.launch
    timed = Timed(WORK, grid=2 * SMS, threads=64)
    starts = sorted(cycle for kind, cycle, sm, _ in timed.log.tasks if kind == "start" and sm == 0)
    assert starts[1] - starts[0] == max(costs.sm_interval + 2, round(SMS * costs.dispatch_interval))


def test_more_ctas_than_fit_come_in_waves() -> None:
    """One CTA an SM by its shared memory: twice the CTAs take twice the time, and never overlap on an SM."""
    timing = changed(
        IN_STEP, "launch", overhead_ns=0.0, busy_sm_ns=0.0, drain_ns=0.0, dispatch_interval=0.001, retire_interval=0.001, cta=0
    )
    timing = changed(
        timing, "instruction_cache", miss_ns=0.0, first_miss_ns=0.0, shared_ns=0.0, constant_miss_ns=0.0, shared_constant_ns=0.0
    )
    spans = []
    for waves in (1, 2):
        timed = Timed(WORK, grid=waves * SMS, shared_mem=120 * 1024, timing=timing)
        assert timed.profile.metrics["launch__occupancy_limit_shared_mem"] == 1
        assert timed.profile.metrics["launch__waves_per_multiprocessor"] == waves
        spans.append(timed.profile.cycles)
        resident: dict[int, int] = {}
        for kind, _, sm, _ in timed.log.tasks:
            resident[sm] = resident.get(sm, 0) + (1 if kind == "start" else -1)
            assert 0 <= resident[sm] <= 1
    assert spans[1] == pytest.approx(2 * spans[0], rel=0.05)


def test_idle_sms_have_no_active_cycles() -> None:
    metrics = Timed(WORK, grid=2).profile.metrics
    assert metrics["sm__cycles_active.min"] == 0
    assert metrics["sm__cycles_active.sum"] == pytest.approx(2 * metrics["sm__cycles_active.max"], rel=0.05)
    assert metrics["sm__cycles_active.avg"] == metrics["sm__cycles_active.sum"] / SMS


def test_a_profile_describes_its_launch() -> None:
    timed = Timed(WORK, grid=3, threads=96)
    profile = timed.profile
    assert (profile.name, profile.device, profile.sm, profile.grid, profile.block) == (
        "k",
        "h200",
        90,
        (3, 1, 1),
        (96, 1, 1),
    )
    assert profile.cycles == profile.metrics["sm__cycles_elapsed.max"]
    assert profile.seconds == profile.cycles / profile.sm_clock_hz
    rows = profile.instructions
    assert [row.opcode for row in rows] == timed.program.opcodes
    ffma = [row for row in rows if row.opcode == "fma.rn.f32"]
    assert all(row.executed == 9 and row.threads == 9 * 32 and row.issued == 9 and row.ptx_line > 0 for row in ffma)
    assert all(row.free and row.issued == 0 for row in rows if row.opcode.startswith("ld.param"))
    executed = profile.metrics["smsp__inst_executed.sum"]
    assert executed == sum(row.issued for row in rows)
    assert profile.metrics["sm__inst_executed_pipe_fma.sum"] >= 450
    assert "membar" in profile.stalls and not any(name.startswith("smsp__inst_executed_pipe_gmma") for name in profile.metrics)


def test_a_partial_warp_counts_its_threads() -> None:
    metrics = Timed(WORK, threads=40).profile.metrics
    assert metrics["smsp__thread_inst_executed_per_inst_executed.ratio"] == 20


BRANCHY = """
    mov.u32 %r1, 0;
    LOOP:
    add.u32 %r1, %r1, 1;
    xor.b32 %r2, %r1, tid;
    and.b32 %r3, %r2, 1;
    setp.eq.u32 %p1, %r3, 0;
    @%p1 add.u32 result, result, %r2;
    setp.lt.u32 %p2, %r1, lane;
    @%p2 bra LOOP;
"""


def test_values_are_those_of_an_untimed_run() -> None:
    function = tcsim.RawModule(code=kernel(BRANCHY)).get_function("k")
    results = []
    for timed in (False, True):
        out, buffer = tcsim.zeros(96, np.uint32), tcsim.zeros(64, np.uint32)
        if timed:
            with tcsim.Profiler():
                function((50,), (96,), (out, buffer))
        else:
            function((50,), (96,), (out, buffer))
        results.append(out.get())
    assert np.array_equal(*results)
    assert results[0].any()


def test_a_recorded_kernel_gives_the_hardware_bits_when_timed(traces: Path) -> None:
    from tcsim.cli.launches import LaunchOptions, prepare

    launch = prepare(str(traces / "block_scan"), LaunchOptions())
    with tcsim.Profiler() as profiler:
        launch.run()
    assert all(comparison.equal for comparison in launch.bundle.compare(launch.outputs()))
    recorded = launch.bundle.metrics
    metrics = profiler.launches[0].metrics
    for name in ("sm__warps_launched.sum", "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"):
        assert metrics[name] == recorded[name].value
    for name in ("lts__d_sectors_fill_device.sum", "lts__t_sectors_op_read.sum"):  # the launch's own and its code among them
        assert metrics[name] == pytest.approx(recorded[name].value, rel=0.03)


def test_a_fault_is_the_same_as_without_a_profiler() -> None:
    function = tcsim.RawModule(code=kernel("ld.global.u32 result, [pin+4096];")).get_function("k")
    out, buffer = tcsim.zeros(32, np.uint32), tcsim.zeros(4, np.uint32)
    with pytest.raises(KernelFault) as plain:
        function((1,), (32,), (out, buffer))
    with tcsim.Profiler(code="ptx") as profiler, pytest.raises(KernelFault) as timed:
        function((1,), (32,), (out, buffer))
    assert str(plain.value) == str(timed.value)
    assert profiler.launches == []


def test_a_deadlock_is_found_in_time_too() -> None:
    body = "setp.lt.u32 %p1, tid, 32; @%p1 bra DONE; bar.sync 1, 64; DONE:"
    function = tcsim.RawModule(code=kernel(body)).get_function("k")
    with tcsim.Profiler(code="ptx"), pytest.raises(DeadlockError):
        function((1,), (64,), (tcsim.zeros(64, np.uint32), tcsim.zeros(4, np.uint32)))


def test_an_endless_wait_for_memory_is_a_deadlock() -> None:
    body = "WAIT: ld.volatile.global.u32 %r1, [pin]; setp.eq.u32 %p1, %r1, 0; @%p1 bra WAIT;"
    function = tcsim.RawModule(code=kernel(body)).get_function("k")
    with tcsim.Profiler(code="ptx"), pytest.raises(DeadlockError):
        function((2,), (32,), (tcsim.zeros(32, np.uint32), tcsim.zeros(4, np.uint32)))


@pytest.mark.parametrize("iterations", [2, 8, 32])
def test_standing_before_the_clock_is_no_deadlock(iterations: int) -> None:
    """Everything but the time is the same whenever the warp comes to the clock again, as microbenchmarks have it."""
    body = f"""
        mov.u32 %r9, 0;
        AGAIN: mov.u32 %r1, 0;
        mov.u64 %rd2, %clock64;
        LOOP: add.s32 %r1, %r1, 1;
        setp.lt.s32 %p1, %r1, {iterations};
        @%p1 bra LOOP;
        mov.u64 %rd3, %clock64;
        sub.s64 %rd4, %rd3, %rd2;
        add.s32 %r9, %r9, 1;
        setp.lt.s32 %p1, %r9, 2;
        @%p1 bra AGAIN;
        cvt.u32.u64 result, %rd4;
    """
    function = tcsim.RawModule(code=kernel(body)).get_function("k")
    out = tcsim.zeros(32, np.uint32)
    with tcsim.Profiler(code="ptx"):
        function((1,), (32,), (out, tcsim.zeros(4, np.uint32)))
    assert (out.get() >= 4 * iterations).all()


def test_ctas_may_wait_for_each_other() -> None:
    """The even CTA waits for a flag that the odd one sets after some work."""
    body = """
        mov.u32 %r1, %ctaid.x;
        setp.eq.u32 %p1, %r1, 1;
        @%p1 bra SET;
    WAIT:
        ld.volatile.global.u32 %r2, [pin];
        setp.eq.u32 %p2, %r2, 0;
        @%p2 bra WAIT;
        bra DONE;
    SET:
        mov.u32 %r3, 0;
    SPIN:
        add.u32 %r3, %r3, 1;
        setp.lt.u32 %p2, %r3, 500;
        @%p2 bra SPIN;
        st.volatile.global.u32 [pin], 1;
    DONE:"""
    timed = Timed(body, grid=2)
    ends = {cta: cycle for kind, cycle, _, cta in timed.log.tasks if kind == "end"}
    assert ends[0] > timed.log.tasks[0][1] + 500


def test_devices_without_timing_say_so() -> None:
    with tcsim.Device("t4"):
        function = tcsim.RawModule(code=kernel(WORK, target="sm_75")).get_function("k")
        out, buffer = tcsim.zeros(32, np.uint32), tcsim.zeros(4, np.uint32)
        function((1,), (32,), (out, buffer))
        with tcsim.Profiler(), pytest.raises(DeviceError, match=r"t4 has no timing tables.*h200"):
            function((1,), (32,), (out, buffer))


def test_each_device_has_its_own_numbers() -> None:
    cycles = {}
    for name in ("h200", "h100", "a100"):
        with tcsim.Device(name):
            timed = Timed(apart("\n".join(f"fma.rn.f32 %f{i}, %f0, %f0, %f0;" for i in range(1, 20))))
            cycles[name] = timed.gaps("fma")[-1]
            assert timed.profile.device == name
    assert cycles == {"h200": 1, "h100": 1, "a100": 2}


def test_profilers_nest_and_end() -> None:
    function = tcsim.RawModule(code=kernel(WORK)).get_function("k")
    args = (tcsim.zeros(32, np.uint32), tcsim.zeros(4, np.uint32))
    with tcsim.Profiler() as outer:
        function((1,), (32,), args)
        with tcsim.Profiler() as inner:
            function((1,), (32,), args)
            function((1,), (32,), args)
    function((1,), (32,), args)
    assert (len(outer.launches), len(inner.launches)) == (1, 2)


def test_buffers_shrink_as_more_warps_are_resident() -> None:
    assert records_per_warp(8) == 1024
    assert records_per_warp(4096) == 512
    assert records_per_warp(132 * 64) == 248
    assert records_per_warp(1 << 20) == 128
