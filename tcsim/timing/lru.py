"""Fully associative caches that replace the least recently used line, as arrays that compiled code and Python share.

Caches of one kind have the same size and stand in one set of arrays. A slot holds a line's tag; chains of slots by hash find
it, a list from the newest to the oldest slot says which to replace. Links are slot numbers plus one, 0 for none, so that fresh
arrays are empty caches and cost memory only where they are used.
"""

from __future__ import annotations

import numpy as np

from isa.compiled import compiled, inlined
from tcsim.timing.arrays import ArrayTable, row

__all__ = ["LRU_ARRAYS", "find", "new_lru", "put", "touch", "victim"]

HEADS, CHAINS, OLDER, NEWER, TAGS, ENDS = range(6)
LRU_ARRAYS = 6
"""Numbers that a set of caches takes in a table of arrays, by cache: first slots of chains [bucket]; [slot] next of the chain,
next older and newer slot, tag; and [NEWEST, OLDEST, USED, SLOTS, MASK]."""
NEWEST, OLDEST, USED, SLOTS, MASK = range(5)


def new_lru(table: ArrayTable, number: int, caches: int, slots: int) -> None:
    """Put empty caches of ``slots`` lines each into a table, from ``number`` on."""
    buckets = 1 << max(4, (slots - 1).bit_length())
    table.put(number + HEADS, np.zeros((caches, buckets), np.int64))
    for links in (CHAINS, OLDER, NEWER, TAGS):
        table.put(number + links, np.zeros((caches, slots), np.int64))
    ends = table.put(number + ENDS, np.zeros((caches, 5), np.int64))
    ends[:, SLOTS], ends[:, MASK] = slots, buckets - 1


@inlined
def _bucket(c, lru, cache, tag):
    return (tag ^ (tag >> 9) ^ (tag >> 19)) & row(c, lru + ENDS, cache)[MASK]


@compiled
def find(c, lru, cache, tag):
    """The slot that holds ``tag``, or -1."""
    tags, chains = row(c, lru + TAGS, cache), row(c, lru + CHAINS, cache)
    at = row(c, lru + HEADS, cache)[_bucket(c, lru, cache, tag)]
    while at:
        if tags[at - 1] == tag:
            return at - 1
        at = chains[at - 1]
    return np.int64(-1)


@compiled
def _unlink(c, lru, cache, slot):
    ends = row(c, lru + ENDS, cache)
    olders, newers = row(c, lru + OLDER, cache), row(c, lru + NEWER, cache)
    older, newer = olders[slot], newers[slot]
    if newer:
        olders[newer - 1] = older
    else:
        ends[NEWEST] = older
    if older:
        newers[older - 1] = newer
    else:
        ends[OLDEST] = newer


@compiled
def _link(c, lru, cache, slot):
    ends = row(c, lru + ENDS, cache)
    newest = ends[NEWEST]
    row(c, lru + OLDER, cache)[slot] = newest
    newers = row(c, lru + NEWER, cache)
    newers[slot] = 0
    if newest:
        newers[newest - 1] = slot + 1
    else:
        ends[OLDEST] = slot + 1
    ends[NEWEST] = slot + 1


@compiled
def touch(c, lru, cache, slot):
    """Make a slot the newest."""
    if row(c, lru + ENDS, cache)[NEWEST] != slot + 1:
        _unlink(c, lru, cache, slot)
        _link(c, lru, cache, slot)


@inlined
def victim(c, lru, cache):
    """The slot that the next new line will take from another, or -1 while there is room."""
    ends = row(c, lru + ENDS, cache)
    if ends[USED] < ends[SLOTS]:
        return np.int64(-1)
    return ends[OLDEST] - 1


@compiled
def put(c, lru, cache, tag):
    """Give a line that is not there a slot, the newest; returns the slot."""
    tags, chains, heads = row(c, lru + TAGS, cache), row(c, lru + CHAINS, cache), row(c, lru + HEADS, cache)
    slot = victim(c, lru, cache)
    if slot < 0:
        ends = row(c, lru + ENDS, cache)
        slot = ends[USED]
        ends[USED] += 1
    else:
        _unlink(c, lru, cache, slot)
        bucket = _bucket(c, lru, cache, tags[slot])
        at = heads[bucket]
        if at == slot + 1:
            heads[bucket] = chains[slot]
        else:
            while chains[at - 1] != slot + 1:
                at = chains[at - 1]
            chains[at - 1] = chains[slot]
    tags[slot] = tag
    bucket = _bucket(c, lru, cache, tag)
    chains[slot] = heads[bucket]
    heads[bucket] = slot + 1
    _link(c, lru, cache, slot)
    return slot
