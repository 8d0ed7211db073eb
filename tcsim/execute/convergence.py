"""Explicit convergence: how machine code brings the lanes of a warp together again (BSYNC, WARPSYNC, BREAK), and its jumps.

A group that comes to such a place waits there until all live lanes of its member mask have, then they go on as one group.
Nothing ever lets them go earlier, as nothing does on hardware.
"""

from __future__ import annotations

import numpy as np

from isa.compiled import compiled
from isa.kernels.planes import as_i32, as_u32
from isa.program import EXTRA, MEMBERS, OPERANDS
from tcsim.execute.groups import free_group
from tcsim.execute.state import GroupState

__all__ = ["converge", "diverged", "jump", "leave", "meet_waiting"]

READY, CONVERGING = GroupState.READY, GroupState.CONVERGING


@compiled
def _first(lanes):
    """The lowest lane of a mask."""
    lane = 0
    while not (lanes >> np.uint32(lane)) & np.uint32(1):
        lane += 1
    return lane


@compiled
def _alike(plane, lanes):
    """Those of ``lanes`` that hold the same value as the lowest of them, and that value."""
    value = plane[_first(lanes)]
    same = np.uint32(0)
    for lane in range(32):
        if (lanes >> np.uint32(lane)) & np.uint32(1) and plane[lane] == value:
            same |= np.uint32(1) << np.uint32(lane)
    return same, value


@compiled
def converge(s, program, w, g, executing):
    """The ``executing`` lanes of group ``g`` come to a place of convergence. Those that are complete go on, others wait.

    Lanes with different members go on together all the same, unless the instruction (EXTRA 1) is to be followed by something
    that each set of members does by itself.
    """
    pc = s.pc[w, g]
    row = program.code[pc]
    todo = executing
    while todo:
        same, members = todo, s.live[w]
        if row[MEMBERS] >= 0:
            same, members = _alike(as_u32(s.blocks[w].ctypes.data + row[MEMBERS]), todo)
        todo &= ~same
        complete = (members & s.live[w] & ~same) == 0
        if complete and (row[EXTRA] != 1 or same == s.mask[w, g]):
            continue
        other = g if same == s.mask[w, g] else free_group(s, w)
        if other != g:
            s.mask[w, g] &= ~same
        s.mask[w, other] = same
        s.pc[w, other] = pc + 1 if complete else pc
        s.state[w, other] = READY if complete else CONVERGING
        s.meet[w, other] = -1
        s.awaits[w, other] = members
        if other == g:  # nobody is left who goes on
            meet_waiting(s, w)
            return
    s.pc[w, g] = pc + 1
    meet_waiting(s, w)


@compiled
def meet_waiting(s, w):
    """Let the waiting groups go on whose members are now all at the same place, each set of them as one group."""
    for g in range(32):
        if s.mask[w, g] == 0 or s.state[w, g] != CONVERGING:
            continue
        here = np.uint32(0)
        for h in range(32):
            if _with(s, w, g, h):
                here |= s.mask[w, h]
        if s.awaits[w, g] & s.live[w] & ~here:
            continue
        for h in range(32):
            if h != g and _with(s, w, g, h):
                s.mask[w, h] = 0
        s.mask[w, g] = here
        s.state[w, g] = READY
        s.pc[w, g] += 1


@compiled
def _with(s, w, g, h):
    """Whether group ``h`` waits where ``g`` does, for the same lanes."""
    waits = s.mask[w, h] != 0 and s.state[w, h] == CONVERGING
    return waits and s.pc[w, h] == s.pc[w, g] and s.awaits[w, h] == s.awaits[w, g]


@compiled
def leave(s, program, w, row, lanes):
    """``lanes`` give up their part in a convergence barrier: nobody waits for them there."""
    plane = as_u32(s.blocks[w].ctypes.data + row[MEMBERS])
    for lane in range(32):
        plane[lane] &= ~lanes
    for g in range(32):
        if s.mask[w, g] != 0 and s.state[w, g] == CONVERGING and program.code[s.pc[w, g], MEMBERS] == row[MEMBERS]:
            s.awaits[w, g] &= ~lanes
    meet_waiting(s, w)


@compiled
def diverged(s, w, row, lanes):
    """Whether the live lanes of a member mask are more than ``lanes``."""
    members = s.live[w]
    if row[MEMBERS] >= 0:
        members &= as_u32(s.blocks[w].ctypes.data + row[MEMBERS])[_first(lanes) if lanes else 0]
    return (members & ~lanes) != 0


@compiled
def jump(s, program, w, g, lanes):
    """Those of ``lanes`` that go to the same code address as the lowest go there; the others of them stay for a turn of their
    own, as they do on hardware (an indirect branch with k targets issues k times, by ``smsp__inst_executed`` of an H200).
    Lanes that do not execute it go on.

    Returns False for an address outside the program.
    """
    pc = s.pc[w, g]
    operands = as_i32(program.pool + program.code[pc, OPERANDS])
    same, address = _alike(as_u32(s.blocks[w].ctypes.data + operands[0]), lanes)
    target = np.int64(np.int32(address)) // 16 + np.int64(operands[1])
    if address & np.uint32(15) or target < 0 or target >= len(program.code):
        return False
    skipping = s.mask[w, g] & ~lanes
    staying = lanes & ~same
    s.mask[w, g] = same
    s.pc[w, g] = target
    if staying:
        _start(s, w, staying, np.int64(pc))
    if skipping:
        _start(s, w, skipping, np.int64(pc) + 1)
    return True


@compiled
def _start(s, w, lanes, pc):
    """A group of its own for ``lanes``."""
    other = free_group(s, w)
    s.mask[w, other] = lanes
    s.pc[w, other] = pc
    s.state[w, other] = READY
    s.meet[w, other] = -1
