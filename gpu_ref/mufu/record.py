"""Record the special-function unit of a GPU: dense sweeps, raw samples, and hashes of every possible result.

Run on a machine with a GPU, Python 3.11 or later, NumPy and CuPy (with NVRTC), from the root of the checkout::

    python -m gpu_ref.mufu.record FOLDER

It writes seven ``.npz`` files under FOLDER, each below 16 MiB, and prints what it did; it takes about a minute.

==================  ==========================================================================================
``hashes.npz``      for each sweep of :data:`gpu_ref.mufu.forms.SWEEPS` (its name), uint64[256, 2]: sum and
                    exclusive-or of the scrambled results of each block of 2^24 inputs (:mod:`gpu_ref.mufu.codec`);
                    ``provenance``, a JSON text with GPU, driver, CUDA, date
``samples.npz``     ``OPCODE``: uint64 results for :func:`gpu_ref.mufu.forms.sample_inputs`
``dense_*.npz``     ``NAME/anchors``, ``NAME/residual`` … of :func:`gpu_ref.mufu.codec.pack` for each dense sweep
==================  ==========================================================================================

A f64 instruction is swept over its high word; its dense results are the high words (the low words of the results are
in the samples and hashes). Kernels take every operand at run time, for ptxas folds a division by a constant into a
product.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_ref.mufu import codec
from gpu_ref.mufu.forms import FILES, FORMS, SWEEPS, Dense, Form, Sweep, dense_inputs, sample_inputs

__all__ = ["Recorder", "main", "provenance", "source"]

_ROLES = {"x": 0, "over": 1, "under": 2, "scrambled": 3}

# C type of the register, asm constraint, conversion from and to 64-bit words, number of inputs.
_REGISTERS = {
    "f32": ("float", "f", "__uint_as_float((unsigned){})", "__float_as_uint({})", 1),
    "x2": ("unsigned", "r", "(unsigned){}", "{}", 1),
    "half": ("unsigned short", "h", "(unsigned short){}", "{}", 1),
    "f64": ("double", "d", "__longlong_as_double((long long){})", "(u64)__double_as_longlong({})", 1),
    "div": ("float", "f", "__uint_as_float((unsigned){})", "__float_as_uint({})", 2),
}

_COMMON = """
typedef unsigned long long u64;

__device__ __forceinline__ u64 mix(u64 z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}
"""

_KERNELS = """
__device__ __forceinline__ u64 op_@K@(u64 a, u64 b) {
    @TYPE@ d, x = @A@, y = @B@;
    asm volatile("@ASM@" : "=@C@"(d) : "@C@"(x), "@C@"(y));
    return @D@;
}

extern "C" __global__ void values_@K@(const u64 *a, const u64 *b, u64 *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = op_@K@(a[i], b[i]);
}

// Grid (64, 256), 256 threads: row blockIdx.y is one block of 2^24 inputs, each thread takes 1024 of them.
extern "C" __global__ void hash_@K@(int role, unsigned fixed, u64 *out) {
    u64 sum = 0, parity = 0;
    unsigned base = blockIdx.y << 24 | (blockIdx.x << 8) | threadIdx.x;
    for (unsigned i = 0; i < 1024; i++) {
        u64 x = base + (i << 14), a = x, b = fixed;
        if (role == 0 && @WIDE@) a = x << 32 | (mix(x) & 0xFFFFFFFFull);
        if (role == 2) { a = fixed; b = x; }
        if (role == 3) b = mix(x * 0x9E3779B97F4A7C15ull) & 0xFFFFFFFFull;
        u64 word = mix(x * 0x9E3779B97F4A7C15ull + op_@K@(a, b));
        sum += word;
        parity ^= word;
    }
    atomicAdd(out + 2 * blockIdx.y, sum);
    atomicXor(out + 2 * blockIdx.y + 1, parity);
}
"""


def source() -> str:
    """CUDA C of all kernels: ``values_K`` and ``hash_K`` for the K-th entry of :data:`gpu_ref.mufu.forms.FORMS`."""
    parts = [_COMMON]
    for k, form in enumerate(FORMS):
        ctype, constraint, take, give, inputs = _REGISTERS[form.kind]
        operands = "%0, %1;" if inputs == 1 else "%0, %1, %2;"
        text = _KERNELS
        for mark, value in (
            ("K", str(k)), ("TYPE", ctype), ("C", constraint), ("A", take.format("a")), ("B", take.format("b")),
            ("D", give.format("d")), ("ASM", f"{form.opcode} {operands}"), ("WIDE", str(int(form.kind == "f64"))),
        ):  # fmt: skip
            text = text.replace(f"@{mark}@", value)
        parts.append(text)
    return "".join(parts)


class Recorder:
    """The compiled kernels on the current GPU."""

    def __init__(self, cupy: Any) -> None:
        self.cupy = cupy
        self.module = cupy.RawModule(code=source(), options=("-std=c++17",))
        self.number = {form.opcode: k for k, form in enumerate(FORMS)}

    def values(self, opcode: str, a: npt.NDArray[np.uint64], b: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        """Results of one instruction on given operand words (uint64, equally long)."""
        device_a, device_b = self.cupy.asarray(a), self.cupy.asarray(b)
        out = self.cupy.zeros(len(a), dtype=np.uint64)
        kernel = self.module.get_function(f"values_{self.number[opcode]}")
        kernel(((len(a) + 255) // 256,), (256,), (device_a, device_b, out, np.int32(len(a))))
        return np.asarray(self.cupy.asnumpy(out))

    def hashes(self, sweep: Sweep) -> npt.NDArray[np.uint64]:
        """uint64[256, 2]: (sum, exclusive-or) of each block of 2^24 inputs."""
        out = self.cupy.zeros((256, 2), dtype=np.uint64)
        kernel = self.module.get_function(f"hash_{self.number[sweep.opcode]}")
        kernel((64, 256), (256,), (np.int32(_ROLES[sweep.role]), np.uint32(sweep.fixed), out))
        return np.asarray(self.cupy.asnumpy(out))

    def dense(self, dense: Dense) -> npt.NDArray[np.uint32]:
        """Results of a dense sweep (high words where the instruction is f64)."""
        words = dense_inputs(dense).astype(np.uint64)
        wide = dense.opcode.endswith(".f64")
        results = self.values(dense.opcode, words << np.uint64(32) if wide else words, np.zeros_like(words))
        return (results >> np.uint64(32) if wide else results).astype(np.uint32)

    def samples(self, form: Form) -> npt.NDArray[np.uint64]:
        return self.values(form.opcode, *sample_inputs(form))


def provenance(cupy: Any) -> str:
    """JSON text: the GPU, its driver, and the versions of what ran on it."""
    runtime = cupy.cuda.runtime
    properties = runtime.getDeviceProperties(cupy.cuda.Device().id)
    return json.dumps(
        {
            "gpu": properties["name"].decode(),
            "compute_capability": f"{properties['major']}.{properties['minor']}",
            "cuda_driver_api": runtime.driverGetVersion(),
            "cuda_runtime": runtime.runtimeGetVersion(),
            "driver": _driver_version(),
            "nvrtc": list(cupy.cuda.nvrtc.getVersion()),
            "cupy": cupy.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        }
    )


def _driver_version() -> str:
    """The kernel driver's version line, or "unknown" where the system does not show it."""
    path = Path("/proc/driver/nvidia/version")
    return path.read_text().splitlines()[0] if path.exists() else "unknown"


def _save(path: Path, arrays: dict[str, npt.NDArray[np.generic]]) -> str:
    np.savez_compressed(path, **arrays)  # type: ignore[arg-type]
    return f"{path.name}: {path.stat().st_size / 2**20:.2f} MiB"


def _packed(recorder: Recorder, group: tuple[Dense, ...]) -> dict[str, npt.NDArray[np.generic]]:
    """One file's dense sweeps, packed and checked to unpack to what was recorded."""
    arrays: dict[str, npt.NDArray[np.generic]] = {}
    for dense in group:
        values = recorder.dense(dense)
        parts = codec.pack(values)
        if not np.array_equal(codec.unpack(**parts), values):  # type: ignore[arg-type]
            raise AssertionError(f"{dense.name}: the packed sweep does not unpack to itself")
        arrays.update({f"{dense.name}/{key}": part for key, part in parts.items()})
    return arrays


def main(arguments: list[str] | None = None) -> int:
    """Command line; see the module's text."""
    parser = argparse.ArgumentParser(description="Record the special-function unit of this machine's GPU.")
    parser.add_argument("folder", type=Path, help="where to write the recording")
    folder: Path = parser.parse_args(arguments).folder
    try:
        import cupy  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        print("CuPy is not installed; recording needs it and an NVIDIA GPU (pip install cupy-cuda13x)", file=sys.stderr)
        return 2
    folder.mkdir(parents=True, exist_ok=True)
    begin = time.perf_counter()

    def note(text: str) -> None:
        print(f"{time.perf_counter() - begin:6.1f} s  {text}", flush=True)

    recorder = Recorder(cupy)
    hashes: dict[str, npt.NDArray[np.generic]] = {"provenance": np.array(provenance(cupy))}
    for sweep in SWEEPS:
        hashes[sweep.name] = recorder.hashes(sweep)
    note(_save(folder / "hashes.npz", hashes))
    samples: dict[str, npt.NDArray[np.generic]] = {form.opcode: recorder.samples(form) for form in FORMS}
    note(_save(folder / "samples.npz", samples))
    with ThreadPoolExecutor(len(FILES)) as pool:
        for name, group in FILES.items():
            arrays = _packed(recorder, group)
            note(f"{name}: recorded")
            pool.submit(_save, folder / f"{name}.npz", arrays).add_done_callback(lambda done: note(done.result()))
    note("done")
    return 0


if __name__ == "__main__":
    sys.exit(main())
