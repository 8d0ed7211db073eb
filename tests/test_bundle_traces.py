"""The kernels, suite and recordings in ``traces/``: they belong together, and the hardware computed what each kernel says."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import numpy as np
import pytest
from reference.host_kernels import REFERENCES, expected

from tcsim.bundle import Argument, Bundle, decode, load_bundle, load_suite

TRACES = Path(__file__).parent.parent / "traces"
SUITE = load_suite(TRACES / "suite.toml")
RECORDED = sorted(path.parent for path in TRACES.glob("*/bundle.json"))

_WIDTH = {"8": 1, "16": 2, "32": 4, "64": 8}


def _parameter_bytes(ptx: str, entry: str) -> list[int]:
    """The sizes of the ``.param``s of one entry."""
    header = re.search(rf"\.entry\s+{entry}\s*\((.*?)\)", ptx, re.DOTALL)
    assert header is not None, f"no entry {entry}"
    found = re.findall(r"\.param\s+(?:\.align\s+\d+\s+)?\.[a-z](\d+)[^,\[]*(?:\[(\d+)\])?", header.group(1))
    return [_WIDTH[bits] * int(count or 1) for bits, count in found]


def _width(argument: Argument) -> int:
    """Bytes of a kernel parameter."""
    if argument.tensor_map is not None:
        return 128
    return 8 if argument.shape is not None else argument.dtype.bytes


@pytest.mark.parametrize("bundle", SUITE, ids=lambda bundle: bundle.name)
def test_suite_fits_its_kernels(bundle: Bundle) -> None:
    described = {argument.tensor_map.array for argument in bundle.arguments if argument.tensor_map is not None}
    parameters = _parameter_bytes(bundle.ptx_text(), bundle.entry)
    widths = [_width(argument) for argument in bundle.arguments]
    assert parameters == widths[: len(parameters)]
    assert all(argument.name in described for argument in bundle.arguments[len(parameters) :])
    assert bundle.description and bundle.entry in REFERENCES


def test_kernels_name_no_folder() -> None:
    for path in (TRACES / "kernels").glob("*.ptx"):
        text = path.read_text()
        assert not re.search(r'\.file\s+\d+\s+"[^"]*/', text), path
        data = bytes(int(byte) for byte in re.findall(r"^\.b8 (\d+)", text, re.MULTILINE))
        assert not re.search(rb"/(home|root|work|tmp|usr|opt)/", data), path


def test_every_kernel_is_used() -> None:
    present = {path.name for path in (TRACES / "kernels").glob("*.ptx")}
    assert present == {bundle.ptx_path.name for bundle in SUITE}
    built = {kernel.ptx for kernel in runpy.run_path(str(TRACES / "build.py"))["KERNELS"]}
    assert present == built | {"triton_matmul.ptx", "triton_softmax.ptx"}


def test_recordings_come_from_the_suite() -> None:
    launches = {bundle.name: bundle for bundle in SUITE}
    for folder in RECORDED:
        recorded = load_bundle(folder)
        launch = launches[recorded.name]
        assert (recorded.entry, recorded.grid, recorded.block, recorded.shared_mem, recorded.fmad, recorded.arguments) == (
            launch.entry, launch.grid, launch.block, launch.shared_mem, launch.fmad, launch.arguments,
        ), folder  # fmt: skip
        assert recorded.ptx_text() == launch.ptx_text(), f"{folder}: its PTX has changed since it was recorded"


@pytest.mark.parametrize("folder", RECORDED, ids=lambda folder: folder.name)
def test_hardware_computed_what_the_kernel_says(folder: Path) -> None:
    """Compare what is stored of each output (all of it, or a sample) with NumPy. NaNs and infinities must agree in place."""
    bundle = load_bundle(folder)
    values, relative = expected(bundle)
    for name, output in bundle.outputs.items():
        whole = np.arange(int(np.prod(output.shape)))
        index = whole if output.sample_index is None else output.sample_index
        data = output.raw if output.raw is not None else output.sample_bytes.tobytes()  # type: ignore[union-attr]
        stored = np.frombuffer(data, dtype=output.dtype.storage)
        reference = np.asarray(values[name]).reshape(-1)[index]
        if output.dtype.kind != "float":
            assert np.mean(stored != reference) <= relative, name
        elif "_bits" not in bundle.name:
            hardware = decode(stored, output.dtype)
            assert np.isfinite(hardware).all(), name
            scale = max(np.abs(reference).max(), 1e-30)
            assert np.abs(hardware - reference).max() <= relative * scale, name
