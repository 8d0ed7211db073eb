"""Predicted against measured cycles of launches that nothing in the model was fitted on: those of ``traces/wide.tar.xz`` that
were recorded with Nsight Compute's metrics.

python docs/pictures/held_out.py            # prints the table (Markdown) and its summary
"""

from __future__ import annotations

import json
import tarfile
import tempfile
import warnings
from pathlib import Path
from typing import Any

from cycles import CYCLES, INSTRUCTIONS, TRACES, Row, summary, table

import tcsim
from tcsim.bundle import parse_argument


def measure(folder: Path) -> list[Row]:
    """Profile every launch of the unpacked archive that has the hardware's cycles."""
    launches: dict[str, Any] = json.loads((folder / "launches.json").read_text())["launches"]
    rows = []
    for name, launch in sorted(launches.items()):
        recorded = launch.get("metrics")
        if recorded is None:
            continue
        module = tcsim.RawModule(path=folder / "ptx" / launch["ptx"], fmad=launch.get("fmad", True))
        function = module.get_function(launch["entry"])
        shared = function.max_dynamic_shared_size_bytes = launch.get("shared_mem", 0)
        specs = [parse_argument(text, position) for position, (_, text) in enumerate(launch["arguments"], 1)]
        values = [spec.scalar() if spec.is_scalar else tcsim.asarray(spec.array()) for spec in specs]
        with tcsim.Profiler() as profiler:
            function(tuple(launch["grid"]), tuple(launch["block"]), values, shared_mem=shared)
        metrics = profiler.launches[-1].metrics
        rows.append(Row(name, metrics[CYCLES], recorded[CYCLES], metrics[INSTRUCTIONS], recorded[INSTRUCTIONS]))
    return rows


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # other kernels of a file may be unsupported
    with tempfile.TemporaryDirectory() as unpacked:
        with tarfile.open(TRACES / "wide.tar.xz") as archive:
            archive.extractall(unpacked, filter="data")
        measured = measure(Path(unpacked))
    print(table(measured))
    print()
    print(summary(measured))
