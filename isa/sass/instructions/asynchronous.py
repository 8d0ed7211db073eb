"""Asynchronous barriers (SYNCS, ARRIVES), what signals them (STAS, REDAS), and the barrier of a cluster.

What an mbarrier object is: :mod:`isa.mbarrier`; the machine makes one by writing its first value.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from isa.arith.lane import lane
from isa.arith.stack import stack_array
from isa.instructions.cluster import barrier_cluster_arrive, barrier_cluster_wait
from isa.instructions.control import first_lane
from isa.instructions.mbarrier import _answer, _answer_or_wait, _completed
from isa.instructions.memory import read, write
from isa.instructions.warp import has
from isa.kernels.planes import store_u64
from isa.machine import SHARED, locate
from isa.mbarrier import arrive, complete_tx, drop, expect_tx, parity, state
from isa.sass.instructions.shared_atomics import COMBINE, HINTS
from isa.sass.registry import machine
from isa.spec import flag, optional

LOW = np.uint64(0xFFFFFFFF)
_SYNCS: dict[str, Any] = {"pipe": "lsu", "body": "warp", "state": "shared"}
_OBJECT: dict[str, Any] = _SYNCS | {"memory": "mbarrier"}


@machine("SYNCS.EXCH.64 d:u64, [a], b:u64", **_OBJECT)
def syncs_exchange(a, b, mask, ctx):
    """Make an mbarrier object by writing its first value. (What was there before is not wanted by any program seen.)"""
    number = first_lane(mask)
    host = locate(ctx, SHARED, a[number], 8, number)
    if host == 0:
        return 1
    store_u64(host, b[number])
    return 0


@machine("SYNCS.CCTL.IV [a]", control="nothing", pipe="lsu")
@machine("ARRIVES.LDGSTSBAR.64.TRANSCNT [a]", control="nothing", pipe="lsu")
@machine("SYNCS.ARRIVE.TRANS64.RED.A0T1 d:u64, [a], b:u32", control="nothing", pipe="lsu")
def syncs_nothing() -> None:
    """End an object's life; or expect one arrival more, for copies that have come by then (``cp.async.mbarrier.arrive``)."""


@machine("ARRIVES.LDGSTSBAR.64.ARVCNT [a]", **_OBJECT)
def arrives(a, mask, ctx):
    """Arrive when the thread's copies so far have arrived: at once, as they have."""
    for number in range(32):
        if has(mask, number):
            host = locate(ctx, SHARED, a[number], 8, number)
            if host == 0:
                return 1
            status = arrive(ctx, host, 1, number)
            if status != 0:
                return status
    return 0


@lane
def _signal(ctx, host, value, number, kind, optout):
    """What an arrival does: ``A1T0`` is one, ``ART0`` are as many as the register says; ``A0TR`` expects that many bytes,
    ``A0TX`` takes note that they have come; without any of these: expect bytes, then arrive once."""
    if kind == "A0TR":
        return expect_tx(ctx, host, value, number)
    if kind == "A0TX":
        return complete_tx(ctx, host, value, number)
    if kind == "":
        status = expect_tx(ctx, host, value, number)
        if status != 0:
            return status
    count = value if kind == "ART0" else np.uint32(1)
    if optout:
        return drop(ctx, host, count, number)
    return arrive(ctx, host, count, number)


@machine(
    "SYNCS.ARRIVE.TRANS64{red}{optout}{kind} d:u64, [a], b:u32",
    red=flag("RED"),
    optout=flag("OPTOUT"),
    kind=optional("A1T0", "ART0", "A0TR", "A0TX"),
    **_OBJECT,
)
def syncs_arrive(d, a, b, mask, ctx, *, kind, optout):
    """Arrive, expect bytes, or take note of bytes; ``d`` gets the state before. ``.OPTOUT``: later phases expect fewer."""
    for number in range(32):
        if has(mask, number):
            host = locate(ctx, SHARED, a[number], 8, number)
            if host == 0:
                return 1
            d[number] = state(read(host, 8))
            status = _signal(ctx, host, b[number], number, kind, optout)
            if status != 0:
                return status
    return 0


@machine(
    "SYNCS.ARRIVE.TRANS64.TMASK{optout}.ART0 d:u64, [a], b:u32",
    optout=flag("OPTOUT"),
    **_OBJECT,
)
def syncs_arrive_together(d, a, b, mask, ctx, *, optout):
    """As many arrivals as the register says, of all lanes at once (``mbarrier.arrive.noComplete``): ``d`` gets the lanes that
    arrive at the same object, and the upper word of its state before all of them; the program counts lanes from there."""
    for number in range(32):
        if has(mask, number):
            host = locate(ctx, SHARED, a[number], 8, number)
            if host == 0:
                return 1
            together = np.uint32(0)
            for other in range(32):
                if has(mask, other) and a[other] == a[number]:
                    together |= np.uint32(1) << np.uint32(other)
            d[number] = state(read(host, 8)) | np.uint64(together)
    for number in range(32):
        if has(mask, number):
            host = locate(ctx, SHARED, a[number], 8, number)
            status = drop(ctx, host, b[number], number) if optout else arrive(ctx, host, b[number], number)
            if status != 0:
                return status
    return 0


@machine("RPCMOV.32 d:u32, a:u32", pipe="cbu")
def rpcmov(a):
    """Move a word to or from the thread's register of a return address, where programs keep values for a while."""
    return a


# ---------------------------------------------------------------------------------------------------- mbarriers up to sm_89
# There the object is an agreement of ptxas's programs: the upper word counts arrivals up to 2^31, which flips its highest bit,
# the phase; the lower word holds 2^30 minus the arrivals expected in a phase (read from what ptxas 13.0 makes of
# ``mbarrier.init``, ``.arrive_drop``, ``.pending_count`` and ``.test_wait``).

PHASE = np.uint32(0x80000000)


@lane
def _arrive_counting(host):
    """One arrival: returns the object before it."""
    old = read(host, 8)
    count = np.uint32(np.uint32(old >> np.uint64(32)) + np.uint32(1))
    if count & ~PHASE == np.uint32(0):  # the phase has ended: what the next one expects
        count += np.uint32(np.uint32(old) + np.uint32(0x40000000)) & ~PHASE
    write(host, (np.uint64(count) << np.uint64(32)) | (old & LOW), 8)
    return old


_ARRIVE: dict[str, Any] = {"memory": "atomic", "width": lambda p: 8}


@machine("ATOM.E.ARRIVE.64{order}{scope} p, d:u64, [a]", pipe="lsu", body="warp", **_ARRIVE, **HINTS)
@machine("ATOMS.ARRIVE.64 p?, d:u64, [a]", **_ARRIVE, **_SYNCS)
def atoms_arrive(p, d, a, mask, ctx, *, space):
    """Arrive; ``d`` gets the object before."""
    for number in range(32):
        if has(mask, number):
            host = locate(ctx, space, a[number], 8, number)
            if host == 0:
                return 1
            d[number] = _arrive_counting(host)
    p[0] = mask
    return 0


@machine("ARRIVES.LDGSTSBAR.64 [a]", **_SYNCS)
def arrives_counting(a, mask, ctx):
    """Arrive when the thread's copies so far have arrived: at once, as they have."""
    for number in range(32):
        if has(mask, number):
            host = locate(ctx, SHARED, a[number], 8, number)
            if host == 0:
                return 1
            _arrive_counting(host)
    return 0


# --------------------------------------------------------------------------------------------------------------- waiting

_WAITING: dict[str, Any] = _OBJECT | {"waits": True}


@machine("SYNCS.PHASECHK.TRANS64 p, [a], b:u32", **_WAITING)
def syncs_test(p, a, b, mask, ctx):
    """Whether the phase has ended whose parity is the highest bit of ``b``, as in the upper word of a state."""
    phases = stack_array(32, np.uint32)
    for number in range(32):
        phases[number] = parity(np.uint64(b[number]) << np.uint64(32))
    return _answer(p, _completed(ctx, a, phases, mask, SHARED))


@machine("SYNCS.PHASECHK.TRANS64.TRYWAIT p, [a], b:u32", **_WAITING)
def syncs_try(p, a, b, mask, ctx):
    """The same, waiting for a while."""
    phases = stack_array(32, np.uint32)
    for number in range(32):
        phases[number] = parity(np.uint64(b[number]) << np.uint64(32))
    return _answer_or_wait(ctx, p, _completed(ctx, a, phases, mask, SHARED))


# ----------------------------------------------------------------------------------------- stores that signal a barrier
# The address is a pair: that of the data, then that of the mbarrier object, both in shared memory of a CTA of the cluster.

SIZES = {"": 4, "64": 8, "128": 16}


@machine(
    "STAS{size} [a], b:u32*2",
    memory="async_store",
    width=lambda p: SIZES[str(p["size"])],
    operands=lambda p: {"b": ("u32", SIZES[str(p["size"])] // 4)},
    size=optional("64", "128"),
    pipe="lsu",
    body="warp",
)
def stas(a, b, mask, ctx, *, size):
    """Store, and tell the barrier how many bytes have come."""
    for number in range(32):
        if has(mask, number):
            host = locate(ctx, SHARED, a[number] & LOW, SIZES[size], number)
            barrier = locate(ctx, SHARED, a[number] >> np.uint64(32), 8, number) if host != 0 else host
            if barrier == 0:
                return 1
            for index in range(SIZES[size] // 4):
                write(host + 4 * index, np.uint64(b[index, number]), 4)
            status = complete_tx(ctx, barrier, SIZES[size], number)
            if status != 0:
                return status
    return 0


WIDTH = {"": 4, "S32": 4, "64": 8}


@machine(
    "REDAS.{op}{t} [a], b",
    memory="async_atomic",
    width=lambda p: WIDTH[str(p["t"])],
    operands=lambda p: {"b": ("u64" if p["t"] == "64" else "u32", 1)},
    op=("ADD", "MIN", "MAX", "INC", "DEC", "AND", "OR", "XOR"),
    t=optional("S32", "64"),
    pipe="lsu",
    body="warp",
)
def redas(a, b, mask, ctx, *, op, t):
    """Combine a value with memory, and tell the barrier how many bytes have come."""
    for number in range(32):
        if has(mask, number):
            host = locate(ctx, SHARED, a[number] & LOW, WIDTH[t], number)
            barrier = locate(ctx, SHARED, a[number] >> np.uint64(32), 8, number) if host != 0 else host
            if barrier == 0:
                return 1
            write(host, COMBINE[op, t](read(host, WIDTH[t]), np.uint64(b[number])), WIDTH[t])
            status = complete_tx(ctx, barrier, WIDTH[t], number)
            if status != 0:
                return status
    return 0


# ------------------------------------------------------------------------------------------------------------- clusters

machine("UCGABAR_ARV", pipe="cbu", body="warp")(barrier_cluster_arrive)
machine("UCGABAR_WAIT", pipe="cbu", body="warp", waits=True)(barrier_cluster_wait)


# ------------------------------------------------------------------------------------------- registers, dependent grids


@machine("USETMAXREG.DEALLOC.CTAPOOL n:u32", control="nothing", pipe="cbu")
@machine("ACQBULK", control="nothing", pipe="cbu")
@machine("PREEXIT", control="nothing", pipe="cbu")
def dependent_grids() -> None:
    """Give registers back; wait for, or start, a dependent grid: of none of which there is anything to see here."""


@machine("USETMAXREG.TRY_ALLOC.CTAPOOL p, n:u32", pipe="cbu", body="warp")
def usetmaxreg(p, mask):
    """Take registers, which there always are."""
    p[0] = mask
    return 0
