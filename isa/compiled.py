"""The decorator of compiled functions that are kept on disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba

from isa.cachefolder import cache_folder, library_hash

__all__ = ["compiled", "inlined"]

_config: Any = numba.config


def _kept(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    def decorate(function: Callable[..., Any]) -> Any:
        # numba takes the folder from its configuration at the moment a function is decorated. Keyed by the hash of all the
        # sources, it never holds code compiled with callees that have changed since.
        before = _config.CACHE_DIR
        home = Path(function.__code__.co_filename).parent
        outside = home if not function.__module__.startswith("isa.") else None
        _config.CACHE_DIR = str(cache_folder() / f"library-{library_hash(outside)}")
        try:
            return numba.njit(cache=True, **options)(function)
        finally:
            _config.CACHE_DIR = before

    return decorate


compiled: Callable[[Callable[..., Any]], Any] = _kept()
"""Compile with numba on first call and keep the result on disk. Division follows Python's rules."""

inlined: Callable[[Callable[..., Any]], Any] = _kept(forceinline=True)
"""The same, always inlined by LLVM: for the small pieces of hot loops."""
