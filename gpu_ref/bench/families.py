"""All families of benchmarks, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from . import (
    bandwidth,
    barriers,
    coalescing,
    constants,
    control,
    floating,
    integer,
    issue,
    latency,
    launches,
    shared,
    slices,
    special,
    tensor,
    warp,
    wgmma,
)
from .gpu import BenchError, Benchmark

__all__ = ["FAMILIES", "select"]

_MODULES = (
    integer, floating, special, warp, tensor, wgmma, shared, barriers, control, issue, constants, launches, latency, slices,
    coalescing, bandwidth,
)  # fmt: skip

FAMILIES: dict[str, Callable[[], list[Benchmark]]] = {module.FAMILY: module.benchmarks for module in _MODULES}
"""In the order in which they run: what needs little memory first."""


def select(names: Sequence[str]) -> list[Benchmark]:
    """The benchmarks of the families (or ``family.benchmark``) in ``names``, all for none. Raises :class:`.BenchError`."""
    wanted: list[Benchmark] = []
    for name in names or FAMILIES:
        family, _, one = name.partition(".")
        if family not in FAMILIES:
            raise BenchError(f"no family of benchmarks is called {family!r}; there are: {', '.join(FAMILIES)}")
        found = [b for b in FAMILIES[family]() if not one or b.name == one]
        if not found:
            raise BenchError(
                f"no benchmark of {family} is called {one!r}; there are: {', '.join(b.name for b in FAMILIES[family]())}"
            )
        wanted += found
    return wanted
