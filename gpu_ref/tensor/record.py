"""Record what a GPU makes of every matrix instruction and of the probes.

Run on a machine with a GPU, NumPy and CuPy, from the root of the checkout::

    python -m gpu_ref.tensor.record FOLDER

It takes some twenty seconds and writes under FOLDER, less than 7 MB together:

====================  ================================================================================================
``mma.npz``           for each form of :data:`gpu_ref.tensor.inputs.FORMS` (its text): the registers of D on batch 0 of
                      its operands, ``[class, warp, register, lane]``, uint32 or uint64
``mma.sp.npz``        the same for ``mma.sp``, its selectors and kinds of metadata in turn
``wmma.npz``          the same for ``wmma``
``undefined.npz``     the same for ``mma.sp`` with metadata of which every bit is random, ``[warp, register, lane]``
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
from gpu_ref.launching import Assembler, KernelHandle, load_kernel
from gpu_ref.tensor import kernels, probes
from gpu_ref.tensor.atomic_probes import ATOMIC_PROBES
from gpu_ref.tensor.draw import Draw
from gpu_ref.tensor.float_inputs import FORMATS
from gpu_ref.tensor.inputs import (
    FORMS,
    VERSION,
    Operands,
    Registers,
    SparseOperands,
    classes,
    fragments,
    operands,
    raw_metadata,
)
from gpu_ref.tensor.warp_probes import WARP_PROBES
from isa.errors import TcsimError
from isa.tensor import MmaForm

__all__ = [
    "DIGESTED_WARPS", "PROBES", "SEED", "UNDEFINED_WARPS", "digest", "main", "recorded_warps", "run_form",
    "undefined_operands",
]  # fmt: skip

SEED = 20260
PROBES = (*ATOMIC_PROBES, *WARP_PROBES)

DIGESTED_WARPS = 64
"""Warps of batch 1 of each class."""


def recorded_warps(form: MmaForm) -> int:
    """Warps of batch 0 of each class: 64 to 96 over all classes."""
    if form.a not in FORMATS:
        return 16
    return 8 if form.is_sparse else 6


UNDEFINED_WARPS = 16
"""Warps of each recording in ``undefined.npz``."""


def undefined_operands(form: MmaForm) -> SparseOperands:
    """Ordinary numbers and random metadata."""
    inputs = operands(form, classes(form)[form.a in FORMATS], SEED, 2, UNDEFINED_WARPS)
    assert isinstance(inputs, SparseOperands)
    return inputs._replace(e=raw_metadata(Draw(form, "undefined metadata", SEED), UNDEFINED_WARPS))


def digest(d: Registers) -> int:
    """64 bits of the BLAKE2b hash of registers, little-endian."""
    words = np.ascontiguousarray(d, d.dtype.newbyteorder("<"))
    return int.from_bytes(hashlib.blake2b(words.tobytes(), digest_size=8).digest(), "little")


def run_form(handle: KernelHandle, form: MmaForm, inputs: Operands | SparseOperands) -> Registers:
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


def _record_form(form: MmaForm, assembler: Assembler) -> tuple[NDArray[Any], NDArray[np.uint64]]:
    """The registers of D on batch 0, and the digests of batch 1."""
    handle = load_kernel(kernels.form_ptx(form), kernels.ENTRY, assembler=assembler)
    warps, count = recorded_warps(form), recorded_warps(form) + DIGESTED_WARPS
    words, digests = [], []
    for case in classes(form):
        batches = [operands(form, case, SEED, batch, n) for batch, n in ((0, warps), (1, DIGESTED_WARPS))]
        both = type(batches[0])(*(np.concatenate(pair) for pair in zip(*batches, strict=True)))
        d = run_form(handle, form, both)
        assert len(d) == count
        words.append(d[:warps])
        digests.append(digest(d[warps:]))
    return np.stack(words), np.array(digests, np.uint64)


def _record_undefined(form: MmaForm, assembler: Assembler) -> Registers:
    """What comes of metadata that mean nothing, D of :func:`undefined_operands`."""
    handle = load_kernel(kernels.form_ptx(form), kernels.ENTRY, assembler=assembler)
    return run_form(handle, form, undefined_operands(form))


def _record_probe(probe: probes.Probe, assembler: Assembler) -> NDArray[np.uint32]:
    handle = load_kernel(probe.ptx, probes.ENTRY, assembler=assembler)
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
    parser.add_argument("--ptxas", action="store_true", help="assemble with ptxas instead of the driver")
    options = parser.parse_args(arguments)
    folder: Path = options.folder
    assembler: Assembler = "ptxas" if options.ptxas else "driver"
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
        "assembler": assembler,
    }
    (folder / "provenance.json").write_text(json.dumps(provenance, indent=2) + "\n")
    recorded: dict[str, dict[str, NDArray[Any]]] = {
        name: {} for name in ("mma", "mma.sp", "wmma", "digests", "undefined", "executed")
    }
    failed = []
    for form in FORMS:
        try:
            recorded[form.instruction][str(form)], recorded["digests"][str(form)] = _record_form(form, assembler)
            if form.is_sparse:
                recorded["undefined"][str(form)] = _record_undefined(form, assembler)
        except TcsimError as error:
            failed.append(f"{form}: {error}")
    for name in ("mma", "mma.sp", "wmma", "digests", "undefined"):
        _save(folder / f"{name}.npz", recorded[name])
    for probe in PROBES:
        try:
            recorded["executed"][probe.name] = _record_probe(probe, assembler)
        except TcsimError as error:
            failed.append(f"{probe.name}: {error}")
    _save(folder / "executed.npz", recorded["executed"])
    print(f"{time.perf_counter() - begin:.1f} s")
    for text in failed:
        print(f"FAILED {text}", file=sys.stderr)
    return 2 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
