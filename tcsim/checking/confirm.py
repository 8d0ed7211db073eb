"""Does anything depend on memory that was read before it was written? Launch again with other bytes there, and compare the
results.

Sorting networks and merges, for one, read an element past the end and throw it away.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcsim.errors import DeadlockError, KernelFault
from tcsim.execute.cluster import Cluster
from tcsim.execute.cta import CtaSlot
from tcsim.execute.grid import run_grid
from tcsim.execute.hostcalls import HostCalls, HostFault
from tcsim.memory import DeviceMemory

__all__ = ["Snapshot", "depends_on_unwritten"]

PATTERNS = (0xFF, 0x5A)
MOST_BYTES = 1 << 30
"""Device memory above this size is not kept, and then nothing is confirmed."""


class Snapshot:
    """The contents of device memory, or of the buffers only that hold one of the addresses ``places``."""

    def __init__(self, memory: DeviceMemory, places: Sequence[int] | None = None) -> None:
        self.memory, self.places = memory, places
        self.kept = {
            int(start): self._data(int(start)).copy()
            for start, end, _ in memory.table
            if end > start and (places is None or any(start <= place < end for place in places))
        }

    def _data(self, start: int) -> NDArray[np.uint8]:
        allocation = self.memory.nearest(start)
        assert allocation is not None
        return allocation.data

    @staticmethod
    def of(memory: DeviceMemory, places: Sequence[int] | None = None) -> Snapshot | None:
        """A snapshot, unless there is too much."""
        return Snapshot(memory, places) if memory.in_use <= MOST_BYTES else None

    def restore(self) -> None:
        """Put everything back."""
        for start, content in self.kept.items():
            self._data(start)[...] = content

    def equals_memory(self) -> bool:
        """Whether memory holds this now."""
        return all(np.array_equal(self._data(start), content) for start, content in self.kept.items())


class _Silent(HostCalls):
    def serve(self, warp: int, pc: int, lanes: int) -> None:
        raise HostFault("CALL", "a call that the first launch did not make", 0)


class _PoisonedSlot(CtaSlot):
    def __init__(self, *args: Any, pattern: int, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.pattern = pattern

        self.host = _Silent(self)

    def start(self, number: int) -> None:
        super().start(number)
        self.shared[...] = self.pattern
        self.local[...] = self.pattern


def depends_on_unwritten(before: Snapshot, make_cluster: Callable[..., Cluster], clusters: int, resident: int) -> bool:
    """Whether a launch leaves other results if its shared and local memory start with other bytes than zeros.

    before: memory at the start of the launch; it holds the launch's results now, and does so again afterwards. make_cluster:
    called with the class of its slots and its ``pattern``.
    """
    after = Snapshot(before.memory, before.places)
    try:
        for pattern in PATTERNS:
            before.restore()
            try:
                run_grid(partial(make_cluster, _PoisonedSlot, pattern=pattern), clusters, resident)
            except (KernelFault, DeadlockError):
                return True
            if not after.equals_memory():
                return True
        return False
    finally:
        after.restore()
