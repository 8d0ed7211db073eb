"""Instructions that lanes execute together (``.sync``): waiting for the members, then running once for all of them.

A thread at such an instruction waits until every live thread named in its member mask has come to one with the same
qualifiers and mask (PTX ISA 9.7.9.6, 9.7.13). The members may come in several groups, even at different places of the
program. Lanes of one group may carry different masks (each group of equal keys found by ``match`` does); each mask is then
served on its own.
"""

from __future__ import annotations

import numpy as np

from isa.compiled import compiled
from isa.kernels.planes import as_u32, call_kernel
from isa.program import FUNCTION, KIND, MEMBERS, OPERANDS, Kind
from tcsim.execute.groups import free_group
from tcsim.execute.state import COUNT_FAULT_PC, GroupState

__all__ = ["NOT_A_MEMBER", "SEPARATED", "collective", "serve"]

READY, MEMBERS_STATE = GroupState.READY, GroupState.MEMBERS
WARP_SYNC = Kind.WARP_SYNC
NOT_A_MEMBER = 100
"""Fault: a thread executes a ``.sync`` instruction whose member mask leaves it out (undefined by PTX)."""
SEPARATED = 101
"""Fault: an ``.aligned`` instruction reached by the threads of a warp at different places."""


@compiled
def collective(s, program, ctx, w, g, executing):
    """Execute a collective instruction at group ``g`` for the ``executing`` lanes (its guard applied).

    Lanes whose members are all here are done and the group's program counter moves on; others are split off and wait.
    Returns 0 or a fault code.
    """
    pc = s.pc[w, g]
    row = program.code[pc]
    base = s.blocks[w].ctypes.data
    todo = executing
    waiting = np.uint32(0)
    while todo:
        members = s.live[w]
        same = todo
        if row[MEMBERS] >= 0:
            plane = as_u32(base + row[MEMBERS])
            first = 0
            while not (todo >> np.uint32(first)) & np.uint32(1):
                first += 1
            members = plane[first]
            same = np.uint32(0)
            for lane in range(32):
                if (todo >> np.uint32(lane)) & np.uint32(1) and plane[lane] == members:
                    same |= np.uint32(1) << np.uint32(lane)
            if same & ~members:
                return NOT_A_MEMBER
        todo &= ~same
        if (members & s.live[w] & ~same) == 0:
            if row[KIND] != WARP_SYNC:
                status = call_kernel(row[FUNCTION], base, same, program.pool + row[OPERANDS], ctx)
                if status != 0:
                    return status
        else:
            waiting |= same
            if _wait(s, w, g, same, members) == g:
                return serve(s, program, ctx, w)
    rest = s.mask[w, g] & ~waiting
    s.mask[w, g] = rest
    s.pc[w, g] = pc + 1
    if waiting:
        return serve(s, program, ctx, w)
    return 0


@compiled
def _wait(s, w, g, lanes, members):
    """Split ``lanes`` off group ``g`` into a group that waits for its members; returns that group.

    Group ``g`` gives the lanes up later. With all 32 groups in use every group is a single lane, and it waits itself.
    """
    other = free_group(s, w)
    if other < 0:
        other = g
    s.mask[w, other] = lanes
    s.pc[w, other] = s.pc[w, g]
    s.state[w, other] = MEMBERS_STATE
    s.meet[w, other] = s.meet[w, g]
    s.depth[w, other] = s.depth[w, g]
    s.awaits[w, other] = members
    return other


@compiled
def serve(s, program, ctx, w):
    """Run the waiting instructions of a warp whose members have now all come."""
    for g in range(32):
        if s.mask[w, g] == 0 or s.state[w, g] != MEMBERS_STATE:
            continue
        members = s.awaits[w, g]
        row = program.code[s.pc[w, g]]
        here = np.uint32(0)
        one_place = True
        for h in range(32):
            if _partner(s, program.code, w, g, h):
                here |= s.mask[w, h]
                one_place = one_place and s.pc[w, h] == s.pc[w, g]
        if members & s.live[w] & ~here:
            continue
        status = np.int32(0)
        if row[KIND] != WARP_SYNC:
            base = s.blocks[w].ctypes.data
            if one_place:
                status = call_kernel(row[FUNCTION], base, here, program.pool + row[OPERANDS], ctx)
            else:
                status = _run_apart(s, program, ctx, w, g, np.uint32(here))
        if status != 0:
            s.counters[COUNT_FAULT_PC] = s.pc[w, g]
            return status
        for h in range(32):
            if h != g and _partner(s, program.code, w, g, h):
                s.state[w, h] = READY
                s.pc[w, h] += 1
        s.state[w, g] = READY
        s.pc[w, g] += 1
    return 0


@compiled
def _partner(s, code, w, g, h):
    """Whether group ``h`` waits at the same kind of instruction with the same members as ``g``."""
    if s.mask[w, h] == 0 or s.state[w, h] != MEMBERS_STATE or s.awaits[w, h] != s.awaits[w, g]:
        return False
    one, two = code[s.pc[w, g]], code[s.pc[w, h]]
    return one[KIND] == two[KIND] and one[FUNCTION] == two[FUNCTION]


@compiled
def _run_apart(s, program, ctx, w, g, here):
    """Members at different places: bring every group's operands to the staging registers, run there, carry results back."""
    base = s.blocks[w].ctypes.data
    into = True
    row = program.stage_at[s.pc[w, g]]
    if row < 0:
        return SEPARATED
    for h in range(32):
        if h == g or _partner(s, program.code, w, g, h):
            at = program.stage_at[s.pc[w, h]]
            _carry(base, program.stages, at + 3, program.stages[at], s.mask[w, h], into)
    status = call_kernel(
        program.code[s.pc[w, g], FUNCTION], base, here, program.pool + np.int64(program.stages[row + 2]), ctx
    )
    for h in range(32):
        if h == g or _partner(s, program.code, w, g, h):
            at = program.stage_at[s.pc[w, h]]
            start = at + 3 + 2 * program.stages[at]
            _carry(base, program.stages, start, program.stages[at + 1], s.mask[w, h], not into)
    return status


@compiled
def _carry(base, stages, start, count, lanes, into_stage):
    """Copy ``lanes`` of ``count`` places to (or from) their staging places."""
    for index in range(count):
        place, stage = stages[start + 2 * index], stages[start + 2 * index + 1]
        source, target = (place, stage) if into_stage else (stage, place)
        if place < 0:
            word = as_u32(base + ~target)
            word[0] = (word[0] & ~lanes) | (as_u32(base + ~source)[0] & lanes)
        else:
            for lane in range(32):
                if (lanes >> np.uint32(lane)) & np.uint32(1):
                    as_u32(base + target)[lane] = as_u32(base + source)[lane]
