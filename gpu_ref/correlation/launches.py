"""Recorded launches, timed again: bundles, and archives of launches as ``traces/wide.tar.xz``."""

from __future__ import annotations

import json
import tarfile
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

import tcsim
from isa.errors import TcsimError
from tcsim.arch import Timing, find_timing
from tcsim.bundle import parse_argument
from tcsim.cli.launches import LaunchOptions, prepare
from tcsim.memory import DeviceMemory

__all__ = ["Timed", "forget_memory", "timed_archive", "timed_bundles"]

CLOCK = "sm__cycles_elapsed.avg.per_second"
Metrics = dict[str, float]


@dataclass(frozen=True)
class Timed:
    """A launch: metrics predicted and recorded, and what was timed (machine code or PTX)."""

    name: str
    predicted: Metrics
    recorded: Metrics
    what: str


def _timing(recorded: Metrics, as_found: bool) -> Timing:
    """The tables of the current device, at the SM clock at which the launch was recorded if that is wanted and known."""
    timing = find_timing(tcsim.current_device().arch)
    if not as_found or not recorded.get(CLOCK):
        return timing
    return msgspec.structs.replace(timing, clocks=msgspec.structs.replace(timing.clocks, sm_hz=round(recorded[CLOCK])))


def _time(name: str, run: Callable[[], object], recorded: Metrics, as_found: bool) -> Timed:
    with tcsim.Profiler(timing=_timing(recorded, as_found)) as profiler:
        run()
    profile = profiler.launches[-1]
    return Timed(name, dict(profile.metrics), recorded, profile.timed)


def forget_memory() -> None:
    """Start the device's addresses anew: where buffers lie decides where their lines are in the caches."""
    device = tcsim.current_device()
    device.memory = DeviceMemory(device.arch.memory.bytes)


def timed_bundles(folder: Path, only: Sequence[str], as_found: bool) -> Iterator[Timed]:
    """Time the bundles in the folders of ``folder`` that have metrics."""
    paths = sorted(folder.glob("*/bundle.json"))
    if not paths:
        raise TcsimError(f"{folder}: no folders with a bundle.json; record some with `python -m gpu_ref record`")
    for path in paths:
        if only and path.parent.name not in only:
            continue
        forget_memory()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            launch = prepare(str(path.parent), LaunchOptions())
            recorded = {name: float(metric.value) for name, metric in launch.bundle.metrics.items()}
            if recorded:
                with launch.device:
                    yield _time(path.parent.name, launch.run, recorded, as_found)


def timed_archive(archive: Path, only: Sequence[str], as_found: bool) -> Iterator[Timed]:
    """Time the launches of an archive (``launches.json`` and ``ptx/``) that have metrics."""
    with tempfile.TemporaryDirectory() as unpacked, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # other kernels of a file may be unsupported
        with tarfile.open(archive) as packed:
            packed.extractall(unpacked, filter="data")
        folder = Path(unpacked)
        launches: dict[str, Any] = json.loads((folder / "launches.json").read_text())["launches"]
        for name, launch in sorted(launches.items()):
            if launch.get("metrics") and (not only or name in only):
                forget_memory()
                yield _time(name, _runner(folder, launch), launch["metrics"], as_found)


def _runner(folder: Path, launch: dict[str, Any]) -> Callable[[], object]:
    module = tcsim.RawModule(path=folder / "ptx" / launch["ptx"], fmad=launch.get("fmad", True))
    function = module.get_function(launch["entry"])
    shared = function.max_dynamic_shared_size_bytes = launch.get("shared_mem", 0)
    specs = [parse_argument(text, position) for position, (_, text) in enumerate(launch["arguments"], 1)]
    values = [spec.scalar() if spec.is_scalar else tcsim.asarray(spec.array()) for spec in specs]
    return lambda: function(tuple(launch["grid"]), tuple(launch["block"]), values, shared_mem=shared)
