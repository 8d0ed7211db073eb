"""The approximate instructions of PTX (``ex2.approx`` …): the special-function unit and what ptxas puts around it.

The sequences were read from the machine code that ptxas 13.0 emits for sm_90. An ``.ftz`` form is the unit alone; the
others bring operands that the unit would flush into its range and undo that afterwards.
"""

from __future__ import annotations

import numpy as np

from isa.arith.bfloat16 import bf16_to_f32
from isa.arith.convert import f32_to_bf16_rz, f32_to_f16_rz
from isa.arith.float32 import canon_f32, ftz_f32, mul_f32_rn, mul_f32_rz, mul_ftz_f32_rn
from isa.arith.float64 import add_f64_rn
from isa.arith.lane import lane
from isa.arith.mufu import (
    mufu_cos,
    mufu_ex2,
    mufu_lg2,
    mufu_rcp,
    mufu_rcp64h,
    mufu_rsq,
    mufu_rsq64h,
    mufu_sin,
    mufu_sqrt,
    mufu_tanh,
)
from isa.arith.packed import pairwise
from isa.arith.primitives import bits_f32, bits_f64, f16_bits_to_f32, f64_bits, fma_f64

__all__ = [
    "cos_approx_f32",
    "cos_approx_ftz_f32",
    "div_approx_f32",
    "div_approx_ftz_f32",
    "div_full_f32",
    "div_full_ftz_f32",
    "ex2_approx_f16",
    "ex2_approx_f16x2",
    "ex2_approx_f32",
    "ex2_approx_ftz_bf16",
    "ex2_approx_ftz_bf16x2",
    "ex2_approx_ftz_f32",
    "lg2_approx_f32",
    "lg2_approx_ftz_f32",
    "rcp_approx_f32",
    "rcp_approx_ftz_f32",
    "rcp_approx_ftz_f64",
    "rsqrt_approx_f32",
    "rsqrt_approx_f64",
    "rsqrt_approx_ftz_f32",
    "rsqrt_approx_ftz_f64",
    "sin_approx_f32",
    "sin_approx_ftz_f32",
    "sqrt_approx_f32",
    "sqrt_approx_ftz_f32",
    "tanh_approx_bf16",
    "tanh_approx_bf16x2",
    "tanh_approx_f16",
    "tanh_approx_f16x2",
    "tanh_approx_f32",
]

_LEAST_NORMAL = np.float32(2.0**-126)
_TWO24 = np.float32(2.0**24)
_TWO126 = np.float32(2.0**126)
_ONE = np.float32(1.0)
_QUARTER = np.float32(0.25)
_TURNS = bits_f32(np.uint32(0x3E22F983))  # 1 / (2 pi)


@lane
def ex2_approx_ftz_f32(x):
    """``ex2.approx.ftz.f32``."""
    return mufu_ex2(x)


@lane
def ex2_approx_f32(x):
    """``ex2.approx.f32``: below -126 the square of 2**(x/2), so that subnormal results appear."""
    small = x < np.float32(-126.0)
    r = mufu_ex2(x * np.float32(0.5) if small else x)
    return canon_f32(r * r if small else r)


@lane
def lg2_approx_ftz_f32(x):
    """``lg2.approx.ftz.f32``."""
    return mufu_lg2(x)


@lane
def lg2_approx_f32(x):
    """``lg2.approx.f32``: subnormals scaled by 2^24."""
    small = abs(x) < _LEAST_NORMAL
    r = mufu_lg2(x * _TWO24 if small else x)
    return canon_f32(r - np.float32(24.0) if small else r)


@lane
def rcp_approx_ftz_f32(x):
    """``rcp.approx.ftz.f32``."""
    return mufu_rcp(x)


@lane
def rcp_approx_f32(x):
    """``rcp.approx.f32``: subnormals scaled by 2^24, numbers above 2^126 by a quarter, before and after."""
    magnitude = abs(x)
    k = _TWO24 if magnitude < _LEAST_NORMAL else (_QUARTER if magnitude > _TWO126 else _ONE)
    return canon_f32(k * mufu_rcp(k * x))


@lane
def rsqrt_approx_ftz_f32(x):
    """``rsqrt.approx.ftz.f32``."""
    return mufu_rsq(x)


@lane
def rsqrt_approx_f32(x):
    """``rsqrt.approx.f32``: subnormals scaled by 2^24, the result by 2^12."""
    small = abs(x) < _LEAST_NORMAL
    r = mufu_rsq(x * _TWO24 if small else x)
    return canon_f32(r * np.float32(4096.0) if small else r)


@lane
def sqrt_approx_ftz_f32(x):
    """``sqrt.approx.ftz.f32``."""
    return mufu_sqrt(x)


@lane
def sqrt_approx_f32(x):
    """``sqrt.approx.f32``: subnormals scaled by 2^24, the result by 2^-12."""
    small = abs(x) < _LEAST_NORMAL
    r = mufu_sqrt(x * _TWO24 if small else x)
    return canon_f32(r * np.float32(2.0**-12) if small else r)


@lane
def sin_approx_ftz_f32(x):
    """``sin.approx.ftz.f32``: the operand times 1/(2 pi), toward zero and flushed, is the unit's."""
    return mufu_sin(ftz_f32(mul_f32_rz(ftz_f32(x), _TURNS)))


@lane
def sin_approx_f32(x):
    """``sin.approx.f32``."""
    return mufu_sin(mul_f32_rz(x, _TURNS))


@lane
def cos_approx_ftz_f32(x):
    """``cos.approx.ftz.f32``."""
    return mufu_cos(ftz_f32(mul_f32_rz(ftz_f32(x), _TURNS)))


@lane
def cos_approx_f32(x):
    """``cos.approx.f32``."""
    return mufu_cos(mul_f32_rz(x, _TURNS))


@lane
def tanh_approx_f32(x):
    """``tanh.approx.f32``."""
    return mufu_tanh(x)


# ----------------------------------------------------------------------------------------------------------- division


@lane
def div_approx_ftz_f32(a, b):
    """``div.approx.ftz.f32``: ``a * rcp(b)``, flushed."""
    return mul_ftz_f32_rn(a, mufu_rcp(b))


@lane
def div_approx_f32(a, b):
    """``div.approx.f32``: both operands scaled by 2^24 where ``b`` is subnormal."""
    k = _TWO24 if abs(b) < _LEAST_NORMAL else _ONE
    return mul_f32_rn(mufu_rcp(b * k), a * k)


@lane
def div_full_ftz_f32(a, b):
    """``div.full.ftz.f32``: both operands scaled by a quarter where ``b`` is above 2^126; flushed."""
    k = _QUARTER if abs(b) > _TWO126 else _ONE
    return mul_ftz_f32_rn(mufu_rcp(b * k), ftz_f32(a) * k)


@lane
def div_full_f32(a, b):
    """``div.full.f32``: scaled by 2^24 where ``b`` is subnormal, by a quarter where it is above 2^126."""
    magnitude = abs(b)
    k = _TWO24 if magnitude < _LEAST_NORMAL else (_QUARTER if magnitude > _TWO126 else _ONE)
    return mul_f32_rn(mufu_rcp(b * k), a * k)


# ---------------------------------------------------------------------------------------------------------------- f64


@lane
def _high_word(x):
    return np.uint32(f64_bits(x) >> np.uint64(32))


@lane
def _from_high_word(u):
    return bits_f64(np.uint64(u) << np.uint64(32))


@lane
def rcp_approx_ftz_f64(x):
    """``rcp.approx.ftz.f64``: about 20 bits, from the high word alone; the low word of the result is zero."""
    return _from_high_word(mufu_rcp64h(_high_word(x)))


@lane
def rsqrt_approx_ftz_f64(x):
    """``rsqrt.approx.ftz.f64``: about 20 bits, from the high word alone; the low word of the result is zero."""
    return _from_high_word(mufu_rsq64h(_high_word(x)))


@lane
def _refined_rsqrt(x):
    """The unit's reciprocal root, refined by one third-order step."""
    y = rsqrt_approx_ftz_f64(x)
    e = fma_f64(x, -(y * y), 1.0)
    return fma_f64(fma_f64(e, 0.375, 0.5), y * e, y)


@lane
def rsqrt_approx_f64(x):
    """``rsqrt.approx.f64``: the unit's value refined once; subnormals scaled by 2^54, the result by 2^27."""
    small = (x > 0.0) & (x < 2.2250738585072014e-308)
    refined = _refined_rsqrt(x * 18014398509481984.0 if small else x)
    finite = refined * 134217728.0 if small else refined
    zero = bits_f64((f64_bits(x) & np.uint64(1 << 63)) | np.uint64(0x7FF0000000000000))
    special = zero if x == 0.0 else (0.0 if x > 0.0 else bits_f64(np.uint64(0xFFF8000000000000)))
    r = finite if (x > 0.0) & (x < np.inf) else special
    return add_f64_rn(x, x) if x != x else r


# ------------------------------------------------------------------------------------------------------------- halves


@lane
def _f16_of(r):
    """The unit's f32 result cut to f16; beyond its range infinity."""
    u = f32_to_f16_rz(r)
    return np.uint16(0x7C00) if r >= np.float32(65536.0) else u


@lane
def ex2_approx_f16(u):
    """``ex2.approx.f16``: the f32 result, truncated; subnormal results are kept."""
    return _f16_of(mufu_ex2(f16_bits_to_f32(u)))


@lane
def ex2_approx_ftz_bf16(u):
    """``ex2.approx.ftz.bf16``: the f32 result, truncated."""
    return f32_to_bf16_rz(mufu_ex2(bf16_to_f32(u)))


@lane
def tanh_approx_f16(u):
    """``tanh.approx.f16``: the f32 result, truncated."""
    return f32_to_f16_rz(mufu_tanh(f16_bits_to_f32(u)))


@lane
def tanh_approx_bf16(u):
    """``tanh.approx.bf16``: the f32 result, truncated."""
    return f32_to_bf16_rz(mufu_tanh(bf16_to_f32(u)))


ex2_approx_f16x2 = pairwise(ex2_approx_f16, 1)
ex2_approx_ftz_bf16x2 = pairwise(ex2_approx_ftz_bf16, 1)
tanh_approx_f16x2 = pairwise(tanh_approx_f16, 1)
tanh_approx_bf16x2 = pairwise(tanh_approx_bf16, 1)
