"""Archives of launches measured on this machine's GPU: everything once under Nsight Compute, what wavers several times.

A batch of launches goes to one ncu process. One that fails (a kernel that traps takes its process with it) is halved until
the launch at fault is alone; the others keep their numbers.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import datetime
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpu_ref.correlation.archives import Launch, read, write
from gpu_ref.correlation.replay import image
from gpu_ref.device import describe_gpu, require_cupy
from gpu_ref.metrics import REPEATED
from gpu_ref.profiling import OPTIONS, LaunchProfile, ProfilerError, find_ncu, known_metrics, ncu_version, profile
from gpu_ref.toolchain import AssemblerError, assemble, find_ptxas, ptxas_version
from isa.errors import TcsimError

__all__ = ["Measured", "measure"]

BATCH = 32
"""Launches to an ncu process: starting one costs seconds."""

BATCH_SECONDS = 120.0
"""How long an ncu process may take."""

Profile = Callable[[Sequence[str], int, Sequence[str]], list[LaunchProfile]]
"""Names of launches, how often each is launched, metrics: the profiles, in that order."""


@dataclass
class Measured:
    """What came of it: names of launches, and of the failed ones why."""

    done: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)


def measure(folder: Path, names: Sequence[str] = (), repeats: int = 4, full: bool = True, seconds: float = 0.0) -> Measured:
    """Measure the launches ``names`` (all, if none is named) of an archive's folder, and write them to its ``launches.json``.

    ``full`` gives every launch ``metrics``; after that :data:`.REPEATED` are counted ``repeats`` times more. No batch is begun
    after ``seconds`` (0: no limit). Raises :class:`TcsimError` without a GPU, ncu, or a launch of such a name.
    """
    cupy = require_cupy()
    ncu = find_ncu()
    if ncu is None:
        raise ProfilerError("ncu (Nsight Compute) is not on the PATH")
    provenance, launches = read(folder)
    unknown = [name for name in names if name not in launches]
    if unknown:
        raise TcsimError(f"no launch {', '.join(unknown)} in this archive; it has {', '.join(launches)}")
    _assemble_all(folder, {name: launches[name] for name in names or launches}, cupy.cuda.Device().compute_capability)
    found = _run(folder, list(names or launches), repeats, full, seconds, _profiler(ncu, folder))
    ptxas = find_ptxas()
    now = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        **describe_gpu(cupy),
        "assembler": f"ptxas {ptxas_version(ptxas)}" if ptxas else "driver",
        "ncu": ncu_version(ncu),
        "ncu_options": " ".join(OPTIONS),
    }
    kept = read(folder)[1]
    every = full and set(names or launches) == set(launches)
    write(folder, now if every else {**provenance, "more": now}, kept)
    return found


def _run(folder: Path, names: Sequence[str], repeats: int, full: bool, seconds: float, profiler: Profile) -> Measured:
    """:func:`measure` with a profiler of one's own. ``launches.json`` is written after every batch."""
    provenance, launches = read(folder)
    if full:
        for name in names:  # what is not counted now is not to pass for it
            launches[name].pop("metrics", None)
            launches[name].pop("repeats", None)
    found = Measured()
    begun = time.monotonic()
    for start in range(0, len(names), BATCH):
        batch = names[start : start + BATCH]
        if seconds and time.monotonic() - begun > seconds:
            found.failed.update(dict.fromkeys(batch, f"not begun within {seconds:.0f} s"))
            continue
        if full:
            for name, result in _each(profiler, batch, 1, known_metrics(find_ncu() or "ncu")):
                if isinstance(result, str):
                    found.failed[name] = result
                else:
                    launches[name]["metrics"] = _values(result[0])
        left = [name for name in batch if name not in found.failed]
        if repeats:
            for name, result in _each(profiler, left, repeats, REPEATED):
                if isinstance(result, str):
                    found.failed[name] = result
                else:
                    _add(launches[name], [_values(each) for each in result])
        found.done += [name for name in left if name not in found.failed]
        write(folder, provenance, launches)
        print(f"{time.monotonic() - begun:6.1f} s  {len(found.done)} launches, {len(found.failed)} failed", flush=True)
    return found


def _values(one: LaunchProfile) -> dict[str, float]:
    return {name: metric.value for name, metric in sorted(one.metrics.items())}


def _add(launch: Launch, runs: Sequence[dict[str, float]]) -> None:
    """Append what was counted again, behind what ``metrics`` says."""
    repeats: dict[str, list[float]] = launch.setdefault("repeats", {})
    for metric in REPEATED:
        values = [each[metric] for each in runs if metric in each]
        if values:
            first = [launch["metrics"][metric]] if metric in launch.get("metrics", {}) else []
            repeats[metric] = repeats.get(metric, first) + values


def _each(
    profiler: Profile, names: Sequence[str], repeats: int, metrics: Sequence[str]
) -> Iterator[tuple[str, list[LaunchProfile] | str]]:
    """(name, its profiles, or why there are none), halving what fails."""
    if not names:
        return
    try:
        profiles = profiler(names, repeats, metrics)
    except ProfilerError as error:
        if len(names) == 1:
            yield names[0], " ".join(str(error).split())[-1000:]
            return
        middle = len(names) // 2
        yield from _each(profiler, names[:middle], repeats, metrics)
        yield from _each(profiler, names[middle:], repeats, metrics)
        return
    for number, name in enumerate(names):
        yield name, profiles[number * repeats : (number + 1) * repeats]


def _profiler(ncu: str, folder: Path) -> Profile:
    def profiler(names: Sequence[str], repeats: int, metrics: Sequence[str]) -> list[LaunchProfile]:
        module = ["gpu_ref.correlation.replay", str(folder), str(repeats), *names]
        return profile(ncu, module, repeats * len(names), metrics, BATCH_SECONDS)

    return profiler


def _assemble_all(folder: Path, launches: dict[str, Launch], capability: Any) -> None:
    """Machine code of every PTX file by ptxas, several at a time. What ptxas does not make for this GPU, or without one, the
    driver is asked for at each launch, and says what is wrong."""
    if not find_ptxas():
        return
    wanted = {image(folder, launch): launch for launch in launches.values()}
    (folder / "cubin").mkdir(exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        made = [
            pool.submit(assemble, folder / "ptx" / launch["ptx"], path, f"sm_{capability}", launch.get("fmad", True))
            for path, launch in wanted.items()
        ]
        for each in made:
            with contextlib.suppress(AssemblerError):
                each.result()
