"""Bundles and suite files: round trips, and what a broken one says."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isa.errors import TcsimError
from tcsim.bundle import (
    DTYPES,
    Bundle,
    BundleError,
    Metric,
    load_bundle,
    load_suite,
    record_output,
    save_bundle,
)

SUITE = """
[double]
description = "y = 2 x"
ptx = "kernels/double.ptx"
grid = [2]
block = [8, 2]
shared_mem = 16
fmad = false
[double.arguments]
x = "f32[5,4]:normal"
y = "out f32[5,4]"
n = "i32:20"
"""


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    """A recorded bundle in ``tmp_path/double``."""
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "double.ptx").write_text(".version 9.0\n")
    (tmp_path / "suite.toml").write_text(SUITE)
    (launch,) = load_suite(tmp_path / "suite.toml")
    doubled = 2 * launch.arguments[0].array()
    recorded = replace(
        launch,
        ptx="../kernels/double.ptx",
        folder=tmp_path / "double",
        outputs={"y": record_output("y", DTYPES["f32"], doubled)},
        metrics={"sm__cycles_elapsed.max": Metric(3112, "cycle"), "smsp__inst_executed.sum": Metric(1.5)},
        provenance={"gpu": "NVIDIA H200", "date": "2026-11-30"},
    )
    save_bundle(recorded, recorded.folder)
    return recorded


def test_suite(bundle: Bundle) -> None:
    assert (bundle.name, bundle.entry) == ("double", "double")
    assert (bundle.grid, bundle.block, bundle.shared_mem, bundle.fmad) == ((2, 1, 1), (8, 2, 1), 16, False)
    assert [(a.name, a.role) for a in bundle.arguments] == [("x", "in"), ("y", "out"), ("n", "in")]


def test_round_trip(bundle: Bundle) -> None:
    again = load_bundle(bundle.folder)
    assert again == replace(bundle, outputs=again.outputs)
    assert again.outputs["y"].raw == bundle.outputs["y"].raw
    assert load_bundle(bundle.folder / "bundle.json") == again


def test_saving_twice_gives_the_same_bytes(bundle: Bundle, tmp_path: Path) -> None:
    save_bundle(load_bundle(bundle.folder), tmp_path / "again")
    for file in ("bundle.json", "outputs.npz"):
        assert (tmp_path / "again" / file).read_bytes() == (bundle.folder / file).read_bytes()


def test_compare(bundle: Bundle) -> None:
    right = 2 * bundle.arguments[0].array()
    (result,) = load_bundle(bundle.folder).compare({"y": right})
    assert result.equal
    (result,) = load_bundle(bundle.folder).compare({"y": right + np.float32(1)})
    assert not result.equal and result.differing_elements == 20


def test_values_are_what_a_launch_takes(bundle: Bundle) -> None:
    x, y, n = bundle.values()
    assert (x.shape, x.dtype, y.any()) == ((5, 4), np.float32, False)
    assert isinstance(n, np.int32) and n == 20


def test_ptx_is_guarded_by_its_hash(bundle: Bundle) -> None:
    assert bundle.ptx_text() == ".version 9.0\n"
    with pytest.raises(BundleError, match="is not the PTX that was recorded"):
        replace(bundle, ptx_sha256="0" * 64).ptx_text()
    with pytest.raises(BundleError, match="is missing"):
        replace(bundle, ptx="gone.ptx").ptx_text()


def test_a_launch_without_outputs_cannot_be_compared(bundle: Bundle) -> None:
    with pytest.raises(BundleError, match="no recorded outputs"):
        replace(bundle, outputs={}).compare({})


def _edit(bundle: Bundle, path: list[str | int], value: Any) -> None:
    """Set (or, for value None, delete) one entry of ``bundle.json``."""
    file = bundle.folder / "bundle.json"
    described = json.loads(file.read_text())
    at = described
    for key in path[:-1]:
        at = at[key]
    if value is None:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    file.write_text(json.dumps(described))


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (["schema"], 99, "schema 99; this tcsim reads schema 1"),
        (["name"], None, "the key 'name' is missing"),
        (["surprise"], 1, "unknown key 'surprise'"),
        (["launch", "clusters"], [1, 1, 1], r"launch: unknown key 'clusters'"),
        (["launch", "grid"], [1, 2], "'grid' must be three whole numbers"),
        (["launch", "grid"], [1, 2, 0], "'grid' must be three whole numbers"),
        (["launch", "shared_mem"], "16", "'shared_mem' must be a int"),
        (["options", "fmad"], 1, "'fmad' must be a bool"),
        (["kernel"], "double.ptx", "'kernel' must be a dict"),
        (["arguments", 0, "spec"], "f33[4]:zeros", r"arguments\[0\]: argument 'f33.*unknown type"),
        (["arguments", 0, "role"], "both", "unknown role 'both'"),
        (["arguments", 0, "name"], "y", "'y' is not an identifier of its own"),
        (["arguments", 0, "name"], "a b", "'a b' is not an identifier of its own"),
        (["arguments", 1, "spec"], "f32[5,5]:zeros", "output 'y' has another type or shape"),
        (["arguments", 1, "role"], "in", r"outputs are \['y'\], but the arguments make \[\]"),
        (["metrics", "sm__cycles_elapsed.max", "value"], "many", "'value' must be a number"),
        (["outputs", "y", "sha256"], "0" * 64, r"does not hold what bundle\.json says"),
        (["outputs", "y", "dtype"], "f31", "unknown type 'f31'"),
        (["outputs", "y", "stored"], None, "stored is missing"),
    ],
)
def test_broken_bundles_are_explained(bundle: Bundle, path: list[str | int], value: Any, says: str) -> None:
    _edit(bundle, path, value)
    with pytest.raises(BundleError, match=says):
        load_bundle(bundle.folder)


def test_missing_pieces_are_explained(bundle: Bundle, tmp_path: Path) -> None:
    with pytest.raises(TcsimError, match="there is no bundle at"):
        load_bundle(tmp_path / "nowhere")
    (bundle.folder / "outputs.npz").unlink()
    with pytest.raises(BundleError, match=r"outputs\.npz is missing"):
        load_bundle(bundle.folder)
    (bundle.folder / "bundle.json").write_text("{\n  oops")
    with pytest.raises(BundleError, match=r"bundle\.json:2:3: not JSON"):
        load_bundle(bundle.folder)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("grid = [2]", "", r"\[double\]: the key 'grid' is missing"),
        ("grid = [2]", "grid = [2, 0]", "grid must be one to three whole numbers"),
        ("grid = [2]", "grid = [1, 1, 1, 1]", "grid must be one to three whole numbers"),
        ("shared_mem", "smem", "unknown key 'smem'"),
        ("shared_mem = 16", "shared_mem = '16'", "'shared_mem' cannot be '16'"),
        ('"i32:20"', '"i32:x"', r"\[double\] n: argument 'i32:x'"),
        ("[double]", "[double", "not TOML"),
        ("[double]", "single = 5\n[double]", r"\[single\] must be a table"),
    ],
)
def test_broken_suites_are_explained(tmp_path: Path, old: str, new: str, says: str) -> None:
    (tmp_path / "suite.toml").write_text(SUITE.replace(old, new, 1))
    with pytest.raises(BundleError, match=says):
        load_suite(tmp_path / "suite.toml")


def test_missing_suite(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="there is no suite file"):
        load_suite(tmp_path / "gone.toml")
