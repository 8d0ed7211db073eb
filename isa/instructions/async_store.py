"""Stores and reductions that signal an mbarrier: st.async, red.async (PTX ISA 9.7.9.12, 9.7.13.5).

They are carried out when they are issued, and so are their signals: one of the orders that PTX allows. Types and operations are
those that ptxas 13.0 accepts for sm_90.
"""

from __future__ import annotations

import numpy as np

from isa.arith.lane import lane
from isa.instructions.atomic import COMBINE
from isa.instructions.memory import read, write
from isa.machine import OUT_OF_BOUNDS, SHARED, SPACES, fault, in_shared, locate
from isa.mbarrier import complete_tx
from isa.spec import flag, instruction, optional

_ONE = np.uint32(1)
_BYTES = {f"{kind}{bits}": bits // 8 for kind in "busf" for bits in (32, 64)}
_COUNT = {"": 1, "v2": 2, "v4": 4}
_SIGNAL = ("mbarrier::complete_tx::bytes",)
_SPACE = optional("shared", "shared::cta", "shared::cluster")
"""The PTX ISA has ``shared::cluster`` and generic addresses; ptxas 13.0 takes the others, too, and makes the same of them."""


@lane
def _target(ctx, space, address, size, number):
    """Host address of what a lane's store or signal goes to, which is in shared memory, or 0 after recording a fault."""
    if not in_shared(space, address):
        fault(ctx, OUT_OF_BOUNDS, number, SHARED, address, size)
        return np.int64(0)
    return locate(ctx, space, address, size, number)


_ABSENT = (
    "without .mbarrier::complete_tx::bytes there is only st.async.mmio, of sm_100 (PTX ISA 9.7.9.12); for earlier targets "
    "ptxas 13.0 accepts it and stores nothing"
)


def _fits(params):
    if not params["done"]:
        return _ABSENT
    wide = _COUNT[str(params["vec"])] * _BYTES[str(params["t"])] > 16
    return f".{params['vec']}.{params['t']} is wider than 16 bytes (PTX ISA 9.7.9.12)" if wide else None


@instruction(
    "st.async{weak}{space}{done}{vec}.{t} [a], b*vec, [c]",
    body="warp",
    timing="st_async",
    section="9.7.9.12",
    memory="store",
    sm=90,
    ptx="8.1",
    valid=_fits,
    weak=flag("weak"),
    space=_SPACE,
    done=optional(*_SIGNAL),
    vec=optional("v2", "v4"),
    t=("b32", "b64", "u32", "u64", "s32", "s64", "f32", "f64"),
)
def st_async(a, b, c, mask, ctx, *, space, vec, t):
    """Store to the shared memory of a CTA of the cluster, and tell an mbarrier there how many bytes have come."""
    size = _BYTES[t]
    count = _COUNT[vec]
    for number in range(32):
        if (mask >> np.uint32(number)) & _ONE:
            host = _target(ctx, SPACES[space], a[number], size * count, number)
            if host == 0:
                return 1
            barrier = _target(ctx, SPACES[space], c[number], 8, number)
            if barrier == 0:
                return 1
            for index in range(count):
                write(host + index * size, b[index, number], size)
            status = complete_tx(ctx, barrier, size * count, number)
            if status != 0:
                return status
    return 0


_OPERATIONS = {
    "add": ("u32", "s32", "u64", "s64"),
    "min": ("u32", "s32"),
    "max": ("u32", "s32"),
    "inc": ("u32",),
    "dec": ("u32",),
    "and": ("b32",),
    "or": ("b32",),
    "xor": ("b32",),
}


def _combines(params):
    op, t = str(params["op"]), str(params["t"])
    allowed = _OPERATIONS[op]
    return None if t in allowed else f".{op} takes {', '.join('.' + x for x in allowed)}, not .{t} (PTX ISA 9.7.13.5)"


@instruction(
    "red.async.relaxed.cluster{space}.{done}.{op}.{t} [a], b, [c]",
    body="warp",
    timing="st_async",
    section="9.7.13.5",
    memory="atomic",
    sm=90,
    ptx="8.1",
    valid=_combines,
    space=_SPACE,
    done=_SIGNAL,
    op=tuple(_OPERATIONS),
    t=("u32", "s32", "u64", "s64", "b32"),
)
def red_async(a, b, c, mask, ctx, *, space, op, t):
    """Combine a value with memory of a CTA of the cluster, and tell an mbarrier there how many bytes have come."""
    size = _BYTES[t]
    for number in range(32):
        if (mask >> np.uint32(number)) & _ONE:
            host = _target(ctx, SPACES[space], a[number], size, number)
            if host == 0:
                return 1
            barrier = _target(ctx, SPACES[space], c[number], 8, number)
            if barrier == 0:
                return 1
            write(host, COMBINE[op, t](read(host, size), b[number]), size)
            status = complete_tx(ctx, barrier, size, number)
            if status != 0:
                return status
    return 0
