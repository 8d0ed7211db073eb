"""Contract floating point as ptxas does by default: an unrounded ``mul`` feeding an ``add`` or ``sub`` is one multiply-add.

That changes bits in most real kernels, so a simulator of what the GPU runs must do the same. ptxas works on its own form of the
program, and so does this package:

:mod:`~isa.lower.contract.ssa`, ``values``, ``copies``, ``constants``, ``local_memory``
    which value each operand reads, copies looked through;
``live``, ``regions``
    what is dead code, and where ptxas sees the ends of blocks;
``sinking``
    values that it computes again where they are used;
``products``, ``select``
    which multiplications may fuse, and which sum takes which;
``loops``
    sums that fuse in some copies of an unrolled loop only: undecidable here, so reported;
``rewrite``
    the program afterwards;
``folding`` (with ``simplifier``, ``selects``, ``modifiers``, ``units``), ``reciprocals``, ``repeated``
    simplifications before that which change values, or what products are used for;
``scaling``, ``relu``
    and after it.

The rules were measured on machine code made by ptxas 13.0.88: random kernels and real ones, operand by operand;
:mod:`gpu_ref.contraction_oracle` repeats the comparison for any PTX where ptxas is installed.
"""

from __future__ import annotations

from dataclasses import dataclass

from isa.lower.contract.live import analyse
from isa.lower.contract.loops import find_unrolled, invariant_sums
from isa.lower.contract.opcodes import op_of
from isa.lower.contract.products import Candidates, find_products
from isa.lower.contract.relu import make_relu
from isa.lower.contract.rewrite import rewrite
from isa.lower.contract.scaling import scale
from isa.lower.contract.select import choose
from isa.lower.contract.selects import compare_differences
from isa.lower.contract.sinking import Sinking, find_sinking
from isa.lower.ir import Instr, Kernel

__all__ = ["Decision", "Undecided", "contract", "decide", "finish"]


@dataclass(frozen=True, slots=True)
class Undecided:
    """A sum whose rounding cannot be told from the PTX: its instruction, PTX line, opcode, and why."""

    instr: int
    line: int
    opcode: str
    why: str


@dataclass(slots=True)
class Decision:
    """Which sums of a kernel become fused multiply-adds (:attr:`Sum.chosen`), and which of these are only a guess."""

    candidates: Candidates
    undecided: list[Undecided]


def decide(kernel: Kernel) -> Decision:
    """What ptxas would fuse in a kernel, without changing it."""
    instructions = kernel.instructions
    if not _has_pair(instructions):
        return Decision(Candidates(), [])
    analysis = analyse(kernel)
    sinking = find_sinking(instructions, analysis)
    candidates = find_products(instructions, analysis, sinking)
    choose(instructions, candidates)
    undecided: dict[int, str] = {}
    if candidates.products:
        most = find_sinking(instructions, analysis, most=True)
        for others in (Sinking(), most) if sinking.moved else (most,) if most.moved else ():
            other = find_products(instructions, analysis, others)
            choose(instructions, other)
            _differences(candidates, other, undecided, "ptxas may compute it again where it is used")
            for total in candidates.sums:
                if total.instr in sinking.copied and total.chosen is None:
                    undecided.setdefault(total.instr, "fused in a copy that ptxas makes where it is used")
        unrolled = find_unrolled(instructions, analysis.blocks, analysis.values, analysis.live)
        if unrolled is not None:
            for copy in ("", "last_copy", "first_copy", "last_whole") if unrolled.whole else ("", "last_copy"):
                unrolled.first_copy, unrolled.last_copy = copy == "first_copy", copy == "last_copy"
                unrolled.last_whole = copy == "last_whole"
                other = find_products(instructions, analysis, sinking, unrolled)
                choose(instructions, other)
                _differences(candidates, other, undecided, "fused in some copies of an unrolled loop only")
        for instr in invariant_sums(candidates.sums, analysis.blocks, analysis.values):
            undecided.setdefault(instr, "it does not depend on its loop, and ptxas may compute it before")
    return Decision(
        candidates,
        [Undecided(i, instructions[i].line, instructions[i].opcode, why) for i, why in sorted(undecided.items())],
    )


def _has_pair(instructions: list[Instr]) -> bool:
    """Whether there is an unrounded multiplication or approximate division, and a sum, of one type."""
    made: set[str] = set()
    summed: set[str] = set()
    for instr in instructions:
        op = op_of(instr.form)
        if op.base in ("mul", "div", "rcp") and op.fuses:
            made.add(op.kind)
        elif op.base in ("add", "sub") and op.fuses:
            summed.add(op.kind)
    return not made.isdisjoint(summed)


def contract(kernel: Kernel) -> list[Undecided]:
    """Contract a bound kernel in place. Returns the sums whose rounding the PTX does not determine."""
    decision = decide(kernel)
    rewrite(kernel, decision.candidates)
    scale(kernel)
    return decision.undecided


def finish(kernel: Kernel) -> None:
    """What ptxas does to a kernel after it has contracted it, or would have, and changes values; in place."""
    make_relu(kernel)
    compare_differences(kernel)


def _differences(one: Candidates, other: Candidates, found: dict[int, str], why: str) -> None:
    """Sums that are fused in one case and not, or otherwise, in the other."""
    first = {total.instr: total.chosen for total in one.sums}
    second = {total.instr: total.chosen for total in other.sums}
    for instr in first.keys() | second.keys():
        if first.get(instr) != second.get(instr):
            found.setdefault(instr, why)
