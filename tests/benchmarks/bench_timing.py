"""How fast launches are executed and timed. ``warp_instructions_per_second`` in the extra information is the rate, by the
processor's time; ``times_accel_sim`` how many times Accel-Sim's that is.

Wanted: 2 million warp instructions per CPU-second on the compiled engine, 60 000 on SimPy, and as many in longer launches.
"""

from __future__ import annotations

import resource
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tcsim
from tcsim.cli.launches import LaunchOptions, prepare
from tcsim.profile import LaunchProfile
from tcsim.timing.gpu import Engine

TRACES = Path(__file__).parents[2] / "traces"

ACCEL_SIM = 8_600
"""Warp instructions per CPU-second of Accel-Sim, at best: traces of a GEMM of 512^3 with ``ldmatrix`` and ``cp.async`` on the
46 SMs of an RTX 3070; 4 800 at 1024^3, 2 550 on 132 SMs. Built and run on the same kind of machine."""


@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize("name", ["gemm_f16", "sgemm", "vector_add_large", "softmax_rows", "hash_rounds"])
def test_timed_launch(benchmark: Any, name: str) -> None:
    """A recorded launch, profiled; compiled before the clock starts."""
    _rate(benchmark, name, "compiled")


@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize("name", ["gemm_f16", "softmax_rows", "hash_rounds"])
def test_readable_engine(benchmark: Any, name: str) -> None:
    """The same on SimPy."""
    _rate(benchmark, name, "simpy")


@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize("k", [1024, 2048, 4096, 8192])
def test_longer_launches(benchmark: Any, k: int) -> None:
    """A GEMM of 1024 x 1024 x k: time and memory grow with the instructions, or not at all."""
    launch = prepare(str(TRACES / "gemm_f16"), LaunchOptions())
    a, b = tcsim.zeros((1024, k), np.float16), tcsim.zeros((k, 1024), np.float16)
    arguments = (a, b, tcsim.zeros((1024, 1024), np.float32), np.int32(1024), np.int32(k))
    with tcsim.Profiler():
        launch.run()  # compiles
    with launch.device, tcsim.Profiler() as profiler:
        benchmark.pedantic(lambda: launch.function((8, 8), (256,), arguments, shared_mem=1 << 16), rounds=1)
    _note_rate(benchmark, profiler.launches[-1])
    benchmark.extra_info["mebibytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize("millions", [1, 2, 4, 8])
def test_more_elements(benchmark: Any, millions: int) -> None:
    """As many million elements added: of small CTAs, too."""
    launch, count = prepare(str(TRACES / "vector_add_large"), LaunchOptions()), millions << 20
    arguments = (*(tcsim.zeros((count,), np.float32) for _ in range(3)), np.int32(count))
    with tcsim.Profiler():
        launch.run()  # compiles
    with launch.device, tcsim.Profiler() as profiler:
        benchmark.pedantic(lambda: launch.function((count // 256,), (256,), arguments), rounds=1)
    _note_rate(benchmark, profiler.launches[-1])
    benchmark.extra_info["mebibytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def _rate(benchmark: Any, name: str, engine: Engine) -> None:
    profile = _timed(benchmark, name, sample=False, engine=engine)
    benchmark.extra_info["warp_instructions"] = sum(row.executed for row in profile.instructions)
    benchmark.extra_info["cycles"] = profile.cycles
    rate = _note_rate(benchmark, profile)
    print(f"\n{name}: {rate:,.0f} warp instructions/s")


def _note_rate(benchmark: Any, profile: LaunchProfile) -> float:
    rate = float(sum(row.executed for row in profile.instructions) / benchmark.stats.stats.mean)
    benchmark.extra_info["warp_instructions_per_second"] = round(rate)
    benchmark.extra_info["times_accel_sim"] = round(rate / ACCEL_SIM)
    return rate


@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize("name", ["gemm_f16_wide", "vector_add_large", "mandelbrot"])
def test_sampled_launch(benchmark: Any, name: str) -> None:
    """The same of a sample; warp instructions are those of the whole launch, for which it stands."""
    profile = _timed(benchmark, name, sample=True)
    benchmark.extra_info["ctas"] = f"{profile.sample.ctas} of {profile.sample.of}"
    rate = sum(row.executed for row in profile.instructions) / benchmark.stats.stats.mean
    benchmark.extra_info["warp_instructions_per_second"] = round(rate)
    print(f"\n{name}: {benchmark.extra_info['ctas']} CTAs, {rate:,.0f} warp instructions of the launch/s")


def _timed(benchmark: Any, name: str, sample: bool, engine: Engine = "compiled") -> LaunchProfile:
    launch = prepare(str(TRACES / name), LaunchOptions())
    with tcsim.Profiler(sample=sample):
        launch.run()

    def run() -> tcsim.Profiler:
        with tcsim.Profiler(sample=sample, engine=engine) as profiler:
            launch.run()
        return profiler

    profiler: tcsim.Profiler = benchmark.pedantic(run, rounds=1)
    return profiler.launches[-1]
