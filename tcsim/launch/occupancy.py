"""How many CTAs of a kernel an SM holds at once, and what limits it.

The rule is NVIDIA's (``cuda_occupancy.h``, CUDA 12.9): registers are given to warps in units of 256 from the register file of a
sub-partition; shared memory to CTAs in units, with a reserved part each.
"""

from __future__ import annotations

from dataclasses import dataclass

from tcsim.arch import Arch

__all__ = ["Occupancy", "occupancy"]

SUB_PARTITIONS = 4


@dataclass(frozen=True)
class Occupancy:
    """CTAs per SM: the result, and what each resource alone would allow. ``limiter`` names the smallest."""

    ctas: int
    by_warps: int
    by_ctas: int
    by_registers: int
    by_shared: int

    @property
    def limiter(self) -> str:
        limits = {
            "warps": self.by_warps,
            "CTA slots": self.by_ctas,
            "registers": self.by_registers,
            "shared memory": self.by_shared,
        }
        return min(limits, key=lambda name: limits[name])


def occupancy(arch: Arch, *, threads: int, registers: int, shared: int) -> Occupancy:
    """CTAs per SM for a CTA of ``threads`` threads with ``registers`` per thread and ``shared`` bytes (static and dynamic)."""
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
    ctas = min(by_warps, limits.max_ctas_per_sm, by_registers, by_shared)
    return Occupancy(ctas, by_warps, limits.max_ctas_per_sm, by_registers, by_shared)
