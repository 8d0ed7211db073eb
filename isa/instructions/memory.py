"""Loads and stores (PTX ISA 9.7.9.8 to 9.7.9.11).

Cache operators, eviction priorities and policies, ``.volatile`` and the memory-ordering qualifiers change when other threads
see a value, not the value: the executor performs every access in program order. They are accepted and do not reach the body.
What only hints is in :mod:`isa.instructions.cache_hints`.
"""

from __future__ import annotations

from typing import Any

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
_EVICT_L2 = ("L2::evict_normal", "L2::evict_first", "L2::evict_last")
_STRONG = ("relaxed", "acquire", "release")
_ORDERED_SPACES = ("", "global", "shared", "shared::cta", "shared::cluster")
_BYTES = {t: int(t[1:]) // 8 for t in _TYPES}
_COUNT = {"": 1, "v2": 2, "v4": 4, "v8": 8}
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


def _ordering(p):
    """Why the ordering qualifiers do not go together (PTX ISA 9.7.9.8, 9.7.9.11)."""
    order, space = str(p["order"]), str(p["space"])
    if (order in _STRONG) != bool(p["scope"]):
        if p["scope"]:
            return f".{p['scope']} is the scope of .relaxed, .acquire or .release, and none is given"
        return f".{order} needs a scope: .cta, .cluster, .gpu or .sys"
    if p["mmio"] and (order, p["scope"]) != ("relaxed", "sys"):
        return ".mmio goes with .relaxed.sys only"
    if order in _STRONG:
        if space not in _ORDERED_SPACES:
            return f".{order} is for global and shared memory, not .{space}"
        if p["cop"]:
            return f".{order} and the cache operator .{p['cop']} exclude each other"
    return None


def _hinted(p):
    """Why the cache hints do not fit the state space."""
    space = str(p["space"])
    far = [f".{p[name]}" for name in ("evict", "level2", "prefetch") if p.get(name)]
    if p.get("hint"):
        far.append(".L2::cache_hint")
    if far and space not in ("", "global"):
        return f"{far[0]} is for global memory, not .{space}"
    if p["evict"] and p["cop"]:
        return f".{p['evict']} and the cache operator .{p['cop']} exclude each other"
    return None


def _fits(p):
    if p.get("vec") and _COUNT[str(p["vec"])] * _BYTES[str(p["t"])] > 32:
        return f".{p['vec']}.{p['t']} is wider than 32 bytes"
    return None


def _load_rules(p):
    if p["nc"] and (p["space"] != "global" or p["order"] not in ("", "weak")):
        return ".nc is for weak loads from .global"
    return _ordering(p) or _hinted(p) or _fits(p)


def _store_rules(p):
    return _ordering(p) or _hinted(p) or _fits(p)


_LOAD: dict[str, Any] = {
    "body": "warp",
    "timing": _access_timing("load"),
    "memory": "load",
    "section": "9.7.9.8",
    "relaxed": ("d",),
    "valid": _load_rules,
    "order": optional("weak", "volatile", "relaxed", "acquire"),
    "mmio": flag("mmio"),
    "scope": optional(*_SCOPES),
    "space": optional(*_READ_SPACES),
    "nc": flag("nc"),
    "cop": optional("ca", "cg", "cs", "lu", "cv"),
    "evict": optional(*_EVICT),
    "level2": optional(*_EVICT_L2),
    "prefetch": optional("L2::64B", "L2::128B", "L2::256B"),
}
_STORE: dict[str, Any] = {
    "body": "warp",
    "timing": _access_timing("store"),
    "memory": "store",
    "section": "9.7.9.11",
    "relaxed": ("b",),
    "valid": _store_rules,
    "order": optional("weak", "volatile", "relaxed", "release"),
    "mmio": flag("mmio"),
    "scope": optional(*_SCOPES),
    "space": optional(*_WRITE_SPACES),
    "cop": optional("wb", "cg", "cs", "wt"),
    "evict": optional(*_EVICT),
    "level2": optional(*_EVICT_L2),
}
_VECTORS = optional("v2", "v4", "v8")
_LD = "ld{order}{mmio}{scope}{space}{nc}{cop}{evict}{level2}"
_ST = "st{order}{mmio}{scope}{space}{cop}{evict}{level2}"


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


@lane
def store_turn(turn, size):
    """The lane that takes a turn (0 to 31) when lanes store ``size`` bytes each; where two store to one place, the later stays.

    The warp's lanes go out in groups of at most 128 bytes: all 32 for up to four bytes, 16 for eight, 8 for sixteen. A later
    group overwrites an earlier one; within a group the lowest lane stays. PTX leaves it open; measured on an H200
    (``traces/vectors/lane_order.npz``) in global and shared memory, another CTA's included.
    """
    return turn ^ (31 if size <= 4 else 127 // size)


@lane
def lowest_fault(ctx, space, a, size, mask):
    """Report the lowest lane whose address of ``size`` bytes cannot be used. Returns the fault code."""
    for number in range(32):
        if (mask >> np.uint32(number)) & np.uint32(1) and locate(ctx, space, a[number], size, number) == 0:
            return 1
    return 1


@instruction(_LD + "{prefetch}{vec}.{t} d*vec, [a]", **_LOAD, vec=_VECTORS, t=_TYPES)
@instruction(
    _LD + ".{hint}{prefetch}{vec}.{t} d*vec, [a], policy:b64",
    **_LOAD,
    sm=80,
    ptx="7.4",
    hint=("L2::cache_hint",),
    vec=_VECTORS,
    t=_TYPES,
)
@instruction(
    "ldu{space}{vec}.{t} d*vec, [a]",
    body="warp",
    timing=_access_timing("load"),
    memory="load",
    section="9.7.9.10",
    ptx="2.0",
    relaxed=("d",),
    valid=_fits,
    space=optional("global"),
    vec=_VECTORS,
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


@instruction(_ST + "{vec}.{t} [a], b*vec", **_STORE, vec=_VECTORS, t=_TYPES)
@instruction(
    _ST + ".{hint}{vec}.{t} [a], b*vec, policy:b64",
    **_STORE,
    sm=80,
    ptx="7.4",
    hint=("L2::cache_hint",),
    vec=_VECTORS,
    t=_TYPES,
)
def st(a, b, mask, ctx, *, space, vec, t):
    """Store one register or a vector per lane. Where lanes write the same bytes, `store_turn` says whose value stays."""
    size = _BYTES[t]
    count = _COUNT[vec]
    for turn in range(32):
        number = store_turn(turn, size * count)
        if (mask >> np.uint32(number)) & np.uint32(1):
            host = locate(ctx, SPACES[space], a[number], size * count, number)
            if host == 0:
                return lowest_fault(ctx, SPACES[space], a, size * count, mask)
            for index in range(count):
                write(host + index * size, b[index, number], size)
    return 0


# ---------------------------------------------------------------------------------------------- 128 bits at once
# A .b128 register is a pair of 64-bit ones, the low half first (isa.lower.scopes).

_B128: dict[str, Any] = {"sm": 70, "ptx": "8.3"}


@instruction(_LD + "{prefetch}.b128 d:b64*2, [a]", **{**_LOAD, "relaxed": ()}, **_B128)
@instruction(
    _LD + ".{hint}{prefetch}.b128 d:b64*2, [a], policy:b64",
    **{**_LOAD, "relaxed": ()},
    hint=("L2::cache_hint",),
    sm=80,
    ptx="8.3",
)
@instruction(
    "ldu{space}.b128 d:b64*2, [a]",
    body="warp",
    timing=_access_timing("load"),
    memory="load",
    section="9.7.9.10",
    space=optional("global"),
    **_B128,
)
def ld_b128(d, a, mask, ctx, *, space):
    """Load 128 bits per lane, from an address that is a multiple of 16."""
    for number in range(32):
        if (mask >> np.uint32(number)) & np.uint32(1):
            host = locate(ctx, SPACES[space], a[number], 16, number)
            if host == 0:
                return 1
            d[0, number] = load_u64(host)
            d[1, number] = load_u64(host + 8)
    return 0


@instruction(_ST + ".b128 [a], b:b64*2", **{**_STORE, "relaxed": ()}, **_B128)
@instruction(
    _ST + ".{hint}.b128 [a], b:b64*2, policy:b64",
    **{**_STORE, "relaxed": ()},
    hint=("L2::cache_hint",),
    sm=80,
    ptx="8.3",
)
def st_b128(a, b, mask, ctx, *, space):
    """Store 128 bits per lane, to an address that is a multiple of 16. Where lanes collide, `store_turn` says who stays."""
    for turn in range(32):
        number = store_turn(turn, 16)
        if (mask >> np.uint32(number)) & np.uint32(1):
            host = locate(ctx, SPACES[space], a[number], 16, number)
            if host == 0:
                return lowest_fault(ctx, SPACES[space], a, 16, mask)
            store_u64(host, b[0, number])
            store_u64(host + 8, b[1, number])
    return 0


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
