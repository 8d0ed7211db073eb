"""The shared-memory accesses of a launch: what each instruction took over the launch, and the worst single one.

The launch is executed, not timed. Counts come from the recorder that the timing model reads, so they are its counts. Where
addresses are wanted, warps stop before the instruction, as they do before one that reads the clock, and their address
registers are read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from isa.machine import CLOCK, GENERIC, GLOBAL_TIMER, SHARED, SHARED_BITS, SHARED_WINDOW, WINDOW_BITS
from isa.program import GUARD, OPERANDS, MemoryAccess, Program, TilePattern
from tcsim.execute.cluster import Cluster
from tcsim.execute.cta import CtaSlot, Geometry
from tcsim.execute.grid import run_grid
from tcsim.execute.interpreter import Outcome
from tcsim.execute.recorder import Recorder, new_counts, new_recorder
from tcsim.execute.state import GroupState
from tcsim.lanes.bank_access import BankAccess, fewest_wavefronts
from tcsim.profiler import Profiler

if TYPE_CHECKING:
    from tcsim.launch.launch import Launch
    from tcsim.launch.occupancy import Occupancy

__all__ = ["Occurrence", "SharedAccesses", "SharedInstruction", "may_access_shared"]

_RECORDS = 1024
_MOST_PATTERNS = 64
"""Different sets of addresses of an instruction that are kept, to try remedies on."""


@dataclass(frozen=True)
class Occurrence:
    """One access: by which warp of which CTA (x, y, z), the how-manieth of the instruction in that warp (from 1 on)."""

    access: BankAccess
    cta: tuple[int, int, int]
    warp: int
    number: int


@dataclass
class SharedInstruction:
    """An instruction that accesses shared memory, and its totals over the launch.

    ``requests``: accesses (a wmma load or store has one per register); ``wavefronts`` that they took, ``ideal`` without
    conflicts, and ``conflicts`` above that. Where addresses were asked for: the ``first`` and the ``worst`` access, and the
    different ``patterns`` that there were (the first 64).
    """

    pc: int
    opcode: str
    where: str
    ptx_line: int
    file: str
    line: int
    kind: str
    width: int
    ideal_each: int
    requests: int = 0
    wavefronts: int = 0
    conflicts: int = 0
    first: Occurrence | None = None
    worst: Occurrence | None = None
    patterns: dict[bytes, BankAccess] = field(default_factory=dict)

    @property
    def ideal(self) -> int:
        return self.requests * self.ideal_each


def may_access_shared(access: MemoryAccess | None) -> bool:
    """Whether an instruction can access shared memory: by its state space, by a generic address, or as the target of a copy. Of
    mbarrier objects nobody wants to know the banks."""
    if access is None or access.kind == "mbarrier":
        return False
    return access.space in (SHARED, GENERIC) or access.second_operand >= 0


class SharedAccesses(Profiler):
    """Runs the launches made while it is entered and watches shared memory. ``addresses_of``: which instructions' addresses to
    read, given the program and the index of one. ``found``: after a launch, its instructions in the order of the program.
    """

    def __init__(self, addresses_of: Callable[[Program, int], bool] = lambda program, pc: False) -> None:
        super().__init__(code="ptx")
        self._addresses_of = addresses_of
        self.found: list[SharedInstruction] = []

    def run(
        self,
        launch: Launch,
        geometry: Geometry,
        parameters: NDArray[np.uint8],
        residency: Occupancy,
        progress: Callable[[int, int], None] | None,
    ) -> int:
        """Execute a launch and count; raises what any launch raises."""
        program, sms = launch.loaded.program, launch.device.arch.limits.sms
        found = {pc: _instruction(program, pc) for pc in range(len(program)) if may_access_shared(program.memory[pc])}
        stops = [pc for pc in found if self._addresses_of(program, pc)]
        counts = new_counts(program)

        def make_slot(rank: int) -> CtaSlot:
            recorder = new_recorder(program, geometry.warps, _RECORDS, launch.loaded.native.pool, counts)
            slot = _WatchedSlot(
                launch.loaded, geometry, launch.device.memory, parameters, sm_count=sms, rank=rank, recorder=recorder
            )
            slot.watch(found, stops)
            return slot

        size = geometry.cluster_size
        resident = max(1, residency.ctas * sms // size)
        executed = run_grid(lambda: Cluster(make_slot, size), geometry.ctas // size, resident, progress)
        self.found = [each for each in found.values() if each.requests]
        return executed


def _instruction(program: Program, pc: int) -> SharedInstruction:
    access, loc = program.memory[pc], program.locs[pc]
    assert access is not None
    file, line = (program.files.get(loc.file, ""), loc.line) if loc is not None else ("", 0)
    tile = access.tile
    width = access.size if tile is None else max(4, tile.elements * tile.bits // 8)
    ideal = fewest_wavefronts(access.size, access.rows)
    where = program.where(pc)
    return SharedInstruction(pc, program.opcodes[pc], where, int(program.lines[pc]), file, line, access.kind, width, ideal)


class _WatchedSlot(CtaSlot):
    """A CTA slot that empties its recorder itself and stops warps before chosen instructions."""

    recorder: Recorder

    def watch(self, found: dict[int, SharedInstruction], stops: Collection[int]) -> None:
        """Count ``found``; stop before ``stops``."""
        self._found, self._stops = found, frozenset(stops)
        self._interesting = np.zeros(len(self.recorder.timed), np.bool_)
        self._interesting[list(found)] = True
        self.recorder.timed[list(stops)] = True
        self._seen: dict[tuple[int, int], int] = {}

    def start(self, number: int) -> None:
        super().start(number)
        self.recorder.permits[...] = 0
        self._seen.clear()

    def run(self, budget: int) -> int:
        left = budget
        while True:
            before = self.instructions
            status = super().run(left)
            self._count()
            left -= self.instructions - before
            if status != Outcome.PAUSED or left <= 0:
                return status
            for warp in range(self.geometry.warps):
                self._let_go(warp)

    # ------------------------------------------------------------------------------------------------------- totals

    def _count(self) -> None:
        """Add up what the recorder holds, and empty it."""
        recorder = self.recorder
        for warp in range(self.geometry.warps):
            count = int(recorder.used[warp, 0])
            pcs, payload = recorder.pcs[warp, :count], recorder.payload[warp, :count]
            chosen = self._interesting[pcs] & (payload >= 0)
            pcs, payload = pcs[chosen], payload[chosen]
            for pc in np.unique(pcs).tolist():
                self._add(self._found[pc], recorder.words[warp], payload[pcs == pc])
        recorder.used[...] = 0

    def _add(self, entry: SharedInstruction, words: NDArray[np.int64], at: NDArray[np.int32]) -> None:
        """``at``: where the payloads start. That of shared memory is (wavefronts, -1), of device memory it has sectors."""
        at = at[words[at + 1] == -1]
        access = self._program.memory[entry.pc]
        assert access is not None
        for part in range(access.tile.registers if access.tile is not None else 1):
            taken = words[at + 2 * part]
            entry.requests += len(taken)
            entry.wavefronts += int(taken.sum())
            entry.conflicts += int(np.maximum(taken - entry.ideal_each, 0).sum())

    @property
    def _program(self) -> Program:
        return self.loaded.program

    # ---------------------------------------------------------------------------------------------------- addresses

    def _let_go(self, warp: int) -> None:
        """If a warp stands before an instruction that it stops at, look at it and permit it.

        The interpreter goes on with the first group that is ready, so that is the one that stands there; a group at its
        meeting point is parked first, and looked at when the warp stops again.
        """
        arrays, recorder = self.arrays, self.recorder
        ready = np.flatnonzero((arrays.mask[warp] != 0) & (arrays.state[warp] == GroupState.READY))
        if not len(ready) or recorder.permits[warp]:
            return
        group = int(ready[0])
        pc = int(arrays.pc[warp, group])
        if not recorder.timed[pc] or self._meets(warp, group, pc):
            return
        if pc in self._stops:
            self._look(warp, pc, self._executing(warp, pc, int(arrays.mask[warp, group])))
        recorder.now[warp] = self.ctx[CLOCK], self.ctx[GLOBAL_TIMER]
        recorder.permits[warp] = 1

    def _meets(self, warp: int, group: int, pc: int) -> bool:
        """Whether a group stands where it meets the lanes that it separated from."""
        arrays = self.arrays
        meeting = int(arrays.meet[warp, group])
        if meeting < 0 or arrays.meet_pc[warp, meeting] != pc:
            return False
        return bool(arrays.meet_depth[warp, meeting] == arrays.depth[warp, group])

    def _executing(self, warp: int, pc: int, mask: int) -> int:
        """The lanes of a group whose guard lets them execute."""
        guard = int(self._program.code[pc, GUARD])
        if guard < 0:
            return mask
        word = int(self.arrays.blocks[warp, guard >> 1])
        return mask & (~word if guard & 1 else word)

    def _look(self, warp: int, pc: int, lanes: int) -> None:
        """Keep an access that is about to be made."""
        access = self._program.memory[pc]
        assert access is not None
        entry = self._found[pc]
        lanes &= (1 << access.rows) - 1
        if not lanes:
            return
        number = self._seen[warp, pc] = self._seen.get((warp, pc), 0) + 1
        cta = self.geometry.cta_index(self.number)
        for addresses in self._addresses(warp, pc, access, lanes):
            key = addresses.tobytes() + lanes.to_bytes(4, "little")
            known = entry.patterns.get(key)
            made = known or BankAccess(addresses, lanes, entry.width, entry.ideal_each)
            if known is None and len(entry.patterns) < _MOST_PATTERNS:
                entry.patterns[key] = made
            if entry.first is None:
                entry.first = entry.worst = Occurrence(made, cta, warp, number)
            assert entry.worst is not None
            if known is None and made.wavefronts > entry.worst.access.wavefronts:
                entry.worst = Occurrence(made, cta, warp, number)

    def _addresses(self, warp: int, pc: int, access: MemoryAccess, lanes: int) -> Iterator[NDArray[np.int64]]:
        """Offsets in shared memory, one array for each access that the instruction makes; none if it goes elsewhere."""
        if access.second_operand >= 0:
            addresses = self._register(warp, pc, access.second_operand, access.second_planes)
        else:
            addresses = self._register(warp, pc, access.operand, access.planes)
            if access.space == GENERIC:
                first = (lanes & -lanes).bit_length() - 1
                if int(addresses[first]) >> SHARED_BITS != SHARED_WINDOW >> SHARED_BITS:
                    return
        addresses &= (1 << WINDOW_BITS) - 1
        addresses[[lane for lane in range(32) if not lanes >> lane & 1]] = 0
        if access.tile is None:
            yield addresses
            return
        stride = access.tile.packed_stride
        if access.tile.stride_operand >= 0:
            stride = int(self._register(warp, pc, access.tile.stride_operand, 1, offset=False)[0])
        for offsets in tile_offsets(access.tile, stride):
            yield addresses + offsets

    def _register(self, warp: int, pc: int, operand: int, planes: int, offset: bool = True) -> NDArray[np.int64]:
        """An address operand: register and constant offset."""
        at = int(self._program.code[pc, OPERANDS]) // 4 + operand
        plane, block = int(self.loaded.pool[at]) // 4, self.arrays.blocks[warp]
        value = block[plane : plane + 32].astype(np.int64)
        if planes == 2:
            value |= block[plane + 32 : plane + 64].astype(np.int64) << 32
        return np.asarray(value + int(self.loaded.pool[at + 1]) if offset else value, np.int64)


def tile_offsets(tile: TilePattern, stride: int) -> list[NDArray[np.int64]]:
    """Bytes from the start of a wmma tile to the first element of each register, int64 [32] by register."""
    index = (np.arange(tile.registers * 32) * tile.elements)[:, None] >> np.arange(len(tile.row_steps)) & 1
    row, column = index @ np.array(tile.row_steps), index @ np.array(tile.column_steps)
    elements = row * stride + column if tile.row_major else column * stride + row
    return list((elements * tile.bits // 8).reshape(tile.registers, 32))
