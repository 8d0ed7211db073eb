"""A profile as JSON, and as CSV in the layouts of ``ncu --csv --page details`` and ``--page raw`` (Nsight Compute 2025.3)."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

import tcsim
from tcsim.errors import TcsimError
from tcsim.profile import LaunchProfile
from tcsim.report.advice import advise
from tcsim.report.derived import with_derived
from tcsim.report.sections import SECTIONS
from tcsim.report.units import chosen_metrics, unit_of

__all__ = ["JSON_SCHEMA", "ProfileFile", "json_schema", "load_profiles", "to_csv", "to_json", "to_raw_csv"]

JSON_SCHEMA = 1
"""Version of the JSON layout; raised when a field changes meaning or goes."""

_LAUNCH = (
    "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size", "Device",
    "CC",
)  # fmt: skip
_DETAILS = (
    "Section Name", "Metric Name", "Metric Unit", "Metric Value", "Rule Name", "Rule Type", "Rule Description",
    "Estimated Speedup Type", "Estimated Speedup",
)  # fmt: skip


class ProfileFile(msgspec.Struct, forbid_unknown_fields=True):
    """The JSON of ``tcsim profile --json``. ``schema``: :data:`JSON_SCHEMA`; ``tcsim``: the version that wrote it."""

    schema: int
    tcsim: str
    launches: list[LaunchProfile]


def to_json(profiles: Sequence[LaunchProfile]) -> str:
    """Everything that profiles hold; :func:`load_profiles` reads it back."""
    content = ProfileFile(JSON_SCHEMA, tcsim.__version__, list(profiles))
    return msgspec.json.format(msgspec.json.encode(content), indent=1).decode() + "\n"


def json_schema() -> dict[str, Any]:
    """The JSON Schema of that file."""
    return msgspec.json.schema(ProfileFile)


def load_profiles(path: str | Path) -> list[LaunchProfile]:
    """The launches of a file that ``tcsim profile --json`` wrote. Raises TcsimError for any other file."""
    try:
        content = msgspec.json.decode(Path(path).read_bytes(), type=ProfileFile)
    except OSError as problem:
        raise TcsimError(f"cannot read {path}: {problem.strerror}") from None
    except msgspec.MsgspecError as problem:
        raise TcsimError(f"{path} is no profile: {problem}. tcsim profile --json writes one") from None
    if content.schema != JSON_SCHEMA:
        raise TcsimError(f"{path} has layout {content.schema}; this tcsim reads layout {JSON_SCHEMA}")
    return content.launches


def to_csv(profiles: Sequence[LaunchProfile], sections: Sequence[str] = (), metrics: Sequence[str] = ()) -> str:
    """The sections' rows and rules as ``ncu --csv`` has them: every field quoted, base units (ns, byte, hz), rules under
    the section's identifier; but numbers without separators of thousands, which many readers of such files stumble over.

    sections: identifiers to show (all if empty). metrics: names to show instead, in rows of ``Command line profiler metrics``.
    Raises TcsimError for a name that a launch does not have."""
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow((*_LAUNCH, *_DETAILS))
    for number, profile in enumerate(profiles):
        for row in _named(profile, metrics) if metrics else _details(profile, sections):
            writer.writerow((*_launch(number, profile), *row))
            if len(row) < len(_DETAILS):  # rows of metrics end behind one empty field
                out.seek(out.tell() - 1)
                out.write(",\n")
    return out.getvalue()


def _named(profile: LaunchProfile, names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    metrics = with_derived(profile.metrics)
    for name in chosen_metrics(metrics, names):
        yield "Command line profiler metrics", name, unit_of(name), _plain(metrics[name])


def _details(profile: LaunchProfile, sections: Sequence[str]) -> Iterator[tuple[str, ...]]:
    metrics, advice = with_derived(profile.metrics), advise(profile)
    for section in SECTIONS:
        if sections and section.identifier not in sections:
            continue
        for row in section.rows:
            if row.metric in metrics:
                unit = row.unit if row.scale == 1 else unit_of(row.metric)
                yield section.title, row.label, unit, _plain(metrics[row.metric])
        for said in advice:
            if said.section == section.identifier:
                speedup = ("global", f"{said.speedup:.2f}") if said.speedup is not None else ("", "")
                yield section.identifier, "", "", "", said.rule, said.kind, said.text, *speedup


def to_raw_csv(profiles: Sequence[LaunchProfile], metrics: Sequence[str] = ()) -> str:
    """One line per launch and one column per metric, under its name and its unit. metrics: names to show (all if empty). Raises
    TcsimError for a name that no launch has."""
    values = [with_derived(profile.metrics) for profile in profiles]
    columns = chosen_metrics({name for each in values for name in each}, metrics)
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow((*_LAUNCH, *columns))
    writer.writerow((*("" for _ in _LAUNCH), *(unit_of(name) for name in columns)))
    for number, (profile, found) in enumerate(zip(profiles, values, strict=True)):
        writer.writerow((*_launch(number, profile), *(_plain(found[name]) if name in found else "" for name in columns)))
    return out.getvalue()


def _launch(number: int, profile: LaunchProfile) -> tuple[Any, ...]:
    cc = f"{profile.sm // 10}.{profile.sm % 10}"
    return (number, 0, "tcsim", "localhost", profile.name, 1, 7, _dim(profile.block), _dim(profile.grid), 0, cc)


def _dim(extents: tuple[int, int, int]) -> str:
    return f"({extents[0]}, {extents[1]}, {extents[2]})"


def _plain(value: int | float) -> str:
    """Digits and a point, no exponent: eight digits of what is not whole."""
    if isinstance(value, int) or float(value).is_integer():
        return str(int(value))
    return np.format_float_positional(float(f"{value:.8g}"), trim="-")
