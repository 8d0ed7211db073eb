"""A pytest fixture: ``def test_kernel(tcsim_checker): ...`` fails if a launch inside it has any hazard."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tcsim.checking import Checker

__all__ = ["tcsim_checker"]


@pytest.fixture
def tcsim_checker() -> Iterator[Checker]:
    """Checks every launch of the test; at its end the test fails with what was found. ``tcsim_checker.report`` is the report
    so far."""
    from tcsim.checking import Checker

    with Checker() as checker:
        yield checker
    if not checker.report.ok:
        pytest.fail(checker.report.text(), pytrace=False)
