"""Choosing and issuing, as :class:`~tcsim.timing.sub_partition.SubPartition` and :class:`~tcsim.timing.warp.Warp` do it."""

from __future__ import annotations

import numpy as np

from isa.compiled import compiled, inlined
from tcsim.timing.arrays import row, row32
from tcsim.timing.compiled.state import (
    AT,
    BOARDS,
    DISPATCH,
    DRY,
    E_BACK,
    E_BLOCK,
    E_CONSTANTS,
    E_COUNTS,
    E_EVEN,
    E_FREE,
    E_GUARD,
    E_JUMP,
    E_KEEP,
    E_ODD,
    E_ORDER,
    E_OTHER,
    E_PIPE,
    E_READ_COUNT,
    E_READS,
    E_SLOTS,
    E_SOURCE,
    E_SOURCE_LATENCY,
    E_SPECIAL,
    E_UNIT,
    E_WRITE_COUNT,
    E_WRITES,
    ENTRIES,
    EXECUTING,
    G_DRY,
    GROUPS,
    LEAST_RECENT,
    O_APART,
    O_COLLECTING,
    O_GREEDY,
    O_GUARD,
    O_JUMPS,
    O_ORDER,
    O_PIPES,
    O_SUBS,
    OLDEST_CTA,
    OPTIONS,
    P_FREE,
    P_OLDEST,
    P_RESERVED,
    P_USER,
    PCS,
    PENDING,
    PIPE_KINDS,
    PLACES,
    QUEUES,
    READY,
    S_COUNT,
    S_EARLIEST,
    S_EVEN,
    S_FETCH,
    S_LAST,
    S_NEXT,
    S_ODD,
    S_PENDING_AT,
    S_READY_COUNT,
    SETTLED,
    SIGNALS,
    STALLS,
    SUB_ROWS,
    SUBS,
    W_AGE,
    W_BASE,
    W_BEHIND,
    W_BLOCK,
    W_COPIES,
    W_DONE,
    W_GROUPS,
    W_ISSUED,
    W_LANDED,
    W_LAST,
    W_NUMBER,
    W_OTHER,
    W_PC,
    W_PIPE,
    W_READY,
    W_REASON,
    W_REFUSED,
    W_STATE,
    W_SUB,
    WAITING,
    WARPS,
    YOUNGEST,
    pipe_of,
)  # fmt: skip
from tcsim.timing.constant_cache import operand_constants
from tcsim.timing.hierarchy import COSTS, L1_LATENCY, L2_HIT
from tcsim.timing.instruction_cache import fetch
from tcsim.timing.issue import NO_WAIT, Unit
from tcsim.timing.scoreboard import REASON, REASONS, SHIFT
from tcsim.timing.units import NEVER
from tcsim.timing.warp import ALL_COPIES, MOST_GROUPS

__all__ = ["account", "advance", "charge", "choose", "commit_copies", "deliver", "read_operands", "read_registers", "take"]

_SELECTED, _NOT_SELECTED, _WAIT = REASON["selected"], REASON["not_selected"], REASON["wait"]
_LONG, _MEMBAR, _NO_INSTRUCTION = REASON["long_scoreboard"], REASON["membar"], REASON["no_instruction"]
_RESOLVING, _CONSTANT_MISS = REASON["branch_resolving"], REASON["imc_miss"]
_MASK = (1 << SHIFT) - 1
CONSTANT = Unit.CONSTANT


# ------------------------------------------------------------------------------------------------------------ pipes


@inlined
def take(c, sub, pipe, now, start, busy):
    """A pipe takes an instruction that issues at ``now`` and starts at ``start``; a queue holds it until then."""
    p = pipe_of(c, sub, pipe)
    depth = row(c, PIPE_KINDS, pipe)[1]
    if depth == 0:
        p[P_FREE] = start + busy
        p[P_RESERVED] += p[P_FREE] - now - 1
        return
    starts = row(c, QUEUES, sub * row(c, OPTIONS, 0)[O_PIPES] + pipe)
    starts[p[P_OLDEST]] = start
    p[P_OLDEST] = (p[P_OLDEST] + 1) % depth
    refuses_from = max(p[P_FREE], now + 1)
    p[P_FREE] = max(refuses_from, starts[p[P_OLDEST]])
    p[P_RESERVED] += p[P_FREE] - refuses_from


# --------------------------------------------------------------------------------------------------------- choosing


@inlined
def _make_ready(c, sub, warp):
    """All operands are there: the warp competes for its pipe and for the issue slot."""
    p = pipe_of(c, sub, warp[W_PIPE])
    rest = p[P_FREE] - warp[W_READY]
    warp[W_REFUSED] = p[P_RESERVED] - rest if rest > 0 else p[P_RESERVED]
    warp[W_STATE] = READY


@compiled
def choose(c, sub, now):
    """The warp (row) that issues in cycle ``now``; -1 if none can, after which the sub-partition's next cycle is later."""
    s = row(c, SUBS, sub)
    count = s[S_COUNT]
    ready_count = 0
    pending_at = NEVER
    last = s[S_LAST]
    chosen = -1
    soonest = NEVER
    chosen_cta = NEVER
    order, greedy = row(c, OPTIONS, 0)[O_ORDER], row(c, OPTIONS, 0)[O_GREEDY]
    chosen_issued = NEVER
    rows = row(c, SUB_ROWS, sub)
    for step in range(count):
        w = rows[count - 1 - step if order == YOUNGEST else step]
        warp = row(c, WARPS, w)
        state = warp[W_STATE]
        if state == PENDING:
            if warp[W_READY] > now:
                pending_at = min(pending_at, warp[W_READY])
                continue
            _make_ready(c, sub, warp)
        elif state != READY:
            continue
        ready_count += 1
        free = min(pipe_of(c, sub, warp[W_PIPE])[P_FREE], pipe_of(c, sub, warp[W_OTHER])[P_FREE])
        if free > now:
            soonest = min(soonest, free)
            continue
        issued, cta = warp[W_ISSUED], warp[W_AGE] - warp[W_NUMBER]
        if w == last and greedy:
            chosen, chosen_issued, chosen_cta = w, -1, cta
        elif (
            chosen < 0
            or (order == LEAST_RECENT and issued < chosen_issued)
            or (order == OLDEST_CTA and issued < chosen_issued and cta == chosen_cta)
        ):
            chosen, chosen_issued, chosen_cta = w, issued, cta
    s[S_PENDING_AT] = pending_at
    s[S_READY_COUNT] = ready_count
    if chosen < 0:
        s[S_NEXT] = min(soonest, pending_at)
    return chosen


# ---------------------------------------------------------------------------------------------------------- issuing


@inlined
def read_registers(c, sub, e, now):
    """Take the registers of an instruction; returns for how many cycles nothing can issue because of that and its dispatch."""
    if e[E_EVEN] == 0 and e[E_ODD] == 0:
        return 0
    s = row(c, SUBS, sub)
    s[S_EVEN] = max(s[S_EVEN], now) + e[E_EVEN] % DISPATCH
    s[S_ODD] = max(s[S_ODD], now) + e[E_ODD]
    return e[E_EVEN] // DISPATCH + max(0, max(s[S_EVEN], s[S_ODD]) - now - row(c, OPTIONS, 0)[O_COLLECTING])


@compiled
def account(c, sub, w, now, held):
    """Give each cycle since the last issue its reason, and take the issue slots, and ``held`` cycles more in which nothing can
    issue. Returns the pipe that the instruction goes to."""
    warp, stalls = row(c, WARPS, w), row(c, STALLS, 0)
    pc = warp[W_PC]
    e = row(c, ENTRIES, pc)
    first = pc * REASONS
    slots = e[E_SLOTS]
    ready_at = warp[W_READY]
    stalls[first + _SELECTED] += slots
    stalled = ready_at - warp[W_LAST] - 1
    if stalled > 0:
        stalls[first + warp[W_REASON]] += stalled
    waited = now - ready_at
    if waited > 0:
        p = pipe_of(c, sub, e[E_PIPE])
        refused = min(waited, p[P_RESERVED] - warp[W_REFUSED])
        if refused:
            stalls[first + (_WAIT if p[P_USER] == w else row(c, PIPE_KINDS, e[E_PIPE])[0])] += refused
        stalls[first + _NOT_SELECTED] += waited - refused
    s = row(c, SUBS, sub)
    s[S_LAST] = w
    s[S_EARLIEST] = now + slots + held
    warp[W_STATE] = WAITING
    warp[W_LAST] = now + slots - 1
    if e[E_JUMP]:
        warp[W_BEHIND] = pc + 1
    else:
        warp[W_BEHIND] = -1
    warp[W_ISSUED] = now
    if s[S_READY_COUNT] > 1:
        s[S_NEXT] = s[S_EARLIEST]
    elif s[S_PENDING_AT] < NEVER:
        s[S_NEXT] = max(s[S_PENDING_AT], s[S_EARLIEST])
    else:
        s[S_NEXT] = NEVER
    return e[E_PIPE] if pipe_of(c, sub, e[E_PIPE])[P_FREE] <= now else e[E_OTHER]


@inlined
def charge(c, w, reason, cycles):
    """Account for cycles in which a warp did not compete for issue."""
    row(c, STALLS, 0)[row(c, WARPS, w)[W_PC] * REASONS + reason] += cycles
    row(c, WARPS, w)[W_LAST] += cycles


@compiled
def deliver(c, w, e, value):
    """Note when the result of an instruction is there, as in the scoreboard."""
    board = row(c, BOARDS, w)
    if e[E_ORDER]:
        value = max(value, board[e[E_ORDER]])
        board[e[E_ORDER]] = value
    for index in range(e[E_WRITES], e[E_WRITES] + e[E_WRITE_COUNT]):
        place = row(c, PLACES, 0)[index]
        board[place] = max(value, board[place]) if e[E_COUNTS] else value


@compiled
def read_operands(c, w, e, start, reason):
    """Note when its operands have been read, if somebody waits for that."""
    if e[E_SOURCE]:
        value = ((start + e[E_SOURCE_LATENCY]) << SHIFT) + reason
        if value > row(c, BOARDS, w)[e[E_SOURCE]]:
            row(c, BOARDS, w)[e[E_SOURCE]] = value


# ------------------------------------------------------------------------------------------------- going on to next


@compiled
def commit_copies(c, w):
    """What was copied since the last commit is a group. Groups land in order; the ring keeps the youngest."""
    warp = row(c, WARPS, w)
    warp[W_LANDED] = max(warp[W_LANDED], warp[W_COPIES])
    row(c, GROUPS, w)[warp[W_GROUPS] % MOST_GROUPS] = warp[W_LANDED]
    warp[W_GROUPS] += 1
    warp[W_COPIES] = 0


@compiled
def _copies_done(c, w, keep):
    """The cycle in which all but the ``keep`` youngest groups have landed, or everything for ALL_COPIES."""
    if keep == ALL_COPIES:
        commit_copies(c, w)
        keep = 0
    groups = row(c, WARPS, w)[W_GROUPS]
    if keep >= min(groups, MOST_GROUPS):
        return np.int64(0)
    return row(c, GROUPS, w)[(groups - 1 - keep) % MOST_GROUPS]


@compiled
def _leaves_a_loop(c, w, index):
    """Whether some lanes have just come to wait behind a branch by which record ``index``, of others, goes back."""
    pcs, executing = row32(c, PCS, w), row32(c, EXECUTING, w)
    branch = np.int64(pcs[index - 2])
    if pcs[index - 1] != branch + 1 or pcs[index] > branch or row(c, ENTRIES, branch)[E_JUMP] == 0:
        return False
    return executing[index - 2] != 0 and executing[index - 1] != 0 and executing[index - 2] & executing[index - 1] == 0


@inlined
def _jump(c, sub, w, target, index):
    """When a warp that goes elsewhere, to record ``index``, can go on, as in the scoreboard: the fetch unit takes one such
    after another."""
    warp, s = row(c, WARPS, w), row(c, SUBS, sub)
    branch = row(c, ENTRIES, warp[W_BEHIND] - 1)
    there = warp[W_ISSUED] + (branch[E_JUMP] if target > warp[W_BEHIND] else branch[E_BACK])
    if index > 1 and _leaves_a_loop(c, w, index):
        there += row(c, OPTIONS, 0)[O_APART]
    there = max(there, s[S_FETCH])
    s[S_FETCH] = there + row(c, OPTIONS, 0)[O_JUMPS]
    return (there << SHIFT) + _RESOLVING


@compiled
def advance(c, w, base):
    """Move a warp on to its next instruction that takes an issue slot, and work out when that can issue.

    ``base``: the earliest cycle for it and why not earlier, as in the scoreboard.
    """
    warp = row(c, WARPS, w)
    sub = warp[W_SUB]
    board = row(c, BOARDS, w)
    index = row(c, AT, 0)[w] + 1
    count = row(c, SETTLED, 0)[w]
    while index < count:
        pc = np.int64(row32(c, PCS, w)[index])
        e = row(c, ENTRIES, pc)
        latest = np.int64(0)
        for at in range(e[E_READS], e[E_READS] + e[E_READ_COUNT]):
            latest = max(latest, board[row(c, PLACES, 0)[at]])
        if e[E_FREE]:
            for at in range(e[E_WRITES], e[E_WRITES] + e[E_WRITE_COUNT]):
                board[row(c, PLACES, 0)[at]] = latest
            index += 1
            continue
        row(c, AT, 0)[w] = index
        warp[W_PC], warp[W_PIPE], warp[W_OTHER] = pc, e[E_PIPE], e[E_OTHER]
        held = (base >> SHIFT) - warp[W_LAST] - 1
        if held > 0:  # the stall count comes first, as Nsight Compute counts
            charge(c, w, base & _MASK, held)
        if warp[W_BEHIND] >= 0 and pc != warp[W_BEHIND]:
            base = max(base, _jump(c, sub, w, pc, index))
        latest = max(latest, base)
        if e[E_GUARD]:
            latest = max(latest, board[e[E_GUARD]] + (row(c, OPTIONS, 0)[O_GUARD] << SHIFT))
        if e[E_BLOCK] != warp[W_BLOCK]:
            warp[W_BLOCK] = e[E_BLOCK]
            held = fetch(c, sub // row(c, OPTIONS, 0)[O_SUBS], e[E_BLOCK], base >> SHIFT) - warp[W_LAST] - 1
            if held > 0:  # so does the instruction itself
                charge(c, w, _NO_INSTRUCTION, held)
            latest = max(latest, (warp[W_LAST] + 1) << SHIFT)
        if e[E_CONSTANTS] >= 0 and e[E_UNIT] != CONSTANT:
            there = operand_constants(c, sub // row(c, OPTIONS, 0)[O_SUBS], e[E_CONSTANTS], latest >> SHIFT)
            latest = max(latest, (there << SHIFT) + _CONSTANT_MISS)
        if e[E_SPECIAL]:
            if e[E_KEEP] != NO_WAIT:
                latest = max(latest, (_copies_done(c, w, e[E_KEEP]) << SHIFT) + _LONG)
            elif warp[W_DONE]:
                done = max(warp[W_DONE], (latest >> SHIFT) + row(c, COSTS, 0)[L2_HIT] + row(c, COSTS, 0)[L1_LATENCY])
                latest = max(latest, (done << SHIFT) + _MEMBAR)
                warp[W_DONE] = 0
        ready_at = latest >> SHIFT
        warp[W_READY] = ready_at
        warp[W_REASON] = latest & _MASK
        s = row(c, SUBS, sub)
        if ready_at <= s[S_EARLIEST]:
            _make_ready(c, sub, warp)
            if s[S_EARLIEST] < s[S_NEXT]:
                s[S_NEXT] = s[S_EARLIEST]
        else:
            warp[W_STATE] = PENDING
            if ready_at < s[S_NEXT]:
                s[S_NEXT] = ready_at
        return
    row(c, AT, 0)[w] = count - 1
    warp[W_BASE] = base
    warp[W_STATE] = WAITING
    row(c, DRY, 0)[row(c, SIGNALS, 0)[G_DRY]] = w
    row(c, SIGNALS, 0)[G_DRY] += 1
