"""A CTA slot: the state of a CTA and its memories, reused for one CTA after another."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from isa import machine
from isa.program import Program
from isa.reserved import RESERVED_END, RESERVED_SHARED, all_shared
from tcsim.execute.convergence import group_table
from tcsim.execute.faults import host_fault
from tcsim.execute.hostcalls import HostCalls, HostFault, prepare_heap
from tcsim.execute.interpreter import Outcome
from tcsim.execute.loader import LoadedProgram
from tcsim.execute.recorder import Recorder
from tcsim.execute.start import SLOT_SM, slot_table, start_and_run
from tcsim.execute.state import (
    COUNT_FAULT_PC,
    COUNT_FAULT_WARP,
    COUNT_INSTRUCTIONS,
    COUNT_LANES,
    CtaArrays,
    new_cta_arrays,
)
from tcsim.memory import DeviceMemory

__all__ = ["CtaSlot", "Geometry"]

Dim3 = tuple[int, int, int]

INSISTING = 1 << 10
"""Warp instructions to run before looking again whether waiting helps."""


def _reserves_behind(program: Program) -> bool:
    """Whether a program uses shared memory that the system has behind the CTA's own (:mod:`isa.reserved`)."""
    return not program.reserved_shared and any(name.startswith("reserved_smem_offset") for name in program.specials)


class Geometry:
    """The shape of a launch: grid and block extents, dynamic shared memory in bytes, extents of a cluster in CTAs.

    ``workspace``: the device address of what a cooperative launch's grid barriers need, 0 for any other launch. ``machines``:
    the machine words (:mod:`isa.machine`) of all slots of the launch, for what is to be told after it. ``registers``: by rank,
    what its slots have in common.
    """

    def __init__(self, grid: Dim3, block: Dim3, dynamic_shared: int, cluster: Dim3 | None = None) -> None:
        self.grid, self.block, self.dynamic_shared = grid, block, dynamic_shared
        self.is_clustered = cluster is not None
        self.cluster: Dim3 = cluster or (1, 1, 1)
        self.cluster_size = self.cluster[0] * self.cluster[1] * self.cluster[2]
        self.clusters: Dim3 = tuple(a // b for a, b in zip(grid, self.cluster, strict=True))  # type: ignore[assignment]
        self.threads = block[0] * block[1] * block[2]
        self.warps = -(-self.threads // 32)
        self.ctas = grid[0] * grid[1] * grid[2]
        self.workspace = 0
        self.machines: list[NDArray[np.int64]] = []
        self.registers: dict[int, NDArray[np.uint32]] = {}

    def cta_index(self, number: int) -> Dim3:
        """The (x, y, z) of a CTA given by its number in launch order, x fastest."""
        return _unfold(number, self.grid)

    def members(self, cluster: int) -> list[int]:
        """The CTA numbers of a cluster given by its number in launch order, by rank (x fastest)."""
        if self.cluster_size == 1:
            return [cluster]
        corner = [a * b for a, b in zip(_unfold(cluster, self.clusters), self.cluster, strict=True)]
        numbers = []
        for rank in range(self.cluster_size):
            x, y, z = (a + b for a, b in zip(corner, _unfold(rank, self.cluster), strict=True))
            numbers.append(x + self.grid[0] * (y + self.grid[1] * z))
        return numbers


def _unfold(number: int, extents: Dim3) -> Dim3:
    x, rest = number % extents[0], number // extents[0]
    return x, rest % extents[1], rest // extents[1]


class CtaSlot:
    """Registers, shared, local and parameter memory for one CTA at a time.

    ``number``: the CTA that occupies it; ``rank``: its place in its cluster, always the same; ``sm``: where the next CTA runs.
    :meth:`start` puts a CTA in, :meth:`run` runs it. ``address``: that of its table (:mod:`tcsim.execute.start`).
    """

    def __init__(
        self,
        loaded: LoadedProgram,
        geometry: Geometry,
        memory: DeviceMemory,
        parameters: NDArray[np.uint8],
        *,
        sm_count: int,
        sm: int = 0,
        rank: int = 0,
        recorder: Recorder | None = None,
    ) -> None:
        program = loaded.program
        self.loaded, self.geometry, self.memory = loaded, geometry, memory
        self.arrays: CtaArrays = new_cta_arrays(geometry.warps, program.block_words)
        self.recorder = recorder
        shared = program.static_shared + geometry.dynamic_shared
        shared = all_shared(shared) if _reserves_behind(program) else program.reserved_shared + shared
        self.shared = np.zeros(max(1, shared), np.uint8)
        self.local = np.zeros(max(1, program.local_size * geometry.warps * 32), np.uint8)
        self.parameters = parameters
        self.number = -1
        self.rank, self.sm = rank, sm
        self.host: HostCalls | None = None  # what serves calls of the host in place of the usual
        self.ctx = np.zeros(machine.WORDS, np.int64)
        geometry.machines.append(self.ctx)
        ctx = self.ctx
        ctx[machine.SHARED_HOST], ctx[machine.SHARED_SIZE] = self._host(self.shared), shared
        ctx[machine.LOCAL_HOST], ctx[machine.LOCAL_SIZE] = self._host(self.local), program.local_size
        ctx[machine.PARAM_HOST], ctx[machine.PARAM_SIZE] = self._host(parameters), program.param_size
        if rank not in geometry.registers:  # before the table of allocations is taken
            prepare_heap(program, memory)
        ctx[machine.ALLOCATIONS] = memory.table.ctypes.data
        ctx[machine.ALLOCATION_COUNT] = len(memory.table)
        self.table = memory.table  # kept alive while compiled code points to it
        self.arrived = np.zeros(geometry.warps, np.uint32)  # at the cluster's barrier
        self.phases = np.zeros(geometry.warps * 32, np.int32)
        ctx[machine.CONSTANTS], ctx[machine.CONSTANT_COUNT] = loaded.variables.ctypes.data, len(loaded.variables)
        ctx[machine.RANK] = rank
        if program.image is not None:
            self.groups = group_table(self.arrays, loaded.native.code, loaded.native.pool)
            ctx[machine.GROUPS] = self.groups.ctypes.data
        self._fill_registers(sm_count)
        self._places = np.array(list(self._place_registers()), np.int64).reshape(-1, 3)
        self._table = slot_table(
            self.arrays,
            loaded.native,
            ctx,
            recorder.address if recorder is not None else 0,
            (self.shared, self.local, self.arrived, self.phases),
            geometry.threads,
            geometry.grid,
            self._places,
        )
        self.address = int(self._table.ctypes.data)

    @staticmethod
    def _host(array: NDArray[np.uint8]) -> int:
        return int(array.ctypes.data)

    def _fill_registers(self, sm_count: int) -> None:
        """The registers that stay the same for every CTA of a rank."""
        program, known = self.loaded.program, self.geometry.registers.get(self.rank)
        if known is None:
            self.loaded.fill_constants(self.arrays, self.rank)
            for offset, plane in program.image.planes if program.image is not None else ():
                word = self.parameters[offset : offset + 4].view(np.uint32)[0]
                self.arrays.blocks[:, plane // 4 : plane // 4 + 32] = word
            self._fill_specials(sm_count)
            self.geometry.registers[self.rank] = self.arrays.blocks.copy()
        else:
            self.arrays.blocks[...] = known

    def _fill_specials(self, sm_count: int) -> None:
        geometry = self.geometry
        thread = np.arange(geometry.warps * 32)
        lane = np.arange(32, dtype=np.int64)
        shared = self.loaded.program.static_shared + geometry.dynamic_shared
        block, grid, cluster = geometry.block, geometry.grid, geometry.cluster
        values: dict[str, object] = {
            "tid.x": thread % block[0],
            "tid.y": thread // block[0] % block[1],
            "tid.z": thread // (block[0] * block[1]),
            "laneid": thread % 32,
            "warpid": thread // 32,
            "nwarpid": 64,
            "virtid": thread // 32 << 8,  # of machine code: %warpid and %nwarpid, moved
            "virtcfg": 64 << 8,
            "nsmid": sm_count,
            "gridid": 1,
            "lanemask_eq": np.tile(1 << lane, geometry.warps),
            "lanemask_lt": np.tile((1 << lane) - 1, geometry.warps),
            "lanemask_le": np.tile((2 << lane) - 1, geometry.warps),
            "lanemask_gt": np.tile(0xFFFF_FFFF & ~((2 << lane) - 1), geometry.warps),
            "lanemask_ge": np.tile(0xFFFF_FFFF & ~((1 << lane) - 1), geometry.warps),
            "dynamic_smem_size": geometry.dynamic_shared,
            # As an H200 has them: in units of 128 bytes; and with what the system reserves.
            "total_smem_size": -(-shared // 128) * 128,
            "aggr_smem_size": shared + RESERVED_SHARED,
            "reserved_smem_offset_cap": RESERVED_SHARED,
            "reserved_smem_offset_end": RESERVED_END,  # of PTX; machine code reads the constant banks
            "smemsz": all_shared(shared),  # of machine code
            "cluster_ctarank": self.rank,
            "cluster_nctarank": geometry.cluster_size,
            "is_explicit_cluster": 0xFFFF_FFFF if geometry.is_clustered else 0,  # a predicate
            # Where cooperative groups look for their workspace (driver_abi.h of CUDA 13).
            "envreg1": geometry.workspace >> 32,
            "envreg2": geometry.workspace & 0xFFFF_FFFF,
        }
        place = _unfold(self.rank, cluster)
        for axis, number in zip("xyz", range(3), strict=True):
            values[f"ntid.{axis}"] = block[number]
            values[f"nctaid.{axis}"] = grid[number]
            values[f"nclusterid.{axis}"] = geometry.clusters[number]
            values[f"cluster_ctaid.{axis}"] = place[number]
            values[f"cluster_nctaid.{axis}"] = cluster[number]
        for name, offset in self.loaded.program.specials.items():
            if not name.startswith(("ctaid", "clusterid")):
                name = f"{name}.x" if f"{name}.x" in values else name
                self._set(offset, values.get(name, 0))

    def _place_registers(self) -> Iterator[tuple[int, int, int]]:
        """The special registers that say which CTA it is, and on which SM: the place of each in a block, its axis (SM: 4), and
        what to divide by."""
        for name, offset in self.loaded.program.specials.items():
            if name == "smid":
                yield offset // 4, 4, 1
            elif name.startswith(("ctaid", "clusterid")):
                axis = "xyzw".index(name.partition(".")[2] or "x")
                yield offset // 4, axis, self.geometry.cluster[axis] if name.startswith("clusterid") and axis < 3 else 1

    def _set(self, offset: int, value: object) -> None:
        lanes = np.broadcast_to(np.asarray(value, np.int64), (self.geometry.warps * 32,)).reshape(-1, 32)
        # Every special register has a pair of planes, so that it can be read as 32 or as 64 bits.
        self.arrays.blocks[:, offset // 4 : offset // 4 + 32] = lanes.astype(np.uint32)
        self.arrays.blocks[:, offset // 4 + 32 : offset // 4 + 64] = (lanes >> 32).astype(np.uint32)

    def start(self, number: int) -> None:
        """Put CTA ``number`` (in launch order) into the slot. Shared and local memory start zeroed."""
        self.number = number
        self._table[SLOT_SM] = self.sm
        start_and_run(self.address, number, 0)

    def run(self, budget: int) -> int:
        """Run for about ``budget`` warp instructions; returns an Outcome or a fault code. WAITING: no thread can go on before
        something comes from outside, or before :meth:`insist`.

        Raises KernelFault for what the kernel asks of the host in vain.
        """
        counters = self.arrays.counters
        while True:
            status = start_and_run(self.address, -1, budget)
            if status != Outcome.HOST_CALL:
                return status
            warp, pc = int(counters[COUNT_FAULT_WARP]), int(counters[COUNT_FAULT_PC])
            try:
                (self.host or HostCalls(self)).serve(warp, pc, int(counters[COUNT_LANES]) & 0xFFFF_FFFF)
            except HostFault as problem:
                raise host_fault(self, problem) from None

    def insist(self, level: int) -> int:
        """Run a little although all wait: level 1 lets threads that wait only to converge go on, 2 lets waits time out."""
        self.ctx[machine.IMPATIENT] = level
        try:
            return self.run(INSISTING)
        finally:
            self.ctx[machine.IMPATIENT] = 0

    @property
    def instructions(self) -> int:
        """Warp instructions executed by the CTA in the slot."""
        return int(self.arrays.counters[COUNT_INSTRUCTIONS])
