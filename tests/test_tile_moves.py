"""``wmma.load`` and ``wmma.store``: which element goes where, against an H200."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import tcsim
from gpu_ref.tensor import tile_moves
from gpu_ref.tensor.tile_moves import MEMORY_WORDS, MOVES, Move

SAMPLE = [move for number, move in enumerate(MOVES) if number % 57 == 3]


def executed(text: str, memory: NDArray[np.uint32], stride: int) -> NDArray[np.uint32]:
    out = tcsim.zeros(MEMORY_WORDS, np.uint32)
    tcsim.RawModule(code=text).get_function(tile_moves.ENTRY)((1,), (32,), (tcsim.asarray(memory), out, np.uint32(stride)))
    return np.asarray(tcsim.asnumpy(out))


def recorded(traces: Path) -> dict[str, int]:
    with np.load(traces / "vectors" / "tile_moves.npz") as stored:
        return dict(zip(str(stored["names"]).split("\n"), map(int, stored["digests"]), strict=True))


def test_the_recording_has_every_move(traces: Path) -> None:
    assert recorded(traces).keys() == {move.name for move in MOVES}
    kinds = {(m.form.name.split(".")[1], str(m.form.params["shape"]), str(m.form.params["t"])) for m in MOVES}
    assert len(MOVES) == 456 and len(kinds) > 30


@pytest.mark.parametrize("move", SAMPLE, ids=lambda move: move.name)
def test_a_tile_goes_where_the_hardware_puts_it(move: Move, traces: Path) -> None:
    (ours,) = tile_moves.results(executed, (move,)).values()
    assert ours == recorded(traces)[move.name]
