"""In which order a GEMM adds: what a kernel does with the instructions along K, and with what they leave."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from tcsim.errors import TcsimError

__all__ = ["Chain", "KOrder", "Promote", "SplitK", "parse_k_order"]


@dataclass(frozen=True)
class Chain:
    """One accumulator: D of each instruction is C of the next, k ascending; the first takes C."""

    def __str__(self) -> str:
        return "chain"


@dataclass(frozen=True)
class SplitK:
    """K is cut into ``slices`` runs of whole instructions, of equal length but for a shorter last one. Each is a chain; the
    first starts from C, the others from zero. Their results are added in f32 (s32 and f64 ones in their own type), to nearest
    even, and an f16 result is rounded to f16 once, at the end. ``added``: ``ascending`` is ((p0 + p1) + p2) + ..., ``pairwise``
    (p0 + p1) + (p2 + p3), as a tree does it.
    """

    slices: int
    added: Literal["ascending", "pairwise"] = "ascending"

    def __str__(self) -> str:
        return f"split-k:{self.slices}" + (f":{self.added}" if self.added != "ascending" else "")


@dataclass(frozen=True)
class Promote:
    """After every ``every`` instructions their accumulator, which starts from zero, is added to an f32 sum (FADD, to nearest
    even) and starts anew: what FP8 kernels do about accumulators of few bits. The sum starts from C and is the result; it is
    f32 for f16 accumulators too (s32 and f64 ones are added in their own type)."""

    every: int

    def __str__(self) -> str:
        return f"promote:{self.every}"


KOrder = Chain | SplitK | Promote

_TEXT = re.compile(r"chain|split-k:(?P<slices>\d+)(?::(?P<added>ascending|pairwise))?|promote:(?P<every>\d+)")


def parse_k_order(order: KOrder | str, instructions: int) -> KOrder:
    """Check an order, or read ``chain``, ``split-k:4``, ``split-k:4:pairwise`` or ``promote:4``, for a K of so many
    instructions. Raises TcsimError."""
    if isinstance(order, str):
        match = _TEXT.fullmatch(order.strip())
        if match is None:
            raise TcsimError(
                f"k_order {order!r}: say 'chain', 'split-k:SLICES', 'split-k:SLICES:pairwise' or 'promote:INSTRUCTIONS', or "
                "give a tcsim.Chain, tcsim.SplitK or tcsim.Promote"
            )
        if match["slices"]:
            order = SplitK(int(match["slices"]), match["added"] or "ascending")  # type: ignore[arg-type]
        else:
            order = Promote(int(match["every"])) if match["every"] else Chain()
    if isinstance(order, SplitK) and not 1 <= order.slices <= max(instructions, 1):
        raise TcsimError(f"k_order {order}: K is {instructions} instructions long; give it 1 to {max(instructions, 1)} slices")
    if isinstance(order, SplitK) and order.added not in ("ascending", "pairwise"):
        raise TcsimError(f"k_order {order}: the slices are added 'ascending' or 'pairwise'")
    if isinstance(order, Promote) and order.every < 1:
        raise TcsimError(f"k_order {order}: promote after 1 instruction or more")
    return order
