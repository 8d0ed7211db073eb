"""How many CTAs of a kernel an SM holds at once, and what limits it.

The rule is NVIDIA's (``cuda_occupancy.h``, CUDA 12.9): registers are given to warps in units of 256 from the register file of a
sub-partition; shared memory to CTAs in units, with a reserved part each. Named barriers are shared out, too, where it is known
how many there are.
"""

from __future__ import annotations

from dataclasses import dataclass

from isa.program import KIND, OPERANDS, Kind, Program
from tcsim.arch import Arch

__all__ = ["Occupancy", "named_barriers", "occupancy"]

SUB_PARTITIONS = 4
MOST_BARRIERS = 16
"""Of a CTA (PTX ISA 9.7.13.1)."""


@dataclass(frozen=True)
class Occupancy:
    """CTAs per SM: the result, and what each resource alone would allow. ``limiter`` names the smallest."""

    ctas: int
    by_warps: int
    by_ctas: int
    by_registers: int
    by_shared: int
    by_barriers: int

    @property
    def limiter(self) -> str:
        limits = {
            "warps": self.by_warps,
            "CTA slots": self.by_ctas,
            "registers": self.by_registers,
            "shared memory": self.by_shared,
            "barriers": self.by_barriers,
        }
        return min(limits, key=lambda name: limits[name])


def named_barriers(program: Program) -> int:
    """Barriers that a CTA of a kernel needs: up to the highest number that it names, or all if a register names one."""
    constants = {place: value for place, value, _ in program.constants if isinstance(value, int)}
    needed = 0
    for pc in range(len(program)):
        kind = int(program.code[pc, KIND])
        if kind in (Kind.BARRIER_SYNC, Kind.BARRIER_ARRIVE, Kind.BARRIER_REDUCE):
            at = int(program.code[pc, OPERANDS]) // 4 + (kind == Kind.BARRIER_REDUCE)  # behind the result
            needed = max(needed, constants.get(int(program.pool[at]), MOST_BARRIERS - 1) + 1)
    return min(needed, MOST_BARRIERS)


def occupancy(arch: Arch, *, threads: int, registers: int, shared: int, barriers: int = 0) -> Occupancy:
    """CTAs per SM for a CTA of ``threads`` threads with ``registers`` per thread, ``shared`` bytes (static and dynamic) and
    ``barriers``."""
    limits = arch.limits
    warps = -(-threads // 32)
    unit = limits.register_allocation_unit
    per_warp = -(-max(registers, 1) * 32 // unit) * unit
    warps_by_registers = limits.registers_per_sm // SUB_PARTITIONS // per_warp
    rounded = -(-(shared + limits.shared_reserved_per_cta) // limits.shared_allocation_unit)
    shared_each = rounded * limits.shared_allocation_unit
    by_shared = limits.shared_per_sm // shared_each if shared_each else limits.max_ctas_per_sm
    by_warps = limits.max_warps_per_sm // warps
    by_registers = SUB_PARTITIONS * warps_by_registers // warps
    by_ctas = limits.max_ctas_per_sm
    by_barriers = min(by_ctas, limits.barriers_per_sm // barriers) if barriers and limits.barriers_per_sm else by_ctas
    ctas = min(by_warps, by_ctas, by_registers, by_shared, by_barriers)
    return Occupancy(ctas, by_warps, by_ctas, by_registers, by_shared, by_barriers)
