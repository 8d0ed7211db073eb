"""``python -m gpu_ref record SUITE --out DIR``, ``python -m gpu_ref verify BUNDLE...``, on a machine with a GPU, ``python -m
gpu_ref bench --out FILE.toml`` to measure it, ``python -m gpu_ref fuzz --form WORD`` to run new operands on GPU and simulator
side by side; ``python -m gpu_ref sweep`` and ``python -m gpu_ref correlate`` on any machine; and ``python -m gpu_ref
contraction FILE.ptx`` where there are ptxas and nvdisasm.

Exit codes: 0 well, 1 a mismatch or a launch that could not be recorded, 2 a user's error (a GPU that is not there included).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from isa.errors import TcsimError

from . import fuzz
from .bench.command import add_arguments, run
from .correlation import command as correlation
from .recording import compare, replay
from .scalar import sweep
from .suites import record_suite, work


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m gpu_ref", description="Run recorded kernel launches on a real GPU."
    )
    commands = parser.add_subparsers(dest="command", required=True)

    command = commands.add_parser("record", help="launch the kernels of a suite and save bundles with their outputs")
    command.add_argument("suite", help="a suite file, such as traces/suite.toml")
    command.add_argument("--out", required=True, help="folder that gets a folder per bundle, and the PTX in kernels/")
    command.add_argument("--only", nargs="+", default=[], metavar="NAME", help="launches to record (default: all)")
    command.add_argument("--no-metrics", action="store_true", help="do not run Nsight Compute")
    command.add_argument("--archive", help="also write all bundles into this .tar.gz")

    command = commands.add_parser("verify", help="launch recorded bundles again and compare every byte")
    command.add_argument("bundles", nargs="+")

    command = commands.add_parser("replay", help="launch bundles once each, for a profiler")
    command.add_argument("bundles", nargs="+")

    command = commands.add_parser("contraction", help="compare tcsim's contraction with ptxas's machine code (no GPU needed)")
    command.add_argument("files", nargs="+", help="PTX files")
    command.add_argument("--kernel", help="one kernel only")
    command.add_argument("--arch", help="such as sm_90; default: the target of each file")

    command = commands.add_parser("bench", help="measure the machine: latencies, intervals, caches, bandwidth, launches")
    add_arguments(command)

    command = commands.add_parser("correlate", help="compare predicted metrics with recorded ones (no GPU needed)")
    correlation.add_arguments(command)

    command = commands.add_parser("sweep", help="check every operand of an instruction against recorded hashes (no GPU needed)")
    sweep.add_arguments(command)

    command = commands.add_parser("fuzz", help="compare instructions with this machine's GPU on new operands")
    fuzz.add_arguments(command)

    command = commands.add_parser("work", help="record launches one by one, as the workers of `record` do")
    command.add_argument("suite")
    command.add_argument("--out", required=True)
    command.add_argument("--only", nargs="+", default=[])
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    options = _parser().parse_args(arguments)
    try:
        if options.command == "record":
            return _record(options)
        if options.command == "verify":
            return _verify(options.bundles)
        if options.command == "contraction":
            return _contraction(options)
        if options.command == "bench":
            return run(options)
        if options.command == "correlate":
            return correlation.run(options)
        if options.command == "sweep":
            return sweep.run(options)
        if options.command == "fuzz":
            return fuzz.run(options)
        if options.command == "replay":
            replay(options.bundles)
        else:
            work(options.suite, options.out, options.only)
    except TcsimError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _record(options: argparse.Namespace) -> int:
    failures = record_suite(options.suite, options.out, options.only, not options.no_metrics, options.archive)
    for failure in failures:
        print(f"FAILED {failure}")
    return 1 if failures else 0


def _contraction(options: argparse.Namespace) -> int:
    from .contraction_oracle import check, report

    equal = True
    for file in options.files:
        try:
            text = Path(file).read_text()
        except OSError as error:
            raise TcsimError(f"cannot read {file}: {error.strerror}") from None
        agreement = check(text, options.kernel, options.arch)
        for line in report(agreement):
            print(f"{file}: {line}", flush=True)
        equal = equal and not agreement.disagreements
    return 0 if equal else 1


def _verify(bundles: Sequence[str]) -> int:
    equal = True
    for folder in bundles:
        for comparison in compare(folder):
            print(f"{folder}: {comparison}", flush=True)
            equal = equal and comparison.equal
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
