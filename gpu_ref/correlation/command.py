"""``python -m gpu_ref correlate``: time recorded launches and set the predictions beside what Nsight Compute counted.

On a machine with a GPU and ncu it first measures the suites of the repository there; elsewhere it takes the recordings.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import tcsim
from gpu_ref.correlation import samples
from gpu_ref.correlation.archives import opened, pack, read
from gpu_ref.correlation.launches import Job, Timed, archive_jobs, bundle_jobs, timed
from gpu_ref.correlation.measure import measure
from gpu_ref.correlation.report import report, scatter
from gpu_ref.correlation.stand_in import write
from gpu_ref.device import GpuUnavailable, device_name, require_cupy
from gpu_ref.profiling import find_ncu
from isa.errors import TcsimError
from tcsim.report.png import to_png

__all__ = ["add_arguments", "run"]

LOOKED_AT, HELD_OUT = "looked at", "held out"
SUITES = ("traces/scoreboard.tar.xz", "traces/fresh.tar.xz", "traces/held_out.tar.xz")
"""Archives that are measured unless others are named."""


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The command's options."""
    command.add_argument(
        "bundles",
        nargs="*",
        help="folders of bundles with metrics (default: traces; on a machine with a GPU and ncu, --measure)",
    )
    command.add_argument(
        "--held-out", nargs="*", default=[], metavar="ARCHIVE", help="archives of launches that nothing was fitted on"
    )
    command.add_argument(
        "--measure",
        nargs="*",
        metavar="ARCHIVE",
        help=f"first measure the launches of these archives on this machine's GPU (default: {' '.join(SUITES)})",
    )
    command.add_argument("--repeats", type=int, default=3, help="with --measure: how often what wavers is counted again (3)")
    command.add_argument("--keep", type=Path, metavar="FOLDER", help="with --measure: where the measured archives go")
    command.add_argument("--record", metavar="SUITE", help="first record this suite here, with Nsight Compute (needs a GPU)")
    command.add_argument("--device", help="the GPU that is simulated (default: with --measure this machine's, else h200)")
    command.add_argument(
        "--clock", choices=("recorded", "assumed"), default="recorded", help="at which the SMs are taken to run"
    )
    command.add_argument("--only", nargs="+", default=[], metavar="NAME", help="launches to time (default: all)")
    command.add_argument("--jobs", type=int, default=1, metavar="N", help="launches timed at once (1; 0: one to each core)")
    command.add_argument("--out", type=Path, help="write the tables (Markdown) to this file instead of printing them")
    command.add_argument(
        "--stand-in",
        type=Path,
        metavar="FILE",
        help="measure instead how far PTX is from machine code, and write it here (TOML)",
    )
    command.add_argument(
        "--sample",
        type=Path,
        metavar="FILE",
        help="measure instead how far samples are from the whole chip, and write it here (TOML)",
    )
    command.add_argument(
        "--sample-sms", type=int, default=16, metavar="N", help="SMs of these samples, and by default of all samples (16)"
    )
    command.add_argument("--plot", type=Path, help="write a scatter plot of the cycles to this .svg or .png file")


def run(options: argparse.Namespace) -> int:
    """Run the command; returns its exit code. Raises TcsimError if nothing was recorded."""
    if options.stand_in is not None or options.sample is not None:
        with tcsim.Device(options.device or "h200"):
            source = Path((options.bundles or ["traces"])[0])
            if options.stand_in is not None:
                write(source, options.stand_in, options.only)
            else:
                samples.write(source, options.sample, options.sample_sms, options.only)
        return 0
    failed = False
    with contextlib.ExitStack() as stack:
        archives = [Path(each) for each in options.held_out]
        bundles = [Path(each) for each in options.bundles]
        if options.measure is None and not (bundles or archives or options.record) and _can_measure():
            options.measure = []
        if options.measure is not None:
            device = options.device or device_name(require_cupy())
            kept = options.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
            for archive in options.measure or SUITES:
                measured, problems = _measured(Path(archive), kept, options.only, options.repeats)
                archives.append(measured)
                failed |= problems
        else:
            device = options.device or "h200"
            bundles = bundles or ([] if archives else [Path("traces")])
        if options.record:
            from gpu_ref.suites import record_suite

            folder = stack.enter_context(tempfile.TemporaryDirectory())
            for failure in record_suite(options.record, folder, options.only, True, None):
                print(f"FAILED {failure}", file=sys.stderr)
            bundles = [Path(folder)]
        as_found = options.clock == "recorded"
        jobs: dict[str, list[Job]] = {}
        for source in bundles:
            jobs.setdefault(LOOKED_AT, []).extend(bundle_jobs(source, options.only, device, as_found))
        for archive in archives:
            group = f"{HELD_OUT}: {archive.name.partition('.')[0]}"
            jobs.setdefault(group, []).extend(stack.enter_context(archive_jobs(archive, options.only, device, as_found)))
        groups, problems = _timed(jobs, options.jobs)
        failed |= problems
    if not any(groups.values()):
        raise TcsimError("none of these launches was recorded with Nsight Compute's metrics")
    text = "\n".join(report(groups)) + "\n"
    if options.out is not None:
        options.out.write_text(text, encoding="utf-8")
    else:
        print(text)
    if options.plot is not None:
        picture = scatter(groups)
        options.plot.write_bytes(to_png(picture) if options.plot.suffix.lower() == ".png" else picture.encode())
    return 1 if failed else 0


def _can_measure() -> bool:
    try:
        require_cupy()
    except GpuUnavailable:
        return False
    return find_ncu() is not None


def _measured(archive: Path, kept: Path, only: Sequence[str], repeats: int) -> tuple[Path, bool]:
    """An archive measured here into folder ``kept``, and whether launches failed."""
    kept.mkdir(parents=True, exist_ok=True)
    failed = {}
    with opened(archive) as folder:
        names = [name for name in read(folder)[1] if not only or name in only]
        if names:
            failed = measure(folder, names, repeats).failed
        for name, problem in failed.items():
            print(f"FAILED {name}: {problem}", file=sys.stderr)
        shutil.rmtree(folder / "cubin", ignore_errors=True)
        pack(folder, kept / archive.name)
    return kept / archive.name, bool(failed)


def _timed(jobs: dict[str, list[Job]], processes: int) -> tuple[dict[str, list[Timed]], bool]:
    """The launches of each group as they were timed, and whether some could not be."""
    every = iter(timed([job for group in jobs.values() for job in group], processes))
    groups: dict[str, list[Timed]] = {}
    failed = False
    for group, wanted in jobs.items():
        groups[group] = []
        for _ in wanted:
            launch = next(every)
            if launch.problem:
                failed = True
                print(f"FAILED {launch.name}: {launch.problem}", file=sys.stderr, flush=True)
                continue
            groups[group].append(launch)
            print(f"{launch.name}: {launch.predicted['sm__cycles_elapsed.max']:,.0f} cycles", file=sys.stderr, flush=True)
    return groups, failed
