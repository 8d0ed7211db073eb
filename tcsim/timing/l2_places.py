"""Where lines lie in the L2: which half of it is a line's home, and which slice of a half serves it.

Measured on an H200 by the latencies and the throughput of atomics (docs/microbenchmarks.md). The home of a line is a parity of
address bits, so it changes every 4 KiB at most (exact for all lines of 256 KiB and all pages of 1 MiB; bits above 20 are those
of physical pages, whose continuation is assumed). A block of 1 KiB lies on two slices side by side, which take two lines each
in turn; blocks are spread evenly: 8 lines are on 2 slices, 32 on 8, the busiest slice has 8 of 256 lines and 24 of 2 048.
"""

from __future__ import annotations

from isa.compiled import compiled
from tcsim.timing.arrays import row
from tcsim.timing.hierarchy import COSTS, LOCATIONS, NEAR, PARTITIONS, SLICES_EACH

__all__ = ["home_partition", "near_partition", "slice_of"]

_HOME_LINES = sum(1 << bit - 7 for bit in (12, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31, 33))
"""The address bits whose parity is a line's home, as bits of its number."""

_SPREAD = 0x9E3779B1
"""2^32 over the golden ratio: multiples of it are spread evenly (Knuth, volume 3, section 6.4)."""


@compiled
def near_partition(m, sm):
    """The partition next to an SM."""
    return row(m, LOCATIONS, sm)[NEAR]


@compiled
def home_partition(m, line):
    """The partition that a line belongs to."""
    bits = line & _HOME_LINES
    bits ^= bits >> 16
    bits ^= bits >> 8
    bits ^= bits >> 4
    bits ^= bits >> 2
    bits ^= bits >> 1
    return ((bits & 1) + 1) % row(m, COSTS, 0)[PARTITIONS]  # the first line of all is far from SM 0, as on an H200


@compiled
def slice_of(m, partition, line):
    """The number of a line's slice, among those of all partitions."""
    each = row(m, COSTS, 0)[SLICES_EACH]
    block = line >> 3 if row(m, COSTS, 0)[PARTITIONS] == 1 else line >> 6 << 2 | line >> 3 & 3
    return partition * each + (((block * _SPREAD & 0xFFFFFFFF) * each >> 32) + (line >> 1 & 1)) % each
