"""Record what a GPU makes of every matrix instruction and of the probes.

Run on a machine with a GPU, NumPy and CuPy, from the root of the checkout::

    python -m gpu_ref.tensor.record FOLDER

It takes some ten seconds and writes under FOLDER, less than 4 MB together:

====================  ================================================================================================
``mma.npz``           for each form of :data:`gpu_ref.tensor.inputs.FORMS` (its text): the registers of D on batch 0 of
                      its operands, ``[class, warp, register, lane]``, uint32 or uint64
``wmma.npz``          the same for ``wmma``
``digests.npz``       for each form, :func:`digest` of D on batch 1, uint64 ``[class]``
``executed.npz``      for each probe (its name), the words of its output, uint32
``provenance.json``   GPU, driver, CUDA, date, seed, version of the operands
====================  ================================================================================================
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu_ref.device import describe_gpu, require_cupy
from gpu_ref.launching import KernelHandle, load_kernel
from gpu_ref.tensor import kernels, probes
from gpu_ref.tensor.atomic_probes import ATOMIC_PROBES
from gpu_ref.tensor.float_inputs import FORMATS
from gpu_ref.tensor.inputs import FORMS, VERSION, Operands, Registers, classes, fragments, operands
from gpu_ref.tensor.warp_probes import WARP_PROBES
from isa.errors import TcsimError
from isa.tensor import MmaForm

__all__ = ["DIGESTED_WARPS", "PROBES", "SEED", "digest", "main", "recorded_warps", "run_form"]

SEED = 20260
PROBES = (*ATOMIC_PROBES, *WARP_PROBES)

DIGESTED_WARPS = 64
"""Warps of batch 1 of each class."""


def recorded_warps(form: MmaForm) -> int:
    """Warps of batch 0 of each class: 72 or 64 over all classes."""
    return 6 if form.a in FORMATS else 16


def digest(d: Registers) -> int:
    """64 bits of the BLAKE2b hash of registers, little-endian."""
    words = np.ascontiguousarray(d, d.dtype.newbyteorder("<"))
    return int.from_bytes(hashlib.blake2b(words.tobytes(), digest_size=8).digest(), "little")


def run_form(handle: KernelHandle, form: MmaForm, inputs: Operands) -> Registers:
    """D of every warp, ``[warp, register, lane]``, from the kernel of :func:`gpu_ref.tensor.kernels.form_ptx`."""
    warps, per_cta = len(inputs.a), kernels.WARPS_PER_CTA
    grid = -(-warps // per_cta)
    padded = [np.zeros((grid * per_cta, *x.shape[1:]), x.dtype) for x in inputs]
    for whole, x in zip(padded, inputs, strict=True):
        whole[:warps] = x
    d = np.zeros((grid * per_cta, fragments(form)["d"].registers, 32), inputs.a.dtype)
    uploaded = handle.upload([*padded, d])
    handle.run((grid, 1, 1), (32 * per_cta, 1, 1), uploaded, 0)
    return np.asarray(uploaded[-1].get()[:warps])


def _record_form(form: MmaForm) -> tuple[NDArray[Any], NDArray[np.uint64]]:
    """The registers of D on batch 0, and the digests of batch 1."""
    handle = load_kernel(kernels.form_ptx(form), kernels.ENTRY)
    warps, count = recorded_warps(form), recorded_warps(form) + DIGESTED_WARPS
    words, digests = [], []
    for case in classes(form):
        batches = [operands(form, case, SEED, batch, n) for batch, n in ((0, warps), (1, DIGESTED_WARPS))]
        both = Operands(*(np.concatenate(pair) for pair in zip(*batches, strict=True)))
        d = run_form(handle, form, both)
        assert len(d) == count
        words.append(d[:warps])
        digests.append(digest(d[warps:]))
    return np.stack(words), np.array(digests, np.uint64)


def _record_probe(probe: probes.Probe) -> NDArray[np.uint32]:
    handle = load_kernel(probe.ptx, probes.ENTRY)
    uploaded = handle.upload([probe.data, np.zeros(probe.out_words, np.uint32)])
    handle.run((probe.grid, 1, 1), (probe.block, 1, 1), uploaded, 0)
    return np.asarray(uploaded[-1].get())


def _save(path: Path, arrays: dict[str, NDArray[Any]]) -> None:
    np.savez_compressed(path, **arrays)  # type: ignore[arg-type]
    print(f"{path.name}: {len(arrays)} arrays, {path.stat().st_size / 1e6:.2f} MB", flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Command line; see the module's text. Returns 0, or 2 where the GPU or a part of the recording failed."""
    parser = argparse.ArgumentParser(description="Record the matrix instructions of this machine's GPU.")
    parser.add_argument("folder", type=Path, help="where to write the recording")
    folder: Path = parser.parse_args(arguments).folder
    begin = time.perf_counter()
    try:
        cupy = require_cupy()
    except TcsimError as error:
        print(error, file=sys.stderr)
        return 2
    folder.mkdir(parents=True, exist_ok=True)
    provenance = describe_gpu(cupy) | {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "seed": SEED,
        "operands": VERSION,
    }
    (folder / "provenance.json").write_text(json.dumps(provenance, indent=2) + "\n")
    recorded: dict[str, dict[str, NDArray[Any]]] = {"mma": {}, "wmma": {}, "digests": {}, "executed": {}}
    failed = []
    for form in FORMS:
        try:
            recorded[form.instruction][str(form)], recorded["digests"][str(form)] = _record_form(form)
        except TcsimError as error:
            failed.append(f"{form}: {error}")
    for name in ("mma", "wmma", "digests"):
        _save(folder / f"{name}.npz", recorded[name])
    for probe in PROBES:
        try:
            recorded["executed"][probe.name] = _record_probe(probe)
        except TcsimError as error:
            failed.append(f"{probe.name}: {error}")
    _save(folder / "executed.npz", recorded["executed"])
    print(f"{time.perf_counter() - begin:.1f} s")
    for text in failed:
        print(f"FAILED {text}", file=sys.stderr)
    return 2 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
