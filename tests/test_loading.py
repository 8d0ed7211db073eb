"""Loading a module is quick, and compiles nothing that its kernel does not use."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pytest

import tcsim
from isa.kernels import cache
from isa.lower import lower, unsupported_in
from isa.ptx import parse
from tcsim.execute import loader

KERNELS = Path(__file__).parents[1] / "traces" / "kernels"
TWO = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry one(.param .u64 p)
{ .reg .b64 a; .reg .b32 r; ld.param.u64 a, [p]; mov.u32 r, 7; st.global.u32 [a], r; ret; }
.visible .entry other(.param .u64 p)
{ .reg .b64 a; .reg .f32 f; ld.param.u64 a, [p]; ld.global.f32 f, [a]; sin.approx.f32 f, f; st.global.f32 [a], f; ret; }
"""
SECONDS = 8.0
"""CPU time for 100,000 lines: twice what a 2.6 GHz core needs."""


def test_a_launch_compiles_only_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []

    def compile_kernels(specs: Iterable[Any], progress: Any = None) -> dict[str, int]:
        specs = list(specs)
        compiled.extend(spec.form.name for spec in specs)
        return real(specs, progress)

    real = cache.compile_kernels
    monkeypatch.setattr(loader, "compile_kernels", compile_kernels)
    module = tcsim.RawModule(code=TWO)
    one, _ = module.get_function("one"), module.get_function("other")
    assert compiled == []
    one((1,), (1,), (tcsim.zeros(1, np.uint32),))
    assert sorted(compiled) == ["ld.param.u64", "mov.u32", "st.global.u32"]


def test_parsing_and_lowering_are_quick() -> None:
    texts = [file.read_text() for file in sorted(KERNELS.glob("*.ptx"))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = process_time()
        for text in texts:
            module = parse(text)
            for kernel in module.functions:
                if kernel.kind == "entry" and not unsupported_in(kernel, module):
                    lower(module, kernel.name, sm=90)
        seconds = process_time() - start
    lines = sum(text.count("\n") for text in texts)
    assert lines > 10_000
    assert seconds * 100_000 / lines < SECONDS
