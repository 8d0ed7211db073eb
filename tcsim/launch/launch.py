"""A launch: everything it needs, and running it, with time if a profiler is listening."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from isa.machine import UNDEFINED
from isa.tensor.undefined import TF32, WHAT
from tcsim.checking.active import active_checker
from tcsim.device import Device
from tcsim.errors import LaunchError, UndefinedOperandWarning
from tcsim.execute.cluster import Cluster
from tcsim.execute.cta import CtaSlot, Geometry
from tcsim.execute.grid import SHORT_TURN, TURN, run_grid
from tcsim.execute.loader import LoadedProgram
from tcsim.launch.arguments import pack_arguments
from tcsim.launch.banks import complete_banks
from tcsim.launch.occupancy import named_barriers, occupancy
from tcsim.profiler import active_profiler
from tcsim.progress import running

if TYPE_CHECKING:
    from isa.lower.ir import Kernel
    from tcsim.code_source import CodeSource

__all__ = ["Launch", "run"]

Dim3 = tuple[int, int, int]
_WORKSPACE_BYTES = 256  # two words are used: a size and the barrier's counter (driver_abi.h of CUDA 13)


@dataclass(frozen=True)
class Launch:
    """One launch, its shape checked. ``shared_mem``: dynamic shared memory in bytes. ``cluster``: extents of a cluster, or
    None. ``lowered``: makes the kernel as it was before registers were allocated. ``cooperative``: all CTAs are resident at
    once, so that they may wait for each other. ``source``: what its code looks like.
    """

    loaded: LoadedProgram
    device: Device
    grid: Dim3
    block: Dim3
    args: tuple[Any, ...]
    shared_mem: int
    cluster: Dim3 | None = None
    lowered: Callable[[], Kernel] | None = None
    cooperative: bool = False
    source: Callable[[], CodeSource] | None = None


def run(launch: Launch) -> int:
    """Run a launch, timed if a profiler is active, else checked if a checker is; returns the warp instructions executed.

    Raises LaunchError for a cooperative one whose CTAs do not fit.
    """
    program = launch.loaded.program
    parameters = pack_arguments(program.name, program.parameters, program.param_size, launch.args, launch.device)
    geometry = Geometry(launch.grid, launch.block, launch.shared_mem, launch.cluster)
    arch = launch.device.arch
    residency = occupancy(
        arch,
        threads=geometry.threads,
        registers=program.registers_per_thread,
        shared=program.static_shared + launch.shared_mem,
        barriers=named_barriers(program),
    )
    sms = arch.limits.sms

    def make_slot(rank: int) -> CtaSlot:
        return CtaSlot(launch.loaded, geometry, launch.device.memory, parameters, sm_count=sms, rank=rank)

    def make_cluster() -> Cluster:
        return Cluster(make_slot, geometry.cluster_size)

    profiler, checker = active_profiler(), active_checker()
    resident = max(1, residency.ctas * sms // geometry.cluster_size)
    with _grid_workspace(launch, geometry, residency.ctas * sms), running(program.name) as progress:
        if program.image is not None:
            clusters = program.reserved_shared > 0  # as on every architecture that has them
            symbols, memory = launch.loaded.symbols, launch.device.memory
            static = program.static_shared
            complete_banks(program.image, parameters, geometry, symbols, memory, sms, clusters, static)
        if profiler is not None:
            executed = profiler.run(launch, geometry, parameters, residency, progress)
        elif checker is not None:
            executed = checker.run(launch, geometry, parameters, resident, progress)
        else:
            turn = SHORT_TURN if launch.cooperative else TURN
            executed = run_grid(make_cluster, geometry.ctas // geometry.cluster_size, resident, progress, turn)
    _tell_undefined(launch, geometry)
    return executed


def _tell_undefined(launch: Launch, geometry: Geometry) -> None:
    """Warn of operands that PTX leaves undefined, of each kind once, as at the line that launches."""
    name, met = launch.loaded.program.name, 0
    for words in geometry.machines:
        met |= int(words[UNDEFINED])
    if met & TF32 and launch.loaded.program.image is not None and not _leaves_low_bits(launch):
        met &= ~TF32
    for bit, what in WHAT.items():
        if met & bit:
            warnings.warn(
                f"kernel {name}: {what}. PTX leaves this undefined; the results are an H200's, other GPUs may give others",
                UndefinedOperandWarning,
                stacklevel=4,
            )


def _leaves_low_bits(launch: Launch) -> bool:
    """Whether PTX, of which machine code was made, hands tf32 matrices on as they are.

    Where it rounds with ``cvt.rna.tf32``, ptxas adds half a unit and leaves the low bits, which the tensor cores drop. Machine
    code without PTX says nothing.
    """
    opcodes = [instruction.opcode for instruction in launch.lowered().instructions] if launch.lowered is not None else []
    handed_on = any("mma" in opcode and ".tf32" in opcode for opcode in opcodes)
    return handed_on and not any(opcode.startswith("cvt.") and ".tf32" in opcode for opcode in opcodes)


@contextmanager
def _grid_workspace(launch: Launch, geometry: Geometry, most: int) -> Iterator[None]:
    """The memory that grid barriers count in, during a cooperative launch. ``most``: CTAs that the device holds at once."""
    if not launch.cooperative:
        yield
        return
    if geometry.ctas > most:
        raise LaunchError(
            f"kernel {launch.loaded.program.name}: a cooperative launch of {geometry.ctas:,} CTAs, but {launch.device.name} "
            f"holds {most:,} of these at once, and a grid barrier waits for all. Try fewer CTAs "
            "(cudaErrorCooperativeLaunchTooLarge)"
        )
    allocation = launch.device.memory.allocate(_WORKSPACE_BYTES)
    geometry.workspace = allocation.start
    try:
        yield
    finally:
        launch.device.memory.free(allocation)
