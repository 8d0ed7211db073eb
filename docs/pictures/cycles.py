"""Time every recorded launch and set the predictions beside what Nsight Compute counted on an H200: a picture and tables.

python docs/pictures/cycles.py [PROCESSES]     # writes cycles.svg beside this file, and docs/correlation.md
"""

from __future__ import annotations

import sys
from pathlib import Path

from gpu_ref.__main__ import main

HERE = Path(__file__).parent
TRACES = HERE.parents[1] / "traces"
INTRODUCTION = """\
# Predictions beside an H200

Every launch that was recorded under Nsight Compute (caches flushed, clocks as found), timed by tcsim at the SM clock of its
recording (cycles over time, which Nsight Compute takes from two passes: of the bundles and the wide group it is often above the
1.98 GHz that an H200 has, and their recorded cycles are up to some per cent long). `python docs/pictures/cycles.py` writes this
page; on a machine with a GPU, `python -m gpu_ref correlate` measures the last three groups again there and writes such tables
of them.

- *looked at*: the bundles of `traces/`, whose errors were seen while the model was made; a few of its numbers come from
  them.
- *held out: wide*: tiny launches in the manner of samples and deep-learning code, and *held out: scoreboard*: bigger ones,
  many of which saturate something. Nothing was fitted to them, but single errors were looked at.
- *held out: fresh*: 60 kernels from one CTA to many waves. No number was fitted to them and no single error was used; but which
  kinds were more than 20 % off was known while atomics were worked on, and their mean was one reason to drop a change.
- *held out: held_out*: 76 kernels, a third of the launches on tensor cores, written and recorded afterwards, and compared for
  the first time when this page was made. What is more than 20 % off there: 8-byte stores to random places (-56 %; an H200
  reads from memory the sectors that are written in part), a Triton product of tf32 by wgmma (-55 %; its cp.async of four bytes
  collide in the banks of shared memory, ten wavefronts each, which takes no time here) and a scan (+22 %; its stores of half
  sectors are joined on an H200).

Counters that are far off, and why. The ADU's instructions (`sm__inst_executed_pipe_adu`): hardware counts an instruction
again each time that it waits for a constant. `dram__bytes_write`: what was in the L2 before the launch is written when others
need its place; of a launch's own bytes few leave in its time. Requests to the L2: some 900 of a launch itself in some passes
of Nsight Compute, 3,300 in others. Wavefronts of the data stage: up to 15 % more where stores meet what loads bring. Bank
conflicts: some that no address causes. Writes of the L2's halves to each other: a share of lines that differs from launch to
launch. Throughput of the L1 in launches of microseconds: units that are busy at a launch's start count.

"""


def write(processes: str) -> int:
    """Write both; returns the exit code of the command."""
    page = HERE.parent / "correlation.md"
    held_out = [str(TRACES / f"{name}.tar.xz") for name in ("wide", "scoreboard", "fresh", "held_out")]
    options = ["--held-out", *held_out, "--out", str(page), "--plot", str(HERE / "cycles.svg"), "--jobs", processes]
    code = main(["correlate", str(TRACES), *options])
    page.write_text(INTRODUCTION + page.read_text(encoding="utf-8"), encoding="utf-8")
    return code


if __name__ == "__main__":
    raise SystemExit(write(sys.argv[1] if sys.argv[1:] else "1"))
