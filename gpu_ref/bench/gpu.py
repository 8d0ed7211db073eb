"""What runs a benchmark: assembling its PTX, checking the machine code, loading and launching it through CuPy."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from gpu_ref.toolchain import AssemblerError, find_ptxas
from isa.errors import TcsimError
from isa.sass.toolchain import find_nvdisasm, run_ptxas

from .machine_code import Check, Listing, check, disassemble
from .results import Outcome

__all__ = ["BenchError", "Benchmark", "Built", "CudaGpu", "Gpu", "build", "code_hash"]

Value = Any
"""A launch argument: what :meth:`Gpu.upload` or :meth:`Gpu.empty` gave, or a NumPy scalar."""


class BenchError(TcsimError):
    """A benchmark could not be made or run."""


class Gpu(Protocol):
    """The GPU as benchmarks see it. ``sms``: its SMs. Arrays have ``get()``, which copies them to the host."""

    sms: int

    def load(self, image: Path) -> None:
        """Select the module that launches refer to."""

    def upload(self, array: npt.NDArray[Any]) -> Value: ...

    def empty(self, nbytes: int) -> Value:
        """Memory of bytes; zeros unless it is large."""

    def address(self, array: Value) -> int:
        """Where it lies in the GPU's memory."""

    def forget_translations(self) -> None:
        """Make the driver drop what the GPU remembers of its address space."""

    def launch(self, entry: str, grid: int, block: int, args: Sequence[Value], shared: int = 0) -> None:
        """Launch a kernel of the benchmark's module and wait for it."""

    def seconds(self, entry: str, grid: int, block: int, args: Sequence[Value], shared: int = 0, count: int = 1) -> float:
        """Time of ``count`` launches in a row, by events."""


@dataclass(frozen=True)
class Benchmark:
    """One benchmark: a PTX module, what its machine code must hold, and how to measure with it."""

    family: str
    name: str
    ptx: str
    measure: Callable[[Gpu], Outcome]
    checks: tuple[Check, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        return self.family, self.name


@dataclass
class Built:
    """A benchmark's code: ``image`` to load (a cubin, or PTX where ptxas is not installed), its ``digest``, listings by
    kernel where nvdisasm is installed, what is doubtful about them, and what ptxas said if it failed."""

    image: Path
    digest: str = ""
    listings: dict[str, Listing] = field(default_factory=dict)
    doubts: list[str] = field(default_factory=list)
    error: str = ""

    @property
    def skipped(self) -> bool:
        """The GPU lacks an instruction that this benchmark needs."""
        return re.search(r"or higher|not supported on", self.error) is not None


def build(benchmarks: Sequence[Benchmark], folder: Path, architecture: str) -> dict[tuple[str, str], Built]:
    """Assemble and check every benchmark, several at a time."""
    ptxas, nvdisasm = find_ptxas(), find_nvdisasm()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        built = pool.map(lambda b: _build(b, folder, architecture, ptxas, nvdisasm), benchmarks)
        return {b.key: result for b, result in zip(benchmarks, built, strict=True)}


def _build(benchmark: Benchmark, folder: Path, architecture: str, ptxas: Path | None, nvdisasm: Path | None) -> Built:
    source = folder / ("-".join(benchmark.key) + ".ptx")
    target = architecture
    if specific := re.search(r"^\.target (sm_\d+)[af]\b", benchmark.ptx, re.MULTILINE):
        if specific.group(1) != architecture:
            return Built(source, error=f"not supported on {architecture}: only {specific.group(1)} has its instructions")
        target = specific.group().split()[1]
    text = re.sub(r"^\.target \w+", f".target {target}", benchmark.ptx, flags=re.MULTILINE)
    source.write_text(text)
    if ptxas is None:
        return Built(source, hashlib.sha256(text.encode()).hexdigest()[:16], doubts=["assembled by the driver, unchecked"])
    built = Built(source.with_suffix(".cubin"))
    try:
        run_ptxas(ptxas, source, built.image, target)
    except AssemblerError as error:
        built.error = str(error)
        return built
    built.digest = code_hash(built.image)
    if nvdisasm is not None:
        try:
            built.listings = disassemble(nvdisasm, built.image)
        except (OSError, subprocess.CalledProcessError) as error:
            built.doubts.append(f"nvdisasm failed: {error}")
            return built
        built.doubts += [wrong for wanted in benchmark.checks if (wrong := check(built.listings, wanted))]
    return built


def code_hash(cubin: Path) -> str:
    """The first 16 hexadecimal digits of the cubin's SHA-256: the same ptxas makes the same file of the same PTX."""
    return hashlib.sha256(cubin.read_bytes()).hexdigest()[:16]


class CudaGpu:
    """The real GPU, through CuPy. :meth:`load` selects the module that launches refer to."""

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        self._module: Any = None
        self._functions: dict[str, Any] = {}
        properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)
        self.sms = int(properties["multiProcessorCount"])

    def load(self, image: Path) -> None:
        self._module, self._functions = self._cupy.RawModule(path=str(image)), {}

    def upload(self, array: npt.NDArray[Any]) -> Value:
        device = self._cupy.empty(array.shape, dtype=array.dtype)
        device.set(np.ascontiguousarray(array))
        return device

    def empty(self, nbytes: int) -> Value:
        memory = self._cupy.empty(nbytes, dtype=np.uint8)
        if nbytes <= 1 << 26:
            self._cupy.cuda.runtime.memset(memory.data.ptr, 0, nbytes)
        return memory

    def address(self, array: Value) -> int:
        return int(array.data.ptr)

    def forget_translations(self) -> None:
        runtime = self._cupy.cuda.runtime  # its allocations go past CuPy's pool, and unmapping invalidates translations
        runtime.free(runtime.malloc(1 << 28))
        runtime.deviceSynchronize()

    def _function(self, entry: str, shared: int) -> Any:
        if entry not in self._functions:
            self._functions[entry] = self._module.get_function(entry)
        function = self._functions[entry]
        if shared > 48 * 1024:
            function.max_dynamic_shared_size_bytes = shared
        return function

    def launch(self, entry: str, grid: int, block: int, args: Sequence[Value], shared: int = 0) -> None:
        self._function(entry, shared)((grid,), (block,), tuple(args), shared_mem=shared)
        self._cupy.cuda.runtime.deviceSynchronize()

    def seconds(self, entry: str, grid: int, block: int, args: Sequence[Value], shared: int = 0, count: int = 1) -> float:
        function, cuda = self._function(entry, shared), self._cupy.cuda
        begin, end = cuda.Event(), cuda.Event()
        begin.record()
        for _ in range(count):
            function((grid,), (block,), tuple(args), shared_mem=shared)
        end.record()
        end.synchronize()
        return float(cuda.get_elapsed_time(begin, end)) / 1e3


def temporary_folder() -> tempfile.TemporaryDirectory[str]:
    """A folder for PTX and cubins."""
    return tempfile.TemporaryDirectory(prefix="gpu_ref_bench_")
