"""mbarrier objects in time (PTX ISA 9.7.13.15): when their phases end.

The model keeps its own objects, of the executor's layout (:mod:`isa.mbarrier`), and applies what warps and copies do to them in
the order of time. A phase ends when all it waits for has come: an object's word, by place and 8 bytes of shared memory, says
what has been done so far, its *latest* the cycle in which all of that has come, and its *done* when the last phase ended.
"""

from __future__ import annotations

import numpy as np

from isa.compiled import compiled
from isa.kernels.planes import load_u64, store_u64
from isa.mbarrier import arrive, complete_tx, drop, expect_tx, parity
from tcsim.execute.signals import Signal
from tcsim.timing.arrays import address_of_row, row
from tcsim.timing.hierarchy import MBARRIER, MBARRIER_DONE, MBARRIER_LATEST, SCRATCH

__all__ = ["phase_end", "signal"]

INIT, ARRIVE, EXPECT, COMPLETE = Signal.INIT, Signal.ARRIVE, Signal.EXPECT, Signal.COMPLETE
EXPECT_ARRIVE, COPIES, DROP, EXPECT_DROP = Signal.EXPECT_ARRIVE, Signal.COPIES, Signal.DROP, Signal.EXPECT_DROP
OFFSET = (1 << 24) - 1


@compiled
def signal(m, place, what, address, value, time):
    """Do ``what`` to an object in the shared memory of the CTA at a place, in effect from cycle ``time`` on. Returns whether
    that ends a phase."""
    number = (address & OFFSET) >> 3
    host = address_of_row(m, MBARRIER, place) + 8 * number
    latest, done = row(m, MBARRIER_LATEST, place), row(m, MBARRIER_DONE, place)
    if what == INIT:
        store_u64(host, np.uint64(value))
        latest[number] = done[number] = 0
        return False
    ctx = address_of_row(m, SCRATCH, 0)  # where the object's rules put what is wrong, which the executor has told
    before = parity(load_u64(host))
    latest[number] = max(latest[number], time)
    if what in (EXPECT, EXPECT_ARRIVE, EXPECT_DROP):
        expect_tx(ctx, host, np.uint32(value), 0)
    if what == COMPLETE:
        complete_tx(ctx, host, np.uint32(value), 0)
    if what in (ARRIVE, COPIES):
        arrive(ctx, host, np.uint32(value), 0)
    if what == EXPECT_ARRIVE:
        arrive(ctx, host, np.uint32(1), 0)
    if what in (DROP, EXPECT_DROP):
        drop(ctx, host, np.uint32(value if what == DROP else 1), 0)
    if parity(load_u64(host)) == before:
        return False
    done[number], latest[number] = latest[number], 0
    return True


@compiled
def phase_end(m, place, address, phase):
    """The cycle in which the phase with a parity ended, or -1 if it is under way."""
    number = (address & OFFSET) >> 3
    if parity(load_u64(address_of_row(m, MBARRIER, place) + 8 * number)) == np.uint32(phase):
        return np.int64(-1)
    return row(m, MBARRIER_DONE, place)[number]
