"""Numbers in words."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

__all__ = ["count", "span", "spans"]


def count(number: int, what: str) -> str:
    """``1 wavefront``, ``2 wavefronts``."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def span(first: int, length: int) -> str:
    """``4-7``, or ``4`` if it is one."""
    return f"{first}-{first + length - 1}" if length > 1 else str(first)


def spans(numbers: Iterable[int]) -> str:
    """``0-3, 8`` of ascending numbers; of more than three that are evenly spaced ``0, 4, ..., 28``."""
    numbers = list(numbers)
    steps = {b - a for a, b in pairwise(numbers)}
    if len(numbers) > 3 and len(steps) == 1 and steps != {1}:
        return f"{numbers[0]}, {numbers[1]}, ..., {numbers[-1]}"
    found: list[list[int]] = []
    for n in numbers:
        if found and n == found[-1][1] + 1:
            found[-1][1] = n
        else:
            found.append([n, n])
    return ", ".join(span(a, b - a + 1) for a, b in found)
