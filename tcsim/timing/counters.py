"""What a timed launch counts. One object per launch, shared by all SMs; lists are indexed by instruction."""

from __future__ import annotations

from tcsim.timing.scoreboard import REASONS

__all__ = ["Counters"]


class Counters:
    """``stalls``: warp-cycles, [instruction * REASONS + reason]. ``warp_cycles``: cycles that warps were resident.
    ``sm_active``: cycles with a CTA, by SM. ``ctas``, ``warps``: launched. What memories count is in their arrays
    (:mod:`tcsim.timing.hierarchy`).
    """

    def __init__(self, instructions: int, sms: int) -> None:
        self.stalls = [0] * (instructions * REASONS)
        self.sm_active = [0] * sms
        self.warp_cycles = self.ctas = self.warps = 0
