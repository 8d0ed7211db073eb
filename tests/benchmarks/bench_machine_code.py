"""How fast machine code is read and executed. Goals: 10 million warp instructions per CPU-second on arithmetic, and a kernel of
10 000 instructions disassembled and decoded in 2 s.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tcsim
from isa.ptx import parse
from isa.sass.assemble import assemble
from isa.sass.sections import trim
from isa.sass.toolchain import find_nvdisasm, find_ptxas, run_ptxas
from tcsim.cli.launches import LaunchOptions, prepare
from tcsim.machine_code import ModuleCode
from tests.benchmarks.bench_execute import ALU, TRACES, _rate
from tests.sass_programs import mixed_module

needs_tools = pytest.mark.skipif(not (find_ptxas() and find_nvdisasm()), reason="ptxas and nvdisasm are not installed")


@needs_tools
def test_alu_bound(benchmark: Any) -> None:
    """Integer and float arithmetic in a loop, eight warps."""
    with tcsim.Device("h200", execute="machine"):
        function = tcsim.RawModule(code=ALU).get_function("alu")
        _rate(benchmark, function, (1,), (256,), (tcsim.zeros(256, np.uint32), np.int32(50_000)), 0)


@pytest.mark.parametrize("name", ["gemm_f16", "sgemm"])
def test_recorded_kernels(benchmark: Any, name: str) -> None:
    """Matrix products, from the listings kept with the recordings."""
    launch = prepare(str(TRACES / name), LaunchOptions(machine=True))
    with launch.device:
        _rate(
            benchmark,
            launch.function,
            launch.bundle.grid,
            launch.bundle.block,
            tuple(launch.arguments),
            launch.bundle.shared_mem,
        )


def big_module() -> str:
    """A kernel that becomes some 9 000 machine instructions."""
    return mixed_module(5, 1, "sm_90", 2700).replace("%c<99>", "%c<999>")


@needs_tools
def test_disassemble(benchmark: Any, tmp_path: Path) -> None:
    """nvdisasm, and what is kept of its listing."""
    source, cubin = tmp_path / "k.ptx", tmp_path / "k.cubin"
    source.write_text(big_module())
    ptxas, nvdisasm = find_ptxas(), find_nvdisasm()
    assert ptxas is not None
    run_ptxas(ptxas, source, cubin, "sm_90", "-lineinfo")

    def disassemble() -> str:
        command = [str(nvdisasm), "-gp", "-hex", str(cubin)]
        return trim(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    assert "EXIT" in benchmark.pedantic(disassemble, rounds=3)


@needs_tools
def test_decode(benchmark: Any) -> None:
    """From the kept listing to a program."""
    text = big_module()
    tree, listing = parse(text), assemble(text, "sm_90")
    program = benchmark.pedantic(lambda: ModuleCode(tree, listing, 90).program("k0"), rounds=3)
    benchmark.extra_info["instructions"] = len(program)
