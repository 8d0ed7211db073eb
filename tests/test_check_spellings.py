"""Other spellings of what orders threads: acquire and release, named barriers, groups, waits in a part of a warp."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tcsim

FOLDER = Path(__file__).parent / "data" / "hazards"

# CTAs, threads, what the one with the bug is told
KERNELS = {
    "early_exit": (1, 128, "RACE"),
    "queue": (2, 32, "RACE"),
    "look_back": (4, 64, "RACE"),
    "ticket": (4, 32, "RACE"),
    "flag": (1, 64, "RACE"),
    "half_warps": (1, 128, "RACE"),
    "named": (1, 64, "RACE"),
    "part_of_a_warp": (1, 32, "INACTIVE SOURCE"),
}


def check(name: str, seed: int | None, file: str = "spellings") -> tcsim.CheckReport:
    module = tcsim.RawModule(path=FOLDER / f"{file}.ptx")  # each time anew, with its variables
    ctas, threads, _ = KERNELS[name.rpartition("_")[0]]
    arguments = (tcsim.asarray(np.arange(256, dtype=np.int32)), tcsim.zeros(256, np.int32))
    return tcsim.check(module.get_function(name), (ctas,), (threads,), arguments, seed=seed)


@pytest.mark.parametrize("name", KERNELS)
def test_right_and_wrong(name: str) -> None:
    for seed in (None, 5):
        right = check(f"{name}_right", seed)
        assert right.ok, right.text()
        wrong = check(f"{name}_wrong", seed)
        assert KERNELS[name][2] in wrong.kinds(), wrong.text()


def test_a_barrier_in_a_function_after_an_early_return() -> None:
    """As compilers leave it without optimisation."""
    assert check("early_exit_right", None, "early_exit_debug").ok
    assert "RACE" in check("early_exit_wrong", None, "early_exit_debug").kinds()
