"""``mma`` and ``mma.sp`` with a ``.kind``: operands of 8, 6 and 4 bits, with and without block scales (PTX ISA 9.7.14.5.14 and
9.7.14.6.3).

Which there are, and where scales stand, is in :mod:`isa.tensor.scaled_forms`; ptxas 13.0 takes them for sm_120a, and for
sm_100a what is only another name of an 8-bit form.
"""

from __future__ import annotations

import numpy as np

from isa.instructions.matrix import _KERNELS as DENSE_KERNELS
from isa.machine import BAD_OPERAND, GLOBAL, fault
from isa.spec import instruction, optional
from isa.tensor.forms import MmaForm, NoFormError, find_form
from isa.tensor.mma_scaled import mma_groups, mma_kind, mma_scaled, mma_sparse_kind, mma_sparse_scaled
from isa.tensor.mma_sparse import bad_metadata
from isa.tensor.plans import make_plan
from isa.tensor.scaled_forms import SMALL_TYPES, find_kind_form
from isa.tensor.scaled_plans import make_kind_plan

_TARGETS = tuple(f"sm_{number}{letter}" for number in ("120", "121") for letter in "af")
_PLAIN_TARGETS = (*(f"sm_{number}{letter}" for number in ("100", "103", "110") for letter in "af"), *_TARGETS)
_FP8 = ("e4m3", "e5m2")

_KERNELS = DENSE_KERNELS | {
    kernel.__name__: kernel for kernel in (mma_groups, mma_kind, mma_scaled, mma_sparse_kind, mma_sparse_scaled)
}


def _instruction_name(params):
    return "mma.sp" if params.get("sparse") else "mma"


def _form(params) -> MmaForm:
    """The form that an opcode's modifiers name. An 8-bit form of ``m16n8k16`` has no other rule than without ``.kind``."""
    kind = str(params.get("kind") or "kind::f8f6f4").removeprefix("kind::")
    at, bt, dt = str(params["at"]), str(params["bt"]), str(params.get("dt", "f32"))
    ct = str(params.get("ct", "f32"))
    shape = str(params["shape"])
    if kind == "f8f6f4" and shape == "m16n8k16" and not params.get("sparse"):
        return find_form("mma", shape, at, bt, ct, dt)
    vec = str(params.get("vec") or "")
    scale_vec = int(vec.removeprefix("scale_vec::").removesuffix("X")) if vec else 0
    return find_kind_form(_instruction_name(params), kind, shape, at, bt, ct, dt, scale_vec, str(params.get("st", "")))


def _valid(params):
    try:
        form = _form(params)
    except NoFormError as problem:
        return str(problem)
    if not params.get("kind") and (form.d == "f32" or not {form.a, form.b} <= set(_FP8)):
        return ".kind may be left out of mma.sp with 8-bit operands only"
    if (params["alayout"], params["blayout"]) != ("row", "col"):
        return f"{params['shape']} takes .row.col only (PTX ISA 9.7.14.5.14)"
    return None


def _operands(params):
    form = _form(params)
    counts = (make_kind_plan(form, 120) if form.kind else make_plan(form, 120)).registers
    return {name: ("b32", counts[name]) for name in "abcd"}


def _plan(params, sm):
    """8-bit operands have the rule of the form without ``.kind`` where that has one of its own."""
    form = _form(params)
    if form.kind and sm // 10 == 12:
        return make_kind_plan(form, sm)
    if form.kind and (form.kind != "f8f6f4" or not {form.a, form.b} <= set(_FP8)):
        return make_kind_plan(form, sm)  # which says what is wrong
    return make_plan(find_form(_instruction_name(params), form.shape, form.a, form.b, form.c, form.d), sm, True)


def _rule(params, sm):
    plan = _plan(params, sm)
    return {"kernel": plan.kernel.__name__, "numbers": plan.numbers}


def _timing(params):
    """They take the time of the 8-bit form that reads as many bytes."""
    return "mma.m16n8k16.e4m3" if params["shape"] == "m16n8k16" else "mma.m16n8k32.e4m3"


def _kind(template, section, **slots):
    """The common part of the four instructions."""
    return instruction(
        template,
        body="warp",
        timing=_timing,
        section=section,
        sm=100 if "block_scale" not in template else 120,
        ptx="8.7",
        collective="warp",
        valid=_valid,
        operands=_operands,
        arch_rule=_rule,
        alayout=("row", "col"),
        blayout=("row", "col"),
        at=SMALL_TYPES,
        bt=SMALL_TYPES,
        **slots,
    )


@_kind(
    "mma.sync.aligned.{shape}.{alayout}.{blayout}.{kind}.{dt}.{at}.{bt}.{ct} d*n, a*n, b*n, c*n",
    "9.7.14.5.14",
    targets=_PLAIN_TARGETS,
    shape=("m16n8k16", "m16n8k32"),
    kind=("kind::f8f6f4",),
    dt=("f32", "f16"),
    ct=("f32", "f16"),
)
def mma_of_kind(d, a, b, c, *, kernel, numbers):
    """Multiply two small matrices of 8-, 6- or 4-bit numbers, each in a container of 8 bits, and add a third.

    ``tcsim isa show`` prints the arithmetic rule of each architecture and how it is known.
    """
    _KERNELS[kernel](d, a, b, c, numbers)
    return 0


@_kind(
    "mma.{sparse}.sync.aligned.{shape}.{alayout}.{blayout}{kind}.{dt}.{at}.{bt}.{ct} "
    "d*n, a*n, b*n, c*n, e:b32, selector:b32",
    "9.7.14.6.3",
    targets=_PLAIN_TARGETS,
    sparse=("sp::ordered_metadata",),
    shape=("m16n8k64",),
    kind=optional("kind::f8f6f4"),
    dt=("f32", "f16"),
    ct=("f32", "f16"),
)
def mma_sp_of_kind(d, a, b, c, e, selector, ctx, *, kernel, numbers):
    """The same where half of A is zeros that are not stored; ``e`` says which elements are (:mod:`isa.tensor.metadata`).

    Metadata without a meaning stop the kernel.
    """
    chosen = np.int64(selector[0])
    if chosen != 0:
        return fault(ctx, BAD_OPERAND, 0, GLOBAL, chosen, -1)
    place = bad_metadata(e, chosen, numbers.floats.metadata)
    if place >= 0:
        return fault(ctx, BAD_OPERAND, place >> 5, GLOBAL, e[place >> 5], place & 31)
    _KERNELS[kernel](d, a, b, c, e, chosen, numbers)
    return 0


_SCALED_KINDS = ("kind::mxf8f6f4", "kind::mxf4", "kind::mxf4nvf4")
_SCALED = {
    "kind": _SCALED_KINDS,
    "vec": optional("scale_vec::1X", "scale_vec::2X", "scale_vec::4X"),
    "st": ("ue8m0", "ue4m3"),
}


@_kind(
    "mma.sync.aligned.{shape}.{alayout}.{blayout}.{kind}.block_scale{vec}.f32.{at}.{bt}.f32.{st} "
    "d*n, a*n, b*n, c*n, sa:b32, ida:u16*2, sb:b32, idb:u16*2",
    "9.7.14.5.14",
    targets=_TARGETS,
    shape=("m16n8k32", "m16n8k64"),
    **_SCALED,
)
def mma_block_scaled(d, a, b, c, sa, ida, sb, idb, ctx, *, kind, vec, kernel, numbers):
    """Multiply two small matrices of 8-, 6- or 4-bit numbers, of which each block has a scale, and add a third.

    ``sa`` and ``sb`` hold the scales, ``{byte-id, thread-id}`` say where (:mod:`isa.tensor.scaled_forms`).
    """
    ids_a, ids_b = (np.int64(ida[0, 0]), np.int64(ida[1, 0])), (np.int64(idb[0, 0]), np.int64(idb[1, 0]))
    if ids_a[0] > 3 or ids_a[0] % STEP[kind, vec] != 0 or ids_a[1] > 1:
        return fault(ctx, BAD_OPERAND, 0, GLOBAL, ids_a[0], -2)
    if ids_b[0] > 3 or ids_b[0] % STEP[kind, vec] != 0 or ids_b[1] > 3:
        return fault(ctx, BAD_OPERAND, 0, GLOBAL, ids_b[0], -3)
    if kind == "kind::mxf8f6f4":
        _KERNELS[kernel](d, a, b, c, sa, ids_a, sb, ids_b, numbers)
    else:
        _KERNELS[kernel](d, a, b, c, sa, 0, sa, ids_a, sb, ids_b, numbers)
    return 0


@_kind(
    "mma.{sparse}.sync.aligned.{shape}.{alayout}.{blayout}.{kind}.block_scale{vec}.f32.{at}.{bt}.f32.{st} "
    "d*n, a*n, b*n, c*n, e:b32, selector:b32, sa:b32, ida:u16*2, sb:b32, idb:u16*2",
    "9.7.14.6.3",
    targets=_TARGETS,
    sparse=("sp::ordered_metadata",),
    shape=("m16n8k64", "m16n8k128"),
    **_SCALED,
)
def mma_sp_block_scaled(d, a, b, c, e, selector, sa, ida, sb, idb, ctx, *, kind, vec, kernel, numbers):
    """The same where half of A is zeros that are not stored; ``e`` says which elements are (:mod:`isa.tensor.metadata`).

    Metadata without a meaning stop the kernel.
    """
    ids_a, ids_b = (np.int64(ida[0, 0]), np.int64(ida[1, 0])), (np.int64(idb[0, 0]), np.int64(idb[1, 0]))
    if ids_a[0] > 3 or ids_a[0] % STEP[kind, vec] != 0 or ids_a[1] > 1:
        return fault(ctx, BAD_OPERAND, 0, GLOBAL, ids_a[0], -2)
    if ids_b[0] > 3 or ids_b[0] % STEP[kind, vec] != 0 or ids_b[1] > 3:
        return fault(ctx, BAD_OPERAND, 0, GLOBAL, ids_b[0], -3)
    chosen = np.int64(selector[0])
    if chosen != 0:
        return fault(ctx, BAD_OPERAND, 0, GLOBAL, chosen, -1)
    if kind == "kind::mxf8f6f4":
        place = bad_metadata(e, chosen, numbers.floats.metadata)
    else:
        place = bad_metadata(e, chosen, numbers.metadata)
    if place >= 0:
        return fault(ctx, BAD_OPERAND, place >> 5, GLOBAL, e[place >> 5], place & 31)
    _KERNELS[kernel](d, a, b, c, e, chosen, sa, ids_a, sb, ids_b, numbers)
    return 0


STEP = {
    (kind, vec): int(vec[-2]) if vec else {"kind::mxf8f6f4": 1, "kind::mxf4": 2, "kind::mxf4nvf4": 4}[kind]
    for kind in _SCALED_KINDS
    for vec in ("", "scale_vec::1X", "scale_vec::2X", "scale_vec::4X")
}
"""What byte-id is a multiple of."""
