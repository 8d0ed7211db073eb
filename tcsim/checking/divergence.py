"""Have lanes passed a CTA barrier by that others of their warp are at?

They may still be on their way to it, or about to exit. It is wrong if they took another turn where the barrier hangs on a
branch, and will execute something that those at the barrier execute behind it.
"""

from __future__ import annotations

from collections.abc import Iterable

from isa.lower.cfg import Block, build_blocks
from isa.lower.ir import Kernel

__all__ = ["passed_by"]


def passed_by(kernel: Kernel, barrier: int, place: int) -> bool:
    """Whether a lane that is about to execute instruction ``place`` has passed by the barrier at instruction ``barrier``. (If
    one of them is in a function and the other is not, that is not known, and the answer no.)"""
    blocks = build_blocks(kernel.instructions)
    home, start = (next(n for n, block in enumerate(blocks) if block.start <= pc < block.end) for pc in (barrier, place))
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
    return _works(kernel, rest, blocks[start].end)


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
