"""What C++ libraries and inference engines make of kernels, byte for byte as an H200 ran it (tests/data/styles).

A spread of the 169 launches runs here; ``TCSIM_STYLES=all`` runs all, in some minutes.
"""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

import tcsim
from isa.sass.toolchain import find_nvdisasm, find_ptxas
from tcsim.bundle import parse_argument

FOLDER = Path(__file__).parent / "data" / "styles"
RECORDED: dict[str, Any] = json.loads((FOLDER / "launches.json").read_text())
LAUNCHES = [(kernel, target) for target, kernels in RECORDED["outputs"].items() for kernel in kernels]
EVERY = 1 if os.environ.get("TCSIM_STYLES") == "all" else 9


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("styles")
    with tarfile.open(FOLDER / "ptx.tar.xz") as archive:
        archive.extractall(path, filter="data")
    return path


def test_the_record_is_complete() -> None:
    assert len(LAUNCHES) == 169
    assert {kernel for kernel, _ in LAUNCHES} == set(RECORDED["kernels"])


@pytest.mark.parametrize(("kernel", "target"), LAUNCHES[::EVERY])
def test_outputs_are_the_hardware_s(kernel: str, target: str, folder: Path) -> None:
    check(kernel, target, folder)


@pytest.mark.skipif(not (find_ptxas() and find_nvdisasm()), reason="ptxas and nvdisasm are not installed")
@pytest.mark.filterwarnings("error::tcsim.errors.UnsupportedWarning")
@pytest.mark.parametrize(
    ("kernel", "target"),
    [("spinning", "80"), ("semaphores", "80"), ("divided", "80"), ("shapes", "86G"), ("table", "86G")],
)
def test_machine_code(kernel: str, target: str, folder: Path) -> None:
    """Holders of locks that wait at the end of the loop in which the others of their warp spin; debug builds that call
    functions by the addresses that objects and tables hold. An H200 ran this machine code."""
    with tcsim.Device("h200", execute="machine"):
        check(kernel, target, folder)


def check(kernel: str, target: str, folder: Path) -> None:
    """Launch a kernel and compare its outputs with the recorded ones."""
    launch = RECORDED["kernels"][kernel]
    function = tcsim.RawModule(path=folder / f"{launch['file']}.{target}.ptx").get_function(kernel)
    shared = function.max_dynamic_shared_size_bytes = launch.get("shared_mem", 0)
    specs = [(argument, parse_argument(text, index)) for index, (argument, text) in enumerate(launch["arguments"], 1)]
    values = [spec.scalar() if spec.is_scalar else spec.array() for _, spec in specs]
    placed = [value if spec.is_scalar else tcsim.asarray(value) for (_, spec), value in zip(specs, values, strict=True)]
    function(tuple(launch["grid"]), tuple(launch["block"]), placed, shared_mem=shared)
    got = {
        argument: hashlib.sha256(tcsim.asnumpy(value).tobytes()).hexdigest()[:16]
        for (argument, spec), value in zip(specs, placed, strict=True)
        if spec.is_output
    }
    assert got == RECORDED["outputs"][target][kernel]
