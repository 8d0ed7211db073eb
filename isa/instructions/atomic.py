"""Atomic operations on memory: atom and red (PTX ISA 9.7.13.3 and 9.7.13.4).

Lanes take their turns in ascending order, as those of one warp do on an H200 (``traces/vectors/lane_order.npz``). The order of
warps is not defined, so a result that depends on it (a float sum over several warps, which value ``exch`` leaves) need not
agree with a particular run on a GPU; integer sums, minima and bit operations do.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from isa.arith.bfloat16 import add_bf16, add_bf16x2, max_bf16, max_bf16x2, min_bf16, min_bf16x2
from isa.arith.float16 import add_f16, add_f16x2, max_f16, max_f16x2, min_f16, min_f16x2
from isa.arith.float32 import add_f32_rn, canon_f32, ftz_f32
from isa.arith.float64 import add_f64_rn
from isa.arith.lane import lane
from isa.arith.primitives import bits_f32, bits_f64, f32_bits, f64_bits
from isa.instructions.memory import read, write
from isa.kernels.planes import load_u64, store_u64
from isa.machine import SPACES, in_shared, locate
from isa.spec import flag, instruction, optional

_SPACES = ("global", "shared", "shared::cta", "shared::cluster")
_ORDERS = ("relaxed", "acquire", "release", "acq_rel", "volatile")
_SCOPES = ("cta", "cluster", "gpu", "sys")
_TYPES = ("b32", "b64", "u32", "s32", "u64", "s64", "f32", "f64", "f16", "f16x2", "bf16", "bf16x2")
_BYTES = {"f16": 2, "bf16": 2, "b16": 2, "f16x2": 4, "bf16x2": 4} | {
    f"{kind}{bits}": bits // 8 for kind in "busf" for bits in (32, 64)
}
_COUNT = {"": 1, "v2": 2, "v4": 4, "v8": 8}

# What may be combined with what (PTX ISA 9.7.13.3, table of operations and types).
_ALLOWED = {
    "and": ("b32", "b64"),
    "or": ("b32", "b64"),
    "xor": ("b32", "b64"),
    "exch": ("b32", "b64"),
    "add": ("u32", "s32", "u64", "s64", "f32", "f64", "f16", "f16x2", "bf16", "bf16x2"),
    "inc": ("u32",),
    "dec": ("u32",),
    "min": ("u32", "s32", "u64", "s64", "f16", "f16x2", "bf16", "bf16x2"),
    "max": ("u32", "s32", "u64", "s64", "f16", "f16x2", "bf16", "bf16x2"),
}


def _valid(params):
    op, t, vec = str(params["op"]), str(params["t"]), str(params.get("vec", ""))
    if t not in _ALLOWED[op]:
        return f".{op} takes {', '.join('.' + x for x in _ALLOWED[op])}, not .{t} (PTX ISA 9.7.13.3)"
    half = t in ("f16", "f16x2", "bf16", "bf16x2")
    if half != bool(params["noftz"]):
        return f".noftz is required for half types and allowed for them only; this is .{t}"
    if op in ("min", "max") and half and not vec:
        return f".{op}.{t} exists for vectors only (.v2, .v4, .v8; PTX ISA 9.7.13.3)"
    if vec and (str(params["space"]) not in ("", "global") or not (half or t == "f32")):
        return ".vec needs .global and .f32 or a half type"
    if vec and _COUNT[vec] * _BYTES[t] > 16:
        return f".{vec}.{t} is wider than 16 bytes"
    return _ordering(params)


def _ordering(params):
    """Why the qualifiers do not go together, for every atomic operation."""
    if params.get("hint") and str(params["space"]) not in ("", "global"):
        return f".L2::cache_hint is for global memory, not .{params['space']}"
    return None


@lane
def _and(old, value):
    return old & value


@lane
def _or(old, value):
    return old | value


@lane
def _xor(old, value):
    return old ^ value


@lane
def _exchange(old, value):
    return value


@lane
def _add_integer(old, value):
    return old + value


@lane
def _increment(old, value):
    """Count up to ``value``, then wrap to 0."""
    return np.uint64(0) if old >= value else old + np.uint64(1)


@lane
def _decrement(old, value):
    """Count down from ``value``; 0 and anything above it wrap to it."""
    return value if (old == np.uint64(0)) | (old > value) else old - np.uint64(1)


@lane
def _min_unsigned(old, value):
    return min(old, value)


@lane
def _max_unsigned(old, value):
    return max(old, value)


@lane
def _min_s32(old, value):
    return value if np.int32(value) < np.int32(old) else old


@lane
def _max_s32(old, value):
    return value if np.int32(value) > np.int32(old) else old


@lane
def _min_s64(old, value):
    return value if np.int64(value) < np.int64(old) else old


@lane
def _max_s64(old, value):
    return value if np.int64(value) > np.int64(old) else old


@lane
def _add_f32(old, value):
    return np.uint64(f32_bits(canon_f32(add_f32_rn(bits_f32(np.uint32(old)), bits_f32(np.uint32(value))))))


@lane
def _add_f32_l2(old, value):
    """As on global memory, where the L2 cache does it: subnormal operands and results become zeros of their sign."""
    total = add_f32_rn(ftz_f32(bits_f32(np.uint32(old))), ftz_f32(bits_f32(np.uint32(value))))
    return np.uint64(f32_bits(canon_f32(ftz_f32(total))))


@lane
def _add_f64(old, value):
    """As on shared memory: add.f64 with the old value as its second operand, whose NaN goes before the first's."""
    return f64_bits(add_f64_rn(bits_f64(value), bits_f64(old)))


@lane
def _add_f64_l2(old, value):
    """As on global memory: a NaN operand comes out as it is, signaling or not, the new value's before the old one's."""
    x, y = bits_f64(old), bits_f64(value)
    if y != y:
        return value
    return old if x != x else f64_bits(add_f64_rn(x, y))


@lane
def _add_f16(old, value):
    return np.uint64(add_f16(np.uint16(old), np.uint16(value)))


@lane
def _add_f16x2(old, value):
    return np.uint64(add_f16x2(np.uint32(old), np.uint32(value)))


@lane
def _min_f16(old, value):
    return np.uint64(min_f16(np.uint16(old), np.uint16(value)))


@lane
def _min_f16x2(old, value):
    return np.uint64(min_f16x2(np.uint32(old), np.uint32(value)))


@lane
def _max_f16(old, value):
    return np.uint64(max_f16(np.uint16(old), np.uint16(value)))


@lane
def _max_f16x2(old, value):
    return np.uint64(max_f16x2(np.uint32(old), np.uint32(value)))


@lane
def _add_bf16(old, value):
    return np.uint64(add_bf16(np.uint16(old), np.uint16(value)))


@lane
def _add_bf16x2(old, value):
    return np.uint64(add_bf16x2(np.uint32(old), np.uint32(value)))


@lane
def _min_bf16(old, value):
    return np.uint64(min_bf16(np.uint16(old), np.uint16(value)))


@lane
def _min_bf16x2(old, value):
    return np.uint64(min_bf16x2(np.uint32(old), np.uint32(value)))


@lane
def _max_bf16(old, value):
    return np.uint64(max_bf16(np.uint16(old), np.uint16(value)))


@lane
def _max_bf16x2(old, value):
    return np.uint64(max_bf16x2(np.uint32(old), np.uint32(value)))


# Operation and type to its function: old and new value as the low bits of 64.
COMBINE = {
    ("and", "b32"): _and,
    ("and", "b64"): _and,
    ("or", "b32"): _or,
    ("or", "b64"): _or,
    ("xor", "b32"): _xor,
    ("xor", "b64"): _xor,
    ("exch", "b32"): _exchange,
    ("exch", "b64"): _exchange,
    ("add", "u32"): _add_integer,
    ("add", "s32"): _add_integer,
    ("add", "u64"): _add_integer,
    ("add", "s64"): _add_integer,
    ("add", "f32"): _add_f32,
    ("add", "f64"): _add_f64,
    ("inc", "u32"): _increment,
    ("dec", "u32"): _decrement,
    ("min", "u32"): _min_unsigned,
    ("min", "u64"): _min_unsigned,
    ("min", "s32"): _min_s32,
    ("min", "s64"): _min_s64,
    ("max", "u32"): _max_unsigned,
    ("max", "u64"): _max_unsigned,
    ("max", "s32"): _max_s32,
    ("max", "s64"): _max_s64,
    ("add", "f16"): _add_f16,
    ("min", "f16"): _min_f16,
    ("max", "f16"): _max_f16,
    ("add", "bf16"): _add_bf16,
    ("min", "bf16"): _min_bf16,
    ("max", "bf16"): _max_bf16,
    ("add", "f16x2"): _add_f16x2,
    ("min", "f16x2"): _min_f16x2,
    ("max", "f16x2"): _max_f16x2,
    ("add", "bf16x2"): _add_bf16x2,
    ("min", "bf16x2"): _min_bf16x2,
    ("max", "bf16x2"): _max_bf16x2,
}

# The same for global memory. Both are read from an H200, driver 580.159.04 (traces/vectors): f32 and f64 sums depend on where
# they are made (PTX ISA 9.7.13.3 says so of subnormal f32 numbers), those of half types do not.
COMBINE_L2 = COMBINE | {("add", "f32"): _add_f32_l2, ("add", "f64"): _add_f64_l2}


_QUALIFIERS: dict[str, Any] = {
    "body": "warp",
    "timing": "atomic",
    "memory": "atomic",
    "order": optional(*_ORDERS),
    "scope": optional(*_SCOPES),
    "space": optional(*_SPACES),
}
_ATOM: dict[str, Any] = {**_QUALIFIERS, "section": "9.7.13.3"}
_RED: dict[str, Any] = {**_QUALIFIERS, "section": "9.7.13.4"}
_OPERATION: dict[str, Any] = {
    "op": tuple(_ALLOWED),
    "noftz": flag("noftz"),
    "vec": optional("v2", "v4", "v8"),
    "t": _TYPES,
}
_HINT: dict[str, Any] = {"hint": ("L2::cache_hint",), "sm": 80, "ptx": "7.4"}


@instruction("atom{order}{scope}{space}.{op}{noftz}{vec}.{t} d*vec, [a], b*vec", **_ATOM, ptx="1.1", valid=_valid, **_OPERATION)
@instruction(
    "atom{order}{scope}{space}.{op}{noftz}.{hint}{vec}.{t} d*vec, [a], b*vec, policy:b64",
    **_ATOM,
    **_HINT,
    valid=_valid,
    **_OPERATION,
)
def atom(d, a, b, mask, ctx, *, space, op, vec, t):
    """Read a location, combine it with ``b``, write it back, in one step; ``d`` is what was there before."""
    size = _BYTES[t]
    count = _COUNT[vec]
    for number in range(32):
        if (mask >> np.uint32(number)) & np.uint32(1):
            host = locate(ctx, SPACES[space], a[number], size * count, number)
            if host == 0:
                return 1
            shared = in_shared(SPACES[space], a[number])
            for index in range(count):
                old, value = read(host + index * size, size), np.uint64(b[index, number])
                new = COMBINE[op, t](old, value) if shared else COMBINE_L2[op, t](old, value)
                write(host + index * size, new, size)
                d[index, number] = old
    return 0


def _valid_red(params):
    return "red has no exch" if params["op"] == "exch" else _valid(params)


@instruction("red{order}{scope}{space}.{op}{noftz}{vec}.{t} [a], b*vec", **_RED, ptx="1.2", valid=_valid_red, **_OPERATION)
@instruction(
    "red{order}{scope}{space}.{op}{noftz}.{hint}{vec}.{t} [a], b*vec, policy:b64",
    **_RED,
    **_HINT,
    valid=_valid_red,
    **_OPERATION,
)
def red(a, b, mask, ctx, *, space, op, vec, t):
    """Combine a location with ``b`` in one step, without returning what was there."""
    size = _BYTES[t]
    count = _COUNT[vec]
    for number in range(32):
        if (mask >> np.uint32(number)) & np.uint32(1):
            host = locate(ctx, SPACES[space], a[number], size * count, number)
            if host == 0:
                return 1
            shared = in_shared(SPACES[space], a[number])
            for index in range(count):
                old, value = read(host + index * size, size), np.uint64(b[index, number])
                new = COMBINE[op, t](old, value) if shared else COMBINE_L2[op, t](old, value)
                write(host + index * size, new, size)
    return 0


@instruction("atom{order}{scope}{space}.cas.{t} d, [a], b, c", **_ATOM, ptx="1.1", t=("b16", "b32", "b64"))
@instruction(
    "atom{order}{scope}{space}.cas.{hint}.{t} d, [a], b, c, policy:b64",
    **_ATOM,
    **_HINT,
    valid=_ordering,
    t=("b16", "b32", "b64"),
)
def atom_cas(d, a, b, c, mask, ctx, *, space, t):
    """Write ``c`` if the location holds ``b``; ``d`` is what was there before."""
    size = _BYTES[t]
    for number in range(32):
        if (mask >> np.uint32(number)) & np.uint32(1):
            host = locate(ctx, SPACES[space], a[number], size, number)
            if host == 0:
                return 1
            old = read(host, size)
            if old == np.uint64(b[number]):
                write(host, np.uint64(c[number]), size)
            d[number] = old
    return 0


# ---------------------------------------------------------------------------------------------- 128 bits at once
# A .b128 register is a pair of 64-bit ones, the low half first (isa.lower.scopes).


@instruction("atom{order}{scope}{space}.exch.b128 d:b64*2, [a], b:b64*2", **_ATOM, sm=90, ptx="8.3")
@instruction(
    "atom{order}{scope}{space}.exch.{hint}.b128 d:b64*2, [a], b:b64*2, policy:b64",
    **{**_ATOM, **_HINT, "sm": 90, "ptx": "8.3"},
    valid=_ordering,
)
def atom_exch_b128(d, a, b, mask, ctx, *, space):
    """Write 128 bits; ``d`` is what was there before."""
    for number in range(32):
        if (mask >> np.uint32(number)) & np.uint32(1):
            host = locate(ctx, SPACES[space], a[number], 16, number)
            if host == 0:
                return 1
            for half in range(2):
                old = load_u64(host + 8 * half)
                store_u64(host + 8 * half, b[half, number])
                d[half, number] = old
    return 0


@instruction("atom{order}{scope}{space}.cas.b128 d:b64*2, [a], b:b64*2, c:b64*2", **_ATOM, sm=90, ptx="8.3")
@instruction(
    "atom{order}{scope}{space}.cas.{hint}.b128 d:b64*2, [a], b:b64*2, c:b64*2, policy:b64",
    **{**_ATOM, **_HINT, "sm": 90, "ptx": "8.3"},
    valid=_ordering,
)
def atom_cas_b128(d, a, b, c, mask, ctx, *, space):
    """Write ``c`` if the 128 bits at the location are ``b``; ``d`` is what was there before."""
    for number in range(32):
        if (mask >> np.uint32(number)) & np.uint32(1):
            host = locate(ctx, SPACES[space], a[number], 16, number)
            if host == 0:
                return 1
            low, high = load_u64(host), load_u64(host + 8)
            if low == b[0, number] and high == b[1, number]:
                store_u64(host, c[0, number])
                store_u64(host + 8, c[1, number])
            d[0, number] = low
            d[1, number] = high
    return 0
