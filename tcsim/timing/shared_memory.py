"""Shared memory: how much of an SM's memory it takes. (Banks and wavefronts: :mod:`tcsim.execute.banks`; time:
:mod:`tcsim.timing.lsu`.)
"""

from __future__ import annotations

import math

from tcsim.arch.spec import Limits
from tcsim.arch.timing_spec import L1 as L1Spec
from tcsim.errors import DeviceError

__all__ = ["carve_out"]

_REST = 0.7
"""Part of the CTAs between those that fit and as many as an SM can have: for 16 there was room for 26 to 28, for 21 for 29 or
30, and below 13 for twice as many, in 720 launches on an H200 (:func:`carve_out`)."""


def carve_out(spec: L1Spec, limits: Limits, shared_per_cta: int, ctas: int, *, spare: bool = False) -> int:
    """Bytes that shared memory takes of what it shares with the L1: the smallest configuration that holds ``ctas``
    CTAs, or with ``spare`` some more, as the driver configures for kernels whose registers or warps limit their CTAs to two or
    more of less than 1,024 threads.

    ``shared_per_cta``: static and dynamic bytes of a CTA. Smallest: as cuda_occupancy.h describes it. More: as 720 launches of
    one kernel on an H200 (driver 580.159.04) with 1 to 232,448 bytes, 32 to 1,024 threads and 16 to 220 registers were
    configured. Raises DeviceError if the CTAs do not fit.
    """
    unit = limits.shared_allocation_unit
    each = -(-(shared_per_cta + limits.shared_reserved_per_cta) // unit) * unit
    needed = next((1024 * kib for kib in spec.carveouts if 1024 * kib >= each * ctas), 0)
    if not needed:
        raise DeviceError(f"{ctas} CTAs of {shared_per_cta:,} bytes of shared memory do not fit an SM")
    most = 1024 * spec.spare_carveout
    if not spare or not most:
        return needed
    more = min(2 * ctas, ctas + math.ceil(_REST * (limits.max_ctas_per_sm - ctas)))
    wanted = next((1024 * kib for kib in spec.carveouts if 1024 * kib >= each * more), most)
    return max(needed, min(wanted, most))
