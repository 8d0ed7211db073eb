"""Which way instructions come after another: have lanes passed a CTA barrier by that others of their warp are at?

They may still be on their way to it, or about to exit. It is wrong if they took another turn where the barrier hangs on a
branch, and will execute something that those at the barrier execute behind it.
"""

from __future__ import annotations

from collections.abc import Iterable

from isa.lower.cfg import Block, build_blocks
from isa.lower.ir import Kernel

__all__ = ["comes_to", "passed_by"]


def passed_by(kernel: Kernel, barrier: int, place: int) -> bool:
    """Whether a lane that is about to execute instruction ``place`` has passed by the barrier at instruction ``barrier``.

    Where they are in different functions, what counts is the calls that lead there from one that leads to both: every one that
    leads to the barrier has been passed by. (Functions that are called by their address count as not passed by.)"""
    calls = _Calls(kernel)
    if calls.home(barrier) == calls.home(place):
        return _passed_by(calls, barrier, place)
    to_barrier, to_place = calls.leading_to(barrier), calls.leading_to(place)
    if to_barrier is None or to_place is None:
        return False
    apart = [f for f in to_barrier.keys() & to_place.keys() if not to_barrier[f] & to_place[f]]
    return any(all(_passed_by(calls, call, at) for call in to_barrier[f] for at in to_place[f]) for f in apart)


def comes_to(kernel: Kernel, start: int, place: int) -> bool:
    """Whether a thread may execute instruction ``place`` after instruction ``start``. (From one function to another it may.)"""
    calls = _Calls(kernel)
    if calls.home(start) != calls.home(place):
        return True
    one, two = calls.block_of(start), calls.block_of(place)
    return (one == two and start < place) or two in _reached(calls.blocks, calls.blocks[one].successors, set())


class _Calls:
    """Who calls whom in a kernel, whose functions stand one after another in front of its own instructions."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel, self.blocks = kernel, build_blocks(kernel.instructions)
        entries = [pc for pc, instr in enumerate(kernel.instructions) if instr.form.instruction.control == "enter"]
        own = kernel.instructions[0].target if entries else 0
        self._starts = [*entries, own or 0]
        self._calls: dict[int, list[int]] = {}
        for pc, instr in enumerate(kernel.instructions):
            if instr.form.instruction.control == "call" and instr.target is not None:
                self._calls.setdefault(self.home(instr.target), []).append(pc)
        self._by_address = any(kernel.function_table)

    def home(self, pc: int) -> int:
        """The function that an instruction is in, by its first instruction."""
        return max((start for start in self._starts if start <= pc), default=0)

    def block_of(self, pc: int) -> int:
        """The block that an instruction is in."""
        return next(n for n, block in enumerate(self.blocks) if block.start <= pc < block.end)

    def works_behind(self, function: int, seen: frozenset[int] = frozenset()) -> bool:
        """Whether anything is done behind some call of a function."""
        return any(self._works_behind_call(call, seen | {function}) for call in self._calls.get(function, ()))

    def _works_behind_call(self, call: int, seen: frozenset[int]) -> bool:
        block = self.block_of(call)
        rest = _reached(self.blocks, self.blocks[block].successors, set())
        if _works(self.kernel, call + 1, self.blocks[block].end):
            return True
        if any(_works(self.kernel, self.blocks[n].start, self.blocks[n].end) for n in rest):
            return True
        return self.home(call) not in seen and self.works_behind(self.home(call), seen)

    def leading_to(self, pc: int) -> dict[int, set[int]] | None:
        """By function: its calls that may lead to an instruction, or in its own function that instruction."""
        if self._by_address:
            return None
        found = {self.home(pc): {pc}}
        todo = [self.home(pc)]
        while todo:
            for call in self._calls.get(todo.pop(), ()):
                caller = self.home(call)
                if caller not in found:
                    found[caller] = set()
                    todo.append(caller)
                found[caller].add(call)
        return found


def _passed_by(calls: _Calls, barrier: int, place: int) -> bool:
    """:func:`passed_by` inside one function; ``barrier`` may be a call that leads to one."""
    kernel, blocks = calls.kernel, calls.blocks
    home, start = calls.block_of(barrier), calls.block_of(place)
    if start == home and place <= barrier:
        return False
    decisive = {n for n, block in enumerate(blocks) if len(block.successors) > 1 and _decides(blocks, n, home)}
    if home in _reached(blocks, blocks[start].successors, decisive):
        return False
    ahead = _reached(blocks, blocks[start].successors, set())
    behind = _reached(blocks, blocks[home].successors, set())
    if any(_works(kernel, blocks[n].start, blocks[n].end) for n in ahead & behind):
        return True
    rest = place if start in behind or start == home else blocks[start].end
    return _works(kernel, rest, blocks[start].end) or calls.works_behind(calls.home(place))


def _works(kernel: Kernel, start: int, end: int) -> bool:
    """Whether instructions do anything but lead to the end."""
    return any(instr.form.instruction.control not in ("exit", "return", "branch") for instr in kernel.instructions[start:end])


def _decides(blocks: list[Block], branch: int, home: int) -> bool:
    """Whether it hangs on a branch if a block is reached: from one side it is, from the other only through the branch again."""
    sides = [home == side or home in _reached(blocks, [side], {branch}) for side in blocks[branch].successors]
    return any(sides) and not all(sides)


def _reached(blocks: list[Block], first: Iterable[int], closed: set[int]) -> set[int]:
    """The blocks that one comes to from the beginning of others, without going on from those that are closed."""
    found: set[int] = set()
    todo = list(first)
    while todo:
        block = todo.pop()
        if block not in found:
            found.add(block)
            if block not in closed:
                todo += blocks[block].successors
    return found
