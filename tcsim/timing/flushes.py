"""Which barriers of a program count as a wavefront of shared memory: on an H200 those before which a warp of the CTA has
accessed memory since the last one (a loop of nothing but barriers counts none). Here accesses are looked for in the listing:
between a barrier and the one before it, in a loop also around its end.
"""

from __future__ import annotations

from isa.program import KIND, TARGET, Kind, Program

__all__ = ["flushing_barriers"]

_BARRIERS = ("BAR.SYNC", "BAR.RED", "bar.sync", "bar.red", "barrier.sync", "barrier.red")


def flushing_barriers(program: Program) -> list[int]:
    """The barriers of a CTA behind accesses to memory."""
    barriers = [pc for pc, opcode in enumerate(program.opcodes) if opcode.startswith(_BARRIERS)]
    jumps = [pc for pc in range(len(program)) if program.code[pc, KIND] == Kind.BRANCH and program.code[pc, TARGET] <= pc]
    loops = sorted((pc - int(program.code[pc, TARGET]), int(program.code[pc, TARGET]), pc) for pc in jumps)
    found = []
    for barrier in barriers:
        first, end = next(((first, end) for _, first, end in loops if first <= barrier <= end), (0, barrier))
        others = [pc for pc in barriers if first <= pc <= end]
        before = max((pc for pc in others if pc < barrier), default=first)
        window = [*range(before, barrier)]
        if before == first and others:
            window += range(others[-1], end + 1)
        if any(program.memory[pc] is not None for pc in window):
            found.append(barrier)
    return found
