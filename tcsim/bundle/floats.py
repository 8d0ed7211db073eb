"""Values to bits and back for every element type, by integer arithmetic alone.

Argument generators compute in f64 and round here, once, to nearest even. The result depends on nothing but the input: not on
the platform, the NumPy version or an optional package. (``ml_dtypes`` agrees and is used in the tests, but it saturates
differently from PTX and may be missing on a GPU machine.)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .dtypes import DType

__all__ = ["decode", "encode"]


def encode(values: NDArray[np.float64], dtype: DType) -> NDArray[Any]:
    """Round ``values`` (f64, any shape) to ``dtype`` and return them in its storage type.

    Floats round to nearest, ties to even; beyond the largest finite value f16, bf16 and f32 become infinite, while e4m3 and
    e5m2 stay at the largest finite value, as ``cvt.satfinite`` does. Integers round to nearest even and stop at the ends of
    their range; a NaN becomes 0.
    """
    if dtype.kind != "float":
        return _to_integer(values, dtype)
    if dtype.name == "f64":
        return values.astype(dtype.storage)
    if dtype.name == "f32":
        with np.errstate(over="ignore"):
            return values.astype(dtype.storage)
    bits = _to_small_float(values, dtype)
    unsigned = bits.astype(f"<u{dtype.bytes}")
    return unsigned.view(dtype.storage) if dtype.is_native else unsigned


def decode(stored: NDArray[Any], dtype: DType) -> NDArray[np.float64]:
    """The exact values of ``stored`` (in ``dtype``'s storage type) as f64. 64-bit integers beyond 2^53 are rounded."""
    if dtype.is_native or dtype.name == "bf16":
        native = stored if dtype.is_native else (stored.astype(np.uint32) << np.uint32(16)).view(np.float32)
        with np.errstate(invalid="ignore"):  # widening a signalling NaN
            return native.astype(np.float64)
    fields = stored.astype(np.int64)
    exponent = (fields >> dtype.fraction_bits) & ((1 << dtype.exponent_bits) - 1)
    fraction = fields & ((1 << dtype.fraction_bits) - 1)
    bias = (1 << (dtype.exponent_bits - 1)) - 1
    significand = np.where(exponent > 0, fraction | (1 << dtype.fraction_bits), fraction)
    scale = np.maximum(exponent, 1) - bias - dtype.fraction_bits
    magnitude = np.ldexp(significand.astype(np.float64), scale.astype(np.int32))
    top = exponent == (1 << dtype.exponent_bits) - 1
    if dtype.has_infinity:
        magnitude = np.where(top, np.where(fraction == 0, np.inf, np.nan), magnitude)
    else:
        magnitude = np.where(top & (fraction == (1 << dtype.fraction_bits) - 1), np.nan, magnitude)
    return np.where(fields >> (dtype.bits - 1) != 0, -magnitude, magnitude)


def _to_small_float(values: NDArray[np.float64], dtype: DType) -> NDArray[np.int64]:
    """Bits of the nearest f16, bf16, e4m3 or e5m2, ties to even."""
    fraction_bits, bias = dtype.fraction_bits, (1 << (dtype.exponent_bits - 1)) - 1
    finite = np.isfinite(values)
    magnitude = np.abs(np.where(finite, values, 0.0))
    # frexp gives a mantissa in [1/2, 1), so the leading bit weighs 2^(exponent-1); below 1-bias the format is subnormal.
    exponent = np.maximum(np.frexp(magnitude)[1] - 1, 1 - bias)
    units = np.rint(np.ldexp(magnitude, fraction_bits - exponent)).astype(
        np.int64
    )  # of the last place, exact but for rint
    # A normal number's units include the hidden bit, which adds one to the exponent field: hence bias - 1.
    bits = np.where(units == 0, 0, ((exponent.astype(np.int64) + bias - 1) << fraction_bits) + units)
    infinity = ((1 << dtype.exponent_bits) - 1) << fraction_bits
    if dtype.name == "e4m3":
        largest, nan = 0x7E, 0x7F
    else:
        largest, nan = infinity - 1, infinity + (1 << (fraction_bits - 1))
    saturates = dtype.bits == 8
    bits = np.where(bits > largest, largest if saturates else infinity, bits)
    bits = np.where(np.isinf(values), largest if saturates else infinity, bits)
    bits = np.where(np.isnan(values), nan, bits)
    return np.where(np.signbit(values) & ~np.isnan(values), bits | (1 << (dtype.bits - 1)), bits)


def _to_integer(values: NDArray[np.float64], dtype: DType) -> NDArray[Any]:
    low, high = dtype.integer_range()
    rounded = np.rint(np.where(np.isnan(values), 0.0, values))
    inside = np.clip(rounded, float(low), np.nextafter(float(high) + 1.0, 0.0))  # the largest f64 below high + 1
    whole = inside.astype(np.int64 if dtype.kind == "signed" else np.uint64).astype(dtype.storage)
    return np.where(rounded >= float(high), np.array(high).astype(dtype.storage), whole)
