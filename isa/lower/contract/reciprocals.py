"""The reciprocal of a power of two is a power of two: ``rcp.approx.ftz(ex2.approx.ftz(x))`` is ``ex2.approx.ftz(-x)``.

The same in ``div.approx.ftz`` by a power. ptxas does that if the power has no other use; two equal reciprocals are two uses. A
reciprocal that it computes again further down (:mod:`isa.lower.contract.sinking`) takes a power of its own along, which then
has one use; and one inside a loop that is unrolled has many.
"""

from __future__ import annotations

from isa.lower.contract.editing import ORIGIN, Definitions, Editor, Saver, form_of
from isa.lower.contract.live import Analysis, analyse
from isa.lower.contract.loops import find_loops
from isa.lower.contract.opcodes import Op, op_of
from isa.lower.contract.sinking import find_sinking
from isa.lower.contract.values import ABS, DEF, FLUSH, NEG, PACK, PIECE, Value, resolve
from isa.lower.ir import Arg, Instr, Kernel
from isa.types import scalar_type

__all__ = ["invert_powers"]

_UNIT = {"approx", "ftz", "f32"}


def invert_powers(kernel: Kernel) -> list[int]:
    """Fold reciprocals of powers, in place. Returns the PTX lines of those for which it is a guess."""
    instructions = kernel.instructions
    ops = [op_of(instr.form) for instr in instructions]
    if not _may_have_any(instructions, ops):
        return []
    analysis = analyse(kernel)
    found = [pair for index, op in enumerate(ops) if (pair := _pair(index, op, ops, analysis)) is not None]
    if not found:
        return []
    uses = _count_uses(analysis, len(instructions))
    sinking = find_sinking(instructions, analysis)
    for reciprocal, power in found:
        if reciprocal in sinking.moved and power in sinking.inside[reciprocal]:
            uses[power] -= 1
    editor = Editor(kernel)
    saver = Saver(Definitions(kernel), editor)
    guesses = []
    for reciprocal, power in found:
        moved = reciprocal in sinking.moved and power in sinking.inside[reciprocal]
        enters = _enters_loop(power, reciprocal, analysis)
        if moved or enters:
            guesses.append(instructions[reciprocal].line)
        if moved or (uses[power] == 1 and not enters):
            _fold(reciprocal, power, kernel, editor, saver)
    editor.apply()
    return guesses


def _is(op: Op, base: str) -> bool:
    return op.base == base and op.words == _UNIT


def _may_have_any(instructions: list[Instr], ops: list[Op]) -> bool:
    """Whether some reciprocal reads a register that a power is written to, or copied to."""
    powers: set[int] = set()
    for instr, op in zip(instructions, ops, strict=True):
        if _is(op, "ex2") or (op.base == "mov" and not powers.isdisjoint(r.index for r in instr.sources())):
            powers.update(register.index for register in instr.destinations())
    reciprocals = (instr for instr, op in zip(instructions, ops, strict=True) if _is(op, "rcp") or _is(op, "div"))
    return bool(powers) and any(register.index in powers for instr in reciprocals for register in instr.sources())


def _pair(index: int, op: Op, ops: list[Op], analysis: Analysis) -> tuple[int, int] | None:
    """(reciprocal, power) if a live instruction is, or begins with, the reciprocal of an unguarded power."""
    sources = analysis.values.sources[index]
    if not analysis.live[index] or not sources or not (_is(op, "rcp") or _is(op, "div")):
        return None
    value = resolve(sources[-1])
    if value.kind != DEF or not _is(ops[value.instr], "ex2") or analysis.values.guards[value.instr] is not None:
        return None
    return index, value.instr


def _count_uses(analysis: Analysis, count: int) -> list[int]:
    """How often live code uses the result of each instruction."""
    uses = [0] * count
    stack: list[Value] = []
    values = analysis.values
    for index in range(count):
        result = values.results[index]
        if analysis.live[index] and not (result and result[0].kind in (NEG, FLUSH, ABS)):
            stack += values.sources[index] or ()
    for join in analysis.joins:
        stack += join.parts
    while stack:
        value = resolve(stack.pop())
        if value.kind == DEF:
            uses[value.instr] += 1
        elif value.kind in (NEG, FLUSH, ABS, PIECE, PACK):
            stack += value.parts
    return uses


def _enters_loop(power: int, reciprocal: int, analysis: Analysis) -> bool:
    """Whether a reciprocal is in a loop that the power is not in."""
    blocks = analysis.blocks
    for loop in find_loops(blocks, analysis.values):
        inside = [any(blocks[b].start <= index < blocks[b].end for b in loop.blocks) for index in (power, reciprocal)]
        if inside == [False, True]:
            return True
    return False


def _fold(reciprocal: int, power: int, kernel: Kernel, editor: Editor, saver: Saver) -> None:
    instr, made = kernel.instructions[reciprocal], kernel.instructions[power]
    exponent = saver.keep(made.args["a"], power, reciprocal)
    negative = kernel.new_register(scalar_type("f32"), "exponent")
    flipped: dict[str, Arg] = {"d": negative, "a": exponent}
    editor.insert(reciprocal, Instr(form_of("neg.f32"), flipped, None, instr.line, instr.loc, origin=ORIGIN))
    form = form_of("ex2.approx.ftz.f32")
    if op_of(instr.form).base == "rcp":
        args: dict[str, Arg] = {"d": instr.args["d"], "a": negative}
        editor.replace(reciprocal, Instr(form, args, instr.guard, instr.line, instr.loc, origin=ORIGIN))
        return
    inverse = kernel.new_register(scalar_type("f32"), "inverse")
    unit: dict[str, Arg] = {"d": inverse, "a": negative}
    editor.insert(reciprocal, Instr(form, unit, None, instr.line, instr.loc, origin=ORIGIN))
    args = {"d": instr.args["d"], "a": instr.args["a"], "b": inverse}
    editor.replace(reciprocal, Instr(form_of("mul.ftz.f32"), args, instr.guard, instr.line, instr.loc, origin=ORIGIN))
