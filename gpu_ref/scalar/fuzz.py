"""Scalar instructions on a GPU and through tcsim's kernels, side by side, on new operands.

``python -m gpu_ref fuzz --form add.rn.ftz.f32 --seconds 10`` does it from the command line. Processes draw operands and run
them through the compiled kernels (:func:`gpu_ref.scalar.every.run_model`); this one runs them on the GPU and compares. Of each
form's mismatches the one with the simplest operands is shown, as words and as numbers.
"""

from __future__ import annotations

import itertools
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_ref.launching import KernelHandle
from gpu_ref.scalar.classes import CLASSES, columns_of
from gpu_ref.scalar.digests import load_all, run_on_gpu
from gpu_ref.scalar.every import FORMS, Words, run_model
from gpu_ref.scalar.inputs import ROWS
from isa.spec import Form
from tcsim.numerics.scalars import number_text

__all__ = ["Tally", "fuzz", "matching"]

_BATCH_ROWS = 1 << 14
"""Operand rows of a task after the first round."""


class _Task(NamedTuple):
    key: str
    kind: str
    seed: int
    rows: int

    def columns(self) -> list[Words] | None:
        return columns_of(FORMS[self.key], self.kind, self.seed, self.rows)


_Expected = tuple[_Task, list[Words]]


def matching(names: Sequence[str]) -> list[str]:
    """The forms (their keys) whose opcode is one of ``names``, or contains one if none is; all where there are no names."""
    whole = [key for key, form in FORMS.items() if form.name in names]
    return whole or [key for key, form in FORMS.items() if not names or any(name in form.name for name in names)]


def _expect(task: _Task) -> _Expected:
    columns = task.columns()
    return task, [] if columns is None else run_model(FORMS[task.key], columns)


def _tasks(chosen: Sequence[str], seed: int) -> Iterator[_Task]:
    """Every form in turn, with operands of one class after another, on :data:`~gpu_ref.scalar.inputs.ROWS` rows, then again and
    again on more."""
    for batch in itertools.count():
        kind = CLASSES[batch % len(CLASSES)]
        if kind == "every" and batch >= len(CLASSES):
            continue
        for key in chosen:
            yield _Task(key, kind, seed + batch, _BATCH_ROWS if batch >= len(CLASSES) else ROWS)


class Tally:
    """Outputs and mismatches of each form, and texts of mismatches."""

    def __init__(self, chosen: Sequence[str]) -> None:
        self.outputs = dict.fromkeys(chosen, 0)
        self.wrong = dict.fromkeys(chosen, 0)
        self.shown: list[str] = []
        self._chosen, self._handles = list(chosen), dict[str, KernelHandle]()

    def check(self, task: _Task, expected: list[Words]) -> None:
        """Run a task's operands on the GPU and compare."""
        form = FORMS[task.key]
        columns = task.columns()
        if columns is None:
            return
        if not self._handles:  # not before the processes have started
            self._handles = load_all(self._chosen)
        got = run_on_gpu(self._handles[task.key], columns, len(form.destinations))
        bad = np.zeros(len(columns[0]), bool)
        for ours, theirs in zip(expected, got, strict=True):
            bad |= ours != theirs
        self.outputs[task.key] += len(bad)
        if not bad.any():
            return
        if not self.wrong[task.key]:
            self.shown.append(_explained(form, columns, expected, got, bad) + f"\n  {task.kind}, seed {task.seed}")
            print(self.shown[-1], flush=True)
        self.wrong[task.key] += int(bad.sum())

    def table(self) -> str:
        """Forms with mismatches, and the total."""
        lines = [f"{'form':<58}{'outputs':>16}{'mismatches':>12}"]
        lines += [f"{key:<58}{n:>16,}{self.wrong[key]:>12,}" for key, n in self.outputs.items() if self.wrong[key]]
        total = f"{len(self.outputs):,} scalar forms"
        return "\n".join([*lines, f"{total:<58}{sum(self.outputs.values()):>16,}{sum(self.wrong.values()):>12,}"])


def _weight(words: Sequence[int]) -> tuple[int, ...]:
    """Simple operands first: few ones, then small."""
    return sum(word.bit_count() for word in words), *words


def _explained(
    form: Form, columns: list[Words], expected: list[Words], got: list[Words], bad: npt.NDArray[np.bool_]
) -> str:
    """The mismatch with the simplest operands, in human terms."""
    rows = [[int(column[row]) for column in columns] for row in np.flatnonzero(bad)]
    row = int(np.flatnonzero(bad)[min(range(len(rows)), key=lambda i: _weight(rows[i]))])
    sources = [o for o in form.sources if o.name != "lut"]
    lines = [form.name]
    for operand, column in zip(sources, columns, strict=True):
        lines.append(f"  {operand.name:<7}{_text(int(column[row]), operand.type.name)}")
    for operand, ours, theirs in zip(form.destinations, expected, got, strict=True):
        lines.append(f"  GPU    {operand.name} = {_text(int(theirs[row]), operand.type.name)}")
        lines.append(f"  tcsim  {operand.name} = {_text(int(ours[row]), operand.type.name)}")
    return "\n".join(lines)


_NUMBERS = ("f16", "bf16", "f32", "f64")


def _text(word: int, type_name: str) -> str:
    kind, pair = type_name.removesuffix("x2"), type_name.endswith("x2")
    if kind in _NUMBERS and pair:
        return f"{number_text(word & 0xFFFF, kind)} (low), {number_text(word >> 16 & 0xFFFF, kind)} (high)"
    return number_text(word, kind) if kind in _NUMBERS else f"{word:#x}"


def fuzz(chosen: Sequence[str], seconds: float, seed: int, processes: int, rounds: int | None = None) -> Tally:
    """Compare until the time is over, the first round in any case; or for so many ``rounds``. Raises TcsimError."""
    tasks: Iterator[_Task] = _tasks(chosen, seed)
    if rounds is not None:
        tasks = itertools.islice(tasks, rounds * len(chosen))
    tally, waiting, first = Tally(chosen), set[Future[_Expected]](), len(chosen)
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("fork")) as pool:
        # The first tasks start all processes, before CUDA is initialised here.
        waiting |= {pool.submit(_expect, task) for task in itertools.islice(tasks, 2 * processes)}
        begun, deadline = len(waiting), time.perf_counter() + seconds
        while waiting:
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                if begun < first or rounds is not None or time.perf_counter() < deadline:
                    task = next(tasks, None)
                    if task is not None:
                        waiting.add(pool.submit(_expect, task))
                        begun += 1
                tally.check(*future.result())
    return tally
