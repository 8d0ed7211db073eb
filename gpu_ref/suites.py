"""Recording a whole suite in little time, whatever goes wrong on the way.

Outputs first: a worker process records one launch after the other and reports each on a line. A launch that fails takes the
CUDA context with it, and one that hangs the process, so the rest is given to a fresh worker. Then metrics, in batches of
one ncu process each. The archive is written after both, so that a run that is cut short still leaves the outputs.
"""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from isa.errors import TcsimError
from tcsim.bundle import Bundle, BundleError, load_suite

from .device import require_cupy
from .launching import LaunchError
from .profiling import ProfilerError, find_ncu
from .recording import add_metrics, record

__all__ = ["choose", "record_suite", "work"]

BATCH = 16
"""Bundles per ncu process: its start costs seconds, and a process that fails loses its whole batch."""

MAX_USELESS = 3
"""Workers in a row that may record nothing before the rest is given up."""

HANG_SECONDS = 90.0
"""How long one launch may take, the start of the worker and the assembler included."""


def choose(suite: str | Path, names: Sequence[str]) -> list[Bundle]:
    """The launches of ``suite`` called ``names`` (all, if none is named). Raises BundleError for an unknown name."""
    bundles = load_suite(suite)
    known = {bundle.name for bundle in bundles}
    for name in names:
        if name not in known:
            raise BundleError(f"{suite} has no launch {name!r}; it has {', '.join(sorted(known))}")
    return [bundle for bundle in bundles if not names or bundle.name in names]


def record_suite(
    suite: str | Path,
    out_dir: str | Path,
    names: Sequence[str] = (),
    metrics: bool = True,
    archive: str | Path | None = None,
) -> list[str]:
    """Record the launches of ``suite`` into ``out_dir`` and return what failed, a line each.

    ``archive`` names a ``.tar.gz`` that gets all the bundles and their PTX. Prints a line per launch.
    """
    require_cupy()
    out_dir = Path(out_dir)
    chosen = [bundle.name for bundle in choose(suite, names)]
    failures: list[str] = []
    done: list[str] = []
    for name, problem in _record_in_workers(suite, out_dir, chosen):
        print(f"[{len(done) + len(failures) + 1:3}/{len(chosen)}] {name}: {problem or 'recorded'}", flush=True)
        if problem:
            failures.append(f"{name}: {problem}")
        else:
            done.append(name)
    _write_archive(archive, out_dir, done)
    if metrics and find_ncu() is None:
        failures.append("metrics: ncu (Nsight Compute) is not on the PATH")
    elif metrics:
        failures += _profile_in_batches(out_dir, done)
        _write_archive(archive, out_dir, done)
    return failures


def work(suite: str | Path, out_dir: str | Path, names: Sequence[str]) -> None:
    """A worker: record each launch and answer ``done NAME``, ``failed NAME: why``, or ``broken NAME: why``, a line each.

    A launch that fails on the GPU breaks the CUDA context, so ``broken`` is the last answer.
    """
    for bundle in choose(suite, names):
        try:
            record(bundle, out_dir, metrics=False)
            print(f"done {bundle.name}", flush=True)
        except LaunchError as error:
            print(f"broken {bundle.name}: {_one_line(error)}", flush=True)
            return
        except TcsimError as error:
            print(f"failed {bundle.name}: {_one_line(error)}", flush=True)


def _one_line(error: TcsimError) -> str:
    return " ".join(str(error).split())


def _record_in_workers(suite: str | Path, out_dir: Path, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yields (name, problem or "") for every name, in order."""
    left = list(names)
    useless = 0
    while left and useless < MAX_USELESS:
        useless += 1
        for verb, problem in _run_worker(suite, out_dir, tuple(left)):
            if verb == "done":
                useless = 0
            yield left.pop(0), problem
    yield from ((name, f"not tried: {MAX_USELESS} workers in a row recorded nothing") for name in left)


def _run_worker(suite: str | Path, out_dir: Path, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """One worker's answers (verb, problem), one for each of the first names. If it hangs or dies, the last answer says so."""
    command = [sys.executable, "-m", "gpu_ref", "work", str(suite), "--out", str(out_dir), "--only", *names]
    worker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=_environment())
    lines: queue.Queue[str | None] = queue.Queue()
    threading.Thread(target=_forward, args=(worker, lines), daemon=True).start()
    try:
        for _ in names:
            try:
                line = lines.get(timeout=HANG_SECONDS)
            except queue.Empty:
                yield "hangs", f"no answer within {HANG_SECONDS:.0f} s: does the kernel hang?"
                return
            if line is None:
                yield "died", f"the worker died with exit code {worker.wait()}"
                return
            verb, _, rest = line.partition(" ")
            yield verb, rest.partition(": ")[2]
            if verb == "broken":
                return
    finally:
        worker.kill()
        worker.wait()


def _forward(worker: subprocess.Popen[str], lines: queue.Queue[str | None]) -> None:
    assert worker.stdout is not None
    for line in worker.stdout:
        if line.startswith(("done ", "failed ", "broken ")):
            lines.put(line.rstrip("\n"))
    lines.put(None)


def _profile_in_batches(out_dir: Path, names: Sequence[str]) -> list[str]:
    failures: list[str] = []
    for start in range(0, len(names), BATCH):
        batch = names[start : start + BATCH]
        begun = time.monotonic()
        try:
            add_metrics([out_dir / name for name in batch])
            answer = "profiled"
        except ProfilerError as error:
            failures.append(f"metrics of {', '.join(batch)}: {error}")
            answer = "ncu failed"
        print(f"metrics {start + 1}-{start + len(batch)}: {answer} in {time.monotonic() - begun:.0f} s", flush=True)
    return failures


def _write_archive(archive: str | Path | None, out_dir: Path, names: Sequence[str]) -> None:
    if archive is None:
        return
    with tarfile.open(archive, "w:gz") as tar:
        for name in names:
            tar.add(out_dir / name, arcname=name)
        if (out_dir / "kernels").is_dir():
            for ptx in sorted((out_dir / "kernels").glob("*.ptx")):
                tar.add(ptx, arcname=f"kernels/{ptx.name}")


def _environment() -> dict[str, str]:
    """This process's environment, with the packages it runs from importable by its children."""
    source = str(Path(__file__).resolve().parent.parent)
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH", "")]))}
