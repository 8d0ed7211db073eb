"""The operand row of a warpgroup's matrix instruction, as :mod:`isa.tensor.wgmma_operands` reads it."""

from __future__ import annotations

from collections.abc import Callable

from isa.sass.instructions.warpgroup import binary_form, warpgroup_form
from isa.sass.operands import Immediate, Matrices, Register
from isa.sass.placed import Placed
from isa.tensor.wgmma_operands import flat
from isa.tensor.wgmma_plans import accumulator_registers, make_wgmma_plan, operand_order

__all__ = ["does_nothing", "warpgroup_row"]


def does_nothing(item: Placed) -> bool:
    """Whether an instruction has no destination: it is there for its group only."""
    destination = item.operands["d"]
    return isinstance(destination, Register) and destination.index < 0


def warpgroup_row(item: Placed, sm: int, place: Callable[[Register, int], int], constant: Callable[[int], int]) -> list[int]:
    """Byte offsets: the numbers of the form, D, A, B, what :func:`~isa.tensor.wgmma_plans.operand_order` lists, C.

    ``place``: of a register, or one so many further; ``constant``: of a plane that holds a number.
    """
    assert item.form is not None
    params, operands = item.form.params, item.operands
    form = warpgroup_form(binary_form(params) if item.instruction.base == "BGMMA" else params)
    a, descriptors = operands["a"], operands["descriptors"]
    assert isinstance(descriptors, Matrices)
    row = [constant(number & 0xFFFF_FFFF) for number in flat(make_wgmma_plan(form, sm, a is not None).numbers)]
    row += _accumulators(operands["d"], accumulator_registers(form), place)
    if isinstance(a, Register):
        row += [place(a, step) for step in range(4)]
    else:
        row.append(place(descriptors.register, 0))
    row.append(place(descriptors.register, 2))
    negated = isinstance(a, Register) and a.negated
    values = {
        "scale_a": -1 if negated or "negA" in descriptors.parts else 1,
        "scale_b": -1 if "negB" in descriptors.parts else 1,
        "trans_a": int("tnspA" in descriptors.parts),
        "trans_b": int("tnspB" in descriptors.parts),
    }
    for name in operand_order(form, a is not None):
        operand = operands.get(name)
        if name in values:
            row.append(constant(values[name] & 0xFFFF_FFFF))
        elif isinstance(operand, Register) and not (operand.is_predicate and operand.index < 0):
            row.append(place(operand, 0))
        elif name == "scale_d":  # without a predicate D counts
            holds = operand is None or (isinstance(operand, Register) and not operand.negated)
            row.append(constant(0xFFFF_FFFF if holds else 0))
        else:
            row.append(constant(operand.value or 0 if isinstance(operand, Immediate) else 0))
    return row + _accumulators(operands["c"], accumulator_registers(form), place)


def _accumulators(operand: object, count: int, place: Callable[[Register, int], int]) -> list[int]:
    assert isinstance(operand, Register)
    return [place(operand, step) for step in range(count)]
