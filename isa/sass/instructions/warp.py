"""Exchange between the lanes of a warp: of all lanes that execute the instruction together."""

from __future__ import annotations

import numpy as np

from isa.instructions.control import first_lane
from isa.instructions.warp import SHUFFLES, has, shuffle
from isa.sass.registry import machine
from isa.spec import flag, optional

_MODES = {mode.upper(): function for mode, function in SHUFFLES.items()}


@machine("SHFL.{mode} p, d:u32, a:u32, b:u32, c:u32", pipe="lsu", body="warp", mode=("UP", "DOWN", "BFLY", "IDX"))
def shfl(p, d, a, b, c, mask, *, mode):
    """Read another lane's register: ``b`` says which, ``c`` the clamp (bits 0-4) and the segments (bits 8-12)."""
    shuffle(_MODES[mode], d, p, a, b, c, mask)
    return 0


@machine("VOTE.{mode} d:u32?, p, a:pred", pipe="alu", body="warp", mode=("ALL", "ANY", "EQ"))
@machine("VOTEU.{mode} d:u32?, p, a:pred", pipe="uniform", body="warp", mode=("ALL", "ANY", "EQ"))
def vote(d, p, a, mask, *, mode):
    """The lanes whose predicate holds, a bit each, and whether all, any, or all or none of them do."""
    true = a & mask
    for number in range(32):
        d[number] = true
    if mode == "ALL":
        result = true == mask
    elif mode == "ANY":
        result = true != np.uint32(0)
    else:
        result = (true == mask) | (true == np.uint32(0))
    if result:
        p[0] = mask
    return 0


def _key(params):
    return {"a": ("u64" if params["wide"] else "u32", 1)}


@machine("MATCH.ANY{wide} d:u32, a", pipe="adu", body="warp", wide=flag("U64"), operands=_key)
def match_any(d, a, mask):
    """The lanes that have the same value as this one."""
    for number in range(32):
        if has(mask, number):
            equal = np.uint32(0)
            for other in range(32):
                if has(mask, other) and a[other] == a[number]:
                    equal |= np.uint32(1) << np.uint32(other)
            d[number] = equal
    return 0


@machine("MATCH.ALL{wide} p, d:u32, a", pipe="adu", body="warp", wide=flag("U64"), operands=_key)
def match_all(p, d, a, mask):
    """The executing lanes (and true) if all have the same value, else 0 (and false)."""
    first = first_lane(mask)
    same = True
    for number in range(32):
        if has(mask, number) and a[number] != a[first]:
            same = False
    for number in range(32):
        d[number] = mask if same else np.uint32(0)
    if same:
        p[0] = mask
    return 0


@machine(
    "REDUX{op}{signed} d:u32, a:u32", pipe="alu", body="warp", op=optional("SUM", "MIN", "MAX", "OR", "XOR"), signed=flag("S32")
)
def redux(d, a, mask, *, op, signed):
    """Combine the lanes' values by an integer operation (by and, where none is written) into a uniform register."""
    first = first_lane(mask)
    total = a[first]
    for number in range(first + 1, 32):
        if has(mask, number):
            value = a[number]
            if op == "SUM":
                total = np.uint32(total + value)
            elif op == "OR":
                total |= value
            elif op == "XOR":
                total ^= value
            elif op == "":
                total &= value
            elif signed:
                smaller = np.int32(value) < np.int32(total)
                total = value if smaller == (op == "MIN") else total
            else:
                total = min(total, value) if op == "MIN" else max(total, value)
    for number in range(32):
        d[number] = total
    return 0


@machine("R2UR p?, d:u32, a:u32", pipe="alu", body="warp")
def r2ur(p, d, a, mask):
    """Move the value of the first executing lane to a uniform register; ``p``: the lanes whose value is another one."""
    value = a[first_lane(mask)]
    for number in range(32):
        d[number] = value
        if a[number] != value:
            p[0] |= np.uint32(1) << np.uint32(number)
    return 0


@machine("R2UR.OR p, d:u32, a:u32, old:pred?", pipe="alu", body="warp")
def r2ur_or(p, d, a, old, mask):
    """As R2UR, where ``p`` keeps the lanes that it had: of a value in several registers."""
    value = a[first_lane(mask)]
    p[0] = old
    for number in range(32):
        d[number] = value
        if a[number] != value:
            p[0] |= np.uint32(1) << np.uint32(number)
    return 0


@machine("ELECT p, d:u32?, a:pred", pipe="uniform", body="warp")
def elect(p, d, a, mask):
    """The lowest executing lane whose ``a`` holds: its number in ``d``, and ``p`` true in that lane only."""
    leader = first_lane(mask & a)
    for number in range(32):
        d[number] = leader
    p[0] = np.uint32(1) << np.uint32(leader)
    return 0


@machine("MOVM.16.MT88 d:u32, a:u32", pipe="lsu", body="warp")
def movm(d, a, mask):
    """Transpose an 8x8 tile of 16-bit elements held in registers."""
    for number in range(32):
        row, column = number >> 2, 2 * (number & 3)
        low = a[4 * column + row // 2] >> np.uint32(16 * (row & 1))
        high = a[4 * (column + 1) + row // 2] >> np.uint32(16 * (row & 1))
        d[number] = (low & np.uint32(0xFFFF)) | ((high & np.uint32(0xFFFF)) << np.uint32(16))
    return 0
