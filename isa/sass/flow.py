"""Rows of the instructions that the executor does itself: branches, convergence, barriers, waits."""

from __future__ import annotations

from typing import Any

from isa.kernels.planes import PLANE_BYTES
from isa.program import EXTRA, KIND, MEMBERS, TARGET, Kind, Meeting
from isa.sass.operands import Immediate, Label, Operand, Register
from isa.sass.placed import Placed, is_indirect_call
from isa.sass.planes import RESULT_WORD, Planes
from isa.sass.pool import Operands

__all__ = ["write_control"]

_KINDS = {
    "branch": Kind.BRANCH,
    "branch_both": Kind.BRANCH_BOTH,
    "branch_diverged": Kind.BRANCH_DIVERGED,
    "branch_converged": Kind.BRANCH_CONVERGED,
    "branch_any": Kind.BRANCH_CONVERGED,  # of no members, so the group goes wherever one of its lanes does
    "jump": Kind.JUMP,
    "exit": Kind.EXIT,
    "converge": Kind.CONVERGE,
    "barrier_register": Kind.CONVERGE,
    "break": Kind.BREAK,
    "yield": Kind.BREAK,  # out of no barrier
    "nothing": Kind.NOTHING,
    "sleep": Kind.SLEEP,
    "barrier_sync": Kind.BARRIER_SYNC,
    "barrier_arrive": Kind.BARRIER_ARRIVE,
    "barrier_reduce": Kind.BARRIER_REDUCE,
}


def write_control(operands: Operands, item: Placed, control: str, row: Any) -> None:
    """An instruction that the executor does itself."""
    given, planes = item.operands, operands.planes
    row[KIND] = _KINDS[control]
    label = given.get("target")
    if isinstance(label, Label):
        row[TARGET] = operands.addresses.at_label(item, label.name)
    if control in ("branch_both", "break") and given["a"] is not None:
        condition = given["a"]
        assert isinstance(condition, Register)
        row[EXTRA] = planes.guard(condition)
    if control in ("branch_diverged", "branch_converged", "converge", "break"):
        row[MEMBERS] = _members(planes, given.get("members"))
        if item.instruction.opcode.startswith("WARPSYNC.COLLECTIVE"):
            row[EXTRA] = Meeting.COLLECTIVE
        elif item.instruction.opcode.startswith("WARPSYNC.EXCLUSIVE"):
            row[EXTRA] = Meeting.EXCLUSIVE
        elif item.instruction.base == "BSYNC":
            row[EXTRA] = Meeting.AT_BARRIER
    elif control == "barrier_register":
        _barrier_register(planes, item, row)
    elif control == "branch_any":
        row[MEMBERS] = planes.constant(0, 1)
    elif control == "jump":
        register, base = given["a"], given.get("base")
        assert isinstance(register, Register)
        add = operands.addresses.at_label(item, base.name) if isinstance(base, Label) else 0
        if isinstance(base, Immediate) and base.value is not None:
            relative = item.number + 1 if item.instruction.base in ("BRX", "BRXU") else 0
            add = relative + base.value // 16
        functions_at = operands.functions_at if is_indirect_call(item.instruction) else -1
        operands.pool += [planes.register(register, 0, 1, False), add, functions_at]
        second = given.get("e")
        if isinstance(second, Register):
            row[EXTRA] = planes.guard(second)
    elif control.startswith("barrier"):
        _barrier(operands, item, control, row)
    elif item.instruction.base == "DEPBAR" or item.instruction.opcode.startswith("WARPGROUP.DEPBAR"):
        row[EXTRA] = _depbar(given.get("s"), given.get("n"))


def _barrier_register(planes: Planes, item: Placed, row: Any) -> None:
    """BSSY; BMOV from or to a barrier register."""
    barrier = item.operands["barrier"]
    assert isinstance(barrier, Register)
    row[MEMBERS] = planes.register(barrier, 0, 1, False)
    if item.instruction.base == "BSSY":
        row[EXTRA], row[TARGET] = Meeting.SET, 0
        return
    saves = "d" in item.operands
    other = item.operands["d" if saves else "a"]
    assert isinstance(other, Register)
    row[TARGET] = planes.register(other, 0, 1, saves)
    clears = item.instruction.opcode.endswith(".CLEAR")
    row[EXTRA] = (Meeting.SAVE_AND_CLEAR if clears else Meeting.SAVE) if saves else Meeting.RESTORE


def _members(planes: Planes, operand: Operand | None) -> int:
    """The plane of a member mask; -1 for all live lanes."""
    if operand is None:
        return -1
    if isinstance(operand, Immediate):
        return -1 if operand.value == 0xFFFF_FFFF else planes.constant(operand.value or 0, 1)
    assert isinstance(operand, Register)
    return -1 if operand.index < 0 and operand.inverted else planes.register(operand, 0, 1, False)


def _barrier(operands: Operands, item: Placed, control: str, row: Any) -> None:
    assert item.form is not None
    given, specs = item.operands, {o.name: o for o in item.form.operands}
    counted = given.get("b") is not None
    if control == "barrier_reduce":
        operation = str(item.form.params["op"])
        operands.pool.append(operands.planes.result_plane * PLANE_BYTES if operation == "POPC" else 4 * RESULT_WORD)
        predicate = given["c"]
        negated = isinstance(predicate, Register) and predicate.negated and predicate.index >= 0
        row[EXTRA] = int(not counted) + {"AND": 2, "OR": 4, "POPC": 8}[operation] + 16 * negated
    else:
        row[EXTRA] = int(not counted)
    for name in ("a", "b", "c"):
        if given.get(name) is not None:
            operands.pool.append(operands.value(item, specs[name], given[name], 0))


def _depbar(scoreboard: Operand | None, count: Operand | None) -> int:
    """What a DEPBAR waits for, for the timing model: its scoreboard, plus 8 for each result that may still be outstanding."""
    number = scoreboard.index if isinstance(scoreboard, Register) else 0
    return number + 8 * (count.value or 0 if isinstance(count, Immediate) else 0)
