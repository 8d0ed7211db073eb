"""The state of one CTA while it runs: registers, groups of converged threads, barriers.

A warp's threads have their own program counters (independent thread scheduling). Threads at the same place that run together
are a *group*: a program counter and a mask of lanes. A warp starts as one group; a branch that its lanes disagree on splits a
group in two, tied by a *convergence barrier* that knows which lanes are to meet and where. Everything is in plain arrays, so
that the compiled interpreter and Python see the same state.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa.compiled import compiled

__all__ = ["BARRIERS", "LOCAL_DEVICE_BASE", "CtaArrays", "GroupState", "new_cta_arrays", "reset"]

BARRIERS = 16
"""Barriers of a CTA (PTX ISA 9.7.13.1)."""

LOCAL_DEVICE_BASE = 0x6000_0000_0000
"""Local memory of CTA 0 in device memory, as far as caches are concerned: away from every allocation."""


class GroupState:
    """What a group is doing."""

    READY = 0
    PARKED = 1  # at its convergence barrier, waiting for the lanes it separated from
    MEMBERS = 2  # at a ``.sync`` instruction, waiting for the other members of its mask
    BARRIER = 3  # at a CTA barrier
    CONVERGING = 4  # at a place where the lanes of machine code come together again
    NAMES = ("ready", "parked", "waiting for members", "waiting at barrier", "waiting to converge")


class CtaArrays(NamedTuple):
    """Arrays indexed [warp, ...]; a group or convergence barrier with an empty mask is unused.

    ``blocks``: uint32 [warps, words], the register blocks. ``live``: lanes that have not exited. ``pc``, ``mask``, ``state``,
    ``meet`` (its convergence barrier or -1), ``depth`` (how many calls deep it is) and ``awaits`` (member mask, or barrier
    number) of each group. ``meet_mask``, ``meet_here`` and ``meet_at`` of each convergence barrier: lanes to meet, lanes
    arrived, and int32 (where, the barrier around it or -1, how many calls deep): a recursive function comes to the same
    instruction at several depths. (The lanes of a group have the same calls behind them: lanes only ever join where they
    parted.) ``arrived``: lanes [barrier, warp] at each CTA barrier, waiting or not. ``needed``: threads a CTA barrier waits
    for, 0 for all. ``ballot``: the predicates given to a reducing barrier. ``alone``: instructions a warp has run since its
    groups last met. ``turns``: of machine code, the group that runs, the one that follows it, or -1, and how
    long it has run. ``seen``: see :mod:`tcsim.execute.spinning`. ``counters``: see COUNT_*.
    """

    blocks: NDArray[np.uint32]
    live: NDArray[np.uint32]
    pc: NDArray[np.int32]
    mask: NDArray[np.uint32]
    state: NDArray[np.int32]
    meet: NDArray[np.int32]
    awaits: NDArray[np.uint32]
    meet_mask: NDArray[np.uint32]
    meet_here: NDArray[np.uint32]
    meet_at: NDArray[np.int32]
    depth: NDArray[np.int32]
    arrived: NDArray[np.uint32]
    needed: NDArray[np.int32]
    ballot: NDArray[np.uint32]
    alone: NDArray[np.int64]
    turns: NDArray[np.int32]
    seen: NDArray[np.int64]
    counters: NDArray[np.int64]

    @property
    def meet_pc(self) -> NDArray[np.int32]:
        """Where the lanes of each convergence barrier meet (not for compiled code)."""
        return self.meet_at[:, :, AT_PC]

    @property
    def meet_depth(self) -> NDArray[np.int32]:
        """How many calls deep they meet (not for compiled code)."""
        return self.meet_at[:, :, AT_DEPTH]


AT_PC, AT_OUTER, AT_DEPTH = range(3)
COUNT_INSTRUCTIONS, COUNT_FAULT_PC, COUNT_FAULT_WARP, COUNT_ALIVE, COUNT_FULL, COUNT_LANES, COUNT_WAITING = range(7)


def aligned(rows: int, words: int) -> NDArray[np.uint32]:
    """A zeroed uint32 array [rows, words] whose rows start at multiples of 128 bytes (``words`` must be one of 32)."""
    raw = np.zeros(rows * words + 32, np.uint32)
    skip = -(raw.ctypes.data // 4) % 32
    return raw[skip : skip + rows * words].reshape(rows, words)


def new_cta_arrays(warps: int, block_words: int) -> CtaArrays:
    """State for a CTA of ``warps`` warps; reusable for one CTA after another (:func:`reset`)."""
    groups = (warps, 32)
    return CtaArrays(
        blocks=aligned(warps, block_words),
        live=np.zeros(warps, np.uint32),
        pc=np.zeros(groups, np.int32),
        mask=np.zeros(groups, np.uint32),
        state=np.zeros(groups, np.int32),
        meet=np.zeros(groups, np.int32),
        awaits=np.zeros(groups, np.uint32),
        meet_mask=np.zeros(groups, np.uint32),
        meet_here=np.zeros(groups, np.uint32),
        meet_at=np.zeros((warps, 32, 3), np.int32),
        depth=np.zeros(groups, np.int32),
        arrived=np.zeros((BARRIERS, warps), np.uint32),
        needed=np.zeros(BARRIERS, np.int32),
        ballot=np.zeros((BARRIERS, warps), np.uint32),
        alone=np.zeros(warps, np.int64),
        turns=np.full((warps, 3), -1, np.int32),
        seen=np.zeros((warps, 4), np.int64),
        counters=np.zeros(8, np.int64),
    )


@compiled
def reset(s, threads):
    """Put every warp at the first instruction with its lanes live; registers keep what they hold."""
    s.mask[...] = 0
    s.state[...] = 0
    s.meet_mask[...] = 0
    s.meet_here[...] = 0
    s.arrived[...] = 0
    s.needed[...] = 0
    s.alone[...] = 0
    s.turns[...] = -1
    s.seen[...] = -1
    s.meet[...] = -1
    s.depth[...] = 0
    s.counters[...] = 0
    for w in range(len(s.live)):
        lanes = min(32, threads - 32 * w)
        s.live[w] = np.uint32((np.int64(1) << lanes) - 1)
        s.mask[w, 0] = s.live[w]
        s.pc[w, 0] = 0
    s.counters[COUNT_ALIVE] = len(s.live)
