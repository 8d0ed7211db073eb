"""``wgmma`` on a GPU and through tcsim's kernels, side by side, on new operands, layouts and constants.

``python -m gpu_ref fuzz --form wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16`` does it from the command line. Processes
make problems (:mod:`gpu_ref.tensor.wgmma_inputs`) and compute them; this one runs them on the GPU and compares. Of each form's
first mismatches one dot product is shown in human terms.
"""

from __future__ import annotations

import itertools
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu_ref.launching import KernelHandle, load_kernel
from gpu_ref.tensor.explain import Dot, differing, explain
from gpu_ref.tensor.wgmma_inputs import Problems, places, problems, wgmma_classes
from gpu_ref.tensor.wgmma_kernels import ENTRY, wgmma_ptx
from gpu_ref.tensor.wgmma_record import INSTANCES, Instance, run_problems
from gpu_ref.tensor.wgmma_replay import replay_wgmma
from isa.tensor.forms import element_bits
from isa.tensor.metadata import codes_of, gathered_k
from isa.tensor.wgmma_forms import WGMMA_FORMS

__all__ = ["Tally", "find_dot", "fuzz", "matching"]

_OUTPUTS = 1 << 19  # of one task, about
_SHOWN = 2  # mismatches explained for each form


class _Task(NamedTuple):
    instance: Instance
    case: str
    seed: int
    batch: int
    amount: int


_Expected = tuple[_Task, Problems, NDArray[np.uint32]]


def matching(names: Sequence[str]) -> list[Instance]:
    """Every form whose text contains one of ``names``, with A in registers and in shared memory; without names, those that are
    recorded."""
    if not names:
        return list(INSTANCES)
    every = (Instance(form, registers) for form in WGMMA_FORMS for registers in (False, True))
    return [instance for instance in every if any(name in instance.name for name in names)]


def _expect(task: _Task) -> _Expected:
    given = problems(*task.instance, task.case, task.seed, task.batch, task.amount)
    return task, given, replay_wgmma(task.instance.form, given)


def _tasks(chosen: Sequence[Instance], seed: int) -> Iterator[_Task]:
    """Every class of every form in turn, then all again with new operands. The first round is short."""
    for batch in itertools.count():
        outputs = _OUTPUTS if batch else _OUTPUTS >> 4
        for instance in chosen:
            cases = wgmma_classes(instance.form)
            count = max(1, outputs // (instance.form.m * instance.form.n * len(cases)))
            for case in cases:
                yield _Task(instance, case, seed, batch, count)


def find_dot(instance: Instance, given: Problems, d: NDArray[np.uint32], where: tuple[int, ...], element: int) -> Dot:
    """The output element at ``where`` (problem, warp, register, lane; ``element`` 1: in the upper half) as a dot product, signs
    and scale-d applied."""
    form, chosen = instance.form, given.setting
    problem, *place = where
    row, column = (int(x[(*place, element)]) for x in places(form))
    a, b, c = (x[problem] for x in given.elements)
    met = b[:, column]
    if form.is_sparse:
        codes = codes_of(form, given.e[problem, row // 16], chosen.selector)
        met = met[gathered_k(form, codes)[row % 16]]
    sign = 1 << (element_bits(form.a) - 1) if form.d != "s32" else 0
    left = [int(x) ^ sign * (chosen.scale_a < 0) for x in a[row]]
    right = [int(x) ^ sign * (chosen.scale_b < 0) for x in met]
    got = int(d[where]) >> 16 * element & (0xFFFF if form.d == "f16" else 0xFFFFFFFF)
    return Dot(left, right, int(c[row, column]) * chosen.scale_d, got, 0, row, column)


class Tally:
    """Outputs and mismatches of each form, and the text of the first mismatches."""

    def __init__(self, chosen: Sequence[Instance]) -> None:
        self.outputs = {instance.name: 0 for instance in chosen}
        self.wrong = {instance.name: 0 for instance in chosen}
        self._handles: dict[str, KernelHandle] = {}

    def check(self, task: _Task, given: Problems, expected: NDArray[np.uint32]) -> None:
        """Run a task's problems on the GPU and compare."""
        form, name = task.instance.form, task.instance.name
        if name not in self._handles:
            self._handles[name] = load_kernel(wgmma_ptx(*task.instance), ENTRY)
        got = run_problems(self._handles[name], form, given)
        self.outputs[name] += task.amount * form.m * form.n
        if np.array_equal(got, expected):
            return
        before, wrong = self.wrong[name], differing(form, got, expected)
        self.wrong[name] += wrong
        for index in np.argwhere(got != expected)[: max(0, _SHOWN - before)].tolist():
            where = tuple(index)
            upper = int(form.d == "f16" and (int(got[where]) ^ int(expected[where])) & 0xFFFF == 0)
            dots = [find_dot(task.instance, given, d, where, upper) for d in (got, expected)]
            print(explain(form, 90, dots[0], dots[1].got))
            print(f"  class {task.case}, seed {task.seed}, batch {task.batch}, problem {index[0]} of {task.amount}")
            print(f"  {given.setting}", flush=True)

    def counts(self) -> dict[str, list[int]]:
        """Outputs and mismatches by the text of the form."""
        return {name: [n, self.wrong[name]] for name, n in self.outputs.items() if n}

    def table(self) -> str:
        """A line for each form, and the total."""
        lines = [f"{'form':<72}{'outputs':>16}{'mismatches':>12}"]
        lines += [f"{name:<72}{n:>16,}{wrong:>12,}" for name, (n, wrong) in self.counts().items()]
        return "\n".join([*lines, f"{'total':<72}{sum(self.outputs.values()):>16,}{sum(self.wrong.values()):>12,}"])


def fuzz(chosen: Sequence[Instance], seconds: float, seed: int, processes: int) -> Tally:
    """Compare these forms until the time is over. Raises TcsimError."""
    # Compile here, once, before the processes are made.
    for instance in {(x.form.d == "s32", x.form.a == "b1"): x for x in chosen}.values():
        _expect(_Task(instance, wgmma_classes(instance.form)[0], 0, 0, 1))
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
