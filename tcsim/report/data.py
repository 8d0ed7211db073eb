"""A profile as JSON and as CSV in the layout of ``ncu --csv --page details``."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import tcsim
from tcsim.profile import LaunchProfile
from tcsim.report.sections import SECTIONS

__all__ = ["JSON_SCHEMA", "to_csv", "to_json"]

JSON_SCHEMA = 1
"""Version of the JSON layout; raised when a field changes meaning or goes."""

_HEAD = (
    "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size", "Device",
    "CC", "Section Name", "Metric Name", "Metric Unit", "Metric Value",
)  # fmt: skip


def to_json(profiles: Sequence[LaunchProfile]) -> str:
    """Everything a profile holds, one object per launch."""
    launches: list[dict[str, Any]] = []
    for profile in profiles:
        launch = asdict(profile)
        launch["metrics"], launch["stalls"] = dict(profile.metrics), dict(profile.stalls)
        launches.append(launch)
    return json.dumps({"schema": JSON_SCHEMA, "tcsim": tcsim.__version__, "launches": launches}, indent=2) + "\n"


def to_csv(profiles: Sequence[LaunchProfile]) -> str:
    """The sections' rows, readable by tools that read ``ncu --csv``: every field quoted, numbers without separators."""
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow(_HEAD)
    for number, profile in enumerate(profiles):
        cc = f"{profile.sm // 10}.{profile.sm % 10}"
        start = (number, 0, "tcsim", "localhost", profile.name, 1, 7, _dim(profile.block), _dim(profile.grid), 0, cc)
        for section in SECTIONS:
            for row in section.rows:
                if row.metric in profile.metrics:
                    value = _plain(row.value(profile.metrics))
                    writer.writerow((*start, section.title, row.label, row.unit, value))
    return out.getvalue()


def _dim(extents: tuple[int, int, int]) -> str:
    return f"({extents[0]}, {extents[1]}, {extents[2]})"


def _plain(value: int | float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.6g}"
