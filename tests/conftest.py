"""Shared by all tests: where things are."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def traces() -> Path:
    """The folder of kernels and recorded bundles."""
    return ROOT / "traces"
