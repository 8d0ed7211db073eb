"""Moving registers and converting addresses: mov, cvta, isspacep (PTX ISA 9.7.9)."""

from __future__ import annotations

import numpy as np

from isa.arith.lane import lane
from isa.kernels.planes import load_i64
from isa.machine import (
    CONSTANT_COUNT,
    CONSTANTS,
    LOCAL_WINDOW,
    PARAM_WINDOW,
    RANK,
    SHARED_BITS,
    SHARED_WINDOW,
    WINDOW_BITS,
)
from isa.spec import instruction

_MOVED = ("b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64", "f32", "f64", "f16", "bf16", "f16x2")


@instruction("mov.{t} d, a", timing="mov", section="9.7.9.6", t=_MOVED)
def mov(a, *, t):
    """Copy a register, a constant, an address or a special register."""
    return a


@instruction("mov.{v}.{t} d*v, a*v", control="moves", timing="mov", section="9.7.9.6", v=("v2", "v4"), t=_MOVED)
def mov_vector() -> None:
    """Copy a vector: a ``mov`` for each element. Old PTX reads ``%tid`` so."""


@instruction("mov.pred p, a:pred", timing="mov", section="9.7.9.6")
def mov_pred(a):
    """Copy a predicate."""
    return a


@instruction("mov.b32 d, a:b16*2", timing="mov", section="9.7.9.7")
def mov_pack_halves(a):
    """Pack two 16-bit registers, the first in the low half."""
    return np.uint32(a[0]) | (np.uint32(a[1]) << np.uint32(16))


@instruction("mov.b32 d:b16*2, a", timing="mov", section="9.7.9.7")
def mov_unpack_halves(a):
    """Split a 32-bit register into halves, the low one first."""
    return np.uint16(a), np.uint16(a >> np.uint32(16))


@instruction("mov.b64 d, a:b32*2", timing="mov", section="9.7.9.7")
def mov_pack_words(a):
    """Pack two 32-bit registers, the first in the low half."""
    return np.uint64(a[0]) | (np.uint64(a[1]) << np.uint64(32))


@instruction("mov.b64 d:b32*2, a", timing="mov", section="9.7.9.7")
def mov_unpack_words(a):
    """Split a 64-bit register into halves, the low one first."""
    return np.uint32(a), np.uint32(a >> np.uint64(32))


@instruction("mov.b64 d, a:b16*4", timing="mov", section="9.7.9.7")
def mov_pack_quarters(a):
    """Pack four 16-bit registers, the first lowest."""
    low = np.uint64(a[0]) | (np.uint64(a[1]) << np.uint64(16))
    return low | (np.uint64(a[2]) << np.uint64(32)) | (np.uint64(a[3]) << np.uint64(48))


@instruction("mov.b64 d:b16*4, a", timing="mov", section="9.7.9.7")
def mov_unpack_quarters(a):
    """Split a 64-bit register into four 16-bit ones, the lowest first."""
    return (
        np.uint16(a),
        np.uint16(a >> np.uint64(16)),
        np.uint16(a >> np.uint64(32)),
        np.uint16(a >> np.uint64(48)),
    )


@instruction("mov.b16 d:b8*2, a", timing="mov", section="9.7.9.7")
def mov_unpack_bytes(a):
    """Split a 16-bit register into bytes, the low one first."""
    return np.uint8(a), np.uint8(a >> np.uint16(8))


# A .b128 register is a pair of 64-bit ones, the low half first (isa.lower.scopes).
@instruction("mov.b128 d:b64*2, a:b64*2", timing="mov", section="9.7.9.7", sm=70, ptx="8.3")
def mov_b128(a):
    """Copy, pack or split 128 bits in two halves, the low one first."""
    return a[0], a[1]


@instruction("mov.b128 d:b64*2, a:b32*4", timing="mov", section="9.7.9.7", sm=70, ptx="8.3")
def mov_pack_four_words(a):
    """Pack four 32-bit registers, the first lowest."""
    low = np.uint64(a[0]) | (np.uint64(a[1]) << np.uint64(32))
    return low, np.uint64(a[2]) | (np.uint64(a[3]) << np.uint64(32))


@instruction("mov.b128 d:b32*4, a:b64*2", timing="mov", section="9.7.9.7", sm=70, ptx="8.3")
def mov_unpack_four_words(a):
    """Split 128 bits into four 32-bit registers, the lowest first."""
    return np.uint32(a[0]), np.uint32(a[0] >> np.uint64(32)), np.uint32(a[1]), np.uint32(a[1] >> np.uint64(32))


@instruction("mov.{t} d, a:b8*2", timing="mov", section="9.7.9.7", t=("b16",))
def mov_pack_bytes(a, *, t):
    """Pack two bytes, the first in the low half."""
    return np.uint16(a[0]) | np.uint16(np.uint16(a[1]) << np.uint16(8))


@instruction("mov.b32 d, a:b8*4", timing="mov", section="9.7.9.7")
def mov_pack_four_bytes(a):
    """Pack four bytes, the first lowest."""
    low = np.uint32(a[0]) | (np.uint32(a[1]) << np.uint32(8))
    return low | (np.uint32(a[2]) << np.uint32(16)) | (np.uint32(a[3]) << np.uint32(24))


@instruction("mov.b32 d:b8*4, a", timing="mov", section="9.7.9.7")
def mov_unpack_four_bytes(a):
    """Split a 32-bit register into bytes, the lowest first."""
    return np.uint8(a), np.uint8(a >> np.uint32(8)), np.uint8(a >> np.uint32(16)), np.uint8(a >> np.uint32(24))


# -------------------------------------------------------------------------------------------------------- addresses

_SPACES = ("const", "global", "local", "shared", "shared::cta", "shared::cluster", "param", "param::entry")
_WINDOW = {
    "const": 0,
    "global": 0,
    "local": LOCAL_WINDOW,
    "shared": SHARED_WINDOW,
    "shared::cta": SHARED_WINDOW,
    "shared::cluster": SHARED_WINDOW,
    "param": PARAM_WINDOW,
    "param::entry": PARAM_WINDOW,
}


@instruction("cvta.{space}.{t} d, a", timing="mov", section="9.7.9.20", sm=20, ptx="2.0", space=_SPACES, t=("u64",))
def cvta(a, *, space, t):
    """The generic address of an address in a state space."""
    return a + np.uint64(_WINDOW[space])


@instruction("cvta.to.{space}.{t} d, a", timing="mov", section="9.7.9.20", sm=20, ptx="2.0", space=_SPACES, t=("u64",))
def cvta_to(a, *, space, t):
    """The address in a state space of a generic address that lies in it."""
    return a - np.uint64(_WINDOW[space])


@lane
def _is_constant(a, ctx):
    """Whether a generic address lies in a ``.const`` variable of the running kernel's module."""
    table = load_i64(ctx + 8 * CONSTANTS)
    for k in range(load_i64(ctx + 8 * CONSTANT_COUNT)):
        if np.uint64(load_i64(table + 16 * k)) <= a < np.uint64(load_i64(table + 16 * k + 8)):
            return True
    return False


@instruction("isspacep.{space} p, a:b32", timing="alu", section="9.7.9.19", sm=20, ptx="2.0", space=_SPACES)
def isspacep_word(a, *, space):
    """The same of a generic address below 4 GiB, which is in global memory."""
    return space == "global"


@instruction("isspacep.{space} p, a:b64", timing="alu", section="9.7.9.19", sm=20, ptx="2.0", space=_SPACES)
def isspacep(a, ctx, *, space):
    """Whether a generic address lies in a state space: ``shared`` is that of the CTA, ``shared::cluster`` that of any in it."""
    window = a >> np.uint64(WINDOW_BITS)
    if space in ("shared", "shared::cta"):
        return window == np.uint64(SHARED_WINDOW >> WINDOW_BITS) + np.uint64(load_i64(ctx + 8 * RANK))
    if space == "shared::cluster":
        return a >> np.uint64(SHARED_BITS) == np.uint64(SHARED_WINDOW >> SHARED_BITS)
    if space == "const":
        return _is_constant(a, ctx)
    if space == "global":
        outside = (window < np.uint64(SHARED_WINDOW >> WINDOW_BITS)) | (window > np.uint64(PARAM_WINDOW >> WINDOW_BITS))
        return outside and not _is_constant(a, ctx)
    return window == np.uint64(_WINDOW[space] >> WINDOW_BITS)


