"""``tcsim.Profiler``: launches inside ``with tcsim.Profiler() as prof`` are timed."""

from __future__ import annotations

from contextvars import ContextVar, Token
from types import TracebackType
from typing import TYPE_CHECKING, Literal

from tcsim.code_source import CodeSource
from tcsim.execute.recorder import ISSUED_AGAIN
from tcsim.profile import STALL_REASONS, InstructionProfile, LaunchProfile, SampleProfile

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from isa.program import Program
    from tcsim.arch import Timing
    from tcsim.arch.timing_spec import Pipe
    from tcsim.execute.cta import Geometry
    from tcsim.launch.launch import Launch
    from tcsim.launch.occupancy import Occupancy
    from tcsim.timing.gpu import TimedRun
    from tcsim.timing.observer import Observer

__all__ = ["Profiler", "active_profiler"]

TIMED_PTX = "PTX, priced by a table of what ptxas usually makes of it"
TIMED_MACHINE = "machine code with its control bits"


class Profiler:
    """Times the launches made while it is entered, on any device that has timing tables.

    ``launches``: a :class:`~tcsim.profile.LaunchProfile` each, in order; a launch that fails leaves none. ``observers``: told
    of every issue, stall and access as they happen (:class:`~tcsim.timing.observer.Observer`). ``timing``: tables to use
    instead of the device's, for what-if studies. ``engine``: ``"compiled"``, or ``"simpy"``, the readable one, which runs in
    any case if there are observers; both give the same numbers. ``code``: ``"machine"`` times the machine code that ptxas makes
    of the PTX, wherever that can be had and executed, ``"ptx"`` never does. Caches are cold at every launch, as Nsight Compute
    makes them. Profilers nest; the innermost one times a launch.

    ``sample``: simulate only the CTAs that so many SMs get, for the whole chip (True: as many as the stated error was measured
    with). What other CTAs write is then missing from memory: arrays are not to be used. A launch raises DeviceError if its CTAs
    wait for one another.
    """

    def __init__(
        self,
        observers: Sequence[Observer] = (),
        *,
        timing: Timing | None = None,
        engine: Literal["compiled", "simpy"] = "compiled",
        code: Literal["machine", "ptx"] = "machine",
        sample: bool | int = False,
    ) -> None:
        self.engine, self.code = engine, code
        self.missing = ""  # why there is no machine code, where there is none
        self.launches: list[LaunchProfile] = []
        self._observers = tuple(observers)
        self._timing = timing
        self._sample = sample
        self._tokens: list[Token[Profiler | None]] = []

    def __enter__(self) -> Profiler:
        self._tokens.append(_active.set(self))
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        _active.reset(self._tokens.pop())

    def run(
        self,
        launch: Launch,
        geometry: Geometry,
        parameters: NDArray[np.uint8],
        residency: Occupancy,
        progress: Callable[[int, int], None] | None,
    ) -> int:
        """Run a launch in time and keep its profile; returns the warp instructions executed. Raises what an untimed run
        raises.
        """
        from tcsim.arch import find_timing
        from tcsim.timing.gpu import run_timed
        from tcsim.timing.metrics import launch_metrics, stall_totals
        from tcsim.timing.sample import sample_error

        arch = launch.device.arch
        timing = self._timing or find_timing(arch)
        timed = run_timed(
            launch.loaded,
            geometry,
            launch.device.memory,
            parameters,
            arch,
            timing,
            residency,
            self._observers,
            progress,
            self.engine,
            sample_error().sms if self._sample is True else self._sample,
        )
        program = launch.loaded.program
        source = launch.source() if launch.source is not None else CodeSource()
        self.launches.append(
            LaunchProfile(
                name=program.name,
                device=arch.name,
                device_name=arch.full_name,
                sm=arch.sm,
                grid=launch.grid,
                block=launch.block,
                cycles=timed.cycles,
                sm_clock_hz=timing.clocks.sm_hz,
                metrics=launch_metrics(timed, geometry, residency, arch, timing),
                stalls=stall_totals(timed),
                warp_cycles=timed.counters.warp_cycles,
                instructions=_source_view(timed, source, timing.chip.pipes),
                timed=TIMED_MACHINE if program.control else TIMED_PTX,
                notes=(*_sample_notes(timed, geometry), *_notes(program, self.missing)),
                ptx=source.ptx,
                sample=_sample_profile(timed, geometry),
            )
        )
        return int(timed.counts[:, 0].sum())


_active: ContextVar[Profiler | None] = ContextVar("tcsim_profiler", default=None)


def active_profiler() -> Profiler | None:
    """The innermost profiler that is entered, if any."""
    return _active.get()


def _sample_profile(run: TimedRun, geometry: Geometry) -> SampleProfile | None:
    if run.sampled is None:
        return None
    from tcsim.timing.sample import sample_error

    known, found = sample_error(), run.sampled
    error, source = (known.mean, known.source) if found.simulated < found.clusters else (0.0, "all CTAs were simulated")
    return SampleProfile(
        found.simulated * geometry.cluster_size, geometry.ctas, found.sms, found.footprint, error, source
    )


def _sample_notes(run: TimedRun, geometry: Geometry) -> tuple[str, ...]:
    if run.sampled is None:
        return ()
    from tcsim.timing.sample import sample_error

    found, size = run.sampled, geometry.cluster_size
    which = f"{found.simulated * size:,} of {found.clusters * size:,} CTAs were simulated, on {len(found.sms)} SMs"
    if found.simulated == found.clusters:
        return (f"the sample is all of the launch: {which}",)
    return (
        f"a sample: {which} ({_spans(found.sms)}), sums are scaled up; {sample_error()}",
        "arrays have the results of these CTAs only: do not use them",
    )


def _spans(numbers: Sequence[int]) -> str:
    """Ascending numbers, those in a row as ``first-last``."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(f"{first}-{last}" if last > first else str(first) for first, last in spans)


def _notes(program: Program, missing: str) -> tuple[str, ...]:
    cold = "caches and address translation are cold at the start of the launch"
    if program.control:
        return (cold,)
    from tcsim.timing.stand_in import stand_in

    why = (f"no machine code: {missing}",) if missing else ()
    return (
        *why,
        str(stand_in()),
        f"{program.registers_per_thread} registers per thread is an estimate from liveness; ptxas may use more or fewer, "
        "and then the occupancy differs",
        cold,
    )


def _source_view(run: TimedRun, source: CodeSource, pipes: Mapping[str, Pipe]) -> tuple[InstructionProfile, ...]:
    from tcsim.timing.hierarchy import L1_HITS, SECTORS, WAVEFRONTS

    program, counters, width = run.table.program, run.counters, len(STALL_REASONS)
    events = run.memories.events.tolist()
    rows = []
    for entry in run.table.entries:
        pc, loc = entry.pc, program.locs[entry.pc]
        stalls = counters.stalls[entry.row : entry.row + width]
        pipe, interval = "", 0.0
        if not entry.free:
            cost = run.table.cost(pc)
            pipe, interval = pipes[cost.pipe].metric, cost.busy / (1 + (entry.other != entry.pipe))
        rows.append(
            InstructionProfile(
                pc=pc,
                opcode=program.opcodes[pc],
                ptx_line=int(program.lines[pc]),
                file=program.files.get(loc.file, "") if loc is not None else "",
                line=loc.line if loc is not None else 0,
                timing=run.table.classes[pc],
                free=entry.free,
                executed=int(run.counts[pc, 0] - run.counts[pc, ISSUED_AGAIN]),
                threads=int(run.counts[pc, 2] - run.counts[pc, ISSUED_AGAIN + 1]),
                issued=stalls[0],
                stalls={reason: cycles for reason, cycles in zip(STALL_REASONS, stalls, strict=True) if cycles},
                sectors=events[pc][SECTORS],
                l1_hits=events[pc][L1_HITS],
                wavefronts=events[pc][WAVEFRONTS],
                text=source.text[pc] if pc < len(source.text) else program.opcodes[pc],
                live=source.live[pc] if pc < len(source.live) else 0,
                pipe=pipe,
                interval=interval,
            )
        )
    return tuple(rows)
