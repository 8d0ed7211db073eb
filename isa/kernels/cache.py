"""Compile kernels once and keep them on disk.

Each kernel is written out as a module file of its own, named by a hash of everything it depends on: its source, the arithmetic
it calls, and the numba and LLVM versions. numba's disk cache then finds it in a few milliseconds. (A kernel made by a Python
factory that closes over another jitted function never hits that cache; it only grows.)
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from isa.cachefolder import cache_folder, sources_hash

__all__ = ["CompiledSpec", "compile_kernels", "kernel_address"]


class CompiledSpec(Protocol):
    """What is compiled: :class:`isa.kernels.wrap.KernelSpec`, or that of another instruction set."""

    @property
    def key(self) -> str:
        """Identity: two specs with the same key share a kernel."""

    @property
    def form(self) -> Any:
        """The form, whose ``name`` is shown."""

    def source(self) -> str:
        """The Python source of the module that defines ``kernel``."""

Progress = Callable[[int, int, str], None]
"""Called as progress(done, total, name) while kernels compile."""


_loaded: dict[str, Any] = {}
_sources: dict[str, str] = {}


def _source(spec: CompiledSpec) -> str:
    text = _sources.get(spec.key)
    if text is None:
        text = _sources[spec.key] = spec.source()
    return text


def kernel_address(spec: CompiledSpec) -> int:
    """Address of the compiled kernel of a form, compiling or loading it if this process has not yet."""
    source = _source(spec)
    loaded = _loaded.get(source)
    if loaded is None:
        loaded = _loaded[source] = _load(source)
    return int(loaded.kernel.address)


def compile_kernels(specs: Iterable[CompiledSpec], progress: Progress | None = None) -> dict[str, int]:
    """Addresses of the kernels of several forms, by :attr:`CompiledSpec.key`."""
    unique = {spec.key: spec for spec in specs}
    out: dict[str, int] = {}
    for number, (key, spec) in enumerate(unique.items()):
        if progress is not None:
            progress(number, len(unique), spec.form.name)
        out[key] = kernel_address(spec)
    if progress is not None and unique:
        progress(len(unique), len(unique), "")
    return out


def _load(source: str) -> Any:
    name = source.partition(" (generated)")[0].removeprefix('"""')
    imported = sources_hash(re.findall(r"^from ([\w.]+) import", source, re.MULTILINE))
    digest = hashlib.sha256((imported + source).encode()).hexdigest()[:16]
    module_name = f"{re.sub(r'[^A-Za-z0-9]+', '_', name)}_{digest}"
    path = cache_folder() / f"{module_name}.py"
    if not path.exists():
        # Written beside and renamed, so that a second process never sees half a file.
        draft = path.with_suffix(f".{os.getpid()}.tmp")
        draft.write_text(source)
        draft.replace(path)
    spec = importlib.util.spec_from_file_location(f"tcsim_kernels.{module_name}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
