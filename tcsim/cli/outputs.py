"""What a command will write, looked at before it runs: a simulation is not to end with a file that cannot be written."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

from tcsim.errors import TcsimError

__all__ = ["check_outputs"]

_PACKAGES = {"--timeline": ("perfetto", "perfetto"), "--png": ("resvg_py", "png")}
"""Options that need a package: its module, and the extra that installs it."""


def check_outputs(files: dict[str, Path | None], folders: dict[str, Path | None] | None = None) -> None:
    """Raise TcsimError if the file or folder of an option, by name, cannot be written, or needs a package that is missing."""
    for option, path in files.items():
        if path is not None and path.is_dir():
            raise TcsimError(f"{option} {path}: this is a folder; name a file")
        if path is not None and not path.parent.is_dir():
            raise TcsimError(f"{option} {path}: there is no folder {path.parent}")
        if path is not None and not os.access(path if path.exists() else path.parent, os.W_OK):
            raise TcsimError(f"{option} {path}: this may not be written")
    for option, path in (folders or {}).items():
        if path is not None and path.exists() and not path.is_dir():
            raise TcsimError(f"{option} {path}: this is a file; name a folder")
    for option, (module, extra) in _PACKAGES.items():
        if (files.get(option) or (folders or {}).get(option)) is not None and find_spec(module) is None:
            raise TcsimError(f"{option} needs a package that is not installed: pip install 'tcsim[{extra}]'")
