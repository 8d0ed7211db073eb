"""Kernels in the style of what the wider collection lacks, byte for byte as an H200 ran them (tests/data/corpus).

Grid barriers of cooperative groups, memory on the stack, two translation units linked, cache policies, packed video
instructions, and the CuTe DSL of CUTLASS, for sm_75 to sm_90a.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

import tcsim
from tcsim.bundle import parse_argument

FOLDER = Path(__file__).parent / "data" / "corpus"
LAUNCHES: dict[str, Any] = json.loads((FOLDER / "launches.json").read_text())["launches"]


@pytest.mark.parametrize("name", LAUNCHES)
def test_outputs_are_the_hardware_s(name: str) -> None:
    launch = LAUNCHES[name]
    specs = [(argument, parse_argument(text, index)) for index, (argument, text) in enumerate(launch["arguments"], 1)]
    files = [FOLDER / file for file in launch["files"]]
    module = tcsim.RawModule(path=files, enable_cooperative_groups=launch.get("cooperative", False))
    function = module.get_function(launch["entry"] or module.kernels[0])
    shared = function.max_dynamic_shared_size_bytes = launch.get("shared_mem", 0)
    values = [spec.scalar() if spec.is_scalar else spec.array() for _, spec in specs]
    placed = [value if spec.is_scalar else tcsim.asarray(value) for (_, spec), value in zip(specs, values, strict=True)]
    function(tuple(launch["grid"]), tuple(launch["block"]), placed, shared_mem=shared)
    got = {
        argument: hashlib.sha256(tcsim.asnumpy(value).tobytes()).hexdigest()
        for (argument, spec), value in zip(specs, placed, strict=True)
        if spec.is_output
    }
    assert got == launch["outputs"]
