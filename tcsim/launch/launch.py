"""A launch: everything it needs, and running it, with time if a profiler is listening."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tcsim.device import Device
from tcsim.execute.cluster import Cluster
from tcsim.execute.cta import CtaSlot, Geometry
from tcsim.execute.grid import run_grid
from tcsim.execute.loader import LoadedProgram
from tcsim.launch.arguments import pack_arguments
from tcsim.launch.banks import complete_banks
from tcsim.launch.occupancy import occupancy
from tcsim.profiler import active_profiler
from tcsim.progress import running

__all__ = ["Launch", "run"]

Dim3 = tuple[int, int, int]


@dataclass(frozen=True)
class Launch:
    """One launch, checked. ``shared_mem``: dynamic shared memory in bytes. ``cluster``: extents of a cluster, or None."""

    loaded: LoadedProgram
    device: Device
    grid: Dim3
    block: Dim3
    args: tuple[Any, ...]
    shared_mem: int
    cluster: Dim3 | None = None


def run(launch: Launch) -> int:
    """Run a launch, timed if a profiler is active; returns the warp instructions executed."""
    program = launch.loaded.program
    parameters = pack_arguments(program.name, program.parameters, program.param_size, launch.args, launch.device)
    geometry = Geometry(launch.grid, launch.block, launch.shared_mem, launch.cluster)
    arch = launch.device.arch
    if program.image is not None:
        complete_banks(program.image, parameters, geometry, launch.loaded.symbols, launch.device.memory, arch.limits.sms)
    residency = occupancy(
        arch,
        threads=geometry.threads,
        registers=program.registers_per_thread,
        shared=program.static_shared + launch.shared_mem,
    )
    sms = arch.limits.sms

    def make_slot(rank: int) -> CtaSlot:
        return CtaSlot(launch.loaded, geometry, launch.device.memory, parameters, sm_count=sms, rank=rank)

    def make_cluster() -> Cluster:
        return Cluster(make_slot, geometry.cluster_size)

    profiler = active_profiler()
    with running(program.name) as progress:
        if profiler is not None:
            return profiler.run(launch, geometry, parameters, residency, progress)
        resident = max(1, residency.ctas * sms // geometry.cluster_size)
        return run_grid(make_cluster, geometry.ctas // geometry.cluster_size, resident, progress)
