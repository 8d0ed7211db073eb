"""Warp-level matrix operations on whole tiles: wmma.load, wmma.store, wmma.mma (PTX ISA 9.7.14.4).

``wmma.mma`` is the ``mma.sync`` that ptxas makes of it; fragments are laid out accordingly (:mod:`isa.tensor.wmma_layouts`).
"""

from __future__ import annotations

import numpy as np

from isa.arith.lane import lane
from isa.instructions.matrix import _KERNELS
from isa.instructions.memory import read, write
from isa.instructions.warp import has
from isa.machine import SPACES, locate
from isa.spec import flag, instruction, optional
from isa.tensor.forms import WMMA_FORMS, NoFormError, element_bits, find_form
from isa.tensor.plans import make_plan, unread_bits
from isa.tensor.undefined import note_unread
from isa.tensor.wmma_layouts import wmma_fragment

_SHAPES = tuple(sorted({form.shape for form in WMMA_FORMS}))
_TYPES = tuple(sorted({form.a for form in WMMA_FORMS} | {form.d for form in WMMA_FORMS}))
_SPACES = ("global", "shared", "shared::cta")


def _any_form(operand, shape, t):
    """A form whose ``operand`` has this shape and type, or None (fragments depend on nothing else)."""
    for form in WMMA_FORMS:
        if form.shape == shape and getattr(form, operand) == t:
            return form
    return None


def _fragment(params):
    operand = str(params.get("operand", "d"))
    form = _any_form(operand, str(params["shape"]), str(params["t"]))
    return None if form is None else wmma_fragment(form, operand)


def _valid(params):
    operand, t = str(params.get("operand", "d")), str(params["t"])
    if _fragment(params) is None:
        there = sorted({form.shape for form in WMMA_FORMS if getattr(form, operand) == t})
        what = f"operand {operand} of .{t} has shape {' or '.join(there)}" if there else f".{t} is no type of operand {operand}"
        return f"no wmma form of shape {params['shape']} has .{t} as operand {operand}: {what} (PTX ISA 9.7.14.4)"
    if element_bits(t) < 8 and operand in "ab" and params["layout"] != {"a": "row", "b": "col"}[operand]:
        return f".{t} takes .row for a and .col for b only (PTX ISA 9.7.14.4.3)"
    return None


def _registers(params):
    fragment = _fragment(params)
    name = "d" if "operand" in params else "b"
    return {name: ("f64" if fragment.word_bits == 64 else "b32", fragment.registers), "a": ("b8", 1)}


def _pattern(params, sm):
    """Where the elements are: what each bit of (element, lane, register) adds to the row and to the column."""
    fragment = _fragment(params)
    steps = [(*step, 0)[:2] for step in (*fragment.element, *fragment.lane, *fragment.register)]
    bits = element_bits(str(params["t"]))
    # Sub-byte elements are contiguous along the row (a) or column (b) and are moved a word at a time.
    skip = len(fragment.element) if bits < 8 else 0
    return {
        "row_steps": tuple(row for row, _ in steps[skip:]),
        "column_steps": tuple(column for _, column in steps[skip:]),
        "elements": 1 if bits < 8 else fragment.per_register,
        "registers": fragment.registers,
        "bits": bits,
    }


@lane
def offset_bits(index, row_steps, column_steps, stride, row_major, bits):
    """Distance in bits of an element from the tile's start. ``stride``: between rows (columns if column-major), in elements."""
    row = np.int64(0)
    column = np.int64(0)
    for position in range(len(row_steps)):
        if (index >> position) & 1:
            row += row_steps[position]
            column += column_steps[position]
    if row_major:
        return (row * stride + column) * bits
    return (column * stride + row) * bits


def _extent(operand, shape, row_major):
    """Elements in a row (or column) of the packed tile: the stride when the text gives none."""
    m, n, k = (int(x) for x in shape[1:].replace("n", " ").replace("k", " ").split())
    rows, columns = {"a": (m, k), "b": (k, n)}.get(operand, (m, n))
    return columns if row_major else rows


def _load_rule(params, sm):
    row_major = params["layout"] == "row"
    stride = _extent(str(params.get("operand", "d")), str(params["shape"]), row_major)
    return _pattern(params, sm) | {"row_major": row_major, "packed_stride": stride}


_LOAD = "wmma.load.{operand}.sync.aligned.{layout}.{shape}{space}.{t} d*n, [a]"
_STORE = "wmma.store.d.sync.aligned.{layout}.{shape}{space}.{t} [a], b*n"


def _common(**more):
    return {
        "body": "warp",
        "section": "9.7.14.4",
        "sm": 70,
        "ptx": "6.0",
        "collective": "warp",
        "valid": _valid,
        "operands": _registers,
        "arch_rule": _load_rule,
        "layout": ("row", "col"),
        "shape": _SHAPES,
        "space": optional(*_SPACES),
        "t": _TYPES,
    } | more


@lane
def load_fragment(d, a, stride, mask, ctx, space, row_steps, column_steps, elements, registers, bits, row_major):
    """Fill a fragment from memory, element by element. Returns 0 or a fault code."""
    for register in range(registers):
        for number in range(32):
            if not has(mask, number):
                continue
            word = np.uint64(0)
            for element in range(elements):
                index = (register * 32 + number) * elements + element
                at = offset_bits(index, row_steps, column_steps, stride, row_major, bits)
                size = 4 if bits < 8 else bits // 8
                host = locate(ctx, space, a[number] + np.uint64(at >> 3), size, number)
                if host == 0:
                    return np.int32(1)
                word |= read(host, size) << np.uint64(element * bits)
            d[register, number] = word
    return np.int32(0)


@lane
def store_fragment(a, b, stride, mask, ctx, space, row_steps, column_steps, elements, registers, bits, row_major):
    """Write a fragment to memory, element by element. Returns 0 or a fault code."""
    for register in range(registers):
        for number in range(32):
            if not has(mask, number):
                continue
            for element in range(elements):
                index = (register * 32 + number) * elements + element
                at = offset_bits(index, row_steps, column_steps, stride, row_major, bits)
                size = bits // 8
                host = locate(ctx, space, a[number] + np.uint64(at >> 3), size, number)
                if host == 0:
                    return np.int32(1)
                write(host, np.uint64(b[register, number]) >> np.uint64(element * bits), size)
    return np.int32(0)


_TIMING = {"timing": lambda p: f"wmma.load.{p['t']}", "memory": "tile_load", "operand": ("a", "b", "c")}


@instruction(_LOAD + ", stride:b32", **_common(**_TIMING))
def wmma_load(
    d, a, stride, mask, ctx, *,
    space, row_steps, column_steps, elements, registers, bits, row_major,
):  # fmt: skip
    """Load a tile into a fragment. ``stride`` is the distance of rows (columns if ``.col``) in elements."""
    return load_fragment(
        d, a, np.int64(stride[0]), mask, ctx, SPACES[space], row_steps, column_steps, elements, registers, bits, row_major
    )


@instruction(_LOAD, **_common(**_TIMING))
def wmma_load_packed(
    d, a, mask, ctx, *,
    space, row_steps, column_steps, elements, registers, bits, row_major, packed_stride,
):  # fmt: skip
    """Load a packed tile into a fragment."""
    return load_fragment(
        d, a, packed_stride, mask, ctx, SPACES[space], row_steps, column_steps, elements, registers, bits, row_major
    )


_STORE_TIMING = {"timing": lambda p: f"wmma.store.{p['t']}", "memory": "tile_store"}


@instruction(_STORE + ", stride:b32", **_common(**_STORE_TIMING))
def wmma_store(
    a, b, stride, mask, ctx, *,
    space, row_steps, column_steps, elements, registers, bits, row_major,
):  # fmt: skip
    """Store a fragment as a tile."""
    return store_fragment(
        a, b, np.int64(stride[0]), mask, ctx, SPACES[space], row_steps, column_steps, elements, registers, bits, row_major
    )


@instruction(_STORE, **_common(**_STORE_TIMING))
def wmma_store_packed(
    a, b, mask, ctx, *,
    space, row_steps, column_steps, elements, registers, bits, row_major, packed_stride,
):  # fmt: skip
    """Store a fragment as a packed tile."""
    return store_fragment(
        a, b, packed_stride, mask, ctx, SPACES[space], row_steps, column_steps, elements, registers, bits, row_major
    )


# ---------------------------------------------------------------------------------------------------------- wmma.mma


def _mma_form(params):
    """The text gives d and c types for f16 (``.f32.f16``), all four for other types, and a single type for none."""
    types = [str(params[name]) for name in ("t1", "t2", "t3", "t4") if params.get(name)]
    if len(types) == 2:
        d, c = types
        a = b = "f16"
    elif len(types) == 4 and types[1] != "f16":
        d, a, b, c = types
    else:
        raise NoFormError(
            "wmma.mma takes the types of d and c where a and b are .f16, else those of d, a, b and c (PTX ISA 9.7.14.4.5)"
        )
    return find_form(
        "wmma", str(params["shape"]), a, b, c, d, bool(params["satfinite"]), str(params["bits"]), rounding=str(params["rnd"])
    )


def _mma_valid(params):
    try:
        form = _mma_form(params)
    except NoFormError as problem:
        return str(problem)
    if bool(params["popc"]) != (form.a == "b1"):
        return ".popc belongs to .b1 operands, and only to them"
    if element_bits(form.a) < 8 and (params["alayout"], params["blayout"]) != ("row", "col"):
        return f".{form.a} takes .row.col only (PTX ISA 9.7.14.4.5)"
    return None


def _mma_operands(params):
    form = _mma_form(params)
    kind = "f64" if form.a == "f64" else "b32"
    return {name: (kind, wmma_fragment(form, name).registers) for name in "abcd"}


def _mma_rule(params, sm):
    form = _mma_form(params)
    plan = make_plan(form, sm)
    calls = tuple(
        (c.d.first, c.d.count, c.a.first, c.a.count, c.b.first, c.b.count, c.c.first, c.c.count) for c in plan.calls
    )
    return {
        "kernel": plan.kernel.__name__,
        "numbers": plan.numbers,
        "calls": calls,
        "turned": plan.calls[0].a.operand == "b",
        "unread": unread_bits(form),
    }


_D_TYPES = tuple(sorted({form.d for form in WMMA_FORMS}))


@instruction(
    "wmma.mma{bits}{popc}.sync.aligned.{alayout}.{blayout}.{shape}{rnd}.{t1}.{t2}{t3}{t4}{satfinite} d*n, a*n, b*n, c*n",
    body="warp",
    timing=lambda p: f"wmma.{p['shape']}.{p['t2'] if p['t3'] else 'f16'}",
    section="9.7.14.4.5",
    sm=70,
    ptx="6.0",
    collective="warp",
    valid=_mma_valid,
    operands=_mma_operands,
    arch_rule=_mma_rule,
    shape=_SHAPES,
    alayout=("row", "col"),
    blayout=("row", "col"),
    bits=optional("xor", "and"),
    popc=flag("popc"),
    rnd=optional("rn", "rz", "rm", "rp"),
    t1=_D_TYPES,
    t2=_TYPES,
    t3=optional(*_TYPES),
    t4=optional(*_TYPES),
    satfinite=flag("satfinite"),
)
def wmma_mma(d, a, b, c, ctx, *, kernel, numbers, calls, turned, unread):
    """Multiply two tiles and add a third: ``d = a * b + c``."""
    if unread != 0:
        note_unread(a, b, unread, ctx)
    for part in range(len(calls)):
        d0, dn, a0, an, b0, bn, c0, cn = calls[part]
        left = b if turned else a
        right = a if turned else b
        _KERNELS[kernel](d[d0 : d0 + dn], left[a0 : a0 + an], right[b0 : b0 + bn], c[c0 : c0 + cn], numbers)
    return 0
