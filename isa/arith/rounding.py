"""Exact results as a float64 and a sticky bit, and rounding them to narrower formats in every mode.

A sum of two float64 is exactly ``s + error``. *Rounding it to odd* (truncate, then set the last bit if anything was
lost; Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd",
2008) keeps in one float64 all that a later rounding to at most 51 bits can need, whatever its mode: so nothing is
rounded twice.
"""

from __future__ import annotations

import numpy as np

from isa.arith.lane import lane
from isa.arith.primitives import bits_f32, bits_f64, f32_bits, f64_bits

__all__ = [
    "add_odd_f64",
    "f64_to_f32_odd",
    "f64_to_f32_rm",
    "f64_to_f32_rn",
    "f64_to_f32_rp",
    "f64_to_f32_rz",
    "odd_f32",
    "odd_f64",
    "sum_error",
]


@lane
def sum_error(a, b, s):
    """The exact ``a + b - s`` where ``s`` is ``a + b`` to nearest (Knuth's TwoSum); NaN if one is not finite."""
    rest = s - a
    return (a - (s - rest)) + (b - rest)


@lane
def odd_f64(s, error):
    """``s + error`` rounded to odd, ``s`` (float64) being it rounded to nearest; of ``error`` only the sign counts."""
    inexact = (error < 0.0) | (error > 0.0)
    beyond = inexact & ((error < 0.0) == (s > 0.0))  # s is farther from zero than the exact value
    return bits_f64((f64_bits(s) - np.uint64(beyond)) | np.uint64(inexact))


@lane
def odd_f32(s, error):
    """As :func:`odd_f64`, in float32."""
    zero = np.float32(0.0)
    inexact = (error < zero) | (error > zero)
    beyond = inexact & ((error < zero) == (s > zero))
    return bits_f32(np.uint32(f32_bits(s) - np.uint32(beyond)) | np.uint32(inexact))


@lane
def add_odd_f64(a, b):
    """``a + b`` (float64) rounded to odd."""
    s = a + b
    return odd_f64(s, sum_error(a, b, s))


# ---------------------------------------------- float64 to float32 (NaN keeps sign and upper payload, and is quieted)


@lane
def f64_to_f32_rn(x):
    """To nearest, ties to even; overflow to infinity."""
    return np.float32(x)


@lane
def f64_to_f32_rz(x):
    """Toward zero; overflow to the largest finite value."""
    y = np.float32(x)
    return bits_f32(np.uint32(f32_bits(y) - np.uint32(abs(np.float64(y)) > abs(x))))


@lane
def f64_to_f32_rm(x):
    """Toward minus infinity."""
    y = np.float32(x)
    above = np.uint32(np.float64(y) > x)
    u = f32_bits(y)
    return bits_f32(np.uint32(u + above) if (u >> np.uint32(31)) != 0 else np.uint32(u - above))


@lane
def f64_to_f32_rp(x):
    """Toward plus infinity."""
    y = np.float32(x)
    below = np.uint32(np.float64(y) < x)
    u = f32_bits(y)
    return bits_f32(np.uint32(u - below) if (u >> np.uint32(31)) != 0 else np.uint32(u + below))


@lane
def f64_to_f32_odd(x):
    """To odd, keeping for a later rounding to at most 22 bits what it needs."""
    y = np.float32(x)
    magnitude = abs(np.float64(y))
    inexact = (magnitude > abs(x)) | (magnitude < abs(x))
    return bits_f32(np.uint32(f32_bits(y) - np.uint32(magnitude > abs(x))) | np.uint32(inexact))
