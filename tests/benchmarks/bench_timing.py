"""How fast launches are timed. ``warp_instructions`` in the extra information divided by the time is the rate.

Wanted: 60 000 warp instructions per CPU-second on the 1024^3 f16 GEMM. Accel-Sim times 2 600 to 8 600 on the same GEMM.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

import tcsim
from tcsim.cli.launches import LaunchOptions, prepare

TRACES = Path(__file__).parents[2] / "traces"


@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize("name", ["gemm_f16", "vector_add_large", "softmax_rows", "hash_rounds"])
def test_timed_launch(benchmark: Any, name: str) -> None:
    """A recorded launch, profiled; compiled before the clock starts."""
    profile = _timed(benchmark, name, sample=False)
    benchmark.extra_info["warp_instructions"] = sum(row.executed for row in profile.instructions)
    benchmark.extra_info["cycles"] = profile.cycles
    rate = benchmark.extra_info["warp_instructions"] / benchmark.stats.stats.mean
    benchmark.extra_info["warp_instructions_per_second"] = round(rate)
    print(f"\n{name}: {rate:,.0f} warp instructions/s")


@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize("name", ["gemm_f16_wide", "vector_add_large", "mandelbrot"])
def test_sampled_launch(benchmark: Any, name: str) -> None:
    """The same of a sample; warp instructions are those of the whole launch, for which it stands."""
    profile = _timed(benchmark, name, sample=True)
    benchmark.extra_info["ctas"] = f"{profile.sample.ctas} of {profile.sample.of}"
    rate = sum(row.executed for row in profile.instructions) / benchmark.stats.stats.mean
    benchmark.extra_info["warp_instructions_per_second"] = round(rate)
    print(f"\n{name}: {benchmark.extra_info['ctas']} CTAs, {rate:,.0f} warp instructions of the launch/s")


def _timed(benchmark: Any, name: str, sample: bool) -> Any:
    launch = prepare(str(TRACES / name), LaunchOptions())
    with tcsim.Profiler(sample=sample):
        launch.run()

    def run() -> tcsim.Profiler:
        with tcsim.Profiler(sample=sample) as profiler:
            launch.run()
        return profiler

    return benchmark.pedantic(run, rounds=1).launches[-1]
