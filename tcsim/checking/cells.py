"""A cell: who touched a granule of memory last, and is whoever touches it now ordered behind that? Compiled.

Two stores of the same value are no race worth telling: many correct kernels set a flag that way. Nor is a plain read beside a
compare-and-swap: loops around one begin so, and it finds out if the value was old. Volatile words of shared memory are no way
for the lanes of a warp to wait for each other.
"""

from __future__ import annotations

import numpy as np

from isa.compiled import compiled, inlined
from isa.kernels.planes import as_i64, as_u32, load_u8
from isa.machine import SHARED
from tcsim.checking.asynchronous import ended, surely_ended
from tcsim.checking.clocks import acquire, acquire_in_cta, now, ordered, report
from tcsim.checking.layout import (
    ASYNC,
    C_FLOOR,
    C_GROUP,
    C_READ,
    C_READ2,
    C_READ_GROUP,
    C_READ_GROUP2,
    C_READ_LANES,
    C_READ_LANES2,
    C_READ_PLACE,
    C_READ_PLACE2,
    C_READER,
    C_READER2,
    C_RELEASE,
    C_WRITE,
    C_WRITE_PLACE,
    C_WRITER,
    CTA_SCOPE,
    DATA,
    IN_FLIGHT,
    M_DATA,
    M_DATA_BYTES,
    M_DATA_COUNT,
    PROXY,
    RACE,
    READ,
    READ_AFTER_WRITE,
    SWAP,
    T_BEGIN,
    T_CTA,
    T_FENCE_AT,
    T_FENCED,
    T_FLOOR,
    T_PEERS,
    T_WARPS,
    WRITE,
    WRITE_AFTER_READ,
    WRITE_AFTER_WRITE,
)
from tcsim.checking.messages import in_scope, remember, seen_behind

__all__ = ["NO_GROUP", "quick_touch", "touch"]

NO_GROUP = 0


@compiled
def _stored_byte(base, operands, meta, byte, lane):
    """Byte number ``byte`` of what a lane stores."""
    size = meta[M_DATA_BYTES]
    plane = base + operands[meta[M_DATA] + byte // size] + 128 * ((byte % size) // 4)
    return (as_u32(plane)[lane] >> np.uint32(8 * (byte % 4 if size >= 4 else byte % size))) & np.uint32(0xFF)


@compiled
def _same_value(base, operands, meta, at, size, lane, other, host):
    """Whether a lane stores what is there already, or what lane ``other`` (-1: none) of the same instruction stores."""
    if meta[M_DATA] < 0 or meta[M_DATA_BYTES] * meta[M_DATA_COUNT] < at + size:
        return False
    there = host != 0
    beside = other >= 0
    for byte in range(size):
        value = _stored_byte(base, operands, meta, at + byte, lane)
        if there and np.uint32(load_u8(host + byte)) != value:
            there = False
        if beside and _stored_byte(base, operands, meta, at + byte, other) != value:
            beside = False
    return there or beside


@compiled
def _check_reader(t, owner, cell, stamp_at, w, lane, pc, space, address, size, begin, strong):
    """Report a write over what a reader has not been ordered before."""
    stamp = np.int64(cell[stamp_at])
    if stamp < begin or stamp == 0:
        return
    agent, place = np.int64(cell[stamp_at + 1]), np.int64(cell[stamp_at + 2])
    lanes, group = np.uint32(cell[stamp_at + 3]), np.int64(cell[stamp_at + 4])
    me = t[T_CTA] * t[T_WARPS] + w
    if group != 0:
        missing, stamp = ended(t, owner, group, stamp, agent, place & 31, w, lane, True)
        if missing:
            report(
                t, IN_FLIGHT, WRITE_AFTER_READ, space, address, size, pc, me, np.int64(1) << lane, place >> 7, agent, lanes,
                missing,
            )  # fmt: skip
        if missing or stamp == 0:
            return
    if agent == me:
        lanes &= ~(np.uint32(1) << np.uint32(lane))
        if lanes == 0:
            return
    if stamp <= t[T_FLOOR] and me - w <= agent < me - w + t[T_WARPS]:
        return
    both = strong & ~ASYNC and (place >> 5) & 1 and not (space == SHARED and agent == me)
    if strong & SWAP or (both and in_scope(t, strong, place >> 7, agent)):
        return
    if not ordered(t, stamp, agent, lanes, w, lane):
        report(t, RACE, WRITE_AFTER_READ, space, address, size, pc, me, np.int64(1) << lane, place >> 7, agent, lanes, 0)


@inlined
def _settled(stamp, agent, group, begin, floor, first, warps):
    """Whether an access by another warp is none, or an ordinary one that a barrier of the CTA has put behind us."""
    return stamp < begin or (group == NO_GROUP and stamp <= floor and first <= agent < first + warps)


@inlined
def _read_by(cell, begin, stamp, me, lane, mark, group):
    """Note a read in a cell."""
    bit = np.uint32(1) << np.uint32(lane)
    if np.int64(cell[C_READER]) == me and np.int64(cell[C_READ_GROUP]) == group and np.int64(cell[C_READ]) >= begin:
        cell[C_READ_LANES] = cell[C_READ_LANES] | bit if np.int64(cell[C_READ]) == stamp else bit
    else:
        if np.int64(cell[C_READ]) >= begin:
            cell[C_READ2], cell[C_READER2] = cell[C_READ], cell[C_READER]
            cell[C_READ_PLACE2], cell[C_READ_LANES2] = cell[C_READ_PLACE], cell[C_READ_LANES]
            cell[C_READ_GROUP2] = cell[C_READ_GROUP]
        cell[C_READ_LANES], cell[C_READ_GROUP] = bit, np.uint32(group)
    cell[C_READ], cell[C_READER], cell[C_READ_PLACE] = np.uint32(stamp), np.uint32(me), mark


@inlined
def quick_touch(t, begin, cell, w, lane, pc, action):
    """:func:`touch` for a plain read or write of what nobody has touched since a barrier of the whole CTA. Returns whether it
    was such a one; if not, nothing has been done."""
    first, warps, floor = t[T_CTA] * t[T_WARPS], t[T_WARPS], t[T_FLOOR]
    group, agent = np.int64(cell[C_GROUP]), np.int64(cell[C_WRITER])
    if not _settled(np.int64(cell[C_WRITE]), agent, group, begin, floor, first, warps) and not (
        group != NO_GROUP and begin == t[T_BEGIN] and surely_ended(t, group, agent, np.int64(cell[C_WRITE_PLACE]) & 31, w)
    ):
        return False
    mark = np.uint32(pc << 7) | np.uint32(lane)
    if action == READ:
        _read_by(cell, begin, now(t), first + w, lane, mark, NO_GROUP)
        return True
    if not _settled(np.int64(cell[C_READ]), np.int64(cell[C_READER]), np.int64(cell[C_READ_GROUP]), begin, floor, first, warps):
        return False
    if not _settled(
        np.int64(cell[C_READ2]), np.int64(cell[C_READER2]), np.int64(cell[C_READ_GROUP2]), begin, floor, first, warps
    ):
        return False
    cell[C_WRITE], cell[C_WRITER], cell[C_WRITE_PLACE] = np.uint32(now(t)), np.uint32(first + w), mark
    cell[C_READ], cell[C_READ2] = np.uint32(0), np.uint32(0)
    cell[C_GROUP] = np.uint32(NO_GROUP)
    return True


@compiled
def _check_fence(t, written, agent, place, w, lane, pc, space, address, size):
    """Report a read by the asynchronous proxy of what an ordinary store has written and no proxy fence has passed on."""
    first = t[T_CTA] * t[T_WARPS]
    if agent < first or agent >= first + t[T_WARPS]:
        return
    by = place & 31
    if written > np.int64(as_u32(t[T_FENCED])[32 * (agent - first) + by]):
        me, lanes = first + w, np.int64(1) << lane
        report(t, PROXY, READ_AFTER_WRITE, space, address, size, pc, me, lanes, place >> 7, agent, np.int64(1) << by, 0)


@compiled
def _set_flag(t, w, cell, begin, action, strong):
    """A strong write is about to be noted in a cell: what other CTAs know that read it. An atomic operation hands on what the
    writes before it do."""
    fence = np.int64(0)
    if not strong & CTA_SCOPE:
        fence = as_i64(t[T_FENCE_AT])[w]
    handed_on = action & READ and np.int64(cell[C_WRITE]) >= begin and (cell[C_WRITE_PLACE] >> np.uint32(5)) & np.uint32(1)
    if handed_on:
        fence = max(fence, np.int64(cell[C_RELEASE]))
    cell[C_RELEASE], cell[C_FLOOR] = np.uint32(fence), np.uint32(t[T_FLOOR])


@compiled
def touch(t, owner, begin, cell, w, lane, pc, strong, action, group, space, address, size, base, operands, meta, at, host):
    """One granule that a lane reads or writes. ``owner``: the table of the CTA in whose shared memory it is, else ``t``.
    ``begin``: the least stamp that means anything in the cell. ``at``: the granule's offset in the access. ``group``: of an
    asynchronous access."""
    stamp = now(t)
    me = t[T_CTA] * t[T_WARPS] + w
    weak = strong & ~ASYNC == 0
    written = np.int64(cell[C_WRITE])
    if written >= begin:
        agent, place = np.int64(cell[C_WRITER]), np.int64(cell[C_WRITE_PLACE])
        by, before = place & 31, np.int64(cell[C_GROUP])
        known = (agent == me and by == lane) or (written <= t[T_FLOOR] and me - w <= agent < me - w + t[T_WARPS])
        role = READ_AFTER_WRITE if action & READ else WRITE_AFTER_WRITE
        if before != 0:
            missing, since = ended(t, owner, before, written, agent, by, w, lane, False)
            known = missing != 0 or since == 0 or (agent == me and by == lane)
            if missing and not (not weak and (place >> 5) & 1):
                report(
                    t, IN_FLIGHT, role, space, address, size, pc, me, np.int64(1) << lane, place >> 7, agent, np.int64(1) << by,
                    missing,
                )  # fmt: skip
            written = since
        elif strong & ASYNC and action == READ and space == SHARED:
            _check_fence(t, written, agent, place, w, lane, pc, space, address, size)
        both = not weak and (place >> 5) & 1 and not (space == SHARED and agent == me and action != READ | WRITE)
        near = me - w <= agent < me - w + t[T_WARPS]
        if not known and not (both and near) and not ordered(t, written, agent, np.uint32(1) << np.uint32(by), w, lane):
            flag = np.int64(0)
            if both:
                both = in_scope(t, strong, place >> 7, agent)
                if both and action == READ:
                    flag = seen_behind(t, w, strong, written, agent, place >> 7)
            if flag or (not both and not (action == READ and (place >> 6) & 1)):
                benign = False
                if action == WRITE and group == NO_GROUP:
                    beside = by if agent == me and place >> 7 == pc and written == stamp else np.int64(-1)
                    benign = _same_value(base, operands, meta, at, size, lane, beside, host)
                if not benign:
                    report(
                        t, RACE, role, space, address, size, pc, me, np.int64(1) << lane, place >> 7, agent,
                        np.int64(1) << by, flag,
                    )  # fmt: skip
        if not weak and action & READ and (place >> 5) & 1:
            if near:
                acquire_in_cta(t, w, np.int64(cell[C_WRITE]) + 1, agent - (me - w))
            elif in_scope(t, strong, place >> 7, agent):
                acquire(t, w, np.int64(cell[C_RELEASE]))
                if not strong & DATA:
                    remember(t, w, cell)
    mark = np.uint32(pc << 7) | np.uint32(lane)
    if not weak:
        mark |= np.uint32(32)
    if strong & SWAP:
        mark |= np.uint32(64)
    if action & WRITE:
        _check_reader(t, owner, cell, C_READ, w, lane, pc, space, address, size, begin, strong)
        _check_reader(t, owner, cell, C_READ2, w, lane, pc, space, address, size, begin, strong)
        if not weak and (space != SHARED or as_i64(t[T_PEERS])[1] != 0):  # others than the CTA may read it
            _set_flag(t, w, cell, begin, action, strong)
        cell[C_WRITE], cell[C_WRITER], cell[C_WRITE_PLACE] = np.uint32(stamp), np.uint32(me), mark
        cell[C_READ], cell[C_READ2] = np.uint32(0), np.uint32(0)
        cell[C_GROUP] = np.uint32(group)
        return
    _read_by(cell, begin, stamp, me, lane, mark, group)
