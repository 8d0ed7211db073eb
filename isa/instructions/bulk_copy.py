"""Bulk copies of a block of bytes: cp.async.bulk, cp.reduce.async.bulk, and their groups (PTX ISA 9.7.9.25.4, 9.7.9.25.5.1).

What a copy does is in :mod:`isa.tma.issue`; lanes issue theirs in ascending order. Cache policies change no value.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from isa.spec import flag, instruction, optional
from isa.tma.issue import bulk_load, bulk_move, bulk_store
from isa.tma.reduce import OPERATIONS
from isa.tma.tensor_map import ELEMENT_TYPES

_ONE = np.uint32(1)
_BULK: dict[str, Any] = {"body": "warp", "timing": "bulk_copy", "sm": 90, "ptx": "8.0"}
_HINT: dict[str, Any] = {"hint": ("L2::cache_hint",)}

# Types of each reduction, to device memory and to shared memory (what ptxas 13.0 accepts; PTX ISA 9.7.9.25.5.1).
_TO_GLOBAL = {
    "add": ("u32", "s32", "u64", "f32", "f64", "f16", "bf16"),
    "min": ("u32", "s32", "u64", "s64", "f16", "bf16"),
    "max": ("u32", "s32", "u64", "s64", "f16", "bf16"),
    "inc": ("u32",),
    "dec": ("u32",),
    "and": ("b32", "b64"),
    "or": ("b32", "b64"),
    "xor": ("b32", "b64"),
}
_TO_SHARED = {
    "add": ("u32", "s32", "u64"),
    "min": ("u32", "s32"),
    "max": ("u32", "s32"),
    "inc": ("u32",),
    "dec": ("u32",),
    "and": ("b32",),
    "or": ("b32",),
    "xor": ("b32",),
}
_NUMBER = {name: number for number, name in enumerate(OPERATIONS)}
_ELEMENTS = {name: (t.format, t.bytes) for name, t in ELEMENT_TYPES.items()}
_ELEMENTS |= {"b32": _ELEMENTS["u32"], "b64": _ELEMENTS["u64"]}
_FORMAT = {name: number for name, (number, _) in _ELEMENTS.items()}
_BYTES = {name: size for name, (_, size) in _ELEMENTS.items()}


def _reducible(table):
    """A check of operation and type against a table."""

    def valid(params):
        op, t = str(params["op"]), str(params["t"])
        if t not in table[op]:
            return f".{op} takes {', '.join('.' + x for x in table[op])} here, not .{t} (PTX ISA 9.7.9.25.5.1)"
        half = op == "add" and t in ("f16", "bf16")
        if half != bool(params.get("noftz")):
            return f".noftz is required for .add of half types and allowed for it only; this is .{op}.{t}"
        return None

    return valid


# ------------------------------------------------------------------------------------------------------------- copies

_LOAD: dict[str, Any] = {"section": "9.7.9.25.4.1", "space": ("shared::cta", "shared::cluster"), **_BULK}
_CAST: dict[str, Any] = {"section": "9.7.9.25.4.1", **_BULK}
_TO = "cp.async.bulk.{space}.global.mbarrier::complete_tx::bytes"
_CASTING = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
_LOADED = "[dst:b8], [src:b8], size:b32, [bar:b8]"


@instruction(f"{_TO} {_LOADED}", **_LOAD)
@instruction(_TO + ".{hint} " + f"{_LOADED}, policy:b64", **_LOAD, **_HINT)
def cp_async_bulk_load(dst, src, size, bar, mask, ctx):
    """Copy from device memory to shared memory and tell an mbarrier, which then has that many bytes fewer to wait for."""
    for number in range(32):
        if (mask >> np.uint32(number)) & _ONE:
            source, target, count = np.int64(src[number]), np.int64(dst[number]), np.int64(size[number])
            status = bulk_load(ctx, target, source, count, np.int64(bar[number]), np.int64(-1), np.int64(number))
            if status != 0:
                return status
    return 0


@instruction(f"{_CASTING} {_LOADED}, ranks:b16", **_CAST)
@instruction(_CASTING + ".{hint} " + f"{_LOADED}, ranks:b16, policy:b64", **_CAST, **_HINT)
def cp_async_bulk_multicast(dst, src, size, bar, ranks, mask, ctx):
    """The same to each CTA of the cluster whose bit of ``ranks`` is set: to the same place in its shared memory."""
    for number in range(32):
        if (mask >> np.uint32(number)) & _ONE:
            source, target, count = np.int64(src[number]), np.int64(dst[number]), np.int64(size[number])
            cast = np.int64(ranks[number])
            status = bulk_load(ctx, target, source, count, np.int64(bar[number]), cast, np.int64(number))
            if status != 0:
                return status
    return 0


@instruction("cp.async.bulk.global.shared::cta.bulk_group [dst:b8], [src:b8], size:b32", section="9.7.9.25.4.1", **_BULK)
@instruction(
    "cp.async.bulk.global.shared::cta.bulk_group.{hint} [dst:b8], [src:b8], size:b32, policy:b64",
    section="9.7.9.25.4.1",
    **_BULK,
    **_HINT,
)
def cp_async_bulk_store(dst, src, size, mask, ctx):
    """Copy from shared memory to device memory."""
    for number in range(32):
        if (mask >> np.uint32(number)) & _ONE:
            source, target, count = np.int64(src[number]), np.int64(dst[number]), np.int64(size[number])
            none = np.int64(-1)
            status = bulk_store(ctx, target, source, count, none, np.int64(0), np.int64(1), np.int64(number))
            if status != 0:
                return status
    return 0


@instruction(
    "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [dst:b8], [src:b8], size:b32, [bar:b8]",
    section="9.7.9.25.4.1",
    **_BULK,
)
def cp_async_bulk_move(dst, src, size, bar, mask, ctx):
    """Copy from shared memory to that of a CTA of the cluster, and tell an mbarrier there."""
    for number in range(32):
        if (mask >> np.uint32(number)) & _ONE:
            source, target, count = np.int64(src[number]), np.int64(dst[number]), np.int64(size[number])
            none, barrier = np.int64(-1), np.int64(bar[number])
            status = bulk_move(ctx, target, source, count, barrier, none, np.int64(0), np.int64(1), np.int64(number))
            if status != 0:
                return status
    return 0


@instruction(
    "cp.async.bulk.prefetch.L2.global [src:b8], size:b32",
    control="nothing",
    timing="bulk_prefetch",
    section="9.7.9.25.4.2",
    sm=90,
    ptx="8.0",
)
@instruction(
    "cp.async.bulk.prefetch.L2.global.{hint} [src:b8], size:b32, policy:b64",
    control="nothing",
    timing="bulk_prefetch",
    section="9.7.9.25.4.2",
    sm=90,
    ptx="8.0",
    **_HINT,
)
def cp_async_bulk_prefetch() -> None:
    """Bring a block of device memory nearer. No value changes."""


# --------------------------------------------------------------------------------------------------------- reductions

_REDUCE: dict[str, Any] = {
    "section": "9.7.9.25.5.1",
    "op": OPERATIONS,
    "noftz": flag("noftz"),
    "t": tuple(dict.fromkeys(t for types in _TO_GLOBAL.values() for t in types)),
    "valid": _reducible(_TO_GLOBAL),
    **_BULK,
}


@instruction(
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.{op}{noftz}.{t} [dst:b8], [src:b8], size:b32", **_REDUCE
)
@instruction(
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.{hint}.{op}{noftz}.{t} [dst:b8], [src:b8], size:b32, policy:b64",
    **_REDUCE,
    **_HINT,
)
def cp_reduce_async_bulk(dst, src, size, mask, ctx, *, op, t):
    """Combine elements in device memory with those of shared memory, each in one step."""
    for number in range(32):
        if (mask >> np.uint32(number)) & _ONE:
            source, target, count = np.int64(src[number]), np.int64(dst[number]), np.int64(size[number])
            operation, element, width = np.int64(_NUMBER[op]), np.int64(_FORMAT[t]), np.int64(_BYTES[t])
            status = bulk_store(ctx, target, source, count, operation, element, width, np.int64(number))
            if status != 0:
                return status
    return 0


@instruction(
    "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.{op}.{t} "
    "[dst:b8], [src:b8], size:b32, [bar:b8]",
    section="9.7.9.25.5.1",
    op=OPERATIONS,
    t=tuple(dict.fromkeys(t for types in _TO_SHARED.values() for t in types)),
    valid=_reducible(_TO_SHARED),
    **_BULK,
)
def cp_reduce_async_bulk_shared(dst, src, size, bar, mask, ctx, *, op, t):
    """The same in the shared memory of a CTA of the cluster, and tell an mbarrier there."""
    for number in range(32):
        if (mask >> np.uint32(number)) & _ONE:
            source, target, count = np.int64(src[number]), np.int64(dst[number]), np.int64(size[number])
            operation, element, width = np.int64(_NUMBER[op]), np.int64(_FORMAT[t]), np.int64(_BYTES[t])
            barrier = np.int64(bar[number])
            status = bulk_move(ctx, target, source, count, barrier, operation, element, width, np.int64(number))
            if status != 0:
                return status
    return 0


# ------------------------------------------------------------------------------------------------------------- groups


@instruction(
    "cp.async.bulk.commit_group", control="nothing", timing="bulk_commit", section="9.7.9.25.6.1", sm=90, ptx="8.0"
)
def cp_async_bulk_commit() -> None:
    """Close a group of bulk stores."""


@instruction(
    "cp.async.bulk.wait_group{read} n:b32",
    control="nothing",
    timing="bulk_wait",
    section="9.7.9.25.6.2",
    sm=90,
    ptx="8.0",
    read=optional("read"),
    immediates=lambda p: {"n": range(-(1 << 31), 1 << 32)},
)
def cp_async_bulk_wait() -> None:
    """Wait until at most the ``n`` youngest groups are still under way (``.read``: still read shared memory)."""
