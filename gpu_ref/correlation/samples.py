"""How well a sample of its SMs stands for the whole chip: recorded launches timed both ways."""

from __future__ import annotations

import datetime
import statistics
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import tcsim
from gpu_ref.correlation.launches import forget_memory
from tcsim.cli.launches import LaunchOptions, prepare
from tcsim.errors import DeviceError, TcsimError
from tcsim.profile import LaunchProfile

__all__ = ["differences", "write"]


def differences(folder: Path, sms: int, only: Sequence[str] = ()) -> Iterator[tuple[str, float]]:
    """The name of each bundle in the folders of ``folder`` and cycles of a sample of ``sms`` SMs over cycles of the whole chip,
    less 1. Those that cannot be sampled, or of which a sample is all, are left out."""
    for path in sorted(folder.glob("*/bundle.json")):
        name = path.parent.name
        if only and name not in only:
            continue
        try:
            part = _timed(path.parent, sms)
        except DeviceError:
            continue
        if part.sample is not None and part.sample.ctas < part.sample.of:
            yield name, part.cycles / _timed(path.parent, 0).cycles - 1


def _timed(bundle: Path, sms: int) -> LaunchProfile:
    forget_memory()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        launch = prepare(str(bundle), LaunchOptions())
        with launch.device, tcsim.Profiler(sample=sms) as profiler:
            launch.run()
    return profiler.launches[-1]


def write(folder: Path, out: Path, sms: int, only: Sequence[str] = ()) -> None:
    """Measure, and write what a profile prints of it (:mod:`tcsim.timing.sample`). Raises TcsimError without launches."""
    found = {}
    for name, difference in differences(folder, sms, only):
        found[name] = abs(difference)
        print(f"{name}: {difference:+.1%}", file=sys.stderr, flush=True)
    if not found:
        raise TcsimError(f"{folder}: no bundles with more CTAs than {sms} SMs get; record some with `python -m gpu_ref record`")
    worst = max(found, key=found.__getitem__)
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    out.write_text(
        "# How far cycles of a sample are from those of the whole chip: |sample / whole - 1| over recorded launches.\n"
        f"sms = {sms}\n"
        f"launches = {len(found)}\n"
        f"mean = {statistics.mean(found.values()):.4f}\n"
        f"median = {statistics.median(found.values()):.4f}\n"
        f"worst = {found[worst]:.3f}\n"
        f'worst_launch = "{worst}"\n'
        f'source = "python -m gpu_ref correlate {folder} --sample {out} --sample-sms {sms}; '
        f'{tcsim.current_device().arch.full_name}, {date}"\n',
        encoding="utf-8",
    )
