"""How many warp-wide matrix instructions a core executes in a second.

    python -m pytest tests/benchmarks/bench_tensor.py --benchmark-columns=median,ops

Each round runs a compiled loop of 1,000 instructions; ``k_instructions_per_second`` in the extra information is what to
read.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import njit

from isa.tensor import MmaForm, find_form, make_plan
from isa.tensor.formats import FLOAT_FORMATS
from isa.tensor.forms import element_bits

LOOPS = 1000

FORMS = [
    (("m16n8k16", "f16", "f16", "f32", "f32"), 90, "ordinary"),
    (("m16n8k16", "f16", "f16", "f32", "f32"), 90, "raw"),
    (("m16n8k16", "f16", "f16", "f16", "f16"), 90, "ordinary"),
    (("m16n8k16", "bf16", "bf16", "f32", "f32"), 90, "ordinary"),
    (("m16n8k16", "f16", "f16", "f32", "f32"), 80, "ordinary"),
    (("m16n8k8", "tf32", "tf32", "f32", "f32"), 90, "ordinary"),
    (("m16n8k32", "e4m3", "e4m3", "f32", "f32"), 90, "ordinary"),
    (("m16n8k32", "e4m3", "e4m3", "f32", "f32"), 89, "ordinary"),
    (("m16n8k32", "s8", "s8", "s32", "s32"), 90, "raw"),
    (("m16n8k64", "s4", "s4", "s32", "s32"), 90, "raw"),
    (("m16n8k16", "f64", "f64", "f64", "f64"), 90, "ordinary"),
    (("m8n8k4", "f16", "f16", "f32", "f32"), 90, "ordinary"),
]


def operand(ptx_type: str, registers: int, word_bits: int, kind: str) -> np.ndarray:
    """``ordinary``: numbers between 1/2 and 2 of either sign; ``raw``: random bits, of which some are NaN or
    infinite."""
    rng = np.random.default_rng(registers)
    per_word = word_bits // element_bits(ptx_type)
    words = np.zeros((registers, 32), np.uint64)
    for position in range(per_word):
        bits = element_bits(ptx_type)
        x = rng.integers(0, 1 << min(bits, 63), words.shape, dtype=np.uint64)
        if kind == "ordinary":
            if ptx_type == "f64":
                x = rng.normal(size=words.shape).view(np.uint64)
            else:
                f = FLOAT_FORMATS[ptx_type]
                low = np.uint64(f.fraction_bits + f.ignored_low_bits)
                field = (x >> low & np.uint64(1)) + np.uint64(f.bias - 1)
                x = x & np.uint64(1 << (bits - 1) | (1 << int(low)) - 1) | field << low
        words |= x << np.uint64(position * bits)
    return words.astype(f"uint{word_bits}")


def ident(case: tuple[tuple[str, ...], int, str]) -> str:
    (shape, a, _, _, d), sm, kind = case
    return f"{shape}-{a}-{d}-sm_{sm}-{kind}"


@pytest.mark.parametrize("case", FORMS, ids=ident)
def test_instructions_per_second(benchmark: Any, case: tuple[tuple[str, ...], int, str]) -> None:
    types, sm, kind = case
    form: MmaForm = find_form("mma", *types)
    plan = make_plan(form, sm)
    kernel, numbers = plan.kernel, plan.numbers

    @njit
    def loop(d, a, b, c):  # type: ignore[no-untyped-def]
        for _ in range(LOOPS):
            kernel(d, a, b, c, numbers)

    names = {"a": form.a, "b": form.b, "c": form.c}
    c_kind = "raw" if form.c == "s32" else "ordinary"
    a, b, c = (
        operand(t, plan.registers[name], plan.word_bits, c_kind if name == "c" else kind) for name, t in names.items()
    )
    d = np.empty((plan.registers["d"], 32), a.dtype)
    loop(d, a, b, c)  # compile
    benchmark(loop, d, a, b, c)
    if benchmark.stats is not None:  # absent with --benchmark-disable
        benchmark.extra_info["k_instructions_per_second"] = round(LOOPS / benchmark.stats.stats.median / 1e3)
