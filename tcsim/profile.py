"""What a timed launch leaves behind: plain frozen data, from which reports, CSV, JSON and plots are made.

Everything counted is a plain int, everything derived a float. A metric that the model does not have is absent, never 0;
look up with ``metrics.get(name)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["STALL_REASONS", "InstructionProfile", "LaunchProfile", "SampleProfile"]

STALL_REASONS = (
    "selected",
    "not_selected",
    "wait",
    "long_scoreboard",
    "short_scoreboard",
    "math_pipe_throttle",
    "mio_throttle",
    "lg_throttle",
    "barrier",
    "membar",
    "branch_resolving",
    "no_instruction",
    "imc_miss",
    "sleeping",
    "drain",
    "dispatch_stall",
)
"""What a resident warp does in a cycle, as Nsight Compute spells it. ``selected`` is the cycle in which it issues, the
rest are stalls. (Nsight Compute's definitions: "Warp State Statistics" of its documentation.)
"""


@dataclass(frozen=True, slots=True)
class InstructionProfile:
    """One instruction of the program: a row of the source view.

    ``pc``: its index in the program. ``opcode``: ``ld.global.f32``. ``ptx_line``: 1-based line of the PTX. ``file``,
    ``line``: of the CUDA source, or "" and 0 without ``.loc``. ``timing``: its timing class, the key of the arch
    tables. ``free``: it costs no issue slot, because ptxas folds it into others or renames registers
    (:mod:`tcsim.timing.issue`).

    Counted over all warps of the launch: ``executed`` times by a warp, ``threads`` that took part, ``issued`` issue
    slots used, ``stalls`` warp-cycles by reason (:data:`STALL_REASONS`; ``selected`` equals ``issued``) spent before
    this instruction. For memory instructions ``sectors`` (32-byte sectors of global or local memory, after coalescing),
    ``l1_hits`` (of those) and ``wavefronts`` (passes over the shared-memory banks); 0 otherwise.

    ``text``: the instruction with its operands. ``live``: 32-bit registers of a thread that hold a value before it or get one
    by it (of machine code as nvdisasm counts them; of PTX an estimate). ``pipe``: where it is executed, as
    Nsight Compute calls it (``fma``, ``tensor``; "" if it costs nothing); ``interval``: cycles of it that it takes.
    """

    pc: int
    opcode: str
    ptx_line: int
    file: str
    line: int
    timing: str
    free: bool
    executed: int
    threads: int
    issued: int
    stalls: Mapping[str, int]
    sectors: int
    l1_hits: int
    wavefronts: int
    text: str = ""
    live: int = 0
    pipe: str = ""
    interval: float = 0.0

    @property
    def stall_cycles(self) -> int:
        """Warp-cycles spent waiting to issue this instruction (everything but ``selected``)."""
        return sum(cycles for reason, cycles in self.stalls.items() if reason != "selected")


@dataclass(frozen=True, slots=True)
class SampleProfile:
    """What of a launch was simulated, where that was a sample: ``ctas`` of ``of`` CTAs, those that the SMs ``sms`` get. Sums
    stand for the whole launch. ``footprint``: how many lines of memory all CTAs of a wave touch for each that these do.
    ``error``: how far cycles of samples are from those of the whole chip, on average over recorded launches, as a fraction (0
    if all was simulated); ``error_source``: how that was measured.
    """

    ctas: int
    of: int
    sms: tuple[int, ...]
    footprint: float
    error: float
    error_source: str


@dataclass(frozen=True, slots=True)
class LaunchProfile:
    """One launch, timed.

    ``name``: kernel. ``device``: canonical name (``h200``); ``device_name``: the product. ``sm``: 90 for 9.0. ``grid``,
    ``block``: extents. ``cycles``: SM cycles from launch to end (``sm__cycles_elapsed.max``). ``sm_clock_hz``: the SM
    clock that the prediction assumes; L2, DRAM and launch times were converted with it. ``metrics``: Nsight Compute
    names to numbers. ``stalls``: warp-cycles by reason over the launch, each resident cycle of each warp counted once;
    they sum to ``warp_cycles``. ``instructions``: the source view, in program order. ``timed``: what issued, such as
    "PTX, priced by a table of ptxas's usual lowering". ``notes``: remarks for the reader, such as what limits the
    occupancy's certainty. ``ptx``: the text of the PTX lines that instructions come from, by number. ``sample``: set
    if not the whole chip was simulated.
    """

    name: str
    device: str
    device_name: str
    sm: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cycles: int
    sm_clock_hz: int
    metrics: Mapping[str, int | float]
    stalls: Mapping[str, int]
    warp_cycles: int
    instructions: tuple[InstructionProfile, ...]
    timed: str
    notes: tuple[str, ...] = ()
    ptx: Mapping[int, str] = field(default_factory=dict)
    sample: SampleProfile | None = None

    @property
    def seconds(self) -> float:
        """Predicted duration at the assumed clock."""
        return self.cycles / self.sm_clock_hz

    def report(self) -> str:
        """The profile as text in Nsight Compute's sections."""
        from tcsim.report.text import render

        return render(self)

    def _repr_html_(self) -> str:
        """In a notebook: the facts, where the cycles went, what to do."""
        from tcsim.report.html import summary_html

        return summary_html(self)
