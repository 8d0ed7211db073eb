"""Rebuild the PTX of every kernel: ``python traces/build.py [NAME ...]``.

CUDA C needs ``nvcc`` (13.0 made the files that are kept) and no GPU:

    nvcc -ptx -arch=sm_80 -lineinfo NAME.cu -o NAME.ptx

with the exceptions listed in KERNELS. nvcc writes absolute source paths into ``.file`` directives; they are reduced to file
names, so that the same source gives the same PTX on every machine. The Triton kernels have a script of their own,
``kernels/triton_kernels.py``, which needs the ``triton`` package (3.9 made the files that are kept).

The PTX is kept in the repository because recorded bundles name it by its SHA-256: a rebuilt file that differs in one byte
asks for a new recording.
"""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

KERNELS_FOLDER = Path(__file__).parent / "kernels"


@dataclass(frozen=True)
class Build:
    """One PTX file: ``output``.ptx from ``source``.cu for ``arch``, with extra nvcc ``options``."""

    source: str
    arch: str = "sm_80"
    options: tuple[str, ...] = ()
    output: str = ""

    @property
    def ptx(self) -> str:
        return f"{self.output or self.source}.ptx"

    def command(self) -> list[str]:
        """The nvcc command, to be run in the kernels' folder."""
        return ["nvcc", "-ptx", f"-arch={self.arch}", "-lineinfo", *self.options, f"{self.source}.cu", "-o", self.ptx]


SM_80 = """
    box_blur bytecode collatz contraction dot_f64 gemm_pipelined gemm_s8 gemm_tf32 half2_math hash histogram layernorm
    local_array locks mandelbrot memory_access producer_consumer reduction scan sgemm softmax stencil3d transpose
    vector_add warp_votes wmma_gemm
"""

KERNELS: list[Build] = [
    *(Build(name) for name in SM_80.split()),
    Build("gemm_e4m3", arch="sm_89"),  # the first target whose mma.sync takes e4m3
    *(Build(name, arch="sm_90a") for name in ("wgmma_gemm", "wgmma_attention")),
    Build("softmax", options=("-use_fast_math",), output="softmax.fast"),  # .ftz, approximate division
    Build(
        "stencil3d", options=("-fmad=false",), output="stencil3d.nofma"
    ),  # every operation carries .rn: nothing contracts
    Build("half2_math", arch="sm_90", output="half2_math.sm_90"),  # bf16x2 add and mul exist from sm_90 on
    *(Build(name, arch="sm_90a") for name in ("block_pipeline", "gemm_specialised", "tensor_tiles")),
]


def build(kernel: Build) -> None:
    """Compile one kernel and reduce its source paths. Raises CalledProcessError if nvcc fails."""
    print(" ".join(kernel.command()), flush=True)
    subprocess.run(kernel.command(), cwd=KERNELS_FOLDER, check=True)
    path = KERNELS_FOLDER / kernel.ptx
    path.write_text(re.sub(r'(\.file\s+\d+\s+")[^"]*/', r"\1", path.read_text()))


def main(names: list[str]) -> int:
    known = {name for kernel in KERNELS for name in (kernel.source, kernel.ptx.removesuffix(".ptx"))}
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"no kernel {', '.join(unknown)}; there are {', '.join(sorted(known))}", file=sys.stderr)
        return 2
    for kernel in KERNELS:
        if not names or {kernel.source, kernel.ptx.removesuffix(".ptx")} & set(names):
            build(kernel)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
