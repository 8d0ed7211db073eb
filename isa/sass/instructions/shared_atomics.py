"""Atomic operations on memory, in the order of the lanes. How sums round is as of PTX (:mod:`isa.instructions.atomic`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from isa.instructions.atomic import COMBINE as COMBINE_PTX
from isa.instructions.atomic import COMBINE_L2 as COMBINE_L2_PTX
from isa.instructions.memory import read, write
from isa.instructions.warp import has
from isa.machine import SHARED, in_shared, locate
from isa.sass.registry import machine
from isa.spec import flag, optional

_TYPES: dict[str, Any] = {
    "": "u32",
    "S32": "s32",
    "64": "u64",
    "S64": "s64",
    "F32": "f32",
    "F64": "f64",
    "F16x2": "f16x2",
    "BF16x2": "bf16x2",
}
SIZES = {word: 8 if "64" in word else 4 for word in _TYPES}
_OPS = ("ADD", "MIN", "MAX", "INC", "DEC", "AND", "OR", "XOR", "EXCH")
_ADDITIONS = ("u32", "u64", "f32", "f64", "f16x2", "bf16x2")


def _combine(table):
    """By operation and type as listings spell them. An integer sum has no sign; logic is on bits."""
    out = {}
    for op in _OPS:
        for word, t in _TYPES.items():
            plain = {"s32": "u32", "s64": "u64"}.get(t, t) if op == "ADD" else t
            bits = {"u32": "b32", "s32": "b32", "u64": "b64", "s64": "b64"}.get(t, "")
            key = (op.lower(), bits if op in ("AND", "OR", "XOR", "EXCH") else plain)
            if key in table:
                out[op, word] = table[key]
    return out


COMBINE, COMBINE_L2 = _combine(COMBINE_PTX), _combine(COMBINE_L2_PTX)
HINTS: dict[str, Any] = {"order": optional("STRONG", "WEAK"), "scope": optional("GPU", "SYS", "SM", "CTA", "VC")}
_T = optional(*(word for word in _TYPES if word))


def _values(*names):
    """Data operands: a pair of registers for 64-bit types."""
    return lambda params: {name: ("u64" if "64" in str(params["t"]) else "u32", 1) for name in names}


def _atomic(template, *names, state="", memory="atomic", **slots):
    return machine(
        template,
        pipe="lsu",
        body="warp",
        memory=memory,
        state=state,
        width=lambda p: SIZES[str(p["t"])],
        operands=_values(*names),
        t=_T,
        **slots,
    )


# What shared memory cannot add by itself: lanes whose generic address is there get a false ``p``, and the program does it.
BY_PROGRAM = {(op, t): op == "ADD" and t in ("F32", "F64", "F16x2", "BF16x2") for op in _OPS for t in SIZES}
_GLOBAL: dict[str, Any] = {"e": flag("E"), "ftz": flag("FTZ"), "rn": flag("RN"), "op": _OPS, **HINTS}


@_atomic("ATOMG{e}.{op}{t}{ftz}{rn}{order}{scope} p, d, [a], b", "d", "b", state="global", **_GLOBAL)
@_atomic("ATOM{e}.{op}{t}{ftz}{rn}{order}{scope} p, d, [a], b", "d", "b", **_GLOBAL)
def atom(p, d, a, b, mask, ctx, *, op, t, space):
    """Read a location, combine it with ``b``, write it back, in one step; ``d`` is what was there before, ``p`` whether it was
    done."""
    for number in range(32):
        if has(mask, number):
            host = locate(ctx, space, a[number], SIZES[t], number)
            if host == 0:
                return 1
            shared = in_shared(space, a[number])
            if BY_PROGRAM[op, t] and shared:
                continue
            old, value = read(host, SIZES[t]), np.uint64(b[number])
            write(host, COMBINE[op, t](old, value) if shared else COMBINE_L2[op, t](old, value), SIZES[t])
            d[number] = old
            p[0] |= np.uint32(1) << np.uint32(number)
    return 0


PARTS = {"F16x4": "F16x2", "F16x8": "F16x2", "BF16x4": "BF16x2", "BF16x8": "BF16x2", "F32x2": "F32", "F32x4": "F32"}
REGISTERS = {"F16x4": 2, "F16x8": 4, "BF16x4": 2, "BF16x8": 4, "F32x2": 2, "F32x4": 4}


def _vector(template, *names, state="", **slots):
    return machine(
        template,
        pipe="lsu",
        body="warp",
        memory="atomic",
        state=state,
        width=lambda p: 4 * REGISTERS[str(p["t"])],
        operands=lambda p: {name: ("u32", REGISTERS[str(p["t"])]) for name in names},
        **({"t": tuple(PARTS), "op": ("ADD", "MIN", "MAX")} | slots),
    )


_VECTORS = {name: slot for name, slot in _GLOBAL.items() if name != "op"}


@_vector("ATOMG{e}.{op}.{t}{ftz}{rn}{order}{scope} p, d:u32*2, [a], b:u32*2", "d", "b", state="global", **_VECTORS)
@_vector("ATOM{e}.{op}.{t}{ftz}{rn}{order}{scope} p, d:u32*2, [a], b:u32*2", "d", "b", **_VECTORS)
def atom_vector(p, d, a, b, mask, ctx, *, op, t, space):
    """An atomic operation on each of several numbers that follow each other."""
    for number in range(32):
        if has(mask, number):
            host = locate(ctx, space, a[number], 4 * REGISTERS[t], number)
            if host == 0:
                return 1
            for index in range(REGISTERS[t]):
                old = read(host + 4 * index, 4)
                write(host + 4 * index, COMBINE_L2[op, PARTS[t]](old, np.uint64(b[index, number])), 4)
                d[index, number] = old
    p[0] = mask
    return 0


@_vector("REDG{e}.{op}.{t}{ftz}{rn}{order}{scope} [a], b:u32*2", "b", state="global", **_VECTORS)
@_vector("RED{e}.{op}.{t}{ftz}{rn}{order}{scope} [a], b:u32*2", "b", **_VECTORS)
def red_vector(a, b, mask, ctx, *, op, t, space):
    """Combine each of several numbers in memory with one of ``b``."""
    for number in range(32):
        if has(mask, number):
            host = locate(ctx, space, a[number], 4 * REGISTERS[t], number)
            if host == 0:
                return 1
            for index in range(REGISTERS[t]):
                old = read(host + 4 * index, 4)
                write(host + 4 * index, COMBINE_L2[op, PARTS[t]](old, np.uint64(b[index, number])), 4)
    return 0


@_atomic("REDG{e}.{op}{t}{ftz}{rn}{order}{scope} [a], b", "b", state="global", **_GLOBAL)
@_atomic("RED{e}.{op}{t}{ftz}{rn}{order}{scope} [a], b", "b", **_GLOBAL)
def red(a, b, mask, ctx, *, op, t, space):
    """Combine a location with ``b`` in one step."""
    for number in range(32):
        if has(mask, number):
            host = locate(ctx, space, a[number], SIZES[t], number)
            if host == 0:
                return 1
            old, value = read(host, SIZES[t]), np.uint64(b[number])
            new = COMBINE[op, t](old, value) if in_shared(space, a[number]) else COMBINE_L2[op, t](old, value)
            write(host, new, SIZES[t])
    return 0


@_atomic("ATOMG{e}.CAS{t}{order}{scope} p, d, [a], b, c", "d", "b", "c", state="global", e=flag("E"), **HINTS)
@_atomic("ATOM{e}.CAS{t}{order}{scope} p, d, [a], b, c", "d", "b", "c", e=flag("E"), **HINTS)
def cas(p, d, a, b, c, mask, ctx, *, t, space):
    """Write ``c`` if the location holds ``b``; ``d`` is what was there before."""
    for number in range(32):
        if has(mask, number):
            host = locate(ctx, space, a[number], SIZES[t], number)
            if host == 0:
                return 1
            old = read(host, SIZES[t])
            if old == np.uint64(b[number]):
                write(host, np.uint64(c[number]), SIZES[t])
            d[number] = old
    p[0] = mask
    return 0


# ------------------------------------------------------------------------------------------------------ shared memory


@_atomic("ATOMS.{op}{t} d, [a], b", "d", "b", state="shared", op=_OPS)
def atoms(d, a, b, mask, ctx, *, op, t):
    """An atomic operation on shared memory."""
    for number in range(32):
        if has(mask, number):
            host = locate(ctx, SHARED, a[number], SIZES[t], number)
            if host == 0:
                return 1
            old = read(host, SIZES[t])
            write(host, COMBINE[op, t](old, np.uint64(b[number])), SIZES[t])
            d[number] = old
    return 0


@_atomic("ATOMS.CAS{t} d, [a], b, c", "d", "b", "c", state="shared")
def atoms_cas(d, a, b, c, mask, ctx, *, t):
    """Write ``c`` if the location in shared memory holds ``b``; ``d`` is what was there before."""
    for number in range(32):
        if has(mask, number):
            host = locate(ctx, SHARED, a[number], SIZES[t], number)
            if host == 0:
                return 1
            old = read(host, SIZES[t])
            if old == np.uint64(b[number]):
                write(host, np.uint64(c[number]), SIZES[t])
            d[number] = old
    return 0


@_atomic("ATOMS.CAST.SPIN{t} d, [a], b, c", "d", "b", "c", state="shared")
@_atomic("ATOM.E.CAST.SPIN{t} p, d, [a], b, c", "d", "b", "c")
def atoms_cast(d, a, b, c, mask, ctx, *, t, space):
    """Write ``c`` if the location holds ``b``; ``d`` is ``b`` if it did, else something else, and the program tries again.

    Of lanes that aim at the same place one succeeds at a time, which ascending order of the lanes does by itself.
    """
    for number in range(32):
        if has(mask, number):
            host = locate(ctx, space, a[number], SIZES[t], number)
            if host == 0:
                return 1
            old = read(host, SIZES[t])
            if old == np.uint64(b[number]):
                write(host, np.uint64(c[number]), SIZES[t])
                d[number] = 1
            else:
                d[number] = 0
    return 0


@machine("ATOM.E.POPC.INC.32{order}{scope} p, d:u32, [a]", pipe="lsu", body="warp", memory="atomic", **HINTS)
@machine("ATOMS.POPC.INC.32 p?, d:u32, [a]", pipe="lsu", body="warp", memory="atomic", state="shared")
def atoms_popc_inc(p, d, a, mask, ctx, *, space):
    """Add 1 for every lane; ``d`` is what was there before."""
    p[0] = mask
    for number in range(32):
        if has(mask, number):
            host = locate(ctx, space, a[number], 4, number)
            if host == 0:
                return 1
            old = read(host, 4)
            write(host, old + np.uint64(1), 4)
            d[number] = old
    return 0
