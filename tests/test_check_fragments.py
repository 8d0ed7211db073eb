"""Fragment registers exchanged or used twice: of bytes, tf32, sparse A, weights handed on from a product, A of a warpgroup."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tcsim

FOLDER = Path(__file__).parent / "data" / "hazards"
SOURCE = (FOLDER / "fragments.cu").read_text().splitlines()


@pytest.fixture(scope="module")
def module() -> tcsim.RawModule:
    return tcsim.RawModule(path=FOLDER / "fragments.ptx")


def numbers(kind: Any, *shape: int) -> Any:
    values = 30 * np.random.default_rng(len(shape)).standard_normal(shape) / (1 if kind is np.int8 else 30)
    return tcsim.asarray(values.astype(kind))


def halves(*shape: int) -> Any:
    return numbers(np.float16, *shape)


# threads, arguments
LAUNCHES: dict[str, tuple[int, Callable[[], tuple[Any, ...]]]] = {
    "s8": (64, lambda: (numbers(np.int8, 16, 128), numbers(np.int8, 8, 128), tcsim.zeros(128, np.int32))),
    "e4m3": (64, lambda: (numbers(np.uint8, 16, 128), numbers(np.uint8, 8, 128), tcsim.zeros(128, np.float32))),
    "tf32": (32, lambda: (numbers(np.float32, 16, 32), numbers(np.float32, 8, 32), tcsim.zeros(128, np.float32))),
    "attention": (32, lambda: (halves(16, 16), halves(32, 16), halves(32, 16), tcsim.zeros(256, np.float32))),
    "warpgroup": (128, lambda: (halves(64, 32), halves(16, 32), tcsim.zeros(1024, np.float32))),
    "sparse": (32, lambda: (halves(16, 16), halves(8, 32), tcsim.zeros(128, np.float32))),
}


def check(module: tcsim.RawModule, name: str) -> tcsim.CheckReport:
    threads, arguments = LAUNCHES[name.partition("_")[0]]
    return tcsim.check(module.get_function(name), 1, threads, arguments(), fragments=True)


@pytest.mark.parametrize(
    ("name", "what", "order"),
    [
        ("s8_a", "operand A: registers exchanged", "{a0, a2, a1, a3}"),
        ("s8_twice", "operand A: registers a1 and a3 hold the same elements", ""),
        ("e4m3_b", "operand B: registers exchanged", "{b1, b0}"),
        ("tf32_a", "operand A: registers exchanged", "{a0, a2, a1, a3}"),
        ("attention_a", "operand A: registers exchanged", "{a0, a2, a1, a3}"),
        ("attention_b", "operand B: registers exchanged", "{b1, b0}"),
        ("attention_twice", "operand A: registers a1 and a3 hold the same elements", ""),
        ("warpgroup_a", "operand A: registers exchanged", "{a0, a2, a1, a3}"),
        ("warpgroup_twice", "operand A: registers a1 and a3 hold the same elements", ""),
        ("sparse_a", "operand A: registers exchanged", "{a0, a2, a1, a3}"),
        ("sparse_b", "operand B: registers exchanged", "{b1, b0, b2, b3}"),
    ],
)
def test_registers_in_disorder_are_found(module: tcsim.RawModule, name: str, what: str, order: str) -> None:
    (hazard,) = check(module, name).hazards
    assert (hazard.kind, hazard.what) == ("FRAGMENT", what) and hazard.suggestion.startswith(order)
    (access,) = hazard.accesses
    assert "mma" in access.opcode and access.file == "fragments.cu"
    assert (access.warp == 1) == name.startswith(("s8", "e4m3"))  # there, the first warp only copies


@pytest.mark.parametrize("name", LAUNCHES)
def test_registers_in_order_are_not(module: tcsim.RawModule, name: str) -> None:
    report = check(module, f"{name}_right")
    assert report.ok, report.text()


def test_the_weights_of_attention_are_right(module: tcsim.RawModule) -> None:
    """The kernel that nothing is found in computes what it should."""
    arguments = LAUNCHES["attention"][1]()
    module.get_function("attention_right")((1,), (32,), arguments)
    q, k, v, z = (tcsim.asnumpy(each).astype(np.float64) for each in arguments)
    weights = np.exp2(0.36 * (q @ k.T))
    assert np.abs(weights / weights.sum(axis=1, keepdims=True) @ v - z.reshape(16, 16)).max() < 2e-3
