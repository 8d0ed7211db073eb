"""Stores and reductions that signal an mbarrier: st.async, red.async (PTX ISA 9.7.9.12, 9.7.13.5).

They are carried out when they are issued, and so are their signals: one of the orders that PTX allows. Types and operations are
those that ptxas 13.0 accepts for sm_90.
"""

from __future__ import annotations

import numpy as np

from isa.instructions.atomic import COMBINE
from isa.instructions.memory import read, write
from isa.machine import SHARED, locate
from isa.mbarrier import complete_tx
from isa.spec import flag, instruction, optional

_ONE = np.uint32(1)
_BYTES = {f"{kind}{bits}": bits // 8 for kind in "busf" for bits in (32, 64)}
_COUNT = {"": 1, "v2": 2, "v4": 4}
_SIGNAL = ("mbarrier::complete_tx::bytes",)


def _fits(params):
    wide = _COUNT[str(params["vec"])] * _BYTES[str(params["t"])] > 16
    return f".{params['vec']}.{params['t']} is wider than 16 bytes (PTX ISA 9.7.9.12)" if wide else None


@instruction(
    "st.async{weak}.{space}.{done}{vec}.{t} [a], b*vec, [c]",
    body="warp",
    timing="st_async",
    section="9.7.9.12",
    memory="store",
    sm=90,
    ptx="8.1",
    valid=_fits,
    weak=flag("weak"),
    space=("shared::cluster",),
    done=_SIGNAL,
    vec=optional("v2", "v4"),
    t=("b32", "b64", "u32", "u64", "s32", "s64", "f32", "f64"),
)
def st_async(a, b, c, mask, ctx, *, vec, t):
    """Store to the shared memory of a CTA of the cluster, and tell an mbarrier there how many bytes have come."""
    size = _BYTES[t]
    count = _COUNT[vec]
    for number in range(32):
        if (mask >> np.uint32(number)) & _ONE:
            host = locate(ctx, SHARED, a[number], size * count, number)
            if host == 0:
                return 1
            barrier = locate(ctx, SHARED, c[number], 8, number)
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
    "red.async.relaxed.cluster.{space}.{done}.{op}.{t} [a], b, [c]",
    body="warp",
    timing="st_async",
    section="9.7.13.5",
    memory="atomic",
    sm=90,
    ptx="8.1",
    valid=_combines,
    space=("shared::cluster",),
    done=_SIGNAL,
    op=tuple(_OPERATIONS),
    t=("u32", "s32", "u64", "s64", "b32"),
)
def red_async(a, b, c, mask, ctx, *, op, t):
    """Combine a value with memory of a CTA of the cluster, and tell an mbarrier there how many bytes have come."""
    size = _BYTES[t]
    for number in range(32):
        if (mask >> np.uint32(number)) & _ONE:
            host = locate(ctx, SHARED, a[number], size, number)
            if host == 0:
                return 1
            barrier = locate(ctx, SHARED, c[number], 8, number)
            if barrier == 0:
                return 1
            write(host, COMBINE[op, t](read(host, size), b[number]), size)
            status = complete_tx(ctx, barrier, size, number)
            if status != 0:
                return status
    return 0
