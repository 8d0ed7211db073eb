"""FP32, FP64 and half-precision arithmetic."""

from __future__ import annotations

from typing import Any

from .chains import Op, chain_benchmarks
from .gpu import Benchmark

__all__ = ["FAMILY", "benchmarks"]

FAMILY = "floating"

_HALF = (0x3C013C02, 0x3C033C05, 0x3BF53BF7)
_DOUBLE = (0x3FF00001, 0x3FF00003, 0x3FEFFFF5)
_BF16 = (0x3F813F82, 0x3F833F85, 0x3F7F3F7D)


def _op(name: str, text: str, sass: str, count: int = 1, **more: Any) -> Op:
    return Op(name, text, sass, count=count, **more)


def _half(name: str, text: str, sass: str, count: int = 1, **more: Any) -> Op:
    return _op(name, text, sass, count, operands=_HALF, **more)


def _bf16(name: str, text: str, sass: str, count: int = 1, **more: Any) -> Op:
    return _op(name, text, sass, count, operands=_BF16, **more)


def _wide(name: str, text: str, sass: str, count: int = 1, **more: Any) -> Op:
    return _op(name, text, sass, count, kind="b64", operands=_DOUBLE, **more)


OPS = (
    _op("fadd", "add.rn.f32 {x}, {x}, {y};", "FADD"),
    _op("fmul", "mul.rn.f32 {x}, {x}, {y};", "FMUL"),
    _op("ffma", "fma.rn.f32 {x}, {x}, {y}, {z};", "FFMA"),
    _op("ffma_c", "fma.rn.f32 {x}, {y}, {z}, {x};", "FFMA"),
    _op("ffma_square", "fma.rn.f32 {x}, {x}, {x}, {y};", "FFMA"),
    _op("ffma_immediate", "fma.rn.f32 {x}, {x}, 0f3F800001, {y};", "FFMA"),
    _op("ffma_ftz", "fma.rn.ftz.f32 {x}, {x}, {y}, {z};", "FFMA"),
    _op("ffma_rz", "fma.rz.f32 {x}, {x}, {y}, {z};", "FFMA"),
    _op("ffma_sat", "fma.rn.sat.f32 {x}, {x}, {y}, {z};", "FFMA"),
    _op("fmnmx", "min.f32 {t}, {x}, {y}; max.f32 {x}, {t}, {z};", "FMNMX", 2),
    _op("fsetp_fsel", "setp.lt.f32 {p}, {x}, {y}; selp.f32 {x}, {y}, {z}, {p};", r"FSETP|FSEL|SEL", 2),
    _op(
        "fsetp_guard",
        "setp.lt.f32 {p}, {x}, {y}; @{p} add.f32 {x}, {x}, {z};",
        "FSETP",
        note="(with a guarded FADD)",
        others=120,
    ),
    _op("fset", "set.lt.f32.f32 {x}, {x}, {y};", ""),
    _op("div_rn_f32", "div.rn.f32 {x}, {x}, {y};", ""),
    _op("rcp_rn_f32", "rcp.rn.f32 {x}, {x};", ""),
    _op("sqrt_rn_f32", "sqrt.rn.f32 {x}, {x};", ""),
    _wide("dadd", "add.rn.f64 {x}, {x}, {y};", "DADD"),
    _wide("dmul", "mul.rn.f64 {x}, {x}, {y};", "DMUL"),
    _wide("dfma", "fma.rn.f64 {x}, {x}, {y}, {z};", "DFMA"),
    _wide("dfma_c", "fma.rn.f64 {x}, {y}, {z}, {x};", "DFMA"),
    _wide("dmin", "min.f64 {x}, {x}, {y}; add.rn.f64 {x}, {x}, {z};", "", note="(with a DADD)"),
    _wide("dsetp_sel", "setp.lt.f64 {p}, {x}, {y}; selp.f64 {x}, {y}, {z}, {p};", "DSETP", others=240),
    _wide("div_rn_f64", "div.rn.f64 {x}, {x}, {y};", ""),
    _wide("rcp_rn_f64", "rcp.rn.f64 {x}, {x};", ""),
    _wide("sqrt_rn_f64", "sqrt.rn.f64 {x}, {x};", ""),
    _half("hadd2", "add.rn.f16x2 {x}, {x}, {y};", r"HADD2|HFMA2"),
    _half("hmul2", "mul.rn.f16x2 {x}, {x}, {y};", r"HMUL2|HFMA2"),
    _half("hfma2", "fma.rn.f16x2 {x}, {x}, {y}, {z};", "HFMA2"),
    _half("hfma2_c", "fma.rn.f16x2 {x}, {y}, {z}, {x};", "HFMA2"),
    _half("hfma2_relu", "fma.rn.relu.f16x2 {x}, {x}, {y}, {z};", "HFMA2"),
    _half("hmnmx2", "min.f16x2 {t}, {x}, {y}; max.f16x2 {x}, {t}, {z};", "HMNMX2", 2),
    _half("hset2", "set.lt.f16x2.f16x2 {x}, {x}, {y};", "HSET2"),
    _half("hsetp2_sel", "setp.lt.f16x2 {p}|{q}, {x}, {y}; selp.b32 {x}, {y}, {z}, {p};", "HSETP2", others=120),
    _half("hadd", "mov.b32 {{{h}, {k}}}, {x}; add.rn.f16 {h}, {h}, {k}; mov.b32 {x}, {{{h}, {k}}};", "", note="with packing"),
    _half("hfma2_mix", "fma.rn.f16x2 {x}, {x}, {y}, {z}; add.rn.f16x2 {x}, {x}, {y};", "", note="fma then add"),
    _bf16("bfma2", "fma.rn.bf16x2 {x}, {x}, {y}, {z};", r"HFMA2"),
    _bf16("badd2", "add.rn.bf16x2 {x}, {x}, {y};", r"HADD2|HFMA2"),
    _bf16("bmul2", "mul.rn.bf16x2 {x}, {x}, {y};", r"HMUL2|HFMA2"),
    _bf16("bmnmx2", "min.bf16x2 {t}, {x}, {y}; max.bf16x2 {x}, {t}, {z};", "HMNMX2", 2),
)


def benchmarks() -> list[Benchmark]:
    """All of this family."""
    return chain_benchmarks(FAMILY, OPS)
