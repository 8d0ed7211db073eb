"""Published recordings of tensor cores: 5,000 dot products for each GPU and type.

Recordings of Khattak and Mikaitis (``traces/published``): f16, bf16 and tf32 were run through ``wmma``, FP8 through
``mma.sync``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from isa.tensor import Rule, block_dot, find_rule
from isa.tensor.rules import FAMILIES

FILE = Path(__file__).resolve().parents[1] / "traces" / "published" / "tensor_cores.npz"
GPUS = {"V100": 70, "A100": 80, "L40S": 89, "B200": 100}
TYPES = {"f16": ("f32", "f16"), "bf16": ("f32",), "tf32": ("f32",), "e4m3": ("f32", "f16"), "e5m2": ("f32", "f16")}


@dataclass(frozen=True)
class Recording:
    a: np.ndarray
    b: np.ndarray
    c: np.ndarray
    d: np.ndarray
    rule: Rule
    a_type: str

    def wrong(self, rule: Rule) -> int:
        """How many outputs a rule does not reproduce."""
        return int((block_dot(self.a, self.b, self.c, rule, self.a_type) != self.d).sum())


def to_f16_bits(f32_bits: np.ndarray) -> np.ndarray:
    return f32_bits.view(np.float32).astype(np.float16).view(np.uint16).astype(np.uint32)


@cache
def recordings() -> dict[str, Recording]:
    """Every recorded result, by "GPU type result"."""
    found = {}
    with np.load(FILE) as data:
        for gpu, sm in GPUS.items():
            for a_type, results in TYPES.items():
                if f"{gpu}_{a_type}_a" not in data.files:
                    continue
                a, b, c = (data[f"{gpu}_{a_type}_{x}"] for x in "abc")
                if a_type == "tf32":  # stored as 19 bits
                    a, b = a << 13, b << 13
                for d_type in results:
                    key = f"{gpu}_{a_type}_d_fp{d_type[1:]}"
                    if key not in data.files:
                        continue
                    d, accumulator = data[key], c
                    if d_type == "f16":  # stored as the float32 numbers of the same value; C was rounded to f16
                        d, accumulator = to_f16_bits(d), to_f16_bits(c)
                    family = FAMILIES[a_type]
                    rule = find_rule(sm, "mma" if family == "fp8" else "wmma", family, d_type)
                    found[f"{gpu} {a_type} {d_type}"] = Recording(a, b, accumulator, d, rule, a_type)
        used = {f"{k.split()[0]}_{k.split()[1]}_d_fp{k.split()[2][1:]}" for k in found}
        assert used == {k for k in data.files if "_d_fp" in k}
    return found


NAMES = [
    "V100 f16 f32", "V100 f16 f16", "A100 f16 f32", "A100 f16 f16", "A100 bf16 f32", "A100 tf32 f32", "L40S f16 f32",
    "L40S f16 f16", "L40S bf16 f32", "L40S tf32 f32", "L40S e4m3 f32", "L40S e5m2 f32", "B200 f16 f32", "B200 f16 f16",
    "B200 bf16 f32", "B200 tf32 f32", "B200 e4m3 f32", "B200 e4m3 f16", "B200 e5m2 f32", "B200 e5m2 f16",
]  # fmt: skip


def test_all_recordings_are_used() -> None:
    assert sorted(recordings()) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_recordings_are_reproduced(name: str) -> None:
    recording = recordings()[name]
    assert len(recording.d) == 5000
    assert recording.wrong(recording.rule) == 0


@pytest.mark.parametrize("name", ["V100 f16 f32", "A100 f16 f32", "A100 bf16 f32", "L40S e4m3 f32", "B200 f16 f32"])
@pytest.mark.parametrize("off", [-1, 1])
def test_recordings_decide_the_fraction_bits(name: str, off: int) -> None:
    recording = recordings()[name]
    rule = recording.rule
    assert recording.wrong(replace(rule, fraction_bits=rule.fraction_bits + off)) > 0


@pytest.mark.parametrize("name", ["A100 f16 f32", "L40S bf16 f32", "L40S e5m2 f32", "B200 bf16 f32"])
def test_recordings_decide_the_products_of_a_step(name: str) -> None:
    recording = recordings()[name]
    rule = recording.rule
    assert recording.wrong(replace(rule, products=rule.products // 2)) > 0


def test_recordings_decide_that_fp8_on_blackwell_is_decomposed() -> None:
    recording = recordings()["B200 e4m3 f16"]
    assert recording.wrong(replace(recording.rule, method="fused", products=32)) > 1000
