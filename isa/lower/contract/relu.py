"""``max.NaN`` of an f16 sum, product or multiply-add with zero is that instruction's ``.relu``, which drops its ``.sat`` and
has the ``.ftz`` of the maximum.

Found in ptxas 13.0's machine code for f16 and f16x2 (HFMA2.RELU), after contraction; the operation is done again if it has
other uses. Only where the bits differ is anything changed here.
"""

from __future__ import annotations

from isa.lower.contract.constants import one_of
from isa.lower.contract.opcodes import Op, op_of
from isa.lower.contract.simplifier import Simplifier
from isa.lower.ir import Arg, Const, Instr, Kernel, VReg

__all__ = ["make_relu"]

_ONE = {"f16": 0x3C00, "f16x2": 0x3C00_3C00}
_MINUS_ZERO = {"f16": 0x8000, "f16x2": 0x8000_8000}


def make_relu(kernel: Kernel) -> None:
    """Fuse maxima with zero into what they are of, in a contracted kernel, in place."""
    wanted = [i for i, instr in enumerate(kernel.instructions) if _is_maximum(op_of(instr.form))]
    if not wanted:
        return
    s = Simplifier(kernel)
    for index in wanted:
        instr = kernel.instructions[index]
        for name, other in (("a", "b"), ("b", "a")):
            if s.constant(instr.args[name]) == 0:
                made = s.made_by(instr.args[other])
                if made is not None:
                    _fuse(s, index, instr, *made)
                break
    s.editor.apply()


def _is_maximum(op: Op) -> bool:
    return op.base == "max" and op.type in _ONE and {"NaN", op.type} <= op.words and op.words <= {"NaN", "ftz", op.type}


def _fuse(s: Simplifier, index: int, maximum: Instr, at: int, inner: Instr, op: Op) -> None:
    outer = op_of(maximum.form)
    if op.type != outer.type or op.base not in ("add", "sub", "mul", "fma", "fused_multiply_add"):
        return
    if "oob" in op.words or op.rounding not in ("", "rn"):
        return
    if (op.ftz == outer.ftz and not op.sat) or (op.base == "mul" and _is_copy(s, inner, op)):
        return
    kept: dict[str, Arg] = {name: s.saver.keep(inner.args[name], at, index) for name in op.sources}
    if op.base in ("add", "sub"):
        one = Const(_ONE[op.type])
        a, b = kept["a"], kept["b"]
        kept = {"a": a, "b": one, "c": b}
        if op.base == "sub":  # a - b = b * -1 + a
            kept = {"a": b, "b": Const(one.bits | _MINUS_ZERO[op.type]), "c": a}
    elif op.base == "mul":
        kept["c"] = Const(_MINUS_ZERO[op.type])
    for name, word in (("a", "minus_product"), ("c", "minus_addend")):
        if word in op.words:
            kept[name] = _negated(s, index, op, kept[name])
    s.put(index, f"fma.rn{'.ftz' if outer.ftz else ''}.relu.{op.type}", {"d": maximum.args["d"], **kept})


def _is_copy(s: Simplifier, product: Instr, op: Op) -> bool:
    """Whether a product is by one or minus one, so that it is none to ptxas."""
    factors = (s.constant(product.args["a"]), s.constant(product.args["b"]))
    return not op.rounding and any(bits is not None and one_of(op.type, bits) for bits in factors)


def _negated(s: Simplifier, index: int, op: Op, arg: Arg) -> Arg:
    if isinstance(arg, Const):
        return Const(arg.bits ^ _MINUS_ZERO[op.type])
    type_ = arg.type.name if isinstance(arg, VReg) else op.type
    return s.before(index, f"neg.{op.type}", type_, {"a": arg})
