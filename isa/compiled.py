"""The decorator of compiled functions that are kept on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from isa.cachefolder import cache_folder, sources_hash

__all__ = ["allocating", "call", "compiled", "compiled_for_address", "inlined"]

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
            return _for_types(numba.njit(cache=True, **options)(function))

    return decorate


def _for_types(dispatcher: Any) -> Any:
    """Have a function compiled for the types of integer arguments, not for each number that another function calls it with:
    LLVM sees the numbers where it inlines."""
    if _config.DISABLE_JIT:
        return dispatcher
    original = dispatcher.get_call_template

    def get_call_template(args: Any, keywords: Any) -> Any:
        return original(tuple(map(_type, args)), {name: _type(kind) for name, kind in keywords.items()})

    dispatcher.get_call_template = get_call_template
    return dispatcher


def _type(kind: Any) -> Any:
    return kind.literal_type if isinstance(kind, numba.types.IntegerLiteral) else kind


def compiled_for_address(signature: str, function: Callable[..., Any]) -> Any:
    """Compile (or fetch from disk) a module-level function to be called through its ``address`` from other compiled code."""
    with _cache_of(function):
        return numba.cfunc(signature, cache=True)(function)


compiled: Callable[[Callable[..., Any]], Any] = _kept(_nrt=False)
"""Compile with numba on first call and keep the result on disk. Division follows Python's rules.

Without numba's reference counting: arrays are borrowed from the caller, and none can be made (numba says so when it compiles).
Counting took a tenth of the time of running small CTAs: two locked additions for each row of an array that is looked at."""

allocating: Callable[[Callable[..., Any]], Any] = _kept()
"""The same for functions that make arrays."""

inlined: Callable[[Callable[..., Any]], Any] = _kept(_nrt=False, forceinline=True)
"""As ``compiled``, always inlined by LLVM: for the small pieces of hot loops."""


@intrinsic
def call(typingctx: Any, function: Any, arguments: Any) -> Any:
    """Call a compiled function through its address with a tuple of integers, each taken as int64; its result is one, too. What
    most programs do without is called so: it is compiled, or fetched from disk, only for those that need it."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        word = ir.IntType(64)
        parts = [builder.extract_value(values[1], at) for at in range(len(arguments))]
        given = [context.cast(builder, part, kind, types.int64) for part, kind in zip(parts, arguments, strict=True)]
        kind = ir.FunctionType(word, [word] * len(given))
        return builder.call(builder.inttoptr(values[0], kind.as_pointer()), given)

    return types.int64(types.int64, arguments), codegen
