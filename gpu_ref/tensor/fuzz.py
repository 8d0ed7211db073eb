"""New operands on a GPU and through :mod:`isa.tensor`, side by side, for as long as you like.

Run on a machine with a GPU, CuPy and numba, from the root of the checkout::

    python -m gpu_ref.tensor.fuzz --all --seconds 90
    python -m gpu_ref.tensor.fuzz --form mma.sync.m16n8k16.row.col.f32.f16.f16.f32 --seconds 10

Processes make operands and run them through the kernels of :mod:`isa.tensor`; this one runs them on the GPU and compares.
It prints a table of outputs and mismatches for each form, and of each form's first mismatches one dot product in human
terms. Exit code 1 means that something differed.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gpu_ref.device import describe_gpu, require_cupy
from gpu_ref.launching import KernelHandle, load_kernel
from gpu_ref.tensor import kernels
from gpu_ref.tensor.explain import differing, explain, find_dot
from gpu_ref.tensor.inputs import FORMS, Operands, Registers, SparseOperands, classes, operands
from gpu_ref.tensor.record import run_form
from gpu_ref.tensor.replay import replay
from gpu_ref.tensor.shrink import Place, shrink
from isa.errors import TcsimError
from isa.tensor import MmaForm, make_plan

__all__ = ["Tally", "fuzz", "main", "matching"]

_SM = 90
_OUTPUTS = 1 << 19  # of one task, about
_SHOWN = 2  # mismatches explained for each form


class _Task(NamedTuple):
    form: int
    case: str
    seed: int
    batch: int
    warps: int


_Expected = tuple[_Task, Operands | SparseOperands, Registers]


def _outputs_of_a_warp(form: MmaForm) -> int:
    return form.m * form.n * (4 if form.is_884 else 1)


def _expect(task: _Task) -> _Expected:
    form = FORMS[task.form]
    inputs = operands(form, task.case, task.seed, task.batch, task.warps)
    return task, inputs, replay(make_plan(form, _SM), inputs)


def _tasks(chosen: list[int], seed: int) -> Iterator[_Task]:
    """Every class of every chosen form in turn, then all again with new operands. The first round is short."""
    for batch in itertools.count():
        outputs = _OUTPUTS if batch else _OUTPUTS >> 4
        for index in chosen:
            form = FORMS[index]
            for case in classes(form):
                # Eights: CTAs are full then, and every variant of mma.sp is there.
                eights = outputs // _outputs_of_a_warp(form) // len(classes(form)) // 8
                yield _Task(index, case, seed, batch, 8 * max(1, eights))


class Tally:
    """Outputs and mismatches of each form, and the text of the first mismatches."""

    def __init__(self, chosen: list[int]) -> None:
        self.outputs = dict.fromkeys(chosen, 0)
        self.wrong = dict.fromkeys(chosen, 0)
        self.shown: list[str] = []
        self._handles: dict[int, KernelHandle] = {}

    def check(self, task: _Task, inputs: Operands | SparseOperands, expected: Registers) -> None:
        form = FORMS[task.form]
        if task.form not in self._handles:
            self._handles[task.form] = load_kernel(kernels.form_ptx(form), kernels.ENTRY)
        got = run_form(self._handles[task.form], form, inputs)
        self.outputs[task.form] += task.warps * _outputs_of_a_warp(form)
        if np.array_equal(got, expected):
            return
        before, wrong = self.wrong[task.form], differing(form, got, expected)
        self.wrong[task.form] += wrong
        for warp, register, lane in np.argwhere(got != expected)[: max(0, _SHOWN - before)].tolist():
            difference = int(got[warp, register, lane]) ^ int(expected[warp, register, lane])
            place = Place(warp, register, lane, int(form.d == "f16" and difference & 0xFFFF == 0))
            where = f"class {task.case}, seed {task.seed}, batch {task.batch}, warp {warp} of {task.warps}"
            self.shown.append(f"{self._explained(task.form, inputs, place)}\n  {where}")
            print(self.shown[-1], flush=True)

    def _explained(self, number: int, inputs: Operands | SparseOperands, place: Place) -> str:
        """The mismatch made small, as text."""
        form = FORMS[number]
        plan = make_plan(form, _SM)

        def both(operands: Operands | SparseOperands) -> tuple[Registers, Registers]:
            return run_form(self._handles[number], form, operands), replay(plan, operands)

        small, place = shrink(form, inputs, place, both)
        dots = [find_dot(form, small, d, *place) for d in both(small)]
        return explain(form, _SM, dots[0], dots[1].got)

    def counts(self) -> dict[str, list[int]]:
        """Outputs and mismatches by the text of the form."""
        return {str(FORMS[i]): [n, self.wrong[i]] for i, n in self.outputs.items()}

    def table(self) -> str:
        """A line for each form, and the total."""
        lines = [f"{'form':<58}{'outputs':>16}{'mismatches':>12}"]
        lines += [f"{FORMS[i]!s:<58}{n:>16,}{self.wrong[i]:>12,}" for i, n in self.outputs.items()]
        return "\n".join([*lines, f"{'total':<58}{sum(self.outputs.values()):>16,}{sum(self.wrong.values()):>12,}"])


def matching(names: Sequence[str]) -> list[int]:
    """The numbers of the forms whose text contains one of ``names``; of all where there are none."""
    return [i for i, form in enumerate(FORMS) if not names or any(name in str(form) for name in names)]


def fuzz(chosen: list[int], seconds: float, seed: int, processes: int) -> Tally:
    """Compare the forms of these numbers until the time is over. Raises TcsimError."""
    # Compile here, once, before the processes are made.
    for index in {make_plan(FORMS[i], _SM).kernel.__name__: i for i in chosen}.values():
        _expect(_Task(index, classes(FORMS[index])[0], 0, 0, 1))
    tally, tasks, waiting = Tally(chosen), _tasks(chosen, seed), set[Future[_Expected]]()
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("fork")) as pool:
        # The first tasks start all processes, before CUDA is initialised here.
        waiting |= {pool.submit(_expect, next(tasks)) for _ in range(2 * processes)}
        deadline = time.perf_counter() + seconds
        while waiting:
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                if time.perf_counter() < deadline:
                    waiting.add(pool.submit(_expect, next(tasks)))
                tally.check(*future.result())
    return tally


def main(arguments: list[str] | None = None) -> int:
    """Command line; see the module's text. Returns 0, 1 after a mismatch, or 2 where something is missing."""
    parser = argparse.ArgumentParser(description="Compare matrix instructions with this machine's GPU on new operands.")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--all", action="store_true", help="every form")
    which.add_argument("--form", action="append", default=[], help="forms whose text contains this; may be given again")
    parser.add_argument("--seconds", type=float, default=60, help="when to stop starting (default: 60)")
    parser.add_argument("--seed", type=int, default=None, help="default: from the clock; printed")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="default: one for each core")
    parser.add_argument("--report", type=Path, help="a JSON file to write the counts to")
    options = parser.parse_args(arguments)
    chosen = matching(options.form)
    if not chosen:
        print(f"no form contains {options.form}; they are spelled like {FORMS[0]}", file=sys.stderr)
        return 2
    seed = time.time_ns() >> 20 if options.seed is None else options.seed
    print(f"{len(chosen)} forms, seed {seed}, {options.processes} processes", flush=True)
    begin = time.perf_counter()
    try:
        tally = fuzz(chosen, options.seconds, seed, options.processes)
        gpu = describe_gpu(require_cupy()) | {"date": datetime.datetime.now(datetime.UTC).date().isoformat()}
    except TcsimError as error:
        print(error, file=sys.stderr)
        return 2
    print(tally.table())
    print(f"{time.perf_counter() - begin:.1f} s")
    if options.report:
        text = json.dumps({"gpu": gpu, "seed": seed, "outputs_and_mismatches": tally.counts()}, indent=1)
        options.report.write_text(text + "\n")
    return 1 if any(tally.wrong.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
