"""Matrix instructions of a warpgroup: HGMMA, QGMMA, IGMMA, BGMMA. Their arithmetic and kernels are those of ``wgmma``.

``gdesc[UR4]`` names the matrix descriptors: that of A in the pair UR4, that of B in the pair behind it (alone used where A is
in registers). ``.negA`` and ``.negB`` flip signs, ``.tnspA`` and ``.tnspB`` read a matrix with rows, or columns, side by
side. An instruction without a destination is there for its group only.
"""

from __future__ import annotations

from typing import Any

from isa.instructions.wgmma import wgmma
from isa.sass.registry import machine
from isa.spec import flag, optional
from isa.spec.registry import Params
from isa.tensor.forms import MmaForm
from isa.tensor.wgmma_forms import WGMMA_FORMS, find_wgmma_form
from isa.tensor.wgmma_plans import accumulator_registers, make_wgmma_plan


def warpgroup_form(params: Params) -> MmaForm:
    """The ``wgmma`` form that computes what an instruction computes."""
    word = str(params.get("at") or "f16").lower()
    accumulator = str(params.get("dt") or "s32").lower()
    return find_wgmma_form(
        f"m{str(params['shape']).replace('x', 'n', 1).replace('x', 'k', 1)}",
        accumulator,
        word,
        str(params.get("bt") or word).lower(),
        sparse=bool(params.get("sparse")),
        satfinite=bool(params.get("sat")),
        bit_operation=str(params.get("bits") or "").lower(),
    )


def binary_form(params: Params) -> Params:
    """The parameters of BGMMA, which does not name its type."""
    return {**params, "at": "b1"}


def _shapes(*types):
    return tuple(dict.fromkeys(f"{f.m}x{f.n}x{f.k}" for f in WGMMA_FORMS if f.a in types))


def _register(template: str, types: tuple[str, ...], refine: Any = dict, **slots: Any) -> None:
    """Enter an instruction, dense and sparse."""

    def operands(params):
        count = accumulator_registers(warpgroup_form(refine(params)))
        return {"d": ("u32", count), "c": ("u32", count), "a": ("u32", 4)}

    def rule(params, sm):
        return {"kernel": make_wgmma_plan(warpgroup_form(refine(params)), sm, False).kernel.__name__}

    machine(
        f"{template} d:u32*2, a:u32*4?, descriptors:u64, c:u32*2, scale_d:pred?, metadata:u32?, selector:u32?",
        pipe="tensor",
        body="planes",
        operands=operands,
        arch_rule=rule,
        sparse=flag("SP"),
        shape=_shapes(*types),
        **slots,
    )(wgmma)


_FP8, _BYTES = ("E4M3", "E5M2"), ("S8", "U8")
_register("HGMMA{sparse}.{shape}.{dt}{at}", ("f16", "bf16", "tf32"), dt=("F32", "F16"), at=optional("BF16", "TF32"))
_register("QGMMA{sparse}.{shape}.{dt}.{at}.{bt}", ("e4m3", "e5m2"), dt=("F32", "F16"), at=_FP8, bt=_FP8)
_register("IGMMA{sparse}.{shape}.{at}.{bt}{sat}", ("s8", "u8"), at=_BYTES, bt=_BYTES, sat=flag("SAT"))
_register("BGMMA{sparse}.{shape}.{bits}.POPC", ("b1",), refine=binary_form, bits=("AND",))


@machine("WARPGROUP.ARRIVE", control="nothing", pipe="tensor")
@machine("WARPGROUP.DEPBAR.LE n:b32", control="nothing", pipe="none")
def warpgroup_order() -> None:
    """Order accesses to registers, or wait for groups: an executor that computes at once need not."""
