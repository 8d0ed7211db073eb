"""Who knows what: the happens-before order of a launch, and the list of findings. Compiled; tables as in
:mod:`tcsim.checking.layout`."""

from __future__ import annotations

from typing import Any

import numpy as np

from isa.compiled import allocating, compiled
from isa.kernels.planes import as_i64, as_u32
from tcsim.checking.layout import (
    F_ADDRESS,
    F_AGENT,
    F_COUNT,
    F_EXTRA,
    F_KIND,
    F_LANES,
    F_OTHER_AGENT,
    F_OTHER_LANES,
    F_OTHER_PC,
    F_PC,
    F_ROLE,
    F_SIZE,
    F_SPACE,
    FINDING_WORDS,
    G_ACQUIRED,
    G_ACQUIRED_CTA,
    G_CAPACITY,
    G_FINDINGS,
    G_FOUND,
    G_LOST,
    G_RELEASED,
    G_RELEASED_CTA,
    G_SEQUENCE,
    T_CTA,
    T_FENCE_AT,
    T_FLOOR,
    T_GRID,
    T_LANES,
    T_OTHERS,
    T_WARP_FLOOR,
    T_WARPS,
)

__all__ = ["acquire", "acquire_in_cta", "advance", "learn_warp", "now", "ordered", "release", "report"]


@compiled
def now(t: Any) -> Any:
    """The counter."""
    return as_i64(t[T_GRID])[G_SEQUENCE]


@compiled
def advance(t: Any) -> Any:
    """Count an ordering event: returns the stamp of all accesses up to it; later ones have a greater."""
    grid = as_i64(t[T_GRID])
    before = grid[G_SEQUENCE]
    grid[G_SEQUENCE] = before + 1
    return before


@compiled
def ordered(t: Any, stamp: Any, agent: Any, lanes: Any, w: Any, lane: Any) -> Any:
    """Whether accesses stamped ``stamp`` by ``lanes`` of a warp come before what lane ``lane`` of warp ``w`` does now."""
    cta, warps = t[T_CTA], t[T_WARPS]
    me = cta * warps + w
    grid = as_i64(t[T_GRID])
    if stamp < as_i64(grid[G_RELEASED])[agent] and stamp < as_i64(grid[G_ACQUIRED])[me]:
        return True
    if agent // warps == cta and stamp < as_i64(grid[G_RELEASED_CTA])[agent] and stamp < as_i64(grid[G_ACQUIRED_CTA])[me]:
        return True
    if agent == me:
        if stamp <= as_i64(t[T_WARP_FLOOR])[w] or stamp <= t[T_FLOOR]:
            return True
        known = as_u32(t[T_LANES] + 4 * 32 * (32 * w + lane))
        for other in range(32):
            if (lanes >> np.uint32(other)) & np.uint32(1) and other != lane and stamp > known[other]:
                return False
        return True
    if agent // warps != cta:
        return False
    if stamp <= t[T_FLOOR]:
        return True
    known = as_u32(t[T_OTHERS] + 4 * 32 * (warps * w + (agent - cta * warps)))
    unknown = False
    for other in range(32):
        unknown = unknown or ((lanes >> np.uint32(other)) & np.uint32(1) and stamp > known[other])
    return not unknown


@allocating
def learn_warp(t: Any, w: Any, lanes: Any, live: Any) -> None:
    """``lanes`` of a warp have synchronised: each knows what all of them did and knew."""
    stamp = advance(t)
    if lanes & live == live:
        as_i64(t[T_WARP_FLOOR])[w] = stamp
        return
    table = as_u32(t[T_LANES] + 4 * 1024 * w)
    best = np.zeros(32, np.uint32)
    for lane in range(32):
        if (lanes >> np.uint32(lane)) & np.uint32(1):
            for other in range(32):
                best[other] = max(best[other], table[32 * lane + other])
            best[lane] = np.uint32(stamp)
    for lane in range(32):
        if (lanes >> np.uint32(lane)) & np.uint32(1):
            for other in range(32):
                table[32 * lane + other] = best[other]


@compiled
def release(t: Any, w: Any, in_cta: Any) -> Any:
    """A fence of warp ``w``: what it did, and what it knows of other warps of its CTA, can be acquired by others; ``in_cta``:
    by those of its CTA only. Returns its stamp."""
    grid = as_i64(t[T_GRID])
    stamp = advance(t) + 1
    _release(t, w, stamp, as_i64(grid[G_RELEASED_CTA]))
    if not in_cta:
        _release(t, w, stamp, as_i64(grid[G_RELEASED]))
        as_i64(t[T_FENCE_AT])[w] = stamp
    return stamp


@compiled
def _release(t, w, stamp, released):
    warps, first = t[T_WARPS], t[T_CTA] * t[T_WARPS]
    for v in range(warps):
        known = np.int64(t[T_FLOOR])
        others = as_u32(t[T_OTHERS] + 4 * 32 * (warps * w + v))
        for lane in range(32):
            known = max(known, np.int64(others[lane]))
        released[first + v] = max(released[first + v], stamp if v == w else known + 1)


@compiled
def acquire(t: Any, w: Any, stamp: Any) -> None:
    """Warp ``w`` has read what was released at ``stamp``."""
    acquired = as_i64(as_i64(t[T_GRID])[G_ACQUIRED])
    me = t[T_CTA] * t[T_WARPS] + w
    acquired[me] = max(acquired[me], stamp)


@compiled
def acquire_in_cta(t: Any, w: Any, stamp: Any, other: Any) -> None:
    """Warp ``w`` has read what warp ``other`` of its CTA wrote just before ``stamp``: it knows what the other knows."""
    grid, first = as_i64(t[T_GRID]), t[T_CTA] * t[T_WARPS]
    acquired, inside = as_i64(grid[G_ACQUIRED]), as_i64(grid[G_ACQUIRED_CTA])
    inside[first + w] = max(inside[first + w], stamp)
    acquired[first + w] = max(acquired[first + w], acquired[first + other])


@compiled
def report(t, kind, role, space, address, size, pc, agent, lanes, other_pc, other_agent, other_lanes, extra):
    """Add a finding. Those of the same kind at the same pair of instructions are counted together."""
    grid = as_i64(t[T_GRID])
    count = grid[G_FOUND]
    for index in range(count):
        row = as_i64(grid[G_FINDINGS] + 8 * FINDING_WORDS * index)
        if row[F_KIND] == kind and row[F_PC] == pc and row[F_OTHER_PC] == other_pc and row[F_ROLE] == role:
            row[F_COUNT] += 1
            return
    if count >= grid[G_CAPACITY]:
        grid[G_LOST] += 1
        return
    row = as_i64(grid[G_FINDINGS] + 8 * FINDING_WORDS * count)
    row[F_KIND], row[F_COUNT], row[F_ROLE], row[F_EXTRA] = np.int64(kind), np.int64(1), np.int64(role), np.int64(extra)
    row[F_SPACE], row[F_ADDRESS], row[F_SIZE] = np.int64(space), np.int64(address), np.int64(size)
    row[F_PC], row[F_AGENT], row[F_LANES] = np.int64(pc), np.int64(agent), np.int64(lanes)
    row[F_OTHER_PC], row[F_OTHER_AGENT] = np.int64(other_pc), np.int64(other_agent)
    row[F_OTHER_LANES] = np.int64(other_lanes)
    grid[G_FOUND] = count + 1
