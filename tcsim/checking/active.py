"""The checker that is entered, if any: all that a launch must know of checks."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tcsim.checking.checker import Checker

__all__ = ["ACTIVE", "active_checker"]

ACTIVE: ContextVar[Checker | None] = ContextVar("tcsim_checker", default=None)


def active_checker() -> Checker | None:
    """The innermost checker that is entered, if any."""
    return ACTIVE.get()
