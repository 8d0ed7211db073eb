"""The tables that the hooks of a launch share, whatever CTA they run in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from isa.program import KIND, Kind
from tcsim.checking.hooked import HookedProgram
from tcsim.checking.layout import (
    CELL_WORDS,
    FINDING_WORDS,
    G_ACQUIRED,
    G_ACQUIRED_CTA,
    G_ARRIVES,
    G_CAPACITY,
    G_FINDINGS,
    G_FOUND,
    G_GLOBAL_BITS,
    G_LOST,
    G_META,
    G_NUMERICS,
    G_POOL,
    G_REGION_COUNT,
    G_REGIONS,
    G_RELEASED,
    G_RELEASED_CTA,
    G_SEQUENCE,
    G_TILES,
    G_WORDS,
    ONLY_READ,
)
from tcsim.checking.numerics import NUMERIC_WORDS
from tcsim.execute.cta import Geometry
from tcsim.execute.state import aligned
from tcsim.memory import DeviceMemory

__all__ = ["GridTables", "new_cells"]

CAPACITY = 256
"""Distinct findings kept of a launch."""

SHADOW_BYTES = 1 << 33
"""Most bytes of cells for global memory. They are taken from the system as they are touched."""


def new_cells(granules: int) -> NDArray[np.uint32]:
    """Cells of which nothing is known, uint32 [granules or a little more, CELL_WORDS]. A cell is a line of the host's cache."""
    per_row = 32 // CELL_WORDS
    return aligned(-(-granules // per_row), 32).reshape(-1, CELL_WORDS)


class GridTables:
    """What all CTAs of a launch share: the counter, findings, what is known of global memory. ``writable``: addresses in all
    the buffers that stores of the launch are meant for; None: any."""

    def __init__(self, hooked: HookedProgram, geometry: Geometry, memory: DeviceMemory, writable: Sequence[int] | None) -> None:
        plan, pool = hooked.plan, hooked.loaded.pool
        self.hooked, self.plan, self.program = hooked, plan, hooked.loaded.program
        self.findings = np.zeros((CAPACITY, FINDING_WORDS), np.int64)
        self.numerics = np.zeros((len(plan.meta), NUMERIC_WORDS), np.int64)
        agents = geometry.ctas * geometry.warps
        self.released, self.acquired, self.released_cta, self.acquired_cta = (np.zeros(agents, np.int64) for _ in range(4))
        self.pool = pool
        self.left_out: list[int] = []
        self.talked = False  # whether a thread has called a function of the host, such as printf
        self.cells: list[NDArray[np.uint32]] = []
        self.regions = self._regions(memory, writable)
        self.table = np.zeros(G_WORDS, np.int64)
        table = self.table
        table[G_SEQUENCE], table[G_CAPACITY], table[G_GLOBAL_BITS] = 1, CAPACITY, plan.global_bits
        table[G_REGION_COUNT] = len(self.regions)
        table[G_ARRIVES] = int((self.program.code[:, KIND] == Kind.BARRIER_ARRIVE).any())
        for word, array in (
            (G_FINDINGS, self.findings),
            (G_META, plan.meta),
            (G_POOL, pool),
            (G_TILES, plan.tiles),
            (G_RELEASED, self.released),
            (G_ACQUIRED, self.acquired),
            (G_RELEASED_CTA, self.released_cta),
            (G_ACQUIRED_CTA, self.acquired_cta),
            (G_REGIONS, self.regions),
            (G_NUMERICS, self.numerics),
        ):
            table[word] = array.ctypes.data

    def _regions(self, memory: DeviceMemory, writable: Sequence[int] | None) -> NDArray[np.int64]:
        """(start, end, cells, host address) of every allocation; cells 0 where nothing is kept, ONLY_READ where that is because
        no store is meant to go there."""
        rows = []
        left = SHADOW_BYTES
        for start, end, host in memory.table:
            granules = (int(end - start) >> self.plan.global_bits) + 1
            address = 0
            if writable is not None and not any(start <= pointer < end for pointer in writable):
                address = ONLY_READ
            elif self.plan.writes_global and end > start:
                if granules * 4 * CELL_WORDS <= left:
                    left -= granules * 4 * CELL_WORDS
                    self.cells.append(new_cells(granules))
                    address = self.cells[-1].ctypes.data
                else:
                    self.left_out.append(int(end - start))
            rows.append((int(start), int(end), address, int(host)))
        return np.array(rows, np.int64).reshape(-1, 4)

    @property
    def found(self) -> NDArray[np.int64]:
        """The findings so far, a row each."""
        return self.findings[: int(self.table[G_FOUND])]

    @property
    def lost(self) -> int:
        """Findings for which there was no room."""
        return int(self.table[G_LOST])
