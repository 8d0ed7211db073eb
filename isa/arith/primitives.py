"""Bit-level primitives that numba lacks: reinterpretation, fused multiply-add, IEEE half conversion, bit counts.

Each is a plain Python function on NumPy scalars (what ``NUMBA_DISABLE_JIT=1`` and the reference tests run) with a numba
overload that becomes one LLVM instruction, so that the lane loops built on them vectorise. Everything else in
:mod:`isa.arith` is ordinary scalar Python over these, compiled by numba.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

__all__ = [
    "bits_f32",
    "bits_f64",
    "f16_bits_to_f32",
    "f32_bits",
    "f32_to_f16_bits_rn",
    "f64_bits",
    "fma_f32",
    "fma_f64",
    "leading_zeros_u32",
    "leading_zeros_u64",
    "popcount_u32",
    "popcount_u64",
    "product_high_s64",
    "product_high_u64",
    "reverse_u32",
    "reverse_u64",
    "select",
]


def _bitcast(source, target, llvm_target):
    @intrinsic
    def cast(typingctx, x):
        def codegen(context, builder, signature, args):
            return builder.bitcast(args[0], llvm_target)

        return target(source), codegen

    return cast


_f32_bits = _bitcast(types.float32, types.uint32, ir.IntType(32))
_bits_f32 = _bitcast(types.uint32, types.float32, ir.FloatType())
_f64_bits = _bitcast(types.float64, types.uint64, ir.IntType(64))
_bits_f64 = _bitcast(types.uint64, types.float64, ir.DoubleType())


def f32_bits(x: Any) -> Any:
    """The 32 bits of a float32, as uint32."""
    return np.float32(x).view(np.uint32)


def bits_f32(u: Any) -> Any:
    """The float32 with these 32 bits."""
    return np.uint32(u).view(np.float32)


def f64_bits(x: Any) -> Any:
    """The 64 bits of a float64, as uint64."""
    return np.float64(x).view(np.uint64)


def bits_f64(u: Any) -> Any:
    """The float64 with these 64 bits."""
    return np.uint64(u).view(np.float64)


@overload(f32_bits)
def _(x):
    return lambda x: _f32_bits(np.float32(x))


@overload(bits_f32)
def _(u):
    return lambda u: _bits_f32(np.uint32(u))


@overload(f64_bits)
def _(x):
    return lambda x: _f64_bits(np.float64(x))


@overload(bits_f64)
def _(u):
    return lambda u: _bits_f64(np.uint64(u))


# ------------------------------------------------------------------------------------------------- fused multiply-add


def _fma_intrinsic(number):
    @intrinsic
    def fma(typingctx, a, b, c):
        def codegen(context, builder, signature, args):
            return builder.fma(*args)

        return number(number, number, number), codegen

    return fma


_fma_f32 = _fma_intrinsic(types.float32)
_fma_f64 = _fma_intrinsic(types.float64)


def _fma_exact(a, b, c, kind):
    a, b, c = kind(a), kind(b), kind(c)
    with np.errstate(all="ignore"):
        if np.isfinite(a) and np.isfinite(b) and not np.isfinite(c):
            return c + a  # the product is finite, however large: it must not overflow on its own
        if not (np.isfinite(a) and np.isfinite(b) and np.isfinite(c)):
            return a * b + c
        exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
        if exact == 0:
            return a * b + c  # the signs of the zeros decide, as IEEE 754 says
        return kind(_round_fraction(exact, kind))


def _round_fraction(value: Fraction, kind) -> float:
    """Round a non-zero rational to nearest even in the format ``kind``, subnormals and overflow included."""
    info = np.finfo(kind)
    digits, least = info.nmant + 1, int(info.minexp)
    magnitude = abs(value)
    exponent = math.floor(math.log2(magnitude.numerator) - math.log2(magnitude.denominator))
    while Fraction(2) ** exponent > magnitude:
        exponent -= 1
    while Fraction(2) ** (exponent + 1) <= magnitude:
        exponent += 1
    unit = Fraction(2) ** (max(exponent, least) - digits + 1)
    steps = magnitude / unit
    whole = int(steps)
    rest = steps - whole
    if rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole & 1):
        whole += 1
    rounded = whole * unit
    result = math.inf if rounded > Fraction(float(info.max)) else float(rounded)
    return -result if value < 0 else result


def fma_f32(a: Any, b: Any, c: Any) -> Any:
    """``a * b + c`` in float32 with one rounding, to nearest even (IEEE 754; NaN as the CPU has it)."""
    return _fma_exact(a, b, c, np.float32)


def fma_f64(a: Any, b: Any, c: Any) -> Any:
    """``a * b + c`` in float64 with one rounding, to nearest even."""
    return _fma_exact(a, b, c, np.float64)


@overload(fma_f32)
def _(a, b, c):
    return lambda a, b, c: _fma_f32(np.float32(a), np.float32(b), np.float32(c))


@overload(fma_f64)
def _(a, b, c):
    return lambda a, b, c: _fma_f64(np.float64(a), np.float64(b), np.float64(c))


# ---------------------------------------------------------------------------------------------------------- IEEE half


@intrinsic
def _f16_to_f32(typingctx, u):
    def codegen(context, builder, signature, args):
        return builder.fpext(builder.bitcast(args[0], ir.HalfType()), ir.FloatType())

    return types.float32(types.uint16), codegen


@intrinsic
def _f32_to_f16(typingctx, x):
    def codegen(context, builder, signature, args):
        return builder.bitcast(builder.fptrunc(args[0], ir.HalfType()), ir.IntType(16))

    return types.uint16(types.float32), codegen


def f16_bits_to_f32(u: Any) -> Any:
    """The value of an IEEE half given by its 16 bits, as float32 (exact; NaN stays NaN)."""
    return np.uint16(u).view(np.float16).astype(np.float32)


def f32_to_f16_bits_rn(x: Any) -> Any:
    """A float32 rounded to nearest even to IEEE half, as its 16 bits (subnormals kept, overflow to infinity)."""
    with np.errstate(all="ignore"):
        return np.float32(x).astype(np.float16).view(np.uint16)


@overload(f16_bits_to_f32)
def _(u):
    return lambda u: _f16_to_f32(np.uint16(u))


@overload(f32_to_f16_bits_rn)
def _(x):
    return lambda x: _f32_to_f16(np.float32(x))


# ----------------------------------------------------------------------------------- bit counts, 64 x 64-bit products


def _counting(operation):
    @intrinsic
    def count(typingctx, x):
        return x(x), lambda context, builder, signature, args: operation(builder, args[0])

    return count


_popcount = _counting(lambda builder, x: builder.ctpop(x))
_leading_zeros = _counting(lambda builder, x: builder.ctlz(x, ir.Constant(ir.IntType(1), 0)))
_reverse = _counting(lambda builder, x: builder.bitreverse(x))


def _product_high(extend):
    @intrinsic
    def high(typingctx, a, b):
        def codegen(context, builder, signature, args):
            wide = ir.IntType(128)
            product = builder.mul(getattr(builder, extend)(args[0], wide), getattr(builder, extend)(args[1], wide))
            return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))

        return a(a, b), codegen

    return high


_product_high_u64 = _product_high("zext")
_product_high_s64 = _product_high("sext")


def popcount_u32(x: Any) -> Any:
    """Number of set bits, as uint32."""
    return np.uint32(int(x).bit_count())


def popcount_u64(x: Any) -> Any:
    """Number of set bits, as uint64."""
    return np.uint64(int(x).bit_count())


def leading_zeros_u32(x: Any) -> Any:
    """Number of zeros above the highest set bit, as uint32; 32 for zero."""
    return np.uint32(32 - int(x).bit_length())


def leading_zeros_u64(x: Any) -> Any:
    """Number of zeros above the highest set bit, as uint64; 64 for zero."""
    return np.uint64(64 - int(x).bit_length())


def reverse_u32(x: Any) -> Any:
    """The 32 bits in reverse order."""
    return np.uint32(int(f"{int(x):032b}"[::-1], 2))


def reverse_u64(x: Any) -> Any:
    """The 64 bits in reverse order."""
    return np.uint64(int(f"{int(x):064b}"[::-1], 2))


def product_high_u64(a: Any, b: Any) -> Any:
    """The high 64 bits of the product of two uint64."""
    return np.uint64((int(a) * int(b)) >> 64)


def product_high_s64(a: Any, b: Any) -> Any:
    """The high 64 bits of the product of two int64, as int64."""
    return np.int64((int(a) * int(b)) >> 64)


@overload(popcount_u32)
def _(x):
    return lambda x: _popcount(np.uint32(x))


@overload(popcount_u64)
def _(x):
    return lambda x: _popcount(np.uint64(x))


@overload(leading_zeros_u32)
def _(x):
    return lambda x: _leading_zeros(np.uint32(x))


@overload(leading_zeros_u64)
def _(x):
    return lambda x: _leading_zeros(np.uint64(x))


@overload(reverse_u32)
def _(x):
    return lambda x: _reverse(np.uint32(x))


@overload(reverse_u64)
def _(x):
    return lambda x: _reverse(np.uint64(x))


@overload(product_high_u64)
def _(a, b):
    return lambda a, b: _product_high_u64(np.uint64(a), np.uint64(b))


@overload(product_high_s64)
def _(a, b):
    return lambda a, b: _product_high_s64(np.int64(a), np.int64(b))


# ------------------------------------------------------------------------------------------------------------- select


@intrinsic
def _select(typingctx, condition, a, b):
    def codegen(context, builder, signature, args):
        return builder.select(*args)

    common = typingctx.unify_types(a, b)
    return common(types.boolean, common, common), codegen


def select(condition: Any, a: Any, b: Any) -> Any:
    """``a if condition else b``, both computed; in compiled code brought to a common type.

    A conditional expression compiles to a branch, and LLVM likes to move long computations of an operand into it, where
    they can no longer be vectorised. This compiles to a select.
    """
    return a if condition else b


@overload(select)
def _(condition, a, b):
    return lambda condition, a, b: _select(condition, a, b)
