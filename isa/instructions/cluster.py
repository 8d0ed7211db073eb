"""Clusters: addresses in the shared memory of other CTAs, the cluster's barrier (PTX ISA 9.7.9, 9.7.13.4).

The table of the cluster is described in :mod:`isa.machine`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from isa.arith.lane import lane
from isa.kernels.planes import as_i32, as_u32, load_i64, store_i64
from isa.machine import (
    CLUSTER,
    CLUSTER_PHASE,
    CLUSTER_ROW,
    CLUSTER_ROWS,
    CLUSTER_SIZE,
    RANK,
    ROW_ARRIVED,
    ROW_LIVE,
    ROW_PHASES,
    ROW_WARPS,
    WAIT,
    WARP,
    WINDOW_BITS,
)
from isa.spec import flag, instruction, optional

_ONE = np.uint32(1)
_SHARED_CLUSTER = optional("shared::cluster")
_COMMON: dict[str, Any] = {"sm": 90, "ptx": "7.8"}

# --------------------------------------------------------------------------------------------------------------- addresses


@instruction(
    "mapa{space}.{t} d, a, b:b32", timing="alu", section="9.7.9.23", space=_SHARED_CLUSTER, t=("u32", "u64"), **_COMMON
)
def mapa(a, b, *, t):
    """The address of the same variable in the shared memory of the cluster's CTA ``b``. (One outside it has no address: an
    access there stops the kernel.)"""
    if t == "u32":
        return (a & np.uint32((1 << WINDOW_BITS) - 1)) | ((b & np.uint32(15)) << np.uint32(WINDOW_BITS))
    ranks = np.uint64(15 << WINDOW_BITS)
    return (a & ~ranks) | ((np.uint64(b) << np.uint64(WINDOW_BITS)) & ranks)


@instruction(
    "getctarank{space}.{t} d:u32, a",
    timing="alu",
    section="9.7.9.24",
    space=_SHARED_CLUSTER,
    t=("u32", "u64"),
    **_COMMON,
)
def getctarank(a, *, t):
    """The rank of the CTA in whose shared memory an address is."""
    return np.uint32(a >> WINDOW_BITS) & np.uint32(15)


# ----------------------------------------------------------------------------------------------------------------- barrier


@lane
def _row(ctx, rank):
    return load_i64(ctx + 8 * CLUSTER) + 8 * (CLUSTER_ROWS + CLUSTER_ROW * rank)


@lane
def _open_if_complete(ctx):
    """Begin the next phase of the cluster's barrier if every thread that has not exited has arrived."""
    table = load_i64(ctx + 8 * CLUSTER)
    size = load_i64(table + 8 * CLUSTER_SIZE)
    for rank in range(size):
        row = _row(ctx, rank)
        live, arrived = as_u32(load_i64(row + 8 * ROW_LIVE)), as_u32(load_i64(row + 8 * ROW_ARRIVED))
        for warp in range(load_i64(row + 8 * ROW_WARPS)):
            if live[warp] & ~arrived[warp]:
                return
    for rank in range(size):
        row = _row(ctx, rank)
        arrived = as_u32(load_i64(row + 8 * ROW_ARRIVED))
        for warp in range(load_i64(row + 8 * ROW_WARPS)):
            arrived[warp] = 0
    store_i64(table + 8 * CLUSTER_PHASE, load_i64(table + 8 * CLUSTER_PHASE) + 1)


@instruction(
    "barrier.cluster.arrive{sem}{aligned}",
    body="warp",
    timing="cluster_arrive",
    section="9.7.13.4",
    sem=optional("release", "relaxed"),
    aligned=flag("aligned"),
    **_COMMON,
)
def barrier_cluster_arrive(mask, ctx):
    """Arrive at the cluster's barrier without waiting."""
    row = _row(ctx, load_i64(ctx + 8 * RANK))
    warp = load_i64(ctx + 8 * WARP)
    arrived = as_u32(load_i64(row + 8 * ROW_ARRIVED))
    phases = as_i32(load_i64(row + 8 * ROW_PHASES) + 128 * warp)
    phase = load_i64(load_i64(ctx + 8 * CLUSTER) + 8 * CLUSTER_PHASE)
    arrived[warp] |= mask
    for number in range(32):
        if (mask >> np.uint32(number)) & _ONE:
            phases[number] = np.int32(phase + 1)
    _open_if_complete(ctx)
    return 0


@instruction(
    "barrier.cluster.wait{sem}{aligned}",
    body="warp",
    timing="cluster_wait",
    section="9.7.13.4",
    waits=True,
    sem=optional("acquire"),
    aligned=flag("aligned"),
    **_COMMON,
)
def barrier_cluster_wait(mask, ctx):
    """Wait until every thread of the cluster has arrived or exited."""
    _open_if_complete(ctx)  # the last ones may have exited
    row = _row(ctx, load_i64(ctx + 8 * RANK))
    phases = as_i32(load_i64(row + 8 * ROW_PHASES) + 128 * load_i64(ctx + 8 * WARP))
    phase = load_i64(load_i64(ctx + 8 * CLUSTER) + 8 * CLUSTER_PHASE)
    for number in range(32):
        if (mask >> np.uint32(number)) & _ONE and phases[number] > phase:
            return WAIT
    return 0
