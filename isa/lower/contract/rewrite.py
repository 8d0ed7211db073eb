"""Put a decision into the program: chosen sums become fused multiply-adds, and multiplications that nothing reads go."""

from __future__ import annotations

from isa.lower.contract.editing import ORIGIN, Definitions, Editor, Saver, form_of, plain_mov
from isa.lower.contract.expansion import split_division
from isa.lower.contract.opcodes import Op, op_of
from isa.lower.contract.products import Candidates, Product, Sum, negations
from isa.lower.contract.values import CONST
from isa.lower.ir import Arg, Const, Instr, Kernel, VReg, registers_of
from isa.spec.registry import Form

__all__ = ["rewrite"]

# What may stand between a multiplication and the sum that took it, and is of no use when the multiplication is gone.
_CARRIERS = frozenset({"mul", "neg", "mov", "abs", "cvt", "max", "min", "selp", "div", "rcp", "div_factors", "rcp_factors"})
# 2.0 and -0.0 of each type in which ptxas sees that 2x - x is x (not the packed ones).
_TWO = {"f32": 0x4000_0000, "f64": 0x4000_0000_0000_0000, "f16": 0x4000, "bf16": 0x4000}
_MINUS_ZERO = {"f32": 1 << 31, "f64": 1 << 63, "f16": 1 << 15, "bf16": 1 << 15}


def rewrite(kernel: Kernel, candidates: Candidates) -> None:
    """Make every chosen sum a multiply-add and remove the products that are no longer read."""
    chosen = [total for total in candidates.sums if total.chosen is not None]
    if not chosen:
        return
    rewriter = _Rewriter(kernel)
    less_read = [register for total in chosen for register in rewriter.fuse(total)]
    rewriter.editor.apply()
    _drop_unread(kernel, less_read)


class _Rewriter:
    """Writes the multiply-adds. A factor that is overwritten between the multiplication and the sum is saved first."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.editor = Editor(kernel)
        self.saver = Saver(Definitions(kernel), self.editor)
        self.divided: dict[int, tuple[VReg, VReg]] = {}

    def fuse(self, total: Sum) -> list[VReg]:
        """Replace one sum. Returns the registers that it no longer reads."""
        assert total.chosen is not None
        instr = self.kernel.instructions[total.instr]
        op = op_of(instr.form)
        taken, other = total.operands[total.chosen], ("b", "a")[total.chosen]
        assert taken.product is not None
        first, second = self._factors(taken.product, total.instr)
        minus_product = taken.negative != (op.base == "sub" and total.chosen == 1)
        minus_addend = op.base == "sub" and total.chosen == 0
        args: dict[str, Arg] = {"d": instr.args["d"], "a": first, "b": second, "c": instr.args[other]}
        if _is_twice_less_once(total, op):
            form, args = _signed_copy(op, not minus_addend, instr.args["d"], instr.args[other])
        else:
            form = fused_form(op, minus_product, minus_addend)
        self.editor.replace(total.instr, Instr(form, args, instr.guard, instr.line, instr.loc, origin=ORIGIN))
        return registers_of(instr.args[("a", "b")[total.chosen]])

    def _factors(self, product: Product, at: int) -> tuple[Arg, Arg]:
        instr = self.kernel.instructions[product.instr]
        if product.factors is None:
            return self._divide(product.instr, instr)
        first, second = (self.saver.keep(instr.args[name], product.instr, at) for name in ("a", "b"))
        return first, second

    def _divide(self, index: int, instr: Instr) -> tuple[VReg, VReg]:
        """The two factors of a division's last multiplication, which becomes a multiplication of its own."""
        found = self.divided.get(index)
        if found is None:
            op = op_of(instr.form)
            found = self.divided[index] = split_division(self.kernel, instr, index, self.editor)
            product: dict[str, Arg] = {"d": instr.args["d"], "a": found[0], "b": found[1]}
            multiply = form_of(f"mul{'.ftz' if op.ftz else ''}.f32")
            self.editor.replace(index, Instr(multiply, product, None, instr.line, instr.loc, origin=ORIGIN))
        return found


def _is_twice_less_once(total: Sum, op: Op) -> bool:
    """Whether a fused sum is ``2x - x`` in some arrangement of signs, which ptxas turns into a copy."""
    two = _TWO.get(op.type)
    taken, other = total.operands[total.chosen or 0], total.operands[1 - (total.chosen or 0)]
    product = taken.product
    if two is None or product is None or product.factors is None:
        return False
    sign = _MINUS_ZERO[op.type]
    for constant, factor in (product.factors, product.factors[::-1]):
        if constant.kind == CONST and constant.bits & ~sign == two:
            value, negative = negations(factor)
            product_negative = taken.negative ^ negative ^ bool(constant.bits & sign)
            turned = op.base == "sub"  # exactly one of the two is subtracted
            return value is other.value and product_negative == (other.negative if turned else not other.negative)
    return False


def _signed_copy(op: Op, negate: bool, destination: Arg, source: Arg) -> tuple[Form, dict[str, Arg]]:
    """``d = source`` or ``-source`` with a sum's ``.ftz`` and ``.sat``."""
    tail = f"{'.ftz' if op.ftz else ''}{'.sat' if op.sat else ''}.{op.type}"
    if op.sat:
        zero = Const(0)
        operands = {"a": zero, "b": source} if negate else {"a": source, "b": zero}
        return form_of(f"{'sub' if negate else 'add'}.rn{tail}"), {"d": destination, **operands}
    if negate:
        return form_of(f"neg{tail}"), {"d": destination, "a": source}
    if op.ftz:
        return form_of(f"add.rn{tail}"), {"d": destination, "a": source, "b": Const(_MINUS_ZERO[op.type])}
    return plain_mov(int(op.type.lstrip("bf"))), {"d": destination, "a": source}


def fused_form(op: Op, minus_product: bool, minus_addend: bool) -> Form:
    """The multiply-add that a sum of this form becomes: PTX's own ``fma.rn``, or with signs turned the internal one."""
    tail = ("." if op.ftz else "") + ("ftz" if op.ftz else "") + (".sat" if op.sat else "") + f".{op.type}"
    rounding = op.rounding or "rn"
    if not minus_product and not minus_addend:
        return form_of(f"fma.{rounding}{tail}")
    if op.type == "f32x2":
        tail = f".{rounding}{tail}"
    signs = (".minus_product" if minus_product else "") + (".minus_addend" if minus_addend else "")
    return form_of(f"fused_multiply_add{signs}{tail}")


def _drop_unread(kernel: Kernel, less_read: list[VReg]) -> None:
    """Remove what wrote these registers, if nothing reads them any more and it did nothing else; and so on backwards."""
    reads: dict[int, int] = {}
    writers: dict[int, list[int]] = {}
    for index, instr in enumerate(kernel.instructions):
        for register in instr.sources():
            reads[register.index] = reads.get(register.index, 0) + 1
        for register in instr.destinations():
            writers.setdefault(register.index, []).append(index)
    editor = Editor(kernel)
    gone: set[int] = set()
    stack = [register.index for register in less_read]
    while stack:
        number = stack.pop()
        if reads.get(number):
            continue
        for index in writers.get(number, ()):
            instr = kernel.instructions[index]
            if index in gone or instr.guard is not None or op_of(instr.form).base not in _CARRIERS:
                continue
            if any(reads.get(register.index) for register in instr.destinations()):
                continue
            gone.add(index)
            editor.replace(index, None)
            for register in instr.sources():
                reads[register.index] -= 1
                stack.append(register.index)
    editor.apply()
