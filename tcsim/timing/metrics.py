"""From counters to Nsight Compute's metrics. Only what the model has is there; definitions as hardware counts, checked
against an H200.
"""

from __future__ import annotations

from collections.abc import Iterator

from isa.machine import LOCAL, SHARED
from tcsim.arch import Arch, Timing
from tcsim.execute.cta import Geometry
from tcsim.execute.recorder import ISSUED_AGAIN
from tcsim.launch.occupancy import SUB_PARTITIONS, Occupancy, named_barriers
from tcsim.profile import STALL_REASONS
from tcsim.timing.flushes import flushing_barriers
from tcsim.timing.gpu import TimedRun
from tcsim.timing.hierarchy import (
    ATOMIC_SECTORS,
    CONFLICTS,
    DEVICE_WAVEFRONTS,
    DRAM_READ,
    DRAM_WRITTEN,
    FABRIC_ATOMICS,
    FABRIC_HITS,
    FABRIC_REQUESTS,
    FABRIC_SECTORS,
    FABRIC_WRITES,
    FILLS,
    L1_HITS,
    L2_REQUESTS,
    PORT_CYCLES,
    READ_HITS,
    READ_SECTORS,
    REQUESTS,
    SECTORS,
    SHARED_REQUESTS,
    WAVEFRONTS,
    WRITE_SECTORS,
)
from tcsim.timing.issue import Unit
from tcsim.timing.pipe_counters import PipeCounters
from tcsim.timing.scoreboard import REASON, REASONS
from tcsim.timing.tensor_core import TENSOR_PIPE, operand_wavefronts, tensor_kind

__all__ = ["launch_metrics", "memory_throughput", "stall_totals"]

Number = int | float

FEWEST_REGISTERS = 16
"""Registers of a thread that Nsight Compute reports at least: 14 recorded launches whose code needs 4 to 12, on an H200."""

FABRIC_SECTOR = 2.3
"""Cycles of an L2 slice for a sector that comes from the other half of the L2, as part of ``lts__throughput``: fitted to Nsight
Compute's figure for 63 launches on an H200, of whose larger ones the median is then 8 % off."""

CYCLES_PER_WRITTEN_SECTOR = 1.4
"""Cycles of an L2 slice's input for a sector that is written, with its share of the head of a request: fitted to Nsight
Compute's *Memory Throughput* on an H200."""

LAUNCH_REQUESTS = 2200
"""Requests of a launch itself as part of ``lts__throughput`` and *Memory Throughput*, for whose passes an H200 makes more of
them than for ``lts__t_requests``: the median of 103 tiny launches."""

SM_RATES = (("adu", 0.5), ("lsu", 1.0))
"""Pipes of a whole SM that count for its throughput by their instructions, and how many a cycle are their peak: the breakdown
of ``sm__throughput`` of 14 launches by Nsight Compute on an H200."""

# Machine instructions that count as branches besides EXIT: facts of an H200's counters (BSYNC once for each arriving group).
_TARGETS = frozenset(("BRA", "BRX", "BRXU", "CALL", "RET"))
_BRANCHES = frozenset(("BRA", "BRX", "BRXU", "BSYNC", "WARPSYNC", "CALL", "RET"))
_THREAD_OPERATIONS = {
    "fadd": "FADD", "fmul": "FMUL", "ffma": "FFMA", "dadd": "DADD", "dmul": "DMUL", "dfma": "DFMA",
    "hadd": "HADD2", "hmul": "HMUL2", "hfma": "HFMA2",
}  # fmt: skip
_OF_MACHINE_CODE = {"cbu", "uniform"}  # pipes of which PTX does not tell what goes there


def stall_totals(run: TimedRun) -> dict[str, int]:
    """Warp-cycles by reason, over the launch."""
    return {reason: sum(run.counters.stalls[code::REASONS]) for reason, code in REASON.items()}


def memory_throughput(l1: float, requests: float, written: float, dram: float) -> float:
    """Speed Of Light's *Memory Throughput* in percent of a peak over the launch: that of the busiest unit.

    ``l1`` and ``dram`` are percentages of their peaks; ``requests`` and ``written`` are the requests and the written sectors of
    an L2 slice, in percent of its cycles. What goes from one half of the L2 to the other counts for ``lts__throughput`` but not
    here. The rule was read from an H200's metrics of 112 launches above 1.5 %: the median is 0.6 % off, 95 are within 10 %.
    """
    return max(l1, requests, CYCLES_PER_WRITTEN_SECTOR * written, dram)


def launch_metrics(run: TimedRun, geometry: Geometry, residency: Occupancy, arch: Arch, timing: Timing) -> dict[str, Number]:
    """All metrics of a launch, by Nsight Compute's names, in the order of its sections."""
    made = _Metrics(run, geometry, residency, arch, timing)
    parts = (
        made.time(),
        made.instructions(),
        made.schedulers(),
        made.pipes(),
        made.l1(),
        made.l2_and_dram(),
        made.launch(),
    )
    metrics = {name: value for part in parts for name, value in part}
    return metrics | dict(made.throughputs(metrics))


def _ratio(part: Number, whole: Number) -> float:
    return part / whole if whole else 0.0


def _percent(part: Number, whole: Number) -> float:
    return 100.0 * _ratio(part, whole)


class _Metrics:
    def __init__(self, run: TimedRun, geometry: Geometry, residency: Occupancy, arch: Arch, timing: Timing) -> None:
        self.run, self.geometry, self.residency, self.arch, self.timing = run, geometry, residency, arch, timing
        self.stalls = stall_totals(run)
        self.active = sum(run.counters.sm_active)  # cycles, over SMs
        self.seconds = run.cycles / timing.clocks.sm_hz
        table = run.table
        self.program = table.program
        executed, active, executing = (run.counts[:, column].tolist() for column in range(3))
        costly = [entry for entry in table.entries if not entry.free]
        self.costs = {entry.pc: table.cost(entry.pc) for entry in costly}
        self.units = {entry.pc: entry.unit for entry in costly}
        self.executed = {entry.pc: executed[entry.pc] for entry in costly}
        self.machine = {entry.pc: executed[entry.pc] * entry.slots for entry in costly}
        self.threads = sum(active[entry.pc] * entry.slots for entry in costly)
        self.threads_on = sum(executing[entry.pc] * entry.slots for entry in costly)
        self.counters = PipeCounters(self.program) if self.program.control else None
        self.kinds = {pc: access.kind for pc, access in enumerate(self.program.memory) if access is not None}

    # ------------------------------------------------------------------------------------------- time, instructions

    def time(self) -> Iterator[tuple[str, Number]]:
        per_sm = self.run.counters.sm_active
        yield "gpu__time_duration.sum", self.seconds * 1e9
        yield "sm__cycles_elapsed.max", self.run.cycles
        yield "gpc__cycles_elapsed.max", self.run.cycles
        yield "sm__cycles_elapsed.avg.per_second", self.timing.clocks.sm_hz
        yield "sm__cycles_active.avg", self.active / len(per_sm)
        yield "sm__cycles_active.max", max(per_sm)
        yield "sm__cycles_active.min", min(per_sm)
        yield "sm__cycles_active.sum", self.active

    def instructions(self) -> Iterator[tuple[str, Number]]:
        total = sum(self.machine.values())
        yield "smsp__inst_executed.sum", total
        yield "smsp__inst_issued.sum", self.stalls["selected"]
        yield "smsp__thread_inst_executed.sum", self.threads
        yield "smsp__thread_inst_executed_pred_on.sum", self.threads_on
        yield "smsp__thread_inst_executed_per_inst_executed.ratio", _ratio(self.threads, total)
        if self.counters is not None:
            yield from self._thread_operations()
        groups = {
            "branch": [pc for pc in self.costs if self._branches(pc)],
            "global_ld": self._accesses("load", "global"),
            "global_st": self._accesses("store", "global"),
            "ldgsts": [pc for pc in self.costs if self.units[pc] == Unit.COPY],
            "ldsm": self._accesses("matrix_load", "shared"),
            "shared_ld": self._accesses("load", "shared"),
            "shared_st": self._accesses("store", "shared"),
        }
        for name, pcs in groups.items():
            yield f"smsp__inst_executed_op_{name}.sum", sum(self.executed[pc] for pc in pcs)
        if self.counters is not None:
            yield from self._targets()

    def _thread_operations(self) -> Iterator[tuple[str, Number]]:
        """Arithmetic of threads by machine instruction, as rooflines are made of."""
        lanes = self.run.counts[:, 2].tolist()
        for name, base in _THREAD_OPERATIONS.items():
            total = sum(lanes[pc] for pc in self.costs if self.program.opcodes[pc].partition(".")[0] == base)
            yield f"sm__sass_thread_inst_executed_op_{name}_pred_on.sum", total

    def _targets(self) -> Iterator[tuple[str, Number]]:
        """Jumps by whether the lanes of a warp all go the same way. An indexed one executes once more for each further way, but
        counts once."""
        targets = [pc for pc in self.costs if self.program.opcodes[pc].partition(".")[0] in _TARGETS]
        total, divergent = sum(self.executed[pc] for pc in targets), int(self.run.counts[targets, 3].sum())
        total -= sum(int(self.run.counts[pc, 3]) for pc in targets if self.program.opcodes[pc].startswith("BRX"))
        apart = [pc for pc in self.costs if self.program.opcodes[pc].startswith("WARPSYNC.EXCLUSIVE")]  # a way for each mask
        more = int(self.run.counts[apart, ISSUED_AGAIN].sum())
        total, divergent = total + more, divergent + more
        yield "smsp__sass_branch_targets.sum", total
        yield "smsp__sass_branch_targets_threads_divergent.sum", divergent
        yield "smsp__sass_branch_targets_threads_divergent.avg", divergent / (SUB_PARTITIONS * self.arch.limits.sms)
        yield "smsp__sass_average_branch_targets_threads_uniform.pct", _percent(total - divergent, total)

    def _branches(self, pc: int) -> bool:
        """Whether an instruction counts as a branch: exits do, and in machine code coming together again."""
        if self.units[pc] == Unit.EXIT or self.program.timing[pc] == "branch":
            return True
        return self.program.timing[pc] == "cbu" and self.program.opcodes[pc].partition(".")[0] in _BRANCHES

    def _accesses(self, kind: str, space: str) -> list[int]:
        """Instructions of a kind of access to a state space; what is not shared or local is global."""
        return [pc for pc in self.costs if self.kinds.get(pc) == kind and self._space(pc) == space]

    def _space(self, pc: int) -> str:
        access = self.program.memory[pc]
        assert access is not None
        return {SHARED: "shared", LOCAL: "local"}.get(access.space, "global")

    # ------------------------------------------------------------------------------------------ schedulers and pipes

    def schedulers(self) -> Iterator[tuple[str, Number]]:
        counters, issued = self.run.counters, self.stalls["selected"]
        # A sub-partition is active while it has warps; fewer than four warps are on one each.
        sub_cycles = min(SUB_PARTITIONS * self.active, counters.warp_cycles)
        eligible = issued + self.stalls["not_selected"]
        per_sm = _ratio(counters.warp_cycles, self.active)
        yield "smsp__issue_active.sum", issued
        yield "smsp__issue_active.avg.per_cycle_active", _ratio(issued, sub_cycles)
        yield "smsp__warps_active.avg.per_cycle_active", _ratio(counters.warp_cycles, sub_cycles)
        yield "smsp__warps_eligible.avg.per_cycle_active", _ratio(eligible, sub_cycles)
        yield "sm__warps_active.avg.per_cycle_active", per_sm
        yield "sm__warps_active.avg.pct_of_peak_sustained_active", _percent(per_sm, self.arch.limits.max_warps_per_sm)
        yield "smsp__average_warp_latency_per_inst_issued.ratio", _ratio(counters.warp_cycles, issued)
        executed = sum(self.machine.values())
        yield "smsp__average_warps_active_per_inst_executed.ratio", _ratio(counters.warp_cycles, executed)
        yield "sm__warps_launched.sum", counters.warps
        yield "sm__ctas_launched.sum", counters.ctas
        for reason in STALL_REASONS:
            name = f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio"
            yield name, _ratio(self.stalls[reason], issued)

    def pipes(self) -> Iterator[tuple[str, Number]]:
        """Instructions and activity of each pipe. Queued pipes are of the LSU, whose activity is its data port's."""
        instructions: dict[str, int] = {}
        activity: dict[str, int] = {}
        specs = self.timing.chip.pipes
        for pc, cost in self.costs.items():
            metric = specs[cost.pipe].metric
            if self.counters is not None:
                metric = self.counters.of(pc, metric)
            slots = self.machine[pc]
            kinds = [metric]
            if metric == TENSOR_PIPE:
                kinds.append(f"tensor_op_{self._tensor_kind(pc)}")
                slots = self.executed[pc] * cost.repeats
            for kind in kinds:
                instructions[kind] = instructions.get(kind, 0) + slots
                activity[kind] = activity.get(kind, 0) + self.executed[pc] * cost.active
        known = {spec.metric for spec in specs.values()} | {f"tensor_op_{x}" for x in ("hmma", "imma", "dmma")}
        for kind in sorted(known - (_OF_MACHINE_CODE if self.counters is None else set())):
            yield f"sm__inst_executed_pipe_{kind}.sum", instructions.get(kind, 0)
        for kind in ("alu", "fma", "fp64", "xu", "tensor", "tensor_op_hmma", "tensor_op_imma", "tensor_op_dmma"):
            share = _percent(activity.get(kind, 0), SUB_PARTITIONS * self.active)
            yield f"sm__pipe_{kind}_cycles_active.avg.pct_of_peak_sustained_active", share

    def _tensor_kind(self, pc: int) -> str:
        if not self.program.control:
            return tensor_kind(self.program.timing[pc])
        return {"I": "imma", "B": "imma", "D": "dmma"}.get(self.program.opcodes[pc][0], "hmma")

    # ----------------------------------------------------------------------------------------------------- memory

    def l1(self) -> Iterator[tuple[str, Number]]:
        events = self.run.memories.events
        loads = [pc for pc, kind in self.kinds.items() if "load" in kind]
        stores = [pc for pc, kind in self.kinds.items() if "store" in kind]
        copies = [pc for pc, kind in self.kinds.items() if kind == "copy"]
        for name, values in (
            ("data_pipe_lsu_wavefronts", events[:, WAVEFRONTS].tolist()),
            ("data_bank_conflicts_pipe_lsu", events[:, CONFLICTS].tolist()),
        ):
            total = sum(values) - sum(values[pc] for pc in copies)
            if name == "data_pipe_lsu_wavefronts":
                total += sum(count for pc, count in self.executed.items() if self._uses_shared_data_path(pc))
                total += sum(self.executed[pc] - int(events[pc, [REQUESTS, SHARED_REQUESTS]].sum()) for pc in self._single())
                total += self._flushes()
                total += round(sum(count * operand_wavefronts(self.program, pc) for pc, count in self.executed.items()))
                # A copy to shared memory is a quarter of one besides, an atomic that returns something two.
                whole = total + events[:, DEVICE_WAVEFRONTS].sum() + events[copies, REQUESTS].sum() / 4
                whole += events[[pc for pc in self.costs if self._returns(pc)], DEVICE_WAVEFRONTS].sum()
                yield "l1tex__data_pipe_lsu_wavefronts.sum", round(whole)
            yield f"l1tex__{name}_mem_shared.sum", total
            yield f"l1tex__{name}_mem_shared_op_ld.sum", sum(values[pc] for pc in loads)
            yield f"l1tex__{name}_mem_shared_op_st.sum", sum(values[pc] for pc in stores)
        yield "l1tex__lsuin_requests.sum", sum(n for pc, n in self.machine.items() if self._on_lsu(pc))
        for space in ("global", "local"):
            for op, pcs in (("ld", [*loads, *copies]), ("st", stores)):
                mine = [pc for pc in pcs if (self._space(pc) == "local") == (space == "local")]
                sectors, requests = int(events[mine, SECTORS].sum()), int(events[mine, REQUESTS].sum())
                yield f"l1tex__t_sectors_pipe_lsu_mem_{space}_op_{op}.sum", sectors
                yield f"l1tex__t_requests_pipe_lsu_mem_{space}_op_{op}.sum", requests
                if op == "ld":
                    hits = int(events[mine, L1_HITS].sum())
                    yield f"l1tex__t_sectors_pipe_lsu_mem_{space}_op_{op}_lookup_hit.sum", hits
                    name = f"l1tex__average_t_sectors_per_request_pipe_lsu_mem_{space}_op_{op}.ratio"
                    yield name, _ratio(sectors, requests)
        yield "l1tex__t_bytes.sum", 32 * int(events[:, SECTORS].sum())
        yield "l1tex__t_sector_hit_rate.pct", _percent(int(events[:, L1_HITS].sum()), int(events[:, SECTORS].sum()))

    def _returns(self, pc: int) -> bool:
        """Whether an instruction is an atomic on global memory that returns what was there."""
        atomic = self.kinds.get(pc) == "atomic" and self.program.opcodes[pc].lower().startswith("atom")
        return atomic and self._space(pc) == "global"

    def _single(self) -> list[int]:
        """Instructions that access memory once; one that no lane executes counts as a wavefront of shared memory."""
        kinds = ("load", "store", "matrix_load", "matrix_store", "atomic")
        return [pc for pc, kind in self.kinds.items() if kind in kinds and pc in self.executed]

    def _flushes(self) -> int:
        """Barriers that count as a wavefront of shared memory, each once for its CTA."""
        return int(sum(self.executed.get(pc, 0) for pc in flushing_barriers(self.program)) // self.geometry.warps)

    def _uses_shared_data_path(self, pc: int) -> bool:
        """Whether an instruction that accesses no memory counts as a wavefront of shared memory, as shuffles do and what
        transposes a matrix."""
        is_shuffle = self.program.opcodes[pc].startswith(("SHFL", "shfl", "MOVM", "movmatrix"))
        return is_shuffle or (self.counters is not None and self.counters.reads_thread_number(pc))

    def _on_lsu(self, pc: int) -> bool:
        return self.timing.chip.pipes[self.costs[pc].pipe].metric == "lsu"

    def l2_and_dram(self) -> Iterator[tuple[str, Number]]:
        totals = self.run.memories.totals.tolist()
        read, written, atomics = (totals[n] for n in (READ_SECTORS, WRITE_SECTORS, ATOMIC_SECTORS))
        fabric = totals[FABRIC_SECTORS] + totals[FABRIC_WRITES] + totals[FABRIC_ATOMICS]
        sectors = read + written + atomics
        launch = self.timing.chip.launch
        code = self._code_bytes() // 32
        fetched = launch.code_readers * code
        yield "lts__t_requests.sum", totals[L2_REQUESTS] + totals[FABRIC_REQUESTS] + launch.l2_requests + fetched // 4
        yield "lts__t_sectors.sum", sectors + fabric + launch.l2_sectors + fetched
        yield "lts__t_sectors_op_read.sum", read + totals[FABRIC_SECTORS] + launch.l2_read_sectors + fetched
        yield "lts__t_sectors_op_write.sum", written + totals[FABRIC_WRITES]
        yield "lts__t_sectors_srcunit_tex.sum", sectors
        hits = totals[READ_HITS] + written + atomics
        yield "lts__t_sectors_srcunit_tex_lookup_hit.sum", hits
        yield "lts__t_sectors_srcunit_ltcfabric.sum", fabric + launch.fabric_sectors + code
        found = hits + totals[FABRIC_HITS] + totals[FABRIC_WRITES] + totals[FABRIC_ATOMICS]
        yield "lts__t_sector_hit_rate.pct", _percent(found, sectors + fabric)
        yield "lts__d_sectors_fill_device.sum", totals[FILLS] + launch.dram_bytes // 32 + code
        brought = totals[DRAM_READ] + launch.dram_bytes + self._code_bytes()
        yield "dram__bytes_read.sum", brought
        yield "dram__bytes_write.sum", totals[DRAM_WRITTEN]
        yield "dram__sectors_read.sum", brought // 32
        yield "dram__sectors_write.sum", totals[DRAM_WRITTEN] // 32
        yield "dram__bytes.sum.per_second", _ratio(brought + totals[DRAM_WRITTEN], self.seconds)

    def _code_bytes(self) -> int:
        """What comes from memory for instructions: machine code, in pairs of sectors (of PTX its length is not known)."""
        return -(-16 * len(self.program) // 64) * 64 if self.program.control else 0

    def throughputs(self, metrics: dict[str, Number]) -> Iterator[tuple[str, float]]:
        """Percentages of peak rates, over the whole launch; of several units, the busiest that is modelled."""
        elapsed = self.arch.limits.sms * self.run.cycles
        inside = _ratio(self.active, elapsed)
        l1 = _percent(int(self.run.memories.totals[PORT_CYCLES]), self.active)
        spec = self.timing.chip.l2
        cycles = self.run.slices * spec.clock_hz * self.seconds
        totals = self.run.memories.totals
        requests = _percent(int(totals[L2_REQUESTS]) + int(totals[FABRIC_REQUESTS]) + LAUNCH_REQUESTS, cycles)
        written = _percent(int(totals[WRITE_SECTORS]) + int(totals[ATOMIC_SECTORS]), cycles)
        l2 = max(requests, _percent(FABRIC_SECTOR * metrics["lts__t_sectors_srcunit_ltcfabric.sum"], cycles))
        peak = self.timing.dram.peak_bytes_per_second
        dram = _percent(metrics["dram__bytes.sum.per_second"], peak)
        pipes = [value for name, value in metrics.items() if name.startswith("sm__pipe_")]
        issue = _percent(self.stalls["selected"], SUB_PARTITIONS * self.active)
        yield "l1tex__throughput.avg.pct_of_peak_sustained_active", l1
        yield "lts__throughput.avg.pct_of_peak_sustained_elapsed", l2
        yield "dram__throughput.avg.pct_of_peak_sustained_elapsed", dram
        yield "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", dram
        yield "sm__instruction_throughput.avg.pct_of_peak_sustained_active", max(issue, *pipes)
        slow = [_percent(metrics.get(f"sm__inst_executed_pipe_{pipe}.sum", 0), rate * self.active) for pipe, rate in SM_RATES]
        yield "sm__throughput.avg.pct_of_peak_sustained_elapsed", inside * max(issue, *pipes, *slow)
        memory = memory_throughput(inside * l1, requests, written, dram)
        yield "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed", memory

    # ------------------------------------------------------------------------------------------------------ launch

    def launch(self) -> Iterator[tuple[str, Number]]:
        limits, residency, geometry = self.arch.limits, self.residency, self.geometry
        unit = limits.register_allocation_unit // 32
        yield "launch__grid_size", geometry.ctas
        yield "launch__block_size", geometry.threads
        yield "launch__thread_count", geometry.ctas * geometry.threads
        registers = max(FEWEST_REGISTERS, self.program.registers_per_thread)
        yield "launch__registers_per_thread", registers
        yield "launch__registers_per_thread_allocated", -(-registers // unit) * unit
        yield "launch__waves_per_multiprocessor", _ratio(geometry.ctas, limits.sms * residency.ctas)
        yield "launch__sm_count", limits.sms
        yield "launch__tpc_count", limits.sms // 2  # since Volta
        yield "launch__cluster_size", geometry.cluster_size if geometry.cluster_size > 1 else 0
        yield "launch__shared_mem_per_block_static", self.program.static_shared
        yield "launch__shared_mem_per_block_dynamic", geometry.dynamic_shared
        yield "launch__shared_mem_per_block_driver", limits.shared_reserved_per_cta
        total = self.program.static_shared + geometry.dynamic_shared + limits.shared_reserved_per_cta
        rounded = -(-total // limits.shared_allocation_unit) * limits.shared_allocation_unit
        yield "launch__shared_mem_per_block_allocated", rounded
        if self.run.shared_configured:  # what the driver configures for a kernel without shared memory is not known
            yield "launch__shared_mem_config_size", self.run.shared_configured
        yield "launch__barrier_count", named_barriers(self.program)
        yield "launch__occupancy_limit_barriers", residency.by_barriers
        yield "launch__occupancy_limit_blocks", residency.by_ctas
        yield "launch__occupancy_limit_registers", residency.by_registers
        # Of what is configured; a launch without shared memory fits as often as the driver's own bytes.
        fit = self.run.shared_configured // rounded if self.run.shared_configured and rounded else limits.max_ctas_per_sm
        yield "launch__occupancy_limit_shared_mem", fit
        yield "launch__occupancy_limit_warps", residency.by_warps
        warps = residency.ctas * geometry.warps
        yield "sm__maximum_warps_avg_per_active_cycle", warps
        yield "sm__maximum_warps_per_active_cycle_pct", _percent(warps, limits.max_warps_per_sm)
