"""What to expect of a profile that is timed from PTX, where machine code is not to be had."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

from msgspec import Struct, convert

__all__ = ["StandIn", "stand_in"]


class StandIn(Struct, frozen=True, forbid_unknown_fields=True):
    """How far cycles from PTX are from cycles from its machine code, as fractions, over ``launches`` recorded launches.
    ``source``: how that was measured."""

    launches: int
    mean: float
    median: float
    worst: float
    worst_launch: str
    source: str

    def __str__(self) -> str:
        return (
            f"cycles predicted from PTX are {self.mean:.0%} from those predicted from machine code on average, "
            f"{self.median:.0%} in the median and {self.worst:.0%} at worst ({self.launches} recorded launches)"
        )


@cache
def stand_in() -> StandIn:
    """The measured error, from ``stand_in.toml``."""
    return convert(tomllib.loads((Path(__file__).parent / "stand_in.toml").read_text()), StandIn)
