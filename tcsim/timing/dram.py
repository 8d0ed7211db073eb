"""Device memory: channels that move data at their share of the bandwidth. Rows and banks are not modelled; the rate in
the tables is what streams reach on hardware, refresh and row misses included.
"""

from __future__ import annotations

from tcsim.arch.timing_spec import Dram as DramSpec
from tcsim.timing.queueing import Server
from tcsim.timing.units import TICKS, cycles_of_ns, ticks_of_bytes

__all__ = ["Dram"]

# Multiplicative hashing (Knuth) spreads neighbouring lines over the channels.
_SPREAD = 0x9E3779B1


class Dram:
    """``bytes_read``, ``bytes_written``: traffic so far."""

    def __init__(self, spec: DramSpec, sm_hz: int) -> None:
        self.latency = TICKS * cycles_of_ns(spec.latency_ns, sm_hz)
        self.fill_bytes = spec.fill_bytes
        self._fill_ticks = ticks_of_bytes(spec.fill_bytes, spec.bytes_per_second / spec.channels, sm_hz)
        self._sector_ticks = ticks_of_bytes(32, spec.bytes_per_second / spec.channels, sm_hz)
        self._channels = [Server() for _ in range(spec.channels)]
        self.bytes_read = 0
        self.bytes_written = 0

    def _channel(self, line: int) -> Server:
        return self._channels[((line * _SPREAD & 0xFFFFFFFF) * len(self._channels)) >> 32]

    def read(self, line: int, fills: int, now: int) -> int:
        """Fetch ``fills`` units of ``fill_bytes`` of a line, asked for at tick ``now``; returns the ticks it takes."""
        self.bytes_read += fills * self.fill_bytes
        return self.latency + self._channel(line).serve(now, fills * self._fill_ticks)

    def write(self, line: int, sectors: int, now: int) -> None:
        """Write back sectors of a line; nobody waits for it."""
        self.bytes_written += 32 * sectors
        self._channel(line).serve(now, sectors * self._sector_ticks)
