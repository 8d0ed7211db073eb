"""Progress of long work, with an estimate of what is left: on a terminal only, silent everywhere else."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["compiling", "running"]

_AFTER = 0.5  # seconds before anything is shown: short work needs no progress bar


def _interactive() -> bool:
    return sys.stderr.isatty()


@contextmanager
def compiling(name: str) -> Iterator[Callable[[int, int, str], None] | None]:
    """Progress over the instructions of a kernel that must be compiled."""
    with _bar(f"compiling {name}") as update:
        yield None if update is None else lambda done, total, what: update(done, total, f"compiling {what or name}")


@contextmanager
def running(name: str) -> Iterator[Callable[[int, int], None] | None]:
    """Progress over the CTAs of a launch."""
    with _bar(f"running {name}") as update:
        yield None if update is None else lambda done, total: update(done, total, "")


@contextmanager
def _bar(title: str) -> Iterator[Callable[[int, int, str], None] | None]:
    if not _interactive():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"))
    bar = Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=Console(stderr=True), transient=True)
    started = time.monotonic()
    task = bar.add_task(title, total=None)
    shown = False

    def update(done: int, total: int, what: str) -> None:
        nonlocal shown
        if not shown and (time.monotonic() - started > _AFTER or (done == 0 and total == 1)):
            bar.start()
            shown = True
        if shown:
            bar.update(task, completed=done, total=total, description=what or title)

    try:
        yield update
    finally:
        if shown:
            bar.stop()
