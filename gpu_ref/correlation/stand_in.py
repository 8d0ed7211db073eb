"""How well PTX stands in for machine code: recorded launches timed from both."""

from __future__ import annotations

import datetime
import statistics
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import tcsim
from gpu_ref.correlation.launches import forget_memory
from isa.errors import TcsimError
from tcsim.cli.launches import LaunchOptions, prepare
from tcsim.profiler import TIMED_MACHINE

__all__ = ["differences", "write"]

SPINNING = ("locks",)
"""Launches whose instructions depend on when they execute."""


def differences(folder: Path, only: Sequence[str] = ()) -> Iterator[tuple[str, float]]:
    """The name of each bundle in the folders of ``folder`` and cycles from PTX over cycles from machine code, less 1. Those
    without machine code are left out."""
    for path in sorted(folder.glob("*/bundle.json")):
        name = path.parent.name
        if name in SPINNING or (only and name not in only):
            continue
        cycles = []
        for code in ("machine", "ptx"):
            forget_memory()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                launch = prepare(str(path.parent), LaunchOptions())
                with launch.device, tcsim.Profiler(code=code) as profiler:
                    launch.run()
            if (profiler.launches[-1].timed == TIMED_MACHINE) == (code == "machine"):
                cycles.append(profiler.launches[-1].cycles)
        if len(cycles) == 2:
            yield name, cycles[1] / cycles[0] - 1


def write(folder: Path, out: Path, only: Sequence[str] = ()) -> None:
    """Measure, and write what a profile prints of it (:mod:`tcsim.timing.stand_in`). Raises TcsimError without launches."""
    found = {}
    for name, difference in differences(folder, only):
        found[name] = abs(difference)
        print(f"{name}: {difference:+.1%}", file=sys.stderr, flush=True)
    if not found:
        raise TcsimError(f"{folder}: no bundles with machine code; record some with `python -m gpu_ref record`")
    worst = max(found, key=found.__getitem__)
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    device, apart = tcsim.current_device().arch.full_name, ", ".join(SPINNING)
    out.write_text(
        "# How far cycles predicted from PTX are from those predicted from its machine code: |PTX / machine code - 1| over\n"
        "# recorded launches.\n"
        f"launches = {len(found)}\n"
        f"mean = {statistics.mean(found.values()):.3f}\n"
        f"median = {statistics.median(found.values()):.3f}\n"
        f"worst = {found[worst]:.3f}\n"
        f'worst_launch = "{worst}"\n'
        f'source = "python -m gpu_ref correlate {folder} --stand-in {out}; {device}, {date}; left out: {apart}"\n',
        encoding="utf-8",
    )
