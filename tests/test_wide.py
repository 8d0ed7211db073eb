"""A thousand launches of kernels that nobody tuned tcsim on, against what an H200 made of them.

``traces/wide.tar.xz`` holds CUDA C and Triton sources in the manner of samples, benchmarks and deep-learning code, the PTX that
nvcc 13.0 and Triton made of them for several targets, and the SHA-256 of every output on the GPU. A spread of them runs here;
``TCSIM_WIDE=all`` runs all, in some minutes.
"""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
import warnings
from pathlib import Path
from typing import Any, Literal

import pytest

import tcsim
from isa.sass.toolchain import find_nvdisasm, find_ptxas
from tcsim.bundle import parse_argument

ARCHIVE = Path(__file__).parents[1] / "traces" / "wide.tar.xz"
APART = "cg_coalesced_1_80", "cg_tiles_1_80"  # parts of a warp that do collectives side by side at the same instruction
EVERY = 1 if os.environ.get("TCSIM_WIDE") == "all" else 16


def _launches() -> dict[str, Any]:
    with tarfile.open(ARCHIVE) as archive:
        member = archive.extractfile("launches.json")
        assert member is not None
        recorded: dict[str, Any] = json.load(member)["launches"]
    return recorded


LAUNCHES = _launches()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("wide")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(path, filter="data")
    return path


def test_the_archive_is_what_it_says() -> None:
    assert len(LAUNCHES) > 1000
    assert all(launch["outputs"] for launch in LAUNCHES.values())


@pytest.mark.parametrize("name", sorted(LAUNCHES)[::EVERY])
def test_outputs_are_the_hardware_s(name: str, folder: Path) -> None:
    check(name, folder, "ptx")


@pytest.mark.skipif(not (find_ptxas() and find_nvdisasm()), reason="ptxas and nvdisasm are not installed")
@pytest.mark.parametrize("name", sorted({*sorted(LAUNCHES)[:: 16 * EVERY], *APART}) if EVERY > 1 else sorted(LAUNCHES))
def test_machine_code_gives_them_too(name: str, folder: Path) -> None:
    check(name, folder, "machine")


def check(name: str, folder: Path, execute: Literal["ptx", "machine"]) -> None:
    """Run a launch and compare its outputs with the recorded ones."""
    launch = LAUNCHES[name]
    specs = [(argument, parse_argument(text, index)) for index, (argument, text) in enumerate(launch["arguments"], 1)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # other kernels of the file may be unsupported
        module = tcsim.RawModule(path=folder / "ptx" / launch["ptx"], fmad=launch.get("fmad", True))
    with tcsim.Device("h200", execute=execute):
        _launch(module, launch, specs)


def _launch(module: tcsim.RawModule, launch: dict[str, Any], specs: list[tuple[str, Any]]) -> None:
    function = module.get_function(launch["entry"])
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
