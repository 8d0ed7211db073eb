"""What ptxas simplifies before anything else where that changes a value, with contraction or without.

- An approximate division by a constant is a multiplication by its reciprocal, rounded correctly.
- The special-function unit at a constant is worked out by the compiler, correctly rounded; the unit itself is not that good.
- ``rcp.approx.ftz`` of ``rcp.approx.ftz`` is the operand; so is dividing by one with ``div.approx.ftz``.
- Clamps to [0, 1] by ``max`` and ``min`` in either order are ``.sat``: NaN becomes 0, and the outer ``.ftz`` decides.
- The sign of a NaN constant is changed with its payload kept.
- Multiplications by one, double negations, ``max(x, x)`` and conversions to the same type are moves, which keep a NaN's
  payload.

(Measured on the machine code of ptxas 13.0; the same for sm_80 and sm_90.)
"""

from __future__ import annotations

from isa.lower.contract.constants import one_of
from isa.lower.contract.editing import ORIGIN, Definitions, Editor, Saver, form_of, plain_mov
from isa.lower.contract.opcodes import FLOAT_TYPES, Op, op_of
from isa.lower.contract.units import UNITS, evaluate, reciprocal
from isa.lower.ir import Arg, Const, Instr, Kernel, VReg
from isa.spec.registry import Form
from isa.types import scalar_type

__all__ = ["fold"]

_MOVED_EXTREMES = frozenset({"f32", "f64", "f16"})
_CLAMPED = {"f32": (0x8000_0000, 0x3F80_0000, 0), "f16": (0x8000, 0x3C00, 0x8000)}  # sign, one, the addend of the .sat form
_NAN_CONSTANT = 0x7F80_0000
_QUIET = 0x40_0000
_SIGN = 0x8000_0000


def fold(kernel: Kernel) -> None:
    """Simplify a bound kernel in place."""
    wanted = [i for i, instr in enumerate(kernel.instructions) if _may_fold(op_of(instr.form), instr)]
    if wanted:
        folder = _Folder(kernel)
        for index in wanted:
            folder.fold(index)
        folder.editor.apply()


def _may_fold(op: Op, instr: Instr) -> bool:
    if op.base in UNITS or op.base == "div":
        return op.type == "f32" and not op.rounding
    if op.base in ("neg", "abs", "max", "min"):
        return op.type in FLOAT_TYPES
    if op.base == "mul":
        return op.type in FLOAT_TYPES and not op.rounding and not op.sat and not op.ftz
    return op.base == "cvt" and op.types == ("f32", "f32") and op.words == {"f32"}


class _Folder:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.editor = Editor(kernel)
        self.definitions = Definitions(kernel)
        self.saver = Saver(self.definitions, self.editor)

    def fold(self, index: int) -> None:
        """Simplify one instruction."""
        instr = self.kernel.instructions[index]
        op = op_of(instr.form)
        if op.base == "div":
            self._divide(index, instr, op)
        elif op.base in UNITS:
            self._unit(index, instr, op)
        elif op.base == "mul":
            self._times_one(index, instr, op)
        elif op.base == "neg":
            self._negate(index, instr, op)
        elif op.base == "abs":
            self._nan_constant(index, instr, op, self._constant(instr.args["a"]))
        elif op.base == "cvt":
            self._move(index, instr, instr.args["a"])
        elif not self._same(index, instr, op):
            self._clamp(index, instr, op)

    # ------------------------------------------------------------------------------------------------------ looking

    def _made_by(self, arg: Arg) -> tuple[int, Instr, Op] | None:
        """The instruction that computes an operand, copies looked through."""
        while True:
            index = self.definitions.only(arg)
            if index is None:
                return None
            instr = self.kernel.instructions[index]
            op = op_of(instr.form)
            if op.base != "mov" or isinstance(instr.args["a"], tuple) or isinstance(instr.args["d"], tuple):
                return index, instr, op
            if not isinstance(instr.args["a"], VReg):
                return index, instr, op
            arg = instr.args["a"]

    def _constant(self, arg: Arg) -> int | None:
        if isinstance(arg, Const):
            return arg.bits
        made = self._made_by(arg)
        if made is None or made[2].base != "mov":
            return None
        source = made[1].args["a"]
        return source.bits if isinstance(source, Const) else None

    # ----------------------------------------------------------------------------------------------------- replacing

    def _put(self, index: int, form: Form, args: dict[str, Arg]) -> None:
        instr = self.kernel.instructions[index]
        self.editor.replace(index, Instr(form, args, instr.guard, instr.line, instr.loc, origin=ORIGIN))

    def _move(self, index: int, instr: Instr, source: Arg) -> None:
        destination = instr.args["d"]
        if isinstance(destination, VReg):
            self._put(index, plain_mov(destination.type.bits), {"d": destination, "a": source})

    # --------------------------------------------------------------------------------------------- division and units

    def _divide(self, index: int, instr: Instr, op: Op) -> None:
        made = self._made_by(instr.args["b"])
        if "approx" in op.words and op.ftz and _is_bare_reciprocal(made):
            assert made is not None
            operand = self.saver.keep(made[1].args["a"], made[0], index)
            self._put(index, form_of("mul.ftz.f32"), {"d": instr.args["d"], "a": instr.args["a"], "b": operand})
            return
        divisor = self._constant(instr.args["b"])
        found = None if divisor is None else reciprocal(divisor, tiny=not op.ftz, huge="full" in op.words)
        if found is None:
            return
        scale, bits = found
        numerator = instr.args["a"]
        tail = "ftz.f32" if op.ftz else "f32"
        multiply = form_of(f"mul.{tail}")
        if scale is not None:
            scaled = self.kernel.new_register(scalar_type("f32"), "scaled")
            args: dict[str, Arg] = {"d": scaled, "a": numerator, "b": Const(scale)}
            exact = form_of(f"mul.rn.{tail}")
            self.editor.insert(index, Instr(exact, args, None, instr.line, instr.loc, origin=ORIGIN))
            numerator = scaled
        if one_of("f32", bits) == 1 and not op.ftz:
            self._move(index, instr, numerator)
        else:
            self._put(index, multiply, {"d": instr.args["d"], "a": numerator, "b": Const(bits)})

    def _unit(self, index: int, instr: Instr, op: Op) -> None:
        bits = self._constant(instr.args["a"])
        if bits is not None:
            value = evaluate(op.base, bits, op.ftz)
            if value is not None:
                self._move(index, instr, Const(value))
            return
        made = self._made_by(instr.args["a"])
        if op.base == "rcp" and op.ftz and _is_bare_reciprocal(made):
            assert made is not None
            self._move(index, instr, self.saver.keep(made[1].args["a"], made[0], index))

    # ------------------------------------------------------------------------------------------------ moves and clamps

    def _times_one(self, index: int, instr: Instr, op: Op) -> None:
        for name, other in (("b", "a"), ("a", "b")):
            bits = self._constant(instr.args[name])
            if bits is not None and one_of(op.type, bits) == 1:
                self._move(index, instr, instr.args[other])
                return

    def _negate(self, index: int, instr: Instr, op: Op) -> None:
        if self._nan_constant(index, instr, op, self._constant(instr.args["a"])):
            return
        made = self._made_by(instr.args["a"])
        if made is None or made[2].base != "neg" or made[2].type != op.type or op.ftz or made[2].ftz or op.type == "bf16x2":
            return
        self._move(index, instr, self.saver.keep(made[1].args["a"], made[0], index))

    def _nan_constant(self, index: int, instr: Instr, op: Op, bits: int | None) -> bool:
        """The sign of a NaN known to the compiler: its payload stays, where the machine would give the one NaN it has."""
        if bits is None or op.type != "f32" or bits & ~_SIGN <= _NAN_CONSTANT:
            return False
        signed = bits ^ _SIGN if op.base == "neg" else bits & ~_SIGN
        self._move(index, instr, Const(signed | _QUIET))
        return True

    def _same(self, index: int, instr: Instr, op: Op) -> bool:
        """``max(x, x)``: a move."""
        a, b = instr.args["a"], instr.args["b"]
        if not isinstance(a, VReg) or a != b or op.type not in _MOVED_EXTREMES or op.words != {op.type}:
            return False
        self._move(index, instr, a)
        return True

    def _clamp(self, index: int, instr: Instr, op: Op) -> None:
        """``min(max(x, 0), 1)`` or ``max(min(x, 1), 0)``: saturation of ``x``."""
        if op.type not in _CLAMPED or not op.words <= {"ftz", op.type}:
            return
        inner_value, outer_bound = self._split(instr)
        made = self._made_by(inner_value) if outer_bound is not None else None
        if made is None or {made[2].base, op.base} != {"min", "max"} or made[2].type != op.type:
            return
        if not made[2].words <= {"ftz", op.type}:
            return
        value, inner_bound = self._split(made[1])
        sign, one, addend = _CLAMPED[op.type]
        low, high = (outer_bound, inner_bound) if op.base == "max" else (inner_bound, outer_bound)
        if low is None or low & ~sign != 0 or high != one or not isinstance(value, VReg):
            return
        operand = self.saver.keep(value, made[0], index)
        form = form_of(f"add.rn{'.ftz' if op.ftz else ''}.sat.{op.type}")
        self._put(index, form, {"d": instr.args["d"], "a": operand, "b": Const(addend)})

    def _split(self, instr: Instr) -> tuple[Arg, int | None]:
        """An extreme's variable operand and its constant one."""
        a, b = instr.args["a"], instr.args["b"]
        bits = self._constant(b)
        return (a, bits) if bits is not None else (b, self._constant(a))


def _is_bare_reciprocal(made: tuple[int, Instr, Op] | None) -> bool:
    """``rcp.approx.ftz``: the unit and nothing around it."""
    return made is not None and made[2].base == "rcp" and {"approx", "ftz"} <= made[2].words
