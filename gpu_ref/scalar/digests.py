"""Hashes of what a GPU returns for every scalar form of the registry: 5,869 forms in a file of a hundred kilobytes.

On a machine with a GPU, CuPy and numba, from the root of the checkout; then on any machine::

    python -m gpu_ref.scalar.digests --record traces/scalar/every.npz
    python -m gpu_ref.scalar.digests traces/scalar/every.npz --every 50

A form's operands follow from its name (:func:`gpu_ref.scalar.every.operand_columns`, :data:`SEED`,
:data:`~gpu_ref.scalar.inputs.ROWS` rows). The file holds ``keys`` (text, a line each), ``digests`` (uint64, of all results) and
``provenance`` (JSON text). Checking compiles each form, a quarter of a second each; ``--every`` takes one in so many.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import multiprocessing
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import numpy as np

from gpu_ref.device import describe_gpu, require_cupy
from gpu_ref.launching import KernelHandle, load_kernels
from gpu_ref.scalar.every import FORMS, Words, entry_name, kernels_ptx, operand_columns, run_model
from gpu_ref.scalar.inputs import ROWS
from isa.errors import TcsimError

__all__ = ["SEED", "digest", "digest_of_model", "load_all", "main", "read", "run_on_gpu"]

SEED = 20261130
_MODULE = 48  # kernels that are loaded as one module
_THREADS = 128


def digest(columns: Sequence[Words]) -> int:
    """64 bits of the BLAKE2b hash of results, little-endian."""
    text = b"".join(np.ascontiguousarray(column, "<u8").tobytes() for column in columns)
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def digest_of_model(key: str) -> int:
    """The digest of what tcsim computes for a form."""
    return digest(run_model(FORMS[key], operand_columns(FORMS[key], SEED, ROWS)))


def load_all(keys: Sequence[str]) -> dict[str, KernelHandle]:
    """The kernels of forms, some at a time as one module; several modules are assembled at once."""
    cupy = require_cupy()
    device = cupy.cuda.Device()

    def load(part: Sequence[str]) -> list[tuple[str, KernelHandle]]:
        with device:  # the current device is a property of the thread
            text = kernels_ptx([FORMS[key] for key in part])
            return list(zip(part, load_kernels(text, [entry_name(k) for k in range(len(part))]), strict=True))

    with ThreadPoolExecutor(8) as pool:
        parts = [keys[at : at + _MODULE] for at in range(0, len(keys), _MODULE)]
        return dict(pair for pairs in pool.map(load, parts) for pair in pairs)


def run_on_gpu(handle: KernelHandle, columns: list[Words], results: int) -> list[Words]:
    """The results of a form on rows of operands."""
    rows = len(columns[0])
    uploaded = handle.upload([np.concatenate(columns), np.zeros(rows * results, np.uint64), np.uint32(rows)])
    handle.run(((rows + _THREADS - 1) // _THREADS, 1, 1), (_THREADS, 1, 1), uploaded, 0)
    return list(np.asarray(uploaded[1].get()).reshape(results, rows))


def _columns(key: str) -> list[Words]:
    return operand_columns(FORMS[key], SEED, ROWS)


def record(path: Path, keys: Sequence[str], processes: int) -> None:
    """Run forms on this machine's GPU and write their digests. Raises TcsimError."""
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("fork")) as pool:
        operands = pool.map(_columns, keys, chunksize=16)  # all processes start here, before CUDA is initialised
        handles = load_all(keys)
        digests = [
            digest(run_on_gpu(handles[key], columns, len(FORMS[key].destinations)))
            for key, columns in zip(keys, operands, strict=True)
        ]
    gpu = describe_gpu(require_cupy()) | {"date": datetime.datetime.now(datetime.UTC).date().isoformat(), "seed": SEED}
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(
        path,
        keys=np.array("\n".join(keys)),
        digests=np.array(digests, np.uint64),
        provenance=np.array(json.dumps(gpu)),
    )
    print(f"{path}: {len(digests)} forms, {ROWS} rows each", flush=True)


def read(path: Path) -> dict[str, int]:
    """The digests in a file, by the key of the form."""
    with np.load(path) as stored:
        return dict(zip(str(stored["keys"]).split("\n"), map(int, stored["digests"]), strict=True))


def main(arguments: list[str] | None = None) -> int:
    """Command line; see the module's text. Returns 0, 1 where a digest differs, or 2 where something is missing."""
    parser = argparse.ArgumentParser(description="Record, or check, hashes of the results of every scalar form.")
    parser.add_argument("file", type=Path, help="the .npz file")
    parser.add_argument("--record", action="store_true", help="write it, on a machine with a GPU")
    parser.add_argument("--every", type=int, default=1, help="take one form in so many (default: all)")
    parser.add_argument("--only", default="", help="forms whose name contains this")
    parser.add_argument("--processes", type=int, default=1, help="to share the work (default: 1)")
    options = parser.parse_args(arguments)
    try:
        if options.record:
            record(options.file, [key for key in FORMS if options.only in key][:: options.every], options.processes)
            return 0
        stored = read(options.file)
    except (TcsimError, OSError) as problem:
        print(problem, file=sys.stderr)
        return 2
    chosen = [key for key in stored if options.only in key][:: options.every]
    wrong = []
    with ProcessPoolExecutor(options.processes, mp_context=multiprocessing.get_context("fork")) as pool:
        for key, ours in zip(chosen, pool.map(digest_of_model, chosen, chunksize=8), strict=True):
            if ours != stored[key]:
                wrong.append(key)
                print(f"differs: {key}", flush=True)
    print(f"{len(chosen) - len(wrong)} of {len(chosen)} scalar forms agree")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
