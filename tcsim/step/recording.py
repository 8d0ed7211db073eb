"""A warp's way through a kernel, recorded: every instruction, its lanes, what it wrote and touched. So it can be gone in both
directions.

One CTA runs alone, one warp instruction at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from isa.machine import GENERIC, GLOBAL, LOCAL, LOCAL_WINDOW, SHARED, SHARED_BITS, SHARED_WINDOW, WINDOW_BITS
from isa.program import GUARD, OPERANDS, Program
from tcsim.checking.checker import Checker
from tcsim.errors import DeadlockError, KernelFault, TcsimError
from tcsim.execute.cluster import Cluster
from tcsim.execute.cta import CtaSlot
from tcsim.execute.faults import deadlock, fault
from tcsim.execute.interpreter import Outcome
from tcsim.step.registers import Names
from tcsim.step.shared_operands import SharedOperand, shared_operands

if TYPE_CHECKING:
    from tcsim.execute.cta import Geometry
    from tcsim.launch.launch import Launch

__all__ = ["Recorder", "Recording", "Step"]

OTHERS_TURN = 1 << 10
_SPACES = {GLOBAL: "global", SHARED: "shared", LOCAL: "local"}


@dataclass(frozen=True)
class Touch:
    """Memory that a lane touched: ``what`` it did there."""

    lane: int
    what: str
    space: str
    address: int
    size: int


@dataclass(frozen=True)
class Step:
    """One instruction. ``active``: the lanes that stand there together, ``executing``: those of them for which its guard holds.
    ``before`` and ``after``: words of the register block that it changed, by word number. ``touched``: memory, lane by lane.
    ``shared``: matrices in shared memory that it multiplies."""

    pc: int
    active: int
    executing: int
    before: dict[int, int]
    after: dict[int, int]
    touched: tuple[Touch, ...]
    shared: Mapping[str, SharedOperand]


@dataclass
class Recording:
    """``steps`` of warp ``warp`` of CTA ``cta`` (x, y, z) from the start of the kernel. ``ended``: why there are no more.
    ``block``: the register block before the first; :meth:`registers` makes that of any step."""

    program: Program
    names: Names
    cta: tuple[int, int, int]
    warp: int
    block: NDArray[np.uint32]
    steps: list[Step] = field(default_factory=list)
    ended: str = ""

    def __post_init__(self) -> None:
        self._at = 0
        self._now = self.block.copy()

    def registers(self, at: int) -> NDArray[np.uint32]:
        """The register block before step ``at`` (``len(steps)``: at the end). The same array every time: copy what is to
        stay."""
        while self._at < at:
            for word, value in self.steps[self._at].after.items():
                self._now[word] = value
            self._at += 1
        while self._at > at:
            self._at -= 1
            for word, value in self.steps[self._at].before.items():
                self._now[word] = value
        return self._now


class Recorder(Checker):
    """Records one warp of the launches made while it is entered; the last one's is :attr:`recording`. cta: the number of the
    CTA in launch order. most: steps to keep."""

    def __init__(self, names: Callable[[], Names], *, cta: int = 0, warp: int = 0, most: int = 20_000) -> None:
        super().__init__()
        self._names, self._cta, self._warp, self._most = names, cta, warp, most
        self.recording: Recording | None = None

    def run(
        self,
        launch: Launch,
        geometry: Geometry,
        parameters: NDArray[np.uint8],
        resident: int,
        progress: Callable[[int, int], None] | None,
    ) -> int:
        """Run one CTA (and its cluster) until its warp ends or enough is recorded; returns the steps."""
        if not 0 <= self._cta < geometry.ctas:
            raise TcsimError(f"there is no CTA {self._cta}: the grid has {geometry.ctas}, numbered from 0")
        if not 0 <= self._warp < geometry.warps:
            raise TcsimError(f"there is no warp {self._warp}: a CTA has {geometry.warps}, numbered from 0")
        sms = launch.device.arch.limits.sms

        def make_slot(rank: int) -> CtaSlot:
            return CtaSlot(launch.loaded, geometry, launch.device.memory, parameters, sm_count=sms, rank=rank)

        cluster = Cluster(make_slot, geometry.cluster_size)
        number, rank = _place(geometry, self._cta)
        cluster.start(number)
        slot = cluster.slots[rank]
        block = slot.arrays.blocks[self._warp].copy()
        recording = Recording(launch.loaded.program, self._names(), geometry.cta_index(self._cta), self._warp, block)
        _Run(recording, cluster, slot, self._most).run()
        self.recording = recording
        return len(recording.steps)


def _place(geometry: Geometry, cta: int) -> tuple[int, int]:
    for number in range(geometry.ctas // geometry.cluster_size):
        members = geometry.members(number)
        if cta in members:
            return number, members.index(cta)
    raise TcsimError(f"there is no CTA {cta}")


class _Run:
    def __init__(self, recording: Recording, cluster: Cluster, slot: CtaSlot, most: int) -> None:
        self.recording, self.cluster, self.slot, self.most = recording, cluster, slot, most
        self.code = slot.loaded.native.code

    def run(self) -> None:
        arrays, warp = self.slot.arrays, self.recording.warp
        try:
            idle = 0
            while len(self.recording.steps) < self.most:
                if not arrays.live[warp]:
                    self.recording.ended = "the warp has ended"
                    return
                if self._step():
                    idle = 0
                    continue
                idle += 1
                if idle > 4:
                    self.cluster.settle()
                    raise deadlock(self.cluster.unfinished)
                self._others(idle)
            self.recording.ended = f"the first {self.most:,} steps; --most records more"
        except (KernelFault, DeadlockError) as problem:
            self.recording.ended = str(problem)

    def _step(self) -> bool:
        """Run one instruction of some warp of the CTA; returns whether there was one."""
        arrays, warp = self.slot.arrays, self.recording.warp
        before, pcs, masks = arrays.blocks[warp].copy(), arrays.pc[warp].copy(), arrays.mask[warp].copy()
        states, count, live = arrays.state[warp].copy(), self.slot.instructions, arrays.live[warp].copy()
        status = self.slot.run(1)
        if status not in (Outcome.PAUSED, Outcome.DONE, Outcome.WAITING, Outcome.DEADLOCK):
            self._keep(before, pcs, masks, states, live)
            raise fault(self.slot, status)
        if status == Outcome.DEADLOCK:
            raise deadlock(self.cluster.unfinished)
        self._keep(before, pcs, masks, states, live)
        return self.slot.instructions != count

    def _others(self, idle: int) -> None:
        """Let the rest of the cluster go on, or insist."""
        for other in list(self.cluster.unfinished):
            if other is not self.slot and other.run(OTHERS_TURN) == Outcome.DONE:
                self.cluster.unfinished.remove(other)
        if idle > 1:
            self.slot.insist(min(2, idle - 1))

    def _keep(
        self,
        before: NDArray[np.uint32],
        pcs: NDArray[np.int32],
        masks: NDArray[np.uint32],
        states: NDArray[np.int32],
        live: np.uint32,
    ) -> None:
        """Add a step if it was the recorded warp's."""
        arrays, warp = self.slot.arrays, self.recording.warp
        moved = (arrays.pc[warp] != pcs) | (arrays.mask[warp] != masks)
        exited = arrays.live[warp] != live
        for group in np.flatnonzero((masks != 0) & (states == 0) & (moved | exited)):
            pc, mask = int(pcs[group]), int(masks[group])
            changed = np.flatnonzero(before != arrays.blocks[warp])
            guard = int(self.code[pc, GUARD])
            executing = mask
            if guard >= 0:
                word = int(before[guard >> 1])
                executing &= ~word if guard & 1 else word
            self.recording.steps.append(
                Step(
                    pc,
                    mask,
                    executing,
                    {int(w): int(before[w]) for w in changed},
                    {int(w): int(arrays.blocks[warp][w]) for w in changed},
                    tuple(self._touched(pc, executing, before)),
                    shared_operands(self.recording.program, pc, before, self.slot.shared, warp),
                )
            )
            return

    def _touched(self, pc: int, executing: int, block: NDArray[np.uint32]) -> list[Touch]:
        program = self.slot.loaded.program
        access = program.memory[pc]
        if access is None or access.kind == "mbarrier" or access.tile is not None:
            return []
        row = int(program.code[pc, OPERANDS]) // 4
        sides = [(access.kind, access.space, access.operand, access.planes, access.scale, access.uniform)]
        if access.second_operand >= 0:
            also = program.image is not None and access.operand - access.second_operand > 2  # a uniform register, too
            sides = [("read", GLOBAL, access.operand, access.planes, access.scale, access.uniform)]
            sides.append(("write", SHARED, access.second_operand, access.second_planes, 1, also))
        out = []
        for what, space, operand, planes, scale, is_uniform in sides:
            base, offset = int(program.pool[row + operand]) // 4, int(program.pool[row + operand + 1])
            uniform = int(program.pool[row + operand + 2]) // 4 if is_uniform else -1
            for lane in range(min(32, access.rows)):
                if not executing >> lane & 1:
                    continue
                address = int(block[base + lane])
                if planes == 2:
                    address |= int(block[base + 32 + lane]) << 32
                address = address * scale + offset + (int(block[uniform + lane]) if uniform >= 0 else 0)
                kind, address = _resolve(space, address if planes == 2 else address & 0xFFFF_FFFF)
                out.append(Touch(lane, _WHAT.get(what, what), kind, address, access.size))
        return out


_WHAT = {
    "load": "read", "store": "write", "atomic": "atomic", "matrix_load": "read row", "matrix_store": "write row",
}  # fmt: skip


def _resolve(space: int, address: int) -> tuple[str, int]:
    if space == GENERIC:
        if address >> SHARED_BITS == SHARED_WINDOW >> SHARED_BITS:
            return "shared", address & ((1 << SHARED_BITS) - 1)
        if address >> WINDOW_BITS == LOCAL_WINDOW >> WINDOW_BITS:
            return "local", address & ((1 << WINDOW_BITS) - 1)
        return "global", address
    return _SPACES.get(space, "param"), address
