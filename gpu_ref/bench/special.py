"""The special-function unit and conversions."""

from __future__ import annotations

from typing import Any

from .chains import Op, chain_benchmarks
from .gpu import Benchmark

__all__ = ["FAMILY", "benchmarks"]

FAMILY = "special"


def _op(name: str, text: str, sass: str, count: int = 1, **more: Any) -> Op:
    return Op(name, text, sass, count=count, **more)


OPS = (
    _op("mufu_ex2", "ex2.approx.ftz.f32 {x}, {x};", r"MUFU\.EX2"),
    _op("mufu_lg2", "lg2.approx.ftz.f32 {x}, {x};", r"MUFU\.LG2"),
    _op("mufu_rcp", "rcp.approx.ftz.f32 {x}, {x};", r"MUFU\.(RCP|LG2)", second="lg2.approx.ftz.f32 {x}, {x};"),
    _op("mufu_rsq", "rsqrt.approx.ftz.f32 {x}, {x};", r"MUFU\.RSQ"),
    _op("mufu_sqrt", "sqrt.approx.ftz.f32 {x}, {x};", r"MUFU\.(SQRT|RSQ)", others=240),
    _op("mufu_sin", "sin.approx.ftz.f32 {x}, {x};", r"MUFU\.SIN", note="(with an FMUL)", others=120),
    _op("mufu_cos", "cos.approx.ftz.f32 {x}, {x};", r"MUFU\.COS", note="(with an FMUL)", others=120),
    _op("mufu_tanh", "tanh.approx.f32 {x}, {x};", r"MUFU\.TANH"),
    _op("mufu_tanh_f16x2", "tanh.approx.f16x2 {x}, {x};", r"MUFU\.TANH", 2, others=240),
    _op("mufu_ex2_f16x2", "ex2.approx.f16x2 {x}, {x};", "", operands=(0x3C013C02, 0, 0)),
    _op("mufu_rcp64h", "rcp.approx.ftz.f64 {x}, {x};", r"MUFU\.RCP64H", kind="b64", others=240),
    _op("ex2_approx", "ex2.approx.f32 {x}, {x};", ""),
    _op("lg2_approx", "lg2.approx.f32 {x}, {x};", ""),
    _op("rcp_approx", "rcp.approx.f32 {x}, {x};", ""),
    _op("rsqrt_approx", "rsqrt.approx.f32 {x}, {x};", ""),
    _op("sqrt_approx", "sqrt.approx.f32 {x}, {x};", ""),
    _op("div_approx", "div.approx.f32 {x}, {y}, {x};", ""),
    _op("div_approx_ftz", "div.approx.ftz.f32 {x}, {y}, {x};", ""),
    _op("div_full", "div.full.f32 {x}, {y}, {x};", ""),
    _op("i2f_s32", "cvt.rn.f32.s32 {x}, {x};", r"I2FP|I2F"),
    _op("i2f_u32", "cvt.rz.f32.u32 {x}, {x};", r"I2FP|I2F"),
    _op("f2i_s32", "cvt.rzi.s32.f32 {x}, {x};", r"F2I"),
    _op("f2i_u32", "cvt.rni.u32.f32 {x}, {x};", r"F2I"),
    _op("frnd", "cvt.rmi.f32.f32 {x}, {x};", r"FRND"),
    _op("f2f_f64_f32", "cvt.f64.f32 {w}, {x}; mov.b64 {{{t}, {x}}}, {w};", r"F2F"),
    _op("f2f_f32_f64", "cvt.rn.f32.f64 {t}, {x}; mov.b64 {x}, {{{t}, {t}}};", r"F2F", kind="b64", others=240),
    _op("i2f_f64_s32", "cvt.rn.f64.s32 {w}, {x}; mov.b64 {{{t}, {x}}}, {w};", r"I2F"),
    _op("f2i_s32_f64", "cvt.rzi.s32.f64 {t}, {x}; mov.b64 {x}, {{{t}, {t}}};", r"F2I", kind="b64", others=240),
    _op("i2f_s64", "cvt.rn.f32.s64 {t}, {x}; mov.b64 {x}, {{{t}, {t}}};", r"I2F", kind="b64", others=240),
    _op("f2i_s64", "cvt.rzi.s64.f32 {w}, {x}; mov.b64 {{{t}, {x}}}, {w};", r"F2I"),
    _op("i2f_u8", "cvt.u8.u32 {h}, {x}; cvt.rn.f32.u8 {x}, {h};", ""),
    _op("f2i_u8_sat", "cvt.rzi.sat.u8.f32 {h}, {x}; cvt.u32.u8 {x}, {h};", ""),
    _op("i2f_f16", "cvt.u16.u32 {h}, {x}; cvt.rn.f16.s16 {h}, {h}; mov.b32 {x}, {{{h}, {h}}};", "", note="with packing"),
    _op("f2i_f16", "mov.b32 {{{h}, {k}}}, {x}; cvt.rzi.s32.f16 {x}, {h};", r"F2I", others=120),
    _op("f2f_f16_f32", "cvt.rn.f16.f32 {h}, {x}; cvt.f32.f16 {x}, {h};", "", note="to f16 and back"),
    _op("f2fp_f16x2", "cvt.rn.f16x2.f32 {x}, {x}, {y};", r"F2FP"),
    _op("f2fp_bf16x2", "cvt.rn.bf16x2.f32 {x}, {x}, {y};", r"F2FP"),
    _op("f2fp_bf16_back", "cvt.rn.bf16.f32 {h}, {x}; cvt.f32.bf16 {x}, {h};", "", note="to bf16 and back"),
    _op("f2fp_e4m3x2", "cvt.rn.satfinite.e4m3x2.f32 {h}, {x}, {y}; mov.b32 {x}, {{{h}, {h}}};", "", note="with packing"),
    _op("f16x2_e4m3x2", "mov.b32 {{{h}, {k}}}, {x}; cvt.rn.f16x2.e4m3x2 {x}, {h};", "", note="with unpacking"),
    _op("f2f_tf32", "cvt.rna.tf32.f32 {x}, {x}; add.f32 {x}, {x}, {y};", "", note="(with an FADD)"),
    _op("i2ip", "cvt.pack.sat.s16.s32 {x}, {x}, {y};", ""),
)


def benchmarks() -> list[Benchmark]:
    """All of this family."""
    return chain_benchmarks(FAMILY, OPS)
