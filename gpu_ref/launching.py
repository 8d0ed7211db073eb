"""Launching a kernel of a PTX module on the real GPU.

Two assemblers can turn PTX into machine code: ``"driver"``, the compiler inside the driver, which an application meets when it
loads PTX, and ``"ptxas"``, the command-line one. Both were seen to make the same code from the same PTX with CUDA 13.0;
recordings note which one was used.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from isa.errors import TcsimError
from tcsim.bundle.tensor_maps import MapOf

from .clusters import launch_clustered
from .device import require_cupy
from .tma.driver import encode_map
from .toolchain import assemble

__all__ = ["Assembler", "KernelHandle", "LaunchError", "Launched", "launch", "load_kernel", "load_kernels"]

Assembler = Literal["driver", "ptxas"]
Value = NDArray[Any] | np.generic | MapOf

STATIC_SHARED_LIMIT = 48 * 1024
"""Dynamic shared memory beyond this many bytes must be asked for (CUDA C++ Programming Guide, "Shared Memory")."""


class LaunchError(TcsimError):
    """The driver refused the module or the launch, or the kernel failed."""


@dataclass(frozen=True)
class Launched:
    """``arrays`` are the contents of every array argument after the launch, in order; ``assembler`` says what made the code,
    and ``resources`` what the code takes (:class:`KernelHandle`)."""

    arrays: list[NDArray[Any]]
    assembler: str
    resources: dict[str, int]


class KernelHandle:
    """A kernel loaded on the GPU. ``assembler`` is ``"driver"`` or ``"ptxas 13.0.88"``.

    ``resources`` are what its machine code takes: registers per thread, static shared memory per block and local memory per
    thread, in bytes.
    """

    def __init__(self, function: Any, assembler: str) -> None:
        self._function, self.assembler = function, assembler
        self.resources = {
            "registers": function.num_regs,
            "static_shared": function.shared_size_bytes,
            "local": function.local_size_bytes,
        }

    def upload(self, args: Sequence[Value]) -> list[Any]:
        """Arguments as the launch takes them: arrays copied to the GPU (by copies, not kernels), scalars as they are, tensor
        maps of the arrays as the driver encodes them."""
        cupy = require_cupy()
        uploaded: list[Any] = []
        for value in args:
            if isinstance(value, np.generic | MapOf):
                uploaded.append(value)
                continue
            array = cupy.empty(value.shape, dtype=value.dtype)
            array.set(np.ascontiguousarray(value))
            uploaded.append(array)
        return [encode_map(x.at(uploaded[x.position].data.ptr)) if isinstance(x, MapOf) else x for x in uploaded]

    def run(
        self,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        uploaded: Sequence[Any],
        shared_mem: int,
        cluster: tuple[int, int, int] | None = None,
    ) -> None:
        """Launch and wait. Raises :class:`LaunchError`."""
        cupy = require_cupy()
        try:
            if shared_mem > STATIC_SHARED_LIMIT:
                self._function.max_dynamic_shared_size_bytes = shared_mem
            if cluster is None:
                self._function(grid, block, tuple(uploaded), shared_mem=shared_mem)
            else:
                launch_clustered(self._function.kernel.ptr, grid, block, cluster, uploaded, shared_mem)
            cupy.cuda.runtime.deviceSynchronize()
        except (
            RuntimeError,
            TypeError,
            ValueError,
        ) as error:  # CUDA errors are RuntimeErrors; the others are bad arguments
            raise LaunchError(f"the launch failed: {type(error).__name__}: {error}") from None


def load_kernel(ptx: str | Path, kernel: str, *, assembler: Assembler = "driver", fmad: bool = True) -> KernelHandle:
    """Load kernel ``kernel`` of ``ptx`` (a path, or PTX text).

    ``fmad`` False is possible with ``"ptxas"`` only: the driver has no such switch. Raises :class:`LaunchError`,
    :class:`.AssemblerError` or :class:`.GpuUnavailable`.
    """
    return load_kernels(ptx, [kernel], assembler=assembler, fmad=fmad)[0]


def load_kernels(
    ptx: str | Path, kernels: Sequence[str], *, assembler: Assembler = "driver", fmad: bool = True
) -> list[KernelHandle]:
    """Load several kernels of one module, which is assembled once. As :func:`load_kernel`."""
    cupy = require_cupy()
    if not fmad and assembler != "ptxas":
        raise LaunchError('fmad=False needs assembler="ptxas": the driver always contracts')
    text = ptx if isinstance(ptx, str) and "\n" in ptx else Path(ptx).read_text()
    with tempfile.TemporaryDirectory() as folder:
        image = Path(folder) / "kernel.ptx"
        image.write_text(text)
        used = "driver"
        if assembler == "ptxas":
            cubin = Path(folder) / "kernel.cubin"
            specific = re.search(r"^\s*\.target\s+(sm_\d+[af])\b", text, re.MULTILINE)
            architecture = specific[1] if specific else f"sm_{cupy.cuda.Device().compute_capability}"
            used = f"ptxas {assemble(image, cubin, architecture, fmad)}"
            image = cubin
        handles: list[KernelHandle] = []
        try:
            module = cupy.RawModule(path=str(image))
            for kernel in kernels:  # a handle asks for resources, and so loads the module while the file exists
                handles.append(KernelHandle(module.get_function(kernel), used))  # noqa: PERF401 (a failure names the kernel)
        except RuntimeError as error:
            name = kernels[len(handles)]
            raise LaunchError(f"the driver cannot load kernel {name!r}: {type(error).__name__}: {error}") from None
        return handles


def launch(
    ptx: str | Path,
    kernel: str,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    args: Sequence[Value],
    shared_mem: int = 0,
    *,
    assembler: Assembler = "driver",
    fmad: bool = True,
    cluster: tuple[int, int, int] | None = None,
) -> Launched:
    """Run one kernel on the GPU and bring every array argument back.

    ``args`` are NumPy arrays (copied to the GPU; the originals stay as they are) and NumPy scalars of the parameters' exact
    widths. ``shared_mem`` is dynamic shared memory in bytes, ``cluster`` the extents of a cluster. Raises as
    :func:`load_kernel` and :meth:`KernelHandle.run` do.
    """
    handle = load_kernel(ptx, kernel, assembler=assembler, fmad=fmad)
    uploaded = handle.upload(args)
    handle.run(grid, block, uploaded, shared_mem, cluster)
    pairs = zip(args, uploaded, strict=True)
    arrays = [device.get() for value, device in pairs if not isinstance(value, np.generic | MapOf)]
    return Launched(arrays, handle.assembler, handle.resources)
