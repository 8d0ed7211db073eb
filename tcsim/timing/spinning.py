"""Which instructions must not execute before their time: those by which threads that wait in loops learn of each other.

A *spin loop* ends when memory holds what somebody else has put there: a branch in it depends on what an atomic or a volatile,
relaxed or acquiring load brought. In a kernel with such a loop how often it turns, and who gets a lock, depends on time. There
all accesses of that kind, and the stores and reductions they may see, execute when they issue; whatever is between them may run
ahead, as in a program without races nobody sees what others do before they tell.

Loops are the strongly connected components of the control flow (Tarjan, SIAM J. Comput. 1, 1972).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from isa.machine import SHARED
from isa.program import GUARD, KIND, TARGET, Kind, Program

__all__ = ["time_dependent"]

_STRONG = frozenset(("volatile", "relaxed", "acquire", "release", "acq_rel", "mmio"))
_JUMPS = frozenset((Kind.BRANCH, Kind.BRANCH_BOTH, Kind.BRANCH_DIVERGED, Kind.BRANCH_CONVERGED, Kind.CALL))
_ENDS = frozenset((Kind.EXIT, Kind.RETURN, Kind.JUMP, Kind.BRANCH, Kind.BRANCH_INDEXED))
_CONTROL = _JUMPS | _ENDS | {Kind.BREAK, Kind.CONVERGE}


def time_dependent(program: Program) -> NDArray[np.bool_]:
    """By instruction, whether it must not execute before its time: none in a program without spin loops."""
    told = np.array([_communicates(program.opcodes[pc]) for pc in range(len(program))], bool)
    readers = [pc for pc in np.flatnonzero(told).tolist() if program.writes[pc]]
    if not readers or not any(_spins(program, loop, readers) for loop in _loops(program)):
        return np.zeros(len(program), bool)
    return told


def _communicates(opcode: str) -> bool:
    """Whether an instruction is an atomic, or an access whose order others may see."""
    base, *words = opcode.split(".")
    if base in ("atom", "red") or base in ("ATOM", "ATOMG", "RED"):
        return True
    if base == "ATOMS":  # but not the loops that ptxas makes of additions
        return "SPIN" not in words
    if base in ("LD", "LDG", "ST", "STG"):
        return "STRONG" in words and "SM" not in words
    return base in ("ld", "st") and not _STRONG.isdisjoint(words) and not any(word.startswith("shared") for word in words)


def _spins(program: Program, loop: set[int], readers: list[int]) -> bool:
    """Whether a branch in a loop depends on what one of the readers in it brings, maybe by way of shared memory: one thread of
    a CTA may try for all."""
    known = {place for pc in readers if pc in loop for place in program.writes[pc]}
    grown, is_shared = bool(known), False
    while grown:
        grown = False
        for pc in loop:
            access = program.memory[pc]
            shared = access is not None and access.space == SHARED
            if known.isdisjoint(program.reads[pc]) and not (shared and is_shared):
                continue
            if shared and not is_shared and access is not None and "store" in access.kind:
                grown = is_shared = True
            if not known.issuperset(program.writes[pc]):
                known.update(program.writes[pc])
                grown = True
    return any(program.code[pc, KIND] in _CONTROL and not known.isdisjoint(program.reads[pc]) for pc in loop)


def _following(program: Program, pc: int) -> list[int]:
    kind, found = int(program.code[pc, KIND]), []
    if kind in _JUMPS and program.code[pc, TARGET] >= 0:
        found.append(int(program.code[pc, TARGET]))
    if kind == Kind.BRANCH_INDEXED:
        found += [target for table in program.branch_tables for target in table if target >= 0]
    if (kind not in _ENDS or program.code[pc, GUARD] >= 0) and pc + 1 < len(program):
        found.append(pc + 1)
    return found


def _loops(program: Program) -> Iterator[set[int]]:
    """The loops of a program, each with all that are in it."""
    following = [_following(program, pc) for pc in range(len(program))]
    number: dict[int, int] = {}
    lowest: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    for root in range(len(program)):
        if root in number:
            continue
        number[root] = lowest[root] = len(number)
        stack.append(root)
        on_stack.add(root)
        path = [(root, iter(following[root]))]
        while path:
            pc, rest = path[-1]
            after = next(rest, None)
            if after is None:
                path.pop()
                if path:
                    lowest[path[-1][0]] = min(lowest[path[-1][0]], lowest[pc])
                if lowest[pc] == number[pc]:
                    loop = set(stack[stack.index(pc) :])
                    del stack[stack.index(pc) :]
                    on_stack -= loop
                    if len(loop) > 1 or pc in following[pc]:
                        yield loop
            elif after not in number:
                number[after] = lowest[after] = len(number)
                stack.append(after)
                on_stack.add(after)
                path.append((after, iter(following[after])))
            elif after in on_stack:
                lowest[pc] = min(lowest[pc], number[after])
