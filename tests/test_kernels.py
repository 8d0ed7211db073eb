"""Whole kernels, compiled by nvcc and Triton, against the outputs that an H200 gave: every byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from tcsim.cli.launches import LaunchOptions, prepare

TRACES = Path(__file__).parents[1] / "traces"
BUNDLES = sorted(path.parent.name for path in TRACES.glob("*/bundle.json"))


def test_the_bundles_are_there() -> None:
    assert len(BUNDLES) >= 42
    needed = "vector_add softmax_rows transpose_padded reduce_sum_s32 wmma_gemm gemm_f16 gemm_bf16 gemm_tf32 gemm_s8 gemm_e4m3"
    assert set(needed.split()) | {"collatz", "triton_matmul", "triton_softmax"} <= set(BUNDLES)


@pytest.mark.parametrize("name", BUNDLES)
def test_outputs_equal_the_hardware(name: str) -> None:
    launch = prepare(str(TRACES / name), LaunchOptions())
    launch.run()
    for comparison in launch.bundle.compare(launch.outputs()):
        assert comparison.equal, str(comparison)
