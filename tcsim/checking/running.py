"""Run a launch for a check, as often as that takes, and make hazards of what stops it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from isa.program import KIND, Kind
from tcsim.checking.confirm import Snapshot, depends_on_unwritten
from tcsim.checking.report import Access, CheckReport, Hazard
from tcsim.errors import DeadlockError, KernelFault
from tcsim.execute.cluster import Cluster
from tcsim.execute.cta import CtaSlot
from tcsim.execute.grid import run_grid

if TYPE_CHECKING:
    from tcsim.execute.cta import Geometry
    from tcsim.execute.loader import LoadedProgram
    from tcsim.launch.launch import Launch

__all__ = ["Running", "check_machine_code"]

Slot = TypeVar("Slot", bound=CtaSlot)
Progress = Callable[[int, int], None] | None


@dataclass(frozen=True)
class Running:
    """A launch to run. ``resident``: clusters that the device holds at once."""

    launch: Launch
    geometry: Geometry
    parameters: NDArray[np.uint8]
    resident: int

    def slot(self, kind: type[Slot], loaded: LoadedProgram, options: dict[str, Any], rank: int) -> Slot:
        """A slot of some kind for CTAs of a rank."""
        device = self.launch.device
        sms = device.arch.limits.sms
        return kind(loaded, self.geometry, device.memory, self.parameters, sm_count=sms, rank=rank, **options)

    def plain(self, kind: type[CtaSlot] = CtaSlot, **options: Any) -> Cluster:
        """Slots for a cluster that runs the kernel without hooks."""
        return Cluster(partial(self.slot, kind, self.launch.loaded, options), self.geometry.cluster_size)

    @property
    def clusters(self) -> int:
        """How many clusters the launch has."""
        return self.geometry.ctas // self.geometry.cluster_size

    def run(
        self, make_cluster: Callable[[], Cluster], progress: Progress, loaded: LoadedProgram, origin: Sequence[int] | None
    ) -> tuple[list[Hazard], int]:
        """Run all CTAs: what stops them, and the warp instructions executed. ``loaded``: what runs; ``origin``: the instruction
        of the kernel that each of its instructions stands for, None if they are the same."""
        try:
            return [], run_grid(make_cluster, self.clusters, self.resident, progress)
        except KernelFault as problem:
            return [_of_fault(problem, loaded, origin)], 0
        except DeadlockError as problem:
            return [Hazard("DEADLOCK", "", (), "", "", loaded.program.name, detail=str(problem))], 0


def _of_fault(problem: KernelFault, loaded: LoadedProgram, origin: Sequence[int] | None) -> Hazard:
    program, loc = loaded.program, loaded.program.locs[problem.pc]
    access = Access(
        "",
        program.opcodes[problem.pc],
        problem.pc if origin is None else origin[problem.pc],
        problem.ptx_line,
        program.files.get(loc.file, "") if loc is not None else "",
        loc.line if loc is not None else 0,
        problem.cta,
        problem.warp,
        problem.lanes,
    )
    where = f"{problem.address:#x}" if problem.address is not None else ""
    return Hazard(problem.kind, where, (access,), "", "", program.name, detail=str(problem))


def check_machine_code(running: Running, progress: Progress, report: CheckReport) -> int:
    """Check a launch of machine code, which is not hooked: what stops it is found, and whether its results depend on memory
    that nobody has written. A note says so. Returns the warp instructions executed."""
    loaded = running.launch.loaded
    program = loaded.program
    before = Snapshot.of(running.launch.device.memory)
    stopped, executed = running.run(running.plain, progress, loaded, None)
    report.hazards += stopped
    talks = bool((program.code[:, KIND] == Kind.HOST_CALL).any())  # a second launch might print again
    if stopped or talks:
        before = None
    if before is not None and depends_on_unwritten(before, running.plain, running.clusters, running.resident):
        why = "launched again with other bytes in shared and local memory at its start, it leaves other results (PTX ISA 5.1)"
        suggestion = "check its PTX, which says where"
        report.hazards.append(Hazard("UNINITIALISED", "shared or local memory", (), why, suggestion, program.name))
    report.notes.append(
        f"{program.name}: this is machine code, in which races, copies under way, masks, registers and accumulators are not "
        "looked at. Check its PTX for those (nvcc -ptx; a cubin has none, a fatbin may)"
    )
    return executed
