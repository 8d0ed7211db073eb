"""Tables of lane functions, indexed by the modifiers of an instruction.

A body writes ``MUL_HI[t](a, b)``; specialising it for ``t`` leaves the one function (:mod:`isa.kernels.specialize`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

import numpy as np

__all__ = ["INTEGERS", "ROUNDINGS", "UNSIGNED", "Table", "by_rounding", "by_type", "class_of_width", "function_of"]

Table = dict[Any, Callable[..., Any]]

INTEGERS = ("u16", "s16", "u32", "s32", "u64", "s64")
"""Types of integer arithmetic (PTX ISA 5.2.1); 8-bit integers have none."""

UNSIGNED: Table = {t: getattr(np, f"uint{t[1:]}") for t in INTEGERS}
"""The unsigned type to compute in where results wrap: overflow of a signed 64-bit sum or product is undefined to LLVM."""

ROUNDINGS = ("rn", "rz", "rm", "rp")
"""Rounding modifiers to floating-point values (PTX ISA 9.6.2)."""


def function_of(module: ModuleType, name: str) -> Callable[..., Any]:
    """A lane function by name. Compiled kernels import it from the module that it says it is from; functions of packed
    pairs are made by :func:`isa.arith.packed.pairwise` and would name that one."""
    function: Callable[..., Any] = getattr(module, name)
    if function.__module__ == "isa.arith.packed":
        function.__module__ = module.__name__
    return function


def by_type(module: ModuleType, stem: str, types: Iterable[str]) -> Table:
    """``stem_<type>`` of a module for each type, such as ``div_s32``."""
    return {t: function_of(module, f"{stem}_{t}") for t in types}


def by_rounding(module: ModuleType, stem: str) -> Table:
    """``stem_<mode>`` of a module for each rounding modifier; without one, to nearest even."""
    return {mode: getattr(module, f"{stem}_{mode or 'rn'}") for mode in ("", *ROUNDINGS)}


def class_of_width(kind: str) -> Callable[[dict[str, str | bool]], str]:
    """A timing class with ``.64`` appended for 64-bit types, which the 32-bit datapath does in several instructions."""

    def timing(params: dict[str, str | bool]) -> str:
        return f"{kind}.64" if str(params["t"]).endswith("64") else kind

    return timing
