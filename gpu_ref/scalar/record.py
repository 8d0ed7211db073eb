"""Record what a GPU returns for every scalar arithmetic PTX instruction: raw results on fixed, adversarial operands.

Run on a machine with a GPU, NumPy and CuPy (with NVRTC), from the root of the checkout::

    python -m gpu_ref.scalar.record FOLDER

It writes ``scalar.npz`` there: for each probe of :mod:`gpu_ref.scalar.forms`, under its name, the results on
:func:`gpu_ref.scalar.inputs.operands`, and ``provenance`` (JSON text). A probe that does not compile is left out
and named on the terminal.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_ref.mufu.record import provenance
from gpu_ref.scalar.forms import Probe, probes, width
from gpu_ref.scalar.inputs import operands

__all__ = ["main", "register_bits", "source"]

_CHUNK = 32  # probes in one translation unit
_C = {16: ("unsigned short", "h"), 32: ("unsigned", "r"), 64: ("unsigned long long", "l")}

_KERNEL = """
extern "C" __global__ void probe_{k}(const unsigned long long *in, unsigned long long *out, int n) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    {result} d;
    asm volatile("{{ .reg .pred p; .reg .b32 u, w32; .reg .b64 w64; {registers} {ptx} mov.b{bits} %0, d; }}"
                 : "={constraint}"(d) : {inputs});
    out[i] = d;
}}
"""


def register_bits(type_name: str) -> int:
    """Width of the register that holds a value of a PTX type: at least 16, and 32 for the 8-bit types."""
    bits = width(type_name)
    return 32 if bits == 8 else bits


def source(k: int, probe: Probe) -> str:
    """CUDA C of the kernel ``probe_k``."""
    bits = register_bits(probe.result)
    registers, inputs = f".reg .b{bits} d;", []
    for place, (name, kind) in enumerate(zip("abc", probe.sources, strict=False)):
        size = register_bits(kind)
        registers += f" .reg .b{size} {name}; mov.b{size} {name}, %{place + 1};"
        ctype, constraint = _C[size]
        inputs.append(f'"{constraint}"(({ctype})in[i + {place} * n])')
    result, constraint = _C[bits]
    return _KERNEL.format(k=k, result=result, registers=registers, ptx=probe.ptx, bits=bits, constraint=constraint,
                          inputs=", ".join(inputs))  # fmt: skip


def _compile(cupy: Any, part: list[tuple[int, Probe]]) -> list[tuple[int, Any]]:
    """(k, kernel or None) for each probe; a unit that fails is compiled again probe by probe."""
    try:
        module = cupy.RawModule(code="".join(source(k, probe) for k, probe in part), options=("-std=c++17",))
        return [(k, module.get_function(f"probe_{k}")) for k, _ in part]
    except Exception as error:
        if len(part) == 1:
            print(f"left out {part[0][1].name}: {str(error).splitlines()[0][:200]}")
            return [(part[0][0], None)]
        return [pair for one in part for pair in _compile(cupy, [one])]


def _run(cupy: Any, kernel: Any, probe: Probe) -> npt.NDArray[np.unsignedinteger]:
    columns = operands(probe)
    rows = len(columns[0])
    out = cupy.zeros(rows, dtype=np.uint64)
    kernel(((rows + 127) // 128,), (128,), (cupy.asarray(np.concatenate(columns)), out, np.int32(rows)))
    return np.asarray(cupy.asnumpy(out)).astype(f"u{register_bits(probe.result) // 8}")


def main(arguments: list[str] | None = None) -> int:
    """Command line; see the module's text."""
    parser = argparse.ArgumentParser(description="Record the scalar arithmetic instructions of this machine's GPU.")
    parser.add_argument("folder", type=Path, help="where to write scalar.npz")
    folder: Path = parser.parse_args(arguments).folder
    try:
        import cupy  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        print("CuPy is not installed; recording needs it and an NVIDIA GPU (pip install cupy-cuda13x)", file=sys.stderr)
        return 2
    folder.mkdir(parents=True, exist_ok=True)
    begin = time.perf_counter()
    todo = list(enumerate(probes()))
    results: dict[str, npt.NDArray[np.generic]] = {"provenance": np.array(provenance(cupy))}
    device = cupy.cuda.Device()

    def compile_part(part: list[tuple[int, Probe]]) -> list[tuple[int, Any]]:
        with device:  # the current device is a property of the thread
            return _compile(cupy, part)

    with ThreadPoolExecutor(8) as pool:
        for kernels in pool.map(compile_part, (todo[at : at + _CHUNK] for at in range(0, len(todo), _CHUNK))):
            for k, kernel in kernels:
                if kernel is not None:
                    results[todo[k][1].name] = _run(cupy, kernel, todo[k][1])
    np.savez_compressed(folder / "scalar.npz", **results)  # type: ignore[arg-type]
    size = (folder / "scalar.npz").stat().st_size / 2**20
    print(f"{time.perf_counter() - begin:.1f} s  {len(results) - 1} of {len(todo)} probes, {size:.2f} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
