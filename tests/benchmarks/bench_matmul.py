"""How many products a second ``tcsim.matmul`` does on one core.

    python -m pytest tests/benchmarks/bench_matmul.py --benchmark-columns=min,median

``billion_products_per_second`` in the extra information is what to read: M * N * K over the median time, operands checked and
converted, result returned. The time is the processor's, so that others on the machine do not count. :data:`GATES` must be
reached.
"""

from __future__ import annotations

import time
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tcsim

N = 1024
FLOATS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "e4m3": ml_dtypes.float8_e4m3fn}

CASES = [
    ("mma.m16n8k16.f32.f16.f16.f32", "h200", "f16", "chain"),
    ("mma.m16n8k16.f32.bf16.bf16.f32", "h200", "bf16", "chain"),
    ("mma.m16n8k32.f32.e4m3.e4m3.f32", "h200", "e4m3", "chain"),
    ("wgmma.m64n128k32.f32.e4m3.e4m3", "h200", "e4m3", "chain"),
    ("wgmma.m64n128k32.f32.e4m3.e4m3", "h200", "e4m3", "promote:4"),
    ("mma.m16n8k16.f16.f16.f16.f16", "h200", "f16", "chain"),
    ("mma.m16n8k16.f32.f16.f16.f32", "a100", "f16", "split-k:4"),
    ("mma.m16n8k8.f32.tf32.tf32.f32", "h200", "tf32", "chain"),
    ("mma.m16n8k32.s32.s8.s8.s32", "h200", "s8", "chain"),
    ("mma.m16n8k16.f64.f64.f64.f64", "h200", "f64", "chain"),
]

GATES = {"f16": 2.0, "bf16": 2.0, "e4m3": 2.0}
"""Billion products a second at least, of a chain in f32 on an H200."""


def operands(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Normal deviates, rounded; of s8 all values."""
    rng = np.random.default_rng(1)
    if kind == "s8":
        return tuple(rng.integers(-128, 128, (2, N, N)).astype(np.int8))  # type: ignore[return-value]
    a, b = rng.normal(size=(2, N, N))
    if kind == "tf32":
        return tuple((x.astype(np.float32).view(np.uint32) & 0xFFFFE000).view(np.float32) for x in (a, b))  # type: ignore[return-value]
    return (a, b) if kind == "f64" else (a.astype(FLOATS[kind]), b.astype(FLOATS[kind]))


@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(case))
def test_products_per_second(benchmark: Any, case: tuple[str, str, str, str]) -> None:
    form, device, kind, order = case
    a, b = operands(kind)
    tcsim.matmul(a[:8, :64], b[:64, :8], form=form, device=device)  # compile
    benchmark.pedantic(
        tcsim.matmul, (a, b), {"form": form, "device": device, "k_order": order}, rounds=3, iterations=1, warmup_rounds=1
    )
    if benchmark.stats is not None:  # absent with --benchmark-disable
        rate = N**3 / benchmark.stats.stats.median / 1e9
        benchmark.extra_info["billion_products_per_second"] = round(rate, 2)
        if (device, order) == ("h200", "chain") and ".f32." in form:
            assert rate >= GATES.get(kind, 0.0)
