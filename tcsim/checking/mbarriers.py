"""The hooks of mbarrier objects: who arrives hands what it knows to who is let through. Compiled.

Phases are counted by watching the parity of the object itself, just before it changes. What those who arrive know is gathered
for the phase under way, on top of that of the phase before, since every arrival is an atomic operation on the object. Bytes
that a copy promises to an object belong to the phase under way when it is issued.
"""

from __future__ import annotations

import numpy as np

from isa.compiled import compiled
from isa.kernels.planes import as_i32, as_i64, as_u32, load_i64, load_u64
from isa.machine import SHARED_BITS, WARP, WINDOW_BITS, shared_of
from isa.mbarrier import parity
from tcsim.checking.clocks import advance, now, release
from tcsim.checking.layout import (
    CHECKER,
    G_ACQUIRED,
    G_META,
    G_POOL,
    GROUP_BITS,
    M_ROW,
    MB_EVEN,
    MB_ODD,
    MB_OFFSET,
    MB_PHASE,
    MB_WORDS,
    MBARRIERS,
    META_WORDS,
    PHASE_BITS,
    RING,
    T_CTA,
    T_DONE,
    T_GRID,
    T_LANES,
    T_MBARRIER_CLOCKS,
    T_MBARRIER_COUNT,
    T_MBARRIER_WAITED,
    T_MBARRIERS,
    T_OPEN,
    T_OTHERS,
    T_PEERS,
    T_RANK,
    T_WAITED,
    T_WARPS,
    TRANSACTION,
)
from tcsim.checking.synchronisation import gather, share_fences

__all__ = ["mbarrier_arrive", "mbarrier_wait", "operand_address", "owner_of", "transaction"]


@compiled
def operand_address(base, operands, at, planes, lane):
    """The address in an operand of one or two planes, and its offset behind it."""
    address = np.int64(as_u32(base + operands[at])[lane])
    if planes == 2:
        address |= np.int64(as_u32(base + operands[at] + 128)[lane]) << np.int64(32)
    return address + np.int64(operands[at + 1])


@compiled
def owner_of(t, address):
    """The table of the CTA of the cluster in whose shared memory an address is; ``t`` if there is none."""
    rank = (address & np.int64((1 << SHARED_BITS) - 1)) >> np.int64(WINDOW_BITS)
    if rank == t[T_RANK] or as_i64(t[T_PEERS])[rank] == 0:
        return t
    return as_i64(as_i64(t[T_PEERS])[rank])


@compiled
def _object(owner, address, ctx):
    """The number of the mbarrier object at an address, its phase brought up to date; MBARRIERS if there are too many."""
    offset = address & np.int64((1 << WINDOW_BITS) - 1)
    table, count = as_i64(owner[T_MBARRIERS]), owner[T_MBARRIER_COUNT]
    slot = np.int64(0)
    while slot < count and table[MB_WORDS * slot + MB_OFFSET] != offset:
        slot += 1
    if slot == MBARRIERS:
        return slot
    warps = owner[T_WARPS]
    waited = as_u32(owner[T_MBARRIER_WAITED] + 8 * warps * RING * slot)
    if slot == count:
        owner[T_MBARRIER_COUNT] = count + 1
        table[MB_WORDS * slot + MB_OFFSET], table[MB_WORDS * slot + MB_PHASE] = offset, np.int64(0)
        table[MB_WORDS * slot + MB_EVEN], table[MB_WORDS * slot + MB_ODD] = np.int64(-1), np.int64(-1)
        for index in range(2 * warps * RING):
            waited[index] = np.uint32(0)
    host = shared_of(ctx, owner[T_RANK], offset, 8)
    phase = table[MB_WORDS * slot + MB_PHASE]
    if host != 0 and np.int64(parity(load_u64(host))) != phase & 1:
        phase += 1
        table[MB_WORDS * slot + MB_PHASE] = phase
        for index in range(2 * warps):
            waited[2 * warps * (phase % RING) + index] = np.uint32(0)
    return slot


@compiled
def transaction(owner, address, ctx):
    """The group of a copy that tells the mbarrier object at an address when it has come."""
    slot = _object(owner, address, ctx)
    phase = as_i64(owner[T_MBARRIERS])[MB_WORDS * slot + MB_PHASE] if slot < MBARRIERS else np.int64(0)
    number = slot << PHASE_BITS | phase & ((1 << PHASE_BITS) - 1)
    return np.int64(TRANSACTION) << GROUP_BITS | number


@compiled
def _clocks(owner, slot, phase):
    threads = 32 * owner[T_WARPS] + 1
    return as_u32(owner[T_MBARRIER_CLOCKS] + 4 * threads * (2 * slot + (phase & 1)))


@compiled
def _gathered(owner, slot):
    """What is gathered for the phase under way, begun with that of the phase before."""
    row = as_i64(owner[T_MBARRIERS] + 8 * MB_WORDS * slot)
    phase = row[MB_PHASE]
    clocks = _clocks(owner, slot, phase)
    if row[MB_EVEN + (phase & 1)] != phase:
        row[MB_EVEN + (phase & 1)] = phase
        before, known = _clocks(owner, slot, phase + 1), row[MB_ODD - (phase & 1)] >= 0
        for thread in range(32 * owner[T_WARPS] + 1):
            clocks[thread] = before[thread] if known else np.uint32(0)
    return clocks


@compiled
def _same(base, operands, at, planes, todo):
    """(first lane of ``todo``, its address, those that have the same one)."""
    first = np.int64(0)
    while not (todo >> np.uint32(first)) & np.uint32(1):
        first += 1
    address = operand_address(base, operands, at, planes, first)
    same = np.uint32(0)
    for lane in range(first, 32):
        if (todo >> np.uint32(lane)) & np.uint32(1) and operand_address(base, operands, at, planes, lane) == address:
            same |= np.uint32(1) << np.uint32(lane)
    return address, same


@compiled
def _copies_come(t, w, lanes):
    """The copies of these threads have come when what they arrive at has its arrivals."""
    opened, done, waited = as_i64(t[T_OPEN]), as_i64(t[T_DONE]), as_u32(t[T_WAITED])
    stamp = np.uint32(now(t))
    for lane in range(32):
        if (lanes >> np.uint32(lane)) & np.uint32(1):
            thread = 32 * w + lane
            for group in range(max(done[thread] + 1, opened[thread] - RING + 1), opened[thread] + 1):
                waited[RING * thread + group % RING] = stamp
            done[thread] = opened[thread]
            opened[thread] += 1


def mbarrier_arrive(base, lanes, place, ctx):
    """Threads are about to arrive at mbarrier objects. A hook's row: place and planes of the address, and 1 if they do when
    their copies have come."""
    t = as_i64(load_i64(ctx + 8 * CHECKER))
    row, w = as_i32(place), load_i64(ctx + 8 * WARP)
    grid = as_i64(t[T_GRID])
    operands = as_i32(grid[G_POOL] + as_i32(grid[G_META] + 4 * META_WORDS * np.int64(row[0]))[M_ROW])
    if row[3] == 1:
        _copies_come(t, w, lanes)
    todo = lanes
    while todo:
        address, same = _same(base, operands, row[1], row[2], todo)
        todo &= ~same
        owner = owner_of(t, address)
        slot = _object(owner, address, ctx)
        if slot == MBARRIERS:
            release(t, w, False)
            continue
        clocks = _gathered(owner, slot)
        if owner[T_CTA] == t[T_CTA]:
            gather(t, w, same, clocks)
        else:
            last = 32 * owner[T_WARPS]
            clocks[last] = max(clocks[last], np.uint32(release(t, w, False)))
    advance(t)
    return np.int32(0)


@compiled
def _learn(t, w, lanes, clocks):
    """Lanes of a warp are let through: they know what was gathered."""
    warps = t[T_WARPS]
    mine = as_u32(t[T_OTHERS] + 4 * 32 * warps * w)
    for thread in range(32 * warps):
        mine[thread] = max(mine[thread], clocks[thread])
    for lane in range(32):
        if (lanes >> np.uint32(lane)) & np.uint32(1):
            known = as_u32(t[T_LANES] + 128 * (32 * w + lane))
            for other in range(32):
                known[other] = max(known[other], clocks[32 * w + other])
    acquired = as_i64(as_i64(t[T_GRID])[G_ACQUIRED])
    me = t[T_CTA] * warps + w
    acquired[me] = max(acquired[me], np.int64(clocks[32 * warps]))


def mbarrier_wait(base, lanes, place, ctx):
    """A test or wait has come back. A hook's row: place and planes of the address, place of the answer."""
    t = as_i64(load_i64(ctx + 8 * CHECKER))
    row, w = as_i32(place), load_i64(ctx + 8 * WARP)
    grid = as_i64(t[T_GRID])
    operands = as_i32(grid[G_POOL] + as_i32(grid[G_META] + 4 * META_WORDS * np.int64(row[0]))[M_ROW])
    todo = lanes & as_u32(base + operands[row[3]])[0]
    while todo:
        address, same = _same(base, operands, row[1], row[2], todo)
        todo &= ~same
        slot = _object(t, address, ctx)
        if slot == MBARRIERS:
            acquired = as_i64(grid[G_ACQUIRED])
            me = t[T_CTA] * t[T_WARPS] + w
            acquired[me] = max(acquired[me], advance(t) + 1)
            continue
        table = as_i64(t[T_MBARRIERS] + 8 * MB_WORDS * slot)
        phase = table[MB_PHASE] - 1
        if phase < 0:
            continue
        for ended in range(max(np.int64(0), phase - RING + 2), phase + 1):
            waited = as_u32(t[T_MBARRIER_WAITED] + 8 * t[T_WARPS] * (RING * slot + ended % RING))
            if waited[2 * w] == 0:
                waited[2 * w], waited[2 * w + 1] = np.uint32(now(t)), same
        if table[MB_EVEN + (phase & 1)] >= 0:
            _learn(t, w, same, _clocks(t, slot, phase))
            share_fences(t)
    return np.int32(0)
