"""Operand modifiers where they are not the instruction that they replace.

ptxas folds ``neg`` and ``abs`` into the instructions that use them. Arithmetic makes NaN the one NaN of the machine either way;
these do not:

- a selection (``selp``, or a guarded ``neg`` or ``abs``) flips or clears the sign bit of a NaN too;
- ``cvt.f64.f32`` leaves a NaN's sign alone, as negation in f64 does.

And two where ptxas 13.0 loses something: a conversion of a flushed f16 to an integer rounds to nearest instead of to zero, and
``and`` with a constant does nothing to a ``tanh`` or ``ex2`` in f16. (All of it seen on an H200.)
"""

from __future__ import annotations

from isa.lower.contract.constants import one_of
from isa.lower.contract.editing import form_of
from isa.lower.contract.opcodes import Op
from isa.lower.contract.simplifier import Simplifier
from isa.lower.ir import Arg, Const, Instr, VReg

__all__ = ["flip_sign", "sign_operands", "widen_signed", "without_mask", "without_truncation"]

_SIGN = 0x8000_0000


def _is_sign_change(op: Op) -> bool:
    return op.base in ("neg", "abs") and op.words == {"f32"}


def flip_sign(s: Simplifier, index: int, instr: Instr, op: Op) -> bool:
    """A guarded ``neg`` or ``abs`` of a register that has another value else: a selection."""
    target = instr.args["d"]
    if instr.guard is None or not _is_sign_change(op) or not isinstance(target, VReg):
        return False
    if s.definitions.writes[target.index][0] == index:
        return False
    opcode, bits = ("xor.b32", _SIGN) if op.base == "neg" else ("and.b32", ~_SIGN & 0xFFFF_FFFF)
    s.put(index, opcode, {"d": target, "a": instr.args["a"], "b": Const(bits)})
    return True


def sign_operands(s: Simplifier, index: int, instr: Instr) -> bool:
    """``selp.f32`` of values whose signs were changed: of the values, with sign bits changed."""
    args = dict(instr.args)
    for name in ("a", "b"):
        made = s.made_by(args[name])
        if made is None or not _is_sign_change(made[2]):
            continue
        at, signed, op = made
        source = signed.args["a"]
        inner = s.made_by(source)
        operation, bits = ("xor.b32", _SIGN) if op.base == "neg" else ("and.b32", ~_SIGN & 0xFFFF_FFFF)
        if op.base == "neg" and inner is not None and inner[2].base == "abs" and _is_sign_change(inner[2]):
            at, source, operation = inner[0], inner[1].args["a"], "or.b32"
        operand: Arg = s.saver.keep(source, at, index)
        args[name] = s.before(index, operation, "b32", {"a": operand, "b": Const(bits)})
    if args == instr.args:
        return False
    s.put(index, instr.form, args)
    return True


def widen_signed(s: Simplifier, index: int, instr: Instr, op: Op) -> bool:
    """``cvt.f64.f32`` of a value whose sign was changed: the sign changes afterwards."""
    if op.types != ("f64", "f32") or op.words != {"f64", "f32"}:
        return False
    made = s.made_by(instr.args["a"])
    if made is None or not _is_sign_change(made[2]):
        return False
    operand = s.saver.keep(made[1].args["a"], made[0], index)
    wide = s.before(index, "cvt.f64.f32", "f64", {"a": operand})
    s.put(index, f"{made[2].base}.f64", {"d": instr.args["d"], "a": wide})
    return True


def without_truncation(s: Simplifier, index: int, instr: Instr, op: Op) -> bool:
    """``cvt.rzi`` of a flushed f16 to an integer: ``cvt.rni``."""
    if op.type != "f16" or "rzi" not in op.words or len(op.types) != 2 or op.types[0][0] not in "us":
        return False
    made = s.made_by(instr.args["a"])
    if made is None or not made[2].words <= {"ftz", "f16"} or not made[2].ftz:
        return False
    _, flush, how = made
    if how.base == "mul":
        factors = (s.constant(flush.args["a"]), s.constant(flush.args["b"]))
        flushes = any(bits is not None and one_of("f16", bits) for bits in factors)
    elif how.base in ("max", "min"):
        flushes = flush.args["a"] == flush.args["b"]
    else:
        flushes = how.base in ("neg", "abs")
    if flushes:
        s.put(index, form_of(instr.opcode.replace("rzi", "rni")), dict(instr.args))
    return flushes


def without_mask(s: Simplifier, index: int, instr: Instr, op: Op) -> bool:
    """``and`` of a ``tanh`` or ``ex2`` in f16 and a constant: the function alone."""
    if op.base != "and" or op.type not in ("b16", "b32"):
        return False
    for name, other in (("a", "b"), ("b", "a")):
        made = s.made_by(instr.args[name])
        if made is not None and made[2].base == "cvt" and made[2].types == ("u32", "u16") and op.type == "b32":
            made = s.made_by(made[1].args["a"])
        is_unit = made is not None and made[2].base in ("tanh", "ex2") and made[2].type == "f16"
        if is_unit and s.constant(instr.args[other]):
            s.move(index, instr.args["d"], instr.args[name])
            return True
    return False
