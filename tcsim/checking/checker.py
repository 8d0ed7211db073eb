"""``tcsim.Checker``: launches inside ``with tcsim.Checker() as checker`` are checked; ``tcsim.check`` checks one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import Token
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from tcsim.checking.active import ACTIVE
from tcsim.checking.confirm import Snapshot, depends_on_unwritten
from tcsim.checking.divergence import passed_by
from tcsim.checking.findings import Narrator
from tcsim.checking.hooked import HookedProgram, hooked_program
from tcsim.checking.layout import DIVERGENT_BARRIER, F_KIND, F_OTHER_PC, F_PC, M_DATA_BYTES
from tcsim.checking.numerics import LOST, LOST_OF_HALF, N_CANCELLED, N_ELEMENTS, N_FIRST, N_PLACE, N_WORST
from tcsim.checking.report import CheckReport, merged
from tcsim.checking.running import Running, check_machine_code
from tcsim.checking.slot import CheckedCluster, CheckedSlot, Order
from tcsim.checking.tables import GridTables
from tcsim.checking.written import writable_addresses
from tcsim.execute.grid import run_grid

if TYPE_CHECKING:
    from tcsim.execute.cta import Geometry
    from tcsim.launch.launch import Launch
    from tcsim.module import Function

__all__ = ["Checker", "check"]

CANCELLED_SHARE = 0.01
"""From which share of an instruction's elements on a note tells that sums cancel. Of sums of random numbers, 2^-LOST do by
chance."""


class Checker:
    """Checks the launches made while it is entered.

    ``report``: a :class:`~tcsim.checking.report.CheckReport`, which grows. ``seed``: run CTAs and warps in a random order made
    from it, to show what depends on the order; None: the executor's own. ``numerics``: also watch the accumulators of matrix
    instructions for overflow and cancellation. ``fragments``: also follow elements from memory to the first matrix
    instructions of a few warps, to find registers exchanged or used twice (:mod:`tcsim.checking.provenance`). A launch that
    faults or deadlocks is a hazard, too, and ends there; nothing is raised. Of machine code, only what stops it is found, and
    results that depend on unwritten memory; a note says so. Checkers nest; the innermost one checks a launch.
    """

    def __init__(self, *, seed: int | None = None, numerics: bool = True, fragments: bool = False) -> None:
        self.report = CheckReport()
        self.seed, self.numerics, self.fragments = seed, numerics, fragments
        self._tokens: list[Token[Checker | None]] = []

    def __enter__(self) -> Self:
        self._tokens.append(ACTIVE.set(self))
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        ACTIVE.reset(self._tokens.pop())

    def run(
        self,
        launch: Launch,
        geometry: Geometry,
        parameters: NDArray[np.uint8],
        resident: int,
        progress: Callable[[int, int], None] | None,
    ) -> int:
        """Run a launch and add what is wrong with it to the report; returns the warp instructions executed."""
        program, report = launch.loaded.program, self.report
        running = Running(launch, geometry, parameters, resident)
        report.launches += 1
        if program.image is not None:
            return check_machine_code(running, progress, report)
        hooked = hooked_program(launch.loaded, launch.lowered, numerics=self.numerics)
        warpgroups = any(opcode.startswith("wgmma") for opcode in program.opcodes)
        order = Order.of(geometry, self.seed, together=4 if warpgroups else 1)
        memory = launch.device.memory
        narrator = Narrator(hooked, geometry, memory, order.warps)
        writable = None
        if hooked.written is not None:
            writable = [*writable_addresses(hooked.written, parameters, launch.loaded.symbols), geometry.workspace]
        before = Snapshot.of(memory, writable)
        grid = GridTables(hooked, geometry, memory, writable)
        make_slot = partial(running.slot, CheckedSlot, hooked.loaded, {"grid": grid, "order": order})
        make_cluster = partial(CheckedCluster, make_slot, geometry.cluster_size, order)
        stopped, executed = running.run(make_cluster, progress, hooked.loaded, hooked.origin)
        if grid.talked:
            before = None  # a second launch would print again
        found = [row for row in grid.found if row[F_KIND] != DIVERGENT_BARRIER or _is_divergent(row, hooked)]
        hazards = merged([narrator.hazard(row) for row in found] + stopped)
        unwritten = [hazard for hazard in hazards if hazard.kind == "UNINITIALISED"]
        if unwritten and before is not None and not stopped:
            if self.seed is not None:
                before.restore()
                run_grid(running.plain, running.clusters, resident)
            if not depends_on_unwritten(before, running.plain, running.clusters, resident):
                hazards = [hazard for hazard in hazards if hazard.kind != "UNINITIALISED"]
                report.notes += [f"{hazard.text()}\n  (no result depends on it)" for hazard in unwritten]
        if self.fragments and before is not None and not stopped:
            from tcsim.checking.provenance import check_fragments

            warps = _multiplying(launch, geometry, grid, order)
            hazards += merged(check_fragments(launch, geometry, parameters, before, warps))
        report.hazards += hazards
        report.notes += _notes(grid, narrator)
        return executed


def _is_divergent(row: NDArray[np.int64], hooked: HookedProgram) -> bool:
    place = hooked.origin[int(row[F_OTHER_PC])]
    return hooked.kernel is None or passed_by(hooked.kernel, int(row[F_PC]), place)


def _multiplying(launch: Launch, geometry: Geometry, grid: GridTables, order: Order) -> list[tuple[int, int]]:
    """(number of the CTA, warp) of the first to execute each matrix instruction."""
    from tcsim.checking.provenance import matrix_instructions

    first = [int(grid.numerics[pc, N_FIRST]) - 1 for pc in matrix_instructions(launch.loaded.program)]
    agents = [divmod(agent, geometry.warps) for agent in dict.fromkeys(first) if agent >= 0]
    return [(cta, order.warps[row]) for cta, row in agents]


def _notes(grid: GridTables, narrator: Narrator) -> list[str]:
    notes = []
    name = grid.program.name
    if grid.lost:
        notes.append(f"{name}: {grid.lost:,} more hazards at other instructions are not listed")
    if grid.left_out:
        notes.append(f"{name}: {len(grid.left_out)} buffers of {sum(grid.left_out):,} bytes are too large to look for races in")
    for pc, numbers in enumerate(grid.numerics):
        elements, cancelled = int(numbers[N_ELEMENTS]), int(numbers[N_CANCELLED])
        if cancelled and cancelled > CANCELLED_SHARE * elements:
            agent, place = divmod(int(numbers[N_PLACE]), 1 << 16)
            lost = LOST if int(grid.plan.meta[pc, M_DATA_BYTES]) == 4 else LOST_OF_HALF
            access = narrator.access("", pc, agent, 1 << (place & 31))
            notes.append(
                f"CANCELLATION  {access.text()}\n  {cancelled:,} of {elements:,} accumulator elements lost {lost} bits or "
                f"more in one step (by chance: about 1 in {1 << lost:,}), {int(numbers[N_WORST])} at most, there in register "
                f"{place >> 8}. Try a wider accumulator, or subtract before multiplying"
            )
    return notes


def check(
    function: Function, grid: Any, block: Any, args: Sequence[Any] = (), *, shared_mem: int = 0, **options: Any
) -> CheckReport:
    """Launch a kernel once, as ``function(grid, block, args)`` does, and report what is wrong with it. Options as
    :class:`Checker`'s."""
    with Checker(**options) as checker:
        function(grid, block, args, shared_mem=shared_mem)
    return checker.report
