"""A word read behind a flag that was set behind it, with no fence between. Compiled.

Two volatile or relaxed accesses by different CTAs are no data race, whatever their order: flags and counters are polled that
way. But a thread that writes a word, then a flag, with no fence between, promises nothing to who reads the flag, then the word:
that may be the old one (PTX ISA 8.8 and 8.9.5, release patterns and causality order). So every warp remembers the last flags of
other CTAs that it has read, and words are looked at whose value decides nothing (:mod:`tcsim.checking.flags`).
"""

from __future__ import annotations

import numpy as np

from isa.compiled import compiled
from isa.kernels.planes import as_i32, as_i64
from tcsim.checking.layout import (
    C_FLOOR,
    C_WRITE,
    C_WRITE_PLACE,
    C_WRITER,
    CTA_SCOPE,
    DATA,
    G_META,
    M_ACTION,
    M_STRONG,
    META_WORDS,
    SEEN,
    SEEN_WORDS,
    T_CTA,
    T_GRID,
    T_SEEN,
    T_WARPS,
    WRITE,
)

__all__ = ["in_scope", "remember", "seen_behind"]

_STAMP, _AGENT, _FLOOR, _PC = range(4)


@compiled
def in_scope(t, strong, pc, agent):
    """Whether a strong access of this CTA and that of an agent at instruction ``pc`` are strong for each other."""
    if agent // t[T_WARPS] == t[T_CTA]:
        return True
    meta = as_i32(as_i64(t[T_GRID])[G_META] + 4 * META_WORDS * pc)
    other = max(np.int64(0), np.int64(meta[M_STRONG]))  # -1: of a bulk copy
    return (strong | other) & CTA_SCOPE == 0


@compiled
def remember(t, w, cell):
    """Warp ``w`` reads what another CTA has set."""
    seen = as_i64(t[T_SEEN] + 8 * SEEN * SEEN_WORDS * w)
    stamp, agent = np.int64(cell[C_WRITE]), np.int64(cell[C_WRITER])
    if seen[_STAMP] == stamp and seen[_AGENT] == agent:
        return
    for word in range(SEEN * SEEN_WORDS - 1, SEEN_WORDS - 1, -1):
        seen[word] = seen[word - SEEN_WORDS]
    seen[_STAMP], seen[_AGENT] = stamp, agent
    seen[_FLOOR], seen[_PC] = np.int64(cell[C_FLOOR]), np.int64(cell[C_WRITE_PLACE] >> np.uint32(7))


@compiled
def seen_behind(t, w, strong, stamp, agent, pc):
    """1 + the instruction that set a flag behind the strong store by an agent at instruction ``pc``, if warp ``w`` has read it
    and now reads what that stored; else 0."""
    meta = as_i32(as_i64(t[T_GRID])[G_META] + 4 * META_WORDS * pc)
    if not strong & DATA or meta[M_ACTION] != WRITE:
        return np.int64(0)
    seen, warps = as_i64(t[T_SEEN] + 8 * SEEN * SEEN_WORDS * w), t[T_WARPS]
    for number in range(SEEN):
        at = SEEN_WORDS * number
        if seen[at + _STAMP] <= stamp or seen[at + _AGENT] // warps != agent // warps:
            continue
        if seen[at + _AGENT] == agent or stamp <= seen[at + _FLOOR]:
            return seen[at + _PC] + 1
    return np.int64(0)
