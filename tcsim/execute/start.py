"""Starting and running CTAs through one address.

All that the interpreter needs of a CTA slot is in a table of words, so that compiled code, too, can have it start a CTA and run
it: a launch of thousands of small CTAs would spend half its time on doing that from Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.compiled import compiled, compiled_for_address, inlined
from isa.kernels.planes import as_i64, load_i64, store_i64, store_u8
from isa.kernels.shaped import array_at
from isa.machine import CLUSTER, CLUSTER_PHASE, LOCAL_DEVICE
from isa.program import COLUMNS
from tcsim.execute.interpreter import NativeProgram, run_cta
from tcsim.execute.state import BARRIERS, LOCAL_DEVICE_BASE, CtaArrays, reset

__all__ = ["SLOT_LOG", "SLOT_SM", "slot_table", "start_and_run", "start_and_run_address"]

# Words of a slot's table. Addresses, lengths in elements. PLACES: rows (word in a register block, axis, divisor) of the special
# registers that say which CTA it is; axes 0 to 2 of the grid, 3 for what is always 0, 4 for the SM. ARRAYS: those of CtaArrays.
(
    SLOT_SM, SLOT_LOG, WARPS, BLOCK_WORDS, THREADS, CODE, CODE_ROWS, POOL, STAGES, STAGE_COUNT, STAGE_AT, STAGE_ATS, CONTROL,
    CTX, SHARED, SHARED_BYTES, LOCAL, LOCAL_BYTES, ARRIVED, PHASES, GRID_X, GRID_Y, PLACES, PLACE_COUNT, ARRAYS,
) = range(25)  # fmt: skip


def slot_table(
    arrays: CtaArrays,
    native: NativeProgram,
    ctx: NDArray[np.int64],
    log: int,
    memories: Sequence[NDArray[Any]],
    threads: int,
    grid: tuple[int, int, int],
    places: NDArray[np.int64],
) -> NDArray[np.int64]:
    """The table of a slot. ``memories``: its shared and local memory (bytes), what has arrived at the cluster's barrier, and in
    which phases. Keep all arrays alive while it is used."""
    shared, local, arrived, phases = memories
    table = np.zeros(ARRAYS + len(arrays), np.int64)
    table[SLOT_LOG : SLOT_LOG + 4] = log, len(arrays.live), arrays.blocks.shape[1], threads
    for word, array, count in (
        (CODE, native.code, len(native.code)),
        (STAGES, native.stages, len(native.stages)),
        (STAGE_AT, native.stage_at, len(native.stage_at)),
        (SHARED, shared, len(shared)),
        (LOCAL, local, len(local)),
        (PLACES, places, len(places)),
    ):
        assert array.flags.c_contiguous
        table[word], table[word + 1] = array.ctypes.data, count
    table[POOL], table[CONTROL], table[CTX] = native.pool, native.control, ctx.ctypes.data
    table[ARRIVED], table[PHASES] = arrived.ctypes.data, phases.ctypes.data
    table[GRID_X], table[GRID_Y] = grid[:2]
    table[ARRAYS:] = [array.ctypes.data for array in arrays]
    return table


@inlined
def _clear(address, count):
    """Zero ``count`` bytes."""
    array_at(address, (count >> 2,), np.uint32)[...] = 0
    for at in range(count & ~3, count):
        store_u8(address + at, np.uint8(0))


@compiled
def _start(t, s, number):
    """Put CTA ``number`` (in launch order) into a slot. Shared and local memory start zeroed. All CTAs of a cluster start
    before any of them runs."""
    warps = t[WARPS]
    reset(s, t[THREADS])
    _clear(t[SHARED], t[SHARED_BYTES])
    _clear(t[LOCAL], t[LOCAL_BYTES])
    array_at(t[ARRIVED], (warps,), np.uint32)[...] = 0
    array_at(t[PHASES], (32 * warps,), np.int32)[...] = 0
    cluster = load_i64(t[CTX] + 8 * CLUSTER)
    if cluster != 0:
        store_i64(cluster + 8 * CLUSTER_PHASE, np.int64(0))
    store_i64(t[CTX] + 8 * LOCAL_DEVICE, LOCAL_DEVICE_BASE + number * t[LOCAL_BYTES])
    rest = number // t[GRID_X]
    for index in range(t[PLACE_COUNT]):
        place = as_i64(t[PLACES] + 24 * index)
        value = np.int64(0)
        if place[1] == 0:
            value = number % t[GRID_X]
        elif place[1] == 1:
            value = rest % t[GRID_Y]
        elif place[1] == 2:
            value = rest // t[GRID_Y]
        elif place[1] == 4:
            value = t[SLOT_SM]
        value //= place[2]
        for w in range(warps):  # the planes of their upper halves stay 0
            for lane in range(32):
                s.blocks[w, place[0] + lane] = np.uint32(value)


def _start_and_run(table, number, budget):
    t = as_i64(table)
    warps = t[WARPS]
    lanes, at = (warps, 32), ARRAYS
    s = CtaArrays(
        array_at(t[at], (warps, t[BLOCK_WORDS]), np.uint32),
        array_at(t[at + 1], (warps,), np.uint32),
        array_at(t[at + 2], lanes, np.int32),
        array_at(t[at + 3], lanes, np.uint32),
        array_at(t[at + 4], lanes, np.int32),
        array_at(t[at + 5], lanes, np.int32),
        array_at(t[at + 6], lanes, np.uint32),
        array_at(t[at + 7], lanes, np.uint32),
        array_at(t[at + 8], lanes, np.uint32),
        array_at(t[at + 9], (warps, 32, 3), np.int32),
        array_at(t[at + 10], lanes, np.int32),
        array_at(t[at + 11], (BARRIERS, warps), np.uint32),
        array_at(t[at + 12], (BARRIERS,), np.int32),
        array_at(t[at + 13], (BARRIERS, warps), np.uint32),
        array_at(t[at + 14], (warps,), np.int64),
        array_at(t[at + 15], (warps, 3), np.int32),
        array_at(t[at + 16], (warps, 4), np.int64),
        array_at(t[at + 17], (8,), np.int64),
    )
    if number >= 0:
        _start(t, s, number)
    if budget <= 0:
        return np.int64(0)
    program = NativeProgram(
        array_at(t[CODE], (t[CODE_ROWS], COLUMNS), np.int64),
        t[POOL],
        array_at(t[STAGES], (t[STAGE_COUNT],), np.int32),
        array_at(t[STAGE_AT], (t[STAGE_ATS],), np.int32),
        t[CONTROL],
    )
    return np.int64(run_cta(s, program, t[CTX], budget, t[SLOT_LOG]))


@cache
def _compiled() -> Any:
    return compiled_for_address("int64(int64, int64, int64)", _start_and_run)


def start_and_run(table: int, number: int, budget: int) -> int:
    """Start CTA ``number``, unless that is -1, in the slot whose table is at this address, and run it for about ``budget`` warp
    instructions (:func:`~tcsim.execute.interpreter.run_cta`): an Outcome or a fault code."""
    return int(_compiled().ctypes(table, number, budget))


def start_and_run_address() -> int:
    """Its address, for compiled code: the arguments are those of :func:`start_and_run`."""
    return int(_compiled().address)
