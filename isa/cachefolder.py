"""Where compiled code is kept on disk, and the key under which it is found again.

The folder is ``$TCSIM_CACHE_DIR``, else ``tcsim`` under the user's cache folder. If it cannot be written, a folder for this
process alone is used and everything compiles anew.
"""

from __future__ import annotations

import ast
import hashlib
import os
import sys
import tempfile
import warnings
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import llvmlite
import numba

__all__ = ["cache_folder", "sources_hash"]

_ROOT = Path(__file__).parent.parent
_PACKAGES = ("isa", "tcsim", "gpu_ref")
_DATA = (".toml", ".npz")


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


def sources_hash(modules: Iterable[str]) -> str:
    """Hash of modules, of all that they import from this distribution, and of the versions of what compiles them.

    numba looks only at the file that a function stands in, and would go on using code whose callees have changed. With this in
    the key, a change of a source compiles anew what can depend on it, and nothing else.
    """
    return _hash(frozenset(modules))


@cache
def _hash(modules: frozenset[str]) -> str:
    digest = hashlib.sha256(f"{sys.version_info[:2]} {numba.__version__} {llvmlite.__version__}".encode())
    folders: set[Path] = set()
    for path in sorted(_reached(modules)):
        digest.update(_content(path))
        folders.add(path.parent)
    for folder in sorted(folders):  # data that modules read when they are imported stand beside them
        for path in sorted(folder.iterdir()):
            if path.suffix in _DATA:
                digest.update(_content(path))
    return digest.hexdigest()[:16]


def _reached(modules: Iterable[str]) -> set[Path]:
    """The files of modules and of all modules that those import, directly or not."""
    seen: set[Path] = set()
    todo = [path for module in modules if (path := _file(module)) is not None]
    while todo:
        path = todo.pop()
        if path not in seen:
            seen.add(path)
            todo += _imports(path)
    return seen


@cache
def _content(path: Path) -> bytes:
    return hashlib.sha256(path.read_bytes()).digest()


@cache
def _file(module: str) -> Path | None:
    """The file of a module of this distribution; None for any other."""
    if module.split(".")[0] not in _PACKAGES:
        return None
    place = _ROOT.joinpath(*module.split("."))
    return next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()), None)


@cache
def _imports(path: Path) -> tuple[Path, ...]:
    """The files of this distribution that a file imports from. (Where compiled code is, imports are absolute.)"""
    found: set[Path] = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            # A package's own file matters only to who takes a name from it that is not one of its modules.
            names = [name if _file(name) is not None else node.module for name in inner]
        found.update(file for name in names if (file := _file(name)) is not None)
    return tuple(found)
