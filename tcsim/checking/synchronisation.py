"""The hooks of instructions that order accesses: barriers, mbarriers, fences, groups of copies. Compiled.

A hook before a barrier gathers what those who arrive know; one behind it, which a warp executes once it has been let through,
hands it out. Which arrivals belong together is counted here anew, thread by thread, as the executor does
(:mod:`tcsim.execute.barriers`): a barrier that opened because the threads it waited for have exited is noticed by the next
one to arrive or to pass.
"""

from __future__ import annotations

import numpy as np

from isa.compiled import compiled
from isa.kernels.planes import as_i32, as_i64, as_u32, load_i64
from isa.machine import WARP
from tcsim.checking.clocks import acquire, advance, learn_warp, now, release, report
from tcsim.checking.layout import (
    CHECKER,
    DIVERGENT_BARRIER,
    G_ACQUIRED,
    G_ARRIVES,
    G_META,
    G_POOL,
    M_MEMBERS,
    M_NUMBER,
    M_ROW,
    M_STRONG,
    META_WORDS,
    PHASES,
    RING,
    T_ARRIVED,
    T_BULK_DONE,
    T_BULK_OPEN,
    T_BULK_READ,
    T_BULK_WAITED,
    T_CLUSTER_PHASE,
    T_CLUSTER_STAMPS,
    T_CTA,
    T_DONE,
    T_FENCE_AT,
    T_FENCED,
    T_FLOOR,
    T_GATHERED,
    T_GRID,
    T_GROUP_MASKS,
    T_GROUP_PLACES,
    T_LANES,
    T_LIVE,
    T_MY_PHASE,
    T_NEEDED,
    T_OPEN,
    T_OTHERS,
    T_PEERS,
    T_PHASE,
    T_PRODUCT_DONE,
    T_PRODUCT_OPEN,
    T_PRODUCT_WAITED,
    T_WAITED,
    T_WARP_FLOOR,
    T_WARPS,
)
from tcsim.execute.accesses import OPERAND, SECOND
from tcsim.execute.barriers import popcount

__all__ = [
    "barrier_after",
    "barrier_before",
    "cluster_arrive",
    "cluster_wait",
    "commit_bulk",
    "commit_copies",
    "commit_products",
    "fence",
    "gather",
    "proxy_fence",
    "share_fences",
    "wait_bulk",
    "wait_copies",
    "wait_products",
    "warp_sync_after",
]


@compiled
def _first(plane, lanes):
    for lane in range(32):
        if (lanes >> np.uint32(lane)) & np.uint32(1):
            return np.int64(as_u32(plane)[lane])
    return np.int64(0)


@compiled
def _barrier(t, base, lanes, pc):
    """(number, threads it waits for or 0 for all) of the barrier at an instruction."""
    grid = as_i64(t[T_GRID])
    meta = as_i32(grid[G_META] + 4 * META_WORDS * pc)
    operands = as_i32(grid[G_POOL] + meta[M_ROW])
    needed = np.int64(0)
    if meta[SECOND] >= 0:
        needed = _first(base + operands[meta[SECOND]], lanes)
        if needed >= 32 * t[T_WARPS]:
            needed = np.int64(0)
    return _first(base + operands[meta[OPERAND]], lanes), needed


@compiled
def _gathered(t, number, phase):
    threads = 32 * t[T_WARPS] + 1
    return t[T_GATHERED] + 4 * threads * (PHASES * number + phase % PHASES)


@compiled
def _is_exact(t, needed):
    """Whether what each thread knew when it arrived counts: if all wait, it is what they know when the barrier opens."""
    return needed != 0 or as_i64(t[T_GRID])[G_ARRIVES] != 0


@compiled
def share_fences(t):
    """Warps of a CTA have met. A fence that one has made before that does for what another sets behind it: kernels are written
    so, though the memory model wants one by the thread that sets the flag."""
    fences = as_i64(t[T_FENCE_AT])
    last = np.int64(0)
    for v in range(t[T_WARPS]):
        last = max(last, fences[v])
    for v in range(t[T_WARPS]):
        fences[v] = last


@compiled
def _open(t, number):
    """A barrier opens: what was known before it is known to all it let through."""
    warps = t[T_WARPS]
    phases = as_i64(t[T_PHASE])
    phases[number] += 1
    arrived = as_u32(t[T_ARRIVED] + 4 * warps * number)
    for v in range(warps):
        arrived[v] = np.uint32(0)
    stamp = advance(t)
    if not _is_exact(t, as_i64(t[T_NEEDED])[number]):
        t[T_FLOOR] = stamp
        share_fences(t)
        acquired = as_i64(as_i64(t[T_GRID])[G_ACQUIRED])
        first = t[T_CTA] * warps
        best = np.int64(0)
        for v in range(warps):
            best = max(best, acquired[first + v])
        for v in range(warps):
            acquired[first + v] = best
        return
    clocks = as_u32(_gathered(t, number, phases[number]))
    for thread in range(32 * warps + 1):
        clocks[thread] = np.uint32(0)


@compiled
def _complete(t, number, needed):
    warps = t[T_WARPS]
    arrived, live = as_u32(t[T_ARRIVED] + 4 * warps * number), as_u32(t[T_LIVE])
    total = np.int64(0)
    for v in range(warps):
        if live[v] & ~arrived[v]:
            if needed == 0:
                return False
            total += popcount(arrived[v])
        elif arrived[v] != 0:
            total += 32
    return needed == 0 or total >= needed


@compiled
def gather(t, w, lanes, clocks):
    """Put what ``lanes`` of a warp did and know to what is gathered at a barrier: uint32 [thread + 1]."""
    warps = t[T_WARPS]
    stamp = now(t)
    for v in range(warps):
        known = as_u32(t[T_OTHERS] + 4 * 32 * (warps * w + v))
        for lane in range(32):
            if v != w:
                value = max(np.int64(known[lane]), t[T_FLOOR])
            elif (lanes >> np.uint32(lane)) & np.uint32(1):
                value = stamp
            else:
                value = max(as_i64(t[T_WARP_FLOOR])[w], t[T_FLOOR])
                for other in range(32):
                    if (lanes >> np.uint32(other)) & np.uint32(1):
                        value = max(value, np.int64(as_u32(t[T_LANES] + 128 * (32 * w + other))[lane]))
            clocks[32 * v + lane] = max(clocks[32 * v + lane], np.uint32(value))
    mine = as_i64(as_i64(t[T_GRID])[G_ACQUIRED])[t[T_CTA] * warps + w]
    clocks[32 * warps] = max(clocks[32 * warps], np.uint32(mine))


@compiled
def _others(t, w, lanes, missing, pc, number):
    """Note where the other lanes of a warp are; whether that is wrong is found out later (:mod:`tcsim.checking.divergence`)."""
    me = t[T_CTA] * t[T_WARPS] + w
    masks, places = as_u32(t[T_GROUP_MASKS] + 128 * w), as_i32(t[T_GROUP_PLACES] + 128 * w)
    for group in range(32):
        apart = masks[group] & missing
        if apart:
            place = pc + 1 if masks[group] & lanes else np.int64(places[group])
            report(t, DIVERGENT_BARRIER, 0, 0, number, 0, pc, me, lanes, place, me, apart, 0)


def barrier_before(base, lanes, place, ctx):
    """Threads are about to arrive at a CTA barrier."""
    t = as_i64(load_i64(ctx + 8 * CHECKER))
    pc = np.int64(as_i32(place)[0])
    w = load_i64(ctx + 8 * WARP)
    number, needed = _barrier(t, base, lanes, pc)
    if number >= 16:
        return np.int32(0)
    meta = as_i32(as_i64(t[T_GRID])[G_META] + 4 * META_WORDS * pc)
    live = as_u32(t[T_LIVE])[w]
    if meta[M_STRONG] and lanes != live:
        _others(t, w, lanes, live & ~lanes, pc, number)
    arrived = as_u32(t[T_ARRIVED] + 4 * t[T_WARPS] * number)
    if arrived[w] & lanes:
        _open(t, number)
    as_i64(t[T_NEEDED])[number] = needed
    as_i64(t[T_MY_PHASE] + 8 * t[T_WARPS] * number)[w] = as_i64(t[T_PHASE])[number]
    if _is_exact(t, needed):
        gather(t, w, lanes, as_u32(_gathered(t, number, as_i64(t[T_PHASE])[number])))
        advance(t)  # what comes behind bar.arrive is not handed on
    arrived[w] |= lanes
    if _complete(t, number, needed):
        _open(t, number)
    return np.int32(0)


def barrier_after(base, lanes, place, ctx):
    """A CTA barrier has let threads through."""
    t = as_i64(load_i64(ctx + 8 * CHECKER))
    pc = np.int64(as_i32(place)[0])
    w = load_i64(ctx + 8 * WARP)
    number, needed = _barrier(t, base, lanes, pc)
    phase = as_i64(t[T_MY_PHASE] + 8 * t[T_WARPS] * number)[w]
    if as_i64(t[T_PHASE])[number] == phase:
        _open(t, number)
    if not _is_exact(t, needed):
        return np.int32(0)
    warps = t[T_WARPS]
    clocks = as_u32(_gathered(t, number, phase))
    mine = as_u32(t[T_OTHERS] + 4 * 32 * warps * w)
    for thread in range(32 * warps):
        mine[thread] = max(mine[thread], clocks[thread])
    acquired = as_i64(as_i64(t[T_GRID])[G_ACQUIRED])
    me = t[T_CTA] * warps + w
    acquired[me] = max(acquired[me], np.int64(clocks[32 * warps]))
    share_fences(t)
    learn_warp(t, w, lanes, as_u32(t[T_LIVE])[w])
    return np.int32(0)


def warp_sync_after(base, lanes, place, ctx):
    """The lanes of a member mask have met."""
    t = as_i64(load_i64(ctx + 8 * CHECKER))
    pc = np.int64(as_i32(place)[0])
    w = load_i64(ctx + 8 * WARP)
    meta = as_i32(as_i64(t[T_GRID])[G_META] + 4 * META_WORDS * pc)
    live = as_u32(t[T_LIVE])[w]
    todo = lanes
    while todo:
        members = live
        if meta[M_MEMBERS] >= 0:
            members = np.uint32(_first(base + meta[M_MEMBERS], todo))
        learn_warp(t, w, members & live, live)
        todo &= ~members
        if members == 0:
            break
    return np.int32(0)


def fence(base, lanes, place, ctx):
    """``membar`` or ``fence``. A hook's row: 1 if it is one for the threads of the CTA only."""
    release(as_i64(load_i64(ctx + 8 * CHECKER)), load_i64(ctx + 8 * WARP), as_i32(place)[1] != 0)
    return np.int32(0)


@compiled
def _cluster_stamp(t, phase):
    """The address of when the last threads arrived at a barrier of the cluster."""
    return as_i64(as_i64(as_i64(t[T_PEERS])[0])[T_CLUSTER_STAMPS] + 8 * (phase % PHASES))


def cluster_arrive(base, lanes, place, ctx):
    """``barrier.cluster.arrive``, which releases what these threads know."""
    t = as_i64(load_i64(ctx + 8 * CHECKER))
    w = load_i64(ctx + 8 * WARP)
    last = _cluster_stamp(t, as_i64(t[T_CLUSTER_PHASE] + 16 * w)[0])
    last[0] = max(last[0], release(t, w, False))
    return np.int32(0)


def cluster_wait(base, lanes, place, ctx):
    """``barrier.cluster.wait`` has let threads through: they know what those released that have arrived there."""
    t = as_i64(load_i64(ctx + 8 * CHECKER))
    w = load_i64(ctx + 8 * WARP)
    mine = as_i64(t[T_CLUSTER_PHASE] + 16 * w)
    stamp = _cluster_stamp(t, mine[0])[0]
    acquire(t, w, stamp)
    fences = as_i64(t[T_FENCE_AT])
    fences[w] = max(fences[w], stamp)
    live = as_u32(t[T_LIVE])[w]
    mine[1] |= np.int64(lanes)
    if mine[1] & live == live:
        mine[0], mine[1] = mine[0] + 1, np.int64(0)
        _cluster_stamp(t, mine[0] + 1)[0] = np.int64(0)  # nobody can have arrived there, nor be waiting still where it was used
    return np.int32(0)


def commit_copies(base, lanes, place, ctx):
    """``cp.async.commit_group``."""
    t = as_i64(load_i64(ctx + 8 * CHECKER))
    w = load_i64(ctx + 8 * WARP)
    groups = as_i64(t[T_OPEN])
    for lane in range(32):
        if (lanes >> np.uint32(lane)) & np.uint32(1):
            groups[32 * w + lane] += 1
    return np.int32(0)


def wait_copies(base, lanes, place, ctx):
    """``cp.async.wait_group n``, or ``wait_all`` (then M_NUMBER is -1)."""
    t = as_i64(load_i64(ctx + 8 * CHECKER))
    pc = np.int64(as_i32(place)[0])
    w = load_i64(ctx + 8 * WARP)
    meta = as_i32(as_i64(t[T_GRID])[G_META] + 4 * META_WORDS * pc)
    opened, done, waited = as_i64(t[T_OPEN]), as_i64(t[T_DONE]), as_u32(t[T_WAITED])
    stamp = np.uint32(now(t))
    for lane in range(32):
        if not (lanes >> np.uint32(lane)) & np.uint32(1):
            continue
        thread = 32 * w + lane
        if meta[M_NUMBER] < 0:
            opened[thread] += 1
        last = opened[thread] - 1 - max(np.int64(0), np.int64(meta[M_NUMBER]))
        for group in range(max(done[thread] + 1, last - RING + 1), last + 1):
            waited[RING * thread + group % RING] = stamp
        done[thread] = max(done[thread], last)
    return np.int32(0)


def commit_bulk(base, lanes, place, ctx):
    """``cp.async.bulk.commit_group``."""
    t = as_i64(load_i64(ctx + 8 * CHECKER))
    w = load_i64(ctx + 8 * WARP)
    groups = as_i64(t[T_BULK_OPEN])
    for lane in range(32):
        if (lanes >> np.uint32(lane)) & np.uint32(1):
            groups[32 * w + lane] += 1
    return np.int32(0)


def wait_bulk(base, lanes, place, ctx):
    """``cp.async.bulk.wait_group n``. A hook's row: n, and 1 if only for reads (``.read``)."""
    t = as_i64(load_i64(ctx + 8 * CHECKER))
    row, w = as_i32(place), load_i64(ctx + 8 * WARP)
    opened = as_i64(t[T_BULK_OPEN])
    for lane in range(32):
        if not (lanes >> np.uint32(lane)) & np.uint32(1):
            continue
        thread = 32 * w + lane
        last = opened[thread] - 1 - np.int64(row[1])
        for kind in range(1 if row[2] else 2):
            done = as_i64(t[T_BULK_DONE if kind else T_BULK_READ])
            waited = as_u32(t[T_BULK_WAITED] + 4 * RING * (2 * thread + kind))
            for group in range(max(done[thread] + 1, last - RING + 1), last + 1):
                waited[group % RING] = np.uint32(now(t))
            done[thread] = max(done[thread], last)
    return np.int32(0)


def commit_products(base, lanes, place, ctx):
    """``wgmma.commit_group``."""
    t = as_i64(load_i64(ctx + 8 * CHECKER))
    as_i64(t[T_PRODUCT_OPEN])[load_i64(ctx + 8 * WARP)] += 1
    return np.int32(0)


def wait_products(base, lanes, place, ctx):
    """``wgmma.wait_group n``, which makes the lanes of a warp meet. A hook's row: n."""
    t = as_i64(load_i64(ctx + 8 * CHECKER))
    row, w = as_i32(place), load_i64(ctx + 8 * WARP)
    done = as_i64(t[T_PRODUCT_DONE])
    last = as_i64(t[T_PRODUCT_OPEN])[w] - 1 - np.int64(row[1])
    waited = as_u32(t[T_PRODUCT_WAITED] + 4 * RING * w)
    for group in range(max(done[w] + 1, last - RING + 1), last + 1):
        waited[group % RING] = np.uint32(now(t))
    done[w] = max(done[w], last)
    learn_warp(t, w, lanes, as_u32(t[T_LIVE])[w])
    return np.int32(0)


def proxy_fence(base, lanes, place, ctx):
    """``fence.proxy.async``: what these threads know to have been written can be read by the asynchronous proxy."""
    t = as_i64(load_i64(ctx + 8 * CHECKER))
    w = load_i64(ctx + 8 * WARP)
    gather(t, w, lanes, as_u32(t[T_FENCED]))
    advance(t)
    return np.int32(0)
