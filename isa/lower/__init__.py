"""From syntax to an executable program: bind names and opcodes, do as ptxas does, place registers, emit."""

from __future__ import annotations

from isa.collector import uncollected
from isa.lower.allocate import pressure
from isa.lower.bind import bind_kernel
from isa.lower.cfg import build_blocks
from isa.lower.contract import contract, finish
from isa.lower.contract.folding import fold
from isa.lower.contract.loops import mark_nounroll
from isa.lower.contract.reciprocals import invert_powers
from isa.lower.contract.repeated import merge_repeated
from isa.lower.emit import emit
from isa.lower.ir import Kernel
from isa.lower.link import link
from isa.lower.supported import unsupported_in
from isa.program import Program
from isa.ptx import ast

__all__ = ["live_registers", "lower", "prepare", "simplified", "unsupported_in"]


def prepare(module: ast.Module, kernel: str, notes: list[str] | None = None) -> Kernel:
    """A kernel bound and simplified as ptxas does before it contracts. What is only a guess is added to ``notes``."""
    bound = bind_kernel(module, kernel)
    if "debug" not in module.target_options:  # ptxas does not optimise what is compiled for debugging
        fold(bound)
        merge_repeated(bound)
        mark_nounroll(bound, module, kernel)
        guesses = invert_powers(bound)
        if notes is not None:
            why = "ptxas may compute the reciprocal of ex2 where it is used; its last bits are a guess"
            notes += [f"ptx:{line}: {why}" for line in guesses]
    return bound


def lower(module: ast.Module, kernel: str, *, sm: int, fmad: bool = True) -> Program:
    """The program of one kernel for a target (SM number, e.g. 90).

    fmad: contract an unrounded ``mul`` and ``add`` into one fused multiply-add as ptxas does by default
    (``--fmad=true``); never in a module compiled for debugging. Raises KeyError for an unknown kernel, UnsupportedError,
    PtxError.
    """
    notes: list[str] = []
    with uncollected():
        program = emit(simplified(module, kernel, fmad=fmad, notes=notes), sm, module.files)
    program.notes += notes
    return program


def simplified(module: ast.Module, kernel: str, *, fmad: bool = True, notes: list[str] | None = None) -> Kernel:
    """A kernel as :func:`lower` emits it: its instructions are those of the program once :func:`isa.lower.link.link` has
    expanded the calls."""
    guesses: list[str] = []
    bound = prepare(module, kernel, guesses)
    if "debug" not in module.target_options:
        if fmad:
            guesses += [f"ptx:{u.line}: {u.opcode}: {u.why}; its rounding is a guess" for u in contract(bound)]
        finish(bound)
    if notes is not None:
        notes += guesses
    return bound


def live_registers(module: ast.Module, kernel: str, *, fmad: bool = True) -> list[int]:
    """How many 32-bit registers hold a value at each instruction of the program that :func:`lower` makes: an estimate of what
    ptxas needs there."""
    lowered = simplified(module, kernel, fmad=fmad)
    link(lowered)
    return pressure(lowered.instructions, build_blocks(lowered.instructions), lowered.registers)
