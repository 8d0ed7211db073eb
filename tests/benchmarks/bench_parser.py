"""How fast PTX is parsed: ``python -m pytest tests/benchmarks/bench_parser.py --benchmark-json=FILE``.

Times are CPU time. Lines per second are in the ``extra_info`` of each benchmark.
"""

from __future__ import annotations

import time

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from isa.ptx import parse
from isa.ptx.initializers import evaluate
from tests.ptx_text import DATA, HEADER

pytestmark = pytest.mark.benchmark(timer=time.process_time)

TEXTS = {path.stem: path.read_text() for path in sorted(DATA.glob("*.ptx"))}
LINES = 10_000


def whole_module(names: list[str]) -> str:
    """About :data:`LINES` lines: the functions of these files, without debug sections, over and over in one module.

    Each repetition has register names of its own, so that the operands repeat as little as in one long file.
    """
    functions = [TEXTS[name].partition(".address_size 64")[2].partition("\t.section")[0] for name in names]
    once = "".join(functions)
    return HEADER + "".join(once.replace("%", f"%c{copy}_") for copy in range(LINES // once.count("\n")))


MODULES = {
    "nvcc": whole_module(["samples.sm_80", "calls.rdc.sm_80", "data.sm_80"]),
    "nvcc -lineinfo": whole_module(["tensor.lineinfo.sm_90a"]),
    "triton": whole_module([name for name in TEXTS if name.startswith("triton")]),
    "-G, debug sections": TEXTS["calls.debug.sm_80"],
}


@pytest.mark.parametrize("name", MODULES)
def test_parse(benchmark: BenchmarkFixture, name: str) -> None:
    benchmark(parse, MODULES[name])
    if benchmark.stats is not None:  # None with --benchmark-disable
        benchmark.extra_info["lines_per_second"] = round(MODULES[name].count("\n") / benchmark.stats["min"])


def test_evaluate_a_long_table(benchmark: BenchmarkFixture) -> None:
    text = ", ".join(str(value * 37 % 256) for value in range(120_000))
    (variable,) = parse(f"{HEADER}.global .b8 table[120000] = {{{text}}};").variables
    benchmark(evaluate, variable)
