"""Device memory: channels that move data at their share of the bandwidth. Rows are not modelled; the rate in the tables is what
streams reach on hardware, row misses included. A bank that is being refreshed makes those wait who read it, and nobody else. A
fill brings two sectors (64 bytes) at a time.
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
    REFRESH_EVERY_T,
    REFRESH_T,
    TOTALS,
    WRITE_T,
    count4,
    serve,
)

__all__ = ["brought", "dram_read", "dram_write"]

# Multiplicative hashing (Knuth) spreads neighbouring lines over the channels.
_SPREAD = 0x9E3779B1

_ROW_BITS, _BANKS = 3, 1024
"""Lines of a row that lie together (1 KiB), and banks whose refreshes are told apart: assumed."""


@compiled
def _channel(m, line):
    return ((line * _SPREAD & 0xFFFFFFFF) * row(m, COSTS, 0)[CHANNEL_COUNT]) >> 32


@compiled
def _refreshed(m, line, ticks):
    """The tick from which the bank of a line can be read, at ``ticks`` or later. Banks take their turns evenly."""
    every = row(m, COSTS, 0)[REFRESH_EVERY_T]
    if every == 0:
        return ticks
    turn = ((line >> _ROW_BITS) * _SPREAD >> 8 & _BANKS - 1) * every // _BANKS
    return ticks + max(0, row(m, COSTS, 0)[REFRESH_T] - (ticks + turn) % every)


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
    served = serve(row(m, CHANNELS, 0), _channel(m, line), ticks, sectors // costs[FILL_SECTORS] * costs[FILL_T])
    return _refreshed(m, line, served)


@compiled
def dram_write(m, line, sectors, ticks):
    """Write back sectors of a line; nobody waits for it."""
    row(m, TOTALS, 0)[DRAM_WRITTEN] += 32 * sectors
    serve(row(m, CHANNELS, 0), _channel(m, line), ticks, sectors * row(m, COSTS, 0)[WRITE_T])
