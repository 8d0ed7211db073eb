"""The chip's clock: SimPy's event queue, in SM cycles."""

from __future__ import annotations

from typing import cast

import simpy
from simpy.events import EventPriority

__all__ = ["At"]

_FIRST_RANK = 2  # after SimPy's own urgent and normal events


class At(simpy.Event):
    """An event in a given cycle. Those in the same cycle come in the order of ``rank``, the number of an SM."""

    def __init__(self, env: simpy.Environment, cycle: int, rank: int) -> None:
        super().__init__(env)
        self._ok = True
        self._value = None
        env.schedule(self, cast(EventPriority, _FIRST_RANK + rank), cycle - env.now)
