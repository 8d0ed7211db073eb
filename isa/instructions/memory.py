"""Loads, stores and prefetches (PTX ISA 9.7.9.8 to 9.7.9.17).

Cache operators, eviction priorities, ``.volatile`` and the memory-ordering qualifiers change when other threads see a value,
not the value: the executor performs every access in program order. They are accepted and do not reach the body.
"""

from __future__ import annotations

import numpy as np

from isa.arith.lane import lane
from isa.kernels.planes import load_u8, load_u16, load_u32, load_u64, store_u8, store_u16, store_u32, store_u64
from isa.machine import SPACES, locate
from isa.spec import flag, instruction, optional

_TYPES = ("b8", "b16", "b32", "b64", "u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "f32", "f64")
_READ_SPACES = ("const", "global", "local", "param", "param::entry", "param::func", "shared", "shared::cta", "shared::cluster")
# Stores to parameters of functions become moves (isa.lower.parameters); there are none to those of kernels.
_WRITE_SPACES = ("global", "local", "param", "param::func", "shared", "shared::cta", "shared::cluster")
_SCOPES = ("cta", "cluster", "gpu", "sys")
_EVICT = ("L1::evict_normal", "L1::evict_unchanged", "L1::evict_first", "L1::evict_last", "L1::no_allocate")
_BYTES = {t: int(t[1:]) // 8 for t in _TYPES}
_SIGNED = ("s8", "s16")
_TO_TYPE = {t: getattr(np, ("int" if t[0] == "s" else "uint") + t[1:]) for t in _TYPES if t[0] != "f"}
_FIELD_MASK = {t: (1 << int(t[1:])) - 1 for t in ("b8", "b16", "b32", "b64")}


def _access_timing(kind):
    def timing(params):
        space = str(params["space"]).partition("::")[0] or "generic"
        if (kind, space) == ("store", "param"):
            return "mov"  # isa.lower.parameters leaves no other
        return f"{kind}.{'global' if space == 'generic' else space}"

    return timing


@lane
def read(host, size):
    """``size`` bytes of host memory, zero-extended to 64 bits."""
    if size == 1:
        return np.uint64(load_u8(host))
    if size == 2:
        return np.uint64(load_u16(host))
    if size == 4:
        return np.uint64(load_u32(host))
    return load_u64(host)


@lane
def write(host, value, size):
    """The low ``size`` bytes of a 64-bit value to host memory."""
    if size == 1:
        store_u8(host, np.uint8(value))
    elif size == 2:
        store_u16(host, np.uint16(value))
    elif size == 4:
        store_u32(host, np.uint32(value))
    else:
        store_u64(host, np.uint64(value))


@instruction(
    "ld{order}{scope}{space}{nc}{cop}{evict}{level2}{prefetch}{vec}.{t} d*vec, [a]",
    body="warp",
    timing=_access_timing("load"),
    memory="load",
    section="9.7.9.8",
    relaxed=("d",),
    order=optional("weak", "volatile", "relaxed", "acquire"),
    scope=optional(*_SCOPES),
    space=optional(*_READ_SPACES),
    nc=flag("nc"),
    cop=optional("ca", "cg", "cs", "lu", "cv"),
    evict=optional(*_EVICT),
    level2=optional("L2::evict_normal", "L2::evict_first", "L2::evict_last"),
    prefetch=optional("L2::64B", "L2::128B", "L2::256B"),
    vec=optional("v2", "v4", "v8"),
    t=_TYPES,
)
def ld(d, a, mask, ctx, *, space, vec, t):
    """Load one register or a vector per lane. Narrow types are extended to the register's width as their sign says."""
    size = _BYTES[t]
    count = _COUNT[vec]
    for number in range(32):
        if (mask >> np.uint32(number)) & np.uint32(1):
            host = locate(ctx, SPACES[space], a[number], size * count, number)
            if host == 0:
                return 1
            for index in range(count):
                value = read(host + index * size, size)
                if t == "s8":
                    value = np.uint64(np.int64(np.int8(value)))
                if t == "s16":
                    value = np.uint64(np.int64(np.int16(value)))
                if t == "s32":
                    value = np.uint64(np.int64(np.int32(value)))
                d[index, number] = value
    return 0


_COUNT = {"": 1, "v2": 2, "v4": 4, "v8": 8}


@instruction(
    "st{order}{scope}{space}{cop}{evict}{level2}{vec}.{t} [a], b*vec",
    body="warp",
    timing=_access_timing("store"),
    memory="store",
    section="9.7.9.11",
    relaxed=("b",),
    order=optional("weak", "volatile", "relaxed", "release"),
    scope=optional(*_SCOPES),
    space=optional(*_WRITE_SPACES),
    cop=optional("wb", "cg", "cs", "wt"),
    evict=optional(*_EVICT),
    level2=optional("L2::evict_normal", "L2::evict_first", "L2::evict_last"),
    vec=optional("v2", "v4", "v8"),
    t=_TYPES,
)
def st(a, b, mask, ctx, *, space, vec, t):
    """Store one register or a vector per lane. Where lanes write the same bytes, the highest lane's value stays."""
    size = _BYTES[t]
    count = _COUNT[vec]
    for number in range(32):
        if (mask >> np.uint32(number)) & np.uint32(1):
            host = locate(ctx, SPACES[space], a[number], size * count, number)
            if host == 0:
                return 1
            for index in range(count):
                write(host + index * size, b[index, number], size)
    return 0


@instruction(
    "prefetch{space}.{level} [a:b8]",
    control="nothing",
    timing="nothing",
    section="9.7.9.15",
    ptx="2.0",
    space=optional("global", "local"),
    level=("L1", "L2", "L2::evict_last", "L2::evict_normal"),
)
@instruction("prefetchu.L1 [a:b8]", control="nothing", timing="nothing", section="9.7.9.15", ptx="2.0")
def prefetch() -> None:
    """Bring a line nearer. No value changes."""


# ------------------------------------------------------------------------------------------- parameters in registers

_FIELDS = ("b8", "u8", "s8", "b16", "u16", "s16", "b32", "u32", "s32", "b64", "u64", "s64")
_FIELD_NOTE = "Internal: part of a function's parameter that is in registers; not PTX."


@instruction(
    "extract_field.{t}.{w} d:t, a:w, b:u32",
    timing="alu",
    section="9.7.9.8",
    relaxed=("d",),
    note=_FIELD_NOTE,
    t=_FIELDS,
    w=("b32", "b64"),
)
def extract_field(a, b, *, t, w):
    """``ld.param`` of part of a register: the bits of ``a`` from bit ``b`` on, extended to the width of ``d``."""
    if w == "b64":
        return _TO_TYPE[t](a >> np.uint64(b))
    return _TO_TYPE[t](a >> np.uint32(b))


@instruction(
    "insert_field.{t}.{w} d:w, a:w, b:t, c:u32",
    timing="alu",
    section="9.7.9.11",
    relaxed=("b",),
    note=_FIELD_NOTE,
    t=("b8", "b16", "b32", "b64"),
    w=("b32", "b64"),
)
def insert_field(a, b, c, *, t, w):
    """``st.param`` to part of a register: ``a`` with the bits of ``b`` from bit ``c`` on."""
    shift = np.uint64(c)
    hole = np.uint64(_FIELD_MASK[t]) << shift
    whole = (np.uint64(a) & ~hole) | ((np.uint64(b) << shift) & hole)
    return whole if w == "b64" else np.uint32(whole)
