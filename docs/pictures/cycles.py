"""Time every recorded launch and set the predictions beside what Nsight Compute counted on an H200: a picture and tables.

python docs/pictures/cycles.py [PROCESSES]     # writes cycles.svg beside this file, and docs/correlation.md
"""

from __future__ import annotations

import sys
from pathlib import Path

from gpu_ref.__main__ import main

HERE = Path(__file__).parent
TRACES = HERE.parents[1] / "traces"

if __name__ == "__main__":
    held_out = [str(TRACES / f"{name}.tar.xz") for name in ("wide", "scoreboard", "fresh")]
    tables = ["--out", str(HERE.parent / "correlation.md"), "--plot", str(HERE / "cycles.svg")]
    processes = ["--jobs", sys.argv[1] if sys.argv[1:] else "1"]
    raise SystemExit(main(["correlate", str(TRACES), "--held-out", *held_out, *tables, *processes]))
