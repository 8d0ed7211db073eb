"""The chip: builds what a launch needs, and runs it on the clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import simpy
from numpy.typing import NDArray

from tcsim.arch import Arch, Timing
from tcsim.errors import DeviceError
from tcsim.execute.cta import CtaSlot, Geometry
from tcsim.execute.loader import LoadedProgram
from tcsim.execute.recorder import new_recorder
from tcsim.launch.occupancy import Occupancy
from tcsim.memory import DeviceMemory
from tcsim.timing.counters import Counters
from tcsim.timing.dram import Dram
from tcsim.timing.issue import IssueTable
from tcsim.timing.l1 import L1
from tcsim.timing.l2 import L2
from tcsim.timing.lsu import Lsu
from tcsim.timing.observer import ObservedSm, Observer
from tcsim.timing.shared_memory import SharedMemory, carve_out
from tcsim.timing.sm import LaunchContext, Sm
from tcsim.timing.stream import CtaStream, records_per_warp
from tcsim.timing.translation import Translation
from tcsim.timing.units import cycles_of_ns, ns_of_cycles
from tcsim.timing.watch import SpinWatch
from tcsim.timing.work_distributor import WorkDistributor

__all__ = ["TimedRun", "run_timed"]

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class TimedRun:
    """What a timed run counted. ``cycles``: SM cycles from launch to end. ``counts``: int64 [instructions, 3],
    executions by a warp, threads active, threads executing (:class:`tcsim.execute.recorder.Recorder`).
    ``shared_configured``: bytes of an SM's memory that were shared memory.
    """

    cycles: int
    counters: Counters
    counts: NDArray[np.int64]
    table: IssueTable
    l2: L2
    dram: Dram
    shared_configured: int


def run_timed(
    loaded: LoadedProgram,
    geometry: Geometry,
    memory: DeviceMemory,
    parameters: NDArray[np.uint8],
    arch: Arch,
    timing: Timing,
    residency: Occupancy,
    observers: Sequence[Observer] = (),
    progress: Progress | None = None,
) -> TimedRun:
    """Execute a launch and time it. Memory ends up as after an untimed run.

    Raises what an untimed run raises (KernelFault, DeadlockError), and DeviceError for an instruction that the chip's
    tables do not price.
    """
    if geometry.cluster_size > 1:
        raise DeviceError(
            f"kernel {loaded.program.name}: timing of clusters of more than one CTA is not modelled yet. Run it without "
            "profiling"
        )
    chip, sm_hz, program = timing.chip, timing.clocks.sm_hz, loaded.program
    table = IssueTable(program, timing)
    counters = Counters(len(program), arch.limits.sms)
    counts = np.zeros((len(program), 3), np.int64)
    dram = Dram(timing.dram, sm_hz)
    l2 = L2(chip.l2, timing.l2_capacity.bytes, dram, Translation(chip.translation, sm_hz), sm_hz)
    per_sm = max(1, residency.ctas)
    shared = program.static_shared + geometry.dynamic_shared
    most_on_an_sm = min(per_sm, -(-geometry.ctas // arch.limits.sms))
    configured = carve_out(chip.l1, arch.limits, shared, per_sm) if shared else 0
    records = records_per_warp(min(geometry.ctas, most_on_an_sm * arch.limits.sms) * geometry.warps)

    watch = SpinWatch(memory)

    def make_stream(sm: int) -> CtaStream:
        recorder = new_recorder(program, geometry.warps, records, loaded.native.pool, counts)
        slot = CtaSlot(loaded, geometry, memory, parameters, sm_count=arch.limits.sms, sm=sm, recorder=recorder)
        return CtaStream(slot, table.starts, lambda cycle: ns_of_cycles(cycle, sm_hz), watch)

    context = LaunchContext(
        env=simpy.Environment(),
        table=table,
        counters=counters,
        distributor=WorkDistributor(chip.launch, geometry.ctas, arch.limits.sms, per_sm, progress),
        make_stream=make_stream,
        threads=geometry.threads,
        fetch_cycles=cycles_of_ns(chip.instruction_cache.miss_ns, sm_hz),
        constant_cycles=cycles_of_ns(chip.instruction_cache.constant_miss_ns, sm_hz),
    )

    def make_sm(number: int) -> Sm:
        l1 = L1(chip.l1.latency, chip.l1.bytes - configured, l2, l2.port(number))
        lsu = Lsu(chip, SharedMemory(chip.shared_memory), l1, counters)
        return ObservedSm(number, lsu, context, observers) if observers else Sm(number, lsu, context)

    sms: dict[int, Sm] = {}
    for number, cta, cycle in context.distributor.first_wave():
        if number not in sms:
            sms[number] = make_sm(number)
        sms[number].expect(cta, cycle)
    processes = [context.env.process(sm.run()) for sm in sms.values()]
    context.env.run(until=simpy.AllOf(context.env, processes))  # raises the very error that a process raises
    cycles = max(sm.finished for sm in sms.values())
    return TimedRun(cycles, counters, counts, table, l2, dram, configured)
