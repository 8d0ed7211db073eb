"""Units of time. The model counts integer SM cycles; queues that serve more than one request a cycle count *ticks*,
fractions of one.
"""

from __future__ import annotations

__all__ = ["NEVER", "TICKS", "cycles_of_ns", "ns_of_cycles", "ticks_of_bytes", "ticks_of_rate"]

TICKS = 1024
"""Ticks in an SM cycle."""

NEVER = 1 << 62
"""A cycle that does not come."""


def cycles_of_ns(nanoseconds: float, sm_hz: int) -> int:
    """Nanoseconds as whole SM cycles, rounded to nearest."""
    return round(nanoseconds * sm_hz / 1e9)


def ns_of_cycles(cycles: int, sm_hz: int) -> int:
    """SM cycles as whole nanoseconds, rounded down (``%globaltimer`` counts them)."""
    return cycles * 1_000_000_000 // sm_hz


def ticks_of_rate(per_second: float, sm_hz: int) -> int:
    """Ticks between events that happen ``per_second`` times a second; at least 1."""
    return max(1, round(TICKS * sm_hz / per_second))


def ticks_of_bytes(size: int, bytes_per_second: float, sm_hz: int) -> int:
    """Ticks to move ``size`` bytes; at least 1."""
    return max(1, round(TICKS * size * sm_hz / bytes_per_second))
