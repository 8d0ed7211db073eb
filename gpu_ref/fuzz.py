"""``python -m gpu_ref fuzz``: new random operands on a GPU and through tcsim, side by side.

Matrix instructions are compared by :mod:`gpu_ref.tensor.fuzz` and :mod:`gpu_ref.tensor.wgmma_fuzz`, scalar ones by
:mod:`gpu_ref.scalar.fuzz`.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import time
from pathlib import Path

from gpu_ref.device import describe_gpu, require_cupy
from gpu_ref.scalar import fuzz as scalar
from gpu_ref.scalar.every import FORMS
from gpu_ref.tensor import fuzz as tensor
from gpu_ref.tensor import wgmma_fuzz as warpgroup
from isa.errors import TcsimError

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``python -m gpu_ref fuzz``."""
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--all", action="store_true", help="every matrix and scalar form")
    which.add_argument("--tensor", action="store_true", help="every matrix form")
    which.add_argument("--scalar", action="store_true", help="every scalar form")
    which.add_argument("--form", action="append", default=[], metavar="WORD",
                       help="an opcode (add.rn.f32), or forms whose text contains this; may be given again")  # fmt: skip
    parser.add_argument("--seconds", type=float, default=60, help="when to stop starting (default: 60)")
    parser.add_argument("--seed", type=int, default=None, help="default: from the clock; printed")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="default: one for each core")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the counts to this JSON file")


def run(options: argparse.Namespace) -> int:
    """Compare. Returns 1 after a mismatch. Raises TcsimError for a name that no form has, or where there is no GPU."""
    matrix = [] if options.scalar or (options.form and _is_opcode(options.form)) else tensor.matching(options.form)
    groups = [] if options.scalar or (options.form and _is_opcode(options.form)) else warpgroup.matching(options.form)
    lanes = [] if options.tensor else scalar.matching(options.form)
    if not matrix and not groups and not lanes:
        raise TcsimError(
            f"no form contains {' or '.join(options.form)}; they are spelled like "
            "mma.sync.m16n8k16.row.col.f32.f16.f16.f32 and fma.rn.ftz.f32"
        )
    seed = time.time_ns() >> 20 if options.seed is None else options.seed
    counted = f"{len(matrix)} matrix, {len(groups)} warpgroup and {len(lanes)} scalar forms"
    print(f"{counted}, seed {seed}, {options.processes} processes", flush=True)
    share = options.seconds / sum(map(bool, (matrix, groups, lanes)))
    counts: dict[str, list[int]] = {}
    if lanes:
        found = scalar.fuzz(lanes, share, seed, options.processes)
        print(found.table(), flush=True)
        counts |= {key: [n, found.wrong[key]] for key, n in found.outputs.items()}
    if matrix:
        tally = tensor.fuzz(matrix, share, seed, options.processes)
        print(tally.table(), flush=True)
        counts |= tally.counts()
    if groups:
        compared = warpgroup.fuzz(groups, share, seed, options.processes)
        print(compared.table(), flush=True)
        counts |= compared.counts()
    gpu = describe_gpu(require_cupy()) | {"date": datetime.datetime.now(datetime.UTC).date().isoformat()}
    if options.report:
        text = json.dumps({"gpu": gpu, "seed": seed, "outputs_and_mismatches": counts}, indent=1)
        options.report.write_text(text + "\n")
    return int(any(wrong for _, wrong in counts.values()))


def _is_opcode(names: list[str]) -> bool:
    """Whether the scalar forms were meant by their whole names."""
    return all(any(form.name == name for form in FORMS.values()) for name in names)
