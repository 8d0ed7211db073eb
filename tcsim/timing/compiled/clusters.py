"""The barrier of a cluster, as :class:`~tcsim.timing.clusters.ClusterBarrier` keeps it."""

from __future__ import annotations

import numpy as np

from isa.compiled import compiled
from tcsim.timing.arrays import row, row32
from tcsim.timing.compiled.issuing import advance
from tcsim.timing.compiled.state import (
    AT,
    C_SM,
    CLUSTERS,
    CTAS,
    EXECUTING,
    G_TOUCHED,
    K_OPENED,
    K_PHASE,
    NEXT,
    O_CLUSTER_RELEASE,
    O_SIZE,
    O_WARPS,
    OPTIONS,
    S_NEXT,
    SIGNALS,
    SITE_OF,
    SITES,
    STALLS,
    SUBS,
    W_CLUSTER_LANES,
    W_CLUSTER_PHASE,
    W_CLUSTER_WAITS,
    W_CTA,
    W_LAST,
    W_LIVE,
    W_PC,
    W_SUB,
    WARPS,
)  # fmt: skip
from tcsim.timing.scoreboard import REASON, REASONS, SHIFT

__all__ = ["after_exit", "arrive_at_cluster", "go_on", "wait_for_cluster"]

_BARRIER, _WAIT = REASON["barrier"], REASON["wait"]


@compiled
def go_on(c, w, first, reason):
    """Let a warp that waits go on in cycle ``first``, having waited for ``reason``; it may be on another SM."""
    warp = row(c, WARPS, w)
    row(c, STALLS, 0)[warp[W_PC] * REASONS + reason] += first - warp[W_LAST] - 1
    warp[W_LAST] = first - 1
    advance(c, w, (first << SHIFT) + _WAIT)
    sm, next_cycle = row(c, CTAS, warp[W_CTA])[C_SM], row(c, SUBS, warp[W_SUB])[S_NEXT]
    if next_cycle < row(c, NEXT, 0)[sm]:
        row(c, NEXT, 0)[sm] = next_cycle
    row(c, SIGNALS, 0)[G_TOUCHED] = 1


@compiled
def _complete(c, site):
    """Whether all lanes of the cluster that have not ended have arrived, and any has."""
    some = False
    for rank in range(row(c, OPTIONS, 0)[O_SIZE]):
        first = row(c, SITES, site)[rank] * row(c, OPTIONS, 0)[O_WARPS]
        for w in range(first, first + row(c, OPTIONS, 0)[O_WARPS]):
            warp = row(c, WARPS, w)
            if warp[W_LIVE] & ~warp[W_CLUSTER_LANES]:
                return False
            some = some or warp[W_CLUSTER_LANES] != 0
    return some


@compiled
def _open(c, site, now):
    """Begin the next phase, and let those go on who wait, by rank and warp."""
    released = now + row(c, OPTIONS, 0)[O_CLUSTER_RELEASE]
    row(c, CLUSTERS, site)[K_PHASE] += 1
    row(c, CLUSTERS, site)[K_OPENED] = released
    for rank in range(row(c, OPTIONS, 0)[O_SIZE]):
        first = row(c, SITES, site)[rank] * row(c, OPTIONS, 0)[O_WARPS]
        for w in range(first, first + row(c, OPTIONS, 0)[O_WARPS]):
            row(c, WARPS, w)[W_CLUSTER_LANES] = 0
    for rank in range(row(c, OPTIONS, 0)[O_SIZE]):
        first = row(c, SITES, site)[rank] * row(c, OPTIONS, 0)[O_WARPS]
        for w in range(first, first + row(c, OPTIONS, 0)[O_WARPS]):
            if row(c, WARPS, w)[W_CLUSTER_WAITS]:
                row(c, WARPS, w)[W_CLUSTER_WAITS] = 0
                go_on(c, w, max(released, row(c, WARPS, w)[W_LAST] + 1), _BARRIER)


@compiled
def arrive_at_cluster(c, w, now, base):
    """Arrive at the cluster's barrier, and go on."""
    warp = row(c, WARPS, w)
    site = row(c, SITE_OF, 0)[warp[W_CTA]]
    warp[W_CLUSTER_LANES] |= np.int64(row32(c, EXECUTING, w)[row(c, AT, 0)[w]]) & 0xFFFFFFFF
    warp[W_CLUSTER_PHASE] = row(c, CLUSTERS, site)[K_PHASE] + 1
    opens = _complete(c, site)
    advance(c, w, base)
    if opens:
        _open(c, site, now)


@compiled
def wait_for_cluster(c, w, base):
    """Wait until the phase has ended in which the warp arrived."""
    warp = row(c, WARPS, w)
    cluster = row(c, CLUSTERS, row(c, SITE_OF, 0)[warp[W_CTA]])
    if warp[W_CLUSTER_PHASE] > cluster[K_PHASE]:
        warp[W_CLUSTER_WAITS] = 1
    else:
        advance(c, w, max(base, (cluster[K_OPENED] << SHIFT) + _BARRIER))


@compiled
def after_exit(c, w, now):
    """Lanes of a warp have ended, for which the others may have waited."""
    site = row(c, SITE_OF, 0)[row(c, WARPS, w)[W_CTA]]
    if _complete(c, site):
        _open(c, site, now)
