"""What the real GPU does: launch PTX through CuPy, record outputs and Nsight Compute metrics, compare.

Importing this needs neither a GPU nor CuPy; running something without them raises :class:`GpuUnavailable`, which says what is
missing. On a machine with a GPU::

    gpu_ref.launch("k.ptx", "kernel", (8, 8, 1), (256, 1, 1), [a, b, np.int32(5)])
    gpu_ref.record(bundle, "traces")        # a launch from a suite: tcsim.bundle.load_suite
    gpu_ref.compare("traces/gemm_f16")      # launch again, compare every byte

and ``python -m gpu_ref record traces/suite.toml --out traces`` for a whole suite.
"""

from __future__ import annotations

from .device import GpuUnavailable
from .launching import Launched, LaunchError, launch, load_kernel
from .profiling import ProfilerError
from .recording import RecordingError, compare, record, replay
from .suites import record_suite
from .toolchain import AssemblerError

__all__ = [
    "AssemblerError",
    "GpuUnavailable",
    "LaunchError",
    "Launched",
    "ProfilerError",
    "RecordingError",
    "compare",
    "launch",
    "load_kernel",
    "record",
    "record_suite",
    "replay",
]
