"""Where compiled code is kept on disk, and the key under which it is found again.

The folder is ``$TCSIM_CACHE_DIR``, else ``tcsim`` under the user's cache folder. If it cannot be written, a folder for this
process alone is used and everything compiles anew.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import warnings
from functools import cache
from pathlib import Path

import llvmlite
import numba

__all__ = ["cache_folder", "library_hash"]

_COMPILED = ("arith", "tensor", "instructions", "kernels", "machine.py", "program.py", "compiled.py")
"""What compiled code of this package is made of."""


@cache
def cache_folder() -> Path:
    """The folder of compiled code, created if need be."""
    base = os.environ.get("TCSIM_CACHE_DIR")
    if base:
        folder = Path(base)
    else:
        home = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or str(Path.home() / ".cache")
        folder = Path(home) / "tcsim"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".write-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as problem:
        unusable, folder = folder, Path(tempfile.mkdtemp(prefix="tcsim-"))
        warnings.warn(
            f"cannot keep compiled kernels in {unusable} ({problem.strerror}); using {folder} for this process only. Set "
            "TCSIM_CACHE_DIR to a folder you can write.",
            stacklevel=2,
        )
    return folder


@cache
def library_hash(folder: Path | None = None) -> str:
    """Hash of what compiled code calls into and of what compiles it: change any of it and everything is compiled anew.

    numba looks only at the file that a function stands in, and would go on using code whose callees have changed. ``folder``:
    the sources around a compiled function outside this package, which it may also call.
    """
    digest = hashlib.sha256(f"{sys.version_info[:2]} {numba.__version__} {llvmlite.__version__}".encode())
    places = [Path(__file__).parent / name for name in _COMPILED] + ([folder] if folder is not None else [])
    for place in places:
        for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
            if path.suffix in (".py", ".npz", ".toml") and path.is_file():
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
