"""Warpgroup-level matrix instructions: wgmma (PTX ISA 9.7.15).

Four warps, of which the first has a number divisible by four, multiply a 64 x K matrix, in registers or shared memory, and a
K x N matrix in shared memory. Each warp computes its 16 rows when it issues the instruction: one of the orders that PTX
allows, operands and accumulators not being touched before the group of the instruction is waited for. So fences and groups
order nothing here; when the result is there is the timing model's business.
"""

from __future__ import annotations

from typing import Any

from isa.spec import flag, instruction, optional
from isa.tensor.forms import NoFormError
from isa.tensor.metadata import metadata_layout
from isa.tensor.wgmma import wgmma_bits, wgmma_float, wgmma_integer
from isa.tensor.wgmma_forms import WGMMA_FORMS, find_wgmma_form, transposable, wgmma_target
from isa.tensor.wgmma_operands import flat
from isa.tensor.wgmma_plans import accumulator_registers, make_wgmma_plan

_KERNELS = {"wgmma_float": wgmma_float, "wgmma_integer": wgmma_integer, "wgmma_bits": wgmma_bits}

_ONLY: dict[str, Any] = {"targets": (wgmma_target,), "sm": 90, "ptx": "8.0"}


def _form(params):
    """The tensor-core form that an opcode's modifiers name."""
    return find_wgmma_form(
        str(params["shape"]),
        str(params["dt"]),
        str(params["at"]),
        str(params["bt"]),
        sparse=bool(params.get("sparse", "")),
        satfinite=bool(params.get("satfinite", False)),
        bit_operation=str(params.get("bits", "")),
    )


def _operand_text(sparse: bool, floats: bool, transposed: bool, a_in_registers: bool) -> str:
    """The operands of a template, in the order of :func:`~isa.tensor.wgmma_plans.operand_order`."""
    words = ["numbers:b32*n", "d*n", "a:b32*n" if a_in_registers else "a:b64", "b:b64"]
    words += ["metadata:b32", "selector:b32"] if sparse else []
    words += ["scale_d:pred"]
    words += ["scale_a:s32", "scale_b:s32"] if floats else []
    words += (["trans_b:b32"] if a_in_registers else ["trans_a:b32", "trans_b:b32"]) if transposed else []
    return ", ".join([*words, "c*n"])


def _valid(params):
    try:
        form = _form(params)
    except NoFormError as problem:
        return str(problem)
    if bool(params.get("popc", False)) != (form.a == "b1"):
        return ".popc belongs to .b1 operands, and only to them"
    return None


def _operands_for(a_in_registers):
    """Types and counts of operands."""

    def operands(params):
        form = _form(params)
        accumulators = ("f32" if form.d == "f32" else "b32", accumulator_registers(form))
        numbers = ("b32", len(_numbers_for(a_in_registers)(params)))
        counts = {"d": accumulators, "c": accumulators, "numbers": numbers}
        return {**counts, "a": ("b32", 4)} if a_in_registers else counts

    return operands


def _numbers_for(a_in_registers):
    """The constants of a form (:mod:`isa.tensor.wgmma_operands`)."""

    def numbers(params):
        return flat(make_wgmma_plan(_form(params), 90, a_in_registers).numbers)

    return numbers


def _immediates(params):
    """Constants and their values (PTX ISA 9.7.15.5.2, 9.7.15.6.4)."""
    form = _form(params)
    selectors = tuple(range(metadata_layout(form).selectors)) if form.is_sparse else ()
    flags = dict.fromkeys(("scale_d", "trans_a", "trans_b"), (0, 1))
    return {**flags, "scale_a": (-1, 1), "scale_b": (-1, 1), "selector": selectors}


def _rule(params, sm):
    return {"kernel": make_wgmma_plan(_form(params), sm, False).kernel.__name__}


def _timing(params):
    return f"wgmma.n{_form(params).n}.{params['at']}"


def wgmma(registers, operands, ctx, *, kernel):
    """Multiply two matrices and add a third, over the four warps of a warpgroup, as the tensor cores of sm_90a do.

    ``a`` is four registers, or as ``b`` a matrix descriptor (:mod:`isa.tensor.matrix_descriptor`). With ``scale_d`` 0, what D
    holds before does not count; ``scale_a`` and ``scale_b`` -1 flip the signs of A and B; ``trans_a`` and ``trans_b`` 1 read
    them with rows, or columns, side by side. ``tcsim isa show`` prints the arithmetic and how it is known.
    """
    return _KERNELS[kernel](registers, operands, ctx)


def _register(sparse: bool, floats: bool, transposed: bool, a_in_registers: bool) -> None:
    """Enter the instruction with one of its lists of operands."""
    wanted = sparse, floats, transposed
    forms = [f for f in WGMMA_FORMS if (f.is_sparse, f.d != "s32", transposable(f.a)) == wanted]
    slots: dict[str, Any] = {
        "shape": tuple(dict.fromkeys(f.shape for f in forms)),
        "dt": tuple(dict.fromkeys(f.d for f in forms)),
        "at": tuple(dict.fromkeys(f.a for f in forms)),
        "bt": tuple(dict.fromkeys(f.b for f in forms)),
    }
    if sparse:
        slots["sparse"] = ("sp",)
    if not floats:
        slots["satfinite"] = flag("satfinite")
    if not floats and not sparse:
        slots |= {"bits": optional("and"), "popc": flag("popc")}
    opcode = "wgmma.mma_async" + ".{sparse}" * sparse + ".sync.aligned.{shape}" + "{satfinite}" * (not floats)
    opcode += ".{dt}.{at}.{bt}" + "{bits}{popc}" * ("bits" in slots)
    instruction(
        f"{opcode} {_operand_text(sparse, floats, transposed, a_in_registers)}",
        body="planes",
        timing=_timing,
        section="9.7.15.6.4" if sparse else "9.7.15.5.2",
        collective="warp",
        valid=_valid,
        operands=_operands_for(a_in_registers),
        arch_rule=_rule,
        hidden=("numbers", "c"),
        numbers=_numbers_for(a_in_registers),
        immediates=_immediates,
        **_ONLY,
        **slots,
    )(wgmma)


for _sparse in (False, True):
    for _floats, _transposed in ((True, True), (True, False), (False, False)):
        for _in_registers in (False, True):
            _register(_sparse, _floats, _transposed, _in_registers)


@instruction("wgmma.fence.sync.aligned", control="nothing", timing="wgmma_fence", section="9.7.15.7.1", **_ONLY)
@instruction("wgmma.commit_group.sync.aligned", control="nothing", timing="wgmma_commit", section="9.7.15.7.2", **_ONLY)
def wgmma_order() -> None:
    """Order accesses to registers before ``wgmma``, or close a group of them."""


@instruction("wgmma.wait_group.sync.aligned n:b32", control="nothing", timing="wgmma_wait", section="9.7.15.7.3", **_ONLY)
def wgmma_wait() -> None:
    """Wait until at most the ``n`` youngest groups are still under way."""
