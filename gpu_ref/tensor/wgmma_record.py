"""Record what a GPU makes of ``wgmma``.

Run on a machine with a GPU of compute capability 9.0, NumPy and CuPy, from the root of the checkout::

    python -m gpu_ref.tensor.wgmma_record FOLDER

It takes about a minute, most of it in the assembler, and writes under FOLDER, less than 2 MB together:

=========================  ===========================================================================================
``wgmma.npz``              for each :func:`instance` with N = 8 (its name): the registers of D of one problem of each class,
                           batch 0, ``[class, warp, register, lane]``, uint32
``wgmma_digests.npz``      for each instance: :func:`~gpu_ref.tensor.record.digest` of D of each class, uint64 ``[batch,
                           class]``; batch 1 of :data:`FEW` problems, batch 2 of :func:`many`
``wgmma_provenance.json``  GPU, driver, CUDA, date, seed, version of the operands, number of outputs
=========================  ===========================================================================================
"""

from __future__ import annotations

import argparse
import datetime
import json
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu_ref.device import describe_gpu, require_cupy
from gpu_ref.launching import KernelHandle, load_kernel
from gpu_ref.tensor.record import digest
from gpu_ref.tensor.wgmma_inputs import Problems, problems, wgmma_classes
from gpu_ref.tensor.wgmma_kernels import ENTRY, numbers_of, wgmma_ptx
from isa.errors import TcsimError
from isa.tensor.forms import MmaForm
from isa.tensor.wgmma_forms import WGMMA_FORMS

__all__ = ["FEW", "INSTANCES", "SEED", "VERSION", "Instance", "batches", "instance_of", "main", "many", "run_problems"]

SEED = 9045
VERSION = 1
"""Changes whenever an operand does: a recording can only be replayed with the version it was made with."""

FEW = 1
_SIZES = ((8, False), (8, True), (24, True), (64, False), (96, True), (256, False))
"""N, and whether A is in registers."""


class Instance(NamedTuple):
    """A form with A from registers or from shared memory."""

    form: MmaForm
    a_in_registers: bool

    @property
    def name(self) -> str:
        return f"{self.form} {'rs' if self.a_in_registers else 'ss'}"


INSTANCES = tuple(
    Instance(form, registers) for n, registers in _SIZES for form in WGMMA_FORMS if form.n == n
)  # fmt: skip
"""What is recorded: every kind of form with six sizes."""


def instance_of(name: str) -> Instance:
    """The instance of this name. Raises KeyError."""
    return {x.name: x for x in INSTANCES}[name]


def many(form: MmaForm) -> int:
    """Problems of batch 2 of each class."""
    return max(16, min(64, form.n // 4))


def batches(instance: Instance) -> Iterator[tuple[int, int]]:
    """The number of each batch and how many problems it has of each class."""
    if instance.form.n == 8:
        yield 0, 1
    yield 1, FEW
    yield 2, many(instance.form)


def run_problems(handle: KernelHandle, form: MmaForm, given: Problems) -> NDArray[np.uint32]:
    """D ``[problem, warp, register, lane]`` from the kernel of :func:`~gpu_ref.tensor.wgmma_kernels.wgmma_ptx`."""
    arguments: list[Any] = [given.image, given.a, given.c, given.e, numbers_of(form, given.setting), np.zeros_like(given.c)]
    uploaded = handle.upload(arguments)
    handle.run((len(given.image), 1, 1), (128, 1, 1), uploaded, 0)
    return np.asarray(uploaded[-1].get())


def _operands(index: int) -> list[tuple[int, list[Problems]]]:
    """All batches of an instance: for each its number and the problems of each class."""
    form, registers = INSTANCES[index]
    none = np.zeros(0)
    made = []
    for batch, count in batches(INSTANCES[index]):
        cases = [problems(form, registers, case, SEED, batch, count) for case in wgmma_classes(form)]
        made.append((batch, [given._replace(elements=(none, none, none)) for given in cases]))
    return made


def _assembled(instance: Instance) -> KernelHandle:
    return load_kernel(wgmma_ptx(*instance), ENTRY, assembler="ptxas")


def record(
    folder: Path, assembled: Callable[[Instance], KernelHandle] = _assembled, processes: int = os.cpu_count() or 1
) -> list[str]:
    """Record all instances under ``folder``. Returns what failed. Raises TcsimError where there is no GPU."""
    registers: dict[str, NDArray[np.uint32]] = {}
    digests: dict[str, NDArray[np.uint64]] = {}
    failed, outputs = [], 0
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("fork")) as pool:
        # All processes are started before CUDA is initialised here.
        made = pool.map(_operands, range(len(INSTANCES)))
        for instance, every in zip(INSTANCES, made, strict=True):
            try:
                handle = assembled(instance)
                found = {}
                for batch, cases in every:
                    found[batch] = [run_problems(handle, instance.form, given) for given in cases]
                    outputs += sum(len(d) for d in found[batch]) * instance.form.m * instance.form.n
            except TcsimError as error:
                failed.append(f"{instance.name}: {error}")
                continue
            if 0 in found:
                registers[instance.name] = np.concatenate(found[0])
            digests[instance.name] = np.array([[digest(d) for d in found[batch]] for batch in (1, 2)], np.uint64)
    np.savez_compressed(folder / "wgmma.npz", **registers)  # type: ignore[arg-type]
    np.savez_compressed(folder / "wgmma_digests.npz", **digests)  # type: ignore[arg-type]
    provenance = describe_gpu(require_cupy()) | {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "seed": SEED,
        "operands": VERSION,
        "assembler": "ptxas",
        "outputs": outputs,
    }
    (folder / "wgmma_provenance.json").write_text(json.dumps(provenance, indent=2) + "\n")
    return failed


def main(arguments: list[str] | None = None) -> int:
    """Command line; see the module's text. Returns 0, or 2 where the GPU or a part of the recording failed."""
    parser = argparse.ArgumentParser(description="Record wgmma on this machine's GPU.")
    parser.add_argument("folder", type=Path, help="where to write the recording")
    options = parser.parse_args(arguments)
    try:
        require_cupy()
        options.folder.mkdir(parents=True, exist_ok=True)
        failed = record(options.folder)
    except TcsimError as error:
        print(error, file=sys.stderr)
        return 2
    for text in failed:
        print(f"FAILED {text}", file=sys.stderr)
    return 2 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
