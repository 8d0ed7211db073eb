"""Where the groups of a warp of machine code stand, for compiled code that the interpreter calls through an address: a table of
the addresses of their arrays, and what is done to single groups."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from isa.compiled import compiled
from isa.kernels.planes import as_i32, as_u32
from isa.program import COLUMNS
from tcsim.execute.groups import AGAIN, FOLLOWS
from tcsim.execute.state import CtaArrays, GroupState

__all__ = [
    "ROW", "T_AWAITS", "T_CODE", "T_LENGTH", "T_LIVE", "T_MASK", "T_MEET", "T_PC", "T_POOL", "T_STATE", "T_TURNS",
    "alike", "go_again", "group_table", "lowest", "put", "put_off", "start",
]  # fmt: skip

READY = GroupState.READY
ROW = 8 * COLUMNS
T_MASK, T_PC, T_STATE, T_MEET, T_AWAITS, T_LIVE, T_TURNS, T_CODE, T_LENGTH, T_POOL = range(10)


def group_table(arrays: CtaArrays, code: NDArray[np.int64], pool: int) -> NDArray[np.int64]:
    """Host addresses of a CTA's groups and of its program, int64 [10]; keep the arrays alive while it is used."""
    parts = (arrays.mask, arrays.pc, arrays.state, arrays.meet, arrays.awaits, arrays.live, arrays.turns, code)
    return np.array([*(part.ctypes.data for part in parts), len(code), pool], np.int64)


@compiled
def lowest(lanes):
    """The lowest lane of a set that is not empty."""
    first = 0
    while not (lanes >> np.uint32(first)) & np.uint32(1):
        first += 1
    return first


@compiled
def alike(plane, lanes):
    """Those of ``lanes`` that hold the same value in a plane as the lowest of them."""
    first = lowest(lanes)
    same = np.uint32(0)
    for lane in range(32):
        if (lanes >> np.uint32(lane)) & np.uint32(1) and plane[lane] == plane[first]:
            same |= np.uint32(1) << np.uint32(lane)
    return same, plane[first]


@compiled
def start(table, w, lanes, pc, state, members):
    """A group of its own for ``lanes`` of a group that keeps some: so there is one free. Returns its number."""
    mask = as_u32(table[T_MASK] + 128 * w)
    g = 0
    while mask[g] != np.uint32(0):
        g += 1
    put(table, w, g, lanes, pc, state, members)
    return g


@compiled
def put(table, w, g, lanes, pc, state, members):
    """Make group ``g`` one of ``lanes`` at an instruction."""
    as_u32(table[T_MASK] + 128 * w)[g] = lanes
    as_i32(table[T_PC] + 128 * w)[g] = np.int32(pc)
    as_i32(table[T_STATE] + 128 * w)[g] = np.int32(state)
    as_i32(table[T_MEET] + 128 * w)[g] = np.int32(-1)
    as_u32(table[T_AWAITS] + 128 * w)[g] = members


@compiled
def put_off(table, w, lanes, pc):
    """A group of its own for lanes that follow those that run now (:func:`tcsim.execute.groups.put_off`)."""
    as_i32(table[T_TURNS] + 12 * w)[FOLLOWS] = np.int32(start(table, w, lanes, pc, READY, np.uint32(0)))


@compiled
def go_again(table, w, g, lanes, pc):
    """Have ``lanes``, as group ``g``, issue the instruction at which they stand once more."""
    put(table, w, g, lanes, pc, READY, AGAIN | np.uint32(pc))
