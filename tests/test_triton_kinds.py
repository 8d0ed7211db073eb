"""The kernels of :mod:`triton_kinds` against NumPy, and against what an H200 wrote."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tcsim
import tcsim.triton

triton = pytest.importorskip("triton")
kinds = pytest.importorskip("triton_kinds")

HARDWARE = json.loads((Path(__file__).parent / "data" / "triton" / "kinds.json").read_text())

pytestmark = pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")


@pytest.fixture(scope="module", autouse=True)
def _active(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton")))
        tcsim.triton.activate("h200")
        yield
        tcsim.triton.deactivate()


@pytest.mark.parametrize("name", kinds.LAUNCHES)
def test_a_kernel_computes_what_it_says(name: str) -> None:
    written, expected = kinds.LAUNCHES[name](np.random.default_rng(kinds.SEED))
    np.testing.assert_allclose(written, expected, rtol=2e-3, atol=2e-3 * np.abs(expected).max())
    if triton.__version__.startswith(HARDWARE["provenance"]["triton"]):  # another Triton may order the sums otherwise
        assert hashlib.sha256(written.tobytes()).hexdigest()[:12] == HARDWARE["sha256"][name]
