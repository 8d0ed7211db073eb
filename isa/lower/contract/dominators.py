"""Orders and dominance on a control-flow graph (Cooper, Harvey and Kennedy, "A simple, fast dominance algorithm", 2001)."""

from __future__ import annotations

from isa.lower.cfg import Block

__all__ = ["dominance_frontiers", "immediate_dominators", "reverse_postorder"]


def reverse_postorder(blocks: list[Block]) -> list[int]:
    """The blocks that control can reach from the first, each before its successors except along back edges."""
    if not blocks:
        return []
    seen = {0}
    out: list[int] = []
    stack = [(0, iter(blocks[0].successors))]
    while stack:
        number, rest = stack[-1]
        for successor in rest:
            if successor not in seen:
                seen.add(successor)
                stack.append((successor, iter(blocks[successor].successors)))
                break
        else:
            stack.pop()
            out.append(number)
    out.reverse()
    return out


def immediate_dominators(order: list[int], predecessors: dict[int, list[int]]) -> dict[int, int]:
    """The block that immediately dominates each one, -1 for the first of ``order`` (reverse postorder)."""
    above: dict[int, int] = {}
    if not order:
        return above
    rank = {number: position for position, number in enumerate(order)}
    above[order[0]] = order[0]
    changed = True
    while changed:
        changed = False
        for number in order[1:]:
            chosen = -1
            for before in predecessors[number]:
                if before in above:
                    chosen = before if chosen < 0 else _common(before, chosen, above, rank)
            if above.get(number) != chosen:
                above[number] = chosen
                changed = True
    above[order[0]] = -1
    return above


def _common(a: int, b: int, above: dict[int, int], rank: dict[int, int]) -> int:
    while a != b:
        while rank[a] > rank[b]:
            a = above[a]
        while rank[b] > rank[a]:
            b = above[b]
    return a


def dominance_frontiers(order: list[int], predecessors: dict[int, list[int]], above: dict[int, int]) -> dict[int, list[int]]:
    """For each block the joins just beyond what it dominates: where its definitions meet others."""
    frontiers: dict[int, list[int]] = {number: [] for number in order}
    for number in order:
        before = predecessors[number]
        if len(before) < 2 and not (before and above[number] < 0):
            continue
        for runner in before:
            while runner != above[number] and runner >= 0:
                if number not in frontiers[runner]:
                    frontiers[runner].append(number)
                runner = above[runner]
    return frontiers
