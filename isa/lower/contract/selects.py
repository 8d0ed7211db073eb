"""Comparisons with a constant: a selection that depends on one is a minimum or maximum, and some are known beforehand.

``selp(x > c, x, c)`` and its kin become ``max`` or ``min`` of x and c, with ``.NaN`` where a NaN must come through, if nothing
else reads the predicate. Subnormals stay as they are whatever ``.ftz`` the comparison had, and a NaN that comes through is the
one NaN of the machine. With c = 0 only those comparisons do that give +0 for -0 as the unit does; with c = -0 none.

A square, an absolute value or a power of two is taken to be at least zero, NaN or not: ``setp.ge(x * x, 0)`` is true. So are
sums, extremes and selections of such values.

``x - y < 0`` is ``x < y``. That differs if only the comparison has ``.ftz``: then the difference is no longer flushed, but x
and y are. It depends on whether the difference becomes a multiply-add, so :func:`compare_differences` comes after contraction.
"""

from __future__ import annotations

from isa.lower.contract.modifiers import sign_operands
from isa.lower.contract.opcodes import Op, op_of
from isa.lower.contract.simplifier import Simplifier
from isa.lower.ir import Arg, Const, Instr, Kernel, VReg

__all__ = ["compare", "compare_differences", "select", "select_by_sign"]

_SIGN = 0x8000_0000
_INFINITY = 0x7F80_0000
_SWAPPED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "neu": "neu"}
_SWAPPED |= {"ltu": "gtu", "gtu": "ltu", "leu": "geu", "geu": "leu"}
_OF_DIFFERENCES = frozenset({"lt", "gt", "leu", "geu"})
_DEEPEST = 16  # how far back signs are followed: further than ptxas was seen to stop


def select(s: Simplifier, index: int, instr: Instr, op: Op) -> bool:
    """``selp``: a copy, a minimum or maximum, or a selection of values with their signs changed."""
    if op.type == "b16":
        return False
    condition = s.constant(instr.args["c"], index)
    if condition is not None:
        s.move(index, instr.args["d"], instr.args["a" if condition & 1 else "b"])
        return True
    return _extreme(s, index, instr) or (op.type == "f32" and sign_operands(s, index, instr))


def select_by_sign(s: Simplifier, index: int, instr: Instr) -> bool:
    """``slct`` by a float that cannot be negative: the first operand, though NaN would choose the second."""
    if not _is_positive(s, instr.args["c"], _DEEPEST):
        return False
    s.move(index, instr.args["d"], instr.args["a"])
    return True


def compare(s: Simplifier, index: int, instr: Instr, op: Op) -> bool:
    """``setp``: a constant, if the sign of an operand decides it."""
    found = _comparison(s, instr, op)
    if found is None:
        return False
    word, value, bound = found
    if bound & ~_SIGN and not bound & _SIGN:
        return False
    at_least_zero = word in ("lt", "ge")
    if not at_least_zero and not (word in ("gt", "neu") and bound & ~_SIGN):
        return False
    if not _is_positive(s, value, _DEEPEST):
        return False
    s.put(index, "mov.pred", {"p": instr.args["p"], "a": Const(int(word != "lt"))})
    return True


def _comparison(s: Simplifier, instr: Instr, op: Op) -> tuple[str, Arg, int] | None:
    """(relation, variable, constant) of a plain ``setp`` in f32 with a constant, None for others."""
    if op.base != "setp" or op.type != "f32" or op.destinations != ("p",) or op.sources != ("a", "b"):
        return None
    word = next(word for word in op.words if word not in ("ftz", "f32"))
    a, b = instr.args["a"], instr.args["b"]
    bits = s.constant(b)
    if bits is None:
        bits, a, word = s.constant(a), b, _SWAPPED.get(word, word)
    if bits is None or word not in _SWAPPED or bits & ~_SIGN > _INFINITY:
        return None
    return word, a, bits


def _extreme(s: Simplifier, index: int, instr: Instr) -> bool:
    condition = instr.args["c"]
    made = s.made_by(condition)
    if made is None or not isinstance(condition, VReg) or s.reads(condition) != 1:
        return False
    at, test, op = made
    if s.definitions.only(condition) != at:
        return False
    found = _comparison(s, test, op)
    if found is None or found[0] == "neu" or found[2] == _SIGN or _difference(s, test) is not None:
        return False
    word, value, bound = found
    relation, unordered = word[:2], word.endswith("u")
    if bound == 0 and relation in ("lt", "ge"):
        return False
    first, second = instr.args["a"], instr.args["b"]
    taken = s.constant(second) == bound and s.is_same(value, at, first, index)
    if not taken and not (s.constant(first) == bound and s.is_same(value, at, second, index)):
        return False
    least = (relation in ("lt", "le")) == taken
    keeps_nan = unordered == taken
    form = f"{'min' if least else 'max'}{'.NaN' if keeps_nan else ''}.f32"
    s.put(index, form, {"d": instr.args["d"], "a": first if taken else second, "b": Const(bound)})
    return True


def _is_positive(s: Simplifier, arg: Arg, depth: int) -> bool:
    """Whether ptxas takes a value to be at least zero (or NaN)."""
    bits = s.constant(arg)
    if bits is not None:
        return not bits & _SIGN
    made = s.made_by(arg)
    if made is None or depth == 0:
        return False
    index, instr, op = made
    if op.type != "f32":
        return False
    if op.base == "selp":
        instr = s.kernel.instructions[index]  # as written, before its operands' signs were changed by other means
    if op.base == "ex2" or (op.base == "abs" and op.words == {"f32"}):
        return True
    if op.sat and op.base in ("add", "sub", "mul", "fma", "cvt"):
        return True
    if op.base == "mul":
        return not op.rounding and s.root(instr.args["a"]) == s.root(instr.args["b"])
    if (op.base == "add" and not op.rounding) or op.base == "selp" or (op.base in ("min", "max") and "NaN" not in op.words):
        return all(_is_positive(s, instr.args[name], depth - 1) for name in ("a", "b"))
    return False


def _difference(s: Simplifier, test: Instr) -> tuple[str, int, Instr] | None:
    """(relation of the difference with zero, its index, itself) if a flushing comparison is of an unflushed difference."""
    op = op_of(test.form)
    found = _comparison(s, test, op)
    if found is None or not op.ftz or found[2] & ~_SIGN:
        return None
    word, value, _ = found
    made = s.made_by(value)
    while made is not None and made[2].base == "neg" and made[2].words == {"f32"}:
        word, made = _SWAPPED[word], s.made_by(made[1].args["a"])
    if made is None or word not in _OF_DIFFERENCES or made[2].base not in ("add", "sub") or made[2].words != {"f32"}:
        return None
    return word, made[0], made[1]


def compare_differences(kernel: Kernel) -> None:
    """Compare the operands of differences in a contracted kernel, then make extremes of the selections that are left, in
    place."""
    instructions = kernel.instructions
    flushing = any(op_of(i.form).base == "setp" and op_of(i.form).ftz and op_of(i.form).type == "f32" for i in instructions)
    if not flushing:
        return
    s = Simplifier(kernel)
    for index, instr in enumerate(instructions):
        op = op_of(instr.form)
        if op.base == "setp" and op.ftz:
            found = _difference(s, instr)
            if found is not None:
                _compare_operands(s, index, instr, *found)
        elif op.base == "selp" and op.type in ("f32", "b32"):
            _extreme(s, index, instr)
    s.editor.apply()


def _compare_operands(s: Simplifier, index: int, test: Instr, word: str, at: int, difference: Instr) -> None:
    first, second = (s.saver.keep(difference.args[name], at, index) for name in ("a", "b"))
    if op_of(difference.form).base == "add":
        bits = s.constant(second)
        if bits is not None:
            second = Const(bits ^ _SIGN)
        else:
            second = s.before(index, "neg.f32", "f32", {"a": second})
    s.put(index, f"setp.{word}.ftz.f32", {"p": test.args["p"], "a": first, "b": second})
