"""Calls, returns and indexed branches: jumps whose target may differ from lane to lane.

A jump that takes lanes to several places is executed once per place: the lanes that go to the first one leave, the others stay
before the instruction. They all meet again behind a call; at the place that the branch's ways join; or, of a return, where the
function's caller has them meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from isa.compiled import compiled
from isa.kernels.planes import as_i32, as_u32
from isa.program import EXTRA, FUNCTION_ADDRESSES, FUNCTION_SPACING, KIND, OPERANDS, Kind

__all__ = ["BAD_TARGET", "choose", "flatten"]

BAD_TARGET = 104
"""Fault: a jump to no entry of its list, or to an address that is not that of a function this kernel may call."""

RETURN, CALL_INDIRECT = Kind.RETURN, Kind.CALL_INDIRECT


def flatten(tables: Sequence[tuple[int, ...]]) -> tuple[list[int], list[int]]:
    """Branch tables one after another, each with its length before it; and where each begins."""
    words: list[int] = []
    starts = []
    for table in tables:
        starts.append(len(words))
        words += [len(table), *table]
    return words, starts


@compiled
def choose(program: Any, row: Any, active: Any, base: Any) -> Any:
    """Of the ``active`` lanes of a return, indirect call or indexed branch: (those that go where the lowest one goes, the
    instruction there). That is -1 for no proper place."""
    plane = as_u32(base + as_i32(program.pool + row[OPERANDS])[0])
    first = 0
    while not (active >> np.uint32(first)) & np.uint32(1):
        first += 1
    target = np.int64(plane[first])
    lanes = active
    for lane in range(32):
        lanes &= ~(np.uint32(plane[lane] != plane[first]) << np.uint32(lane))
    if row[KIND] != RETURN:
        if row[KIND] == CALL_INDIRECT:
            target |= np.int64(plane[32 + first]) << np.int64(32)
            target = (target - np.int64(FUNCTION_ADDRESSES)) // np.int64(FUNCTION_SPACING)
        table = as_i32(program.pool + row[EXTRA])
        target = np.int64(table[1 + target]) if 0 <= target < table[0] else np.int64(-1)
    return lanes, target
