"""What a launch takes behind the end of its last CTA, besides what every launch takes.

Under Nsight Compute an H200 counts 1,480 to 1,510 ns outside the busiest SM for launches of a few CTAs, 1,550 where all SMs
work, and more the more they have read from memory: 1,610 ns for 4 MB, 1,680 for 9, 1,735 for 17 to 35, 1,790 for 69 to 138 MB.
"""

from __future__ import annotations

import math

from tcsim.arch.timing_spec import LaunchCosts
from tcsim.timing.units import cycles_of_ns

__all__ = ["ending_cycles"]


def ending_cycles(costs: LaunchCosts, busy: int, bytes_read: int, sm_hz: int) -> int:
    """SM cycles for a launch on ``busy`` SMs that has read ``bytes_read`` from memory."""
    drain = costs.drain_ns * -math.expm1(-bytes_read / costs.drain_bytes)
    return cycles_of_ns(costs.busy_sm_ns * busy + drain, sm_hz)
