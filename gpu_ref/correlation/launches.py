"""Recorded launches, timed again: bundles, and archives of launches as ``traces/wide.tar.xz``."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import numpy as np

import tcsim
from gpu_ref.correlation.archives import Launch, opened, read, recorded, values
from isa.errors import TcsimError
from tcsim.arch import Timing, find_timing
from tcsim.bundle import load_bundle
from tcsim.cli.launches import LaunchOptions, prepare
from tcsim.memory import DeviceMemory

__all__ = ["Job", "Timed", "archive_jobs", "bundle_jobs", "forget_memory", "on_tensor_cores", "timed"]

CLOCK = "sm__cycles_elapsed.avg.per_second"
Metrics = dict[str, float]


@dataclass(frozen=True)
class Timed:
    """A launch: metrics predicted and recorded, what was timed (machine code or PTX), and by metric the values of all runs of
    the recording where there are several (``recorded`` has their median). ``problem``: why it could not be timed.
    ``tensor``: whether the kernel multiplies matrices on tensor cores."""

    name: str
    predicted: Metrics
    recorded: Metrics
    what: str
    runs: dict[str, list[float]] = field(default_factory=dict)
    problem: str = ""
    tensor: bool = False


@dataclass(frozen=True)
class Job:
    """A launch to time: launch ``name`` of the archive whose contents lie in ``folder``, or (``bundle``) the bundle there.

    ``device`` is what it is timed on if it does not say itself, ``as_found`` whether at the SM clock of the recording.
    """

    name: str
    folder: Path
    bundle: bool
    device: str
    as_found: bool


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


def bundle_jobs(folder: Path, only: Sequence[str], device: str, as_found: bool) -> list[Job]:
    """The bundles in the folders of ``folder`` that have metrics. Raises TcsimError if there is no bundle at all."""
    paths = sorted(folder.glob("*/bundle.json"))
    if not paths:
        raise TcsimError(f"{folder}: no folders with a bundle.json; record some with `python -m gpu_ref record`")
    chosen = [path.parent for path in paths if not only or path.parent.name in only]
    return [Job(path.name, path, True, device, as_found) for path in chosen if load_bundle(path).metrics]


@contextlib.contextmanager
def archive_jobs(archive: Path, only: Sequence[str], device: str, as_found: bool) -> Iterator[list[Job]]:
    """The launches of an archive that have metrics; they can be timed as long as the context lasts."""
    with opened(archive) as folder:
        launches = read(folder)[1]
        names = [name for name, launch in sorted(launches.items()) if launch.get("metrics") and (not only or name in only)]
        yield [Job(name, folder, False, device, as_found) for name in names]


def timed(jobs: Sequence[Job], processes: int = 1) -> Iterator[Timed]:
    """Time launches, in their order, ``processes`` at a time (0: as many as there are cores)."""
    workers = min(processes or os.cpu_count() or 1, len(jobs))
    if workers <= 1:
        yield from map(_timed, jobs)
        return
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(_timed, jobs)


def _timed(job: Job) -> Timed:
    try:
        with warnings.catch_warnings(), tcsim.Device(job.device):
            warnings.simplefilter("ignore")  # other kernels of a file may be unsupported
            return _timed_bundle(job) if job.bundle else _timed_launch(job)
    except TcsimError as error:
        return Timed(job.name, {}, {}, "", problem=str(error))


def _timed_bundle(job: Job) -> Timed:
    launch = prepare(str(job.folder), LaunchOptions())
    measured = {name: float(metric.value) for name, metric in launch.bundle.metrics.items()}
    with launch.device:
        found = _time(job.name, launch.run, measured, job.as_found)
    return replace(found, tensor=on_tensor_cores(launch.bundle.ptx_text(), launch.bundle.entry))


def _timed_launch(job: Job) -> Timed:
    launch = read(job.folder)[1][job.name]
    found = _time(job.name, _runner(job.folder, launch), recorded(launch), job.as_found)
    ptx = (job.folder / "ptx" / launch["ptx"]).read_text()
    return replace(found, runs=launch.get("repeats", {}), tensor=on_tensor_cores(ptx, launch["entry"]))


def on_tensor_cores(ptx: str, entry: str) -> bool:
    """Whether kernel ``entry`` of a module has an ``mma``, ``wmma`` or ``wgmma`` that multiplies. (Nsight Compute's counters of
    the tensor pipe do not tell: ptxas moves constants with HFMA2.MMA.)"""
    body = re.search(rf"\.entry\s+{re.escape(entry)}\b(.*?)(?=\.entry\s|\Z)", ptx, re.DOTALL)
    return bool(body and re.search(r"\b(mma(\.sp\S*)?\.sync|wmma\.mma|wgmma\.mma_async)\b", body[1]))


def _runner(folder: Path, launch: Launch) -> Callable[[], object]:
    module = tcsim.RawModule(path=folder / "ptx" / launch["ptx"], fmad=launch.get("fmad", True))
    function = module.get_function(launch["entry"])
    shared = function.max_dynamic_shared_size_bytes = launch.get("shared_mem", 0)
    arguments = [tcsim.asarray(each) if isinstance(each, np.ndarray) else each for each in values(launch)]
    grid, block, cluster = tuple(launch["grid"]), tuple(launch["block"]), launch.get("cluster")
    return lambda: function(grid, block, arguments, shared_mem=shared, cluster=cluster)
