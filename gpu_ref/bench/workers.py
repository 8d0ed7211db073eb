"""Running benchmarks in a process of its own, which is replaced when a kernel hangs it or breaks its CUDA context."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from .families import FAMILIES
from .gpu import Benchmark, Gpu
from .results import Outcome

__all__ = ["PATIENCE", "isolated", "measure", "work"]

PATIENCE = 60.0
"""Seconds that one benchmark may take."""

_SOURCE = Path(__file__).resolve().parent.parent.parent


def measure(gpu: Gpu, benchmark: Benchmark, image: Path) -> Outcome | str:
    """Run one benchmark: what it found, or what went wrong."""
    try:
        gpu.load(image)
        return benchmark.measure(gpu)
    except Exception as error:  # whatever it is, it must not take the other benchmarks with it
        return f"{type(error).__name__}: {error}"


def _result(folder: Path, benchmark: Benchmark) -> Path:
    return folder / ("-".join(benchmark.key) + ".result")


def work(gpu: Gpu, folder: Path) -> int:
    """The worker: run what ``folder/todo`` lists (a family, a name and an image a line) and leave results in ``folder``.

    Exit code 3 if the GPU answers no more.
    """
    known: dict[str, dict[str, Benchmark]] = {}
    for line in (folder / "todo").read_text().splitlines():
        family, name, image = line.split("\t")
        if family not in known:
            known[family] = {b.name: b for b in FAMILIES[family]()}
        benchmark = known[family][name]
        result = measure(gpu, benchmark, Path(image))
        unfinished = folder / "unfinished"
        unfinished.write_bytes(pickle.dumps(result))
        unfinished.replace(_result(folder, benchmark))
        if isinstance(result, str):
            try:
                gpu.empty(4096)
                gpu.upload(gpu.empty(4096).get())
            except Exception:  # a broken context refuses everything
                return 3
    return 0


def isolated(
    benchmarks: Sequence[Benchmark], images: dict[tuple[str, str], Path], folder: Path, command: Sequence[str] = ()
) -> Iterator[tuple[Benchmark, Outcome | str]]:
    """Run ``benchmarks`` in workers and give each with its outcome, or what went wrong, in order.

    ``command``: what starts a worker (its folder follows), by default this package's own.
    """
    todo = list(benchmarks)
    start = [*(command or (sys.executable, "-m", "gpu_ref.bench", "--worker")), str(folder)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(_SOURCE), os.environ.get("PYTHONPATH", "")]))}
    while todo:
        (folder / "todo").write_text("".join(f"{b.family}\t{b.name}\t{images[b.key]}\n" for b in todo))
        with subprocess.Popen(start, env=environment) as worker:
            while todo:
                problem = _wait(worker, _result(folder, todo[0]))
                benchmark = todo.pop(0)
                if problem:
                    worker.kill()
                    yield benchmark, problem
                    break
                yield benchmark, pickle.loads(_result(folder, benchmark).read_bytes())


def _wait(worker: subprocess.Popen[bytes], result: Path) -> str:
    """Wait for a file that the worker writes; what is wrong if it does not come."""
    begin = time.perf_counter()
    while not result.exists():
        code = worker.poll()
        if code is not None and not result.exists():
            return f"the process that ran it ended with exit code {code}"
        if time.perf_counter() - begin > PATIENCE:
            return f"it took longer than {PATIENCE:.0f} s"
        time.sleep(0.01)
    return ""
