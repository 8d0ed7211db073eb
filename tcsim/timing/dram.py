"""Device memory: channels that move data at their share of the bandwidth. Rows and banks are not modelled; the rate in the
tables is what streams reach on hardware, refresh and row misses included. A fill brings two sectors (64 bytes) at a time.
"""

from __future__ import annotations

from isa.compiled import compiled
from tcsim.timing.arrays import row
from tcsim.timing.hierarchy import (
    CHANNEL_COUNT,
    CHANNELS,
    COSTS,
    DRAM_READ,
    DRAM_WRITTEN,
    FILL_SECTORS,
    FILL_T,
    TOTALS,
    WRITE_T,
    count4,
    serve,
)

__all__ = ["brought", "dram_read", "dram_write"]

# Multiplicative hashing (Knuth) spreads neighbouring lines over the channels.
_SPREAD = 0x9E3779B1


@compiled
def _channel(m, line):
    return ((line * _SPREAD & 0xFFFFFFFF) * row(m, COSTS, 0)[CHANNEL_COUNT]) >> 32


@compiled
def brought(m, mask):
    """The sectors that a fill brings for those in ``mask``: units of two, where the memory fills so."""
    if row(m, COSTS, 0)[FILL_SECTORS] == 1:
        return mask
    return (3 if mask & 3 else 0) | (12 if mask & 12 else 0)


@compiled
def dram_read(m, line, mask, ticks):
    """Fetch the sectors ``mask``, whole units, asked for at a tick; returns the tick at which the channel has served it."""
    sectors = count4(mask)
    row(m, TOTALS, 0)[DRAM_READ] += 32 * sectors
    costs = row(m, COSTS, 0)
    return serve(row(m, CHANNELS, 0), _channel(m, line), ticks, sectors // costs[FILL_SECTORS] * costs[FILL_T])


@compiled
def dram_write(m, line, sectors, ticks):
    """Write back sectors of a line; nobody waits for it."""
    row(m, TOTALS, 0)[DRAM_WRITTEN] += 32 * sectors
    serve(row(m, CHANNELS, 0), _channel(m, line), ticks, sectors * row(m, COSTS, 0)[WRITE_T])
