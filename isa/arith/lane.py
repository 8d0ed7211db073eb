"""The decorator of every lane function, and how they are written.

A lane function gives the scalar meaning of one PTX operation: NumPy scalars of the exact operand types in, one NumPy
scalar of the exact result type out (``bool`` for predicates, a tuple for a result with a carry). Instruction bodies
call them from a loop over 32 lanes that numba compiles; LLVM inlines them there and vectorises the loop. So they are
straight-line code with selects, never trap, never branch to error paths, and cast every integer expression back to
its width (numba widens
``uint32 + uint32`` to 64 bits; LLVM narrows it again when it is cast back).

Rounding is part of the name (``add_f32_rz``), so a form compiles only the code of its own mode. ``.ftz``, ``.sat`` and
``.relu`` are functions to apply to operands and results. f16 and bf16 travel as their 16 bits (uint16), packed pairs as
uint32 with element 0 in the low half; f32 and f64 travel as float32 and float64.

With ``NUMBA_DISABLE_JIT=1`` the functions are plain Python and give the same bits.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

__all__ = ["lane"]


def _interpreted(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def quiet(*arguments: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*arguments)

    return quiet


# No disk cache: the generated modules that call these functions are what is cached.
lane: Callable[[Callable[..., Any]], Callable[..., Any]] = (
    _interpreted
    if numba.config.DISABLE_JIT  # type: ignore[attr-defined, unused-ignore]
    else numba.njit(error_model="numpy", nogil=True, forceinline=True)
)
"""Decorate a lane function: compiled for the argument types of each call, always inlined by LLVM into its caller."""
