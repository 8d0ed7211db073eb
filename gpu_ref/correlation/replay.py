"""``python -m gpu_ref.correlation.replay FOLDER REPEATS NAME...``: launch what an archive's folder names, for a profiler.

The CUDA profiler is on only around the kernels. Every run gets its arguments afresh. Machine code is that of ``cubin/`` where
there is some, else the driver's.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from gpu_ref.correlation.archives import Launch, read, values
from gpu_ref.device import require_cupy
from gpu_ref.launching import KernelHandle, load_kernel

__all__ = ["image", "replay"]


def image(folder: Path, launch: Launch) -> Path:
    """Where the machine code of a launch is kept."""
    options = "" if launch.get("fmad", True) else ".nofmad"
    return folder / "cubin" / f"{Path(launch['ptx']).stem}{options}.cubin"


def replay(folder: Path, repeats: int, names: Sequence[str]) -> None:
    """Launch each of ``names`` ``repeats`` times. Raises as :meth:`.KernelHandle.run` does."""
    cupy = require_cupy()
    runtime = cupy.cuda.runtime
    launches = read(folder)[1]
    for name in names:
        launch = launches[name]
        kept = image(folder, launch)
        if kept.exists():
            handle = KernelHandle(cupy.RawModule(path=str(kept)).get_function(launch["entry"]), "ptxas")
        else:
            handle = load_kernel(folder / "ptx" / launch["ptx"], launch["entry"], fmad=launch.get("fmad", True))
        arguments = values(launch)
        for _ in range(repeats):
            uploaded = handle.upload(arguments)
            runtime.deviceSynchronize()
            runtime.profilerStart()
            cluster = tuple(launch["cluster"]) if "cluster" in launch else None
            handle.run(tuple(launch["grid"]), tuple(launch["block"]), uploaded, launch.get("shared_mem", 0), cluster)
            runtime.profilerStop()
            del uploaded


if __name__ == "__main__":
    replay(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
