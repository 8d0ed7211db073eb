"""What the timing model must know of a copy that does not read all that it writes: lanes that are told to ignore their source
have zeros written and ask no memory for anything."""

from __future__ import annotations

from dataclasses import dataclass

from isa.program import MemoryAccess

__all__ = ["BYTES", "CLEAR", "SET", "CopyAccess"]

SET, CLEAR, BYTES = range(3)
"""A lane reads where its bit of a predicate word is set, or clear, or where its register of bytes to read is not 0."""


@dataclass(frozen=True, slots=True)
class CopyAccess(MemoryAccess):
    """A cp.async or LDGSTS. ``reading``: position in the operand row of what says which lanes read (-1: all do), ``how``: as
    above."""

    reading: int = -1
    how: int = SET
