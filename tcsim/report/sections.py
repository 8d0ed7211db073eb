"""What stands in a report: Nsight Compute's sections, as a table of labels, metrics and units.

Labels, metric names and their order are those of Nsight Compute 2025.3; after them stand rows that it shows as charts only. A
row whose metric a profile lacks is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["SECTIONS", "Row", "Section"]


@dataclass(frozen=True)
class Row:
    """One line: what it is called, which metric it shows, its unit, and a factor from the metric's unit to this one."""

    label: str
    metric: str
    unit: str
    scale: float = 1.0

    def value(self, metrics: Mapping[str, int | float]) -> int | float:
        """The number to show."""
        found = metrics[self.metric]
        return found * self.scale if self.scale != 1 else found


@dataclass(frozen=True)
class Section:
    """A section of the report. ``identifier`` is what ``--section`` takes."""

    identifier: str
    title: str
    rows: tuple[Row, ...]


SECTIONS = (
    Section(
        "SpeedOfLight",
        "GPU Speed Of Light Throughput",
        (
            Row("DRAM Frequency", "dram__cycles_elapsed.avg.per_second", "Ghz", 1e-9),
            Row("SM Frequency", "gpc__cycles_elapsed.avg.per_second", "Ghz", 1e-9),
            Row("Elapsed Cycles", "gpc__cycles_elapsed.max", "cycle"),
            Row("Memory Throughput", "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed", "%"),
            Row("DRAM Throughput", "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", "%"),
            Row("Duration", "gpu__time_duration.sum", "us", 1e-3),
            Row("L1/TEX Cache Throughput", "l1tex__throughput.avg.pct_of_peak_sustained_active", "%"),
            Row("L2 Cache Throughput", "lts__throughput.avg.pct_of_peak_sustained_elapsed", "%"),
            Row("SM Active Cycles", "sm__cycles_active.avg", "cycle"),
            Row("Compute (SM) Throughput", "sm__throughput.avg.pct_of_peak_sustained_elapsed", "%"),
        ),
    ),
    Section(
        "ComputeWorkloadAnalysis",
        "Compute Workload Analysis",
        (
            Row("Executed Ipc Active", "sm__inst_executed.avg.per_cycle_active", "inst/cycle"),
            Row("Executed Ipc Elapsed", "sm__inst_executed.avg.per_cycle_elapsed", "inst/cycle"),
            Row("Issue Slots Busy", "sm__inst_issued.avg.pct_of_peak_sustained_elapsed", "%"),
            Row("Issued Ipc Active", "sm__inst_issued.avg.per_cycle_active", "inst/cycle"),
            Row("SM Busy", "sm__instruction_throughput.avg.pct_of_peak_sustained_elapsed", "%"),
            Row("Tensor Pipe Utilization", "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active", "%"),
            Row("FMA Pipe Utilization", "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active", "%"),
            Row("ALU Pipe Utilization", "sm__pipe_alu_cycles_active.avg.pct_of_peak_sustained_active", "%"),
            Row("FP64 Pipe Utilization", "sm__pipe_fp64_cycles_active.avg.pct_of_peak_sustained_active", "%"),
        ),
    ),
    Section(
        "MemoryWorkloadAnalysis",
        "Memory Workload Analysis",
        (
            Row("Memory Throughput", "dram__bytes.sum.per_second", "Gbyte/s", 1e-9),
            Row("DRAM Read", "dram__bytes_read.sum", "Kbyte", 1e-3),
            Row("DRAM Write", "dram__bytes_write.sum", "Kbyte", 1e-3),
            Row("L1/TEX Hit Rate", "l1tex__t_sector_hit_rate.pct", "%"),
            Row("L2 Hit Rate", "lts__t_sector_hit_rate.pct", "%"),
            Row("Global Load Requests", "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", "request"),
            Row("Global Load Sectors", "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", "sector"),
            Row("Global Store Requests", "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum", "request"),
            Row("Global Store Sectors", "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum", "sector"),
            Row("L2 Sectors Read", "lts__t_sectors_op_read.sum", "sector"),
            Row("L2 Sectors Written", "lts__t_sectors_op_write.sum", "sector"),
            Row("Shared Load Wavefronts", "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum", "wavefront"),
            Row("Shared Store Wavefronts", "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum", "wavefront"),
            Row("Shared Load Bank Conflicts", "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum", "conflict"),
            Row("Shared Store Bank Conflicts", "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum", "conflict"),
        ),
    ),
    Section(
        "SchedulerStats",
        "Scheduler Statistics",
        (
            Row("One or More Eligible", "smsp__issue_active.avg.pct_of_peak_sustained_active", "%"),
            Row("Issued Warp Per Scheduler", "smsp__issue_active.avg.per_cycle_active", ""),
            Row("No Eligible", "smsp__issue_inst0.avg.pct_of_peak_sustained_active", "%"),
            Row("Active Warps Per Scheduler", "smsp__warps_active.avg.per_cycle_active", "warp"),
            Row("Eligible Warps Per Scheduler", "smsp__warps_eligible.avg.per_cycle_active", "warp"),
        ),
    ),
    Section(
        "WarpStateStats",
        "Warp State Statistics",
        (
            Row("Warp Cycles Per Issued Instruction", "smsp__average_warp_latency_per_inst_issued.ratio", "cycle"),
            Row("Warp Cycles Per Executed Instruction", "smsp__average_warps_active_per_inst_executed.ratio", "cycle"),
            Row("Avg. Active Threads Per Warp", "smsp__thread_inst_executed_per_inst_executed.ratio", ""),
            Row("Avg. Not Predicated Off Threads Per Warp", "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio", ""),
        ),
    ),
    Section(
        "InstructionStats",
        "Instruction Statistics",
        (
            Row("Avg. Executed Instructions Per Scheduler", "smsp__inst_executed.avg", "inst"),
            Row("Executed Instructions", "smsp__inst_executed.sum", "inst"),
            Row("Avg. Issued Instructions Per Scheduler", "smsp__inst_issued.avg", "inst"),
            Row("Issued Instructions", "smsp__inst_issued.sum", "inst"),
            Row("Tensor Instructions", "sm__inst_executed_pipe_tensor.sum", "inst"),
        ),
    ),
    Section(
        "LaunchStats",
        "Launch Statistics",
        (
            Row("Block Size", "launch__block_size", ""),
            Row("Cluster Size", "launch__cluster_size", ""),
            Row("Grid Size", "launch__grid_size", ""),
            Row("Registers Per Thread", "launch__registers_per_thread", "register/thread"),
            Row("Shared Memory Configuration Size", "launch__shared_mem_config_size", "Kbyte", 1e-3),
            Row("Driver Shared Memory Per Block", "launch__shared_mem_per_block_driver", "byte/block"),
            Row("Dynamic Shared Memory Per Block", "launch__shared_mem_per_block_dynamic", "byte/block"),
            Row("Static Shared Memory Per Block", "launch__shared_mem_per_block_static", "byte/block"),
            Row("# SMs", "launch__sm_count", "SM"),
            Row("Threads", "launch__thread_count", "thread"),
            Row("# TPCs", "launch__tpc_count", ""),
            Row("Waves Per SM", "launch__waves_per_multiprocessor", ""),
        ),
    ),
    Section(
        "Occupancy",
        "Occupancy",
        (
            Row("Block Limit Barriers", "launch__occupancy_limit_barriers", "block"),
            Row("Block Limit SM", "launch__occupancy_limit_blocks", "block"),
            Row("Block Limit Registers", "launch__occupancy_limit_registers", "block"),
            Row("Block Limit Shared Mem", "launch__occupancy_limit_shared_mem", "block"),
            Row("Block Limit Warps", "launch__occupancy_limit_warps", "block"),
            Row("Theoretical Active Warps per SM", "sm__maximum_warps_avg_per_active_cycle", "warp"),
            Row("Theoretical Occupancy", "sm__maximum_warps_per_active_cycle_pct", "%"),
            Row("Achieved Occupancy", "sm__warps_active.avg.pct_of_peak_sustained_active", "%"),
            Row("Achieved Active Warps Per SM", "sm__warps_active.avg.per_cycle_active", "warp"),
        ),
    ),
    Section(
        "WorkloadDistribution",
        "GPU and Memory Workload Distribution",
        (
            Row("Average L1 Active Cycles", "l1tex__cycles_active.avg", "cycle"),
            Row("Total L1 Elapsed Cycles", "l1tex__cycles_elapsed.sum", "cycle"),
            Row("Average SM Active Cycles", "sm__cycles_active.avg", "cycle"),
            Row("Total SM Elapsed Cycles", "sm__cycles_elapsed.sum", "cycle"),
            Row("Total SMSP Elapsed Cycles", "smsp__cycles_elapsed.sum", "cycle"),
            Row("Least SM Active Cycles", "sm__cycles_active.min", "cycle"),
            Row("Most SM Active Cycles", "sm__cycles_active.max", "cycle"),
        ),
    ),
    Section(
        "SourceCounters",
        "Source Counters",
        (
            Row("Branch Instructions Ratio", "derived__smsp__inst_executed_op_branch_pct", "%"),
            Row("Branch Instructions", "smsp__inst_executed_op_branch.sum", "inst"),
            Row("Branch Efficiency", "smsp__sass_average_branch_targets_threads_uniform.pct", "%"),
            Row("Avg. Divergent Branches", "smsp__sass_branch_targets_threads_divergent.avg", "branches"),
        ),
    ),
)
