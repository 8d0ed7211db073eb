"""The chip: builds what a launch needs, and runs it on one of the two engines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import simpy
from numpy.typing import NDArray

from tcsim.arch import Arch, Timing
from tcsim.errors import DeviceError
from tcsim.execute.cta import CtaSlot, Geometry
from tcsim.execute.loader import LoadedProgram
from tcsim.execute.recorder import Recorder, new_counts
from tcsim.execute.signals import signal_table
from tcsim.launch.occupancy import Occupancy
from tcsim.memory import DeviceMemory
from tcsim.timing.compiled import CompiledChip
from tcsim.timing.compiled.others import address_for
from tcsim.timing.compiled.state import new_chip_state
from tcsim.timing.constant_cache import parameters_end
from tcsim.timing.counters import Counters
from tcsim.timing.ending import ending_cycles
from tcsim.timing.footprint import lines_per_line
from tcsim.timing.gpc_clock import covers_all_gpcs, elapsed_cycles
from tcsim.timing.hierarchy import CODE_FIRST, DRAM_READ, LAST_SERVED, Hierarchy, Share, new_hierarchy
from tcsim.timing.issue import IssueTable
from tcsim.timing.machine_table import MachineTable
from tcsim.timing.memory_unit import MemoryUnit
from tcsim.timing.observer import ObservedSm, Observer
from tcsim.timing.placement import Placement
from tcsim.timing.sample import Sampled, check_sample, sampled_sms, scale_up
from tcsim.timing.shared_memory import carve_out
from tcsim.timing.sm import LaunchContext, Sm, take_turns
from tcsim.timing.spinning import time_dependent
from tcsim.timing.stream import Streams, records_per_warp
from tcsim.timing.units import TICKS, cycles_of_ns, ns_of_cycles
from tcsim.timing.watch import SpinWatch
from tcsim.timing.work_distributor import WorkDistributor

__all__ = ["ENGINES", "Engine", "TimedRun", "run_timed"]

Progress = Callable[[int, int], None]
Engine = Literal["compiled", "simpy"]
ENGINES: tuple[Engine, ...] = ("compiled", "simpy")


@dataclass(frozen=True)
class TimedRun:
    """What a timed run counted. ``cycles``: SM cycles from launch to end. ``counts``:
    executions of each instruction (:func:`tcsim.execute.recorder.new_counts`). ``memories``: what the
    memories counted. ``shared_configured``: bytes of an SM's memory that were shared memory. ``slices``: of the L2.
    ``sampled``: what was simulated, if that was to be a sample; the sums then stand for the whole launch.
    """

    cycles: int
    counters: Counters
    counts: NDArray[np.int64]
    table: IssueTable | MachineTable
    memories: Hierarchy
    shared_configured: int
    slices: int
    sampled: Sampled | None = None


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
    engine: Engine = "compiled",
    sample: int = 0,
) -> TimedRun:
    """Execute a launch and time it. Memory ends up as after an untimed run. Observers are told by the SimPy engine, which
    therefore runs if there are any. ``sample``: SMs to simulate for all (:mod:`tcsim.timing.sample`), 0 for the whole chip;
    of a sample memory has the results of its CTAs only.

    Raises what an untimed run raises (KernelFault, DeadlockError), and DeviceError for an instruction that the chip's tables do
    not price, for an engine that there is not, or for a sample that cannot be taken.
    """
    if engine not in ENGINES:
        raise DeviceError(f"engine {engine!r}: {' or '.join(map(repr, ENGINES))}")
    chip, sm_hz, program = timing.chip, timing.clocks.sm_hz, loaded.program
    table = MachineTable(program, timing) if program.control else IssueTable(program, timing)
    timed = time_dependent(program)
    if sample:
        check_sample(program.name, sample, arch, bool(timed.any()) or geometry.workspace != 0)
    for pc in np.flatnonzero(timed).tolist():
        table.entries[pc].timed = table.entries[pc].leaves_sm = True
    counters = Counters(len(program), arch.limits.sms)
    counts = new_counts(program)
    per_sm = max(1, residency.ctas)
    shared = program.static_shared + geometry.dynamic_shared
    spare = 1 < per_sm < residency.by_barriers and geometry.threads < arch.limits.max_threads_per_cta
    configured = carve_out(chip.l1, arch.limits, shared, per_sm, spare=spare) if shared else 0
    clusters = geometry.ctas // geometry.cluster_size
    units = arch.limits.units if geometry.cluster_size == 1 else arch.limits.clusters
    placement = Placement(arch.limits.sms, units, per_sm, geometry.cluster_size, clusters)
    if not placement.sites:
        raise DeviceError(f"kernel {program.name}: no GPC of {arch.full_name} has room for {geometry.cluster_size} of its CTAs")
    signalled = shared + program.reserved_shared if (signal_table(program)[:, 0] >= 0).any() else 0

    def make_slot(sm: int, rank: int, recorder: Recorder) -> CtaSlot:
        return CtaSlot(loaded, geometry, memory, parameters, sm_count=arch.limits.sms, sm=sm, rank=rank, recorder=recorder)

    sampled = None
    if sample:
        loads = placement.loads(clusters)
        placement.keep(sampled_sms(sample, arch, chip, placement.size > 1))
        requests = len(placement.sites) / placement.whole
        lines = 1.0
        if requests < 1:
            lines = lines_per_line(
                program,
                geometry.warps,
                loaded.native.pool,
                memory,
                lambda rank, recorder: make_slot(0, rank, recorder),
                placement.whole,
                placement.numbers,
                placement.size,
            )
        kept = placement.coming(clusters)
        sampled = Sampled(kept, clusters, tuple(placement.sms), requests, lines, loads, placement.per_sm)
    constant_bytes = len(program.image.content) if program.image is not None else 0
    memories = new_hierarchy(
        arch,
        timing,
        len(program),
        chip.l1.bytes - configured,
        placement.used,
        table.blocks,
        places=placement.places,
        signalled=signalled,
        constants=(constant_bytes, parameters_end(program)),
        busy=placement.busy,
        share=Share(sampled.requests, 1 / sampled.footprint) if sampled is not None else Share(),
    )

    streams = Streams(
        program,
        geometry.warps,
        placement,
        records_per_warp(placement.places * geometry.warps),
        make_slot,
        loaded.native.pool,
        counts,
        table.starts,
        lambda cycle: ns_of_cycles(cycle, sm_hz),
        SpinWatch(memory),
        timed,
    )
    at_least = chip.clusters.dispatch_interval if chip.clusters is not None and geometry.is_clustered else 0.0
    distributor = WorkDistributor(chip.launch, clusters, placement, geometry.warps, arch.limits.sms, sm_hz, at_least, progress)
    code = chip.instruction_cache
    constant = cycles_of_ns(code.constant_miss_ns + code.shared_constant_ns * placement.busy, sm_hz)
    constant += int(memories.costs[CODE_FIRST])
    if engine == "compiled" and not observers:
        others = address_for({entry.unit for entry in table.entries}, placement.size)
        state = new_chip_state(
            table, memories, streams.buffers, placement, threads=geometry.threads, constant=constant, others=others
        )
        fast = CompiledChip(state, streams, distributor, geometry.members, chip.launch.cta)
        for site, cluster, cycle in distributor.first_wave():
            fast.expect(site, cluster, cycle)
        fast.run(program.name)
        cycles = fast.count(counters)
    else:
        context = LaunchContext(
            simpy.Environment(), table, counters, distributor, streams, geometry.members, geometry.threads, constant
        )
        cycles = _run_simpy(context, memories, observers)
    cycles = max(cycles, distributor.retired, -(-int(memories.totals[LAST_SERVED]) // TICKS))
    if sampled is not None:
        scale_up(sampled, counters, counts, memories, geometry.ctas)
    cycles += ending_cycles(chip.launch, placement.busy, int(memories.totals[DRAM_READ]), sm_hz)
    overhead, covered = cycles_of_ns(chip.launch.overhead_ns, sm_hz), covers_all_gpcs(geometry.ctas)
    cycles = elapsed_cycles(cycles, overhead, _tensor_duty(table, counts, counters), covered, timing.clocks)
    slices = chip.l2.slices // chip.l2.partitions * chip.l2.partitions
    return TimedRun(cycles, counters, counts, table, memories, configured, slices, sampled)


def _tensor_duty(table: IssueTable | MachineTable, counts: NDArray[np.int64], counters: Counters) -> float:
    """The part of the SMs' active time for which their tensor cores are busy with matrices."""
    busy = 0
    for entry in table.entries:
        if not entry.free and "MMA" in table.classes[entry.pc].upper() and not table.classes[entry.pc].startswith("HFMA2"):
            busy += int(counts[entry.pc, 0]) * table.cost(entry.pc).busy
    return busy / max(1, table.chip.scheduler.sub_partitions * sum(counters.sm_active))


def _run_simpy(context: LaunchContext, memories: Hierarchy, observers: Sequence[Observer]) -> int:
    """The launch on SimPy's clock; returns the cycle in which its last CTA ended."""
    env, placement = context.env, context.streams.placement
    for number in range(placement.used):
        unit = MemoryUnit(number, memories)
        seen = [each for each in observers if placement.size > 1 or each.watches(number)]  # a cluster's SMs reach into others
        context.sms[number] = ObservedSm(number, unit, context, seen) if seen else Sm(number, unit, context)
    context.streams.is_dry = lambda: any(sm.dry for sm in context.sms.values())
    for site, cluster, cycle in context.distributor.first_wave():
        context.expect(site, cluster, cycle)
    processes = [take_turns(context)] if placement.size > 1 else [sm.run() for sm in context.sms.values()]
    env.run(until=simpy.AllOf(env, [env.process(process) for process in processes]))  # raises the very error that one raises
    return max(sm.finished for sm in context.sms.values())
