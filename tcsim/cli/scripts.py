"""Run a user's Python script inside a command, as ``python script.py arguments`` would."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from tcsim.errors import TcsimError

__all__ = ["is_script", "run_script"]


def is_script(target: str) -> bool:
    """Whether a target is a Python script."""
    return target.endswith(".py")


def run_script(path: str, arguments: Sequence[str]) -> None:
    """Run a script as ``__main__``, with its own folder first on the module path. A script that exits with an error raises
    TcsimError; its own exceptions pass through."""
    if not Path(path).is_file():
        raise TcsimError(f"{path}: no such file")
    before, paths = sys.argv, list(sys.path)
    sys.argv = [path, *arguments]
    sys.path.insert(0, str(Path(path).resolve().parent))
    try:
        runpy.run_path(path, run_name="__main__")
    except SystemExit as stop:
        if stop.code not in (None, 0):
            raise TcsimError(f"{path} ended with exit code {stop.code}") from None
    finally:
        sys.argv, sys.path[:] = before, paths
