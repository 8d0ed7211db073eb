"""f32 arithmetic (PTX ISA 9.7.3), bit for bit as an H200 does it: subnormals kept, any NaN result 0x7FFFFFFF.

Sums, products and fused multiply-adds of float32 are exact in float64, or exact but for an error term whose sign
suffices (:mod:`isa.arith.rounding`); quotients and roots carry the sign of their remainder. So every mode is one
correct rounding.

``.ftz`` of a product or quotient flushes what is still subnormal after rounding to 24 bits *with unbounded exponent*:
a result that rounds up to the least normal number is kept only if those 24 bits already reach it (measured on an
H200, driver 580.159.04). Hence ``mul_ftz_f32_rn`` and its kin, which also flush their operands. A subnormal sum is
exact, so for ``add.ftz`` :func:`ftz_f32` on operands and result is enough.
"""

from __future__ import annotations

import numpy as np

from isa.arith.lane import lane
from isa.arith.primitives import bits_f32, f32_bits, f64_bits, fma_f32, fma_f64
from isa.arith.rounding import add_odd_f64, f64_to_f32_rm, f64_to_f32_rp, f64_to_f32_rz, odd_f64

__all__ = [
    "abs_f32",
    "add_f32_rm",
    "add_f32_rn",
    "add_f32_rp",
    "add_f32_rz",
    "canon_f32",
    "copysign_f32",
    "div_f32_rm",
    "div_f32_rn",
    "div_f32_rp",
    "div_f32_rz",
    "div_ftz_f32_rm",
    "div_ftz_f32_rn",
    "div_ftz_f32_rp",
    "div_ftz_f32_rz",
    "fma_f32_rm",
    "fma_f32_rn",
    "fma_f32_rp",
    "fma_f32_rz",
    "fma_ftz_f32_rm",
    "fma_ftz_f32_rn",
    "fma_ftz_f32_rp",
    "fma_ftz_f32_rz",
    "ftz_f32",
    "mul_f32_rm",
    "mul_f32_rn",
    "mul_f32_rp",
    "mul_f32_rz",
    "mul_ftz_f32_rm",
    "mul_ftz_f32_rn",
    "mul_ftz_f32_rp",
    "mul_ftz_f32_rz",
    "neg_f32",
    "sat_f32",
    "sqrt_f32_rm",
    "sqrt_f32_rn",
    "sqrt_f32_rp",
    "sqrt_f32_rz",
]

_SIGN = np.uint32(0x80000000)
_MAGNITUDE = np.uint32(0x7FFFFFFF)
_EXPONENT = np.uint32(0x7F800000)
_NAN = np.uint32(0x7FFFFFFF)
_ZERO = np.float32(0.0)
_ONE = np.float32(1.0)


# --------------------------------------------------------------------------------------- operand and result modifiers


@lane
def canon_f32(x):
    """``x``, or the canonical NaN 0x7FFFFFFF for any NaN."""
    return x if x == x else bits_f32(_NAN)


@lane
def ftz_f32(x):
    """``.ftz``: a subnormal becomes zero of the same sign."""
    u = f32_bits(x)
    return bits_f32(u & _SIGN if (u & _EXPONENT) == np.uint32(0) else u)


@lane
def sat_f32(x):
    """``.sat``: clamp to [0, 1]; NaN, -0 and everything negative give +0."""
    low = x if x > _ZERO else _ZERO
    return low if low < _ONE else _ONE


@lane
def abs_f32(x):
    """Absolute value; NaN becomes 0x7FFFFFFF."""
    return canon_f32(bits_f32(f32_bits(x) & _MAGNITUDE))


@lane
def neg_f32(x):
    """Negation; NaN becomes 0x7FFFFFFF."""
    return canon_f32(bits_f32(f32_bits(x) ^ _SIGN))


@lane
def copysign_f32(a, b):
    """PTX ``copysign d, a, b``: the sign of ``a`` with the magnitude of ``b``, bit for bit."""
    return bits_f32((f32_bits(a) & _SIGN) | (f32_bits(b) & _MAGNITUDE))


# ---------------------------------------------------------------------------------------- add, multiply, multiply-add


@lane
def _down_zero(zero, negative, r):
    """``r``, but an exact zero sum gets the sign that rounding down gives it: minus if any term was negative."""
    return bits_f32((_SIGN if negative else np.uint32(0)) if zero else f32_bits(r))


@lane
def add_f32_rn(a, b):
    """``a + b`` to nearest even."""
    return canon_f32(a + b)


@lane
def add_f32_rz(a, b):
    """``a + b`` toward zero."""
    return canon_f32(f64_to_f32_rz(add_odd_f64(np.float64(a), np.float64(b))))


@lane
def add_f32_rm(a, b):
    """``a + b`` toward minus infinity; an exact zero is -0 unless both are +0."""
    s = add_odd_f64(np.float64(a), np.float64(b))
    negative = ((f32_bits(a) | f32_bits(b)) & _SIGN) != np.uint32(0)
    return canon_f32(_down_zero(s == 0.0, negative, f64_to_f32_rm(s)))


@lane
def add_f32_rp(a, b):
    """``a + b`` toward plus infinity."""
    return canon_f32(f64_to_f32_rp(add_odd_f64(np.float64(a), np.float64(b))))


@lane
def mul_f32_rn(a, b):
    """``a * b`` to nearest even."""
    return canon_f32(a * b)


@lane
def mul_f32_rz(a, b):
    """``a * b`` toward zero."""
    return canon_f32(f64_to_f32_rz(np.float64(a) * np.float64(b)))


@lane
def mul_f32_rm(a, b):
    """``a * b`` toward minus infinity."""
    return canon_f32(f64_to_f32_rm(np.float64(a) * np.float64(b)))


@lane
def mul_f32_rp(a, b):
    """``a * b`` toward plus infinity."""
    return canon_f32(f64_to_f32_rp(np.float64(a) * np.float64(b)))


@lane
def fma_f32_rn(a, b, c):
    """``a * b + c`` with one rounding, to nearest even."""
    return canon_f32(fma_f32(a, b, c))


@lane
def fma_f32_rz(a, b, c):
    """``a * b + c`` with one rounding, toward zero."""
    return canon_f32(f64_to_f32_rz(add_odd_f64(np.float64(a) * np.float64(b), np.float64(c))))


@lane
def fma_f32_rm(a, b, c):
    """``a * b + c`` with one rounding, toward minus infinity; an exact zero is -0 unless both terms are +0."""
    product = np.float64(a) * np.float64(b)
    s = add_odd_f64(product, np.float64(c))
    negative = ((f64_bits(product) >> np.uint64(63)) != np.uint64(0)) | ((f32_bits(c) & _SIGN) != np.uint32(0))
    return canon_f32(_down_zero(s == 0.0, negative, f64_to_f32_rm(s)))


@lane
def fma_f32_rp(a, b, c):
    """``a * b + c`` with one rounding, toward plus infinity."""
    return canon_f32(f64_to_f32_rp(add_odd_f64(np.float64(a) * np.float64(b), np.float64(c))))


# ------------------------------------------------------------------------------------------------------ flush to zero

_LEAST = 2.0**-126
_UP_NEAREST = _LEAST * (1 - 2.0**-25)  # from here on 24 bits to nearest even reach the least normal number
_UP_AWAY = _LEAST * (1 - 2.0**-24)  # beyond this 24 bits rounded away from zero reach it


@lane
def _flushed(x, r, tiny):
    """``r``, or zero with the sign of the exact value ``x`` (float64) if that is ``tiny``."""
    return bits_f32(np.uint32(f64_bits(x) >> np.uint64(32)) & _SIGN if tiny else f32_bits(r))


@lane
def _ftz_rn(x):
    return canon_f32(_flushed(x, np.float32(x), abs(x) < _UP_NEAREST))


@lane
def _ftz_rz(x):
    return canon_f32(_flushed(x, f64_to_f32_rz(x), abs(x) < _LEAST))


@lane
def _ftz_rm(x):
    return canon_f32(_flushed(x, f64_to_f32_rm(x), (x >= -_UP_AWAY) & (x < _LEAST)))


@lane
def _ftz_rp(x):
    return canon_f32(_flushed(x, f64_to_f32_rp(x), (x > -_LEAST) & (x <= _UP_AWAY)))


@lane
def _product_ftz(a, b):
    return np.float64(ftz_f32(a)) * np.float64(ftz_f32(b))


@lane
def _fma_ftz(a, b, c):
    return add_odd_f64(_product_ftz(a, b), np.float64(ftz_f32(c)))


@lane
def mul_ftz_f32_rn(a, b):
    """``mul.rn.ftz``: ``a * b`` to nearest even, operands and result flushed."""
    return _ftz_rn(_product_ftz(a, b))


@lane
def mul_ftz_f32_rz(a, b):
    """``mul.rz.ftz``: ``a * b`` toward zero, operands and result flushed."""
    return _ftz_rz(_product_ftz(a, b))


@lane
def mul_ftz_f32_rm(a, b):
    """``mul.rm.ftz``: ``a * b`` toward minus infinity, operands and result flushed."""
    return _ftz_rm(_product_ftz(a, b))


@lane
def mul_ftz_f32_rp(a, b):
    """``mul.rp.ftz``: ``a * b`` toward plus infinity, operands and result flushed."""
    return _ftz_rp(_product_ftz(a, b))


@lane
def fma_ftz_f32_rn(a, b, c):
    """``fma.rn.ftz``: ``a * b + c`` to nearest even, operands and result flushed."""
    return _ftz_rn(_fma_ftz(a, b, c))


@lane
def fma_ftz_f32_rz(a, b, c):
    """``fma.rz.ftz``: ``a * b + c`` toward zero, operands and result flushed."""
    return _ftz_rz(_fma_ftz(a, b, c))


@lane
def fma_ftz_f32_rp(a, b, c):
    """``fma.rp.ftz``: ``a * b + c`` toward plus infinity, operands and result flushed."""
    return _ftz_rp(_fma_ftz(a, b, c))


@lane
def fma_ftz_f32_rm(a, b, c):
    """``fma.rm.ftz``: ``a * b + c`` toward minus infinity, operands and result flushed."""
    x = _fma_ftz(a, b, c)
    negative = ((f64_bits(_product_ftz(a, b)) >> np.uint64(63)) != np.uint64(0)) | ((f32_bits(c) & _SIGN) != np.uint32(0))
    return canon_f32(_down_zero(x == 0.0, negative, _ftz_rm(x)))


# ------------------------------------------------------------------------------------------- quotient and square root


@lane
def _quotient_odd(a, b):
    """``a / b`` in float64, rounded to odd: ``a - q * b`` has the sign of ``a / b - q`` for positive ``b``."""
    q = np.float64(a) / np.float64(b)
    remainder = fma_f64(-q, np.float64(b), np.float64(a))
    return odd_f64(q, remainder if b > _ZERO else -remainder)


@lane
def div_f32_rn(a, b):
    """``a / b`` to nearest even; x/0 is infinity, 0/0 and inf/inf are NaN."""
    return canon_f32(a / b)


@lane
def div_f32_rz(a, b):
    """``a / b`` toward zero."""
    return canon_f32(f64_to_f32_rz(_quotient_odd(a, b)))


@lane
def div_f32_rm(a, b):
    """``a / b`` toward minus infinity."""
    return canon_f32(f64_to_f32_rm(_quotient_odd(a, b)))


@lane
def div_f32_rp(a, b):
    """``a / b`` toward plus infinity."""
    return canon_f32(f64_to_f32_rp(_quotient_odd(a, b)))


@lane
def div_ftz_f32_rn(a, b):
    """``div.rn.ftz``: ``a / b`` to nearest even, operands and result flushed."""
    return _ftz_rn(_quotient_odd(ftz_f32(a), ftz_f32(b)))


@lane
def div_ftz_f32_rz(a, b):
    """``div.rz.ftz``: ``a / b`` toward zero, operands and result flushed."""
    return _ftz_rz(_quotient_odd(ftz_f32(a), ftz_f32(b)))


@lane
def div_ftz_f32_rm(a, b):
    """``div.rm.ftz``: ``a / b`` toward minus infinity, operands and result flushed."""
    return _ftz_rm(_quotient_odd(ftz_f32(a), ftz_f32(b)))


@lane
def div_ftz_f32_rp(a, b):
    """``div.rp.ftz``: ``a / b`` toward plus infinity, operands and result flushed."""
    return _ftz_rp(_quotient_odd(ftz_f32(a), ftz_f32(b)))


@lane
def _root_odd(a):
    """The square root in float64, rounded to odd."""
    root = np.sqrt(np.float64(a))
    return odd_f64(root, fma_f64(-root, root, np.float64(a)))


@lane
def sqrt_f32_rn(a):
    """Square root to nearest even; -0 is kept, other negatives give NaN."""
    return canon_f32(np.sqrt(a))


@lane
def sqrt_f32_rz(a):
    """Square root toward zero."""
    return canon_f32(f64_to_f32_rz(_root_odd(a)))


@lane
def sqrt_f32_rm(a):
    """Square root toward minus infinity."""
    return canon_f32(f64_to_f32_rm(_root_odd(a)))


@lane
def sqrt_f32_rp(a):
    """Square root toward plus infinity."""
    return canon_f32(f64_to_f32_rp(_root_odd(a)))
