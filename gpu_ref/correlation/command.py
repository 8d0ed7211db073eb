"""``python -m gpu_ref correlate``: time recorded launches and set the predictions beside what Nsight Compute counted."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import tcsim
from gpu_ref.correlation import samples
from gpu_ref.correlation.launches import Timed, timed_archive, timed_bundles
from gpu_ref.correlation.report import report, scatter
from gpu_ref.correlation.stand_in import write
from isa.errors import TcsimError
from tcsim.report.png import to_png

__all__ = ["add_arguments", "run"]

LOOKED_AT, HELD_OUT = "looked at", "held out"


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The command's options."""
    command.add_argument("bundles", nargs="*", default=["traces"], help="folders of bundles with metrics (default: traces)")
    command.add_argument(
        "--held-out", nargs="*", default=[], metavar="ARCHIVE", help="archives of launches that nothing was fitted on"
    )
    command.add_argument("--record", metavar="SUITE", help="first record this suite here, with Nsight Compute (needs a GPU)")
    command.add_argument("--device", default="h200", help="the GPU that the launches were recorded on")
    command.add_argument(
        "--clock", choices=("recorded", "assumed"), default="recorded", help="at which the SMs are taken to run"
    )
    command.add_argument("--only", nargs="+", default=[], metavar="NAME", help="launches to time (default: all)")
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
    as_found = options.clock == "recorded"
    groups: dict[str, list[Timed]] = {}
    with tcsim.Device(options.device), tempfile.TemporaryDirectory() as folder:
        sources = [Path(each) for each in options.bundles]
        if options.stand_in is not None:
            write(sources[0], options.stand_in, options.only)
            return 0
        if options.sample is not None:
            samples.write(sources[0], options.sample, options.sample_sms, options.only)
            return 0
        if options.record:
            from gpu_ref.suites import record_suite

            for failure in record_suite(options.record, folder, options.only, True, None):
                print(f"FAILED {failure}", file=sys.stderr)
            sources = [Path(folder)]
        for source in sources:
            _collect(groups.setdefault(LOOKED_AT, []), timed_bundles(source, options.only, as_found))
        for archive in options.held_out:
            group = f"{HELD_OUT}: {Path(archive).name.partition('.')[0]}"
            _collect(groups.setdefault(group, []), timed_archive(Path(archive), options.only, as_found))
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
    return 0


def _collect(into: list[Timed], launches: Iterable[Timed]) -> None:
    for launch in launches:
        into.append(launch)
        print(f"{launch.name}: {launch.predicted['sm__cycles_elapsed.max']:,.0f} cycles", file=sys.stderr, flush=True)
