"""Whose value stays, and who comes first, when the lanes of a warp meet at one place: against an H200."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import tcsim
from gpu_ref import lane_order
from gpu_ref.lane_order import ACCESSES, PATTERNS, WORDS, Access


def executed(access: Access, inputs: list[NDArray[np.uint32]]) -> list[NDArray[np.uint32]]:
    kernel = tcsim.RawModule(code=lane_order.ptx(access)).get_function(lane_order.ENTRY)
    found = []
    for words in inputs:
        out = tcsim.zeros(WORDS, np.uint32)
        kernel((2 if access.space == "cluster" else 1,), (32,), (tcsim.asarray(words), out))
        found.append(np.asarray(tcsim.asnumpy(out)))
    return found


def recorded(traces: Path) -> dict[str, list[int]]:
    with np.load(traces / "vectors" / "lane_order.npz") as stored:
        return dict(zip(str(stored["names"]).split("\n"), stored["digests"].tolist(), strict=True))


def test_the_recording_has_every_access(traces: Path) -> None:
    assert recorded(traces).keys() == {access.name for access in ACCESSES}
    assert all(len(digests) == PATTERNS for digests in recorded(traces).values())


@pytest.mark.parametrize("access", ACCESSES, ids=lambda access: access.name)
def test_lanes_meet_in_the_hardware_s_order(access: Access, traces: Path) -> None:
    (ours,) = lane_order.results(executed, (access,)).values()
    assert ours == recorded(traces)[access.name]
