"""Which sum takes which product: ptxas's order, measured (its own words for it are not published).

Scalar types in two passes over the sums in program order, packed types in one. A fused sum's other operand is an addend of
the fused multiply-add; if that is a product it stays one, and none of its later uses can take it.
"""

from __future__ import annotations

from isa.lower.contract.opcodes import Op, op_of
from isa.lower.contract.products import Candidates, Product, Sum
from isa.lower.contract.values import CONST, Value
from isa.lower.ir import Instr

__all__ = ["choose"]

_PACKED = frozenset({"f16x2", "bf16x2"})


def choose(instructions: list[Instr], candidates: Candidates) -> None:
    """Set :attr:`Sum.chosen` of every sum that becomes a fused multiply-add."""
    scalar: list[tuple[Sum, Op]] = []
    packed: list[Sum] = []
    for total in candidates.sums:
        op = op_of(instructions[total.instr].form)
        if op.type in _PACKED:
            packed.append(total)
        else:
            scalar.append((total, op))
    for total, op in scalar:
        for place in (0, 1):
            product = total.operands[place].product
            if _can_fuse(product) and product is not None and product.uses == 1:
                if _is_twice_the_same(total, op):
                    _block_both(total)
                else:
                    _fuse(total, place)
                break
    for total in [total for total, _ in scalar if total.chosen is None] + packed:
        best = _least_used(total)
        if best is not None:
            _fuse(total, best)


def _can_fuse(product: Product | None) -> bool:
    return product is not None and not product.blocked


def _least_used(total: Sum) -> int | None:
    first, second = (operand.product for operand in total.operands)
    if _can_fuse(first) and _can_fuse(second):
        assert first is not None and second is not None
        return 1 if second.uses < first.uses else 0
    return 0 if _can_fuse(first) else 1 if _can_fuse(second) else None


def _fuse(total: Sum, place: int) -> None:
    total.chosen = place
    product = total.operands[place].product
    assert product is not None
    product.fused += 1
    other = total.operands[1 - place].product
    if other is not None:
        other.blocked = True


def _block_both(total: Sum) -> None:
    for operand in total.operands:
        if operand.product is not None:
            operand.product.blocked = True


def _is_twice_the_same(total: Sum, op: Op) -> bool:
    """A positive sum of two multiplications of the same two values: ptxas makes them one and adds it to itself."""
    first, second = (operand.product for operand in total.operands)
    if op.ftz or first is None or second is None or first is second:
        return False
    if first.factors is None or second.factors is None:
        return False
    if total.operands[0].negative or total.operands[1].negative != (op.base == "sub"):
        return False
    (a, b), (c, d) = first.factors, second.factors
    return (_same(a, c) and _same(b, d)) or (_same(a, d) and _same(b, c))


def _same(a: Value, b: Value) -> bool:
    return a is b or (a.kind == CONST and b.kind == CONST and a.bits == b.bits)
