"""What ptxas simplifies before anything else where that changes a value, with contraction or without.

- An approximate division by a constant is a multiplication by its reciprocal, rounded correctly.
- The special-function unit at a constant is worked out by the compiler, correctly rounded; the unit itself is not that good.
- ``rcp.approx.ftz`` of ``rcp.approx.ftz`` is the operand; so is dividing by one with ``div.approx.ftz``.
- Clamps to [0, 1] by ``max`` and ``min`` in either order are ``.sat``: NaN becomes 0, and the outer ``.ftz`` decides. In f64
  they are ``min`` of ``max`` with +0.
- The sign of a NaN constant is changed with its payload kept.
- Multiplications by one, double negations, ``max(x, x)`` and conversions to the same type are moves, which keep a NaN's
  payload; a multiplication by minus one is a negation.
- :mod:`~isa.lower.contract.selects` and :mod:`~isa.lower.contract.modifiers` have the rest.

(Found on an H200 and in the machine code of ptxas 13.0, by all pairs of some hundred operations of each type; the same for
sm_80, sm_86, sm_89 and sm_90.)
"""

from __future__ import annotations

import math
import struct
from typing import NamedTuple

from isa.lower.contract.constants import one_of
from isa.lower.contract.expansion import has_factors
from isa.lower.contract.modifiers import flip_sign, widen_signed, without_mask, without_truncation
from isa.lower.contract.opcodes import FLOAT_TYPES, Op, op_of
from isa.lower.contract.selects import compare, select, select_by_sign
from isa.lower.contract.simplifier import Simplifier
from isa.lower.contract.units import UNITS, evaluate, reciprocal
from isa.lower.ir import Arg, Const, Instr, Kernel, VReg

__all__ = ["fold"]

_MOVED_EXTREMES = frozenset({"f32", "f64", "f16"})
_ONE_F64 = 0x3FF0_0000_0000_0000


class _Clamped(NamedTuple):
    """A type that can be saturated: struct codes of its numbers and their bits, and what ptxas adds with ``.sat``."""

    code: str
    integer: str
    addend: int = 0

    def number(self, bits: int) -> float:
        packed = struct.pack(self.integer, bits & ((1 << 8 * struct.calcsize(self.integer)) - 1))
        return float(struct.unpack(self.code, packed)[0])


_CLAMPED = {"f32": _Clamped("<f", "<I"), "f64": _Clamped("<d", "<Q"), "f16": _Clamped("<e", "<H", 0x8000)}
_NAN_CONSTANT = 0x7F80_0000
_QUIET = 0x40_0000
_SIGN = 0x8000_0000


def fold(kernel: Kernel) -> None:
    """Simplify a bound kernel in place."""
    wanted = [i for i, instr in enumerate(kernel.instructions) if _may_fold(op_of(instr.form))]
    if wanted:
        simplifier = Simplifier(kernel)
        for index in wanted:
            while _step(simplifier, index):
                pass
        simplifier.editor.apply()


def _may_fold(op: Op) -> bool:
    if op.base in UNITS or op.base == "div":
        return op.type == "f32" and not op.rounding
    if op.base in ("neg", "abs", "max", "min"):
        return op.type in FLOAT_TYPES
    if op.base == "mul":
        return op.type in FLOAT_TYPES and op.rounding in ("", "rn") and not op.sat
    if op.base == "cvt":
        return op.type in ("f32", "f16")
    if op.base in ("setp", "slct"):
        return op.type == "f32"
    return op.base in ("selp", "and") and op.type in ("f32", "b32", "b16")


def _step(s: Simplifier, index: int) -> bool:
    """Simplify one instruction by one rule. Whether it is another one now."""
    instr = s.editor.now(index)
    op = None if instr is None else op_of(instr.form)
    if instr is None or op is None or not _may_fold(op):
        return False
    if op.base == "div":
        return _divide(s, index, instr, op)
    if op.base in UNITS:
        return _unit(s, index, instr, op)
    if op.base == "mul":
        return _times_one(s, index, instr, op)
    if op.base == "neg":
        return _negate(s, index, instr, op) or flip_sign(s, index, instr, op)
    if op.base == "abs":
        return _nan_constant(s, index, instr, op) or flip_sign(s, index, instr, op)
    if op.base == "cvt":
        return _convert(s, index, instr, op)
    if op.base == "setp":
        return compare(s, index, instr, op)
    if op.base == "selp":
        return select(s, index, instr, op)
    if op.base == "slct":
        return select_by_sign(s, index, instr)
    if op.base == "and":
        return without_mask(s, index, instr, op)
    return _same(s, index, instr, op) or _clamp(s, index, instr, op)


# ------------------------------------------------------------------------------------------------- division and units


def _divide(s: Simplifier, index: int, instr: Instr, op: Op) -> bool:
    made = s.made_by(instr.args["b"], index)
    tail = "ftz.f32" if op.ftz else "f32"
    if "approx" in op.words and op.ftz and made is not None and _is_bare_reciprocal(made[2]):
        operand = s.saver.keep(made[1].args["a"], made[0], index)
        s.put(index, "mul.ftz.f32", {"d": instr.args["d"], "a": instr.args["a"], "b": operand})
        return True
    divisor = s.constant(instr.args["b"], index)
    found = None if divisor is None else reciprocal(divisor, tiny=not op.ftz, huge="full" in op.words)
    if found is None:
        return False
    scale, bits = found
    numerator = instr.args["a"]
    if scale is not None:
        numerator = s.before(index, f"mul.rn.{tail}", "f32", {"a": numerator, "b": Const(scale)})
    s.put(index, f"mul.{tail}", {"d": instr.args["d"], "a": numerator, "b": Const(bits)})
    return True


def _unit(s: Simplifier, index: int, instr: Instr, op: Op) -> bool:
    bits = s.constant(instr.args["a"], index)
    if bits is not None:
        value = evaluate(op.base, bits, op.ftz)
        if value is None:
            return False
        s.move(index, instr.args["d"], Const(value))
        return True
    made = s.made_by(instr.args["a"], index)
    if made is None or not _is_bare_reciprocal(op) or not _is_bare_reciprocal(made[2]):
        return False
    s.move(index, instr.args["d"], s.saver.keep(made[1].args["a"], made[0], index))
    return True


def _is_bare_reciprocal(op: Op) -> bool:
    """``rcp.approx.ftz.f32``: the unit and nothing around it."""
    return op.base == "rcp" and op.type == "f32" and {"approx", "ftz"} <= op.words


# ---------------------------------------------------------------------------------------------------- moves and clamps


def _times_one(s: Simplifier, index: int, instr: Instr, op: Op) -> bool:
    for name, other in (("b", "a"), ("a", "b")):
        bits = s.constant(instr.args[name], index)
        sign = 0 if bits is None else one_of(op.type, bits)
        if not sign or (op.ftz and op.type != "f32"):
            continue
        if op.rounding:
            return sign > 0 and op.type == "f32" and _same_product(s, index, instr, op, instr.args[other])
        if sign < 0:
            s.put(index, f"neg{'.ftz' if op.ftz else ''}.{op.type}", {"d": instr.args["d"], "a": instr.args[other]})
        elif op.ftz:
            s.put(index, "cvt.ftz.f32.f32", {"d": instr.args["d"], "a": instr.args[other]})
        else:
            s.move(index, instr.args["d"], instr.args[other])
        return True
    return False


def _same_product(s: Simplifier, index: int, instr: Instr, op: Op, arg: Arg) -> bool:
    """``mul.rn`` by one of a product that has no other use: the product, with the flush of ``mul.rn``."""
    made = s.made_by(arg)
    if made is None or not isinstance(arg, VReg) or s.reads(arg) != 1 or s.definitions.only(arg) != made[0]:
        return False
    at, product, inner = made
    if has_factors(inner) and inner.ftz == op.ftz:
        s.move(index, instr.args["d"], arg)
        return True
    if inner.base != "mul" or inner.type != "f32" or inner.rounding or inner.sat:
        return False
    factors: dict[str, Arg] = {name: s.saver.keep(product.args[name], at, index) for name in ("a", "b")}
    s.put(index, f"mul{'.ftz' if op.ftz else ''}.f32", {"d": instr.args["d"], **factors})
    return True


def _negate(s: Simplifier, index: int, instr: Instr, op: Op) -> bool:
    if _nan_constant(s, index, instr, op):
        return True
    made = s.made_by(instr.args["a"], index)
    if made is None or made[2].base != "neg" or made[2].type != op.type or op.ftz or made[2].ftz or op.type == "bf16x2":
        return False
    s.move(index, instr.args["d"], s.saver.keep(made[1].args["a"], made[0], index))
    return True


def _nan_constant(s: Simplifier, index: int, instr: Instr, op: Op) -> bool:
    """The sign of a NaN known to the compiler: its payload stays, where the machine would give the one NaN it has."""
    bits = s.constant(instr.args["a"], index)
    if bits is None or op.type != "f32" or bits & ~_SIGN <= _NAN_CONSTANT:
        return False
    signed = bits ^ _SIGN if op.base == "neg" else bits & ~_SIGN
    s.move(index, instr.args["d"], Const(signed | _QUIET))
    return True


def _convert(s: Simplifier, index: int, instr: Instr, op: Op) -> bool:
    if op.types == ("f32", "f32"):
        if op.words != {"f32"}:
            return False
        s.move(index, instr.args["d"], instr.args["a"])
        return True
    return widen_signed(s, index, instr, op) or without_truncation(s, index, instr, op)


def _same(s: Simplifier, index: int, instr: Instr, op: Op) -> bool:
    """``max(x, x)``: a move."""
    a, b = instr.args["a"], instr.args["b"]
    if not isinstance(a, VReg) or a != b or op.type not in _MOVED_EXTREMES or op.words != {op.type}:
        return False
    s.move(index, instr.args["d"], a)
    return True


def _clamp(s: Simplifier, index: int, instr: Instr, op: Op) -> bool:
    """``min(max(x, 0), 1)`` or ``max(min(x, 1), 0)``, perhaps with wider bounds inside: saturation of ``x``."""
    if op.type not in _CLAMPED or not op.words <= {"ftz", op.type}:
        return False
    chain: list[tuple[str, float]] = []
    made: tuple[int, Instr, Op] | None = (index, instr, op)
    while made is not None and made[2].base in ("min", "max") and made[2].type == op.type and made[2].words <= {"ftz", op.type}:
        at, extreme, how = made
        value, bits = _split(s, extreme, at)
        bound = None if bits is None else _CLAMPED[op.type].number(bits)
        if bound is None or math.isnan(bound) or not isinstance(value, VReg):
            return False
        chain.append((how.base, bound))
        if _range(chain) == (0.0, 1.0):
            return _saturate(s, index, instr, op, s.saver.keep(value, at, index), chain)
        made = s.made_by(value, at)
    return False


def _range(chain: list[tuple[str, float]]) -> tuple[float, float]:
    """What minima and maxima, the outermost first, leave of all numbers."""
    low, high = -math.inf, math.inf
    for base, bound in reversed(chain):
        choose = min if base == "min" else max
        low, high = choose(low, bound), choose(high, bound)
    return low, high


def _saturate(s: Simplifier, index: int, instr: Instr, op: Op, operand: Arg, chain: list[tuple[str, float]]) -> bool:
    destination = instr.args["d"]
    if op.type != "f64":
        addend = Const(_CLAMPED[op.type].addend)
        s.put(index, f"add.rn{'.ftz' if op.ftz else ''}.sat.{op.type}", {"d": destination, "a": operand, "b": addend})
        return True
    if len(chain) > 2 or (op.base == "min" and math.copysign(1.0, chain[1][1]) > 0):
        return False  # the latter is ptxas's own way to write it
    least = s.before(index, "max.f64", "f64", {"a": operand, "b": Const(0)})
    s.put(index, "min.f64", {"d": destination, "a": least, "b": Const(_ONE_F64)})
    return True


def _split(s: Simplifier, instr: Instr, at: int) -> tuple[Arg, int | None]:
    """The variable operand and the constant one of an extreme, number ``at``."""
    a, b = instr.args["a"], instr.args["b"]
    bits = s.constant(b, at)
    return (a, bits) if bits is not None else (b, s.constant(a, at))
