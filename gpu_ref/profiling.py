"""Nsight Compute metrics of recorded launches: one ncu process profiles many bundles in sequence.

ncu runs ``python -m gpu_ref replay BUNDLE...``, which launches each bundle once between ``cudaProfilerStart`` and ``Stop``;
results come back in launch order as CSV. Clocks are left alone (``--clock-control none``) and caches are flushed before every
pass (ncu's default), so a launch starts cold.
"""

from __future__ import annotations

import csv
import functools
import io
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from isa.errors import TcsimError
from tcsim.bundle import Metric

from .metrics import METRICS, is_ncu_only

__all__ = [
    "LaunchProfile",
    "ProfilerError",
    "find_ncu",
    "known_metrics",
    "ncu_version",
    "parse_raw_csv",
    "profile",
    "profile_bundles",
]

OPTIONS = ("--clock-control", "none", "--cache-control", "all", "--profile-from-start", "off")
OUTPUT = ("--csv", "--page", "raw", "--print-units", "base")


class ProfilerError(TcsimError):
    """ncu failed; the message ends with what it said."""


@dataclass(frozen=True)
class LaunchProfile:
    """One profiled launch: the kernel's name as ncu prints it, and its metrics."""

    kernel: str
    metrics: dict[str, Metric]


def find_ncu() -> str | None:
    """The path of ``ncu``, or None if it is not on the PATH."""
    return shutil.which("ncu")


def ncu_version(ncu: str) -> str:
    """Such as ``2025.3.1.0``, or "unknown"."""
    answer = subprocess.run([ncu, "--version"], capture_output=True, text=True, check=False).stdout
    match = re.search(r"Version (\d+(?:\.\d+)+)", answer)
    return match.group(1) if match else "unknown"


@functools.cache
def known_metrics(ncu: str) -> tuple[str, ...]:
    """Those of :data:`METRICS` that this ncu can collect on this GPU (all of them, if it will not say)."""
    answer = subprocess.run([ncu, "--query-metrics"], capture_output=True, text=True, check=False, timeout=120)
    return tuple(select_known(METRICS, answer.stdout))


def select_known(metrics: Sequence[str], listing: str) -> list[str]:
    """The ``metrics`` whose base name (before the first dot) occurs in ncu's ``listing``, and those that are ncu's own."""
    listed = set(re.findall(r"^\s*([a-z0-9]+__[a-z0-9_]+)\b", listing, re.MULTILINE))
    if not listed:
        return list(metrics)
    return [metric for metric in metrics if is_ncu_only(metric) or metric.partition(".")[0] in listed]


def profile_bundles(ncu: str, folders: Sequence[Path], metrics: Sequence[str], timeout: float) -> list[LaunchProfile]:
    """Profile the bundles in ``folders``, in order, within ``timeout`` seconds. As :func:`profile`."""
    return profile(ncu, ["gpu_ref", "replay", *map(str, folders)], len(folders), metrics, timeout)


def profile(ncu: str, module: Sequence[str], launches: int, metrics: Sequence[str], timeout: float) -> list[LaunchProfile]:
    """Profile what ``python -m MODULE ARGUMENT...`` launches while it has the CUDA profiler on, within ``timeout`` seconds.

    Metrics that ncu turns down after all are left out. Raises :class:`ProfilerError` if ncu fails or reports another number
    of launches than ``launches``.
    """
    wanted = list(metrics)
    for _ in range(3):
        answer = _run_ncu(ncu, module, launches, wanted, timeout)
        refused = refused_metrics(answer.stdout + answer.stderr, wanted)
        if not refused:
            break
        wanted = [metric for metric in wanted if metric not in refused]
    profiles = parse_raw_csv(answer.stdout)
    if len(profiles) != launches:
        said = "\n".join((answer.stdout + answer.stderr).splitlines()[-20:])
        raise ProfilerError(f"ncu reported {len(profiles)} launches, but {launches} were made; it said:\n{said}")
    # ncu adds other roll-ups of the same counters and hundreds of device attributes.
    return [LaunchProfile(p.kernel, {name: p.metrics[name] for name in wanted if name in p.metrics}) for p in profiles]


def _run_ncu(
    ncu: str, module: Sequence[str], launches: int, metrics: Sequence[str], timeout: float
) -> subprocess.CompletedProcess[str]:
    command = [ncu, *OPTIONS, *OUTPUT, "--metrics", ",".join(metrics), sys.executable, "-m", *module]
    source = str(Path(__file__).resolve().parent.parent)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH", "")])),
    }
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout, env=environment)
    except subprocess.TimeoutExpired:
        raise ProfilerError(f"ncu took longer than {timeout:.0f} s for {launches} launches") from None


def refused_metrics(output: str, metrics: Sequence[str]) -> set[str]:
    """The ``metrics`` that ncu's error and warning lines name as unknown."""
    complaints = [
        line for line in output.splitlines() if line.startswith("==") and re.search(r"find|unknown|invalid", line)
    ]
    words = {word for line in complaints for word in re.findall(r"[a-z0-9]+__[\w.]+", line)}
    return {metric for metric in metrics if metric in words or metric.partition(".")[0] in words}


def parse_raw_csv(output: str) -> list[LaunchProfile]:
    """The launches in ncu's ``--csv --page raw`` output: a header line, a line of units, then a line per launch.

    Lines before the header (``==PROF==`` and the program's own) are skipped, and so are cells that are not numbers.
    """
    lines = output.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        return []
    rows = list(csv.reader(io.StringIO("\n".join(line for line in lines[start:] if line.startswith('"')))))
    header, units = rows[0], rows[1]
    name_column = header.index("Kernel Name")
    profiles = []
    for row in rows[2:]:
        if len(row) != len(header):
            continue
        metrics = {}
        for name, unit, cell in zip(header, units, row, strict=True):
            number = _number(cell)
            if "__" in name and number is not None:
                metrics[name] = Metric(number, unit)
        profiles.append(LaunchProfile(row[name_column].partition("(")[0], metrics))
    return profiles


def _number(cell: str) -> int | float | None:
    """A cell's number; ncu writes thousands separators."""
    text = cell.replace(",", "").strip()
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return None
