"""tcsim as the GPU that benchmarks run on: what the timing model makes of the measurements that its numbers come from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import tcsim
from tcsim.memory import DeviceMemory

from .gpu import Value

__all__ = ["SimulatedGpu"]


class SimulatedGpu:
    """A device of tcsim with timing tables. Every launch starts with cold caches, which no kernel of the suite notices whose
    second pass counts."""

    def __init__(self, name: str = "h200") -> None:
        self._device = tcsim.Device(name)
        self.sms = self._device.arch.limits.sms
        self._module: Any = None

    def load(self, image: Path) -> None:
        """Select the PTX beside an image; memory starts anew."""
        self._device.memory = DeviceMemory(self._device.arch.memory.bytes)
        with self._device:
            self._module = tcsim.RawModule(path=image.with_suffix(".ptx"))

    def upload(self, array: npt.NDArray[Any]) -> Value:
        with self._device:
            return tcsim.asarray(np.ascontiguousarray(array))

    def empty(self, nbytes: int) -> Value:
        with self._device:
            return tcsim.zeros(nbytes, np.uint8)

    def address(self, array: Value) -> int:
        return int(array.data.ptr)

    def forget_translations(self) -> None:
        """There are none to forget: every launch starts without."""

    def _run(self, entry: str, grid: int, block: int, args: Sequence[Value], shared: int) -> float:
        with self._device:
            function = self._module.get_function(entry)
            function.max_dynamic_shared_size_bytes = max(function.max_dynamic_shared_size_bytes, shared)
            with tcsim.Profiler() as profiler:
                function((grid,), (block,), tuple(args), shared_mem=shared)
        return profiler.launches[-1].seconds

    def launch(self, entry: str, grid: int, block: int, args: Sequence[Value], shared: int = 0) -> None:
        self._run(entry, grid, block, args, shared)

    def seconds(self, entry: str, grid: int, block: int, args: Sequence[Value], shared: int = 0, count: int = 1) -> float:
        return sum(self._run(entry, grid, block, args, shared) for _ in range(count))
