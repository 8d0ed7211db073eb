"""What a warp does in each stall, in words, and what helps."""

from __future__ import annotations

__all__ = ["MBARRIER_ADVICE", "STALL_ADVICE"]

STALL_ADVICE = {
    "long_scoreboard": (
        "waits for data from global or local memory",
        "load earlier (software pipelining, cp.async), keep data in registers or shared memory, or raise the occupancy",
    ),
    "short_scoreboard": (
        "waits for shared memory or a special function",
        "read shared memory with wider instructions, ahead of their use; look at bank conflicts",
    ),
    "mio_throttle": (
        "finds the queue to shared memory and special functions full",
        "fewer, wider accesses to shared memory (ld.shared.v4, ldmatrix.x4)",
    ),
    "lg_throttle": (
        "finds the queue to global memory full",
        "fewer, wider accesses to global memory (float4), or shared memory for what is read again",
    ),
    "barrier": (
        "waits at a barrier for other warps of its CTA",
        "smaller CTAs, evener work between barriers, or fewer barriers (double buffering)",
    ),
    "math_pipe_throttle": (
        "finds its arithmetic pipe busy",
        "nothing, if this is the pipe that should be busy; else mix in work for other pipes",
    ),
    "wait": (
        "waits out the fixed latency of the instruction before",
        "more independent instructions in a row (unrolling), or more warps",
    ),
    "no_instruction": (
        "waits for its next instruction",
        "less unrolled code, so that loops fit the instruction cache; larger launches, so that the first misses matter less",
    ),
    "branch_resolving": ("waits for a branch's target", "fewer branches: predication, unrolling"),
    "membar": ("waits at a memory fence", "fences of a narrower scope, and fewer of them"),
    "drain": ("has ended, and waits for its stores", "fewer bytes stored at the end, or stored earlier"),
    "not_selected": ("could issue, but another warp did", "nothing: there are warps enough"),
}
"""Stall reason: what a warp does in it, and what helps."""

MBARRIER_ADVICE = (
    "waits for an mbarrier, that is for what another warp or a copy does",
    "more stages between producers and consumers, copies that start earlier, or less work between them",
)
"""The same of a warp that tries an mbarrier, which stalls as for shared memory."""
