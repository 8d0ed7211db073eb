"""What the CuTe DSL of CUTLASS emits, run as it is: skipped where nvidia-cutlass-dsl is not installed."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import tcsim

ROOT = Path(__file__).parents[1]
DEVICES = {"sm_80": "a100", "sm_90a": "h200"}

pytestmark = pytest.mark.skipif(find_spec("cutlass") is None, reason="nvidia-cutlass-dsl is not installed")


@pytest.fixture(scope="module", params=list(DEVICES))
def emitted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder with the PTX of all kernels for a target, and a device that runs it."""
    folder = tmp_path_factory.mktemp(request.param)
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    variables = {**os.environ, "CUTE_DSL_ARCH": request.param, "CUTE_DSL_KEEP": "ptx", "PYTHONPATH": path}
    subprocess.run([sys.executable, "-m", "tests.cute_kernels"], cwd=folder, env=variables, check=True)
    return folder, DEVICES[request.param]


def launch(emitted: tuple[Path, str], name: str, grid: tuple[int, ...], *arrays: np.ndarray) -> list[np.ndarray]:
    folder, device = emitted
    with tcsim.Device(device):
        module = tcsim.RawModule(path=folder / f"{name}.ptx")
        function = module.get_function(module.kernels[0])
        function.max_dynamic_shared_size_bytes = 64 << 10
        placed = [tcsim.asarray(array) for array in arrays]
        function(grid, (128,), tuple(placed), shared_mem=16 << 10)
        return [tcsim.asnumpy(array) for array in placed]


def test_axpy(emitted: tuple[Path, str]) -> None:
    x, y = np.random.default_rng(1).standard_normal((2, 4096)).astype(np.float32)
    (_, got) = launch(emitted, "axpy", (8,), x, y)
    expected = (x.astype(np.float64) * 2.5 + y).astype(np.float32)  # one rounding: ptxas makes one FMA of it
    np.testing.assert_array_equal(got, expected)


def test_transpose(emitted: tuple[Path, str]) -> None:
    a = np.arange(64 * 96, dtype=np.float32).reshape(64, 96)
    (_, got) = launch(emitted, "transpose", (3, 2), a, np.zeros((96, 64), np.float32))
    np.testing.assert_array_equal(got, a.T)


def test_reduce(emitted: tuple[Path, str]) -> None:
    x = np.random.default_rng(2).integers(-1000, 1000, 1024, dtype=np.int32)
    (_, got) = launch(emitted, "reduce", (8,), x, np.zeros(8, np.int32))
    np.testing.assert_array_equal(got, x.reshape(8, 128).sum(1))


def test_gemm(emitted: tuple[Path, str]) -> None:
    a, b = np.random.default_rng(3).standard_normal((2, 64, 64)).astype(np.float16)
    b = b[:32]
    (_, _, got) = launch(emitted, "gemm", (1,), a, b, np.zeros((64, 32), np.float32))
    expected = tcsim.matmul(a, b.T, device=emitted[1], form="mma.m16n8k16.f32.f16.f16.f32")
    np.testing.assert_array_equal(got, expected)
