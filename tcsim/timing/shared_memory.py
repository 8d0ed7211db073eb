"""Shared memory: how much of an SM's memory it takes. (Banks and wavefronts: :mod:`tcsim.execute.banks`; time:
:mod:`tcsim.timing.lsu`.)
"""

from __future__ import annotations

from tcsim.arch.spec import Limits
from tcsim.arch.timing_spec import L1 as L1Spec
from tcsim.errors import DeviceError

__all__ = ["carve_out"]


def carve_out(spec: L1Spec, limits: Limits, shared_per_cta: int, ctas: int) -> int:
    """Bytes that shared memory takes of what it shares with the L1: the smallest configuration that holds ``ctas``
    CTAs.

    ``shared_per_cta``: static and dynamic bytes of a CTA. The driver's choice, as cuda_occupancy.h describes it.
    """
    unit = limits.shared_allocation_unit
    each = -(-(shared_per_cta + limits.shared_reserved_per_cta) // unit) * unit
    for kib in spec.carveouts:
        if 1024 * kib >= each * ctas:
            return 1024 * kib
    raise DeviceError(f"{ctas} CTAs of {shared_per_cta:,} bytes of shared memory do not fit an SM")
