"""Rules: what a profile says about its kernel, what to do, and how much that could gain at most.

Each rule belongs to a section, as in Nsight Compute. Estimates are bounds: what the launch would gain if this one thing took
no time and all else stayed as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tcsim.profile import InstructionProfile, LaunchProfile
from tcsim.report.derived import with_derived
from tcsim.report.stall_advice import MBARRIER_ADVICE, STALL_ADVICE
from tcsim.report.widths import ideal_sectors, space_of
from tcsim.report.work import has_matrices

__all__ = ["Advice", "advise"]


@dataclass(frozen=True)
class Advice:
    """One thing a rule has to say. ``rule``: its name; ``section``: where it belongs; ``kind``: ``INF`` tells, ``OPT``
    proposes. ``speedup``: per cent of the launch's time it could save at most, None where that cannot be said."""

    rule: str
    section: str
    kind: str
    text: str
    speedup: float | None = None

class _Profile:
    """A profile as rules read it."""

    def __init__(self, profile: LaunchProfile) -> None:
        self.profile = profile
        self.metrics = with_derived(profile.metrics)

    def get(self, name: str) -> float:
        return float(self.metrics.get(name, 0))

    def has(self, *names: str) -> bool:
        return all(name in self.metrics for name in names)

    @property
    def active_share(self) -> float:
        """The share of the launch in which the SM that works longest has work."""
        elapsed = self.get("sm__cycles_elapsed.max")
        return self.get("sm__cycles_active.max") / elapsed if elapsed else 0.0

    def stall_share(self, *reasons: str) -> float:
        """The share of resident warp-cycles spent in some states."""
        return sum(self.profile.stalls.get(reason, 0) for reason in reasons) / max(1, self.profile.warp_cycles)

    def waits_for_mbarrier(self, reason: str) -> bool:
        """Whether the instruction with most cycles of a stall reason tries an mbarrier, or branches on the answer."""
        rows = self.profile.instructions
        at = max(range(len(rows)), key=lambda n: rows[n].stalls.get(reason, 0))
        near = rows[max(0, at - 16) : at] if rows[at].opcode.upper().startswith("BRA") else rows[at : at + 1]
        return any("TRYWAIT" in each.opcode or "try_wait" in each.opcode for each in near)

    def hottest(self, key: Callable[[InstructionProfile], int]) -> str:
        """Where the instruction with the largest ``key`` is."""
        worst = max(self.profile.instructions, key=key)
        return _place(worst)


def _place(row: InstructionProfile) -> str:
    """An instruction and where it is, in CUDA (if known) and PTX."""
    cuda = f"{row.file.rsplit('/', 1)[-1]}:{row.line}  " if row.file else ""
    return f"{row.opcode} at {cuda}ptx:{row.ptx_line}"


def _bottleneck(p: _Profile) -> Iterator[Advice]:
    compute = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
    memory = "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"
    if not p.has(compute, memory):
        return
    c, m = p.get(compute), p.get(memory)
    waves = p.get("launch__waves_per_multiprocessor")
    if max(c, m) < 60 and 0 < waves < 0.8:
        text = (
            f"The grid is too small to fill the GPU: {waves:.2f} waves; arithmetic reaches {c:.0f} % of its peak, memory "
            f"{m:.0f} %. See Launch Statistics and Warp State Statistics"
        )
    elif max(c, m) < 60:
        text = (
            f"Neither arithmetic ({c:.0f} %) nor memory ({m:.0f} %) is near its peak: the time goes into latency, or SMs "
            "stand idle. "
            "See Launch Statistics and Warp State Statistics"
        )
    elif c > m:
        text = f"Arithmetic or issue is the limit ({c:.0f} % of its peak, memory {m:.0f} %). See Compute Workload Analysis"
    else:
        text = f"Memory is the limit ({m:.0f} % of its peak, arithmetic {c:.0f} %). See Memory Workload Analysis"
    yield Advice("SOLBottleneck", "SpeedOfLight", "INF", text)


def _small_grid(p: _Profile) -> Iterator[Advice]:
    ctas, sms = p.get("launch__grid_size"), p.get("launch__sm_count")
    if not sms or not ctas:
        return
    if ctas < sms:
        matrices = has_matrices(p.profile)
        remedy = "Use smaller tiles, or split along k" if matrices else "Divide the work among more CTAs, each with less"
        yield Advice(
            "LaunchConfiguration",
            "LaunchStats",
            "OPT",
            f"{ctas:.0f} CTAs leave {sms - ctas:.0f} of {sms:.0f} SMs without work. {remedy}",
            100 * (1 - ctas / sms),
        )
        return
    waves = p.get("launch__waves_per_multiprocessor")
    whole = int(waves)
    part = waves - whole
    if whole and part and part < 0.5 and waves < 10:
        yield Advice(
            "TailEffect",
            "LaunchStats",
            "OPT",
            f"The grid is {waves:.2f} waves: the last, {100 * part:.0f} % full, takes as long as a whole one. Choose a grid "
            "of "
            "whole waves, or let CTAs fetch tiles until there are none left (persistent kernel)",
            100 * (1 - waves / (whole + 1)),
        )


def _imbalance(p: _Profile) -> Iterator[Advice]:
    """SMs that have ended while others work, of a grid that gives work to all."""
    average, most, elapsed = (p.get(f"sm__cycles_{what}") for what in ("active.avg", "active.max", "elapsed.max"))
    if not (average and elapsed) or p.get("launch__grid_size") < p.get("launch__sm_count"):
        return
    if most > 1.2 * average:
        yield Advice(
            "WorkloadImbalance",
            "WorkloadDistribution",
            "OPT",
            f"The SM that works longest does so for {most:,.0f} cycles, one on average for {average:,.0f}: CTAs take "
            "unequal time, or do not divide evenly among SMs. Start the long ones first, make them smaller, or let CTAs fetch "
            "work until there is none left",
            100 * (most - average) / elapsed,
        )


def _few_ctas(p: _Profile) -> Iterator[Advice]:
    """A CTA for each SM, but too few to fill them, so that little hides their latency."""
    ctas, sms, waves = p.get("launch__grid_size"), p.get("launch__sm_count"), p.get("launch__waves_per_multiprocessor")
    if not (ctas and sms and waves):
        return
    here, fit = ctas / min(ctas, sms), ctas / (waves * sms)
    idle = 1 - p.get("smsp__issue_active.avg.per_cycle_active")
    waiting = p.stall_share("long_scoreboard", "short_scoreboard", "wait", "barrier")
    if ctas > 0.9 * sms and fit >= 2 * here and idle > 0.4 and waiting > 0.3:
        yield Advice(
            "SmallGrid",
            "LaunchStats",
            "OPT",
            f"An SM holds {here:.1f} CTAs on average where {fit:.0f} would fit, so few warps hide the latency of each other. "
            "Divide the work among more CTAs, if they can be smaller",
            100 * p.active_share * min(idle, 1 - here / fit),
        )


def _occupancy(p: _Profile) -> Iterator[Advice]:
    theory, achieved = "sm__maximum_warps_per_active_cycle_pct", "sm__warps_active.avg.pct_of_peak_sustained_active"
    if not p.has(theory, achieved):
        return
    limits = {
        "registers": p.get("launch__occupancy_limit_registers"),
        "shared memory": p.get("launch__occupancy_limit_shared_mem"),
        "warps": p.get("launch__occupancy_limit_warps"),
        "CTA slots": p.get("launch__occupancy_limit_blocks"),
        "barriers": p.get("launch__occupancy_limit_barriers") or p.get("launch__occupancy_limit_blocks"),
    }
    limiter = min(limits, key=lambda name: limits[name])
    idle = 1 - p.get("smsp__issue_active.avg.per_cycle_active")
    waiting = p.stall_share("long_scoreboard", "short_scoreboard", "wait", "lg_throttle", "mio_throttle")
    fills = p.get("launch__waves_per_multiprocessor") >= 1  # of fewer CTAs than fit, more could not fit
    if fills and p.get(theory) < 50 and idle > 0.3 and waiting > 0.3 and limiter in ("registers", "shared memory", "barriers"):
        help_ = {
            "registers": "__launch_bounds__ or smaller tiles per thread need fewer registers",
            "shared memory": "fewer stages or smaller tiles need less shared memory",
            "barriers": "a barrier whose number is in a register takes all 16 of a CTA; constant numbers take fewer",
        }[limiter]
        yield Advice(
            "TheoreticalOccupancy",
            "Occupancy",
            "OPT",
            f"At most {p.get(theory):.0f} % of the warps that an SM can hold fit, limited by {limiter}; {help_}. Kernels "
            "with much "
            "instruction-level parallelism do well with few warps",
            100 * p.active_share * min(idle, 1 - p.get(theory) / 100),
        )
    if p.get(theory) - p.get(achieved) > 10 and p.get("launch__waves_per_multiprocessor") > 1:
        yield Advice(
            "AchievedOccupancy",
            "Occupancy",
            "OPT",
            f"{p.get(achieved):.0f} % of the warps were resident on average, {p.get(theory):.0f} % could be: CTAs end "
            "unevenly, or "
            "the last wave is short",
            100 * p.active_share * min(idle, 1 - p.get(achieved) / max(1.0, p.get(theory))),
        )


def _stalls(p: _Profile) -> Iterator[Advice]:
    idle = 1 - p.get("smsp__issue_active.avg.per_cycle_active")
    reasons = {name: cycles for name, cycles in p.profile.stalls.items() if name not in ("selected", "not_selected") and cycles}
    if not reasons or idle <= 0.2:
        return
    worst = max(reasons, key=lambda name: reasons[name])
    share = p.stall_share(worst)
    if share < 0.2 or worst not in STALL_ADVICE:
        return
    what, help_ = STALL_ADVICE[worst]
    place = p.hottest(lambda i: i.stalls.get(worst, 0))
    if p.waits_for_mbarrier(worst):
        what, help_ = MBARRIER_ADVICE
    yield Advice(
        "CPIStall",
        "WarpStateStats",
        "OPT",
        f"{100 * share:.0f} % of the time a resident warp {what} ({worst}), most at {place}. Try: {help_}",
        100 * p.active_share * min(idle, share),
    )


def _issue(p: _Profile) -> Iterator[Advice]:
    active = "smsp__issue_active.avg.per_cycle_active"
    if p.has(active) and p.get(active) < 0.6:
        yield Advice(
            "IssueSlotUtilization",
            "SchedulerStats",
            "INF",
            f"A scheduler issues in {100 * p.get(active):.0f} % of its cycles; of "
            f"{p.get('smsp__warps_active.avg.per_cycle_active'):.1f} "
            f"resident warps {p.get('smsp__warps_eligible.avg.per_cycle_active'):.2f} are ready on average",
        )


def _sectors(p: _Profile) -> Iterator[Advice]:
    wasted = total = 0
    worst = ("", 0)
    for i in p.profile.instructions:
        ideal = ideal_sectors(i.opcode, i.executed, i.threads)
        if not ideal or not i.sectors or space_of(i.opcode) != "global":
            continue
        total += i.sectors
        extra = max(0, i.sectors - ideal)
        wasted += extra
        if extra > worst[1]:
            worst = (_place(i), extra)
    if total and wasted > 0.2 * total:
        memory = p.stall_share("long_scoreboard", "lg_throttle", "drain")
        yield Advice(
            "UncoalescedGlobalAccess",
            "MemoryWorkloadAnalysis",
            "OPT",
            f"{wasted:,} of {total:,} sectors (32 bytes) of global memory, {100 * wasted / total:.0f} %, carry bytes that "
            "no lane asked "
            f"for; most at {worst[0]}. Let neighbouring lanes access neighbouring words, or go through shared memory",
            100 * p.active_share * memory * wasted / total,
        )


def _local_memory(p: _Profile) -> Iterator[Advice]:
    """Spilled registers, and arrays that are indexed at run time."""
    local = sum(p.get(f"l1tex__t_sectors_pipe_lsu_mem_local_op_{op}.sum") for op in ("ld", "st"))
    everything = local + sum(p.get(f"l1tex__t_sectors_pipe_lsu_mem_global_op_{op}.sum") for op in ("ld", "st"))
    if local <= 0.05 * everything:
        return
    waiting = p.stall_share("long_scoreboard", "lg_throttle")
    place = p.hottest(lambda i: i.sectors if space_of(i.opcode) == "local" else 0)
    yield Advice(
        "LocalMemory",
        "MemoryWorkloadAnalysis",
        "OPT",
        f"{local:,.0f} sectors of local memory, {100 * local / everything:.0f} % of all; most at {place}. Registers are "
        "spilled, or arrays indexed at run time: unroll loops over arrays, keep fewer values alive (Live Registers of the page "
        "source), or allow more registers (__launch_bounds__, -maxrregcount)",
        100 * p.active_share * waiting * local / everything,
    )


def _bank_conflicts(p: _Profile) -> Iterator[Advice]:
    waves, conflicts = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum", "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"
    if not p.has(waves, conflicts) or not p.get(waves):
        return
    share = p.get(conflicts) / p.get(waves)
    if share > 0.1:
        port = p.stall_share("mio_throttle", "short_scoreboard")
        place = p.hottest(lambda i: i.wavefronts)
        remedy = "'tcsim banks' shows the pattern and searches for a swizzle or padding without them"
        if place.startswith(("ATOMS", "atom.shared", "red.shared")):
            remedy = (
                "Lanes update the same word, or words of one bank: give each warp its own copy, place copies so that lanes "
                "meet in different banks, or add up in registers first"
            )
        yield Advice(
            "SharedMemoryConflicts",
            "MemoryWorkloadAnalysis",
            "OPT",
            f"{p.get(conflicts):,.0f} of {p.get(waves):,.0f} wavefronts of shared memory, {100 * share:.0f} %, are bank "
            "conflicts; most "
            f"wavefronts at {place}. {remedy}",
            100 * p.active_share * min(share, port),
        )


def _divergence(p: _Profile) -> Iterator[Advice]:
    lanes = p.get("smsp__thread_inst_executed_per_inst_executed.ratio")
    if lanes and lanes < 24:
        yield Advice(
            "ThreadDivergence",
            "WarpStateStats",
            "OPT",
            f"On average {lanes:.1f} of 32 lanes are active: branches divide the warps. Let lanes of a warp take the same "
            "way",
            100 * p.active_share * (1 - lanes / 32) * p.get("smsp__issue_active.avg.per_cycle_active"),
        )


def _tensor(p: _Profile) -> Iterator[Advice]:
    tensor = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"
    if not p.has(tensor):
        return
    busiest = max(
        (name for name in p.metrics if name.startswith("sm__pipe_") and "_op_" not in name and name.endswith("active")),
        key=lambda name: p.metrics[name],
        default="",
    )
    if busiest and p.get(busiest) > 60:
        pipe = busiest.removeprefix("sm__pipe_").partition("_cycles")[0]
        yield Advice(
            "HighPipeUtilization",
            "ComputeWorkloadAnalysis",
            "INF",
            f"The {pipe} pipe is the busiest, {p.get(busiest):.0f} % of the active cycles",
        )
    fma = "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active"
    flops = p.get("sm__inst_executed_pipe_fma.sum")
    if not has_matrices(p.profile) and p.get(fma) > 50:
        yield Advice(
            "TensorCores",
            "ComputeWorkloadAnalysis",
            "INF",
            f"{flops:,.0f} FMA-pipe instructions and none on the tensor cores: if this multiplies matrices, mma or WMMA "
            "does it in far "
            "fewer",
        )


_RULES = (
    _bottleneck, _tensor, _sectors, _local_memory, _bank_conflicts, _issue, _stalls, _divergence, _small_grid, _few_ctas,
    _imbalance, _occupancy,
)  # fmt: skip


def advise(profile: LaunchProfile) -> list[Advice]:
    """What the rules say of a launch, in the order of its sections; what gains most is not first: see ``speedup``."""
    seen = _Profile(profile)
    return [advice for rule in _RULES for advice in rule(seen)]
