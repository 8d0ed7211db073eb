"""What a timed launch counts. One object per launch, shared by all SMs; lists are indexed by instruction."""

from __future__ import annotations

from tcsim.timing.scoreboard import REASONS

__all__ = ["Counters"]


class Counters:
    """``stalls``: warp-cycles, [instruction * REASONS + reason]. ``requests``, ``sectors``, ``l1_hits``: of global and
    local memory. ``shared_requests``, ``wavefronts``, ``conflicts``: of shared memory; conflicts are wavefronts beyond
    the fewest possible. ``port_cycles``: of the SMs' data ports. ``warp_cycles``: cycles that warps were resident.
    ``sm_active``: cycles with a CTA, by SM. ``ctas``, ``warps``: launched.
    """

    def __init__(self, instructions: int, sms: int) -> None:
        self.stalls = [0] * (instructions * REASONS)
        self.requests = [0] * instructions
        self.sectors = [0] * instructions
        self.l1_hits = [0] * instructions
        self.shared_requests = [0] * instructions
        self.wavefronts = [0] * instructions
        self.conflicts = [0] * instructions
        self.sm_active = [0] * sms
        self.port_cycles = self.warp_cycles = self.ctas = self.warps = 0
