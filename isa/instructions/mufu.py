"""Approximate instructions: the special-function unit and what ptxas puts around it (PTX ISA 9.7.3.8 to 9.7.4.10).

An ``.ftz`` form in f32 is one MUFU instruction (``sin`` and ``cos`` scale their operand first). The others scale
operands and results so that subnormals come out right, and have timing classes of their own.
"""

from __future__ import annotations

from isa.arith import approx
from isa.arith.approx import rcp_approx_ftz_f64, rsqrt_approx_f64, rsqrt_approx_ftz_f64, tanh_approx_f32
from isa.instructions.tables import Table, by_type
from isa.spec import flag, instruction

_F16 = ("f16", "f16x2")
_BF16 = ("bf16", "bf16x2")


def _flushing(stem, t="f32") -> Table:
    """``stem_approx_f32`` and ``stem_approx_ftz_f32``, indexed by ``.ftz``."""
    return {False: getattr(approx, f"{stem}_{t}"), True: getattr(approx, f"{stem}_ftz_{t}")}


RCP, SQRT, RSQRT, SIN, COS, LG2, EX2 = (
    _flushing(f"{op}_approx") for op in ("rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2")
)
DIV_APPROX, DIV_FULL = _flushing("div_approx"), _flushing("div_full")
EX2_HALF = by_type(approx, "ex2_approx", _F16) | by_type(approx, "ex2_approx_ftz", _BF16)
TANH_HALF = by_type(approx, "tanh_approx", _F16 + _BF16)


def _unit(op, section):
    """The f32 form of an instruction of the unit."""
    return instruction(
        f"{op}.approx{{ftz}}.f32 d, a",
        timing=lambda p: "mufu" if p["ftz"] and op not in ("sin", "cos") else f"{op}.approx",
        section=section,
        ptx="1.4",
        ftz=flag("ftz"),
    )


# --------------------------------------------------------------------------------------------- quotients and roots


@instruction(
    "div.approx{ftz}.f32 d, a, b",
    timing=lambda p: "div.approx.ftz" if p["ftz"] else "div.approx",
    section="9.7.3.8",
    ptx="1.4",
    ftz=flag("ftz"),
)
def div_approx(a, b, *, ftz):
    """Divide by multiplying with the approximate reciprocal; wrong beyond 2^126, where the reciprocal is zero. ``.ftz``
    takes subnormals as zero."""
    return DIV_APPROX[ftz](a, b)


@instruction(
    "div.full{ftz}.f32 d, a, b",
    timing=lambda p: "div.full.ftz" if p["ftz"] else "div.full",
    section="9.7.3.8",
    ptx="1.4",
    ftz=flag("ftz"),
)
def div_full(a, b, *, ftz):
    """Divide by multiplying with the approximate reciprocal, operands scaled so that the whole range works. ``.ftz``
    takes subnormals as zero."""
    return DIV_FULL[ftz](a, b)


@_unit("rcp", "9.7.3.13")
def rcp(a, *, ftz):
    """Approximate reciprocal, within 1 unit in the last place. ``.ftz`` takes subnormals as zero."""
    return RCP[ftz](a)


@_unit("sqrt", "9.7.3.15")
def sqrt(a, *, ftz):
    """Approximate square root; NaN for negative numbers, -0 for -0. ``.ftz`` takes subnormals as zero."""
    return SQRT[ftz](a)


@_unit("rsqrt", "9.7.3.16")
def rsqrt(a, *, ftz):
    """Approximate reciprocal of the square root; infinity for zero. ``.ftz`` takes subnormals as zero."""
    return RSQRT[ftz](a)


@instruction("rcp.approx.ftz.f64 d, a", timing="mufu", section="9.7.3.14", ptx="2.1")
def rcp_double(a):
    """A coarse reciprocal: only the upper word of the operand counts, and the lower word of the result is zero.
    Subnormals are taken as zero."""
    return rcp_approx_ftz_f64(a)


@instruction(
    "rsqrt.approx{ftz}.f64 d, a",
    timing=lambda p: "mufu" if p["ftz"] else "rsqrt.approx.f64",
    section="9.7.3.17",
    ptx="1.4",
    ftz=flag("ftz"),
)
def rsqrt_double(a, *, ftz):
    """Approximate reciprocal of the square root. With ``.ftz`` a coarse one: only the upper word of the operand counts,
    the lower word of the result is zero, and subnormals are taken as zero."""
    return rsqrt_approx_ftz_f64(a) if ftz else rsqrt_approx_f64(a)


# ---------------------------------------------------------------------------------------- transcendental functions


@_unit("sin", "9.7.3.18")
def sin(a, *, ftz):
    """Approximate sine; the absolute error grows outside [-pi, pi]. ``.ftz`` takes subnormals as zero."""
    return SIN[ftz](a)


@_unit("cos", "9.7.3.19")
def cos(a, *, ftz):
    """Approximate cosine; the absolute error grows outside [-pi, pi]. ``.ftz`` takes subnormals as zero."""
    return COS[ftz](a)


@_unit("lg2", "9.7.3.20")
def lg2(a, *, ftz):
    """Approximate logarithm to base 2; minus infinity for zero. ``.ftz`` takes subnormals as zero."""
    return LG2[ftz](a)


@_unit("ex2", "9.7.3.21")
def ex2(a, *, ftz):
    """Approximate power of 2. ``.ftz`` takes subnormals as zero."""
    return EX2[ftz](a)


@instruction("tanh.approx.f32 d, a", timing="mufu", section="9.7.3.22", sm=75, ptx="7.0")
def tanh(a):
    """Approximate hyperbolic tangent."""
    return tanh_approx_f32(a)


def _half_unit(template, section, sm, ptx, types):
    """A form of the unit in halves; a pair takes it twice."""
    return instruction(
        template,
        timing=lambda p: "mufu.x2" if p["t"].endswith("x2") else "mufu",
        section=section,
        sm=sm,
        ptx=ptx,
        t=types,
    )


@_half_unit("tanh.approx.{t} d, a", "9.7.4.9", 75, "7.0", _F16)
@_half_unit("tanh.approx.{t} d, a", "9.7.4.9", 90, "7.8", _BF16)
def tanh_half(a, *, t):
    """Approximate hyperbolic tangent: the f32 result, truncated."""
    return TANH_HALF[t](a)


@_half_unit("ex2.approx.{t} d, a", "9.7.4.10", 75, "7.0", _F16)
@_half_unit("ex2.approx.ftz.{t} d, a", "9.7.4.10", 90, "7.8", _BF16)
def ex2_half(a, *, t):
    """Approximate power of 2: the f32 result, truncated."""
    return EX2_HALF[t](a)
