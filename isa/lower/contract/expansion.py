"""Approximate divisions as what they are to ptxas when it contracts: a few instructions that end in a multiplication."""

from __future__ import annotations

from isa.lower.contract.editing import ORIGIN, Editor, form_of
from isa.lower.contract.opcodes import Op, op_of
from isa.lower.ir import Arg, Instr, Kernel, VReg
from isa.types import scalar_type

__all__ = ["has_factors", "split_division"]


def has_factors(op: Op) -> bool:
    """Whether an instruction is an approximate f32 division, or a reciprocal that ends in a multiplication."""
    if op.type != "f32" or op.rounding:
        return False
    return op.base == "div" or (op.base == "rcp" and not op.ftz)


def split_division(kernel: Kernel, instr: Instr, index: int, editor: Editor) -> tuple[VReg, VReg]:
    """Compute the two factors of a division's last multiplication before instruction ``index``, which is the division."""
    op = op_of(instr.form)
    kind = "full" if "full" in op.words else "approx"
    factors = tuple(kernel.new_register(scalar_type("f32"), "factor") for _ in range(2))
    args: dict[str, Arg] = {"d": factors[0], "d2": factors[1], **{name: instr.args[name] for name in op.sources}}
    form = form_of(f"{op.base}_factors.{kind}{'.ftz' if op.ftz else ''}.f32")
    editor.insert(index, Instr(form, args, None, instr.line, instr.loc, origin=ORIGIN))
    return factors[0], factors[1]
