"""What a report costs beside the timed run that it tells of. ``ratio`` in the extra information: of CPU-seconds for the timed
run and the report as text, JSON and HTML, to those for the timed run alone.

Wanted: at most 1.3 on the 1024^3 f16 GEMM.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

import tcsim
from tcsim.cli.launches import LaunchOptions, prepare
from tcsim.cli.profile_command import bank_maps
from tcsim.report.data import to_json
from tcsim.report.html import profile_html
from tcsim.report.text import render

TRACES = Path(__file__).parents[2] / "traces"


@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize("name", ["gemm_f16", "transpose_conflicts"])
def test_report(benchmark: Any, name: str) -> None:
    """A recorded launch, timed and reported; compiled, and its machine code read, before the clock starts."""
    launch = prepare(str(TRACES / name), LaunchOptions())
    with tcsim.Profiler() as profiler:
        launch.run()

    def timed() -> tcsim.Profiler:
        with tcsim.Profiler() as profiler:
            launch.run()
        return profiler

    def reported() -> int:
        profiles = timed().launches
        banks = {0: bank_maps(profiles[0], launch)}
        pages = (render(profiles[0]), to_json(profiles), profile_html(profiles, sources=[TRACES / "kernels"], banks=banks))
        return sum(len(page) for page in pages)

    start = time.process_time()
    timed()
    alone = time.process_time() - start
    benchmark.extra_info["bytes"] = benchmark.pedantic(reported, rounds=1)
    benchmark.extra_info["ratio"] = round(benchmark.stats.stats.mean / alone, 2)
    print(f"\n{name}: {alone:.2f} s timed, {benchmark.stats.stats.mean:.2f} s with reports: {benchmark.extra_info['ratio']}")
    assert profiler.launches
