"""Triton for sm_90: the kernels of :mod:`triton_hopper` against NumPy, and against what an H200 wrote."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tcsim
import tcsim.triton
from tcsim.errors import LaunchError

triton = pytest.importorskip("triton")
hopper = pytest.importorskip("triton_hopper")

HARDWARE = json.loads((Path(__file__).parent / "data" / "triton" / "h200.json").read_text())

pytestmark = pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")


@pytest.fixture(scope="module", autouse=True)
def _active(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton")))
        tcsim.triton.activate("h200")
        yield
        tcsim.triton.deactivate()


@pytest.mark.parametrize("name", hopper.LAUNCHES)
def test_a_kernel_computes_what_it_says(name: str) -> None:
    written, expected = hopper.LAUNCHES[name]()
    largest = np.abs(expected).max()
    np.testing.assert_allclose(written / largest, expected / largest, atol=1e-3 if written.dtype == np.float16 else 1e-5)
    if triton.__version__.startswith(HARDWARE["provenance"]["triton"]):  # another Triton may order the sums otherwise
        assert hashlib.sha256(written.tobytes()).hexdigest() == HARDWARE["sha256"][name]


def test_a_descriptor_that_no_map_can_have_is_refused() -> None:
    c = hopper.normal(64, 128)
    arguments = [hopper.described(array, block) for array, block in ((c, [64, 64]), (c, [64, 64]))]
    arguments[0].shape, arguments[0].strides = [64, 60], [60, 1]
    with pytest.raises(LaunchError, match=r"argument left: .*strides\[0\] is 120 bytes; a stride is a multiple of 16"):
        hopper.host_descriptor_matmul[(1, 1)](*arguments, hopper.described(c, [64, 64]), 60, M=64, N=64, K=64, num_warps=4)
