"""Control flow of a kernel: basic blocks, and where divergent threads meet again.

Threads that a branch separates are expected to meet at the branch's immediate post-dominator, the first instruction that every
path from the branch to the end of the kernel or function goes through. (Algorithm: Cooper, Harvey and Kennedy, "A simple, fast
dominance algorithm", on the reversed graph.)

A call is an instruction like others here: control comes back. The functions of a kernel have no edges from where they are
called; instruction 0 of such a kernel has one to each of them, so that everything that may run can be reached from it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from isa.lower.ir import Const, Instr

__all__ = ["Block", "build_blocks", "reconvergence_points"]


@dataclass(slots=True)
class Block:
    """Instructions ``start`` to ``end`` (exclusive) of straight-line code. ``successors`` are block numbers."""

    start: int
    end: int
    successors: list[int] = field(default_factory=list)
    predecessors: list[int] = field(default_factory=list)


def leaves(instr: Instr) -> bool:
    """Whether control can go elsewhere than to the next instruction."""
    return instr.form.instruction.control in _LEAVING


_LEAVING = frozenset({"branch", "branch_indexed", "exit", "return", "roots"})
_FALLING_THROUGH_IF_GUARDED = frozenset({"branch", "exit", "return"})


def build_blocks(instructions: list[Instr]) -> list[Block]:
    """The basic blocks in text order. A block whose control leaves the kernel or function has no successors."""
    count = len(instructions)
    starts = {0}
    entries: list[int] = []
    for index, instr in enumerate(instructions):
        if instr.target is not None and instr.form.instruction.control != "call":
            starts.add(instr.target)
        if leaves(instr):
            starts.add(index + 1)
            if instr.form.instruction.control == "branch_indexed":
                starts.update(_table(index, instr))
        elif instr.form.instruction.control == "enter":
            starts.add(index)
            entries.append(index)
    ordered = sorted(s for s in starts if s < count)
    blocks = [Block(s, e) for s, e in zip(ordered, [*ordered[1:], count], strict=True)]
    number = {block.start: index for index, block in enumerate(blocks)}
    for index, block in enumerate(blocks):
        last = instructions[block.end - 1]
        control = last.form.instruction.control
        targets: list[int] = []
        if control in ("branch", "roots") and last.target is not None:
            targets.append(last.target)
        if control == "roots":
            targets += entries
        elif control == "branch_indexed":
            targets += _table(block.end - 1, last)
        elif control not in _FALLING_THROUGH_IF_GUARDED or last.guard is not None:
            targets.append(block.end)
        for target in dict.fromkeys(targets):
            if target in number:  # a target past the end leaves the kernel
                block.successors.append(number[target])
                blocks[number[target]].predecessors.append(index)
    return blocks


def _table(index: int, instr: Instr) -> range:
    """The branches behind an indexed branch: its table."""
    entries = instr.args["n"]
    assert isinstance(entries, Const)
    return range(index + 1, index + 1 + entries.bits)


def reconvergence_points(instructions: list[Instr], blocks: list[Block]) -> dict[int, int]:
    """For each conditional branch (by index): the instruction where its two sides meet, or -1 if only at the end."""
    exit_node = len(blocks)
    post = _post_dominators(blocks)
    points: dict[int, int] = {}
    for index, block in enumerate(blocks):
        last = block.end - 1
        if len(block.successors) > 1 or (instructions[last].guard is not None and leaves(instructions[last])):
            meet = post[index]
            points[last] = -1 if meet == exit_node else blocks[meet].start
    return points


def _post_dominators(blocks: list[Block]) -> list[int]:
    """Immediate post-dominator of every block; ``len(blocks)`` stands for the end of the kernel."""
    exit_node = len(blocks)
    successors = [list(b.successors) for b in blocks] + [[]]
    predecessors: list[list[int]] = [list(b.predecessors) for b in blocks] + [[]]
    for index, block in enumerate(blocks):
        leaves_kernel = not block.successors
        if leaves_kernel:
            successors[index].append(exit_node)
            predecessors[exit_node].append(index)
    order = _postorder(exit_node, predecessors)
    # A loop without exit never reaches the end; give each such block an edge to it so that every block has a post-dominator.
    for index in reversed(range(len(blocks))):
        if index not in order:
            successors[index].append(exit_node)
            predecessors[exit_node].append(index)
            order = _postorder(exit_node, predecessors)
    immediate: dict[int, int] = {exit_node: exit_node}
    sequence = sorted((n for n in order if n != exit_node), key=lambda n: -order[n])
    changed = True
    while changed:
        changed = False
        for node in sequence:
            chosen = -1
            for successor in successors[node]:
                if successor in immediate:
                    chosen = successor if chosen < 0 else _common(successor, chosen, immediate, order)
            if chosen >= 0 and immediate.get(node) != chosen:
                immediate[node] = chosen
                changed = True
    return [immediate.get(index, exit_node) for index in range(len(blocks))]


def _postorder(root: int, edges: list[list[int]]) -> dict[int, int]:
    order: dict[int, int] = {}
    seen = {root}
    stack = [(root, iter(edges[root]))]
    while stack:
        node, children = stack[-1]
        for child in children:
            if child not in seen:
                seen.add(child)
                stack.append((child, iter(edges[child])))
                break
        else:
            stack.pop()
            order[node] = len(order)
    return order


def _common(first: int, second: int, immediate: dict[int, int], order: dict[int, int]) -> int:
    while first != second:
        while order[first] < order[second]:
            first = immediate[first]
        while order[second] < order[first]:
            second = immediate[second]
    return first
