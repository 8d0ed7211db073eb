"""Stands in for CuPy in tests of the recorder: a "GPU" whose kernels are Python functions, chosen by entry name."""

from __future__ import annotations

import os
import re
import types
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

__version__ = "14.2.0"


def _properties(device: int) -> dict[str, Any]:
    return {"name": b"NVIDIA H200", "major": 9, "minor": 0, "multiProcessorCount": 132}


def _profiler(state: str) -> Callable[[], None]:
    def switch() -> None:
        if os.environ.get("FAKE_NCU_LOG"):
            with open(os.environ["FAKE_NCU_LOG"], "a") as log:
                log.write(f"profiler {state}\n")

    return switch


runtime = types.SimpleNamespace(
    getDeviceCount=lambda: int(os.environ.get("FAKE_GPU_COUNT", "1")),
    getDevice=lambda: 0,
    getDeviceProperties=_properties,
    deviceSynchronize=lambda: None,
    driverGetVersion=lambda: 13000,
    runtimeGetVersion=lambda: 13020,
    profilerStart=_profiler("start"),
    profilerStop=_profiler("stop"),
)
cuda = types.SimpleNamespace(runtime=runtime, Device=lambda: types.SimpleNamespace(compute_capability="90"))


class ndarray:
    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.host: NDArray[Any] = np.empty(shape, dtype)

    def set(self, array: NDArray[Any]) -> None:
        self.host[...] = array

    def get(self) -> NDArray[Any]:
        return self.host.copy()


empty = ndarray


def _double(x: ndarray, y: ndarray, n: np.int32) -> None:
    y.host.reshape(-1)[: int(n)] = 2 * x.host.reshape(-1)[: int(n)]


def _unstable(x: ndarray, y: ndarray, n: np.int32) -> None:
    y.host[...] = np.frombuffer(os.urandom(4), np.uint16)[0]


def _die(x: ndarray, y: ndarray, n: np.int32) -> NoReturn:
    os._exit(7)


def _fault(x: ndarray, y: ndarray, n: np.int32) -> NoReturn:
    raise RuntimeError("CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered")


_KERNELS: dict[str, Callable[..., None]] = {"double": _double, "unstable": _unstable, "die": _die, "fault": _fault}


class _Function:
    num_regs, shared_size_bytes, local_size_bytes = 24, 1024, 0
    max_dynamic_shared_size_bytes = 48 * 1024

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, grid: tuple[int, ...], block: tuple[int, ...], args: Sequence[Any], shared_mem: int = 0) -> None:
        if shared_mem > self.max_dynamic_shared_size_bytes:
            raise RuntimeError("CUDA_ERROR_INVALID_VALUE: invalid argument")
        if os.environ.get("FAKE_NCU_LOG"):
            with open(os.environ["FAKE_NCU_LOG"], "a") as log:
                log.write(f"launch {self.name}\n")
        _KERNELS[self.name](*args)


class RawModule:
    def __init__(self, path: str) -> None:
        with open(path, "rb") as file:
            self.image = file.read()

    def get_function(self, name: str) -> _Function:
        if not re.search(rf"\b{name}\b".encode(), self.image):
            raise RuntimeError("CUDA_ERROR_NOT_FOUND: named symbol not found")
        return _Function(name)
