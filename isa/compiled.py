"""The decorator of compiled functions that are kept on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numba

from isa.cachefolder import cache_folder, sources_hash

__all__ = ["compiled", "compiled_for_address", "inlined"]

_config: Any = numba.config


@contextmanager
def _cache_of(function: Callable[..., Any]) -> Iterator[None]:
    """numba's cache folder for a function. numba takes it from its configuration at the moment a function is decorated. Keyed
    by the hash of the sources that the function can depend on, it never holds code compiled with callees that have changed."""
    before = _config.CACHE_DIR
    _config.CACHE_DIR = str(cache_folder() / f"library-{sources_hash([function.__module__])}")
    try:
        yield
    finally:
        _config.CACHE_DIR = before


def _kept(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    def decorate(function: Callable[..., Any]) -> Any:
        with _cache_of(function):
            return numba.njit(cache=True, **options)(function)

    return decorate


def compiled_for_address(signature: str, function: Callable[..., Any]) -> Any:
    """Compile (or fetch from disk) a module-level function to be called through its ``address`` from other compiled code."""
    with _cache_of(function):
        return numba.cfunc(signature, cache=True)(function)


compiled: Callable[[Callable[..., Any]], Any] = _kept()
"""Compile with numba on first call and keep the result on disk. Division follows Python's rules."""

inlined: Callable[[Callable[..., Any]], Any] = _kept(forceinline=True)
"""The same, always inlined by LLVM: for the small pieces of hot loops."""
