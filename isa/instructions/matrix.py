"""Matrices in registers: ldmatrix, stmatrix, movmatrix, mma.sync, mma.sp (PTX ISA 9.7.14.5, 9.7.14.6).

Layouts and arithmetic are in :mod:`isa.tensor`; an instruction here binds one of its kernels, with the numbers of the
architecture that the program is for.
"""

from __future__ import annotations

import numpy as np

from isa.instructions.memory import lowest_fault, store_turn
from isa.instructions.warp import has
from isa.kernels.planes import load_u32, store_u32
from isa.machine import BAD_OPERAND, GLOBAL, SPACES, fault, locate
from isa.spec import flag, instruction, optional
from isa.tensor.forms import FORMS, NoFormError, find_form
from isa.tensor.mma_884 import mma_884
from isa.tensor.mma_f64 import mma_f64
from isa.tensor.mma_float import mma_float
from isa.tensor.mma_integer import mma_bits, mma_integer
from isa.tensor.mma_sparse import bad_metadata, mma_sparse_float, mma_sparse_integer, without_meaning
from isa.tensor.plans import make_plan, unread_bits
from isa.tensor.undefined import SPARSITY, note_undefined, note_unread

_SHARED = ("shared", "shared::cta")

# ----------------------------------------------------------------------------------------------- 8 x 8 tiles of 16 bits


@instruction(
    "ldmatrix.sync.aligned.m8n8.{num}{trans}{space}.b16 d:b32*num, [a]",
    body="warp",
    timing=lambda p: f"ldmatrix.{p['num']}",
    memory="matrix_load",
    section="9.7.14.5.15",
    sm=75,
    ptx="6.5",
    collective="warp",
    num=("x1", "x2", "x4"),
    trans=flag("trans"),
    space=optional(*_SHARED),
)
def ldmatrix(d, a, mask, ctx, *, num, trans, space):
    """Load 8x8 tiles of 16-bit elements from shared memory; lane ``8j+r`` gives the address of row ``r`` of tile ``j``.

    Lane ``4g+t`` gets elements ``2t``, ``2t+1`` of row ``g``; with ``.trans`` those of column ``g``.
    """
    for tile in range(_TILES[num]):
        for row in range(8):
            source = 8 * tile + row
            if not has(mask, source):
                return fault(ctx, BAD_OPERAND, source, SPACES[space], 0, 16)
            host = locate(ctx, SPACES[space], a[source], 16, source)
            if host == 0:
                return 1
            for part in range(4):
                word = load_u32(host + 4 * part)
                if trans:  # elements 2p and 2p+1 of this row go to columns 2p and 2p+1: lanes 4(2p)+row/2 and 4(2p+1)+row/2
                    shift = np.uint32(16 * (row & 1))
                    keep = np.uint32(0xFFFF0000) if row & 1 == 0 else np.uint32(0x0000FFFF)
                    low, high = 8 * part + row // 2, 8 * part + 4 + row // 2
                    d[tile, low] = (d[tile, low] & keep) | ((word & np.uint32(0xFFFF)) << shift)
                    d[tile, high] = (d[tile, high] & keep) | ((word >> np.uint32(16)) << shift)
                else:
                    d[tile, 4 * row + part] = word
    return 0


_TILES = {"x1": 1, "x2": 2, "x4": 4}


@instruction(
    "stmatrix.sync.aligned.m8n8.{num}{trans}{space}.b16 [a], b:b32*num",
    body="warp",
    timing=lambda p: f"stmatrix.{p['num']}",
    memory="matrix_store",
    section="9.7.14.5.16",
    sm=90,
    ptx="7.8",
    collective="warp",
    num=("x1", "x2", "x4"),
    trans=flag("trans"),
    space=optional(*_SHARED),
)
def stmatrix(a, b, mask, ctx, *, num, trans, space):
    """Store 8x8 tiles of 16-bit elements to shared memory: the inverse of ``ldmatrix``.

    Rows that collide do so as `store_turn` says: a later tile overwrites an earlier one, within a tile the first row stays.
    """
    for source in range(8 * _TILES[num]):
        if not has(mask, source):
            return fault(ctx, BAD_OPERAND, source, SPACES[space], 0, 16)
    for tile in range(_TILES[num]):
        for turn in range(8):
            source = store_turn(8 * tile + turn, 16)
            row = source & 7
            host = locate(ctx, SPACES[space], a[source], 16, source)
            if host == 0:
                return lowest_fault(ctx, SPACES[space], a, 16, mask & np.uint32((1 << (8 * _TILES[num])) - 1))
            for part in range(4):
                if trans:
                    shift = np.uint32(16 * (row & 1))
                    low = (b[tile, 8 * part + row // 2] >> shift) & np.uint32(0xFFFF)
                    high = (b[tile, 8 * part + 4 + row // 2] >> shift) & np.uint32(0xFFFF)
                    store_u32(host + 4 * part, low | (high << np.uint32(16)))
                else:
                    store_u32(host + 4 * part, b[tile, 4 * row + part])
    return 0


@instruction(
    "movmatrix.sync.aligned.m8n8.trans.b16 d:b32, a:b32",
    body="warp",
    timing="movmatrix",
    section="9.7.14.5.17",
    sm=75,
    ptx="7.8",
    collective="warp",
)
def movmatrix(d, a, mask):
    """Transpose an 8x8 tile of 16-bit elements held in registers."""
    for number in range(32):
        row, column = number >> 2, 2 * (number & 3)  # this lane receives elements (row, column) and (row, column + 1)
        low = a[4 * column + row // 2] >> np.uint32(16 * (row & 1))
        high = a[4 * (column + 1) + row // 2] >> np.uint32(16 * (row & 1))
        d[number] = (low & np.uint32(0xFFFF)) | ((high & np.uint32(0xFFFF)) << np.uint32(16))
    return 0


# ------------------------------------------------------------------------------------------------------------ mma.sync

_KERNELS = {
    "mma_float": mma_float,
    "mma_f64": mma_f64,
    "mma_884": mma_884,
    "mma_integer": mma_integer,
    "mma_bits": mma_bits,
    "mma_sparse_float": mma_sparse_float,
    "mma_sparse_integer": mma_sparse_integer,
}


def _form(params):
    """The tensor-core form that an opcode's modifiers name."""
    at, bt = str(params["at"]), str(params.get("bt") or params["at"])
    return find_form(
        "mma.sp" if params.get("sparse") else "mma",
        str(params["shape"]),
        at,
        bt,
        str(params["ct"]),
        str(params["dt"]),
        bool(params.get("satfinite", False)),
        str(params.get("bits", "")),
        str(params.get("alayout") or "row"),
        str(params.get("blayout") or "col"),
        str(params.get("rnd") or ""),
    )


def _valid(params):
    try:
        form = _form(params)
    except NoFormError as problem:
        return str(problem)
    if bool(params.get("popc", False)) != (form.a == "b1"):
        return ".popc belongs to .b1 operands, and only to them"
    if not form.is_884 and (params["alayout"], params["blayout"]) != ("row", "col"):
        section = "9.7.14.6.3" if form.is_sparse else "9.7.14.5.14"
        return f"{params['shape']} takes .row.col only (PTX ISA {section})"
    return None


def _operands(params):
    """Registers of each fragment; f64 and s32 accumulators and f16 pairs in the registers PTX gives them."""
    form = _form(params)
    counts = make_plan(form, max(form.sm, 70)).registers
    kind = "f64" if form.a == "f64" else "b32"
    return {name: (kind, counts[name]) for name in "abcd"}


def _rule(params, sm):
    form = _form(params)
    plan = make_plan(form, sm, params.get("sparse") == "sp::ordered_metadata")
    return {"kernel": plan.kernel.__name__, "numbers": plan.numbers, "unread": unread_bits(form)}


def _words(instruction_name):
    """The shapes, the types of A and B, and those of C and D that an instruction can have."""
    forms = FORMS[instruction_name]
    return (
        tuple(sorted({form.shape for form in forms})),
        tuple(sorted({form.a for form in forms})),
        tuple(sorted({form.d for form in forms})),
    )


_SHAPES, _A_TYPES, _ACCUMULATORS = _words("mma")


@instruction(
    "mma.sync.aligned.{shape}.{alayout}.{blayout}{rnd}{satfinite}.{dt}.{at}.{bt}.{ct}{bits}{popc} d*n, a*n, b*n, c*n",
    body="warp",
    timing=lambda p: f"mma.{p['shape']}.{p['at']}",
    section="9.7.14.5.14",
    sm=70,
    ptx="6.4",
    collective="warp",
    valid=_valid,
    operands=_operands,
    arch_rule=_rule,
    shape=_SHAPES,
    alayout=("row", "col"),
    blayout=("row", "col"),
    rnd=optional("rn", "rz", "rm", "rp"),
    satfinite=flag("satfinite"),
    dt=_ACCUMULATORS,
    at=_A_TYPES,
    bt=_A_TYPES,
    ct=_ACCUMULATORS,
    bits=optional("xor", "and"),
    popc=flag("popc"),
)
def mma(d, a, b, c, ctx, *, kernel, numbers, unread):
    """Multiply two small matrices spread over a warp and add a third, as this architecture's tensor core does.

    ``tcsim isa show`` prints the arithmetic rule of each architecture and how it is known.
    """
    if unread != 0:
        note_unread(a, b, unread, ctx)
    _KERNELS[kernel](d, a, b, c, numbers)
    return 0


def _sparse_timing(params):
    """A sparse instruction takes the time of the dense one that has as many elements as it stores."""
    form = _form(params)
    return f"mma.m{form.m}n{form.n}k{form.stored_k}.{form.a}"


_SPARSE_SHAPES, _SPARSE_TYPES, _SPARSE_ACCUMULATORS = _words("mma.sp")


@instruction(
    "mma.{sparse}.sync.aligned.{shape}.{alayout}.{blayout}{satfinite}.{dt}.{at}.{bt}.{ct} "
    "d*n, a*n, b*n, c*n, e:b32, selector:b32",
    body="warp",
    timing=_sparse_timing,
    section="9.7.14.6.3",
    sm=80,
    ptx="7.1",
    collective="warp",
    valid=_valid,
    operands=_operands,
    arch_rule=_rule,
    sparse=("sp", "sp::ordered_metadata"),
    shape=_SPARSE_SHAPES,
    alayout=("row", "col"),
    blayout=("row", "col"),
    satfinite=flag("satfinite"),
    dt=_SPARSE_ACCUMULATORS,
    at=_SPARSE_TYPES,
    bt=_SPARSE_TYPES,
    ct=_SPARSE_ACCUMULATORS,
)
def mma_sp(d, a, b, c, e, selector, ctx, *, kernel, numbers, unread):
    """Multiply a small matrix half of whose elements are zeros that are not stored, and a dense one, and add a third.

    ``e`` says which elements of each row of A are stored (:mod:`isa.tensor.metadata`); the constant ``selector`` in which
    lanes that is written. Metadata without a meaning do what an H200 does with them, and are told after the launch; on other
    architectures they stop the kernel, and the fault holds the lane, the word and the first of the four bits.
    """
    chosen = np.int64(selector[0])
    if chosen < 0 or chosen >= 4 // numbers.metadata.lanes:
        return fault(ctx, BAD_OPERAND, 0, GLOBAL, chosen, -1)
    place = bad_metadata(e, chosen, numbers.metadata)
    if place >= 0:
        return fault(ctx, BAD_OPERAND, place >> 5, GLOBAL, e[place >> 5], place & 31)
    if without_meaning(e, chosen, numbers.metadata):
        note_undefined(ctx, SPARSITY)
    if unread != 0:
        note_unread(a, b, unread, ctx)
    _KERNELS[kernel](d, a, b, c, e, chosen, numbers)
    return 0
