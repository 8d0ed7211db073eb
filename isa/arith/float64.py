"""f64 arithmetic (PTX ISA 9.7.3): all four roundings, exact for every input, subnormals and overflow included.

Nearest-even is the processor's own. For the other modes the result to nearest is stepped by one unit in the last
place where the sign of ``exact - nearest`` says so. That sign is found with float64 alone: the operands are scaled to
about one, which leaves the four terms of ``a * b + c - nearest`` free of overflow and underflow, and an exact sum of
four numbers (Shewchuk, "Adaptive Precision Floating-Point Arithmetic", 1997) gives their sign.
"""

from __future__ import annotations

import numpy as np

from isa.arith.lane import lane
from isa.arith.primitives import bits_f64, f64_bits, fma_f64
from isa.arith.rounding import sum_error

__all__ = [
    "abs_f64",
    "add_f64_rm",
    "add_f64_rn",
    "add_f64_rp",
    "add_f64_rz",
    "copysign_f64",
    "div_f64_rm",
    "div_f64_rn",
    "div_f64_rp",
    "div_f64_rz",
    "fma_f64_rm",
    "fma_f64_rn",
    "fma_f64_rp",
    "fma_f64_rz",
    "mul_f64_rm",
    "mul_f64_rn",
    "mul_f64_rp",
    "mul_f64_rz",
    "nan_f64",
    "neg_f64",
    "sat_f64",
    "sqrt_f64_rm",
    "sqrt_f64_rn",
    "sqrt_f64_rp",
    "sqrt_f64_rz",
    "step_f64_rm",
    "step_f64_rp",
    "step_f64_rz",
]

_SIGN = np.uint64(1 << 63)
_MAGNITUDE = np.uint64((1 << 63) - 1)
_QUIET = np.uint64(1 << 51)
_INVALID = np.uint64(0xFFF8000000000000)
_FAR = np.int64(300)  # scaled terms farther apart than this many binades matter by their sign alone
_FLOOR = np.int64(-1100)  # no reference exponent below this, which is itself below every float64
_ABSENT = np.int64(-5000)  # exponent of a zero


# ---------------------------------------------------------------------------------------------------------------- NaN


# A NaN result is a NaN operand, quieted, its sign and payload kept; 0xFFF8000000000000 if there is none (an invalid
# operation). Of several NaN operands add and mul take b before a, fma takes b, c, a, and div takes a before b (read
# from an H200, driver 580.159.04).


@lane
def nan_f64(x, y, z, r):
    """``r``, or if it is NaN the first NaN of ``x``, ``y``, ``z``, quieted, or the default NaN."""
    first = x if x != x else (y if y != y else z)
    quiet = (f64_bits(first) | _QUIET) if first != first else _INVALID
    return bits_f64(quiet) if r != r else r


# ------------------------------------------------------------------------------------------- sign of what was rounded


@lane
def _exponent(x):
    """``x`` is ``m * 2**e`` with 1 <= abs(m) < 2: ``e``, or a very small number for zero."""
    tiny = abs(x) < 2.2250738585072014e-308  # the least normal number
    u = f64_bits(x * 18014398509481984.0 if tiny else x) & _MAGNITUDE  # 2**54
    e = np.int64(u >> np.uint64(52)) - (np.int64(1077) if tiny else np.int64(1023))
    return e if u != np.uint64(0) else _ABSENT


@lane
def _significand(x):
    """``m`` of :func:`_exponent`; zero for zero."""
    tiny = abs(x) < 2.2250738585072014e-308
    u = f64_bits(x * 18014398509481984.0 if tiny else x)
    one = (u & np.uint64(0x800FFFFFFFFFFFFF)) | np.uint64(0x3FF0000000000000)
    return bits_f64(one if (u & _MAGNITUDE) != np.uint64(0) else u)


@lane
def _scale(k):
    """``2**k`` for ``k`` clamped to within :data:`_FAR` of zero."""
    near = min(max(k, -_FAR), _FAR)
    return bits_f64(np.uint64(near + np.int64(1023)) << np.uint64(52))


@lane
def _residual(a, b, c, r):
    """A number with the sign of the exact ``a * b + c - r``, for finite operands and ``r``, that sum to nearest."""
    e_product = _exponent(a) + _exponent(b)
    e_c = _exponent(c)
    reference = max(max(e_product, e_c), _FLOOR)
    product = _significand(a) * _significand(b)
    rest = fma_f64(_significand(a), _significand(b), -product)
    scale = _scale(e_product - reference)
    x0, x1 = product * scale, rest * scale
    x2 = _significand(c) * _scale(e_c - reference)
    x3 = -_significand(r) * _scale(_exponent(r) - reference)
    # Exact sum: add the terms one by one to an expansion whose parts do not overlap; its leading part has the sign.
    s = x2 + x3
    e0 = sum_error(x2, x3, s)
    t = e0 + x1
    e1 = sum_error(e0, x1, t)
    s2 = s + t
    e2 = sum_error(s, t, s2)
    t = e1 + x0
    e3 = sum_error(e1, x0, t)
    u = e2 + t
    e4 = sum_error(e2, t, u)
    top = s2 + u
    e5 = sum_error(s2, u, top)
    return top if top != 0.0 else (e5 if e5 != 0.0 else (e4 if e4 != 0.0 else e3))


@lane
def _inner(residual, r, finite):
    """``residual``; toward zero where the finite exact value overflowed to ``r``; 0 where operands were not finite."""
    return (residual if abs(r) < np.inf else -r) if finite else 0.0


@lane
def step_f64_rz(r, residual):
    """``r``, the exact value rounded to nearest, rounded toward zero instead, given the sign of ``exact - r``."""
    beyond = ((residual < 0.0) & (r > 0.0)) | ((residual > 0.0) & (r < 0.0))
    return bits_f64(f64_bits(r) - np.uint64(beyond))


@lane
def step_f64_rm(r, residual):
    """``r`` rounded toward minus infinity instead."""
    u = f64_bits(r)
    above = np.uint64(residual < 0.0)
    return bits_f64(u + above if (u & _SIGN) != np.uint64(0) else u - above)


@lane
def step_f64_rp(r, residual):
    """``r`` rounded toward plus infinity instead."""
    u = f64_bits(r)
    below = np.uint64(residual > 0.0)
    return bits_f64(u - below if (u & _SIGN) != np.uint64(0) else u + below)


# ------------------------------------------------------------------------------------------------- fused multiply-add


@lane
def _sum_residual(a, b, c, r):
    finite = (abs(a) < np.inf) & (abs(b) < np.inf) & (abs(c) < np.inf)
    return _inner(_residual(a, b, c, r), r, finite)


@lane
def fma_f64_rn(a, b, c):
    """``a * b + c`` with one rounding, to nearest even."""
    return nan_f64(b, c, a, fma_f64(a, b, c))


@lane
def fma_f64_rz(a, b, c):
    """``a * b + c`` with one rounding, toward zero."""
    r = fma_f64(a, b, c)
    return nan_f64(b, c, a, step_f64_rz(r, _sum_residual(a, b, c, r)))


@lane
def fma_f64_rm(a, b, c):
    """``a * b + c`` with one rounding, toward minus infinity; an exact zero is -0 unless both terms are +0."""
    r = fma_f64(a, b, c)
    residual = _sum_residual(a, b, c, r)
    negative = (((f64_bits(a) ^ f64_bits(b)) | f64_bits(c)) & _SIGN) != np.uint64(0)
    zero = (r == 0.0) & (residual == 0.0)
    return nan_f64(b, c, a, (-0.0 if negative else 0.0) if zero else step_f64_rm(r, residual))


@lane
def fma_f64_rp(a, b, c):
    """``a * b + c`` with one rounding, toward plus infinity."""
    r = fma_f64(a, b, c)
    return nan_f64(b, c, a, step_f64_rp(r, _sum_residual(a, b, c, r)))


# ------------------------------------------------------------------------------------------------------ add, multiply


@lane
def add_f64_rn(a, b):
    """``a + b`` to nearest even."""
    return nan_f64(b, a, a, a + b)


@lane
def add_f64_rz(a, b):
    """``a + b`` toward zero."""
    r = a + b
    return nan_f64(b, a, a, step_f64_rz(r, _sum_residual(a, 1.0, b, r)))


@lane
def add_f64_rm(a, b):
    """``a + b`` toward minus infinity; an exact zero is -0 unless both are +0."""
    r = a + b
    negative = ((f64_bits(a) | f64_bits(b)) & _SIGN) != np.uint64(0)
    stepped = step_f64_rm(r, _sum_residual(a, 1.0, b, r))
    return nan_f64(b, a, a, (-0.0 if negative else 0.0) if r == 0.0 else stepped)


@lane
def add_f64_rp(a, b):
    """``a + b`` toward plus infinity."""
    r = a + b
    return nan_f64(b, a, a, step_f64_rp(r, _sum_residual(a, 1.0, b, r)))


@lane
def mul_f64_rn(a, b):
    """``a * b`` to nearest even."""
    return nan_f64(b, a, a, a * b)


@lane
def mul_f64_rz(a, b):
    """``a * b`` toward zero."""
    r = a * b
    return nan_f64(b, a, a, step_f64_rz(r, _sum_residual(a, b, 0.0, r)))


@lane
def mul_f64_rm(a, b):
    """``a * b`` toward minus infinity."""
    r = a * b
    return nan_f64(b, a, a, step_f64_rm(r, _sum_residual(a, b, 0.0, r)))


@lane
def mul_f64_rp(a, b):
    """``a * b`` toward plus infinity."""
    r = a * b
    return nan_f64(b, a, a, step_f64_rp(r, _sum_residual(a, b, 0.0, r)))


# ------------------------------------------------------------------------------------------- quotient and square root


@lane
def _quotient_residual(a, b, q):
    """Sign of ``a / b - q``: that of the remainder ``a - q * b``, times the sign of ``b``."""
    remainder = _residual(-q, b, a, 0.0)
    finite = (abs(a) < np.inf) & (abs(b) < np.inf) & (b != 0.0)
    return _inner(remainder if b > 0.0 else -remainder, q, finite)


@lane
def div_f64_rn(a, b):
    """``a / b`` to nearest even."""
    return nan_f64(a, b, b, a / b)


@lane
def div_f64_rz(a, b):
    """``a / b`` toward zero."""
    q = a / b
    return nan_f64(a, b, b, step_f64_rz(q, _quotient_residual(a, b, q)))


@lane
def div_f64_rm(a, b):
    """``a / b`` toward minus infinity."""
    q = a / b
    return nan_f64(a, b, b, step_f64_rm(q, _quotient_residual(a, b, q)))


@lane
def div_f64_rp(a, b):
    """``a / b`` toward plus infinity."""
    q = a / b
    return nan_f64(a, b, b, step_f64_rp(q, _quotient_residual(a, b, q)))


@lane
def _root_residual(a, root):
    return _inner(_residual(-root, root, a, 0.0), root, (a >= 0.0) & (a < np.inf))


@lane
def sqrt_f64_rn(a):
    """Square root to nearest even; -0 is kept, other negatives give NaN."""
    return nan_f64(a, a, a, np.sqrt(a))


@lane
def sqrt_f64_rz(a):
    """Square root toward zero."""
    root = np.sqrt(a)
    return nan_f64(a, a, a, step_f64_rz(root, _root_residual(a, root)))


@lane
def sqrt_f64_rm(a):
    """Square root toward minus infinity."""
    root = np.sqrt(a)
    return nan_f64(a, a, a, step_f64_rm(root, _root_residual(a, root)))


@lane
def sqrt_f64_rp(a):
    """Square root toward plus infinity."""
    root = np.sqrt(a)
    return nan_f64(a, a, a, step_f64_rp(root, _root_residual(a, root)))


# -------------------------------------------------------------------------------------------------------------- signs


@lane
def abs_f64(x):
    """Absolute value; NaN is quieted and keeps its sign."""
    u = f64_bits(x)
    return bits_f64(u & _MAGNITUDE if x == x else u | _QUIET)


@lane
def neg_f64(x):
    """Negation; NaN is quieted and keeps its sign."""
    u = f64_bits(x)
    return bits_f64(u ^ _SIGN if x == x else u | _QUIET)


@lane
def copysign_f64(a, b):
    """PTX ``copysign d, a, b``: the sign of ``a`` with the magnitude of ``b``, bit for bit."""
    return bits_f64((f64_bits(a) & _SIGN) | (f64_bits(b) & _MAGNITUDE))


@lane
def sat_f64(x):
    """``.sat``: clamp to [0, 1]; NaN, -0 and everything negative give +0."""
    low = x if x > 0.0 else 0.0
    return low if low < 1.0 else 1.0
