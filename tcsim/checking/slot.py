"""A CTA slot whose program is hooked, with the tables that its hooks use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa import machine
from tcsim.checking.layout import (
    CHECKER,
    G_SEQUENCE,
    MB_WORDS,
    MBARRIERS,
    PHASES,
    RING,
    SEEN,
    SEEN_WORDS,
    T_ARRIVED,
    T_BEGIN,
    T_BULK_DONE,
    T_BULK_OPEN,
    T_BULK_READ,
    T_BULK_WAITED,
    T_CELLS,
    T_CLUSTER_PHASE,
    T_CLUSTER_STAMPS,
    T_CTA,
    T_DONE,
    T_FENCE_AT,
    T_FENCED,
    T_FLOOR,
    T_GATHERED,
    T_GRID,
    T_GROUP_MASKS,
    T_GROUP_PLACES,
    T_LANES,
    T_LIVE,
    T_LOCAL,
    T_LOCAL_SIZE,
    T_MBARRIER_CLOCKS,
    T_MBARRIER_COUNT,
    T_MBARRIER_WAITED,
    T_MBARRIERS,
    T_MY_PHASE,
    T_NEEDED,
    T_NUMERIC,
    T_OPEN,
    T_OTHERS,
    T_PEERS,
    T_PHASE,
    T_PRODUCT_DONE,
    T_PRODUCT_OPEN,
    T_PRODUCT_REGISTERS,
    T_PRODUCT_WAITED,
    T_RANK,
    T_SEEN,
    T_SHARED_BITS,
    T_SHARED_SIZE,
    T_WAITED,
    T_WARP_FLOOR,
    T_WARPS,
    T_WORDS,
    T_WRITTEN,
)
from tcsim.checking.numerics import KEPT
from tcsim.checking.tables import GridTables, new_cells
from tcsim.execute.cluster import Cluster
from tcsim.execute.cta import CtaSlot, Geometry
from tcsim.execute.hostcalls import HostCalls
from tcsim.execute.state import BARRIERS

__all__ = ["CheckedCluster", "CheckedSlot", "Order"]


@dataclass(frozen=True)
class Order:
    """In which order clusters start and warps take turns: number in the executor -> number in the kernel."""

    clusters: NDArray[np.int64] | None
    warps: tuple[int, ...]

    @staticmethod
    def of(geometry: Geometry, seed: int | None, together: int = 1) -> Order:
        """The executor's own order, or a random one. A warp that is not full keeps its place. ``together``: how many warps
        follow each other in any order, as the four of a warpgroup must."""
        warps = list(range(geometry.warps))
        if seed is None:
            return Order(None, tuple(warps))
        rng = np.random.default_rng(seed)
        groups = geometry.threads // (32 * together)
        warps[: groups * together] = [int(g) * together + w for g in rng.permutation(groups) for w in range(together)]
        return Order(rng.permutation(geometry.ctas // geometry.cluster_size), tuple(warps))


class _Tables(dict[int, NDArray[Any]]):
    """Tables side by side in one block of memory, which is emptied at once."""

    def __init__(self, shapes: Mapping[int, tuple[type[np.generic], tuple[int, ...]]]) -> None:
        super().__init__()
        sizes = {word: -(-int(np.prod(shape)) * np.dtype(kind).itemsize // 8) + 1 for word, (kind, shape) in shapes.items()}
        self.block = np.zeros(sum(sizes.values()), np.int64)
        start = 0
        for word, (kind, shape) in shapes.items():
            flat = self.block[start : start + sizes[word]].view(kind)
            self[word] = flat[: int(np.prod(shape))].reshape(shape)
            start += sizes[word]


class _Listener(HostCalls):
    """Serves calls, and remembers that there were any: a launch that prints cannot be repeated in silence."""

    def serve(self, warp: int, pc: int, lanes: int) -> None:
        """Serve a call."""
        assert isinstance(self.slot, CheckedSlot)
        self.slot.grid.talked = True
        super().serve(warp, pc, lanes)


class CheckedSlot(CtaSlot):
    """Runs CTAs of an instrumented program in a given order, and keeps what their threads know."""

    def __init__(self, *args: Any, grid: GridTables, order: Order, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.grid, self.order = grid, order
        self.host = _Listener(self)
        self.peers = np.zeros(machine.MOST_CTAS, np.int64)
        warps, threads = self.geometry.warps, 32 * self.geometry.warps
        shared = len(self.shared)
        local = max(1, self.loaded.program.local_size)
        tracked, products = len(grid.hooked.tracked.names), len(grid.hooked.products.names)
        self.emptied = _Tables(
            {
                T_LANES: (np.uint32, (warps, 32, 32)),
                T_WARP_FLOOR: (np.int64, (warps,)),
                T_OTHERS: (np.uint32, (warps, threads)),
                T_ARRIVED: (np.uint32, (BARRIERS, warps)),
                T_NEEDED: (np.int64, (BARRIERS,)),
                T_PHASE: (np.int64, (BARRIERS,)),
                T_GATHERED: (np.uint32, (BARRIERS, PHASES, threads + 1)),
                T_MY_PHASE: (np.int64, (BARRIERS, warps)),
                T_OPEN: (np.int64, (threads,)),
                T_DONE: (np.int64, (threads,)),
                T_LOCAL: (np.uint8, (threads, local)),
                T_WRITTEN: (np.uint8, (warps, tracked, 32)),
                T_PRODUCT_REGISTERS: (np.int64, (warps, products)),
                T_FENCED: (np.uint32, (threads + 1,)),
                T_BULK_OPEN: (np.int64, (threads,)),
                T_BULK_READ: (np.int64, (threads,)),
                T_BULK_DONE: (np.int64, (threads,)),
                T_PRODUCT_OPEN: (np.int64, (warps,)),
                T_PRODUCT_DONE: (np.int64, (warps,)),
                T_FENCE_AT: (np.int64, (warps,)),
                T_CLUSTER_PHASE: (np.int64, (warps, 2)),
                T_CLUSTER_STAMPS: (np.int64, (PHASES,)),
                T_SEEN: (np.int64, (warps, SEEN, SEEN_WORDS)),
            }
        )
        self.kept: dict[int, NDArray[Any]] = {  # other words say what of them means anything for the CTA in the slot
            T_CELLS: new_cells((shared >> grid.plan.shared_bits) + 1),
            T_WAITED: np.zeros((threads, RING), np.uint32),
            T_NUMERIC: np.zeros((warps, KEPT, 32), np.uint32),
            T_BULK_WAITED: np.zeros((threads, 2, RING), np.uint32),
            T_PRODUCT_WAITED: np.zeros((warps, RING), np.uint32),
            T_MBARRIERS: np.zeros((MBARRIERS, MB_WORDS), np.int64),
            T_MBARRIER_CLOCKS: np.zeros((MBARRIERS, 2, threads + 1), np.uint32),
            T_MBARRIER_WAITED: np.zeros((MBARRIERS, RING, warps, 2), np.uint32),
        }
        self.state = np.zeros(T_WORDS, np.int64)
        for word, array in (*self.kept.items(), *self.emptied.items()):
            self.state[word] = array.ctypes.data
        self.state[T_GRID] = grid.table.ctypes.data
        self.state[T_WARPS] = warps
        self.state[T_SHARED_BITS], self.state[T_SHARED_SIZE] = grid.plan.shared_bits, int(self.ctx[machine.SHARED_SIZE])
        self.state[T_LOCAL_SIZE] = local
        self.state[T_LIVE] = self.arrays.live.ctypes.data
        self.state[T_GROUP_MASKS], self.state[T_GROUP_PLACES] = self.arrays.mask.ctypes.data, self.arrays.pc.ctypes.data
        self.state[T_RANK] = self.rank
        self.state[T_PEERS] = self.peers.ctypes.data
        self.ctx[CHECKER] = self.state.ctypes.data
        self._exchange_warps()

    def _exchange_warps(self) -> None:
        """Let row w of the executor be warp ``order.warps[w]``: special registers are all that makes a thread itself."""
        blocks, rows = self.arrays.blocks, list(self.order.warps)
        for name, offset in self.loaded.program.specials.items():
            if name.startswith(("tid", "warpid", "virtid")):
                blocks[:, offset // 4 : offset // 4 + 64] = blocks[rows, offset // 4 : offset // 4 + 64]

    def start(self, number: int) -> None:
        """Put a CTA into the slot. Nothing is known yet, and nothing written."""
        super().start(number)
        grid = self.grid.table
        grid[G_SEQUENCE] += 1
        self.state[T_CTA], self.state[T_BEGIN] = number, grid[G_SEQUENCE]
        self.state[T_FLOOR] = self.state[T_MBARRIER_COUNT] = 0
        self.emptied.block[...] = 0
        for word in (T_OPEN, T_BULK_OPEN, T_PRODUCT_OPEN):
            self.emptied[word][...] = 1


class CheckedCluster(Cluster):
    """Clusters in a given order, whose CTAs see what is known of each other's shared memory."""

    def __init__(self, make_slot: Callable[[int], CheckedSlot], size: int, order: Order) -> None:
        super().__init__(make_slot, size)
        self.order = order
        for slot in self.slots:
            for other in self.slots:
                assert isinstance(slot, CheckedSlot) and isinstance(other, CheckedSlot)
                slot.peers[other.rank] = other.state.ctypes.data

    def start(self, number: int) -> None:
        """Put the next cluster of the order into the slots."""
        super().start(int(self.order.clusters[number]) if self.order.clusters is not None else number)
