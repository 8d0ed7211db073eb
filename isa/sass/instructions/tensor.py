"""Tensor cores: HMMA, QMMA, IMMA, BMMA, DMMA. Their arithmetic is that of the ``mma`` which becomes one (:mod:`isa.tensor`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from isa.instructions.matrix import mma_sp
from isa.sass.registry import machine
from isa.spec import flag, optional
from isa.tensor.forms import MmaForm, find_form
from isa.tensor.mma_f64 import mma_f64
from isa.tensor.mma_float import mma_float
from isa.tensor.mma_integer import mma_bits, mma_integer
from isa.tensor.plans import make_plan, unread_bits
from isa.tensor.undefined import note_unread

KERNELS = {"mma_float": mma_float, "mma_f64": mma_f64, "mma_integer": mma_integer, "mma_bits": mma_bits}
_SHAPES: dict[str, Any] = {
    **{f"16{k}": f"m16n8k{int(k[1:])}" for k in ("84", "88", "816", "832", "864", "8128", "8256")},
    **{f"8{k}": f"m8n8k{int(k[1:])}" for k in ("84", "816", "832", "8128")},
    **{f"16x8x{k}": f"m16n8k{k}" for k in (4, 8, 16)},
    "8x8x4": "m8n8k4",
}


def _form(params):
    """The ``mma`` form that computes what a tensor instruction computes."""
    shape = _SHAPES[str(params["shape"])]
    a, b = str(params.get("at") or "f16").lower(), str(params.get("bt") or params.get("at") or "f16").lower()
    accumulator = str(params.get("acc", "S32")).lower()
    saturates, bits = bool(params.get("sat", False)), str(params.get("bits", "")).lower()
    kind = "mma.sp" if params.get("sparse") else "mma"
    return find_form(kind, shape, a, b, accumulator, accumulator, saturates, bits, "row", "col")


def _fragments(form_of):
    def operands(params):
        form = form_of(params)
        counts = make_plan(form, max(form.sm, 80)).registers
        return {name: ("f64" if form.a == "f64" else "b32", counts[name]) for name in "abcd"}

    return operands


def _rule(form_of):
    def rule(params, sm):
        form = form_of(params)
        plan = make_plan(form, sm)
        return {"kernel": plan.kernel.__name__, "numbers": plan.numbers, "unread": unread_bits(form)}

    return rule


def _tensor(template, form_of=_form, more="", **slots):
    return machine(
        f"{template} d:b32*2, a:b32*2, b:b32*2, c:b32*2{more}",
        pipe="tensor",
        body="warp",
        operands=_fragments(form_of),
        arch_rule=_rule(form_of),
        **slots,
    )


def _bits(params):
    return _form({**params, "at": "b1", "acc": "S32"})


def _double(params):
    return _form({**params, "at": "f64", "acc": "f64"})


def matrix_form(base: str, params: Mapping[str, Any]) -> MmaForm:
    """The ``mma`` form that an instruction with these parameters computes. base: HMMA, QMMA, IMMA, BMMA or DMMA."""
    form: MmaForm = {"BMMA": _bits, "DMMA": _double}.get(base, _form)(params)
    return form


_INTEGERS = ("S8", "U8", "S4", "U4")


@_tensor("HMMA.{shape}.{acc}{at}", shape=("1684", "1688", "16816"), acc=("F32", "F16"), at=optional("BF16", "TF32"))
@_tensor(
    "IMMA.{shape}.{at}.{bt}{sat}",
    shape=("8816", "16816", "16832", "8832", "16864"),
    at=_INTEGERS,
    bt=_INTEGERS,
    sat=flag("SAT"),
)
@_tensor(
    "QMMA.{shape}.{acc}.{at}.{bt}",
    shape=("16816", "16832"),
    acc=("F32", "F16"),
    at=("E4M3", "E5M2"),
    bt=("E4M3", "E5M2"),
)
@_tensor("BMMA.{shape}.{bits}.POPC", _bits, shape=("88128", "168128", "168256"), bits=("AND", "XOR"))
@_tensor("DMMA.{shape}", _double, shape=("884", "8x8x4", "16x8x4", "16x8x8", "16x8x16"))
def mma(d, a, b, c, ctx, *, kernel, numbers, unread):
    """Multiply two small matrices spread over a warp and add a third, as this architecture's tensor core does."""
    if unread != 0:
        note_unread(a, b, unread, ctx)
    KERNELS[kernel](d, a, b, c, numbers)
    return 0


def _sparse(template, **slots):
    return _tensor(template, more=", e:b32, selector:b32", sparse=("SP",), **slots)


# How metadata are read is as of ``mma.sp``; that ``sp::ordered_metadata`` allows fewer of them is not seen here.
_sparse("HMMA.{sparse}.{shape}.{acc}{at}", shape=("1688", "16816", "16832"), acc=("F32", "F16"), at=optional("BF16", "TF32"))(
    mma_sp
)
_sparse(
    "IMMA.{sparse}.{shape}.{at}.{bt}{sat}", shape=("16832", "16864", "168128"), at=_INTEGERS, bt=_INTEGERS, sat=flag("SAT")
)(mma_sp)
_sparse(
    "QMMA.{sparse}.{shape}.{acc}.{at}.{bt}",
    shape=("16832", "16864"),
    acc=("F32", "F16"),
    at=("E4M3", "E5M2"),
    bt=("E4M3", "E5M2"),
)(mma_sp)
