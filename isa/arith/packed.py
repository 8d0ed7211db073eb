"""Packed pairs: 16-bit values in a 32-bit register, element 0 in the low half."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from isa.arith.lane import lane

__all__ = ["high", "low", "pack", "pairwise"]


@lane
def low(x):
    """Element 0, uint16."""
    return np.uint16(x & np.uint32(0xFFFF))


@lane
def high(x):
    """Element 1, uint16."""
    return np.uint16(x >> np.uint32(16))


@lane
def pack(element0, element1):
    """The uint32 with two uint16 elements."""
    return np.uint32(np.uint32(element0) | (np.uint32(element1) << np.uint32(16)))


def pairwise(function: Callable[..., Any], operands: int) -> Callable[..., Any]:
    """The packed form of a lane function of ``operands`` (1 to 3) uint16 values: once per half."""
    if operands == 1:

        @lane
        def packed(a):
            return pack(function(low(a)), function(high(a)))

    elif operands == 2:

        @lane
        def packed(a, b):
            return pack(function(low(a), low(b)), function(high(a), high(b)))

    else:

        @lane
        def packed(a, b, c):
            return pack(function(low(a), low(b), low(c)), function(high(a), high(b), high(c)))

    packed.__name__ = f"{function.__name__}x2"
    packed.__doc__ = f"Packed: {function.__doc__}"
    return packed
