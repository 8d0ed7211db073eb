"""Which Nsight Compute metrics a recording holds.

Names are those of GH100 as CUPTI enumerates them; the counters of other chips and versions differ a little, so
:mod:`gpu_ref.profiling` asks ncu which of them it knows. ``launch__*`` and a few others exist in ncu only and are not in that
list.
"""

from __future__ import annotations

__all__ = ["METRICS", "REPEATED", "STALL_REASONS", "is_ncu_only"]

STALL_REASONS = (
    "barrier", "branch_resolving", "dispatch_stall", "drain", "gmma", "imc_miss", "lg_throttle", "long_scoreboard",
    "math_pipe_throttle", "membar", "mio_throttle", "misc", "no_instruction", "not_selected", "selected",
    "short_scoreboard", "sleeping", "tex_throttle", "wait",
)  # fmt: skip
"""Why a warp does not issue in a cycle, as Nsight Compute spells it ("Warp State Statistics")."""

_TIME = """
    gpu__time_duration.sum
    sm__cycles_elapsed.max sm__cycles_elapsed.avg.per_second gpc__cycles_elapsed.max
    sm__cycles_active.avg sm__cycles_active.max sm__cycles_active.min sm__cycles_active.sum
    lts__cycles_elapsed.avg.per_second dram__cycles_elapsed.avg.per_second
"""

_INSTRUCTIONS = """
    smsp__inst_executed.sum smsp__inst_issued.sum smsp__thread_inst_executed.sum smsp__thread_inst_executed_pred_on.sum
    smsp__thread_inst_executed_per_inst_executed.ratio
    smsp__inst_executed_op_branch.sum smsp__inst_executed_op_global_ld.sum smsp__inst_executed_op_global_st.sum
    smsp__inst_executed_op_ldgsts.sum smsp__inst_executed_op_ldsm.sum smsp__inst_executed_op_shared_ld.sum
    smsp__inst_executed_op_shared_st.sum
    smsp__sass_branch_targets.sum smsp__sass_branch_targets_threads_divergent.sum
    sm__inst_executed_pipe_adu.sum sm__inst_executed_pipe_alu.sum sm__inst_executed_pipe_cbu.sum
    sm__inst_executed_pipe_fma.sum sm__inst_executed_pipe_fp64.sum sm__inst_executed_pipe_lsu.sum
    sm__inst_executed_pipe_uniform.sum sm__inst_executed_pipe_xu.sum
    sm__inst_executed_pipe_tensor_op_hmma.sum sm__inst_executed_pipe_tensor_op_imma.sum
    sm__inst_executed_pipe_tensor_op_dmma.sum sm__inst_executed_pipe_tensor_op_gmma.sum
"""

_SCHEDULERS = """
    smsp__issue_active.sum smsp__issue_active.avg.per_cycle_active
    smsp__warps_active.avg.per_cycle_active smsp__warps_eligible.avg.per_cycle_active
    sm__warps_active.avg.per_cycle_active sm__warps_active.avg.pct_of_peak_sustained_active
    smsp__average_warp_latency_per_inst_issued.ratio smsp__average_warps_active_per_inst_executed.ratio
    sm__warps_launched.sum sm__ctas_launched.sum
"""

_PIPES = """
    sm__pipe_alu_cycles_active.avg.pct_of_peak_sustained_active sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active
    sm__pipe_fmaheavy_cycles_active.avg.pct_of_peak_sustained_active
    sm__pipe_fp64_cycles_active.avg.pct_of_peak_sustained_active
    sm__pipe_shared_cycles_active.avg.pct_of_peak_sustained_active
    sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active
    sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active
    sm__pipe_tensor_op_imma_cycles_active.avg.pct_of_peak_sustained_active
    sm__throughput.avg.pct_of_peak_sustained_elapsed
    gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed
"""

_SHARED_AND_L1 = """
    l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum
    l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ldgsts.sum
    l1tex__data_pipe_lsu_wavefronts.sum l1tex__data_pipe_lsu_wavefronts_mem_shared.sum
    l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum
    l1tex__data_bank_reads.sum l1tex__data_bank_writes.sum l1tex__lsuin_requests.sum
    l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum l1tex__t_requests_pipe_lsu_mem_global_op_st.sum
    l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum
    l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum
    l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum
    l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio
    l1tex__t_sector_hit_rate.pct l1tex__throughput.avg.pct_of_peak_sustained_active
    l1tex__m_xbar2l1tex_read_sectors.sum l1tex__m_l1tex2xbar_write_bytes.sum
    l1tex__t_sectors_pipe_lsu_mem_global_op_red.sum l1tex__t_sectors_pipe_lsu_mem_global_op_atom.sum
    l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_atom.sum l1tex__data_pipe_lsu_wavefronts_mem_shared_op_atom.sum
"""

_L2_AND_DRAM = """
    lts__t_requests.sum lts__t_sectors.sum lts__t_sectors_op_read.sum lts__t_sectors_op_write.sum
    lts__t_sectors_op_atom.sum lts__t_sectors_op_red.sum lts__t_requests_srcunit_tex.sum
    lts__t_sectors_srcunit_tex.sum lts__t_sectors_srcunit_tex_lookup_hit.sum lts__t_sectors_srcunit_ltcfabric.sum
    lts__t_sector_hit_rate.pct lts__d_sectors_fill_device.sum lts__throughput.avg.pct_of_peak_sustained_elapsed
    dram__bytes_read.sum dram__bytes_write.sum dram__sectors_read.sum dram__sectors_write.sum
    dram__throughput.avg.pct_of_peak_sustained_elapsed
    sm__icc_requests.sum gcc__cache_requests.sum idc__requests.sum
"""

_LAUNCH = """
    launch__registers_per_thread launch__waves_per_multiprocessor launch__sm_count
    launch__shared_mem_per_block_static launch__shared_mem_per_block_dynamic launch__shared_mem_per_block_driver
    launch__shared_mem_config_size
    launch__occupancy_limit_blocks launch__occupancy_limit_registers launch__occupancy_limit_shared_mem
    launch__occupancy_limit_warps launch__occupancy_limit_barriers launch__barrier_count
    launch__registers_per_thread_allocated launch__shared_mem_per_block_allocated sm__maximum_warps_per_active_cycle_pct
"""

METRICS: tuple[str, ...] = (
    *_TIME.split(),
    *_INSTRUCTIONS.split(),
    *_SCHEDULERS.split(),
    *(f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio" for reason in STALL_REASONS),
    *(
        f"smsp__warps_issue_stalled_{reason}.sum" for reason in STALL_REASONS
    ),  # exact, while ncu prints ratios with two digits
    *_PIPES.split(),
    *_SHARED_AND_L1.split(),
    *_L2_AND_DRAM.split(),
    *_LAUNCH.split(),
)
"""Everything that is asked for, in the order of a report."""

REPEATED: tuple[str, ...] = (
    "sm__cycles_elapsed.max",
    "sm__cycles_active.avg",
    "gpu__time_duration.sum",
    "sm__cycles_elapsed.avg.per_second",
    "smsp__inst_executed.sum",
    "lts__t_sectors_srcunit_tex.sum",
    "dram__bytes_read.sum",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
)
"""What is counted again and again to know how much it differs from run to run."""


def is_ncu_only(metric: str) -> bool:
    """Whether ``metric`` is ncu's own and so not in its list of hardware counters."""
    return metric in _LAUNCH.split()
