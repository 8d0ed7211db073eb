"""What the timing tests share: small kernels, run in time, with a log of what issued when."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from kernels import kernel

import tcsim
from tcsim.arch import Timing, find_arch, find_timing
from tcsim.memory import DeviceMemory
from tcsim.profile import LaunchProfile
from tcsim.timing.observer import Place, SilentObserver

H200 = find_timing(find_arch("h200"))


def changed(timing: Timing, part: str, **values: Any) -> Timing:
    """``timing`` with other values in one of its chip's tables."""
    table = msgspec.structs.replace(getattr(timing.chip, part), **values)
    return msgspec.structs.replace(timing, chip=msgspec.structs.replace(timing.chip, **{part: table}))


def in_step(timing: Timing) -> Timing:
    """A chip that has the instructions behind the first ones together with them: closed forms need not count blocks of code."""
    return changed(timing, "instruction_cache", miss_ns=0.0, block_ns=0.0, shared_block_ns=0.0)


IN_STEP = in_step(H200)


FENCE = " bar.warp.sync -1; "
"""Keeps the model's compiler from moving instructions across, and costs nothing."""


def apart(body: str) -> str:
    """A body that does not mix with what is before and behind it."""
    return FENCE + body + FENCE


def empty_memory() -> None:
    """Start the current device's addresses anew: caches and address translation see where buffers lie, as on hardware."""
    device = tcsim.current_device()
    device.memory = DeviceMemory(device.arch.memory.bytes)


class Log(SilentObserver):
    """Every issue, as (cycle, place, pc), in the order in which they were told."""

    def __init__(self) -> None:
        self.issues: list[tuple[int, Place, int]] = []
        self.stalls: list[tuple[int, Place, int, str, int]] = []
        self.accesses: list[tuple[int, Place, int, tuple[int, ...], int, int]] = []
        self.barriers: list[tuple[int, tuple[Place, ...]]] = []
        self.tasks: list[tuple[str, int, int, int]] = []

    def issue(self, cycle: int, place: Place, pc: int) -> None:
        self.issues.append((cycle, place, pc))

    def stall(self, cycle: int, place: Place, pc: int, reason: str, cycles: int) -> None:
        self.stalls.append((cycle, place, pc, reason, cycles))

    def access(self, cycle: int, place: Place, pc: int, sectors: tuple[int, ...], wavefronts: int, ready: int) -> None:
        self.accesses.append((cycle, place, pc, sectors, wavefronts, ready))

    def barrier(self, cycle: int, places: Sequence[Place]) -> None:
        self.barriers.append((cycle, tuple(places)))

    def task_start(self, cycle: int, sm: int, cta: int) -> None:
        self.tasks.append(("start", cycle, sm, cta))

    def task_end(self, cycle: int, sm: int, cta: int) -> None:
        self.tasks.append(("end", cycle, sm, cta))


class Timed:
    """A kernel of :func:`kernels.kernel`, run in time. ``profile``, ``log``, ``out`` (uint32 per thread)."""

    def __init__(
        self,
        body: str,
        threads: int = 32,
        *,
        grid: int = 1,
        data: Any = None,
        timing: Timing | None = None,
        declarations: str = "",
        shared_mem: int = 0,
        target: str = "sm_80",
    ) -> None:
        module = tcsim.RawModule(code=kernel(body, declarations=declarations, target=target))
        self.function = module.get_function("k")
        self.function.max_dynamic_shared_size_bytes = shared_mem
        self.program = self.function.program
        empty_memory()
        out = tcsim.zeros(threads, np.uint32)
        buffer = tcsim.asarray(np.zeros(64, np.uint32) if data is None else data)
        self.log = Log()
        timing = timing or in_step(find_timing(tcsim.current_device().arch))
        with tcsim.Profiler([self.log], timing=timing, code="ptx") as profiler:
            self.function((grid,), (threads,), (out, buffer), shared_mem=shared_mem)
        self.profile: LaunchProfile = profiler.launches[-1]
        self.out, self.buffer = out.get(), buffer.get()

    def cycles(self, opcode: str, warp: int = 0) -> list[int]:
        """The cycles in which a warp of CTA 0 issued instructions whose opcode starts with ``opcode``."""
        return [
            cycle
            for cycle, place, pc in self.log.issues
            if place.warp == warp and place.cta == 0 and self.program.opcodes[pc].startswith(opcode)
        ]

    def gaps(self, opcode: str, warp: int = 0) -> list[int]:
        """Cycles from one such issue to the next."""
        issued = self.cycles(opcode, warp)
        return [later - earlier for earlier, later in itertools.pairwise(issued)]
