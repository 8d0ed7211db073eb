"""The instruction cache of an SM: blocks of instructions that come from farther away in the order in which they were asked for.

The first block of a launch comes from far away, to one SM after another of those that share the way. Any other that is entered
for the first time stalls its warps for less; those behind it are fetched ahead, one after another. Code that is larger than
the cache is fetched again and again: blocks used least recently make room. The levels behind the cache are one: on hardware
what streams from there takes the same time cold.
"""

from __future__ import annotations

from isa.compiled import compiled
from tcsim.timing.arrays import row
from tcsim.timing.hierarchy import (
    CODE,
    CODE_AHEAD,
    CODE_BLOCKS,
    CODE_CAPACITY,
    CODE_FIRST,
    CODE_MISS,
    CODE_NEXT,
    CODE_SHARED,
    CODE_USED,
    COSTS,
    LOCATIONS,
    RANK,
)

__all__ = ["fetch"]

_SHARING = 16
"""SMs that get their first instructions one after another: those of a GPC, whose second constant and instruction cache they
share (under Nsight Compute an H200's SMs are active for 245 to 471 cycles with an empty CTA each, one alone for 394)."""


@compiled
def _bring(m, sm, block, ready):
    """Fetch a block, which is there in cycle ``ready``, in place of another if the cache is full."""
    costs, code, used = row(m, COSTS, 0), row(m, CODE, sm), row(m, CODE_USED, sm)
    blocks = costs[CODE_BLOCKS]
    if used[blocks] == costs[CODE_CAPACITY]:
        oldest = -1
        for other in range(blocks):
            if code[other] >= 0 and (oldest < 0 or used[other] < used[oldest]):
                oldest = other
        code[oldest] = -1
    else:
        used[blocks] += 1
    code[block] = ready
    used[block] = used[blocks + 1]


@compiled
def fetch(m, sm, block, now):
    """The cycle in which a block is there that a warp of an SM enters in cycle ``now``."""
    costs, code, used = row(m, COSTS, 0), row(m, CODE, sm), row(m, CODE_USED, sm)
    blocks = costs[CODE_BLOCKS]
    used[blocks + 1] += 1
    if code[block] < 0:
        miss = costs[CODE_MISS]
        if used[blocks + 1] == 1:
            miss = costs[CODE_FIRST] + costs[CODE_SHARED] * min(row(m, LOCATIONS, sm)[RANK], _SHARING - 1) // (_SHARING - 1)
        _bring(m, sm, block, now + miss)
    used[block] = used[blocks + 1]
    ready = code[block]
    last = max(ready, now)
    for ahead in range(block + 1, min(block + 1 + costs[CODE_AHEAD], blocks)):
        if code[ahead] < 0:
            _bring(m, sm, ahead, max(last + costs[CODE_NEXT], now + costs[CODE_MISS]))
        last = max(last, code[ahead])
    return ready
