"""``python -m gpu_ref bench``: run benchmarks, and go on where one fails.

Results are written after every family, so that what was measured is kept whatever happens later.
"""

from __future__ import annotations

import argparse
import datetime
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from gpu_ref.device import attributes, describe_gpu, require_cupy
from gpu_ref.toolchain import find_ptxas, ptxas_version
from isa.errors import TcsimError

from .compare import compare, read_measured, table
from .families import FAMILIES, select
from .gpu import BenchError, Benchmark, Built, CudaGpu, build, temporary_folder
from .machine_code import port_cycles, timed_loop
from .results import Outcome, write_raw, write_toml
from .workers import isolated, measure, work

__all__ = ["add_arguments", "main", "run", "run_benchmarks"]

Runner = Callable[[Sequence[Benchmark], dict[tuple[str, str], Path], Path], Iterator[tuple[Benchmark, Outcome | str]]]
"""What :func:`.workers.isolated` is: runs benchmarks from their images, with a folder for its files."""

CLOCKS = "clocks.sm,clocks.mem,clocks.max.sm,clocks.max.mem,power.draw,temperature.gpu"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="FAMILY", help=f"families, or FAMILY.BENCHMARK ({', '.join(FAMILIES)})"
    )
    parser.add_argument("--out", help="the TOML file to write; raw measurements go beside it, as .json and .npz")
    parser.add_argument("--seconds", type=float, default=0.0, help="start no benchmark after this many seconds (0: no limit)")
    parser.add_argument(
        "--compare", metavar="ARCH", help="a board's file, such as tcsim/arch/h200.toml: say where it disagrees"
    )
    parser.add_argument("--measured", help="with --compare: a file written earlier, instead of measuring now")
    parser.add_argument(
        "--assemble", action="store_true", help="only assemble the kernels and check their machine code (no GPU)"
    )
    parser.add_argument("--arch", default="sm_90", help="with --assemble: the target")
    parser.add_argument("--simulate", metavar="DEVICE", help="measure tcsim's model of this device instead of a GPU (slow)")
    parser.add_argument(
        "--device-file",
        type=Path,
        metavar="FILE.toml",
        help="write the GPU as `tcsim profile --device FILE.toml` takes it: what was measured, the rest copied and marked so",
    )
    parser.add_argument("--worker", help=argparse.SUPPRESS)


def run(options: argparse.Namespace) -> int:
    """The exit code: 1 if a benchmark failed."""
    if options.worker:
        return work(CudaGpu(require_cupy()), Path(options.worker))
    if options.assemble:
        return _assemble(select(options.only), options.arch)
    if options.measured:
        if not options.compare and not options.device_file:
            raise BenchError("--measured needs --compare (which file is it to be compared with?) or --device-file")
        _use(options, Path(options.measured))
        return 0
    if not options.out:
        raise BenchError("say where the numbers go: --out FILE.toml")
    benchmarks = select(options.only)
    if options.simulate:
        provenance: dict[str, object] = {"gpu": f"tcsim's model of {options.simulate}", "clocks_before": "as assumed"}
        runner: Runner = _simulation(options.simulate)
    else:
        provenance, runner = _provenance(require_cupy()), isolated
    failures = run_benchmarks(benchmarks, Path(options.out), provenance, options.seconds, runner)
    _use(options, Path(options.out))
    return 1 if failures else 0


def _use(options: argparse.Namespace, measured: Path) -> None:
    """What the options want made of a file of measured numbers."""
    if options.compare:
        print(table(compare(read_measured(measured), Path(options.compare))))
    if options.device_file:
        from .device_file import write_device_file  # needs the simulator, which measuring does not

        device = write_device_file(measured, options.device_file)
        print(f"{options.device_file}: {device.full_name} for `tcsim profile --device {options.device_file}`")


def _simulation(device: str) -> Runner:
    """Runs benchmarks on tcsim, one after the other in this process."""
    from .simulated import SimulatedGpu

    def run_all(
        benchmarks: Sequence[Benchmark], images: dict[tuple[str, str], Path], folder: Path
    ) -> Iterator[tuple[Benchmark, Outcome | str]]:
        gpu = SimulatedGpu(device)
        for benchmark in benchmarks:
            yield benchmark, measure(gpu, benchmark, images[benchmark.key])

    return run_all


def _clocks() -> str:
    """What nvidia-smi says of clocks (MHz), power (W) and temperature, or "unknown"."""
    try:
        command = ["nvidia-smi", f"--query-gpu={CLOCKS}", "--format=csv,noheader,nounits"]
        answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    lines = answer.stdout.splitlines()
    return f"{CLOCKS}: {lines[0]}" if answer.returncode == 0 and lines else "unknown"


def _provenance(cupy: Any) -> dict[str, object]:
    ptxas = find_ptxas()
    return {
        **describe_gpu(cupy),
        **{f"attribute_{name}": value for name, value in attributes(cupy).items()},
        "assembler": f"ptxas {ptxas_version(ptxas)}" if ptxas else "driver",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "clocks_before": _clocks(),
    }


def run_benchmarks(
    benchmarks: Sequence[Benchmark],
    out: Path,
    provenance: dict[str, object],
    seconds: float = 0.0,
    runner: Runner = isolated,
) -> list[str]:
    """Build all, run one after the other, write the results to ``out`` after each family; returns what failed."""
    begin = time.perf_counter()
    capability = str(provenance.get("compute_capability", "9.0"))
    outcomes: dict[tuple[str, str], Outcome] = {}
    kernels: dict[tuple[str, str], str] = {}
    notes: dict[tuple[str, str], list[str]] = {}
    failures: list[str] = []
    skipped: list[str] = []

    def write() -> None:
        provenance["clocks_after"] = _clocks()
        provenance["failed"] = [failure[:200] for failure in failures]
        provenance["not_on_this_gpu"] = skipped
        write_toml(out, provenance, outcomes, kernels, notes)
        write_raw(out, provenance, outcomes)

    def failed(benchmark: Benchmark, problem: str) -> None:
        name = ".".join(benchmark.key)
        failures.append(f"{name}: {problem}")
        print(f"FAILED {name}: {problem.splitlines()[0][:300]}", flush=True)

    with temporary_folder() as folder:
        built = build(benchmarks, Path(folder), f"sm_{capability.replace('.', '')}")
        print(f"{time.perf_counter() - begin:6.1f} s  {len(built)} benchmarks assembled", flush=True)
        for benchmark in benchmarks:
            if built[benchmark.key].skipped:
                skipped.append(".".join(benchmark.key))
            elif built[benchmark.key].error:
                failed(benchmark, built[benchmark.key].error)
        ready = [b for b in benchmarks if not built[b.key].error]
        family = ready[0].family if ready else ""
        for benchmark, result in runner(ready, {b.key: built[b.key].image for b in ready}, Path(folder)):
            if benchmark.family != family:
                write()
                print(f"{time.perf_counter() - begin:6.1f} s  {family} done", flush=True)
                family = benchmark.family
            made = built[benchmark.key]
            if isinstance(result, str):
                failed(benchmark, result)
            else:
                result.raw["loop"] = _loop(made)
                outcomes[benchmark.key], kernels[benchmark.key], notes[benchmark.key] = result, made.digest, made.doubts
                for doubt in made.doubts:
                    print(f"DOUBT  {'.'.join(benchmark.key)}: {doubt[:300]}", flush=True)
            if seconds and time.perf_counter() - begin > seconds:
                failures.append(f"all after {'.'.join(benchmark.key)}: not started, {seconds:.0f} s are over")
                print(f"FAILED {failures[-1]}", flush=True)
                break
        write()
    print(
        f"{time.perf_counter() - begin:6.1f} s  {len(outcomes)} of {len(benchmarks)} benchmarks, {len(failures)} failures",
        flush=True,
    )
    return failures


def _loop(made: Built) -> dict[str, object]:
    """The longest timed loop of a benchmark's kernels: how many of which opcodes it holds (the eight most frequent), and
    the cycles per instruction for which it needs the register file's ports."""
    loops = {entry: timed_loop(listing) for entry, listing in made.listings.items()}
    longest = max(loops, key=lambda entry: len(loops[entry]), default="")
    counts: dict[str, int] = {}
    for instruction in loops.get(longest, ()):
        counts[instruction.opcode] = counts.get(instruction.opcode, 0) + 1
    if not counts:
        return {}
    most = dict(sorted(counts.items(), key=lambda kind: -kind[1])[:8])
    return {"kernel": longest, "opcodes": most, "port_cycles": port_cycles(loops[longest])}


def _assemble(benchmarks: Sequence[Benchmark], architecture: str) -> int:
    bad = 0
    with temporary_folder() as folder:
        for (family, name), made in build(benchmarks, Path(folder), architecture).items():
            if made.skipped:
                continue
            for problem in [made.error] if made.error else made.doubts:
                print(f"{family}.{name}: {problem}")
                bad += 1
    print(f"{len(benchmarks)} benchmarks, {bad} problems")
    return 1 if bad else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run without the rest of :mod:`gpu_ref`; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m gpu_ref.bench", description="Measure a GPU.")
    add_arguments(parser)
    try:
        return run(parser.parse_args(arguments))
    except TcsimError as error:
        print(error, file=sys.stderr)
        return 2
