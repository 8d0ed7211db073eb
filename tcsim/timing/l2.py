"""The L2 cache: two partitions of slices, each next to half of the SMs and half of the memory.

A line has a home partition (:mod:`tcsim.timing.l2_places`). An SM asks the partition next to it; what that does not have, it
fetches from the home partition (farther away) or from memory, and keeps a copy. Stores and atomics
(:mod:`tcsim.timing.l2_atomics`) go to the home partition, and the copy is dropped. Sectors of 32 bytes have their own valid and
dirty bits; dirty ones are written back when their line is replaced. Lines are replaced least recently used over a whole
partition: addresses are hashed well enough that sets do not matter to first order.

A slice takes a request a clock, and moves two sectors a clock when they are read, about one when they are written; filling it
takes time as well. On an H200 that gives the 9.1 TB/s of whole lines and the 80 scattered sectors a cycle that are read, the
4.7 TB/s and 48 sectors that are written, or 40 if not all of their bytes are.
"""

from __future__ import annotations

from isa.compiled import compiled, inlined
from tcsim.timing.arrays import row
from tcsim.timing.dram import brought, dram_read, dram_write
from tcsim.timing.hierarchy import (
    AHEAD_T,
    BROUGHT_T,
    CLOCK_T,
    COSTS,
    DOWN,
    DRAM_FAR,
    DRAM_NEAR,
    FABRIC_HITS,
    FABRIC_REQUESTS,
    FABRIC_SECTORS,
    FABRIC_WRITES,
    FILLS,
    GPC,
    GROUP_REQUESTS,
    IN_T,
    L2,
    L2_FAR,
    L2_HIT,
    L2_REQUESTS,
    L2_STATE,
    L2_THERE,
    LAST_SERVED,
    LEAST_STORE_T,
    LOCATIONS,
    MERGE_SLOTS,
    MERGES,
    OUT_T,
    PART_STORE_T,
    PARTITIONS,
    PORTS,
    READ_HITS,
    READ_SECTORS,
    READ_T,
    REQUEST,
    SECTOR_T,
    SLICE_BUSY,
    SLICES,
    STORE_T,
    TOTALS,
    UP,
    WAY_IN,
    WAY_OUT,
    WAYS_IN,
    WAYS_OUT,
    WRITE_SECTORS,
    count4,
    serve,
)
from tcsim.timing.l2_places import home_partition, near_partition, slice_of
from tcsim.timing.lru import TAGS, find, put, touch, victim
from tcsim.timing.translation import translation_wait
from tcsim.timing.units import TICKS

__all__ = ["TOLD", "ask_slice", "keep_sectors", "l2_read", "l2_write", "own_sectors"]

PART, TOLD = 1, 2
"""Of a store that leaves bytes of its sectors alone: which ones it has goes along, or has gone already."""

_WHOLE = 15


@compiled
def ask_slice(m, partition, line, ticks, service):
    """Ask a line's slice in a partition; returns the tick at which it has served."""
    row(m, TOTALS, 0)[SLICE_BUSY] += service
    return serve(row(m, SLICES, 0), slice_of(m, partition, line), ticks, service)


@inlined
def _read_ticks(m, sectors):
    """How long a slice is busy with a read."""
    return max(row(m, COSTS, 0)[CLOCK_T], sectors * row(m, COSTS, 0)[READ_T])


@compiled
def keep_sectors(m, partition, line, valid, dirty, there, ticks):
    """Note sectors of a line in a partition, replacing the least recently used line if it is full."""
    slot = find(m, L2, partition, line)
    if slot >= 0:
        touch(m, L2, partition, slot)
    else:
        old = victim(m, L2, partition)
        if old >= 0:
            written = count4(row(m, L2_STATE, partition)[old] >> 4)
            if written:
                dram_write(m, row(m, L2 + TAGS, partition)[old], written, ticks)
        slot = put(m, L2, partition, line)
        row(m, L2_STATE, partition)[slot] = 0
        row(m, L2_THERE, partition)[slot] = 0
    row(m, L2_STATE, partition)[slot] |= valid | dirty << 4
    if there > row(m, L2_THERE, partition)[slot]:
        row(m, L2_THERE, partition)[slot] = there


@compiled
def l2_read(m, sm, line, mask, now, start):
    """An SM asks for the sectors ``mask`` of a line: an instruction that issued in cycle ``now`` sends it in cycle ``start``.
    Returns the cycle in which they are there, without the L1's latency. It is put together with a request for the very same
    sectors that is under way for a neighbour (on an H200 those for part of them are not)."""
    count = count4(mask)
    served = max(
        serve(row(m, PORTS, sm), REQUEST, start * TICKS, TICKS),
        serve(row(m, PORTS, sm), DOWN, start * TICKS, count * row(m, COSTS, 0)[SECTOR_T]),
    )
    way, width = row(m, LOCATIONS, sm)[WAY_IN], count * row(m, COSTS, 0)[IN_T]
    if row(m, COSTS, 0)[GROUP_REQUESTS] == 1:
        served = max(served, serve(row(m, WAYS_IN, 0), way, now * TICKS, width))
        return _fetch(m, sm, line, mask, now, served)
    merge = row(m, MERGES, row(m, LOCATIONS, sm)[GPC] * MERGE_SLOTS + ((line ^ line >> 10) & (MERGE_SLOTS - 1)))
    under_way = merge[0] == line and merge[2] > now
    if under_way and mask == merge[1] and merge[3] < row(m, COSTS, 0)[GROUP_REQUESTS]:
        merge[3] += 1
        served = max(served, serve(row(m, WAYS_IN, 0), way, now * TICKS, width // 3))
        return max(merge[2], -(-served // TICKS))
    served = max(served, serve(row(m, WAYS_IN, 0), way, now * TICKS, width))
    there = _fetch(m, sm, line, mask, now, served)
    merge[0], merge[1], merge[2], merge[3] = line, mask, there, 1
    return there


@compiled
def _fetch(m, sm, line, mask, now, served):
    """The same for what goes to the L2 itself: the SM's ports have served it at tick ``served``."""
    ticks = now * TICKS
    near, home = near_partition(m, sm), home_partition(m, line)
    count = count4(mask)
    row(m, TOTALS, 0)[L2_REQUESTS] += 1
    row(m, TOTALS, 0)[READ_SECTORS] += count
    served = max(served, ask_slice(m, near, line, ticks, _read_ticks(m, count)))
    latency = row(m, COSTS, 0)[L2_HIT] + translation_wait(m, sm, now)
    slot = find(m, L2, near, line)
    tag = row(m, L2_STATE, near)[slot] if slot >= 0 else 0
    there = row(m, L2_THERE, near)[slot] if slot >= 0 else 0
    missing = mask & ~tag & _WHOLE
    row(m, TOTALS, 0)[READ_HITS] += count - count4(missing)
    if missing == 0:
        touch(m, L2, near, slot)
        return max(there, latency + -(-served // TICKS))
    absent = missing
    if home != near:
        row(m, TOTALS, 0)[FABRIC_REQUESTS] += 1
        latency += row(m, COSTS, 0)[L2_FAR]
        served = max(served, ask_slice(m, home, line, ticks, _read_ticks(m, count4(missing))))
        slot = find(m, L2, home, line)
        if slot >= 0:
            absent = missing & ~row(m, L2_STATE, home)[slot] & _WHOLE
            there = max(there, row(m, L2_THERE, home)[slot])
        row(m, TOTALS, 0)[FABRIC_HITS] += count4(missing) - count4(absent)
        row(m, TOTALS, 0)[FABRIC_SECTORS] += count4(missing | brought(m, absent))  # a fill goes all the way
    if absent:
        fetched = brought(m, absent)
        row(m, TOTALS, 0)[FILLS] += count4(fetched)
        served = max(served, dram_read(m, line, fetched, ticks))
        latency += row(m, COSTS, 0)[DRAM_NEAR if home == near else DRAM_FAR]
        missing |= fetched
        ask_slice(m, home, line, ticks, count4(fetched) * row(m, COSTS, 0)[BROUGHT_T])
    there = max(there, latency + -(-served // TICKS))
    keep_sectors(m, near, line, missing, 0, there, ticks)
    if home != near:
        ask_slice(m, near, line, ticks, count4(missing) * row(m, COSTS, 0)[BROUGHT_T])
        keep_sectors(m, home, line, missing, 0, there, ticks)
    return there


@compiled
def own_sectors(m, home, through, line, mask, now):
    """Drop copies of sectors that the home partition gets, dirty, but one that is on the way, in partition ``through``."""
    for partition in range(row(m, COSTS, 0)[PARTITIONS]):
        if partition != home and partition != through:
            slot = find(m, L2, partition, line)
            if slot >= 0:
                row(m, L2_STATE, partition)[slot] &= ~mask
    keep_sectors(m, home, line, mask, mask, 0, now * TICKS)


@inlined
def _write_ticks(m, sectors, partial):
    """How long a slice is busy with a write."""
    least = row(m, COSTS, 0)[PART_STORE_T if partial else LEAST_STORE_T]
    return max(least, sectors * row(m, COSTS, 0)[STORE_T])


@compiled
def l2_write(m, sm, line, mask, partial, joined, now, start):
    """An SM stores to sectors of a line. ``partial``: not to all of their bytes (:data:`TOLD` or :data:`PART`). ``joined``:
    sectors of the line that have not left yet, with which these go. Returns the cycle in which the data has left the SM, and
    that in which the L2 acknowledges it."""
    home = home_partition(m, line)
    count = count4(mask)
    row(m, TOTALS, 0)[L2_REQUESTS] += 1
    row(m, TOTALS, 0)[WRITE_SECTORS] += count
    left = serve(row(m, PORTS, sm), UP, start * TICKS, (count + (partial == PART)) * TICKS)
    left = max(left, serve(row(m, WAYS_OUT, 0), row(m, LOCATIONS, sm)[WAY_OUT], now * TICKS, count * row(m, COSTS, 0)[OUT_T]))
    service = _write_ticks(m, count + joined, partial)
    if joined:
        service = max(0, service - _write_ticks(m, joined, partial))
    served = max(left, ask_slice(m, home, line, now * TICKS, service))
    left = row(m, PORTS, sm)[UP] = max(left, served - row(m, COSTS, 0)[AHEAD_T])  # the rest waits in front of the slice
    own_sectors(m, home, near_partition(m, sm), line, mask, now)
    row(m, TOTALS, 0)[LAST_SERVED] = max(row(m, TOTALS, 0)[LAST_SERVED], served)
    trip = row(m, COSTS, 0)[L2_HIT] + translation_wait(m, sm, now)
    if home != near_partition(m, sm):
        row(m, TOTALS, 0)[FABRIC_WRITES] += count
        row(m, TOTALS, 0)[FABRIC_REQUESTS] += 1
    return -(-left // TICKS), trip + -(-served // TICKS)
