"""Archives of launches: ``launches.json`` (provenance, and by name what to launch and what was recorded), ``ptx``, ``source``.

A launch holds ``ptx`` (a file in ``ptx/``), ``entry``, ``grid``, ``block``, ``arguments`` (pairs of a name and a specification,
:mod:`tcsim.bundle.arguments`), ``cluster`` if the launch says it, ``shared_mem`` and ``fmad`` unless they are 0 and true,
``metrics`` (one run under Nsight Compute) and ``repeats`` (by metric, the values of all runs, that one first).
"""

from __future__ import annotations

import contextlib
import json
import statistics
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcsim.bundle import Bundle, load_suite, parse_argument
from tcsim.bundle.tensor_maps import MapOf

__all__ = ["Launch", "opened", "pack", "read", "recorded", "suite_launches", "values", "write"]

Launch = dict[str, Any]


@contextlib.contextmanager
def opened(archive: Path) -> Iterator[Path]:
    """The archive's contents in a folder that lasts as long as the context."""
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
        yield Path(folder)


def read(folder: Path) -> tuple[dict[str, Any], dict[str, Launch]]:
    """Provenance and launches of an archive's folder."""
    contents = json.loads((folder / "launches.json").read_text(encoding="utf-8"))
    return contents.get("provenance", {}), contents["launches"]


def write(folder: Path, provenance: dict[str, Any], launches: dict[str, Launch]) -> None:
    """Write ``launches.json``, a line to each launch."""
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(launch)}" for name, launch in launches.items())
    text = f'{{"provenance": {json.dumps(provenance)},\n"launches": {{\n{lines}\n}}}}\n'
    (folder / "launches.json").write_text(text, encoding="utf-8")


def pack(folder: Path, archive: Path) -> None:
    """Pack a folder; the same contents give the same bytes."""

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.mtime = member.uid = member.gid = 0
        member.uname = member.gname = ""
        member.mode = 0o644
        return member

    with tarfile.open(archive, "w:xz") as packed:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            packed.add(path, arcname=str(path.relative_to(folder)), filter=plain)


def suite_launches(suite: Path) -> dict[str, Launch]:
    """The launches of a suite file (:mod:`tcsim.bundle.suite`), nothing recorded yet."""
    return {
        bundle.name: {
            "ptx": bundle.ptx,
            "entry": bundle.entry,
            "grid": list(bundle.grid),
            "block": list(bundle.block),
            "arguments": [[argument.name, argument.spec] for argument in bundle.arguments],
            **({"shared_mem": bundle.shared_mem} if bundle.shared_mem else {}),
            **({"cluster": list(bundle.cluster)} if bundle.cluster else {}),
            **({} if bundle.fmad else {"fmad": False}),
        }
        for bundle in load_suite(suite)
    }


def values(launch: Launch) -> list[NDArray[Any] | np.generic | MapOf]:
    """The arguments of a launch in order, as :meth:`.Bundle.values` gives them. Raises :class:`.ArgumentError`."""
    specifications = enumerate(launch["arguments"], 1)
    arguments = tuple(parse_argument(text, position, name=name) for position, (name, text) in specifications)
    grid, block = tuple(launch["grid"]), tuple(launch["block"])
    return Bundle(launch["entry"], launch["ptx"], launch["entry"], grid, block, arguments).values()


def recorded(launch: Launch) -> dict[str, float]:
    """The metrics that predictions are compared with: medians of those that were counted several times."""
    medians = {name: statistics.median(values) for name, values in launch.get("repeats", {}).items()}
    return {**launch.get("metrics", {}), **medians}
