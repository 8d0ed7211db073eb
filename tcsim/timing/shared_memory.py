"""Shared memory: 32 banks of 4 bytes, a wavefront a cycle.

Lanes whose words lie in different banks, or in the same word, are served together; what is left over needs another
wavefront. The executor counts the wavefronts where it knows the addresses (:func:`tcsim.execute.recorder.wavefronts`);
the data port of :mod:`tcsim.timing.lsu` serves one a cycle; here is how long an access takes.
"""

from __future__ import annotations

from tcsim.arch.spec import Limits
from tcsim.arch.timing_spec import L1 as L1Spec
from tcsim.arch.timing_spec import SharedMemory as SharedMemorySpec
from tcsim.errors import DeviceError

__all__ = ["SharedMemory", "carve_out"]


class SharedMemory:
    """Latencies in cycles. ``barrier_release``: from the last arrival at a CTA barrier to the next issue."""

    __slots__ = ("_latency", "_wavefront_latency", "atomic_latency", "barrier_release")

    def __init__(self, spec: SharedMemorySpec) -> None:
        self._latency, self._wavefront_latency = spec.latency, spec.wavefront_latency
        self.atomic_latency = spec.atomic_latency
        self.barrier_release = spec.barrier_release

    def latency_of(self, wavefronts: int) -> int:
        """From the first wavefront to a dependent instruction."""
        return self._latency + self._wavefront_latency * (wavefronts - 1)


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
